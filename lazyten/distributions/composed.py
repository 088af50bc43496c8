"""Distributions made of others: Independent, TransformedDistribution and those that are one
(LogNormal, Pareto, Weibull, RelaxedBernoulli, RelaxedOneHotCategorical), MixtureSameFamily."""
from __future__ import annotations

import copy
import math
from typing import Any, Self

from lazyten.distributions import constraints
from lazyten.distributions.constraints import Constraint
from lazyten.distributions.continuous import Exponential, Normal
from lazyten.distributions.discrete import Bernoulli, Categorical
from lazyten.distributions.distribution import (
    Distribution,
    Shape,
    broadcast_all,
    clamp_probs,
    sum_rightmost,
    uniform_like,
)
from lazyten.distributions.transforms import (
    AffineTransform,
    ComposeTransform,
    ExpTransform,
    PowerTransform,
    Transform,
)
from lazyten.frontend.core.size import Size
from lazyten.frontend.tensor import Tensor
from lazyten.nn.functional import softplus
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
        """What values may be."""
        return constraints.independent(self.base_dist.support, self.reinterpreted_batch_ndims)

    def expand(self, batch_shape: Shape, _instance: Any = None) -> Self:
        """See Distribution."""
        made = copy.copy(self)
        own = self.event_shape[:self.reinterpreted_batch_ndims]
        made.base_dist = self.base_dist.expand((*batch_shape, *own))
        made._batch_shape = Size(batch_shape)
        return made

    @property
    def mean(self) -> Tensor:
        """The mean."""
        return self.base_dist.mean

    @property
    def mode(self) -> Tensor:
        """The most likely value."""
        return self.base_dist.mode

    @property
    def variance(self) -> Tensor:
        """The variance."""
        return self.base_dist.variance

    def _drawn(self, shape: Size) -> Tensor:
        return self.base_dist._drawn(shape)

    def log_prob(self, value: Tensor) -> Tensor:
        """See Distribution."""
        return sum_rightmost(self.base_dist.log_prob(value), self.reinterpreted_batch_ndims)

    def entropy(self) -> Tensor:
        """See Distribution."""
        return sum_rightmost(self.base_dist.entropy(), self.reinterpreted_batch_ndims)

    def __repr__(self) -> str:
        return f"Independent({self.base_dist}, {self.reinterpreted_batch_ndims})"


class TransformedDistribution(Distribution):
    """Values of a distribution after transforms."""

    def __init__(self, base_distribution: Distribution, transforms: Any,
                 validate_args: bool | None = None) -> None:
        self.transforms = [transforms] if isinstance(transforms, Transform) else list(transforms)
        if not all(isinstance(t, Transform) for t in self.transforms):
            raise ArgumentError(f"TransformedDistribution: {self.transforms!r:.80} are not "
                                f"transforms")
        wanted = ComposeTransform(self.transforms).event_dim
        missing = wanted - len(base_distribution.event_shape)
        self.base_dist = Independent(base_distribution, missing) if missing > 0 \
            else base_distribution
        super().__init__(self.base_dist.batch_shape, self.base_dist.event_shape, validate_args)

    @property
    def has_rsample(self) -> bool:  # type: ignore[override]  # depends on others
        """Whether gradients flow through samples."""
        return self.base_dist.has_rsample

    @property
    def support(self) -> Constraint:
        """What values may be."""
        if not self.transforms:
            return self.base_dist.support
        last = self.transforms[-1].codomain
        more = len(self.event_shape) - last.event_dim
        return constraints.independent(last, more) if more > 0 else last

    def expand(self, batch_shape: Shape, _instance: Any = None) -> Self:
        """See Distribution."""
        made = super().expand(batch_shape)
        made.base_dist = self.base_dist.expand(batch_shape)
        return made

    def _drawn(self, shape: Size) -> Tensor:
        x = self.base_dist._drawn(shape)
        for transform in self.transforms:
            x = transform(x)
        return x

    def log_prob(self, value: Tensor) -> Tensor:
        """See Distribution."""
        y = self._validate_sample(value)
        found: Tensor | float = 0.0
        axes = len(self.event_shape)
        for transform in reversed(self.transforms):
            x = transform._inverse(y)
            found = found - sum_rightmost(transform.log_abs_det_jacobian(x, y),
                                          axes - transform.event_dim)
            y = x
        more = axes - len(self.base_dist.event_shape)
        return sum_rightmost(self.base_dist.log_prob(y), more) + found

    def cdf(self, value: Tensor) -> Tensor:
        """See Distribution."""
        sign: Tensor | float = 1.0
        for transform in reversed(self.transforms):
            value, sign = transform._inverse(value), sign * transform.sign
        return sign * (self.base_dist.cdf(value) - 0.5) + 0.5

    def icdf(self, value: Tensor) -> Tensor:
        """See Distribution."""
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
        """The mean."""
        return (self.loc + self.scale**2 / 2).exp()

    @property
    def mode(self) -> Tensor:
        """The most likely value."""
        return (self.loc - self.scale**2).exp()

    @property
    def variance(self) -> Tensor:
        """The variance."""
        square = self.scale**2
        return square.expm1() * (2 * self.loc + square).exp()

    def entropy(self) -> Tensor:
        """See Distribution."""
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
        """See Distribution."""
        return Pareto(self.scale.expand(*batch_shape), self.alpha.expand(*batch_shape), False)

    @property
    def support(self) -> Constraint:
        """What values may be."""
        return constraints.greater_than_eq(self.scale)

    @property
    def mean(self) -> Tensor:
        """The mean; infinite up to an alpha of 1."""
        a = self.alpha.clamp(min=1)
        return a * self.scale / (a - 1)

    @property
    def mode(self) -> Tensor:
        """The most likely value."""
        return self.scale

    @property
    def variance(self) -> Tensor:
        """The variance; infinite up to an alpha of 2."""
        a = self.alpha.clamp(min=2)
        return self.scale**2 * a / ((a - 1)**2 * (a - 2))

    def entropy(self) -> Tensor:
        """See Distribution."""
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
        """See Distribution."""
        return Weibull(self.scale.expand(*batch_shape), self.concentration.expand(*batch_shape),
                       False)

    @property
    def mean(self) -> Tensor:
        """The mean."""
        return self.scale * (1 + self.concentration.reciprocal()).lgamma().exp()

    @property
    def mode(self) -> Tensor:
        """The most likely value; NaN below a concentration of 1."""
        k = self.concentration
        return self.scale * ((k - 1) / k)**k.reciprocal()

    @property
    def variance(self) -> Tensor:
        """The variance."""
        inverse = self.concentration.reciprocal()
        return self.scale**2 * ((1 + 2 * inverse).lgamma().exp()
                                - (2 * (1 + inverse).lgamma()).exp())

    def entropy(self) -> Tensor:
        """See Distribution."""
        inverse = self.concentration.reciprocal()
        return 0.57721566490153286 * (1 - inverse) + (self.scale * inverse).log() + 1


