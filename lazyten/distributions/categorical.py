"""Distributions over some values by their probabilities: Categorical, OneHotCategorical,
OneHotCategoricalStraightThrough, Multinomial."""
from __future__ import annotations

import math
from typing import Any

from lazyten.distributions import constraints
from lazyten.distributions.constraints import Constraint
from lazyten.distributions.discrete import Binomial, listed
from lazyten.distributions.distribution import (
    Distribution,
    choose,
    given_one,
    in_float64,
    lazy_property,
    logits_to_probs,
    probs_to_logits,
)
from lazyten.frontend.array_functions import broadcast_shapes
from lazyten.frontend.core.size import Size
from lazyten.frontend.functions import arange, eye
from lazyten.frontend.tensor import Tensor
from lazyten.nn.functional import one_hot
from lazyten.support.errors import ArgumentError, NotDefinedError, ShapeError


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
        return constraints.integer_interval(0, self._num_events - 1)

    @property
    def mean(self) -> Tensor:
        """NaN: the values are names."""
        return self._param[..., 0] * float("nan")

    @property
    def mode(self) -> Tensor:
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
        least = -3.4e38 if self.logits.dtype.itemsize == 4 else -6.5e4
        return -(self.logits.clamp(min=least) * self.probs).sum(-1)

    def enumerate_support(self, expand: bool = True) -> Tensor:
        return listed(self, arange(self._num_events, device=self._param.device), expand)


class OfCategorical(Distribution):
    """Vectors with a number for each value of a Categorical."""

    arg_constraints = Categorical.arg_constraints

    def __init__(self, probs: Any = None, logits: Any = None,
                 validate_args: bool | None = None) -> None:
        self._categorical = Categorical(probs, logits, validate_args)
        super().__init__(self._categorical.batch_shape, self._categorical.param_shape[-1:],
                         validate_args=validate_args)

    def expand(self, batch_shape: Any, _instance: Any = None) -> Any:
        made = super().expand(batch_shape, _instance)
        made._categorical = self._categorical.expand(batch_shape)
        return made

    @property
    def param_shape(self) -> Size:
        """The shape of the probabilities."""
        return self._categorical.param_shape

    @property
    def probs(self) -> Tensor:
        """The probabilities."""
        return self._categorical.probs

    @property
    def logits(self) -> Tensor:
        """Logs of the probabilities."""
        return self._categorical.logits


class OneHotCategorical(OfCategorical):
    """A Categorical's values as vectors with a 1 at one place."""

    has_enumerate_support = True
    support: Constraint = constraints.one_hot

    @property
    def mean(self) -> Tensor:
        return self.probs

    @property
    def mode(self) -> Tensor:
        return one_hot(self.probs.argmax(-1), self.event_shape[0]).to(self.probs.dtype)

    @property
    def variance(self) -> Tensor:
        return self.probs * (1 - self.probs)

    def _drawn(self, shape: Size) -> Tensor:
        places = self._categorical._drawn(Size(shape[:-1]))
        return one_hot(places, shape[-1]).to(self.probs.dtype)

    def log_prob(self, value: Tensor) -> Tensor:
        return self._categorical.log_prob(self._validate_sample(value).argmax(-1))

    def entropy(self) -> Tensor:
        return self._categorical.entropy()

    def enumerate_support(self, expand: bool = True) -> Tensor:
        count = self.event_shape[0]
        values = eye(count, dtype=self.probs.dtype, device=self.probs.device)
        values = values.reshape(count, *[1] * len(self.batch_shape), count)
        return values.expand(count, *self.batch_shape, count) if expand else values


class OneHotCategoricalStraightThrough(OneHotCategorical):
    """OneHotCategorical whose samples pass gradients on to the probabilities (Y. Bengio et al.,
    2013)."""

    has_rsample = True

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        return self.sample(sample_shape) + (self.probs - self.probs.detach())


class Multinomial(OfCategorical):
    """How often each of n values comes in total_count draws, the same number for all."""

    def __init__(self, total_count: int = 1, probs: Any = None, logits: Any = None,
                 validate_args: bool | None = None) -> None:
        if not isinstance(total_count, int):
            raise NotDefinedError(f"Multinomial: total_count={total_count!r:.40} must be a whole "
                                f"number, the same for all")
        if total_count < 0:
            raise ArgumentError(f"Multinomial: total_count={total_count} is below 0; give 0 or "
                                f"more")
        self.total_count = total_count
        super().__init__(probs, logits, validate_args)

    @property
    def support(self) -> Constraint:
        return constraints.independent(constraints.integer_interval(0, self.total_count), 1)

    @property
    def mean(self) -> Tensor:
        return self.probs * self.total_count

    @property
    def variance(self) -> Tensor:
        return self.total_count * self.probs * (1 - self.probs)

    def _drawn(self, shape: Size) -> Tensor:
        places = self._categorical._drawn(Size((self.total_count, *shape[:-1])))
        return one_hot(places, shape[-1]).to(self.probs.dtype).sum(0)

    def log_prob(self, value: Tensor) -> Tensor:
        value = self._validate_sample(value)
        value = value.expand(broadcast_shapes(value.shape, self.logits.shape))
        some = choose((value == 0) & (self.logits == -float("inf")), 0.0, self.logits)
        return in_float64(lambda logits, x: (x.sum(-1) + 1).lgamma() - (x + 1).lgamma().sum(-1)
                          + (logits * x).sum(-1), some, value)

    def entropy(self) -> Tensor:
        count = self.total_count
        values = arange(1, count + 1, dtype=self.probs.dtype, device=self.probs.device)
        values = values.reshape(-1, *[1] * self.probs.ndim)
        each = Binomial(count, self.probs, validate_args=False).log_prob(values).exp()
        found = (each * (values + 1).lgamma()).sum((0, -1))
        return count * self._categorical.entropy() - math.lgamma(count + 1) + found
