"""Values after transforms: TransformedDistribution, and those that are one: LogNormal, Pareto,
Weibull, Kumaraswamy, LogisticNormal."""
from __future__ import annotations

import math
from typing import Any, Self

from lazyten.distributions import constraints
from lazyten.distributions.composed import Independent
from lazyten.distributions.constraints import Constraint
from lazyten.distributions.continuous import Exponential, Uniform
from lazyten.distributions.distribution import (
    Distribution,
    Shape,
    broadcast_all,
    choose,
    sum_rightmost,
)
from lazyten.distributions.location_scale import EULER, Normal
from lazyten.distributions.transforms import (
    AffineTransform,
    ComposeTransform,
    ExpTransform,
    PowerTransform,
    StickBreakingTransform,
    Transform,
)
from lazyten.frontend.core.size import Size
from lazyten.frontend.tensor import Tensor
from lazyten.support.errors import ArgumentError


class TransformedDistribution(Distribution):
    """Values of a distribution after transforms."""

    def __init__(self, base_distribution: Distribution, transforms: Any,
                 validate_args: bool | None = None) -> None:
        self.transforms = list(transforms) if isinstance(transforms, list | tuple) else [transforms]
        if not all(isinstance(t, Transform) for t in self.transforms):
            raise ArgumentError(f"TransformedDistribution: {self.transforms!r:.80} are not "
                                f"transforms")
        whole = ComposeTransform(self.transforms)
        missing = whole.domain.event_dim - len(base_distribution.event_shape)
        self.base_dist = Independent(base_distribution, missing) if missing > 0 \
            else base_distribution
        shape = whole.forward_shape(Size((*self.base_dist.batch_shape,
                                          *self.base_dist.event_shape)))
        axes = len(self.base_dist.event_shape) + whole.codomain.event_dim - whole.domain.event_dim
        batch = len(shape) - axes
        super().__init__(shape[:batch], shape[batch:], validate_args)

    @property
    def has_rsample(self) -> bool:  # type: ignore[override]  # depends on others
        """Whether gradients flow through samples."""
        return self.base_dist.has_rsample

    @property
    def support(self) -> Constraint:
        if not self.transforms:
            return self.base_dist.support
        last = self.transforms[-1].codomain
        more = len(self.event_shape) - last.event_dim
        return constraints.independent(last, more) if more > 0 else last

    def expand(self, batch_shape: Shape, _instance: Any = None) -> Self:
        made = super().expand(batch_shape, _instance)
        made.base_dist = self.base_dist.expand(batch_shape)
        return made

    def _drawn(self, shape: Size) -> Tensor:
        x = self.base_dist._drawn(ComposeTransform(self.transforms).inverse_shape(shape))
        for transform in self.transforms:
            x = transform(x)
        return x

    def log_prob(self, value: Tensor) -> Tensor:
        y = self._validate_sample(value)
        found: Tensor | float = 0.0
        axes = len(self.event_shape)
        for transform in reversed(self.transforms):
            x = transform._inv_call(y)
            axes += transform.domain.event_dim - transform.codomain.event_dim
            found = found - sum_rightmost(transform.log_abs_det_jacobian(x, y),
                                          axes - transform.domain.event_dim)
            y = x
        more = axes - len(self.base_dist.event_shape)
        return sum_rightmost(self.base_dist.log_prob(y), more) + found

    def cdf(self, value: Tensor) -> Tensor:
        sign: Tensor | float = 1.0
        for transform in reversed(self.transforms):
            value = transform._inv_call(self._given(value))
            sign = sign * transform.sign
        return sign * (self.base_dist.cdf(value) - 0.5) + 0.5

    def icdf(self, value: Tensor) -> Tensor:
        sign: Tensor | float = 1.0
        for transform in self.transforms:
            sign = sign * transform.sign
        value = self.base_dist.icdf(sign * (value - 0.5) + 0.5)
        for transform in self.transforms:
            value = transform(value)
        return value


class LogNormal(TransformedDistribution):
    """exp(x) of a normal variable."""

    arg_constraints = Normal.arg_constraints
    base_dist: Normal

    def __init__(self, loc: Any, scale: Any, validate_args: bool | None = None) -> None:
        super().__init__(Normal(loc, scale, validate_args), ExpTransform(), validate_args)

    @property
    def loc(self) -> Tensor:
        """The mean of the log."""
        return self.base_dist.loc

    @property
    def scale(self) -> Tensor:
        """The standard deviation of the log."""
        return self.base_dist.scale

    @property
    def mean(self) -> Tensor:
        return (self.loc + self.scale**2 / 2).exp()

    @property
    def mode(self) -> Tensor:
        return (self.loc - self.scale**2).exp()

    @property
    def variance(self) -> Tensor:
        square = self.scale**2
        return square.expm1() * (2 * self.loc + square).exp()

    def entropy(self) -> Tensor:
        return self.base_dist.entropy() + self.loc


