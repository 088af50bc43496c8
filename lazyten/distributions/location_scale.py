"""loc + scale times a standard variable: Normal, Laplace, Cauchy, Gumbel, GeneralizedPareto.
Gradients flow through samples."""
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
from lazyten.frontend.core.functions import combined
from lazyten.frontend.core.size import Size
from lazyten.frontend.limits import finfo
from lazyten.frontend.random_functions import randn
from lazyten.frontend.tensor import Tensor
from lazyten.operators.math import inverse_functions

EULER = 0.57721566490153286060
ZERO = 1e-8
"""A concentration that is as near to 0 is 0: no float32 tells their results apart."""


class LocationScale(Distribution):
    """loc + scale * a standard variable."""

    has_rsample = True
    arg_constraints = {"loc": constraints.real, "scale": constraints.positive}  # noqa: RUF012
    support: Constraint = constraints.real
    loc: Tensor
    scale: Tensor

    def __init__(self, loc: Any, scale: Any, validate_args: bool | None = None) -> None:
        self.loc, self.scale = broadcast_all(loc, scale)
        super().__init__(self.loc.shape, validate_args=validate_args)

    def _standard(self, value: Tensor) -> Tensor:
        return (self._validate_sample(value) - self.loc) / self.scale

    @property
    def mean(self) -> Tensor:
        return self.loc

    @property
    def mode(self) -> Tensor:
        return self.loc


class Normal(LocationScale, ExponentialFamily):
    """The normal distribution of mean loc and standard deviation scale."""

    @property
    def variance(self) -> Tensor:
        return self.scale**2

    @property
    def stddev(self) -> Tensor:
        return self.scale

    def _drawn(self, shape: Size) -> Tensor:
        eps = randn(*shape, dtype=self.loc.dtype, device=self.loc.device)
        return self.loc + eps * self.scale

    def log_prob(self, value: Tensor) -> Tensor:
        z = self._standard(value)
        return -z * z / 2 - self.scale.log() - math.log(2 * math.pi) / 2

    def cdf(self, value: Tensor) -> Tensor:
        return 0.5 * (1 + (self._standard(value) / math.sqrt(2)).erf())

    def icdf(self, value: Tensor) -> Tensor:
        return self.loc + self.scale * (2 * self._given(value) - 1).erfinv() * math.sqrt(2)

    def entropy(self) -> Tensor:
        return 0.5 + 0.5 * math.log(2 * math.pi) + self.scale.log()


class Laplace(LocationScale):
    """exp(-|x - loc| / scale) / (2 scale)."""

    @property
    def variance(self) -> Tensor:
        return 2 * self.scale**2

    @property
    def stddev(self) -> Tensor:
        return math.sqrt(2) * self.scale

    def _drawn(self, shape: Size) -> Tensor:
        u = uniform_like(shape, self.loc) * 2 - 1
        u = u.clamp(min=finfo(u.dtype).eps - 1)
        return self.loc - self.scale * u.sign() * (-u.abs()).log1p()

    def log_prob(self, value: Tensor) -> Tensor:
        return -(2 * self.scale).log() - self._standard(value).abs()

    def cdf(self, value: Tensor) -> Tensor:
        z = self._standard(value)
        return 0.5 - 0.5 * z.sign() * (-z.abs()).expm1()

    def icdf(self, value: Tensor) -> Tensor:
        term = self._given(value) - 0.5
        return self.loc - self.scale * term.sign() * (-2 * term.abs()).log1p()

    def entropy(self) -> Tensor:
        return 1 + (2 * self.scale).log()


class Cauchy(LocationScale):
    """1 / (pi scale (1 + ((x - loc) / scale) ** 2)): without mean and variance."""

    @property
    def mean(self) -> Tensor:
        """NaN: there is none."""
        return self.loc * math.nan

    @property
    def variance(self) -> Tensor:
        """Infinite."""
        return self.loc * 0 + math.inf

    def _drawn(self, shape: Size) -> Tensor:
        return self.loc + ((uniform_like(shape, self.loc) - 0.5) * math.pi).tan() * self.scale

    def log_prob(self, value: Tensor) -> Tensor:
        return -math.log(math.pi) - self.scale.log() - (self._standard(value)**2).log1p()

    def cdf(self, value: Tensor) -> Tensor:
        return self._standard(value).atan() / math.pi + 0.5

    def icdf(self, value: Tensor) -> Tensor:
        return ((self._given(value) - 0.5) * math.pi).tan() * self.scale + self.loc

    def entropy(self) -> Tensor:
        return math.log(4 * math.pi) + self.scale.log()


