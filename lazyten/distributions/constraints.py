"""Sets of values: what parameters and samples of a distribution may be.

A constraint's check(value) tells for each element, or each event, whether it is inside.
"""
from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from lazyten.frontend.functions import cat as joined
from lazyten.frontend.functions import stack as stacked
from lazyten.frontend.limits import finfo
from lazyten.frontend.tensor import Tensor
from lazyten.linalg.spectra import eigvalsh
from lazyten.linalg.triangles import cholesky_ex
from lazyten.support.errors import NotDefinedError, ShapeError

Bound = Tensor | float


class Constraint:
    """A set of values. event_dim: how many axes one value has."""

    is_discrete = False
    event_dim = 0

    def check(self, value: Tensor) -> Tensor:
        """Whether each value is inside, as bools of the batch's shape."""
        raise NotDefinedError(f"{type(self).__name__} does not define check()")

    def __repr__(self) -> str:
        held = ", ".join(f"{k}={v}" for k, v in vars(self).items())
        words = type(self).__name__.strip("_").split("_")
        return f"{''.join(word[:1].upper() + word[1:] for word in words)}({held})"


class _Dependent(Constraint):
    """Depends on other parameters, and is not checked. dependent(is_discrete=.., event_dim=..) says
    what is known of it."""

    def __init__(self, *, is_discrete: bool = False, event_dim: int = 0) -> None:
        self.is_discrete, self.event_dim = is_discrete, event_dim

    def __call__(self, *, is_discrete: bool | None = None,
                 event_dim: int | None = None) -> _Dependent:
        return _Dependent(
            is_discrete=self.is_discrete if is_discrete is None else is_discrete,
            event_dim=self.event_dim if event_dim is None else event_dim)

    def check(self, value: Tensor) -> Tensor:
        return value == value

    def __repr__(self) -> str:
        return "Dependent()"


class dependent_property(property, _Dependent):  # PyTorch's name
    """A property that gives a set of values which depends on the parameters, as a distribution's
    support: a decorator, or dependent_property(is_discrete=.., event_dim=..) makes one."""

    def __init__(self, fn: Callable[[Any], Constraint] | None = None, *, is_discrete: bool = False,
                 event_dim: int = 0) -> None:
        super().__init__(fn)
        self.is_discrete, self.event_dim = is_discrete, event_dim

    def __call__(self, fn: Callable[[Any], Constraint]) -> dependent_property:  # type: ignore[override]
        return dependent_property(fn, is_discrete=self.is_discrete, event_dim=self.event_dim)


class _Boolean(Constraint):
    is_discrete = True

    def check(self, value: Tensor) -> Tensor:
        return (value == 0) | (value == 1)


class _OneHot(Constraint):
    is_discrete = True
    event_dim = 1

    def check(self, value: Tensor) -> Tensor:
        return ((value == 0) | (value == 1)).all(-1) & (value.sum(-1) == 1)


class integer_interval(Constraint):  # PyTorch's name, as all below
    """Whole numbers from lower_bound to upper_bound."""

    is_discrete = True

    def __init__(self, lower_bound: Bound, upper_bound: Bound) -> None:
        self.lower_bound, self.upper_bound = lower_bound, upper_bound

    def check(self, value: Tensor) -> Tensor:
        return (value % 1 == 0) & (value >= self.lower_bound) & (value <= self.upper_bound)


class greater_than(Constraint):
    """Above lower_bound."""

    def __init__(self, lower_bound: Bound) -> None:
        self.lower_bound = lower_bound

    def check(self, value: Tensor) -> Tensor:
        return value > self.lower_bound


class greater_than_eq(Constraint):
    """lower_bound or above."""

    def __init__(self, lower_bound: Bound) -> None:
        self.lower_bound = lower_bound

    def check(self, value: Tensor) -> Tensor:
        return value >= self.lower_bound


class less_than(Constraint):
    """Below upper_bound."""

    def __init__(self, upper_bound: Bound) -> None:
        self.upper_bound = upper_bound

    def check(self, value: Tensor) -> Tensor:
        return value < self.upper_bound


class interval(Constraint):
    """From lower_bound to upper_bound."""

    def __init__(self, lower_bound: Bound, upper_bound: Bound) -> None:
        self.lower_bound, self.upper_bound = lower_bound, upper_bound

    def check(self, value: Tensor) -> Tensor:
        return (value >= self.lower_bound) & (value <= self.upper_bound)


class half_open_interval(interval):
    """From lower_bound to below upper_bound."""

    def check(self, value: Tensor) -> Tensor:
        return (value >= self.lower_bound) & (value < self.upper_bound)


class multinomial(Constraint):
    """Counts of at most upper_bound altogether, as PyTorch has it."""

    is_discrete = True
    event_dim = 1

    def __init__(self, upper_bound: int) -> None:
        self.upper_bound = upper_bound

    def check(self, x: Tensor) -> Tensor:
        return (x >= 0).all(-1) & (x.sum(-1) <= self.upper_bound)


class _NonnegativeInteger(Constraint):
    is_discrete = True

    def check(self, value: Tensor) -> Tensor:
        return (value % 1 == 0) & (value >= 0)


class _Real(Constraint):
    def check(self, value: Tensor) -> Tensor:
        return value == value  # not NaN


class _Simplex(Constraint):
    event_dim = 1

    def check(self, value: Tensor) -> Tensor:
        return (value >= 0).all(-1) & ((value.sum(-1) - 1).abs() < 1e-6)


