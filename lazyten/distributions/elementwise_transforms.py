"""Functions with an inverse, whose change of a density is known: what all are, and those of single
numbers. (transforms.py has the others.)"""
from __future__ import annotations

import math
from collections.abc import Sequence
from copy import copy
from typing import Any

from lazyten.distributions import constraints
from lazyten.distributions.constraints import Constraint
from lazyten.distributions.distribution import sum_rightmost
from lazyten.frontend.limits import finfo
from lazyten.frontend.tensor import Tensor
from lazyten.nn.functional import softplus
from lazyten.support.errors import ArgumentError, DTypeError, NotDefinedError


def _is_same(a: Any, b: Any) -> bool:
    """Whether two options of a transform are equal: numbers and tensors by their values."""
    equal = a == b
    return bool(equal.all() if isinstance(equal, Tensor) else equal)


class Transform:
    """y = t(x), and x = t.inv(y). event_dim: how many axes one value has.

    With cache_size=1 the last x and y are kept: t.inv(y) of that very tensor is x itself, also
    where the inverse is less exact, or there is none. ArgumentError for sizes but 0 and 1."""

    bijective = True
    domain: Constraint = constraints.real
    codomain: Constraint = constraints.real
    sign: Tensor | float = 1.0
    _cache_size = 0
    _cached_x_y: tuple[Tensor | None, Tensor | None] = None, None

    def __init__(self, cache_size: int = 0) -> None:
        if cache_size not in (0, 1):
            raise ArgumentError(f"{type(self).__name__}: cache_size={cache_size!r:.60} must be 0 "
                                f"or 1")
        self._cache_size = cache_size
        super().__init__()  # of a class beside it, such as Module

    @property
    def event_dim(self) -> int:
        """How many axes one value has."""
        return max(self.domain.event_dim, self.codomain.event_dim)

    @property
    def inv(self) -> Transform:
        """The inverse."""
        return _InverseTransform(self)

    def with_cache(self, cache_size: int = 1) -> Transform:
        """One that keeps its last x and y, or none; itself if it does so."""
        if cache_size == self._cache_size:
            return self
        made = copy(self)
        made._cache_size, made._cached_x_y = cache_size, (None, None)
        return made

    def __call__(self, x: Tensor) -> Tensor:
        """y."""
        known, found = self._cached_x_y
        if found is None or known is not x:
            found = self._call(x)
            self._keep(x, found)
        return found

    def _inv_call(self, y: Tensor) -> Tensor:
        found, known = self._cached_x_y
        if found is None or known is not y:
            found = self._inverse(y)
            self._keep(found, y)
        return found

    def _keep(self, x: Tensor, y: Tensor) -> None:
        if self._cache_size:
            self._cached_x_y = x, y

    def _call(self, x: Tensor) -> Tensor:
        raise NotDefinedError(f"{type(self).__name__} does not define _call()")

    def _inverse(self, y: Tensor) -> Tensor:
        raise NotDefinedError(f"{type(self).__name__} has no inverse")

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        """log |dy / dx|."""
        raise NotDefinedError(f"{type(self).__name__} has no log_abs_det_jacobian()")

    def forward_shape(self, shape: Any) -> Any:
        """The shape of y."""
        return shape

    def inverse_shape(self, shape: Any) -> Any:
        """The shape of x."""
        return shape

    def __eq__(self, other: object) -> bool:
        if type(self) is not type(other):
            return False
        mine, others = ({name: value for name, value in vars(t).items() if name != "_cached_x_y"}
                        for t in (self, other))
        return mine.keys() == others.keys() and all(
            _is_same(value, others[name]) for name, value in mine.items())

    def __hash__(self) -> int:
        return id(self)

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"


