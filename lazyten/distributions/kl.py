"""`kl_divergence(p, q)`: how much q misses of p, in nats; a table by the classes of both."""
from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from lazyten.distributions.categorical import Categorical, OneHotCategorical
from lazyten.distributions.composed import Independent
from lazyten.distributions.continuous import Exponential, HalfCauchy, HalfNormal, Uniform
from lazyten.distributions.discrete import Bernoulli, Binomial, Geometric, Poisson
from lazyten.distributions.distribution import (
    Distribution,
    ExponentialFamily,
    choose,
    in_float64,
    sum_rightmost,
)
from lazyten.distributions.gamma import Beta, Dirichlet, Gamma
from lazyten.distributions.location_scale import Cauchy, Gumbel, Laplace, Normal
from lazyten.distributions.matrices import LowRankMultivariateNormal, Wishart
from lazyten.distributions.multivariate import MultivariateNormal, solve_lower, squared_length
from lazyten.distributions.relaxed import ContinuousBernoulli
from lazyten.distributions.transformed import LogNormal, Pareto, TransformedDistribution
from lazyten.frontend.array_functions import broadcast_shapes
from lazyten.frontend.tensor import Tensor
from lazyten.nn.functional import softplus
from lazyten.support.errors import ArgumentError, NotDefinedError

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
        raise _unknown(p, q)
    return min(fitting, key=lambda found: found[0])[1](p, q)


def _unknown(p: Distribution, q: Distribution) -> NotDefinedError:
    return NotDefinedError(f"kl_divergence of {type(p).__name__} and {type(q).__name__}: no "
                           f"formula is known; add one by register_kl, or average "
                           f"p.log_prob(x) - q.log_prob(x) over samples of p")


@register_kl(ExponentialFamily, ExponentialFamily)
def _exponential_families(p: ExponentialFamily, q: ExponentialFamily) -> Tensor:
    """The Bregman divergence of the log normalizer (F. Nielsen and R. Nock, 2010)."""
    if type(p) is not type(q):
        raise _unknown(p, q)
    at, normalizer, means = p._mean_statistics()
    others = q._natural_params
    found = q._log_normalizer(*others) - normalizer
    for other, parameter, mean in zip(others, at, means, strict=True):
        found = found - sum_rightmost((other - parameter) * mean, len(q.event_shape))
    return found


@register_kl(Normal, Normal)
def _normals(p: Normal, q: Normal) -> Tensor:
    ratio = (p.scale / q.scale)**2
    return 0.5 * (ratio + ((p.loc - q.loc) / q.scale)**2 - 1 - ratio.log())


@register_kl(HalfNormal, HalfNormal)
def _half_normals(p: HalfNormal, q: HalfNormal) -> Tensor:
    ratio = (p.scale / q.scale)**2
    return 0.5 * (ratio - 1 - ratio.log())


@register_kl(HalfCauchy, HalfCauchy)
def _half_cauchys(p: HalfCauchy, q: HalfCauchy) -> Tensor:
    return 2 * (p.scale + q.scale).log() - (4 * p.scale * q.scale).log()


@register_kl(Wishart, Wishart)
def _wisharts(p: Wishart, q: Wishart) -> Tensor:
    if p.event_shape != q.event_shape:
        raise ArgumentError(f"kl_divergence of Wisharts of event_shape {p.event_shape} and "
                            f"{q.event_shape}: they must be equal")
    trace = p.df * solve_lower(q.scale_tril, p.scale_tril).square().sum((-2, -1))
    mean_log = (q.df - p._event_shape[0] - 1) / 2 * p._mean_log_determinant() - trace / 2 \
        - q._log_constant()
    return -p.entropy() - mean_log


@register_kl(Bernoulli, Bernoulli)
def _bernoullis(p: Bernoulli, q: Bernoulli) -> Tensor:
    one = p.probs * (softplus(-q.logits) - softplus(-p.logits))
    return one + (1 - p.probs) * (softplus(q.logits) - softplus(p.logits))


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
    return -p.entropy() - (-q.probs).log1p() / p.probs - q.logits


@register_kl(Poisson, Poisson)
def _poissons(p: Poisson, q: Poisson) -> Tensor:
    return in_float64(lambda a, b: a * (a.log() - b.log()) - (a - b), p.rate, q.rate)


@register_kl(Gamma, Gamma)
def _gammas(p: Gamma, q: Gamma) -> Tensor:
    return in_float64(_gamma_divergence, p.concentration, p.rate, q.concentration, q.rate)


def _gamma_divergence(a: Tensor, rate: Tensor, b: Tensor, other: Tensor) -> Tensor:
    return b * (rate / other).log() + b.lgamma() - a.lgamma() + (a - b) * a.digamma() \
        + (other - rate) * (a / rate)