class RelaxedBernoulli(Distribution):
    """Between 0 and 1, the nearer to either the lower the temperature: what gradients flow through
    in place of a Bernoulli variable (C. Maddison et al., E. Jang et al., 2017)."""

    has_rsample = True
    support: Constraint = constraints.unit_interval

    def __init__(self, temperature: Tensor | float, probs: Any = None, logits: Any = None,
                 validate_args: bool | None = None) -> None:
        self.temperature = temperature
        self._bernoulli = Bernoulli(probs, logits, validate_args)
        super().__init__(self._bernoulli.batch_shape, validate_args=validate_args)

    def expand(self, batch_shape: Shape, _instance: Any = None) -> Any:
        """See Distribution."""
        return RelaxedBernoulli(self.temperature, logits=self.logits.expand(*batch_shape),
                                validate_args=False)

    @property
    def probs(self) -> Tensor:
        """How likely 1 is."""
        probs: Tensor = self._bernoulli.probs
        return probs

    @property
    def logits(self) -> Tensor:
        """log(probs / (1 - probs))."""
        logits: Tensor = self._bernoulli.logits
        return logits

    def _drawn(self, shape: Size) -> Tensor:
        u = clamp_probs(uniform_like(shape, self.logits))
        p = clamp_probs(self.probs)
        return ((u.log() - (-u).log1p() + p.log() - (-p).log1p()) / self.temperature).sigmoid()

    def log_prob(self, value: Tensor) -> Tensor:
        """See Distribution."""
        value = self._validate_sample(value)
        x = value.log() - (-value).log1p()
        gap = self.logits - x * self.temperature
        found = _log(self.temperature) + gap - 2 * gap.exp().log1p()
        return found + softplus(-x) + softplus(x)


def _log(temperature: Tensor | float) -> Tensor | float:
    return temperature.log() if isinstance(temperature, Tensor) else math.log(temperature)


class RelaxedOneHotCategorical(Distribution):
    """Probabilities, nearer to one 1 and zeros the lower the temperature: the Gumbel softmax."""

    has_rsample = True
    support: Constraint = constraints.simplex

    def __init__(self, temperature: Tensor | float, probs: Any = None, logits: Any = None,
                 validate_args: bool | None = None) -> None:
        self.temperature = temperature
        self._categorical = Categorical(probs, logits, validate_args)
        super().__init__(self._categorical.batch_shape, self._categorical.param_shape[-1:],
                         validate_args=validate_args)

    def expand(self, batch_shape: Shape, _instance: Any = None) -> Any:
        """See Distribution."""
        logits = self.logits.expand(*batch_shape, *self.event_shape)
        return RelaxedOneHotCategorical(self.temperature, logits=logits, validate_args=False)

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

    def _drawn(self, shape: Size) -> Tensor:
        gumbels = -(-clamp_probs(uniform_like(shape, self.logits)).log()).log()
        return ((self.logits + gumbels) / self.temperature).softmax(-1)

    def log_prob(self, value: Tensor) -> Tensor:
        """See Distribution."""
        log = self._validate_sample(value).log()
        count = self.event_shape[0]
        score = self.logits - log * self.temperature
        score = (score - score.logsumexp(-1, keepdim=True)).sum(-1)
        return score + math.lgamma(count) + (count - 1) * _log(self.temperature) - log.sum(-1)


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
        """What values may be."""
        return self.component_distribution.support

    def _weights(self, like: Tensor) -> Tensor:
        probs: Tensor = self.mixture_distribution.probs
        return probs.reshape(*probs.shape, *[1] * len(self.event_shape))

    @property
    def _axis(self) -> int:
        return -1 - len(self.event_shape)

    @property
    def mean(self) -> Tensor:
        """The mean."""
        means = self.component_distribution.mean
        return (self._weights(means) * means).sum(self._axis)

    @property
    def variance(self) -> Tensor:
        """The variance."""
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

    def log_prob(self, value: Tensor) -> Tensor:
        """See Distribution."""
        value = self._validate_sample(value).unsqueeze(self._axis)
        found = self.component_distribution.log_prob(value)
        weights: Tensor = self.mixture_distribution.logits
        return (found + weights.log_softmax(-1)).logsumexp(-1)

    def cdf(self, value: Tensor) -> Tensor:
        """See Distribution."""
        found = self.component_distribution.cdf(value.unsqueeze(self._axis))
        return (found * self.mixture_distribution.probs).sum(-1)
