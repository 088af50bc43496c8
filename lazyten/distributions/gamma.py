"""Distributions by the gamma function: Gamma, Chi2, InverseGamma, Beta, Dirichlet, StudentT,
FisherSnedecor. Gradients flow through samples implicitly (sampling.py)."""
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
    in_float64,
)
from lazyten.distributions.elementwise_transforms import PowerTransform, Transform
from lazyten.distributions.sampling import standard_gamma
from lazyten.frontend.core.size import Size
from lazyten.frontend.functions import stack
from lazyten.frontend.interop import as_tensor
from lazyten.frontend.limits import finfo
from lazyten.frontend.random_functions import randn
from lazyten.frontend.recorded.lookup import recorded
from lazyten.frontend.tensor import Tensor
from lazyten.nn.functional import one_hot
from lazyten.operators.math import statistical_functions
from lazyten.support.errors import ShapeError


@recorded
def gamma_entropy(a: Tensor) -> Tensor:
    """The entropy of a gamma variable of concentration a and rate 1."""
    return a._special(statistical_functions.gamma_entropy)


class Gamma(ExponentialFamily):
    """rate ** a / Gamma(a) * x ** (a - 1) * exp(-rate * x), of a = concentration."""

    has_rsample = True
    arg_constraints = {  # noqa: RUF012
        "concentration": constraints.positive, "rate": constraints.positive}
    support: Constraint = constraints.nonnegative

    def __init__(self, concentration: Any, rate: Any, validate_args: bool | None = None) -> None:
        self.concentration, self.rate = broadcast_all(concentration, rate)
        super().__init__(self.concentration.shape, validate_args=validate_args)

    @property
    def mean(self) -> Tensor:
        return self.concentration / self.rate

    @property
    def mode(self) -> Tensor:
        return ((self.concentration - 1) / self.rate).clamp(min=0)

    @property
    def variance(self) -> Tensor:
        return self.concentration / self.rate**2

    def _drawn(self, shape: Size) -> Tensor:
        return standard_gamma(self.concentration, shape) / self.rate

    def log_prob(self, value: Tensor) -> Tensor:
        value = self._validate_sample(as_tensor(value, dtype=self.rate.dtype,
                                                device=self.rate.device))
        return in_float64(lambda a, rate, x: a.xlogy(rate) + (a - 1).xlogy(x) - rate * x
                          - a.lgamma(), self.concentration, self.rate, value)

    def cdf(self, value: Tensor) -> Tensor:
        """See Distribution: the incomplete gamma function."""
        return self.concentration.igamma(self.rate * self._validate_sample(value))

    def entropy(self) -> Tensor:
        return gamma_entropy(self.concentration) - self.rate.log()


class Chi2(Gamma):
    """The sum of squares of df normal variables."""

    arg_constraints = {"df": constraints.positive}  # noqa: RUF012

    def __init__(self, df: Any, validate_args: bool | None = None) -> None:
        (self.df,) = broadcast_all(df)
        super().__init__(self.df * 0.5, 0.5, validate_args)


class InverseGamma(Gamma):
    """1 / x of a gamma variable x."""

    support: Constraint = constraints.positive

    @property
    def base_dist(self) -> Gamma:
        """The distribution of x."""
        return Gamma(self.concentration, self.rate, validate_args=False)

    @property
    def transforms(self) -> list[Transform]:
        """What is done to values of that one."""
        return [PowerTransform(-1.0)]

    @property
    def mean(self) -> Tensor:
        """The mean; infinite up to a concentration of 1."""
        a = self.concentration
        return choose(a > 1, self.rate / (a - 1), math.inf)

    @property
    def mode(self) -> Tensor:
        return self.rate / (self.concentration + 1)

    @property
    def variance(self) -> Tensor:
        """The variance; infinite up to a concentration of 2."""
        a = self.concentration
        return choose(a > 2, self.rate**2 / ((a - 1)**2 * (a - 2)), math.inf)

    def _drawn(self, shape: Size) -> Tensor:
        return super()._drawn(shape).reciprocal()

    def cdf(self, value: Tensor) -> Tensor:
        """See Distribution: the probability that x is 1 / value or more."""
        return self.concentration.igammac(self.rate / self._validate_sample(value))

    def log_prob(self, value: Tensor) -> Tensor:
        return in_float64(lambda a, rate, x: a.xlogy(rate) - (a + 1) * x.log() - rate / x
                          - a.lgamma(), self.concentration, self.rate, self._validate_sample(value))

    def entropy(self) -> Tensor:
        a = self.concentration
        return gamma_entropy(a) - 2 * a.digamma() + self.rate.log()


