"""Distributions of whole numbers: Bernoulli, Geometric, Binomial, NegativeBinomial, Poisson."""
from __future__ import annotations

from collections.abc import Callable
from typing import Any

from lazyten.distributions import constraints
from lazyten.distributions.constraints import Constraint
from lazyten.distributions.distribution import (
    Distribution,
    ExponentialFamily,
    broadcast_all,
    choose,
    given_one,
    in_float64,
    lazy_property,
    logits_to_probs,
    probs_to_logits,
    uniform_like,
)
from lazyten.distributions.sampling import poisson as poisson_variables
from lazyten.distributions.sampling import standard_gamma
from lazyten.frontend.arguments import takes_tensors
from lazyten.frontend.core.size import Size
from lazyten.frontend.functions import arange
from lazyten.frontend.tensor import Tensor
from lazyten.nn.functional import softplus
from lazyten.operators.math import elementwise as ew
from lazyten.random import Generator, chosen, default_generator
from lazyten.support.errors import ArgumentError, NotDefinedError


class OfTwo(Distribution):
    """By a probability, or the log of its ratio to the other's."""

    arg_constraints = {  # noqa: RUF012
        "probs": constraints.unit_interval, "logits": constraints.real}

    def __init__(self, probs: Any = None, logits: Any = None,
                 validate_args: bool | None = None) -> None:
        given_one(type(self).__name__, probs, logits)
        (self._param,) = broadcast_all(logits if probs is None else probs)
        self.__dict__["logits" if probs is None else "probs"] = self._param
        super().__init__(self._param.shape, validate_args=validate_args)

    @property
    def param_shape(self) -> Size:
        """The shape of the probabilities."""
        return self._param.shape

    @lazy_property
    def logits(self) -> Tensor:
        """log(probs / (1 - probs))."""
        return probs_to_logits(self.probs, True)

    @lazy_property
    def probs(self) -> Tensor:
        """How likely 1 is."""
        return logits_to_probs(self.logits, True)


class Bernoulli(OfTwo, ExponentialFamily):
    """1 with probability probs, else 0."""

    has_enumerate_support = True
    support: Constraint = constraints.boolean

    @property
    def mean(self) -> Tensor:
        return self.probs

    @property
    def mode(self) -> Tensor:
        """The most likely value; NaN if both are."""
        even = choose(self.probs == 0.5, float("nan"), 0.0)
        return (self.probs >= 0.5).to(self.probs.dtype) + even.to(self.probs.dtype)

    @property
    def variance(self) -> Tensor:
        return self.probs * (1 - self.probs)

    def _drawn(self, shape: Size) -> Tensor:
        return (uniform_like(shape, self.probs) < self.probs).to(self.probs.dtype)

    def log_prob(self, value: Tensor) -> Tensor:
        value = self._validate_sample(value)
        logits: Tensor = self.logits
        return logits * value - softplus(logits)

    def entropy(self) -> Tensor:
        return softplus(self.logits) - self.logits * self.probs

    def enumerate_support(self, expand: bool = True) -> Tensor:
        return listed(self, arange(2, dtype=self._param.dtype, device=self._param.device), expand)


def listed(of: Distribution, values: Tensor, expand: bool) -> Tensor:
    """All values along a first axis, for each of a batch if `expand`."""
    values = values.reshape(-1, *[1] * len(of.batch_shape))
    return values.expand(-1, *of.batch_shape) if expand else values


class Geometric(OfTwo):
    """How often 0 comes before the first 1."""

    support: Constraint = constraints.nonnegative_integer

    def __init__(self, probs: Any = None, logits: Any = None,
                 validate_args: bool | None = None) -> None:
        super().__init__(probs, logits, validate_args)
        if self._looks and not bool((self.probs > 0).all()):
            raise ArgumentError(f"Geometric: probs is not above 0, where it is "
                                f"{self.probs.detach().tolist()!r:.200}; there would be no 1")

    @property
    def mean(self) -> Tensor:
        return 1.0 / self.probs - 1.0

    @property
    def mode(self) -> Tensor:
        return self.probs * 0

    @property
    def variance(self) -> Tensor:
        return (1.0 / self.probs - 1.0) / self.probs

    def _drawn(self, shape: Size) -> Tensor:
        return (uniform_like(shape, self.probs).log() / (-self.probs).log1p()).floor()

    def log_prob(self, value: Tensor) -> Tensor:
        value = self._validate_sample(value)
        probs: Tensor = self.probs
        none = (probs == 1) & (value == 0)
        return value * (-choose(none, 0.0, probs)).log1p() + probs.log()

    def entropy(self) -> Tensor:
        return (softplus(self.logits) - self.logits * self.probs) / self.probs


class _Counted(OfTwo):
    """By a count, too."""

    total_count: Tensor

    def __init__(self, total_count: Any = 1, probs: Any = None, logits: Any = None,
                 validate_args: bool | None = None) -> None:
        given_one(type(self).__name__, probs, logits)
        self.total_count, self._param = broadcast_all(total_count,
                                                      logits if probs is None else probs)
        self.total_count = self.total_count.to(self._param.dtype)
        self.__dict__["logits" if probs is None else "probs"] = self._param
        Distribution.__init__(self, self._param.shape, validate_args=validate_args)



def _drawn_by(generator: Generator | None, draw: Callable[[], Tensor]) -> Tensor:
    """What `draw` gives, by a generator of one's own if there is one."""
    if chosen(generator) is default_generator:
        return draw()
    before = default_generator.counted()
    default_generator.go_on(*chosen(generator).counted())
    try:
        return draw()
    finally:
        chosen(generator).go_on(*default_generator.counted())
        default_generator.go_on(*before)