class Gumbel(LocationScale):
    """The greatest of many: exp(-exp(-(x - loc) / scale)) is its cdf."""

    @property
    def mean(self) -> Tensor:
        return self.loc + self.scale * EULER

    @property
    def stddev(self) -> Tensor:
        return (math.pi / math.sqrt(6)) * self.scale

    @property
    def variance(self) -> Tensor:
        return self.stddev**2

    def _drawn(self, shape: Size) -> Tensor:
        u = uniform_like(shape, self.loc).clamp(max=1 - finfo(self.loc.dtype).eps)
        return self.loc - self.scale * (-u.log()).log()

    def log_prob(self, value: Tensor) -> Tensor:
        y = -self._standard(value)
        return y - y.exp() - self.scale.log()

    def cdf(self, value: Tensor) -> Tensor:
        return (-(-self._standard(value)).exp()).exp()

    def icdf(self, value: Tensor) -> Tensor:
        return self.loc - self.scale * (-self._given(value).log()).log()

    def entropy(self) -> Tensor:
        return self.scale.log() + (1 + EULER)


class GeneralizedPareto(LocationScale):
    """What is above a high bound: loc + scale * ((1 - u) ** -concentration - 1) / concentration of
    an even u, and loc + scale * -log(1 - u) for a concentration of 0."""

    arg_constraints = {  # noqa: RUF012
        "loc": constraints.real, "scale": constraints.positive, "concentration": constraints.real}

    def __init__(self, loc: Any, scale: Any, concentration: Any,
                 validate_args: bool | None = None) -> None:
        self.loc, self.scale, self.concentration = broadcast_all(loc, scale, concentration)
        Distribution.__init__(self, self.loc.shape, validate_args=validate_args)

    @property
    def support(self) -> Constraint:  # type: ignore[override]  # depends on parameters
        """What values may be."""
        end = self.loc - self.scale / self.concentration
        return constraints.interval(self.loc, choose(self.concentration < 0, end, math.inf))

    @property
    def _shape(self) -> tuple[Tensor, Tensor]:
        """The concentration, 1 where it is 0, and where it is."""
        zero: Tensor = self.concentration.abs() <= ZERO
        return choose(zero, 1.0, self.concentration), zero

    @property
    def mean(self) -> Tensor:
        """The mean; NaN from a concentration of 1 on."""
        c = self.concentration
        return choose(c < 1, self.loc + self.scale / (1 - choose(c < 1, c, 0.5)), math.nan)

    @property
    def variance(self) -> Tensor:
        """The variance; NaN from a concentration of 1/2 on."""
        c = choose(self.concentration < 0.5, self.concentration, 0.25)
        found = self.scale**2 / ((1 - c)**2 * (1 - 2 * c))
        return choose(self.concentration < 0.5, found, math.nan)

    def _drawn(self, shape: Size) -> Tensor:
        return self.icdf(uniform_like(shape, self.loc))

    def log_survival_function(self, value: Tensor) -> Tensor:
        """The log of how likely a value is above this one."""
        z, (c, zero) = self._standard(value), self._shape
        return choose(zero, -z, -(c * z).log1p() / c)

    def log_prob(self, value: Tensor) -> Tensor:
        z, (c, zero) = self._standard(value), self._shape
        return -self.scale.log() - choose(zero, z, combined(
            1 + 1 / c, "xlog1py", inverse_functions.xlog1py, c * z))

    def log_cdf(self, value: Tensor) -> Tensor:
        """The log of cdf()."""
        return (-self.log_survival_function(value).exp()).log1p()

    def cdf(self, value: Tensor) -> Tensor:
        below = -self.log_survival_function(value).expm1()
        return choose(self._standard(value) < 0, 0.0, below)

    def icdf(self, value: Tensor) -> Tensor:
        log, (c, zero) = (-self._given(value)).log1p(), self._shape
        return self.loc + self.scale * choose(zero, -log, (-c * log).expm1() / c)

    def entropy(self) -> Tensor:
        return self.scale.log() + self.concentration + 1
