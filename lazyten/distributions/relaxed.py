"""Continuous distributions in place of discrete ones: RelaxedBernoulli, RelaxedOneHotCategorical
(C. Maddison et al., E. Jang et al., 2017), what these are transforms of, ContinuousBernoulli."""
from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from lazyten.distributions import constraints
from lazyten.distributions.categorical import OfCategorical
from lazyten.distributions.constraints import Constraint
from lazyten.distributions.discrete import OfTwo
from lazyten.distributions.distribution import (
    ExponentialFamily,
    Shape,
    choose,
    clamp_probs,
    uniform_like,
)
from lazyten.distributions.transformed import TransformedDistribution
from lazyten.distributions.transforms import ExpTransform, SigmoidTransform, Transform
from lazyten.frontend.core.size import Size
from lazyten.frontend.tensor import Tensor
from lazyten.nn.functional import logsigmoid


class LogitRelaxedBernoulli(OfTwo):
    """The log of the ratio of a RelaxedBernoulli's value to 1 minus that: a logistic variable
    around logits, divided by the temperature. Its density keeps what values so near to 0 or 1 that
    they are rounded to these lose."""

    has_rsample = True
    support: Constraint = constraints.real

    def __init__(self, temperature: Tensor | float, probs: Any = None, logits: Any = None,
                 validate_args: bool | None = None) -> None:
        self.temperature = temperature
        super().__init__(probs, logits, validate_args)

    def expand(self, batch_shape: Shape, _instance: Any = None) -> Any:
        return _expanded(self, super().expand(batch_shape, _instance))

    def _drawn(self, shape: Size) -> Tensor:
        u = clamp_probs(uniform_like(shape, self.logits))
        p = clamp_probs(self.probs)
        return (u.log() - (-u).log1p() + p.log() - (-p).log1p()) / self.temperature

    def log_prob(self, value: Tensor) -> Tensor:
        gap = self.logits - self._validate_sample(value) * self.temperature
        return _log(self.temperature) + logsigmoid(gap) + logsigmoid(-gap)


class ExpRelaxedCategorical(OfCategorical):
    """Logs of a RelaxedOneHotCategorical's values, which numbers too small for these have, too."""

    has_rsample = True
    support: Constraint = constraints.real_vector

    def __init__(self, temperature: Tensor | float, probs: Any = None, logits: Any = None,
                 validate_args: bool | None = None) -> None:
        self.temperature = temperature
        super().__init__(probs, logits, validate_args)

    def expand(self, batch_shape: Shape, _instance: Any = None) -> Any:
        return _expanded(self, super().expand(batch_shape, _instance))

    def _drawn(self, shape: Size) -> Tensor:
        gumbels = -(-clamp_probs(uniform_like(shape, self.logits)).log()).log()
        return ((self.logits + gumbels) / self.temperature).log_softmax(-1)

    def log_prob(self, value: Tensor) -> Tensor:
        count = self.event_shape[0]
        score = self.logits - self._validate_sample(value) * self.temperature
        score = (score - score.logsumexp(-1, keepdim=True)).sum(-1)
        return score + math.lgamma(count) + (count - 1) * _log(self.temperature)


class _Relaxed(TransformedDistribution):
    """What is a transform of its logs, which say all else."""

    base_dist: LogitRelaxedBernoulli | ExpRelaxedCategorical
    _of_logs: Callable[..., LogitRelaxedBernoulli | ExpRelaxedCategorical]
    _transform: type[Transform]

    def __init__(self, temperature: Tensor | float, probs: Any = None, logits: Any = None,
                 validate_args: bool | None = None) -> None:
        super().__init__(self._of_logs(temperature, probs, logits, validate_args),
                         self._transform(), validate_args)

    @property
    def temperature(self) -> Tensor | float:
        """How far from what they stand for values are."""
        return self.base_dist.temperature

    @property
    def probs(self) -> Tensor:
        """The probabilities at the temperature 0."""
        return self.base_dist.probs

    @property
    def logits(self) -> Tensor:
        """Logs of the probabilities, or of their ratio to those of the other value."""
        return self.base_dist.logits


class RelaxedBernoulli(_Relaxed):
    """Between 0 and 1, the nearer to either the lower the temperature: what gradients flow through
    in place of a Bernoulli variable (C. Maddison et al., E. Jang et al., 2017)."""

    arg_constraints = OfTwo.arg_constraints
    support: Constraint = constraints.unit_interval
    _of_logs, _transform = LogitRelaxedBernoulli, SigmoidTransform


