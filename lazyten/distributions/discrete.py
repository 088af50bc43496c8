"""Distributions of whole numbers: Bernoulli, Geometric, Binomial, Categorical, OneHotCategorical,
OneHotCategoricalStraightThrough, Multinomial, Poisson."""
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
    given_one,
    lazy_property,
    logits_to_probs,
    probs_to_logits,
    uniform_like,
)
from lazyten.frontend.core.size import Size
from lazyten.frontend.functions import arange, eye
from lazyten.frontend.tensor import Tensor
from lazyten.nn.functional import one_hot, softplus
from lazyten.support.errors import ArgumentError, ShapeError


class _OfTwo(Distribution):
    """By a probability, or the log of its ratio to the other's."""

    arg_constraints = {  # noqa: RUF012
        "probs": constraints.unit_interval, "logits": constraints.real}

    def __init__(self, probs: Any = None, logits: Any = None,
                 validate_args: bool | None = None) -> None:
        given_one(type(self).__name__, probs, logits)
        (self._param,) = broadcast_all(logits if probs is None else probs)
        self.__dict__["logits" if probs is None else "probs"] = self._param
        super().__init__(self._param.shape, validate_args=validate_args)

    @lazy_property
    def logits(self) -> Tensor:
        """log(probs / (1 - probs))."""
        return probs_to_logits(self.probs, True)

    @lazy_property
    def probs(self) -> Tensor:
        """How likely 1 is."""
        return logits_to_probs(self.logits, True)


class Bernoulli(_OfTwo, ExponentialFamily):
    """1 with probability probs, else 0."""

    has_enumerate_support = True
    support: Constraint = constraints.boolean

    @property
    def mean(self) -> Tensor:
        """The mean."""
        probs: Tensor = self.probs
        return probs

    @property
    def mode(self) -> Tensor:
        """The most likely value; NaN if both are."""
        even = choose(self.probs == 0.5, float("nan"), 0.0)
        return (self.probs >= 0.5).to(self.probs.dtype) + even.to(self.probs.dtype)

    @property
    def variance(self) -> Tensor:
        """The variance."""
        found: Tensor = self.probs * (1 - self.probs)
        return found

    def _drawn(self, shape: Size) -> Tensor:
        drawn: Tensor = (uniform_like(shape, self.probs) < self.probs).to(self.probs.dtype)
        return drawn

    def log_prob(self, value: Tensor) -> Tensor:
        """See Distribution."""
        value = self._validate_sample(value)
        logits: Tensor = self.logits
        return logits * value - softplus(logits)

    def entropy(self) -> Tensor:
        """See Distribution."""
        return softplus(self.logits) - self.logits * self.probs

    def enumerate_support(self, expand: bool = True) -> Tensor:
        """See Distribution."""
        return _listed(self, arange(2, dtype=self._param.dtype, device=self._param.device), expand)


def _listed(of: Distribution, values: Tensor, expand: bool) -> Tensor:
    values = values.reshape(-1, *[1] * len(of.batch_shape))
    return values.expand(-1, *of.batch_shape) if expand else values


class Geometric(_OfTwo):
    """How often 0 comes before the first 1."""

    support: Constraint = constraints.nonnegative_integer

    @property
    def mean(self) -> Tensor:
        """The mean."""
        return 1.0 / self.probs - 1.0

    @property
    def mode(self) -> Tensor:
        """The most likely value."""
        zeros: Tensor = self.probs * 0
        return zeros

    @property
    def variance(self) -> Tensor:
        """The variance."""
        found: Tensor = (1.0 / self.probs - 1.0) / self.probs
        return found

    def _drawn(self, shape: Size) -> Tensor:
        return (uniform_like(shape, self.probs).log() / (-self.probs).log1p()).floor()

    def log_prob(self, value: Tensor) -> Tensor:
        """See Distribution."""
        value = self._validate_sample(value)
        probs: Tensor = self.probs
        none = (probs == 1) & (value == 0)
        return value * (-choose(none, 0.0, probs)).log1p() + probs.log()

    def entropy(self) -> Tensor:
        """See Distribution."""
        found: Tensor = (softplus(self.logits) - self.logits * self.probs) / self.probs
        return found