@takes_tensors
def binomial(count: Tensor, prob: Tensor, generator: Generator | None = None) -> Tensor:
    """How often 1 comes in `count` tries, each of them 1 with probability `prob`; without
    gradients. (`lt.binomial`.)"""
    tried = Binomial(count.detach(), prob.detach(), validate_args=False)
    return _drawn_by(generator, tried.sample)


@takes_tensors
def poisson(input: Tensor, generator: Generator | None = None) -> Tensor:
    """How many events there are where so many are expected; without gradients. (`lt.poisson`.)"""
    rate = input._unary(lambda x: ew.obeying(
        x, ew.invert(ew.less_equal(0, x)), "poisson", "a rate is below 0 or NaN"))
    return _drawn_by(generator, Poisson(rate, validate_args=False).sample)


class Binomial(_Counted):
    """How often 1 comes in total_count tries."""

    arg_constraints = {  # noqa: RUF012
        "total_count": constraints.nonnegative_integer, "probs": constraints.unit_interval,
        "logits": constraints.real}
    has_enumerate_support = True

    @property
    def support(self) -> Constraint:
        return constraints.integer_interval(0, self.total_count)

    def enumerate_support(self, expand: bool = True) -> Tensor:
        """See Distribution. All must have one total_count."""
        count = self._one_count("enumerate_support")
        return listed(self, arange(count + 1, dtype=self._param.dtype, device=self._param.device),
                      expand)

    def _one_count(self, operation: str) -> int:
        """The total_count that all have. NotDefinedError where they differ."""
        count = int(self.total_count.max())
        if int(self.total_count.min()) != count:
            raise NotDefinedError(f"{operation} of a Binomial: all must have one total_count")
        return count

    @property
    def mean(self) -> Tensor:
        return self.total_count * self.probs

    @property
    def mode(self) -> Tensor:
        return ((self.total_count + 1) * self.probs).floor().minimum(self.total_count)

    @property
    def variance(self) -> Tensor:
        return self.total_count * self.probs * (1 - self.probs)

    def _drawn(self, shape: Size) -> Tensor:
        most = int(self.total_count.max())
        tries = uniform_like(Size((most, *shape)), self._param) < self.probs
        number = arange(most, device=self._param.device).reshape(-1, *[1] * len(shape))
        return (tries & (number < self.total_count)).to(self._param.dtype).sum(0)

    def log_prob(self, value: Tensor) -> Tensor:
        value = self._validate_sample(value)
        return in_float64(_binomial_log_prob, self.total_count, self.logits, value)

    def entropy(self) -> Tensor:
        """See Distribution. All must have one total_count."""
        count = self._one_count("entropy")
        values = arange(count + 1, dtype=self._param.dtype, device=self._param.device)
        found = self.log_prob(values.reshape(-1, *[1] * len(self.batch_shape)))
        return -(found.exp() * found).sum(0)


def _binomial_log_prob(count: Tensor, logits: Tensor, value: Tensor) -> Tensor:
    ways = (count + 1).lgamma() - (value + 1).lgamma() - (count - value + 1).lgamma()
    return ways + value * logits - count * softplus(logits)


class NegativeBinomial(_Counted):
    """How often 1 comes before total_count zeros."""

    arg_constraints = {  # noqa: RUF012
        "total_count": constraints.greater_than_eq(0),
        "probs": constraints.half_open_interval(0.0, 1.0), "logits": constraints.real}
    support: Constraint = constraints.nonnegative_integer

    def __init__(self, total_count: Any, probs: Any = None, logits: Any = None,
                 validate_args: bool | None = None) -> None:
        super().__init__(total_count, probs, logits, validate_args)

    @property
    def mean(self) -> Tensor:
        return self.total_count * self.logits.exp()

    @property
    def mode(self) -> Tensor:
        return ((self.total_count - 1) * self.logits.exp()).floor().clamp(min=0.0)

    @property
    def variance(self) -> Tensor:
        return self.mean / (-self.logits).sigmoid()

    def _drawn(self, shape: Size) -> Tensor:
        rate = standard_gamma(self.total_count, shape) * self.logits.exp()
        return poisson_variables(choose(self.total_count > 0, rate, 0.0), shape)

    def log_prob(self, value: Tensor) -> Tensor:
        value = self._validate_sample(value)
        return in_float64(_negative_binomial_log_prob, self.total_count, self.logits, value)


def _negative_binomial_log_prob(count: Tensor, logits: Tensor, value: Tensor) -> Tensor:
    ways = (count + value).lgamma() - (value + 1).lgamma() - count.lgamma()
    ways = choose(count + value == 0, 0.0, ways)
    return ways - count * softplus(logits) - value * softplus(-logits)


class Poisson(ExponentialFamily):
    """rate ** k * exp(-rate) / k!: how many events there are where `rate` are expected."""

    arg_constraints = {"rate": constraints.nonnegative}  # noqa: RUF012
    support: Constraint = constraints.nonnegative_integer

    def __init__(self, rate: Any, validate_args: bool | None = None) -> None:
        (self.rate,) = broadcast_all(rate)
        super().__init__(self.rate.shape, validate_args=validate_args)

    @property
    def mean(self) -> Tensor:
        return self.rate

    @property
    def mode(self) -> Tensor:
        return self.rate.floor()

    @property
    def variance(self) -> Tensor:
        return self.rate

    def _drawn(self, shape: Size) -> Tensor:
        return poisson_variables(self.rate, shape)

    def log_prob(self, value: Tensor) -> Tensor:
        value = self._validate_sample(value)
        return in_float64(lambda rate, x: x.xlogy(rate) - rate - (x + 1).lgamma(), self.rate, value)