class Dirichlet(ExponentialFamily):
    """Probabilities: of gamma variables each one's part of their sum."""

    has_rsample = True
    arg_constraints = {  # noqa: RUF012
        "concentration": constraints.independent(constraints.positive, 1)}
    support: Constraint = constraints.simplex

    def __init__(self, concentration: Tensor, validate_args: bool | None = None) -> None:
        if not isinstance(concentration, Tensor) or concentration.ndim < 1:
            raise ShapeError("Dirichlet: the concentration must be a tensor of one axis or more")
        self.concentration = concentration
        super().__init__(concentration.shape[:-1], concentration.shape[-1:], validate_args)

    @property
    def mean(self) -> Tensor:
        return self.concentration / self.concentration.sum(-1, keepdim=True)

    @property
    def mode(self) -> Tensor:
        less = (self.concentration - 1).clamp(min=0.0)
        at_ends = (self.concentration < 1).all(-1, keepdim=True)  # then as good as any other
        first = one_hot(less.argmax(-1), less.shape[-1]).to(less.dtype)
        return choose(at_ends, first, less / less.sum(-1, keepdim=True))

    @property
    def variance(self) -> Tensor:
        total = self.concentration.sum(-1, keepdim=True)
        return self.concentration * (total - self.concentration) / (total**2 * (total + 1))

    def _drawn(self, shape: Size) -> Tensor:
        drawn = standard_gamma(self.concentration, shape)
        return drawn / drawn.sum(-1, keepdim=True)

    def log_prob(self, value: Tensor) -> Tensor:
        return in_float64(lambda a, x: (a - 1).xlogy(x).sum(-1) + a.sum(-1).lgamma()
                          - a.lgamma().sum(-1), self.concentration, self._validate_sample(value))

    def entropy(self) -> Tensor:
        a, count = self.concentration, self.concentration.shape[-1]
        total = a.sum(-1)
        return gamma_entropy(a).sum(-1) - gamma_entropy(total) - (count - 1) * total.digamma()


class Beta(ExponentialFamily):
    """x ** (concentration1 - 1) * (1 - x) ** (concentration0 - 1), to scale."""

    has_rsample = True
    arg_constraints = {  # noqa: RUF012
        "concentration1": constraints.positive, "concentration0": constraints.positive}
    support: Constraint = constraints.unit_interval

    def __init__(self, concentration1: Any, concentration0: Any,
                 validate_args: bool | None = None) -> None:
        self.concentration1, self.concentration0 = broadcast_all(concentration1, concentration0)
        super().__init__(self.concentration1.shape, validate_args=validate_args)

    @property
    def _dirichlet(self) -> Dirichlet:
        return Dirichlet(stack([self.concentration1, self.concentration0], -1), False)

    @property
    def mean(self) -> Tensor:
        return self.concentration1 / (self.concentration1 + self.concentration0)

    @property
    def mode(self) -> Tensor:
        return self._dirichlet.mode[..., 0]

    @property
    def variance(self) -> Tensor:
        total = self.concentration1 + self.concentration0
        return self.concentration1 * self.concentration0 / (total**2 * (total + 1))

    def _drawn(self, shape: Size) -> Tensor:
        return self._dirichlet._drawn(Size((*shape, 2)))[..., 0]

    def log_prob(self, value: Tensor) -> Tensor:
        value = self._validate_sample(value)
        return self._dirichlet.log_prob(stack([value, 1 - value], -1))

    def entropy(self) -> Tensor:
        return self._dirichlet.entropy()