class Binomial(_OfTwo):
    """How often 1 comes in total_count tries."""

    arg_constraints = {  # noqa: RUF012
        "total_count": constraints.nonnegative_integer, "probs": constraints.unit_interval,
        "logits": constraints.real}

    def __init__(self, total_count: Any = 1, probs: Any = None, logits: Any = None,
                 validate_args: bool | None = None) -> None:
        given_one("Binomial", probs, logits)
        self.total_count, self._param = broadcast_all(total_count,
                                                      logits if probs is None else probs)
        self.total_count = self.total_count.to(self._param.dtype)
        self.__dict__["logits" if probs is None else "probs"] = self._param
        Distribution.__init__(self, self._param.shape, validate_args=validate_args)

    @property
    def support(self) -> Constraint:
        """What values may be."""
        return constraints.integer_interval(0, self.total_count)

    @property
    def mean(self) -> Tensor:
        """The mean."""
        return self.total_count * self.probs

    @property
    def mode(self) -> Tensor:
        """The most likely value."""
        return ((self.total_count + 1) * self.probs).floor().minimum(self.total_count)

    @property
    def variance(self) -> Tensor:
        """The variance."""
        return self.total_count * self.probs * (1 - self.probs)

    def _drawn(self, shape: Size) -> Tensor:
        most = int(self.total_count.max())
        tries = uniform_like(Size((most, *shape)), self._param) < self.probs
        number = arange(most, device=self._param.device).reshape(-1, *[1] * len(shape))
        return (tries & (number < self.total_count)).to(self._param.dtype).sum(0)

    def log_prob(self, value: Tensor) -> Tensor:
        """See Distribution."""
        value = self._validate_sample(value)
        count, logits = self.total_count, self.logits
        ways = (count + 1).lgamma() - (value + 1).lgamma() - (count - value + 1).lgamma()
        found: Tensor = ways + value * logits - count * softplus(logits)
        return found

    def entropy(self) -> Tensor:
        """See Distribution. All must have one total_count."""
        count = int(self.total_count.max())
        if int(self.total_count.min()) != count:
            raise ArgumentError("entropy of a Binomial: all must have one total_count")
        values = arange(count + 1, dtype=self._param.dtype, device=self._param.device)
        found = self.log_prob(values.reshape(-1, *[1] * len(self.batch_shape)))
        return -(found.exp() * found).sum(0)


class Categorical(Distribution):
    """0 to n - 1, by their probabilities, which need not add up to 1, or logs of them."""

    has_enumerate_support = True
    arg_constraints = {  # noqa: RUF012
        "probs": constraints.simplex, "logits": constraints.real_vector}

    def __init__(self, probs: Any = None, logits: Any = None,
                 validate_args: bool | None = None) -> None:
        given_one(type(self).__name__, probs, logits)
        given = logits if probs is None else probs
        if not isinstance(given, Tensor) or given.ndim < 1:
            raise ShapeError(f"{type(self).__name__}: the probabilities must be a tensor of one "
                             f"axis or more, the last of which is that of the values")
        if probs is None:
            self.__dict__["logits"] = given - given.logsumexp(-1, keepdim=True)
        else:
            self.__dict__["probs"] = given / given.sum(-1, keepdim=True)
        self._param: Tensor = self.__dict__["logits" if probs is None else "probs"]
        self._num_events = given.shape[-1]
        super().__init__(given.shape[:-1], validate_args=validate_args)

    @lazy_property
    def logits(self) -> Tensor:
        """Logs of the probabilities."""
        return probs_to_logits(self.probs)

    @lazy_property
    def probs(self) -> Tensor:
        """The probabilities."""
        return logits_to_probs(self.logits)

    @property
    def param_shape(self) -> Size:
        """The shape of the probabilities."""
        return self._param.shape

    @property
    def support(self) -> Constraint:
        """What values may be."""
        return constraints.integer_interval(0, self._num_events - 1)

    @property
    def mean(self) -> Tensor:
        """NaN: the values are names."""
        return self._param[..., 0] * float("nan")

    @property
    def mode(self) -> Tensor:
        """The most likely value."""
        return self.probs.argmax(-1)

    @property
    def variance(self) -> Tensor:
        """NaN: the values are names."""
        return self._param[..., 0] * float("nan")

    def _drawn(self, shape: Size) -> Tensor:
        own = len(self.batch_shape)
        count = 1
        for n in shape[:len(shape) - own]:
            count *= n
        rows = self.probs.reshape(-1, self._num_events)
        return rows.multinomial(count, True).T.reshape(shape)

    def log_prob(self, value: Tensor) -> Tensor:
        """See Distribution."""
        value = self._validate_sample(value).long().unsqueeze(-1)
        lead = max(value.ndim, self.logits.ndim)
        shape = [1] * (lead - value.ndim) + list(value.shape)
        logs = [1] * (lead - self.logits.ndim) + list(self.logits.shape)
        batch = [max(a, b) if 0 not in (a, b) else 0
                 for a, b in zip(shape[:-1], logs[:-1], strict=True)]
        picked = self.logits.expand(*batch, self._num_events).gather(
            -1, value.expand(*batch, 1))
        return picked.squeeze(-1)

    def entropy(self) -> Tensor:
        """See Distribution."""
        least = -3.4e38 if self.logits.dtype.itemsize == 4 else -6.5e4
        return -(self.logits.clamp(min=least) * self.probs).sum(-1)

    def enumerate_support(self, expand: bool = True) -> Tensor:
        """See Distribution."""
        return _listed(self, arange(self._num_events, device=self._param.device), expand)


