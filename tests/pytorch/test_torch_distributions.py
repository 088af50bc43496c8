"""Distributions beside PyTorch's: densities and their gradients, moments, entropies, divergences;
and samples beside their own densities."""
from __future__ import annotations

from collections.abc import Callable, Iterator
from importlib import import_module
from typing import Any

import numpy as np
import pytest

import lazyten as lt

torch = pytest.importorskip("torch")

pytestmark = pytest.mark.torch

Make = Callable[[Any, Any], Any]
"""Of a library's distributions, and a function that makes a parameter of numbers."""

A, B = [[0.5, -1.0, 2.0], [0.0, 1.5, -0.25]], [0.75, 1.5, 3.0]
P = [[0.2, 0.5, 0.9], [0.35, 0.1, 0.6]]
ROWS = [[0.2, 0.3, 0.5], [0.6, 0.1, 0.3]]
TRIL = [[1.0, 0.0, 0.0], [0.5, 2.0, 0.0], [-0.3, 0.25, 0.5]]
COV = (np.array(TRIL) @ np.array(TRIL).T).tolist()

DISTRIBUTIONS: dict[str, Make] = {
    "Normal": lambda D, p: D.Normal(p(A), p(B)), "Laplace": lambda D, p: D.Laplace(p(A), p(B)),
    "Cauchy": lambda D, p: D.Cauchy(p(A), p(B)), "Gumbel": lambda D, p: D.Gumbel(p(A), p(B)),
    "HalfNormal": lambda D, p: D.HalfNormal(p(B)), "HalfCauchy": lambda D, p: D.HalfCauchy(p(B)),
    "Uniform": lambda D, p: D.Uniform(p(A), p([3.0, 4.0, 5.0])),
    "Exponential": lambda D, p: D.Exponential(p(B)),
    "LogNormal": lambda D, p: D.LogNormal(p(A), p(B)), "Pareto": lambda D, p: D.Pareto(p(B), p(B)),
    "Weibull": lambda D, p: D.Weibull(p(B), p([0.8, 1.5, 3.0])),
    "Gamma": lambda D, p: D.Gamma(p([0.4, 1.5, 8.0]), p(B)), "Chi2": lambda D, p: D.Chi2(p(B)),
    "InverseGamma": lambda D, p: D.InverseGamma(p([0.6, 1.5, 5.0]), p(B)),
    "Beta": lambda D, p: D.Beta(p(B), p([0.5, 2.0, 3.0])),
    "Dirichlet": lambda D, p: D.Dirichlet(p([[0.5, 1.5, 3.0], [2.0, 2.0, 1.0]])),
    "StudentT": lambda D, p: D.StudentT(p([0.8, 1.5, 6.0]), p(A), p(B)),
    "FisherSnedecor": lambda D, p: D.FisherSnedecor(p([1.5, 3.0, 8.0]), p([5.0, 9.0, 20.0])),
    "Kumaraswamy": lambda D, p: D.Kumaraswamy(p([0.8, 1.5, 3.0]), p([1.0, 2.0, 5.0])),
    "LogisticNormal": lambda D, p: D.LogisticNormal(p(A), p(B)),
    "GeneralizedPareto": lambda D, p: D.GeneralizedPareto(p(A), p(B), p([0.2, 1e-3, -0.4])),
    "GeneralizedPareto of 0": lambda D, p: D.GeneralizedPareto(p(A), p(B), p(0.0)),
    "VonMises": lambda D, p: D.VonMises(p(A), p([0.3, 4.0, 90.0])),
    "ContinuousBernoulli": lambda D, p: D.ContinuousBernoulli(p([0.02, 0.4, 0.97])),
    "ContinuousBernoulli, logits": lambda D, p: D.ContinuousBernoulli(
        logits=p([0.3, -1.01, 5.0])),
    "NegativeBinomial": lambda D, p: D.NegativeBinomial(p([0.7, 3.0, 9.0]), p(P)),
    "NegativeBinomial, logits": lambda D, p: D.NegativeBinomial(p(4.0), logits=p(A)),
    "LKJCholesky": lambda D, p: D.LKJCholesky(3, p([0.7, 1.0, 4.0])),
    "LKJCholesky of 2": lambda D, p: D.LKJCholesky(2, p(1.5)),
    "Wishart": lambda D, p: D.Wishart(p([3.5, 7.0]), scale_tril=p(TRIL).tril()),
    "Wishart, covariance": lambda D, p: D.Wishart(p(6.0), p(COV)),
    "Wishart, precision": lambda D, p: D.Wishart(p(6.0), precision_matrix=p(COV)),
    "LowRankMultivariateNormal": lambda D, p: D.LowRankMultivariateNormal(
        p(A), p([[1.0, 0.5], [0.0, -2.0], [0.3, 0.2]]), p(B)),
    "Bernoulli": lambda D, p: D.Bernoulli(p(P)), "Bernoulli, logits": lambda D, p: D.Bernoulli(
        logits=p(A)),
    "Geometric": lambda D, p: D.Geometric(p(P)), "Poisson": lambda D, p: D.Poisson(p(B)),
    "Binomial": lambda D, p: D.Binomial(5, p(P)),
    "Binomial, logits": lambda D, p: D.Binomial(4, logits=p(A)),
    "Categorical": lambda D, p: D.Categorical(p(ROWS)),
    "Categorical, logits": lambda D, p: D.Categorical(logits=p(A)),
    "OneHotCategorical": lambda D, p: D.OneHotCategorical(p(ROWS)),
    "Multinomial": lambda D, p: D.Multinomial(6, p(ROWS)),
    "MultivariateNormal": lambda D, p: D.MultivariateNormal(p(A), scale_tril=p(TRIL)),
    "MultivariateNormal, covariance": lambda D, p: D.MultivariateNormal(p(A), p(COV)),
    "MultivariateNormal, precision": lambda D, p: D.MultivariateNormal(
        p(A), precision_matrix=p(COV)),
    "Independent": lambda D, p: D.Independent(D.Normal(p(A), p(B)), 1),
    "RelaxedBernoulli": lambda D, p: D.RelaxedBernoulli(p(0.7), p(P)),
    "RelaxedOneHotCategorical": lambda D, p: D.RelaxedOneHotCategorical(p(0.7), logits=p(A)),
    "RelaxedBernoulli, logits": lambda D, p: D.RelaxedBernoulli(p(0.3), logits=p(A)),
    "LogitRelaxedBernoulli, Relaxed": lambda D, p: D.relaxed_bernoulli.LogitRelaxedBernoulli(
        p(0.7), p(P)),
    "ExpRelaxedCategorical": lambda D, p: D.relaxed_categorical.ExpRelaxedCategorical(
        p(0.7), p(ROWS)),
    "mixture": lambda D, p: D.MixtureSameFamily(D.Categorical(p(ROWS)), D.Normal(p(A), p(B))),
    "mixture of vectors": lambda D, p: D.MixtureSameFamily(
        D.Categorical(p(ROWS[0])), D.Independent(D.Normal(p([A, A, A]), p(B)), 2)),
    "tanh of Normal": lambda D, p: D.TransformedDistribution(
        D.Normal(p(A), p(B)), [D.TanhTransform(), D.AffineTransform(p(0.5), p(2.0))]),
    "sigmoid of vectors": lambda D, p: D.TransformedDistribution(
        D.Independent(D.Normal(p(A), p(B)), 1), D.SigmoidTransform()),
    "softplus, power": lambda D, p: D.TransformedDistribution(
        D.Normal(p(A), p(B)),
        D.ComposeTransform([D.SoftplusTransform(), D.PowerTransform(p(2.0))])),
}