class StudentT(Distribution):
    """loc + scale times a normal variable over the root of a Chi2 variable over df."""

    has_rsample = True
    arg_constraints = {  # noqa: RUF012
        "df": constraints.positive, "loc": constraints.real, "scale": constraints.positive}
    support: Constraint = constraints.real

    def __init__(self, df: Any, loc: Any = 0.0, scale: Any = 1.0,
                 validate_args: bool | None = None) -> None:
        self.df, self.loc, self.scale = broadcast_all(df, loc, scale)
        super().__init__(self.df.shape, validate_args=validate_args)

    @property
    def mean(self) -> Tensor:
        """The mean; NaN up to a df of 1."""
        return choose(self.df > 1, self.loc, math.nan)

    @property
    def mode(self) -> Tensor:
        return self.loc

    @property
    def variance(self) -> Tensor:
        """The variance; infinite up to a df of 2, NaN up to 1."""
        usual = self.scale**2 * self.df / (self.df - 2)
        return choose(self.df > 2, usual, choose(self.df > 1, math.inf, math.nan).to(usual.dtype))

    def _drawn(self, shape: Size) -> Tensor:
        x = randn(*shape, dtype=self.df.dtype, device=self.df.device)
        chi2 = standard_gamma(self.df / 2, shape) * 2
        return self.loc + self.scale * x * (self.df / chi2).sqrt()

    def log_prob(self, value: Tensor) -> Tensor:
        y = (self._validate_sample(value) - self.loc) / self.scale
        return in_float64(_student_log_density, self.df, y) - self.scale.log()

    def entropy(self) -> Tensor:
        half = self.df / 2
        more = gamma_entropy(half) - gamma_entropy(half + 0.5) + (half + 0.5).digamma() \
            - 1.5 * half.digamma()  # what the beta function and the digammas are together
        return self.scale.log() + 0.5 * self.df.log() + math.lgamma(0.5) + 0.5 + more


def _student_log_density(df: Tensor, y: Tensor) -> Tensor:
    size = 0.5 * df.log() + 0.5 * math.log(math.pi) + (df / 2).lgamma() - ((df + 1) / 2).lgamma()
    return -0.5 * (df + 1) * (y * y / df).log1p() - size


class FisherSnedecor(Distribution):
    """The ratio of two Chi2 variables, each over its df."""

    has_rsample = True
    arg_constraints = {"df1": constraints.positive, "df2": constraints.positive}  # noqa: RUF012
    support: Constraint = constraints.positive

    def __init__(self, df1: Any, df2: Any, validate_args: bool | None = None) -> None:
        self.df1, self.df2 = broadcast_all(df1, df2)
        super().__init__(self.df1.shape, validate_args=validate_args)

    @property
    def mean(self) -> Tensor:
        """The mean; NaN up to a df2 of 2."""
        return choose(self.df2 > 2, self.df2 / (self.df2 - 2), math.nan)

    @property
    def mode(self) -> Tensor:
        """The most likely value; NaN up to a df1 of 2."""
        found = (self.df1 - 2) / self.df1 * (self.df2 / (self.df2 + 2))
        return choose(self.df1 > 2, found, math.nan)

    @property
    def variance(self) -> Tensor:
        """The variance; NaN up to a df2 of 4."""
        usual = 2 * self.df2**2 * (self.df1 + self.df2 - 2) / (
            self.df1 * (self.df2 - 2)**2 * (self.df2 - 4))
        return choose(self.df2 > 4, usual, math.nan)

    def _drawn(self, shape: Size) -> Tensor:
        above, below = (standard_gamma(df / 2, shape) / df for df in (self.df1, self.df2))
        return (above / below).clamp(min=finfo(self.df1.dtype).tiny)

    def log_prob(self, value: Tensor) -> Tensor:
        return in_float64(_fisher_log_density, self.df1, self.df2, self._validate_sample(value))


def _fisher_log_density(df1: Tensor, df2: Tensor, value: Tensor) -> Tensor:
    first, second, ratio = df1 / 2, df2 / 2, df1 / df2
    size = first.lgamma() + second.lgamma() - (first + second).lgamma()
    return first * ratio.log() + (first - 1) * value.log() \
        - (first + second) * (ratio * value).log1p() - size
