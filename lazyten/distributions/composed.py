"""Distributions made of others: Independent, MixtureSameFamily."""
from __future__ import annotations

from typing import Any, Self

from lazyten.distributions import constraints
from lazyten.distributions.categorical import Categorical
from lazyten.distributions.constraints import Constraint
from lazyten.distributions.distribution import Distribution, Shape, sum_rightmost
from lazyten.frontend.core.size import Size
from lazyten.frontend.tensor import Tensor
from lazyten.support.errors import ArgumentError


class Independent(Distribution):
    """A distribution of which the last axes of a batch are one value: its log_prob is their sum."""

    def __init__(self, base_distribution: Distribution, reinterpreted_batch_ndims: int,
                 validate_args: bool | None = None) -> None:
        batch, count = base_distribution.batch_shape, reinterpreted_batch_ndims
        if count > len(batch):
            raise ArgumentError(f"Independent: reinterpreted_batch_ndims={count} of a batch of "
                                f"shape {batch}")
        self.base_dist, self.reinterpreted_batch_ndims = base_distribution, count
        split = len(batch) - count
        super().__init__(batch[:split], batch[split:] + base_distribution.event_shape,
                         validate_args)

    @property
    def has_rsample(self) -> bool:  # type: ignore[override]  # depends on others
        """Whether gradients flow through samples."""
        return self.base_dist.has_rsample

    @property
    def support(self) -> Constraint:
        return constraints.independent(self.base_dist.support, self.reinterpreted_batch_ndims)

    def expand(self, batch_shape: Shape, _instance: Any = None) -> Self:
        made = super().expand(batch_shape, _instance)
        own = self.event_shape[:self.reinterpreted_batch_ndims]
        made.base_dist = self.base_dist.expand((*batch_shape, *own))
        return made

    @property
    def mean(self) -> Tensor:
        return self.base_dist.mean

    @property
    def mode(self) -> Tensor:
        return self.base_dist.mode

    @property
    def variance(self) -> Tensor:
        return self.base_dist.variance

    def _drawn(self, shape: Size) -> Tensor:
        return self.base_dist._drawn(shape)

    def log_prob(self, value: Tensor) -> Tensor:
        return sum_rightmost(self.base_dist.log_prob(value), self.reinterpreted_batch_ndims)

    def entropy(self) -> Tensor:
        return sum_rightmost(self.base_dist.entropy(), self.reinterpreted_batch_ndims)

    def __repr__(self) -> str:
        return f"Independent({self.base_dist}, {self.reinterpreted_batch_ndims})"


class MixtureSameFamily(Distribution):
    """A value of one of several distributions, the last axis of a batch, that is drawn first."""

    def __init__(self, mixture_distribution: Categorical, component_distribution: Distribution,
                 validate_args: bool | None = None) -> None:
        if not isinstance(mixture_distribution, Categorical):
            raise ArgumentError(f"MixtureSameFamily: the mixture is a "
                                f"{type(mixture_distribution).__name__}; it must be a Categorical")
        count, batch = mixture_distribution._num_events, component_distribution.batch_shape
        if not batch or batch[-1] != count:
            raise ArgumentError(f"MixtureSameFamily: a mixture of {count} of distributions of "
                                f"batch_shape {batch}; the last axis must be that of these")
        self.mixture_distribution = mixture_distribution
        self.component_distribution = component_distribution
        super().__init__(batch[:-1], component_distribution.event_shape, validate_args)

    @property
    def support(self) -> Constraint:
        return constraints.MixtureSameFamilyConstraint(self.component_distribution.support)

    def expand(self, batch_shape: Shape, _instance: Any = None) -> Self:
        made = super().expand(batch_shape, _instance)
        components = (*batch_shape, self.mixture_distribution._num_events)
        made.mixture_distribution = self.mixture_distribution.expand(batch_shape)
        made.component_distribution = self.component_distribution.expand(components)
        return made

    def _weights(self, like: Tensor) -> Tensor:
        probs: Tensor = self.mixture_distribution.probs
        return probs.reshape(*probs.shape, *[1] * len(self.event_shape))

    @property
    def _axis(self) -> int:
        return -1 - len(self.event_shape)

    @property
    def mean(self) -> Tensor:
        means = self.component_distribution.mean
        return (self._weights(means) * means).sum(self._axis)

    @property
    def variance(self) -> Tensor:
        means, of_each = self.component_distribution.mean, self.component_distribution.variance
        gap = means - self.mean.unsqueeze(self._axis)
        return (self._weights(means) * (of_each + gap * gap)).sum(self._axis)

    def _drawn(self, shape: Size) -> Tensor:
        lead = shape[:len(shape) - len(self.event_shape)]
        places = self.mixture_distribution.expand(self.batch_shape)._drawn(Size(lead))
        count = self.mixture_distribution._num_events
        drawn = self.component_distribution._drawn(Size((*lead, count, *self.event_shape)))
        index = places.reshape(*lead, 1, *[1] * len(self.event_shape))
        return drawn.gather(len(lead), index.expand(*lead, 1, *self.event_shape)).squeeze(len(lead))

    def log_prob(self, x: Tensor) -> Tensor:
        value = self._validate_sample(x).unsqueeze(self._axis)
        found = self.component_distribution.log_prob(value)
        weights: Tensor = self.mixture_distribution.logits
        return (found + weights.log_softmax(-1)).logsumexp(-1)

    def cdf(self, x: Tensor) -> Tensor:
        found = self.component_distribution.cdf(x.unsqueeze(self._axis))
        return (found * self.mixture_distribution.probs).sum(-1)