class _OfCategorical(Distribution):
    """Vectors with a number for each value of a Categorical."""

    arg_constraints = Categorical.arg_constraints

    def __init__(self, probs: Any = None, logits: Any = None,
                 validate_args: bool | None = None) -> None:
        self._categorical = Categorical(probs, logits, validate_args)
        super().__init__(self._categorical.batch_shape, self._categorical.param_shape[-1:],
                         validate_args=validate_args)

    def expand(self, batch_shape: Any, _instance: Any = None) -> Any:
        """See Distribution."""
        made = super().expand(batch_shape)
        made._categorical = self._categorical.expand(batch_shape)
        return made

    @property
    def probs(self) -> Tensor:
        """The probabilities."""
        probs: Tensor = self._categorical.probs
        return probs

    @property
    def logits(self) -> Tensor:
        """Logs of the probabilities."""
        logits: Tensor = self._categorical.logits
        return logits


class OneHotCategorical(_OfCategorical):
    """A Categorical's values as vectors with a 1 at one place."""

    has_enumerate_support = True
    support: Constraint = constraints.one_hot

    @property
    def mean(self) -> Tensor:
        """The mean."""
        return self.probs

    @property
    def mode(self) -> Tensor:
        """The most likely value."""
        return one_hot(self.probs.argmax(-1), self.event_shape[0]).to(self.probs.dtype)

    @property
    def variance(self) -> Tensor:
        """The variance."""
        return self.probs * (1 - self.probs)

    def _drawn(self, shape: Size) -> Tensor:
        places = self._categorical._drawn(Size(shape[:-1]))
        return one_hot(places, shape[-1]).to(self.probs.dtype)

    def log_prob(self, value: Tensor) -> Tensor:
        """See Distribution."""
        return self._categorical.log_prob(self._validate_sample(value).argmax(-1))

    def entropy(self) -> Tensor:
        """See Distribution."""
        return self._categorical.entropy()

    def enumerate_support(self, expand: bool = True) -> Tensor:
        """See Distribution."""
        count = self.event_shape[0]
        values = eye(count, dtype=self.probs.dtype, device=self.probs.device)
        values = values.reshape(count, *[1] * len(self.batch_shape), count)
        return values.expand(count, *self.batch_shape, count) if expand else values


class OneHotCategoricalStraightThrough(OneHotCategorical):
    """OneHotCategorical whose samples pass gradients on to the probabilities (Y. Bengio et al.,
    2013)."""

    has_rsample = True

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        """See Distribution."""
        return self.sample(sample_shape) + (self.probs - self.probs.detach())


class Multinomial(_OfCategorical):
    """How often each of n values comes in total_count draws, the same number for all."""

    def __init__(self, total_count: int = 1, probs: Any = None, logits: Any = None,
                 validate_args: bool | None = None) -> None:
        if not isinstance(total_count, int):
            raise ArgumentError(f"Multinomial: total_count={total_count!r:.40} must be a whole "
                                f"number, the same for all")
        self.total_count = total_count
        super().__init__(probs, logits, validate_args)

    @property
    def support(self) -> Constraint:
        """What values may be."""
        return constraints.independent(constraints.integer_interval(0, self.total_count), 1)

    @property
    def mean(self) -> Tensor:
        """The mean."""
        return self.probs * self.total_count

    @property
    def variance(self) -> Tensor:
        """The variance."""
        return self.total_count * self.probs * (1 - self.probs)

    def _drawn(self, shape: Size) -> Tensor:
        places = self._categorical._drawn(Size((self.total_count, *shape[:-1])))
        return one_hot(places, shape[-1]).to(self.probs.dtype).sum(0)

    def log_prob(self, value: Tensor) -> Tensor:
        """See Distribution."""
        value = self._validate_sample(value)
        ways = (value.sum(-1) + 1).lgamma() - (value + 1).lgamma().sum(-1)
        some = choose((value == 0) & (self.logits == -float("inf")), 0.0, self.logits)
        return ways + (some * value).sum(-1)

    def entropy(self) -> Tensor:
        """See Distribution."""
        count = self.total_count
        values = arange(1, count + 1, dtype=self.probs.dtype, device=self.probs.device)
        values = values.reshape(-1, *[1] * self.probs.ndim)
        each = Binomial(count, self.probs, validate_args=False).log_prob(values).exp()
        found = (each * (values + 1).lgamma()).sum((0, -1))
        return count * self._categorical.entropy() - math.lgamma(count + 1) + found


class Poisson(ExponentialFamily):
    """rate ** k * exp(-rate) / k!. It has no sample() here."""

    arg_constraints = {"rate": constraints.nonnegative}  # noqa: RUF012
    support: Constraint = constraints.nonnegative_integer

    def __init__(self, rate: Any, validate_args: bool | None = None) -> None:
        (self.rate,) = broadcast_all(rate)
        super().__init__(self.rate.shape, validate_args=validate_args)

    @property
    def mean(self) -> Tensor:
        """The mean."""
        return self.rate

    @property
    def mode(self) -> Tensor:
        """The most likely value."""
        return self.rate.floor()

    @property
    def variance(self) -> Tensor:
        """The variance."""
        return self.rate

    def log_prob(self, value: Tensor) -> Tensor:
        """See Distribution."""
        value = self._validate_sample(value)
        return value.xlogy(self.rate) - self.rate - (value + 1).lgamma()


