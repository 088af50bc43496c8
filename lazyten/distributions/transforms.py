"""Functions with an inverse: those of vectors and matrices, and by which constraint one is found.

In: unconstrained numbers. Out: probabilities, triangular and positive definite matrices, parts that
are transformed apart. Those of single numbers are in elementwise_transforms.py, and here by name.
"""
from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from lazyten.distributions import constraints
from lazyten.distributions.constraints import Constraint
from lazyten.distributions.distribution import Distribution, sum_rightmost
from lazyten.distributions.elementwise_transforms import AbsTransform as AbsTransform
from lazyten.distributions.elementwise_transforms import AffineTransform as AffineTransform
from lazyten.distributions.elementwise_transforms import ComposeTransform as ComposeTransform
from lazyten.distributions.elementwise_transforms import ExpTransform as ExpTransform
from lazyten.distributions.elementwise_transforms import (
    IndependentTransform as IndependentTransform,
)
from lazyten.distributions.elementwise_transforms import PowerTransform as PowerTransform
from lazyten.distributions.elementwise_transforms import SigmoidTransform as SigmoidTransform
from lazyten.distributions.elementwise_transforms import SoftmaxTransform as SoftmaxTransform
from lazyten.distributions.elementwise_transforms import SoftplusTransform as SoftplusTransform
from lazyten.distributions.elementwise_transforms import TanhTransform as TanhTransform
from lazyten.distributions.elementwise_transforms import Transform as Transform
from lazyten.distributions.elementwise_transforms import _InverseTransform as _InverseTransform
from lazyten.distributions.elementwise_transforms import identity_transform as identity_transform
from lazyten.distributions.elementwise_transforms import inside
from lazyten.distributions.multivariate import cholesky
from lazyten.frontend.array_functions import tril_indices
from lazyten.frontend.core.size import Size
from lazyten.frontend.functions import arange, cat, eye, stack
from lazyten.frontend.limits import finfo
from lazyten.frontend.tensor import Tensor
from lazyten.nn.functional import pad, softplus
from lazyten.support.errors import ArgumentError, NotDefinedError, ShapeError

# ---- vectors and matrices ------------------------------------------------------------------------

class StickBreakingTransform(Transform):
    """(..., n) numbers -> (..., n + 1) probabilities: each takes its part of what is left."""

    domain = constraints.real_vector
    codomain = constraints.simplex

    def _call(self, x: Tensor) -> Tensor:
        part = inside((x - self._even(x)).sigmoid())
        return pad(part, (0, 1), value=1.0) * pad((1 - part).cumprod(-1), (1, 0), value=1.0)

    def _inverse(self, y: Tensor) -> Tensor:
        known = y[..., :-1]
        left = (1 - known.cumsum(-1)).clamp(min=finfo(y.dtype).tiny)
        return known.log() - left.log() + self._even(known)

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        x = x - self._even(x)
        return (y[..., :-1].log() - softplus(x)).sum(-1)

    @staticmethod
    def _even(x: Tensor) -> Tensor:
        """What makes x = 0 the even split: the log of how many parts are left after each."""
        count = x.shape[-1]
        return (count - arange(count, dtype=x.dtype, device=x.device)).log()

    def forward_shape(self, shape: Any) -> Any:
        return Size((*shape[:-1], shape[-1] + 1))

    def inverse_shape(self, shape: Any) -> Any:
        return Size((*shape[:-1], shape[-1] - 1))


