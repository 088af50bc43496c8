"""`kl_divergence(p, q)`: how much q misses of p, in nats; a table by the classes of both."""
from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from lazyten.distributions.categorical import Categorical, OneHotCategorical
from lazyten.distributions.composed import Independent
from lazyten.distributions.continuous import (
    Exponential,
    HalfNormal,
    Uniform,
)
from lazyten.distributions.discrete import (
    Bernoulli,
    Geometric,
    Poisson,
)
from lazyten.distributions.distribution import Distribution, choose, sum_rightmost
from lazyten.distributions.gamma import Beta, Dirichlet, Gamma
from lazyten.distributions.location_scale import Cauchy, Laplace, Normal
from lazyten.distributions.multivariate import MultivariateNormal, solve_lower, squared_length
from lazyten.distributions.transformed import LogNormal, TransformedDistribution
from lazyten.frontend.tensor import Tensor
from lazyten.nn.functional import softplus
from lazyten.support.errors import ArgumentError

Rule = Callable[[Any, Any], Tensor]
_RULES: dict[tuple[type, type], Rule] = {}


def register_kl(type_p: type[Distribution], type_q: type[Distribution]) -> Callable[[Rule], Rule]:
    """A decorator: the function is kl_divergence for these classes and those below them."""
    def registered(rule: Rule) -> Rule:
        _RULES[type_p, type_q] = rule
        return rule
    return registered


def kl_divergence(p: Distribution, q: Distribution) -> Tensor:
    """The mean of log p(x) - log q(x) for x of p, of shape batch_shape."""
    fitting = [(type(p).__mro__.index(a) + type(q).__mro__.index(b), rule)
               for (a, b), rule in _RULES.items() if isinstance(p, a) and isinstance(q, b)]
    if not fitting:
        raise NotImplementedError(f"kl_divergence of {type(p).__name__} and {type(q).__name__}: "
                                  f"no formula is known; add one by register_kl, or average "
                                  f"p.log_prob(x) - q.log_prob(x) over samples of p")
    return min(fitting, key=lambda found: found[0])[1](p, q)


@register_kl(Normal, Normal)
def _normals(p: Normal, q: Normal) -> Tensor:
    ratio = (p.scale / q.scale)**2
    return 0.5 * (ratio + ((p.loc - q.loc) / q.scale)**2 - 1 - ratio.log())


@register_kl(HalfNormal, HalfNormal)
def _half_normals(p: HalfNormal, q: HalfNormal) -> Tensor:
    ratio = (p.scale / q.scale)**2
    return 0.5 * (ratio - 1 - ratio.log())


@register_kl(Bernoulli, Bernoulli)
def _bernoullis(p: Bernoulli, q: Bernoulli) -> Tensor:
    one = p.probs * (softplus(-q.logits) - softplus(-p.logits))
    found: Tensor = one + (1 - p.probs) * (softplus(q.logits) - softplus(p.logits))
    return found


@register_kl(Categorical, Categorical)
def _categoricals(p: Categorical, q: Categorical) -> Tensor:
    found = p.probs * (p.logits - q.logits)
    found = choose((q.probs == 0).expand(found.shape), math.inf, found)
    return choose((p.probs == 0).expand(found.shape), 0.0, found).sum(-1)


@register_kl(OneHotCategorical, OneHotCategorical)
def _one_hots(p: OneHotCategorical, q: OneHotCategorical) -> Tensor:
    return _categoricals(p._categorical, q._categorical)


@register_kl(Uniform, Uniform)
def _uniforms(p: Uniform, q: Uniform) -> Tensor:
    found = ((q.high - q.low) / (p.high - p.low)).log()
    return choose((q.low > p.low) | (q.high < p.high), math.inf, found)


@register_kl(Uniform, Normal)
def _uniform_normal(p: Uniform, q: Normal) -> Tensor:
    width = p.high - p.low
    gap = ((p.high + p.low - 2 * q.loc) / 2)**2
    return (math.sqrt(2 * math.pi) * q.scale / width).log() + (width**2 / 12 + gap) / (
        2 * q.scale**2)