OTHERWISE = {
    "Kumaraswamy": ("mode",),  # PyTorch's is NaN: it takes the log of what is below 0
    "VonMises": ("variance", "stddev"),  # PyTorch's Bessel functions are exact to 2e-7 only
}
"""Where PyTorch's are not right; tests/distributions has the numbers."""


@pytest.fixture(autouse=True)
def doubles() -> Iterator[None]:
    """PyTorch's GeneralizedPareto compares with a number of the default type, which must fit."""
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(before)


class Library:
    """Distributions of a library, and the parameters that were made."""

    def __init__(self, library: Any) -> None:
        self.library, self.made = library, []  # type: ignore[var-annotated]
        self.where = {} if library is torch else {"device": "interpreter"}

    def tensor(self, values: Any) -> Any:
        return self.library.tensor(np.asarray(values), dtype=self.library.float64, **self.where)

    def parameter(self, values: Any) -> Any:
        self.made.append(self.tensor(values).requires_grad_())
        return self.made[-1]

    def make(self, name: str) -> Any:
        return DISTRIBUTIONS[name](self.library.distributions, self.parameter)


def both(name: str) -> tuple[tuple[Library, Any], tuple[Library, Any]]:
    sides = Library(lt), Library(torch)
    return (sides[0], sides[0].make(name)), (sides[1], sides[1].make(name))