class _LowerCholesky(Constraint):
    event_dim = 2

    def check(self, value: Tensor) -> Tensor:
        lower = (value.tril() == value).all(-1).all(-1)
        return lower & (value.diagonal(dim1=-2, dim2=-1) > 0).all(-1)


class _Symmetric(Constraint):
    event_dim = 2

    def check(self, value: Tensor) -> Tensor:
        gap = (value - value.transpose(-2, -1)).abs()
        return (gap <= 1e-6 + 1e-5 * value.abs()).all(-1).all(-1)


class _PositiveDefinite(_Symmetric):
    """What has a Cholesky factor."""

    def check(self, value: Tensor) -> Tensor:
        return super().check(value) & (cholesky_ex(value.detach()).info == 0)


class _PositiveSemidefinite(_Symmetric):
    """What has no eigenvalue below 0."""

    def check(self, value: Tensor) -> Tensor:
        return super().check(value) & (eigvalsh(value.detach()) >= 0).all(-1)


class _Square(Constraint):
    event_dim = 2

    def check(self, value: Tensor) -> Tensor:
        zeros: Tensor = value.new_zeros(value.shape[:-2])
        return zeros == (0 if value.shape[-1] == value.shape[-2] else 1)


class _LowerTriangular(Constraint):
    event_dim = 2

    def check(self, value: Tensor) -> Tensor:
        return (value.tril() == value).all(-1).all(-1)


class _CorrCholesky(_LowerCholesky):
    def check(self, value: Tensor) -> Tensor:
        near = finfo(value.dtype).eps * value.shape[-1] * 10
        length = value.square().sum(-1).sqrt()
        return super().check(value) & ((length - 1).abs() <= near).all(-1)


class _SideBySide(Constraint):
    """Parts of values along an axis, each in a set of its own."""

    def __init__(self, cseq: Sequence[Constraint], dim: int = 0) -> None:
        self.cseq, self.dim = list(cseq), dim
        self.is_discrete = any(c.is_discrete for c in self.cseq)


class cat(_SideBySide):
    """Parts of these lengths, 1 each unless given."""

    def __init__(self, cseq: Sequence[Constraint], dim: int = 0,
                 lengths: Sequence[int] | None = None) -> None:
        super().__init__(cseq, dim)
        self.lengths = [1] * len(self.cseq) if lengths is None else list(lengths)
        self.event_dim = max((c.event_dim for c in self.cseq), default=0)

    def check(self, value: Tensor) -> Tensor:
        parts = value.split(self.lengths, self.dim)
        return joined([c.check(part) for c, part in zip(self.cseq, parts, strict=True)], self.dim)


class stack(_SideBySide):
    """Slices."""

    def __init__(self, cseq: Sequence[Constraint], dim: int = 0) -> None:
        super().__init__(cseq, dim)
        dims = [c.event_dim for c in self.cseq]
        self.event_dim = max(dims, default=0) + (dim + max(dims, default=0) < 0)

    def check(self, value: Tensor) -> Tensor:
        parts = value.unbind(self.dim)
        return stacked([c.check(part) for c, part in zip(self.cseq, parts, strict=True)], self.dim)


class independent(Constraint):
    """The last axes of a set of values are one value."""

    def __init__(self, base_constraint: Constraint, reinterpreted_batch_ndims: int) -> None:
        self.base_constraint = base_constraint
        self.reinterpreted_batch_ndims = reinterpreted_batch_ndims
        self.is_discrete = base_constraint.is_discrete
        self.event_dim = base_constraint.event_dim + reinterpreted_batch_ndims

    def check(self, value: Tensor) -> Tensor:
        found = self.base_constraint.check(value)
        for _ in range(self.reinterpreted_batch_ndims):
            found = found.all(-1)
        return found


class MixtureSameFamilyConstraint(Constraint):
    """Values that all components of a mixture can have, whose last axis of a batch they lack."""

    def __init__(self, base_constraint: Constraint) -> None:
        self.base_constraint = base_constraint
        self.is_discrete = base_constraint.is_discrete
        self.event_dim = base_constraint.event_dim

    def check(self, value: Tensor) -> Tensor:
        if value.ndim < self.event_dim:
            raise ShapeError(f"a value of shape {value.shape} has fewer axes than the "
                             f"{self.event_dim} of one value")
        found = self.base_constraint.check(value.unsqueeze(-1 - self.event_dim))
        kept = found.shape[:value.ndim - self.event_dim]
        return found.reshape(*kept, -1).all(-1)


dependent = _Dependent()
boolean = _Boolean()
one_hot = _OneHot()
nonnegative_integer = _NonnegativeInteger()
positive_integer = integer_interval(1, float("inf"))
real = _Real()
real_vector = independent(real, 1)
positive = greater_than(0.0)
nonnegative = greater_than_eq(0.0)
unit_interval = interval(0.0, 1.0)
simplex = _Simplex()
lower_cholesky = _LowerCholesky()
lower_triangular = _LowerTriangular()
corr_cholesky = _CorrCholesky()
square = _Square()
symmetric = _Symmetric()
positive_definite = _PositiveDefinite()
positive_semidefinite = _PositiveSemidefinite()


def is_dependent(constraint: Constraint) -> bool:
    """Whether a constraint depends on other parameters."""
    return isinstance(constraint, _Dependent)