class _InverseTransform(Transform):
    def __init__(self, base: Transform) -> None:
        super().__init__()
        self.base = base
        self.domain, self.codomain = base.codomain, base.domain
        self.bijective, self.sign = base.bijective, base.sign

    @property
    def inv(self) -> Transform:
        return self.base

    def with_cache(self, cache_size: int = 1) -> Transform:
        return self.base.with_cache(cache_size).inv

    def _call(self, x: Tensor) -> Tensor:
        return self.base._inv_call(x)

    def _inverse(self, y: Tensor) -> Tensor:
        return self.base(y)

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        return -self.base.log_abs_det_jacobian(y, x)

    def forward_shape(self, shape: Any) -> Any:
        return self.base.inverse_shape(shape)

    def inverse_shape(self, shape: Any) -> Any:
        return self.base.forward_shape(shape)


class ComposeTransform(Transform):
    """One after the other."""

    def __init__(self, parts: Sequence[Transform], cache_size: int = 0) -> None:
        super().__init__(cache_size)
        self.parts = list(parts)
        for part in self.parts:
            if not isinstance(part, Transform):
                raise DTypeError(f"ComposeTransform: {type(part).__name__} {part!r:.60} is not a "
                                 f"transform; give a list of transforms")
        if self.parts:
            axes = self.parts[-1].codomain.event_dim
            for part in reversed(self.parts):
                axes += part.domain.event_dim - part.codomain.event_dim
                axes = max(axes, part.domain.event_dim)
            self.domain = _of_axes(self.parts[0].domain, axes)
            for part in self.parts:
                axes += part.codomain.event_dim - part.domain.event_dim
            self.codomain = _of_axes(self.parts[-1].codomain, axes)
        self.bijective = all(p.bijective for p in self.parts)

    def with_cache(self, cache_size: int = 1) -> Transform:
        """See Transform; each part does so, too."""
        return self if cache_size == self._cache_size else ComposeTransform(
            [part.with_cache(cache_size) for part in self.parts], cache_size)

    def _call(self, x: Tensor) -> Tensor:
        for part in self.parts:
            x = part(x)
        return x

    def _inverse(self, y: Tensor) -> Tensor:
        for part in reversed(self.parts):
            y = part._inv_call(y)
        return y

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        total: Tensor | None = None
        axes = self.domain.event_dim
        for part in self.parts:
            after = part(x)
            found = sum_rightmost(part.log_abs_det_jacobian(x, after),
                                  axes - part.domain.event_dim)
            total, x = found if total is None else total + found, after
            axes += part.codomain.event_dim - part.domain.event_dim
        return x * 0 if total is None else total

    def forward_shape(self, shape: Any) -> Any:
        for part in self.parts:
            shape = part.forward_shape(shape)
        return shape

    def inverse_shape(self, shape: Any) -> Any:
        for part in reversed(self.parts):
            shape = part.inverse_shape(shape)
        return shape


def _of_axes(constraint: Constraint, axes: int) -> Constraint:
    more = axes - constraint.event_dim
    return constraints.independent(constraint, more) if more > 0 else constraint


identity_transform = ComposeTransform([])


class ExpTransform(Transform):
    """exp(x)."""

    codomain = constraints.positive

    def _call(self, x: Tensor) -> Tensor:
        return x.exp()

    def _inverse(self, y: Tensor) -> Tensor:
        return y.log()

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        return x


class PowerTransform(Transform):
    """x ** exponent, of positive numbers."""

    domain = codomain = constraints.positive

    def __init__(self, exponent: Tensor | float, cache_size: int = 0) -> None:
        super().__init__(cache_size)
        self.exponent = exponent

    def _call(self, x: Tensor) -> Tensor:
        return x**self.exponent

    def _inverse(self, y: Tensor) -> Tensor:
        return y**(1 / self.exponent)

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        return (self.exponent * y / x).abs().log()


def inside(y: Tensor) -> Tensor:
    """Numbers of 0 to 1, moved off both ends, whose x would be infinite."""
    limits = finfo(y.dtype)
    return y.clamp(min=limits.tiny, max=1 - limits.eps)