class CorrCholeskyTransform(Transform):
    """(..., n * (n - 1) / 2) numbers -> Cholesky factors (..., n, n) of correlations: rows of
    length 1, of which each number's tanh is its part of the length that is left."""

    domain = constraints.real_vector
    codomain = constraints.corr_cholesky

    def _call(self, x: Tensor) -> Tensor:
        limit = 1 - finfo(x.dtype).eps
        size = self.forward_shape(x.shape)[-1]
        below = _placed(x.tanh().clamp(min=-limit, max=limit), size)
        left = (1 - below.square()).sqrt().cumprod(-1)
        one = eye(size, dtype=x.dtype, device=x.device)
        return (below + one) * pad(left[..., :-1], (1, 0), value=1.0)

    def _inverse(self, y: Tensor) -> Tensor:
        left = pad((1 - y.square().cumsum(-1))[..., :-1], (1, 0), value=1.0)
        part = _below(y) / _below(left).sqrt()
        return (part.log1p() - (-part).log1p()) / 2

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor, intermediates: Any = None) -> Tensor:
        """Of the numbers below y's diagonal. (intermediates: PyTorch's cache, which is empty.)"""
        left = 1 - y.square().cumsum(-1)
        sticks = 0.5 * _below(left, -2).log().sum(-1)
        return sticks - 2 * (x + softplus(-2 * x) - math.log(2.0)).sum(-1)

    def forward_shape(self, shape: Any) -> Any:
        """The shape of y. ShapeError unless x has a number for each element below a diagonal."""
        size = round((0.25 + 2 * shape[-1])**0.5 + 0.5)
        if size * (size - 1) // 2 != shape[-1]:
            raise ShapeError(f"CorrCholeskyTransform of shape {Size(shape)}: the last axis must "
                             f"have n * (n - 1) / 2 numbers: 1, 3, 6, 10 and so on")
        return Size((*shape[:-1], size, size))

    def inverse_shape(self, shape: Any) -> Any:
        return Size((*shape[:-2], shape[-1] * (shape[-1] - 1) // 2))


def _placed(x: Tensor, size: int) -> Tensor:
    """The numbers as elements below the diagonals of matrices, row after row."""
    rows, columns = tril_indices(size, size, -1, device=x.device)
    empty = x.new_zeros((*x.shape[:-1], size * size))
    places = (rows * size + columns).expand(*x.shape)
    return empty.scatter(-1, places, x).unflatten(-1, (size, size))


def _below(y: Tensor, diagonal: int = -1) -> Tensor:
    """(..., n, n) -> the elements below, row after row."""
    rows, columns = tril_indices(y.shape[-1], y.shape[-1], diagonal, device=y.device)
    return y[..., rows, columns]


class LowerCholeskyTransform(Transform):
    """(..., n, n) numbers -> lower triangular matrices with a diagonal above 0."""

    domain = constraints.independent(constraints.real, 2)
    codomain = constraints.lower_cholesky

    def _call(self, x: Tensor) -> Tensor:
        return x.tril(-1) + x.diagonal(dim1=-2, dim2=-1).exp().diag_embed()

    def _inverse(self, y: Tensor) -> Tensor:
        return y.tril(-1) + y.diagonal(dim1=-2, dim2=-1).log().diag_embed()


class PositiveDefiniteTransform(Transform):
    """(..., n, n) numbers -> positive definite matrices, by their Cholesky factors."""

    domain = constraints.independent(constraints.real, 2)
    codomain = constraints.positive_definite

    def _call(self, x: Tensor) -> Tensor:
        lower = LowerCholeskyTransform()(x)
        return lower @ lower.mT

    def _inverse(self, y: Tensor) -> Tensor:
        return LowerCholeskyTransform()._inverse(cholesky(y))


class ReshapeTransform(Transform):
    """The last axes in another shape of as many elements."""

    def __init__(self, in_shape: Sequence[int], out_shape: Sequence[int],
                 cache_size: int = 0) -> None:
        super().__init__(cache_size)
        self.in_shape, self.out_shape = Size(in_shape), Size(out_shape)
        if self.in_shape.numel() != self.out_shape.numel():
            raise ArgumentError(f"ReshapeTransform: {self.in_shape} and {self.out_shape} have "
                                f"different numbers of elements")
        self.domain = constraints.independent(constraints.real, len(self.in_shape))
        self.codomain = constraints.independent(constraints.real, len(self.out_shape))

    def _call(self, x: Tensor) -> Tensor:
        return x.reshape(*self.forward_shape(x.shape))

    def _inverse(self, y: Tensor) -> Tensor:
        return y.reshape(*self.inverse_shape(y.shape))

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        return x.new_zeros(x.shape[:x.ndim - len(self.in_shape)])

    def forward_shape(self, shape: Any) -> Any:
        return self._reshaped(shape, self.in_shape, self.out_shape)

    def inverse_shape(self, shape: Any) -> Any:
        return self._reshaped(shape, self.out_shape, self.in_shape)

    def _reshaped(self, shape: Sequence[int], before: Size, after: Size) -> Size:
        kept = len(shape) - len(before)
        if kept < 0 or tuple(shape[kept:]) != tuple(before):
            raise ShapeError(f"ReshapeTransform of shape {Size(shape)}: the last axes must be "
                             f"{before}")
        return Size((*shape[:kept], *after))


# ---- several transforms side by side -------------------------------------------------------------

class _SideBySide(Transform):
    """Parts along an axis, each by a transform of its own."""

    def __init__(self, tseq: Sequence[Transform], dim: int, cache_size: int) -> None:
        super().__init__(cache_size)
        self.transforms, self.dim = list(tseq), dim
        if not all(isinstance(t, Transform) for t in self.transforms):
            raise ArgumentError(f"{type(self).__name__}: {self.transforms!r:.80} are not "
                                f"transforms")
        self.bijective = all(t.bijective for t in self.transforms)

    def _parts(self, x: Tensor) -> list[Tensor]:
        raise NotImplementedError

    def _joined(self, parts: list[Tensor]) -> Tensor:
        raise NotImplementedError

    def _call(self, x: Tensor) -> Tensor:
        return self._joined([t(part) for t, part in zip(self.transforms, self._parts(x),
                                                        strict=True)])

    def _inverse(self, y: Tensor) -> Tensor:
        return self._joined([t._inv_call(part) for t, part in zip(self.transforms, self._parts(y),
                                                                 strict=True)])

    def _jacobians(self, x: Tensor, y: Tensor) -> list[Tensor]:
        return [t.log_abs_det_jacobian(*pair) for t, *pair in zip(
            self.transforms, self._parts(x), self._parts(y), strict=True)]

    def _checked(self, x: Tensor, length: int) -> None:
        if not -x.ndim <= self.dim < x.ndim or x.shape[self.dim] != length:
            raise ShapeError(f"{type(self).__name__} of shape {x.shape}: axis {self.dim} must "
                             f"have size {length}, as its transforms say")


class CatTransform(_SideBySide):
    """Parts of these lengths along an axis (1 each unless given), joined as `cat` does."""

    def __init__(self, tseq: Sequence[Transform], dim: int = 0,
                 lengths: Sequence[int] | None = None, cache_size: int = 0) -> None:
        super().__init__(tseq, dim, cache_size)
        self.lengths = [1] * len(self.transforms) if lengths is None else list(lengths)
        if len(self.lengths) != len(self.transforms):
            raise ArgumentError(f"CatTransform: {len(self.lengths)} lengths for "
                                f"{len(self.transforms)} transforms; give one for each")
        self.length = sum(self.lengths)
        self.domain = constraints.cat([t.domain for t in self.transforms], dim, self.lengths)
        self.codomain = constraints.cat([t.codomain for t in self.transforms], dim, self.lengths)

    @property
    def event_dim(self) -> int:
        return max(t.event_dim for t in self.transforms)

    def _parts(self, x: Tensor) -> list[Tensor]:
        self._checked(x, self.length)
        return list(x.split(self.lengths, self.dim))

    def _joined(self, parts: list[Tensor]) -> Tensor:
        return cat(parts, self.dim)

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        found = [sum_rightmost(part, self.event_dim - t.event_dim) for t, part in zip(
            self.transforms, self._jacobians(x, y), strict=True)]
        dim = (self.dim - x.ndim if self.dim >= 0 else self.dim) + self.event_dim
        if dim < 0:
            return cat(found, dim)
        total = found[0]
        for part in found[1:]:  # the axis is within one value
            total = total + part
        return total


class StackTransform(_SideBySide):
    """Slices along an axis, each by a transform of its own."""

    def __init__(self, tseq: Sequence[Transform], dim: int = 0, cache_size: int = 0) -> None:
        super().__init__(tseq, dim, cache_size)
        self.domain = constraints.stack([t.domain for t in self.transforms], dim)
        self.codomain = constraints.stack([t.codomain for t in self.transforms], dim)

    def _parts(self, x: Tensor) -> list[Tensor]:
        self._checked(x, len(self.transforms))
        return list(x.unbind(self.dim))

    def _joined(self, parts: list[Tensor]) -> Tensor:
        return stack(parts, self.dim)

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        return stack(self._jacobians(x, y), self.dim)


class CumulativeDistributionTransform(Transform):
    """How likely a value of a distribution is not above x."""

    codomain = constraints.unit_interval

    def __init__(self, distribution: Distribution, cache_size: int = 0) -> None:
        super().__init__(cache_size)
        self.distribution = distribution
        self.domain = distribution.support

    def _call(self, x: Tensor) -> Tensor:
        return self.distribution.cdf(x)

    def _inverse(self, y: Tensor) -> Tensor:
        return self.distribution.icdf(y)

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        return self.distribution.log_prob(x)


# ---- by constraint -------------------------------------------------------------------------------

Factory = Callable[[Any], Transform]


class ConstraintRegistry:
    """Transforms from unconstrained numbers, by the class of a constraint; call it with one."""

    def __init__(self) -> None:
        self._registry: dict[type[Constraint], Factory] = {}

    def register(self, constraint: Constraint | type[Constraint],
                 factory: Factory | None = None) -> Any:
        """`factory` makes the transform of such a constraint; without it, a decorator."""
        kind = type(constraint) if isinstance(constraint, Constraint) else constraint
        if not isinstance(kind, type) or not issubclass(kind, Constraint):
            raise TypeError(f"register: {constraint!r:.40} is no Constraint, nor a class of them")
        if factory is None:
            return lambda made: self.register(kind, made)
        self._registry[kind] = factory
        return factory

    def __call__(self, constraint: Constraint) -> Transform:
        """The transform. NotImplementedError if there is none for such a constraint."""
        if type(constraint) not in self._registry:
            raise NotDefinedError(f"no transform is known to {constraint}; register one")
        return self._registry[type(constraint)](constraint)


biject_to, transform_to = ConstraintRegistry(), ConstraintRegistry()


def _interval(constraint: Any) -> Transform:
    low, high = constraint.lower_bound, constraint.upper_bound
    if not isinstance(low, Tensor) and not isinstance(high, Tensor) and (low, high) == (0, 1):
        return SigmoidTransform()
    return ComposeTransform([SigmoidTransform(), AffineTransform(low, high - low)])


def _above(constraint: Any) -> Transform:
    low = constraint.lower_bound
    if not isinstance(low, Tensor) and low == 0:
        return ExpTransform()
    return ComposeTransform([ExpTransform(), AffineTransform(low, 1)])


def _of_parts(known: ConstraintRegistry) -> list[tuple[Any, Factory]]:
    """What is made of the transforms of parts."""
    return [
        (constraints.independent, lambda c: IndependentTransform(
            known(c.base_constraint), c.reinterpreted_batch_ndims)),
        (constraints.cat, lambda c: CatTransform([known(one) for one in c.cseq], c.dim,
                                                 c.lengths)),
        (constraints.stack, lambda c: StackTransform([known(one) for one in c.cseq], c.dim))]


def _register() -> None:
    both: list[tuple[Any, Factory]] = [
        (constraints.real, lambda c: identity_transform),
        (constraints.greater_than, _above), (constraints.greater_than_eq, _above),
        (constraints.less_than, lambda c: ComposeTransform(
            [ExpTransform(), AffineTransform(c.upper_bound, -1)])),
        (constraints.interval, _interval), (constraints.half_open_interval, _interval),
        (constraints.corr_cholesky, lambda c: CorrCholeskyTransform())]
    for registry in (biject_to, transform_to):
        for constraint, factory in [*both, *_of_parts(registry)]:
            registry.register(constraint, factory)
    biject_to.register(constraints.simplex, lambda c: StickBreakingTransform())
    transform_to.register(constraints.simplex, lambda c: SoftmaxTransform())
    transform_to.register(constraints.lower_cholesky, lambda c: LowerCholeskyTransform())
    for constraint in (constraints.positive_definite, constraints.positive_semidefinite):
        transform_to.register(constraint, lambda c: PositiveDefiniteTransform())


_register()
