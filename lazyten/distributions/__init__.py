"""Probability distributions under PyTorch's names: samples, densities, entropies, divergences.

In: parameters as numbers or tensors. Out: tensors, as of any operation: they fuse, and gradients
flow.

Files, in reading order:

- constraints.py: Sets of values: what parameters and samples of a distribution may be.
- distribution.py: `Distribution`: what all distributions have, and the functions they are written
  in.
- location_scale.py: Normal, Laplace, Cauchy, Gumbel.
- continuous.py: HalfNormal, HalfCauchy, Uniform, Exponential.
- discrete.py: Bernoulli, Geometric, Binomial, Poisson.
- categorical.py: Categorical, OneHotCategorical, Multinomial.
- gamma.py: Gamma, Chi2, InverseGamma, Beta, Dirichlet, StudentT.
- multivariate.py: MultivariateNormal.
- transforms.py: Functions with an inverse, whose change of a density is known.
- composed.py: Independent, MixtureSameFamily.
- transformed.py: TransformedDistribution, and those that are one: LogNormal, Pareto, Weibull.
- relaxed.py: RelaxedBernoulli, RelaxedOneHotCategorical.
- kl.py: `kl_divergence`, and the table of its formulas.
"""
from __future__ import annotations

from lazyten.distributions import constraints, transforms
from lazyten.distributions.categorical import (
    Categorical,
    Multinomial,
    OneHotCategorical,
    OneHotCategoricalStraightThrough,
)
from lazyten.distributions.composed import Independent, MixtureSameFamily
from lazyten.distributions.continuous import Exponential, HalfCauchy, HalfNormal, Uniform
from lazyten.distributions.discrete import Bernoulli, Binomial, Geometric, Poisson
from lazyten.distributions.distribution import Distribution, ExponentialFamily
from lazyten.distributions.gamma import Beta, Chi2, Dirichlet, Gamma, InverseGamma, StudentT
from lazyten.distributions.kl import kl_divergence, register_kl
from lazyten.distributions.location_scale import Cauchy, Gumbel, Laplace, Normal
from lazyten.distributions.multivariate import MultivariateNormal
from lazyten.distributions.relaxed import RelaxedBernoulli, RelaxedOneHotCategorical
from lazyten.distributions.transformed import LogNormal, Pareto, TransformedDistribution, Weibull
from lazyten.distributions.transforms import (
    AbsTransform,
    AffineTransform,
    ComposeTransform,
    ExpTransform,
    IndependentTransform,
    PowerTransform,
    SigmoidTransform,
    SoftmaxTransform,
    SoftplusTransform,
    TanhTransform,
    Transform,
    identity_transform,
)

__all__ = [
    "AbsTransform",
    "AffineTransform",
    "Bernoulli",
    "Beta",
    "Binomial",
    "Categorical",
    "Cauchy",
    "Chi2",
    "ComposeTransform",
    "Dirichlet",
    "Distribution",
    "ExpTransform",
    "Exponential",
    "ExponentialFamily",
    "Gamma",
    "Geometric",
    "Gumbel",
    "HalfCauchy",
    "HalfNormal",
    "Independent",
    "IndependentTransform",
    "InverseGamma",
    "Laplace",
    "LogNormal",
    "MixtureSameFamily",
    "Multinomial",
    "MultivariateNormal",
    "Normal",
    "OneHotCategorical",
    "OneHotCategoricalStraightThrough",
    "Pareto",
    "Poisson",
    "PowerTransform",
    "RelaxedBernoulli",
    "RelaxedOneHotCategorical",
    "SigmoidTransform",
    "SoftmaxTransform",
    "SoftplusTransform",
    "StudentT",
    "TanhTransform",
    "Transform",
    "TransformedDistribution",
    "Uniform",
    "Weibull",
    "constraints",
    "identity_transform",
    "kl_divergence",
    "register_kl",
    "transforms",
]