@register_kl(Exponential, Exponential)
def _exponentials(p: Exponential, q: Exponential) -> Tensor:
    ratio = q.rate / p.rate
    return ratio - 1 - ratio.log()


@register_kl(Laplace, Laplace)
def _laplaces(p: Laplace, q: Laplace) -> Tensor:
    ratio, gap = p.scale / q.scale, (p.loc - q.loc).abs()
    return -ratio.log() + gap / q.scale + ratio * (-gap / p.scale).exp() - 1


@register_kl(Cauchy, Cauchy)
def _cauchys(p: Cauchy, q: Cauchy) -> Tensor:
    return ((p.scale + q.scale)**2 + (p.loc - q.loc)**2).log() - (4 * p.scale * q.scale).log()


@register_kl(Geometric, Geometric)
def _geometrics(p: Geometric, q: Geometric) -> Tensor:
    found: Tensor = -p.entropy() - (-q.probs).log1p() / p.probs - q.logits
    return found


@register_kl(Poisson, Poisson)
def _poissons(p: Poisson, q: Poisson) -> Tensor:
    return p.rate * (p.rate.log() - q.rate.log()) - (p.rate - q.rate)


@register_kl(Gamma, Gamma)
def _gammas(p: Gamma, q: Gamma) -> Tensor:
    a, b = p.concentration, q.concentration
    return b * (p.rate / q.rate).log() + b.lgamma() - a.lgamma() + (a - b) * a.digamma() \
        + (q.rate - p.rate) * (a / p.rate)


@register_kl(Dirichlet, Dirichlet)
def _dirichlets(p: Dirichlet, q: Dirichlet) -> Tensor:
    a, b = p.concentration, q.concentration
    total = a.sum(-1)
    sizes = total.lgamma() - b.sum(-1).lgamma() - (a.lgamma() - b.lgamma()).sum(-1)
    return sizes + ((a - b) * (a.digamma() - total.digamma().unsqueeze(-1))).sum(-1)


@register_kl(Beta, Beta)
def _betas(p: Beta, q: Beta) -> Tensor:
    return _dirichlets(p._dirichlet, q._dirichlet)


@register_kl(MultivariateNormal, MultivariateNormal)
def _multivariate_normals(p: MultivariateNormal, q: MultivariateNormal) -> Tensor:
    if p.event_shape != q.event_shape:
        raise ArgumentError(f"kl_divergence of MultivariateNormals of event_shape {p.event_shape} "
                            f"and {q.event_shape}: they must be equal")
    trace = solve_lower(q.scale_tril, p.scale_tril).square().sum((-2, -1))
    gap = squared_length(q.scale_tril, q.loc - p.loc)
    return q._log_size - p._log_size + 0.5 * (trace + gap - p.event_shape[0])


@register_kl(Independent, Independent)
def _independents(p: Independent, q: Independent) -> Tensor:
    if p.reinterpreted_batch_ndims != q.reinterpreted_batch_ndims:
        raise NotImplementedError("kl_divergence of Independents of different "
                                  "reinterpreted_batch_ndims: no formula is known")
    return sum_rightmost(kl_divergence(p.base_dist, q.base_dist), p.reinterpreted_batch_ndims)


@register_kl(TransformedDistribution, TransformedDistribution)
def _transformed(p: TransformedDistribution, q: TransformedDistribution) -> Tensor:
    if p.transforms != q.transforms or p.event_shape != q.event_shape:
        raise NotImplementedError("kl_divergence of TransformedDistributions with different "
                                  "transforms: no formula is known")
    return kl_divergence(p.base_dist, q.base_dist)


@register_kl(LogNormal, LogNormal)
def _log_normals(p: LogNormal, q: LogNormal) -> Tensor:
    return kl_divergence(p.base_dist, q.base_dist)