class RelaxedOneHotCategorical(_Relaxed):
    """Probabilities, nearer to one 1 and zeros the lower the temperature: the Gumbel softmax."""

    arg_constraints = OfCategorical.arg_constraints
    support: Constraint = constraints.simplex
    _of_logs, _transform = ExpRelaxedCategorical, ExpTransform


def _log(temperature: Tensor | float) -> Tensor | float:
    return temperature.log() if isinstance(temperature, Tensor) else math.log(temperature)


def _expanded(given: Any, made: Any) -> Any:
    """An expanded distribution, with the temperature of the one that it is made of: that one
    broadcasts."""
    made.temperature = given.temperature
    return made


BERNOULLI = (1 / 6, -1 / 30, 1 / 42, -1 / 30, 5 / 66, -691 / 2730, 7 / 6, -3617 / 510)
SERIES = tuple(2**(2 * k - 1) * b / (k * math.factorial(2 * k)) for k, b in enumerate(BERNOULLI, 1))
"""log(sinh(y) / y) is the sum of SERIES[k - 1] * y ** (2 * k), to 1e-12 for y up to NEAR."""
NEAR = 0.5


class ContinuousBernoulli(OfTwo, ExponentialFamily):
    """Between 0 and 1 with a density as exp(x * logits) (G. Loaiza-Ganem and J. Cunningham, 2019).

    `lims` says in PyTorch where formulas are series; here they are where that is more exact.
    """

    has_rsample = True
    support: Constraint = constraints.unit_interval

    def __init__(self, probs: Any = None, logits: Any = None,
                 lims: tuple[float, float] = (0.499, 0.501),
                 validate_args: bool | None = None) -> None:
        super().__init__(probs, logits, validate_args)

    def _by_half(self, near: tuple[float, ...], first: int, far: Callable[[Tensor], Tensor]
                 ) -> Tensor:
        """A function of y, half of the logits: near 0 the sum of near[k] * y ** (first + 2 * k)."""
        half = self.logits / 2
        is_near = half.abs() < NEAR
        small, large = choose(is_near, half, 0.0), choose(is_near, 1.0, half)
        square = small * small
        total = square * 0
        for factor in reversed(near):
            total = total * square + factor
        return choose(is_near, total * small**first, far(large))

    @property
    def _log_size(self) -> Tensor:
        """log of the integral of exp(x * logits): logits / 2 + log(sinh(y) / y)."""
        found: Tensor = self.logits / 2 + self._by_half(SERIES, 2, lambda y: y.abs() + (
            -(-2 * y.abs()).expm1() / (2 * y.abs())).log())
        return found

    @property
    def mean(self) -> Tensor:
        slopes = tuple(2 * k * c for k, c in enumerate(SERIES, 1))
        return 0.5 + 0.5 * self._by_half(slopes, 1, lambda y: 1 / y.tanh() - 1 / y)

    @property
    def variance(self) -> Tensor:
        curves = tuple(2 * k * (2 * k - 1) * c for k, c in enumerate(SERIES, 1))
        return 0.25 * self._by_half(curves, 0, lambda y: (1 / y)**2 - 4 * (
            (-2 * y.abs()).exp() / (-2 * y.abs()).expm1()**2))

    def _drawn(self, shape: Size) -> Tensor:
        return self.icdf(uniform_like(shape, self.logits))

    def log_prob(self, value: Tensor) -> Tensor:
        return self._validate_sample(value) * self.logits - self._log_size

    def cdf(self, value: Tensor) -> Tensor:
        x, (slope, even) = self._validate_sample(value).clamp(min=0.0, max=1.0), self._slope
        size = slope.abs()  # of the density that falls; that which grows is its mirror image
        place = choose(slope > 0, 1 - x, x)
        below = (-size * place).expm1() / (-size).expm1()
        return choose(even, x, choose(slope > 0, 1 - below, below))

    def icdf(self, value: Tensor) -> Tensor:
        value, (slope, even) = self._given(value), self._slope
        size = slope.abs()
        below = choose(slope > 0, 1 - value, value)
        place = -(below * (-size).expm1()).log1p() / size
        return choose(even, value, choose(slope > 0, 1 - place, place))

    @property
    def _slope(self) -> tuple[Tensor, Tensor]:
        """The logits, 1 where they are 0, and where they are."""
        even: Tensor = self.logits == 0
        return choose(even, 1.0, self.logits), even

    def entropy(self) -> Tensor:
        return self._log_size - self.mean * self.logits