@register_kl(Dirichlet, Dirichlet)
def _dirichlets(p: Dirichlet, q: Dirichlet) -> Tensor:
    return in_float64(_dirichlet_divergence, p.concentration, q.concentration)


def _dirichlet_divergence(a: Tensor, b: Tensor) -> Tensor:
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
    lower = q._unbroadcasted_scale_tril
    trace = solve_lower(lower, p._unbroadcasted_scale_tril).square().sum((-2, -1))
    gap = squared_length(lower, q.loc - p.loc)
    return q._log_size - p._log_size + 0.5 * (trace + gap - p._event_shape[0])


@register_kl(Independent, Independent)
def _independents(p: Independent, q: Independent) -> Tensor:
    if p.reinterpreted_batch_ndims != q.reinterpreted_batch_ndims:
        raise NotDefinedError("kl_divergence of Independents of different "
                              "reinterpreted_batch_ndims: no formula is known")
    return sum_rightmost(kl_divergence(p.base_dist, q.base_dist), p.reinterpreted_batch_ndims)


@register_kl(TransformedDistribution, TransformedDistribution)
def _transformed(p: TransformedDistribution, q: TransformedDistribution) -> Tensor:
    if p.transforms != q.transforms or p.event_shape != q.event_shape:
        raise NotDefinedError("kl_divergence of TransformedDistributions with different "
                              "transforms: no formula is known")
    return kl_divergence(p.base_dist, q.base_dist)


@register_kl(LogNormal, LogNormal)
def _log_normals(p: LogNormal, q: LogNormal) -> Tensor:
    return kl_divergence(p.base_dist, q.base_dist)


@register_kl(Binomial, Binomial)
def _binomials(p: Binomial, q: Binomial) -> Tensor:
    if bool((p.total_count < q.total_count).any()):
        raise NotDefinedError("kl_divergence of Binomials, the second of more trials: no "
                              "formula is known")
    one = p.probs * (p.logits - q.logits) + (-p.probs).log1p() - (-q.probs).log1p()
    found = p.total_count * one
    return choose((p.total_count > q.total_count).expand(found.shape), math.inf, found)


def _low_ranks(p: Any, q: Any) -> Tensor:
    return _multivariate_normals(*(MultivariateNormal(
        d.loc, scale_tril=d.scale_tril, validate_args=False) for d in (p, q)))


for _pair in ((LowRankMultivariateNormal, LowRankMultivariateNormal),
              (LowRankMultivariateNormal, MultivariateNormal),
              (MultivariateNormal, LowRankMultivariateNormal)):
    register_kl(*_pair)(_low_ranks)


# ---- of two kinds: the entropy of p, and the mean of the log density of q ------------------------

def _mean_log(p: Any) -> Tensor:
    """The mean of log x, for positive x."""
    if isinstance(p, Beta):
        a = p.concentration1
        return a.digamma() - (a + p.concentration0).digamma()
    if isinstance(p, Gamma):
        return p.concentration.digamma() - p.rate.log()
    if isinstance(p, Exponential):
        return -p.rate.log() - _EULER
    if isinstance(p, Pareto):
        return p.scale.log() + 1 / p.alpha
    found: Tensor = (p.high.xlogy(p.high) - p.low.xlogy(p.low)) / (p.high - p.low) - 1
    return found


def _mean_exp(p: Any, rate: Tensor) -> Tensor:
    """The mean of exp(-rate x)."""
    if isinstance(p, Exponential):
        return p.rate / (p.rate + rate)
    if isinstance(p, Gamma):
        return (1 + rate / p.rate)**-p.concentration
    if isinstance(p, Normal):
        return (0.5 * (rate * p.scale)**2 - rate * p.loc).exp()
    if isinstance(p, Gumbel):
        return (-rate * p.loc + (1 + p.scale * rate).lgamma()).exp()
    found: Tensor = ((-rate * p.low).exp() - (-rate * p.high).exp()) / (rate * (p.high - p.low))
    return found


def _of_normal(p: Distribution, q: Normal) -> Tensor:
    return -q.scale.log() - 0.5 * math.log(2 * math.pi) - 0.5 * (
        p.variance + (p.mean - q.loc)**2) / q.scale**2


def _of_exponential(p: Distribution, q: Exponential) -> Tensor:
    return q.rate.log() - q.rate * p.mean


def _of_gamma(p: Distribution, q: Gamma) -> Tensor:
    return in_float64(lambda a, rate, log, mean: a * rate.log() - a.lgamma() + (a - 1) * log
                      - rate * mean, q.concentration, q.rate, _mean_log(p), p.mean)


def _of_gumbel(p: Distribution, q: Gumbel) -> Tensor:
    return -q.scale.log() - (p.mean - q.loc) / q.scale \
        - _mean_exp(p, 1 / q.scale) * (q.loc / q.scale).exp()