class Pareto(TransformedDistribution):
    """scale * exp(x) of an exponential variable of rate alpha."""

    arg_constraints = {  # noqa: RUF012
        "alpha": constraints.positive, "scale": constraints.positive}

    def __init__(self, scale: Any, alpha: Any, validate_args: bool | None = None) -> None:
        self.scale, self.alpha = broadcast_all(scale, alpha)
        super().__init__(Exponential(self.alpha, validate_args),
                         [ExpTransform(), AffineTransform(0, self.scale)], validate_args)

    def expand(self, batch_shape: Shape, _instance: Any = None) -> Any:
        return Pareto(self.scale.expand(*batch_shape), self.alpha.expand(*batch_shape), False)

    @property
    def support(self) -> Constraint:
        return constraints.greater_than_eq(self.scale)

    @property
    def mean(self) -> Tensor:
        """The mean; infinite up to an alpha of 1."""
        a = self.alpha.clamp(min=1)
        return a * self.scale / (a - 1)

    @property
    def mode(self) -> Tensor:
        return self.scale

    @property
    def variance(self) -> Tensor:
        """The variance; infinite up to an alpha of 2."""
        a = self.alpha.clamp(min=2)
        return self.scale**2 * a / ((a - 1)**2 * (a - 2))

    def log_prob(self, value: Tensor) -> Tensor:
        """The log of the density, also at infinity, which the transforms make NaN."""
        logs = self._validate_sample(value).log()
        return self.alpha.log() + self.alpha * self.scale.log() - (self.alpha + 1) * logs

    def entropy(self) -> Tensor:
        return (self.scale / self.alpha).log() + (1 + self.alpha.reciprocal())


class Weibull(TransformedDistribution):
    """scale * x ** (1 / concentration) of an exponential variable."""

    arg_constraints = {  # noqa: RUF012
        "scale": constraints.positive, "concentration": constraints.positive}
    support: Constraint = constraints.positive

    def __init__(self, scale: Any, concentration: Any, validate_args: bool | None = None) -> None:
        self.scale, self.concentration = broadcast_all(scale, concentration)
        inverse = self.concentration.reciprocal()
        super().__init__(Exponential(self.scale * 0 + 1, validate_args),
                         [PowerTransform(inverse), AffineTransform(0, self.scale)], validate_args)

    def expand(self, batch_shape: Shape, _instance: Any = None) -> Any:
        return Weibull(self.scale.expand(*batch_shape), self.concentration.expand(*batch_shape),
                       False)

    @property
    def mean(self) -> Tensor:
        return self.scale * (1 + self.concentration.reciprocal()).lgamma().exp()

    @property
    def mode(self) -> Tensor:
        """The most likely value; NaN below a concentration of 1."""
        k = self.concentration
        return self.scale * ((k - 1) / k)**k.reciprocal()

    @property
    def variance(self) -> Tensor:
        inverse = self.concentration.reciprocal()
        return self.scale**2 * ((1 + 2 * inverse).lgamma().exp()
                                - (2 * (1 + inverse).lgamma()).exp())

    def entropy(self) -> Tensor:
        inverse = self.concentration.reciprocal()
        return EULER * (1 - inverse) + (self.scale * inverse).log() + 1


class Kumaraswamy(TransformedDistribution):
    """concentration1 and concentration0 make it like Beta's, with a cdf that has an inverse."""

    arg_constraints = {  # noqa: RUF012
        "concentration1": constraints.positive, "concentration0": constraints.positive}
    support: Constraint = constraints.unit_interval

    def __init__(self, concentration1: Any, concentration0: Any,
                 validate_args: bool | None = None) -> None:
        self.concentration1, self.concentration0 = broadcast_all(concentration1, concentration0)
        zero = self.concentration0 * 0
        super().__init__(Uniform(zero, zero + 1, validate_args),
                         [PowerTransform(self.concentration0.reciprocal()),
                          AffineTransform(1.0, -1.0),
                          PowerTransform(self.concentration1.reciprocal())], validate_args)

    def expand(self, batch_shape: Shape, _instance: Any = None) -> Any:
        return Kumaraswamy(self.concentration1.expand(*batch_shape),
                           self.concentration0.expand(*batch_shape), False)

    def _moment(self, n: int) -> Tensor:
        """The mean of x ** n: b * B(1 + n / a, b) of concentrations a and b."""
        first, b = 1 + n / self.concentration1, self.concentration0
        return b * (first.lgamma() + b.lgamma() - (first + b).lgamma()).exp()

    @property
    def mean(self) -> Tensor:
        return self._moment(1)

    @property
    def mode(self) -> Tensor:
        """The most likely value; NaN where a concentration is below 1. (PyTorch's is NaN.)"""
        a, b = self.concentration1, self.concentration0
        found = ((a - 1) / (a * b - 1))**a.reciprocal()
        return choose((a < 1) | (b < 1), math.nan, found)

    @property
    def variance(self) -> Tensor:
        return self._moment(2) - self.mean**2

    def entropy(self) -> Tensor:
        a, b = self.concentration1, self.concentration0
        return 1 - 1 / b + (1 - 1 / a) * ((b + 1).digamma() + EULER) - a.log() - b.log()


class LogisticNormal(TransformedDistribution):
    """Probabilities, one more than there are normal variables: what stick breaking makes of
    these."""

    arg_constraints = Normal.arg_constraints
    support: Constraint = constraints.simplex

    def __init__(self, loc: Any, scale: Any, validate_args: bool | None = None) -> None:
        base = Normal(loc, scale, validate_args)
        super().__init__(base if base.batch_shape else base.expand((1,)),
                         StickBreakingTransform(), validate_args)

    @property
    def loc(self) -> Tensor:
        """The mean of the normal variables."""
        loc: Tensor = self.base_dist.base_dist.loc  # type: ignore[attr-defined]  # Independent
        return loc

    @property
    def scale(self) -> Tensor:
        """The standard deviation of the normal variables."""
        scale: Tensor = self.base_dist.base_dist.scale  # type: ignore[attr-defined]
        return scale