def told(call: Callable[[], Any]) -> Any:
    """What a call gives as an array; None where there is no such thing."""
    try:
        found = call()
    except (NotImplementedError, lt.GradientError):
        return None
    return np.asarray(found.detach().numpy(), np.float64)


def assert_alike(mine: Any, other: Any, what: str, rtol: float = 1e-6) -> None:
    assert (mine is None) == (other is None), what
    if mine is not None:
        assert mine.shape == other.shape, what
        np.testing.assert_allclose(mine, other, rtol=rtol, atol=1e-9, err_msg=what)


@pytest.mark.parametrize("name", DISTRIBUTIONS)
def test_moments_are_torchs(name: str) -> None:
    (_, mine), (_, other) = both(name)
    if not name.startswith("LogitRelaxed"):  # whose rsample PyTorch has, and does not tell of
        assert mine.has_rsample == other.has_rsample
    assert tuple(mine.batch_shape) == tuple(other.batch_shape)
    assert tuple(mine.event_shape) == tuple(other.event_shape)
    unlisted = () if "Relaxed" not in name else ("mean", "variance", "stddev")
    unlisted = OTHERWISE.get(name, unlisted)
    for what in ("mean", "variance", "stddev", "mode"):
        if what not in unlisted:
            found = told(lambda d=other, w=what: getattr(d, w))
            if found is not None or what != "mode":
                assert_alike(told(lambda d=mine, w=what: getattr(d, w)), found, what)
    entropy = told(other.entropy)
    if entropy is not None:
        assert_alike(told(mine.entropy), entropy, "entropy")