def _of_laplace(p: Normal, q: Laplace) -> Tensor:
    gap = p.loc - q.loc
    away = p.scale * math.sqrt(2 / math.pi) * (-0.5 * (gap / p.scale)**2).exp() \
        + gap * (gap / (p.scale * math.sqrt(2))).erf()
    return -(2 * q.scale).log() - away / q.scale


def _of_uniform(p: Distribution, q: Uniform) -> Tensor:
    inside = (q.low <= 0) & (q.high >= 1)
    return choose(inside, -(q.high - q.low).log(), -math.inf)


def _of_pareto(p: Any, q: Pareto) -> Tensor:
    found = q.alpha.log() + q.alpha * q.scale.log() - (q.alpha + 1) * _mean_log(p)
    return choose(_least(p) >= q.scale, found, -math.inf)


def _of_continuous_bernoulli(p: Distribution, q: ContinuousBernoulli) -> Tensor:
    return p.mean * q.logits - q._log_size


def _of_beta(p: Uniform, q: Beta) -> Tensor:
    a, b = q.concentration1, q.concentration0
    rest = Uniform(1 - p.high, 1 - p.low, validate_args=False)
    size = in_float64(lambda a, b: (a + b).lgamma() - a.lgamma() - b.lgamma(), a, b)
    return size + (a - 1) * _mean_log(p) + (b - 1) * _mean_log(rest)


def _of_poisson(p: Bernoulli, q: Poisson) -> Tensor:
    return p.probs * q.rate.log() - q.rate


def _least(p: Any) -> Tensor:
    return p.low if isinstance(p, Uniform) else p.scale


def _outside(p: Any, q: Any) -> Tensor | None:
    """Where p has values that q cannot have, if it depends on the parameters."""
    if isinstance(p, Uniform):
        if isinstance(q, Exponential | Gamma):
            return p.low < 0
        if isinstance(q, Beta | ContinuousBernoulli):
            return (p.low < 0) | (p.high > 1)
    return None


_CROSSED: tuple[tuple[type[Any], Callable[[Any, Any], Tensor], tuple[type[Any], ...]], ...] = (
    (Normal, _of_normal, (Beta, ContinuousBernoulli, Exponential, Gamma, Gumbel, Laplace, Pareto,
                          Uniform)),
    (Exponential, _of_exponential, (Beta, ContinuousBernoulli, Gamma, Pareto, Uniform)),
    (Gamma, _of_gamma, (Beta, Exponential, Pareto, Uniform)),
    (Gumbel, _of_gumbel, (Exponential, Gamma, Normal, Uniform, Gumbel)),
    (Laplace, _of_laplace, (Normal,)), (Uniform, _of_uniform, (Beta, ContinuousBernoulli)),
    (Pareto, _of_pareto, (Uniform, Pareto)),
    (ContinuousBernoulli, _of_continuous_bernoulli, (Beta, ContinuousBernoulli, Uniform)),
    (Beta, _of_beta, (Uniform,)), (Poisson, _of_poisson, (Bernoulli,)),
)
"""The mean of q's log density under p, for each class of q, and the classes of p that it takes."""
_INFINITE: tuple[tuple[type[Any], tuple[type[Any], ...]], ...] = (
    (Uniform, (Exponential, Gamma, Gumbel, Laplace, Normal, Pareto)),
    (Pareto, (Beta, ContinuousBernoulli, Exponential, Gamma, Gumbel, Laplace, Normal)),
    (ContinuousBernoulli, (Exponential, Gamma, Gumbel, Laplace, Normal, Pareto)),
    (Beta, (Exponential, Gamma, Gumbel, Laplace, Normal, Pareto)),
    (Gamma, (Gumbel, Laplace, Normal)), (Exponential, (Gumbel, Laplace, Normal)),
    (Bernoulli, (Poisson,)), (Binomial, (Poisson,)),
)
"""Of each class of q the classes of p that have values which q cannot have."""
_EULER = 0.5772156649015329


def _crossed(mean_log_density: Callable[[Any, Any], Tensor]) -> Rule:
    def rule(p: Any, q: Any) -> Tensor:
        found = -p.entropy() - mean_log_density(p, q)
        outside = _outside(p, q)
        if isinstance(p, Pareto) and not isinstance(q, Pareto):
            outside = p.alpha <= (2 if isinstance(q, Normal) else 1)  # means are infinite
        return found if outside is None else choose(outside.expand(found.shape), math.inf, found)
    return rule


def _infinite(p: Any, q: Any) -> Tensor:
    shape = broadcast_shapes(p.batch_shape, q.batch_shape)
    like: Tensor = next(v for v in vars(p).values() if isinstance(v, Tensor))
    return like.new_full(shape, math.inf)


for _q, _mean, _ps in _CROSSED:
    for _p in _ps:
        register_kl(_p, _q)(_crossed(_mean))
for _q, _ps in _INFINITE:
    for _p in _ps:
        register_kl(_p, _q)(_infinite)
