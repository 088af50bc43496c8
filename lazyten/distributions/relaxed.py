"""Continuous distributions in place of discrete ones: RelaxedBernoulli, RelaxedOneHotCategorical
(C. Maddison et al., E. Jang et al., 2017)."""
from __future__ import annotations

import math
from typing import Any

from lazyten.distributions import constraints
from lazyten.distributions.categorical import Categorical
from lazyten.distributions.constraints import Constraint
from lazyten.distributions.discrete import Bernoulli
from lazyten.distributions.distribution import (
    Distribution,
    Shape,
    clamp_probs,
    uniform_like,
)
from lazyten.frontend.core.size import Size
from lazyten.frontend.tensor import Tensor
from lazyten.nn.functional import softplus


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