class SigmoidTransform(Transform):
    """1 / (1 + exp(-x)), where it is rounded to 0 or 1 the nearest number inside."""

    codomain = constraints.unit_interval

    def _call(self, x: Tensor) -> Tensor:
        return inside(x.sigmoid())

    def _inverse(self, y: Tensor) -> Tensor:
        y = inside(y)
        return y.log() - (-y).log1p()

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        return -softplus(-x) - softplus(x)


class SoftplusTransform(Transform):
    """log(1 + exp(x))."""

    codomain = constraints.positive

    def _call(self, x: Tensor) -> Tensor:
        return softplus(x)

    def _inverse(self, y: Tensor) -> Tensor:
        return (-(-y).expm1()).log() + y

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        return -softplus(-x)


class TanhTransform(Transform):
    """tanh(x)."""

    codomain = constraints.interval(-1.0, 1.0)

    def _call(self, x: Tensor) -> Tensor:
        return x.tanh()

    def _inverse(self, y: Tensor) -> Tensor:
        return y.atanh()

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        return 2.0 * (math.log(2.0) - x - softplus(-2.0 * x))


class AbsTransform(Transform):
    """|x|: two values of x for each."""

    bijective = False
    codomain = constraints.positive

    def _call(self, x: Tensor) -> Tensor:
        return x.abs()

    def _inverse(self, y: Tensor) -> Tensor:
        return y


class AffineTransform(Transform):
    """loc + scale * x. event_dim: how many axes one value has."""

    def __init__(self, loc: Tensor | float, scale: Tensor | float, event_dim: int = 0,
                 cache_size: int = 0) -> None:
        super().__init__(cache_size)
        self.loc, self.scale, self._event_dim = loc, scale, event_dim
        if event_dim:
            self.domain = self.codomain = constraints.independent(constraints.real, event_dim)

    @property
    def event_dim(self) -> int:
        return self._event_dim

    @property
    def sign(self) -> Tensor | float:  # type: ignore[override]  # depends on scale
        """The sign of scale."""
        return self.scale.sign() if isinstance(self.scale, Tensor) else math.copysign(1, self.scale)

    def _call(self, x: Tensor) -> Tensor:
        return self.loc + self.scale * x

    def _inverse(self, y: Tensor) -> Tensor:
        return (y - self.loc) / self.scale

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        size = self.scale.abs().log() if isinstance(self.scale, Tensor) else math.log(
            abs(self.scale))
        return sum_rightmost(x * 0 + size, self.event_dim)


class SoftmaxTransform(Transform):
    """softmax(x): x is known but for a number added to all."""

    bijective = False
    domain = constraints.real_vector
    codomain = constraints.simplex

    def _call(self, x: Tensor) -> Tensor:
        return x.softmax(-1)

    def _inverse(self, y: Tensor) -> Tensor:
        return y.log()


class IndependentTransform(Transform):
    """A transform of which the last axes are one value."""

    def __init__(self, base_transform: Transform, reinterpreted_batch_ndims: int,
                 cache_size: int = 0) -> None:
        super().__init__(cache_size)
        if reinterpreted_batch_ndims < 0:
            raise ArgumentError(f"IndependentTransform: reinterpreted_batch_ndims="
                                f"{reinterpreted_batch_ndims} must be 0 or more")
        self.base_transform, self.count = base_transform, reinterpreted_batch_ndims
        self.domain = constraints.independent(base_transform.domain, self.count)
        self.codomain = constraints.independent(base_transform.codomain, self.count)
        self.bijective = base_transform.bijective

    def _call(self, x: Tensor) -> Tensor:
        return self.base_transform(x)

    def _inverse(self, y: Tensor) -> Tensor:
        return self.base_transform._inv_call(y)

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        return sum_rightmost(self.base_transform.log_abs_det_jacobian(x, y), self.count)

    def forward_shape(self, shape: Any) -> Any:
        return self.base_transform.forward_shape(shape)

    def inverse_shape(self, shape: Any) -> Any:
        return self.base_transform.inverse_shape(shape)
