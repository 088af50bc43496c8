"""Distributions whose samples are a formula of uniform or normal ones: HalfNormal, HalfCauchy,
Uniform, Exponential. Gradients flow through samples. And VonMises, of angles, without."""
from __future__ import annotations

import math
from typing import Any

from lazyten.distributions import constraints
from lazyten.distributions.constraints import Constraint
from lazyten.distributions.distribution import (
    Distribution,
    ExponentialFamily,
    broadcast_all,
    choose,
    uniform_like,
)
from lazyten.distributions.elementwise_transforms import AbsTransform, Transform
from lazyten.distributions.location_scale import Cauchy, LocationScale, Normal
from lazyten.distributions.sampling import first_taken
from lazyten.frontend.core.size import Size
from lazyten.frontend.tensor import Tensor
from lazyten.support.errors import ArgumentError

FAR, STEPS, TERMS = 30.0, 48, 24
TRIES = 20
"""Of angles; one in three is not taken at most."""


class _Half(Distribution):
    """|x| of a distribution around 0."""

    has_rsample = True
    arg_constraints = {"scale": constraints.positive}  # noqa: RUF012
    support: Constraint = constraints.nonnegative
    whole: type[LocationScale]

    def __init__(self, scale: Any, validate_args: bool | None = None) -> None:
        (self.scale,) = broadcast_all(scale)
        super().__init__(self.scale.shape, validate_args=validate_args)

    @property
    def base_dist(self) -> LocationScale:
        """The distribution of x."""
        return self.whole(self.scale * 0, self.scale, validate_args=False)

    @property
    def transforms(self) -> list[Transform]:
        """What is done to values of that one."""
        return [AbsTransform()]

    @property
    def mode(self) -> Tensor:
        return self.scale * 0

    def _drawn(self, shape: Size) -> Tensor:
        return self.base_dist._drawn(shape).abs()

    def log_prob(self, value: Tensor) -> Tensor:
        value = self._validate_sample(value)
        found = self.base_dist.log_prob(value) + math.log(2)
        return choose(value >= 0, found, -math.inf)

    def cdf(self, value: Tensor) -> Tensor:
        return 2 * self.base_dist.cdf(self._validate_sample(value)) - 1

    def icdf(self, prob: Tensor) -> Tensor:
        return self.base_dist.icdf((prob + 1) / 2)

    def entropy(self) -> Tensor:
        return self.base_dist.entropy() - math.log(2)


class HalfNormal(_Half):
    """|x| of a normal variable of mean 0."""

    whole = Normal

    @property
    def mean(self) -> Tensor:
        return self.scale * math.sqrt(2 / math.pi)

    @property
    def variance(self) -> Tensor:
        return self.scale**2 * (1 - 2 / math.pi)


class HalfCauchy(_Half):
    """|x| of a Cauchy variable around 0."""

    whole = Cauchy

    @property
    def mean(self) -> Tensor:
        """Infinite."""
        return self.scale * 0 + math.inf

    @property
    def variance(self) -> Tensor:
        """Infinite."""
        return self.scale * 0 + math.inf


class Uniform(Distribution):
    """Evenly spread over [low, high)."""

    has_rsample = True
    arg_constraints = {  # noqa: RUF012
        "low": constraints.dependent, "high": constraints.dependent}

    def __init__(self, low: Any, high: Any, validate_args: bool | None = None) -> None:
        self.low, self.high = broadcast_all(low, high)
        super().__init__(self.low.shape, validate_args=validate_args)
        if self._looks and not bool((self.low < self.high).all()):
            raise ArgumentError(f"Uniform: low={self.low.tolist()!r:.80} must be below "
                                f"high={self.high.tolist()!r:.80}")

    @property
    def support(self) -> Constraint:
        return constraints.interval(self.low, self.high)

    @property
    def mean(self) -> Tensor:
        return (self.high + self.low) / 2

    @property
    def mode(self) -> Tensor:
        """NaN: all are as likely."""
        return self.high * math.nan

    @property
    def stddev(self) -> Tensor:
        return (self.high - self.low) / math.sqrt(12)

    @property
    def variance(self) -> Tensor:
        return (self.high - self.low)**2 / 12

    def _drawn(self, shape: Size) -> Tensor:
        return self.low + uniform_like(shape, self.low) * (self.high - self.low)

    def log_prob(self, value: Tensor) -> Tensor:
        self._validate_sample(value)
        inside = (self.low <= value) & (self.high > value)
        return choose(inside, -(self.high - self.low).log(), -math.inf)

    def cdf(self, value: Tensor) -> Tensor:
        self._validate_sample(value)
        return ((value - self.low) / (self.high - self.low)).clamp(0.0, 1.0)

    def icdf(self, value: Tensor) -> Tensor:
        return value * (self.high - self.low) + self.low

    def entropy(self) -> Tensor:
        return (self.high - self.low).log()