@pytest.mark.parametrize("name", DISTRIBUTIONS)
def test_densities_and_their_gradients_are_torchs(name: str) -> None:
    (left, mine), (right, other) = both(name)
    torch.manual_seed(0)
    values = other.sample((4,)).numpy()
    found = []
    for side, distribution in ((left, mine), (right, other)):
        value = side.tensor(values)
        density = distribution.log_prob(value)
        density.sum().backward()
        grads = [None if p.grad is None else p.grad.numpy() for p in side.made]
        found.append((density.detach().numpy(), grads,
                      told(lambda d=distribution, v=value: d.cdf(v))))
    np.testing.assert_allclose(found[0][0], found[1][0], rtol=1e-6, atol=1e-9)
    for a, b in zip(found[0][1], found[1][1], strict=True):
        assert (a is None) == (b is None)
        if a is not None:
            np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-8)
    assert (found[0][2] is None) <= (found[1][2] is None)
    if found[0][2] is not None and found[1][2] is not None:
        np.testing.assert_allclose(found[0][2], found[1][2], rtol=1e-6)
        inverse = told(lambda: mine.icdf(left.tensor(found[0][2])))
        if inverse is not None:
            np.testing.assert_allclose(inverse, values, rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize("name", DISTRIBUTIONS)
def test_shapes_of_samples_and_of_larger_batches_are_torchs(name: str) -> None:
    (_, mine), (_, other) = both(name)
    larger = (2, *other.batch_shape)
    for distribution in (mine, mine.expand(larger)):
        found = distribution.sample((3,))
        assert tuple(found.shape) == (3, *distribution.batch_shape, *distribution.event_shape)
        assert not found.requires_grad
        distribution.log_prob(found)
        if distribution.has_rsample:
            drawn = distribution.rsample((3,))
            assert drawn.requires_grad and drawn.shape == found.shape
    assert tuple(mine.expand(larger).batch_shape) == tuple(other.expand(larger).batch_shape)


SAMPLED = [n for n in DISTRIBUTIONS if n not in ("Cauchy", "HalfCauchy", "Pareto", "StudentT",
                                                 "InverseGamma", "LogNormal", "FisherSnedecor",
                                                 "VonMises", "LKJCholesky") and "Relaxed" not in n]


@pytest.mark.parametrize("name", SAMPLED)
def test_samples_have_the_distributions_moments(name: str) -> None:
    (_, mine), (_, other) = both(name)
    lt.manual_seed(1)
    count = 4_000
    drawn = mine.sample((count,)).numpy()
    mean, variance = told(lambda: other.mean), told(lambda: other.variance)
    if mean is None or np.isnan(mean).any():
        torch.manual_seed(0)
        values = other.sample((10 * count,)).numpy()
        mean, variance = values.mean(0), values.var(0)
    error = np.sqrt(variance / count) * 6
    assert (np.abs(drawn.mean(0) - mean) < error * 1.5 + 1e-9).all()
    np.testing.assert_allclose(drawn.var(0), variance, rtol=0.25)


IMPLICIT = ("Gamma", "Beta", "Wishart")


@pytest.mark.parametrize("name", ["Normal", "Laplace", "Uniform", "Exponential", "Gumbel",
                                  "MultivariateNormal", "Weibull", "HalfNormal", "Kumaraswamy",
                                  "ContinuousBernoulli", "GeneralizedPareto",
                                  "LowRankMultivariateNormal", *IMPLICIT])
def test_gradients_flow_through_samples(name: str) -> None:
    """Of the mean of many samples they are about those of the mean."""
    (left, mine), (right, other) = both(name)
    lt.manual_seed(3)
    count, near = (4_000, 0.1) if name in IMPLICIT else (20_000, 0.06)
    mine.rsample((count,)).mean(0).sum().backward()
    other.mean.sum().backward()
    for a, b in zip(left.made, right.made, strict=True):
        expected = np.zeros(a.shape) if b.grad is None else b.grad.numpy()
        np.testing.assert_allclose(a.grad.numpy(), expected, atol=near, rtol=near)


PAIRS: list[tuple[str, Make, Make]] = [
    ("Normal", lambda D, p: D.Normal(p(A), p(B)), lambda D, p: D.Normal(p(B), p(2.0))),
    ("HalfNormal", lambda D, p: D.HalfNormal(p(B)), lambda D, p: D.HalfNormal(p(2.0))),
    ("LogNormal", lambda D, p: D.LogNormal(p(A), p(B)), lambda D, p: D.LogNormal(p(B), p(2.0))),
    ("Bernoulli", lambda D, p: D.Bernoulli(p(P)), lambda D, p: D.Bernoulli(logits=p(A))),
    ("Categorical", lambda D, p: D.Categorical(p(ROWS)), lambda D, p: D.Categorical(logits=p(A))),
    ("OneHot", lambda D, p: D.OneHotCategorical(p(ROWS)),
     lambda D, p: D.OneHotCategorical(logits=p(A))),
    ("Uniform", lambda D, p: D.Uniform(p(A), p(3.0)), lambda D, p: D.Uniform(p(-0.5), p(4.0))),
    ("Uniform, Normal", lambda D, p: D.Uniform(p(A), p(3.0)), lambda D, p: D.Normal(p(A), p(B))),
    ("Exponential", lambda D, p: D.Exponential(p(B)), lambda D, p: D.Exponential(p(2.0))),
    ("Laplace", lambda D, p: D.Laplace(p(A), p(B)), lambda D, p: D.Laplace(p(B), p(2.0))),
    ("Cauchy", lambda D, p: D.Cauchy(p(A), p(B)), lambda D, p: D.Cauchy(p(B), p(2.0))),
    ("Geometric", lambda D, p: D.Geometric(p(P)), lambda D, p: D.Geometric(p(0.4))),
    ("Poisson", lambda D, p: D.Poisson(p(B)), lambda D, p: D.Poisson(p(2.0))),
    ("Gamma", lambda D, p: D.Gamma(p(B), p(B)), lambda D, p: D.Gamma(p(2.0), p(3.0))),
    ("Chi2", lambda D, p: D.Chi2(p(B)), lambda D, p: D.Gamma(p(2.0), p(3.0))),
    ("Beta", lambda D, p: D.Beta(p(B), p(B)), lambda D, p: D.Beta(p(2.0), p(3.0))),
    ("Dirichlet", lambda D, p: D.Dirichlet(p(B)), lambda D, p: D.Dirichlet(p([2.0, 1.0, 0.5]))),
    ("vectors", lambda D, p: D.MultivariateNormal(p(A), scale_tril=p(TRIL)),
     lambda D, p: D.MultivariateNormal(p(B), p(np.diag([1.0, 2.0, 3.0])))),
    ("Independent", lambda D, p: D.Independent(D.Normal(p(A), p(B)), 1),
     lambda D, p: D.Independent(D.Normal(p(A), p(2.0)), 1)),
    ("tanh", lambda D, p: D.TransformedDistribution(D.Normal(p(A), p(B)), D.TanhTransform()),
     lambda D, p: D.TransformedDistribution(D.Normal(p(A), p(2.0)), D.TanhTransform()))]


@pytest.mark.parametrize(("name", "p", "q"), PAIRS, ids=[n for n, _, _ in PAIRS])
def test_divergences_and_their_gradients_are_torchs(name: str, p: Make, q: Make) -> None:
    found = []
    for side in (Library(lt), Library(torch)):
        D = side.library.distributions
        value = D.kl_divergence(p(D, side.parameter), q(D, side.parameter))
        value.sum().backward()
        found.append([value.detach().numpy(), *[m.grad.numpy() for m in side.made]])
    for mine, other in zip(*found, strict=True):
        np.testing.assert_allclose(mine, other, rtol=1e-5, atol=1e-8)


@pytest.mark.parametrize("name", ["Bernoulli", "Categorical", "OneHotCategorical"])
@pytest.mark.parametrize("expand", [False, True])
def test_lists_of_values_are_torchs(name: str, expand: bool) -> None:
    (_, mine), (_, other) = both(name)
    assert_alike(told(lambda: mine.enumerate_support(expand)),
                 told(lambda: other.enumerate_support(expand)), name)


TRANSFORMS: dict[str, Make] = {
    "exp": lambda D, p: D.ExpTransform(), "sigmoid": lambda D, p: D.SigmoidTransform(),
    "softplus": lambda D, p: D.SoftplusTransform(), "tanh": lambda D, p: D.TanhTransform(),
    "affine": lambda D, p: D.AffineTransform(p(B), p([-1.0, 2.0, 0.5])),
    "affine, of vectors": lambda D, p: D.AffineTransform(1.0, -2.0, event_dim=1),
    "inverse": lambda D, p: D.SigmoidTransform().inv.inv,
    "several": lambda D, p: D.ComposeTransform([D.AffineTransform(p(B), 2.0), D.ExpTransform()]),
    "independent": lambda D, p: D.IndependentTransform(D.ExpTransform(), 1),
    "stick breaking": lambda D, p: D.StickBreakingTransform(),
    "correlations": lambda D, p: D.CorrCholeskyTransform(),
    "reshape": lambda D, p: D.ReshapeTransform((2, 3), (3, 2)),
    "several, of vectors": lambda D, p: D.ComposeTransform(
        [D.AffineTransform(p(B), 2.0), D.StickBreakingTransform()]),
    "cat": lambda D, p: D.CatTransform([D.ExpTransform(), D.TanhTransform()], 1, [1, 2]),
    "cat of vectors": lambda D, p: D.CatTransform(
        [D.IndependentTransform(D.ExpTransform(), 1), D.TanhTransform()], -1, [2, 1]),
    "stack": lambda D, p: D.StackTransform([D.ExpTransform(), D.SigmoidTransform()]),
    "cumulative": lambda D, p: D.CumulativeDistributionTransform(D.Normal(p(0.5), p(1.5))),
    "to an interval": lambda D, p: D.transform_to(D.constraints.interval(-1.0, 3.0)),
    "to probabilities": lambda D, p: D.biject_to(D.constraints.simplex),
    "to above": lambda D, p: D.biject_to(D.constraints.greater_than(p(2.0))),
    "to below": lambda D, p: D.biject_to(D.constraints.less_than(-1.0)),
    "to positive": lambda D, p: D.transform_to(D.constraints.positive),
    "to parts": lambda D, p: D.biject_to(D.constraints.cat(
        [D.constraints.positive, D.constraints.real], 1, [1, 2])),
    "to slices": lambda D, p: D.transform_to(D.constraints.stack(
        [D.constraints.unit_interval, D.constraints.real])),
    "to independent": lambda D, p: D.biject_to(
        D.constraints.independent(D.constraints.half_open_interval(0.0, 2.0), 1))}


@pytest.mark.parametrize("name", TRANSFORMS)
def test_transforms_are_torchs(name: str) -> None:
    found = []
    for side in (Library(lt), Library(torch)):
        transform = TRANSFORMS[name](side.library.distributions, side.tensor)
        x = side.tensor(A)
        y = transform(x)
        assert tuple(transform.forward_shape(x.shape)) == tuple(y.shape)
        assert tuple(transform.inverse_shape(y.shape)) == tuple(x.shape)
        found.append([v.numpy() for v in (y, transform.inv(y),
                                          transform.log_abs_det_jacobian(x, y))])
    for mine, other in zip(*found, strict=True):
        np.testing.assert_allclose(mine, other, rtol=1e-8, atol=1e-12)
    np.testing.assert_allclose(found[0][1], A, rtol=1e-8, atol=1e-12)


@pytest.mark.parametrize("name", ["LowerCholeskyTransform", "PositiveDefiniteTransform"])
def test_transforms_to_matrices_are_torchs(name: str) -> None:
    found = []
    for side in (Library(lt), Library(torch)):
        transform = getattr(side.library.distributions, name)()
        y = transform(side.tensor([TRIL, COV]))
        found.append([v.numpy() for v in (y, transform.inv(y))])
    for mine, other in zip(*found, strict=True):
        np.testing.assert_allclose(mine, other, rtol=1e-8, atol=1e-12)


@pytest.mark.parametrize("name", [
    "lower_triangular", "lower_cholesky", "corr_cholesky", "square", "symmetric", "simplex",
    "real_vector"])
def test_constraints_are_torchs(name: str) -> None:
    values = np.stack([TRIL, COV, np.eye(3), np.zeros((3, 3)), np.full((3, 3), 1 / 3)])
    mine, other = (getattr(side.library.distributions.constraints, name).check(side.tensor(values))
                   for side in (Library(lt), Library(torch)))
    assert mine.tolist() == other.tolist()


def test_every_name_of_torchs_distributions_is_there() -> None:
    for module in ("distributions", "distributions.transforms", "distributions.constraints"):
        names = import_module(f"torch.{module}").__all__
        missing = [n for n in names if not hasattr(import_module(f"lazyten.{module}"), n)]
        assert set(missing) <= {"MixtureSameFamilyConstraint"}


def test_a_mixtures_values_are_checked_against_all_its_components() -> None:
    found = []
    for library in (lt, torch):
        d, t = library.distributions, library.tensor
        ends = d.MixtureSameFamily(d.Categorical(library.ones(3)),
                                   d.Uniform(t([0.0, 1.0, 2.0]), t([4.0, 5.0, 6.0])))
        parts = d.MixtureSameFamily(d.Categorical(library.ones(3)),
                                    d.Dirichlet(library.ones(3, 2)))
        found.append([ends.support.check(t([2.5, 0.5, 5.5, 3.9])).tolist(),
                      parts.support.check(t([[0.5, 0.5], [0.5, 0.6]])).tolist(),
                      parts.support.event_dim, ends.support.is_discrete])
        np.testing.assert_allclose(ends.log_prob(t([2.5, 3.0])).numpy(), np.log(0.25), rtol=1e-6)
        with pytest.raises(ValueError, match=r"MixtureSameFamily.*lower_bound"):
            ends.log_prob(t([2.5, 7.0]))
        with pytest.raises((IndexError, ValueError)):
            parts.support.check(t(1.0))
    assert found[0] == found[1]


def of_edges(library: Any, name: str) -> list[np.ndarray]:
    """Densities and their slopes where samples come to lie that are rounded to an edge."""
    with_type = {**Library(library).where, "dtype": library.float32}
    D, x = library.distributions, library.tensor([0.0, 1.0, 0.5], **with_type)
    p = library.tensor(0.3, requires_grad=True, **with_type)
    if name == "Pareto":
        x, made = library.tensor([1.0, float("inf")], **with_type), D.Pareto(1.0, p)
    else:
        made = D.RelaxedBernoulli(library.tensor(0.1, **with_type), logits=p)
    density = made.log_prob(x)
    (slope,) = library.autograd.grad(density[:2 if name != "Pareto" else 1].sum(), p)
    return [density.detach().numpy(), slope.numpy()]


@pytest.mark.parametrize("name", ["RelaxedBernoulli", "Pareto"])
def test_densities_of_values_at_the_edge_are_finite_where_torchs_are(name: str) -> None:
    for mine, other in zip(of_edges(lt, name), of_edges(torch, name), strict=True):
        np.testing.assert_allclose(mine, other, rtol=1e-5)


def test_nothing_is_below_the_bound_of_a_generalized_pareto() -> None:
    made = lt.distributions.GeneralizedPareto(1.0, 2.0, 0.3, validate_args=False)
    assert made.cdf(lt.tensor([-5.0, 0.5, 1.0])).tolist() == [0.0, 0.0, 0.0]
    assert made.cdf(lt.tensor(3.0)).item() > 0.5


def exponential_family(library: Any, carried: float = 0.0) -> type[Any]:
    """Gamma variables as a user's own exponential family. carried: the mean of what their density
    has besides."""
    class Mine(library.distributions.ExponentialFamily):  # type: ignore[misc]
        arg_constraints: dict[str, Any] = {}  # noqa: RUF012
        _mean_carrier_measure = carried

        def __init__(self, concentration: Any, rate: Any) -> None:
            self.concentration, self.rate = concentration, rate
            super().__init__(concentration.shape)

        @property
        def _natural_params(self) -> tuple[Any, ...]:
            return self.concentration - 1, -self.rate

        def _log_normalizer(self, x: Any, y: Any) -> Any:
            return library.lgamma(x + 1) + (x + 1) * library.log(-y.reciprocal())

    return Mine


def test_an_exponential_family_of_ones_own_has_entropy_and_divergence() -> None:
    numbers = [[0.6, 1.2, 3.1], [1.3, 0.8, 2.9], [0.3, 1.7, 2.5], [0.9, 2.2, 1.4]]
    given = [lt.tensor(v, dtype=lt.float64, requires_grad=True) for v in numbers]
    other = [torch.tensor(v, dtype=torch.float64) for v in numbers]
    found = []
    for Family in (exponential_family(lt), lt.distributions.Gamma):
        p, q = Family(*given[:2]), Family(*given[2:])
        divergence, entropy = lt.distributions.kl_divergence(p, q), p.entropy()
        grads = lt.autograd.grad((divergence + entropy).sum(), given)
        found.append([x.detach().numpy() for x in (divergence, entropy, *grads)])
    for mine, known in zip(*found, strict=True):
        np.testing.assert_allclose(mine, known, rtol=1e-9)
    carrying = [exponential_family(T, 0.75)(*two[:2]).entropy() for T, two in
                ((lt, given), (torch, other))]
    np.testing.assert_allclose(*[x.detach().numpy() for x in carrying], rtol=1e-9)
    Family = exponential_family(torch)
    p, q = Family(*other[:2]), Family(*other[2:])
    torchs = torch.distributions.kl_divergence(p, q), p.entropy()
    for mine, theirs in zip(found[0][:2], torchs, strict=True):
        np.testing.assert_allclose(mine, theirs.detach().numpy(), rtol=1e-9)


def test_two_different_exponential_families_have_no_divergence() -> None:
    D = lt.distributions
    with pytest.raises(NotImplementedError, match="register_kl"):
        D.kl_divergence(D.Bernoulli(0.5), D.Normal(0.0, 1.0))


@pytest.mark.torch
def test_counts_that_are_not_validated_are_those_of_all_classes() -> None:
    found, expected = ([m.distributions.Multinomial(3, m.tensor([0.2, 0.3, 0.5]),
                                                    validate_args=False).log_prob(
        m.tensor(counts)).tolist() for counts in (1.0, [[1.0], [0.0]], [1.0, 0.0, 2.0])]
        for m in (lt, torch))
    for mine, theirs in zip(found, expected, strict=True):
        assert mine == pytest.approx(theirs, rel=1e-6)


@pytest.mark.torch
def test_a_pareto_distribution_of_shape_minus_1_is_uniform_up_to_its_end() -> None:
    found, expected = (m.distributions.GeneralizedPareto(
        m.tensor(1.0), m.tensor(2.0), m.tensor(-1.0)).log_prob(m.tensor([1.0, 2.0, 3.0])).tolist()
        for m in (lt, torch))
    assert found == pytest.approx(expected)
