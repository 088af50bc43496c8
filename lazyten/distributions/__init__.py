"""Probability distributions under PyTorch's names: samples, densities, entropies, divergences.

In: parameters as numbers or tensors. Out: tensors, as of any operation: they fuse, and gradients
flow.

Files, in reading order:

- constraints.py: Sets of values: what parameters and samples of a distribution may be.
- distribution.py: `Distribution`: what all distributions have, and the functions they are written
  in.
- sampling.py: Gamma and Poisson variables, and the gradients of the former.
- location_scale.py: Normal, Laplace, Cauchy, Gumbel, GeneralizedPareto.
- continuous.py: HalfNormal, HalfCauchy, Uniform, Exponential, VonMises.
- discrete.py: Bernoulli, Geometric, Binomial, NegativeBinomial, Poisson.
- categorical.py: Categorical, OneHotCategorical, Multinomial.
- gamma.py: Gamma, Chi2, InverseGamma, Beta, Dirichlet, StudentT, FisherSnedecor.
- multivariate.py: MultivariateNormal.
- matrices.py: LKJCholesky, Wishart, LowRankMultivariateNormal.
- elementwise_transforms.py: Functions with an inverse, whose change of a density is known: of
  numbers.
- transforms.py: Those of vectors and matrices, and the registries of constraints.
- composed.py: Independent, MixtureSameFamily.
- transformed.py: TransformedDistribution, and those that are one: LogNormal, Pareto, Weibull,
  Kumaraswamy, LogisticNormal.
- relaxed.py: RelaxedBernoulli, RelaxedOneHotCategorical, ContinuousBernoulli.
- kl.py: `kl_divergence`, and the table of its formulas.

A method or a property without a docstring is what its base class says of it.
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
from lazyten.distributions.continuous import Exponential, HalfCauchy, HalfNormal, Uniform, VonMises
from lazyten.distributions.discrete import Bernoulli, Binomial, Geometric, NegativeBinomial, Poisson
from lazyten.distributions.distribution import Distribution, ExponentialFamily
from lazyten.distributions.gamma import (
    Beta,
    Chi2,
    Dirichlet,
    FisherSnedecor,
    Gamma,
    InverseGamma,
    StudentT,
)
from lazyten.distributions.kl import kl_divergence, register_kl
from lazyten.distributions.location_scale import Cauchy, GeneralizedPareto, Gumbel, Laplace, Normal
from lazyten.distributions.matrices import LKJCholesky, LowRankMultivariateNormal, Wishart
from lazyten.distributions.multivariate import MultivariateNormal
from lazyten.distributions.relaxed import (
    ContinuousBernoulli,
    RelaxedBernoulli,
    RelaxedOneHotCategorical,
)
from lazyten.distributions.transformed import (
    Kumaraswamy,
    LogisticNormal,
    LogNormal,
    Pareto,
    TransformedDistribution,
    Weibull,
)
from lazyten.distributions.transforms import (
    AbsTransform,
    AffineTransform,
    CatTransform,
    ComposeTransform,
    CorrCholeskyTransform,
    CumulativeDistributionTransform,
    ExpTransform,
    IndependentTransform,
    LowerCholeskyTransform,
    PositiveDefiniteTransform,
    PowerTransform,
    ReshapeTransform,
    SigmoidTransform,
    SoftmaxTransform,
    SoftplusTransform,
    StackTransform,
    StickBreakingTransform,
    TanhTransform,
    Transform,
    biject_to,
    identity_transform,
    transform_to,
)
from lazyten.pytorch.modules import later as _later

__getattr__ = _later("lazyten.distributions")
__all__ = [
    "AbsTransform",
    "AffineTransform",
    "Bernoulli",
    "Beta",
    "Binomial",
    "CatTransform",
    "Categorical",
    "Cauchy",
    "Chi2",
    "ComposeTransform",
    "ContinuousBernoulli",
    "CorrCholeskyTransform",
    "CumulativeDistributionTransform",
    "Dirichlet",
    "Distribution",
    "ExpTransform",
    "Exponential",
    "ExponentialFamily",
    "FisherSnedecor",
    "Gamma",
    "GeneralizedPareto",
    "Geometric",
    "Gumbel",
    "HalfCauchy",
    "HalfNormal",
    "Independent",
    "IndependentTransform",
    "InverseGamma",
    "Kumaraswamy",
    "LKJCholesky",
    "Laplace",
    "LogNormal",
    "LogisticNormal",
    "LowRankMultivariateNormal",
    "LowerCholeskyTransform",
    "MixtureSameFamily",
    "Multinomial",
    "MultivariateNormal",
    "NegativeBinomial",
    "Normal",
    "OneHotCategorical",
    "OneHotCategoricalStraightThrough",
    "Pareto",
    "Poisson",
    "PositiveDefiniteTransform",
    "PowerTransform",
    "RelaxedBernoulli",
    "RelaxedOneHotCategorical",
    "ReshapeTransform",
    "SigmoidTransform",
    "SoftmaxTransform",
    "SoftplusTransform",
    "StackTransform",
    "StickBreakingTransform",
    "StudentT",
    "TanhTransform",
    "Transform",
    "TransformedDistribution",
    "Uniform",
    "VonMises",
    "Weibull",
    "Wishart",
    "biject_to",
    "constraints",
    "identity_transform",
    "kl_divergence",
    "register_kl",
    "transform_to",
    "transforms",
]