class Exponential(ExponentialFamily):
    """rate * exp(-rate * x)."""

    has_rsample = True
    arg_constraints = {"rate": constraints.positive}  # noqa: RUF012
    support: Constraint = constraints.nonnegative

    def __init__(self, rate: Any, validate_args: bool | None = None) -> None:
        (self.rate,) = broadcast_all(rate)
        super().__init__(self.rate.shape, validate_args=validate_args)

    @property
    def mean(self) -> Tensor:
        return self.rate.reciprocal()

    @property
    def mode(self) -> Tensor:
        return self.rate * 0

    @property
    def stddev(self) -> Tensor:
        return self.rate.reciprocal()

    @property
    def variance(self) -> Tensor:
        return self.rate**-2

    def _drawn(self, shape: Size) -> Tensor:
        return -uniform_like(shape, self.rate).log() / self.rate

    def log_prob(self, value: Tensor) -> Tensor:
        return self.rate.log() - self.rate * self._validate_sample(value)

    def cdf(self, value: Tensor) -> Tensor:
        return 1 - (-self.rate * self._validate_sample(value)).exp()

    def icdf(self, value: Tensor) -> Tensor:
        return -(-self._given(value)).log1p() / self.rate

    def entropy(self) -> Tensor:
        return 1.0 - self.rate.log()


def log_bessel(x: Tensor, order: int) -> Tensor:
    """log(I(x) * exp(-x)) of the modified Bessel function of order 0 or 1, to about 1e-15.

    I is the mean of exp(x * cos(t)) * cos(order * t) over a circle, and a mean over even steps is
    exact but for terms of an order as high as there are steps; for large x its asymptotic series.
    """
    near = x.clamp(max=FAR)
    steps = [math.pi * (k + 0.5) / STEPS for k in range(STEPS)]
    total = near * 0
    for step in steps:
        total = total + (near * (math.cos(step) - 1)).exp() * math.cos(order * step)
    far, term = x.clamp(min=FAR), near * 0 + 1
    series = term
    for k in range(1, TERMS):
        term = term * (((2 * k - 1)**2 - 4 * order**2) / (8 * k)) / far
        series = series + term
    asymptotic = series.log() - 0.5 * (2 * math.pi * far).log()
    return choose(x < FAR, (total / STEPS).log(), asymptotic)


class VonMises(Distribution):
    """Angles from -pi to pi, with a density as exp(concentration * cos(x - loc))."""

    arg_constraints = {  # noqa: RUF012
        "loc": constraints.real, "concentration": constraints.positive}
    support: Constraint = constraints.real

    def __init__(self, loc: Any, concentration: Any, validate_args: bool | None = None) -> None:
        self.loc, self.concentration = broadcast_all(loc, concentration)
        super().__init__(self.loc.shape, validate_args=validate_args)

    @property
    def mean(self) -> Tensor:
        """The circular mean."""
        return self.loc

    @property
    def mode(self) -> Tensor:
        return self.loc

    @property
    def variance(self) -> Tensor:
        """The circular variance: 1 less the mean of cos(x - loc)."""
        k = self.concentration
        return 1 - (log_bessel(k, 1) - log_bessel(k, 0)).exp()

    def _drawn(self, shape: Size) -> Tensor:
        """D. J. Best and N. I. Fisher's method (1979), from a wrapped Cauchy variable."""
        k = self.concentration.detach()
        root = (1 + 4 * k * k).sqrt()
        length = (1 + root).sqrt()
        rho = 2 * k * length / ((length + math.sqrt(2)) * (root + 1))
        r = (1 + rho * rho) / (2 * rho)
        wide = Size((TRIES, *shape))
        u, v = uniform_like(wide, k), uniform_like(wide, k)
        z = (math.pi * u).cos()
        f = (1 + r * z) / (r + z)
        c = k * (r - f)
        taken = (c * (2 - c) > v) | ((c / v).log() + 1 - c >= 0)
        angle = first_taken(f, taken).clamp(min=-1.0, max=1.0).acos()
        side = choose(uniform_like(shape, k) < 0.5, -1.0, 1.0)
        return (side * angle + self.loc.detach() + math.pi) % (2 * math.pi) - math.pi

    def log_prob(self, value: Tensor) -> Tensor:
        gap = self._validate_sample(value) - self.loc
        k = self.concentration
        return k * (gap.cos() - 1) - math.log(2 * math.pi) - log_bessel(k, 0)
