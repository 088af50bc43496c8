"""Distributions in training, in jitted functions, and what they refuse. (tests/pytorch has their
numbers.)"""
from __future__ import annotations

from collections.abc import Callable
from typing import Any

import mpmath
import numpy as np
import pytest

import lazyten as lt
from lazyten import distributions as D
from lazyten.distributions import constraints
from lazyten.distributions.continuous import log_bessel
from lazyten.distributions.multivariate import cholesky
from lazyten.distributions.sampling import poisson, standard_gamma, standard_gamma_slope


def test_a_policy_learns_by_its_log_probabilities() -> None:
    lt.manual_seed(0)
    logits = lt.zeros(3, requires_grad=True)
    opt = lt.optim.Adam([logits], lr=0.1)

    @lt.jit
    def step() -> None:
        policy = D.Categorical(logits=logits)
        actions = policy.sample((64,))
        rewards = (actions == 2).float()
        opt.zero_grad()
        (-(policy.log_prob(actions) * rewards).mean() - 0.01 * policy.entropy()).backward()
        opt.step()

    for _ in range(60):
        step()
    assert step.cache_size == 1
    assert logits.softmax(0)[2].item() > 0.9


def test_a_seed_repeats_samples() -> None:
    distribution = D.Normal(lt.zeros(3), 1.0)
    lt.manual_seed(4)
    first = distribution.sample((2,)).tolist()
    lt.manual_seed(4)
    assert distribution.sample((2,)).tolist() == first != distribution.sample((2,)).tolist()


@pytest.mark.parametrize("a", [0.1, 0.9, 1.0, 4.0, 50.0])
def test_gamma_variables_have_the_gamma_distribution(a: float) -> None:
    lt.manual_seed(2)
    drawn = np.sort(standard_gamma(lt.tensor(a, dtype=lt.float64), lt.Size((4000,))).numpy())
    other = np.sort(np.random.default_rng(0).gamma(a, size=40_000))
    places = np.searchsorted(other, drawn) / len(other)
    assert np.abs(places - (np.arange(4000) + 0.5) / 4000).max() < 0.035  # Kolmogorov and Smirnov


@pytest.mark.few(3)
@pytest.mark.parametrize("rate", [0.0, 0.3, 6.0, 11.0, 400.0])
def test_poisson_variables_have_the_poisson_distribution(rate: float) -> None:
    lt.manual_seed(2)
    drawn = poisson(lt.tensor(rate, dtype=lt.float64), lt.Size((8000,))).numpy()
    other = np.random.default_rng(0).poisson(rate, size=80_000)
    values = np.arange(other.max() + 1)
    gap = (drawn[:, None] <= values).mean(0) - (other[:, None] <= values).mean(0)
    assert np.abs(gap).max() < 0.025 and (drawn == np.floor(drawn)).all()


@pytest.mark.parametrize(("dtype", "near"), [("float64", 1e-8), ("float32", 2e-4)])
def test_slopes_of_gamma_variables_are_those_of_the_incomplete_gamma_function(
        dtype: str, near: float) -> None:
    """By differences of mpmath's, at 25 digits."""
    for a in (0.003, 0.2, 1.0, 7.5, 300.0):
        values = np.quantile(np.random.default_rng(1).gamma(a, size=999), (0.2, 0.5, 0.99))
        kinds = {"dtype": getattr(lt, dtype), "device": "interpreter"}
        for value in values[values > 1e-30]:
            x, z = lt.tensor(a, **kinds), lt.tensor(float(value), **kinds)
            with mpmath.workdps(25):
                at, end, step = mpmath.mpf(x.item()), mpmath.mpf(z.item()), mpmath.mpf(10)**-8
                place = [mpmath.gammainc(at * (1 + s), 0, end, regularized=True)
                         for s in (step, -step)]
                density = end**(at - 1) * mpmath.exp(-end) / mpmath.gamma(at)
                slope = float((place[1] - place[0]) / (2 * step * at) / density)
            np.testing.assert_allclose(standard_gamma_slope(x, z).item(), slope, rtol=near)


@pytest.mark.parametrize("order", [0, 1])
def test_bessel_functions_are_mpmaths(order: int) -> None:
    x = np.array([1e-3, 0.2, 3.0, 25.0, 29.9, 30.1, 70.0, 1e4])
    expected = [float(mpmath.log(mpmath.besseli(order, v)) - v) for v in x]
    found = log_bessel(lt.tensor(x, device="interpreter"), order).numpy()
    np.testing.assert_allclose(found, expected, rtol=1e-11, atol=1e-13)


@pytest.mark.parametrize("k", [1e-3, 0.5, 5.0, 200.0])
def test_angles_have_the_von_mises_distribution(k: float) -> None:
    lt.manual_seed(5)
    angles = D.VonMises(2.5, lt.tensor(k, dtype=lt.float64)).sample((8000,)).numpy()
    assert np.abs(angles).max() <= np.pi
    mean = np.exp(1j * (angles - 2.5)).mean()
    ratio = float(mpmath.besseli(1, k) / mpmath.besseli(0, k))
    spread = np.sqrt((1 - ratio * ratio) / 8000)
    assert abs(mean.real - ratio) < 5 * spread and abs(mean.imag) < 5 * spread


@pytest.mark.parametrize("concentration", [0.7, 2.0])
def test_correlations_have_the_distribution_of_lkj(concentration: float) -> None:
    """Each is a Beta variable of concentrations c + (n - 2) / 2, on (-1, 1)."""
    lt.manual_seed(0)
    factor = D.LKJCholesky(4, lt.tensor(concentration)).sample((8000,)).numpy()
    below = (factor @ factor.transpose(0, 2, 1))[:, *np.tril_indices(4, -1)]
    np.testing.assert_allclose(below.var(0), 1 / (2 * (concentration + 1) + 1), rtol=0.06)
    assert np.abs(below.mean(0)).max() < 0.03


def test_the_mode_of_kumaraswamy_has_the_highest_density() -> None:
    distribution = D.Kumaraswamy(lt.tensor([2.0, 1.5]), lt.tensor([3.0, 1.2]))
    places = lt.linspace(0.001, 0.999, 999)[:, None]
    best = places[distribution.log_prob(places).argmax(0), 0]
    np.testing.assert_allclose(distribution.mode.numpy(), best.numpy(), atol=2e-3)
    assert D.Kumaraswamy(0.5, 2.0).mode.isnan().item()


@pytest.mark.parametrize("size", [1, 2, 5])
def test_a_cholesky_factor_is_numpys(size: int) -> None:
    x = np.random.default_rng(size).normal(size=(3, size, size))
    a = x @ x.transpose(0, 2, 1) + np.eye(size)
    np.testing.assert_allclose(cholesky(lt.tensor(a)).numpy(), np.linalg.cholesky(a), rtol=1e-9,
                               atol=1e-12)


def test_distributions_show_their_parameters() -> None:
    assert repr(D.Normal(0.0, 1.0)) == "Normal(loc: 0.0, scale: 1.0)"
    assert repr(D.Independent(D.Bernoulli(lt.ones(2) * 0.5), 1)) == (
        "Independent(Bernoulli(probs: (2,)), 1)")
    assert repr(constraints.interval(0.0, 1.0)) == "Interval(lower_bound=0.0, upper_bound=1.0)"


def test_nothing_is_looked_at_where_that_is_switched_off() -> None:
    D.Normal(0.0, -1.0, validate_args=False).log_prob(lt.tensor(float("nan")))
    D.Distribution.set_default_validate_args(False)
    try:
        D.Normal(0.0, -1.0)
    finally:
        D.Distribution.set_default_validate_args(True)


@pytest.mark.parametrize("dtype", [lt.float32, lt.float64])
def test_a_number_is_a_value_where_values_are_not_validated(dtype: lt.DType) -> None:
    scale = lt.tensor(2.0, dtype=dtype)
    for made, given in (D.Normal, (scale * 0, scale)), (D.Exponential, (scale,)):
        loose: Any = made(*given, validate_args=False)
        for found, wanted in ((loose.log_prob(1), loose.log_prob(lt.ones((), dtype=dtype))),
                              (loose.cdf(0.5), loose.cdf(lt.tensor(0.5, dtype=dtype)))):
            assert found.dtype is dtype and found.item() == wanted.item()
        with pytest.raises(lt.ArgumentError, match="not a tensor"):
            made(*given).log_prob(1)


def test_a_divergence_of_ones_own_is_found_for_classes_below() -> None:
    class Mine(D.Normal):
        pass

    with pytest.raises(NotImplementedError, match="register_kl"):
        D.kl_divergence(D.Cauchy(0.0, 1.0), D.Normal(0.0, 1.0))
    assert D.kl_divergence(Mine(0.0, 1.0), D.Normal(0.0, 1.0)).item() == 0.0
    D.register_kl(Mine, D.Normal)(lambda p, q: lt.tensor(7.0))
    assert D.kl_divergence(Mine(0.0, 1.0), D.Normal(0.0, 1.0)).item() == 7.0


def half() -> lt.Tensor:
    return lt.tensor([0.5, 0.5])


@pytest.mark.parametrize(("call", "error", "message"), [
    (lambda: D.Normal(0.0, -1.0), ValueError, r"scale is not GreaterThan"),
    (lambda: D.Uniform(1.0, 0.0), ValueError, "below high"),
    (lambda: D.Bernoulli(), ValueError, "either probs or logits"),
    (lambda: D.Bernoulli(0.5, logits=0.5), ValueError, "either probs or logits"),
    (lambda: D.Bernoulli(1.5), ValueError, "probs is not Interval"),
    (lambda: D.Bernoulli(0.5).log_prob(lt.tensor(0.5)), ValueError, "is not in Boolean"),
    (lambda: D.Normal(lt.zeros(3), 1.0).log_prob(lt.zeros(2)), ValueError, "do not fit"),
    (lambda: D.Normal(0.0, 1.0).log_prob(1.0), ValueError, "lazyten.tensor"),
    (lambda: D.Multinomial(1, half()).log_prob(lt.tensor([[1.0], [0.0]])), ValueError, "do not f"),
    (lambda: D.MultivariateNormal(half(), lt.eye(2)).log_prob(lt.tensor(0.5)), ValueError,
     r"values of shape \(\) do not fit batch_shape \(\) and event_shape \(2,\)"),
    (lambda: D.Categorical(0.5), lt.ShapeError, "one axis or more"),
    (lambda: D.Categorical(half()).log_prob(lt.tensor(2)), ValueError, "IntegerInterval"),
    (lambda: D.Poisson(1.0).rsample(), lt.GradientError, r"use sample\(\)"),
    (lambda: D.Distribution().sample(), lt.NotDefinedError, "cannot be sampled"),
    (lambda: D.LKJCholesky(1), ValueError, "dim=1 must be 2 or more"),
    (lambda: D.Wishart(1.5, lt.eye(3)), ValueError, "df must be above 2"),
    (lambda: D.Wishart(4.0, -lt.eye(3)), ValueError, "Wishart: covariance_matrix is not"),
    (lambda: D.MultivariateNormal(lt.zeros(2), lt.tensor([[1.0, 2.0], [2.0, 1.0]])), ValueError,
     "MultivariateNormal: covariance_matrix is not"),
    (lambda: D.MultivariateNormal(lt.zeros(2), precision_matrix=-lt.eye(2)), ValueError,
     "MultivariateNormal: precision_matrix is not"),
    (lambda: D.Geometric(0.0), ValueError, "Geometric: probs is not above 0"),
    (lambda: D.Multinomial(-1, lt.ones(2)), ValueError, "total_count=-1 is below 0"),
    (lambda: D.Wishart(3.0, lt.ones(2, 3)), lt.ShapeError, r"\(2, 3\) must be"),
    (lambda: D.LowRankMultivariateNormal(half(), lt.ones(3, 1), half()), lt.ShapeError,
     r"cov_factor of shape \(3, 1\)"),
    (lambda: D.NegativeBinomial(3, probs=1.0), ValueError, "probs is not HalfOpen"),
    (lambda: D.CatTransform([D.ExpTransform()], 0, [1, 2]), ValueError, "2 lengths for 1"),
    (lambda: D.StackTransform([D.ExpTransform()])(half()), lt.ShapeError, "must have size 1"),
    (lambda: D.ReshapeTransform((2,), (3,)), ValueError, "different numbers"),
    (lambda: D.CorrCholeskyTransform()(half()), lt.ShapeError, "1, 3, 6, 10"),
    (lambda: D.biject_to(constraints.boolean), lt.NotDefinedError, "register one"),
    (lambda: D.Multinomial(half(), half()), NotImplementedError, "whole number"),
    (lambda: D.MultivariateNormal(half()), ValueError, "give one of"),
    (lambda: D.MultivariateNormal(half(), lt.eye(3)), lt.ShapeError, r"\(3, 3\)"),
    (lambda: D.Independent(D.Normal(0.0, 1.0), 1), ValueError, "reinterpreted_batch_ndims=1"),
    (lambda: D.TransformedDistribution(D.Normal(0.0, 1.0), [abs]), ValueError, "not transforms"),
    (lambda: D.MixtureSameFamily(D.Categorical(half()), D.Normal(0.0, 1.0)), ValueError,
     "last axis"),
    (lambda: D.Cauchy(0.0, 1.0).enumerate_support(), lt.NotDefinedError, "Cauchy")])
def test_mistakes_are_explained(call: Callable[[], Any], error: type[Exception],
                                message: str) -> None:
    with pytest.raises(error, match=message):
        call()


def test_an_expanded_mixture_has_means_of_its_shape() -> None:
    mixture = D.MixtureSameFamily(D.Categorical(lt.tensor([0.25, 0.75])),
                                  D.Normal(lt.tensor([0.0, 4.0]), lt.ones(2)))
    larger = mixture.expand((3,))
    assert larger.mean.tolist() == [3.0] * 3 and larger.variance.tolist() == [4.0] * 3
    assert larger.sample((2,)).shape == larger.log_prob(lt.zeros(2, 3)).shape == (2, 3)
    assert mixture.mean.item() == 3.0


@pytest.mark.parametrize("kind", [D.Kumaraswamy, D.Weibull])
def test_a_divergence_compares_transforms_that_hold_tensors(kind: Any) -> None:
    one = kind(lt.tensor([1.0, 2.0]), lt.tensor([2.0, 3.0]))
    assert D.kl_divergence(one, one).abs().max().item() < 1e-5
    assert D.AffineTransform(0.0, lt.tensor([1.0])) == D.AffineTransform(0.0, lt.tensor([1.0]))
    assert D.AffineTransform(0.0, lt.tensor([1.0])) != D.AffineTransform(0.0, lt.tensor([2.0]))
    assert D.ExpTransform() != 3 and D.ExpTransform() != D.SigmoidTransform()


def test_small_options_of_distributions() -> None:
    assert D.Binomial(2, lt.tensor([0.5, 0.1])).enumerate_support().tolist() \
        == [[0, 0], [1, 1], [2, 2]]
    assert D.Binomial(2, lt.tensor([0.5, 0.1])).enumerate_support(False).shape == (3, 1)
    assert D.Gamma(lt.ones(2), lt.ones(2)).log_prob(1.0).tolist() == [-1.0, -1.0]
    with pytest.raises(NotImplementedError, match="gradients do not flow"):
        D.Bernoulli(0.5).rsample()


def test_a_sigmoid_that_is_rounded_to_an_end_has_a_density() -> None:
    ends = D.SigmoidTransform()(lt.tensor([-200.0, 40.0]))
    assert 0 < ends[0].item() < 1e-37 and ends[1].item() == 1 - 2.0**-23
    normal = D.TransformedDistribution(D.Normal(0.0, 1.0), D.SigmoidTransform())
    assert normal.log_prob(lt.tensor([0.0, 1.0])).isfinite().all()
    np.testing.assert_allclose(D.SigmoidTransform().inv(ends).numpy(), [-87.336544, 15.942385],
                               rtol=1e-6)


def test_the_divergence_of_wisharts_is_the_mean_of_the_gap_of_their_densities() -> None:
    """(PyTorch's is the same for these; of a batch it adds up numbers of different Wisharts.)"""
    lt.manual_seed(0)
    covariance = lt.tensor([[2.0, 0.3], [0.3, 1.0]], dtype=lt.float64)
    p, q = D.Wishart(3.5, covariance), D.Wishart(5.0, lt.eye(2, dtype=lt.float64) * 1.5)
    x = p.sample((20_000,))
    gap = p.log_prob(x) - q.log_prob(x)
    error = gap.std().item() / 20_000**0.5
    assert abs(D.kl_divergence(p, q).item() - gap.mean().item()) < 4 * error < 0.1
    assert abs(D.kl_divergence(p, p).item()) < 1e-9


def test_matrices_are_told_from_definite_ones() -> None:
    both = lt.stack([lt.eye(2), lt.tensor([[1.0, 2.0], [2.0, 1.0]]), lt.tensor([[1.0, 1.0],
                                                                               [1.0, 1.0]])])
    assert D.constraints.positive_definite.check(both).tolist() == [True, False, False]
    assert D.constraints.positive_semidefinite.check(
        both[:2] - 0.5 * lt.eye(2)).tolist() == [True, False]


def exact_entropies(a: float) -> dict[str, float]:
    with mpmath.workdps(50):
        x, half = mpmath.mpf(a), mpmath.mpf(a) / 2
        more, gamma, psi = half + mpmath.mpf(1) / 2, mpmath.loggamma, mpmath.digamma
        return {"Gamma": float(x + gamma(x) + (1 - x) * psi(x)),
                "InverseGamma": float(x + gamma(x) - (1 + x) * psi(x)),
                "Beta": float(2 * gamma(x) - gamma(2 * x) - 2 * (x - 1) * psi(x)
                              + (2 * x - 2) * psi(2 * x)),
                "StudentT": float(gamma(half) + mpmath.log(mpmath.pi) / 2 - gamma(more)
                                  + more * (psi(more) - psi(half)) + mpmath.log(x) / 2)}


@pytest.mark.parametrize("dtype", [lt.float32, lt.float64], ids=str)
@pytest.mark.parametrize("a", [0.5, 3.0, 16.5, 1e4, 1e6, 1e15])
def test_entropies_keep_their_digits_far_out(a: float, dtype: lt.DType) -> None:
    x = lt.tensor(a, dtype=dtype)
    found = {"Gamma": D.Gamma(x, 1.0), "InverseGamma": D.InverseGamma(x, 1.0),
             "Beta": D.Beta(x, x), "StudentT": D.StudentT(x)}
    for name, wanted in exact_entropies(x.item()).items():
        bound = (1e-14 if dtype is lt.float64 else 3e-6) * max(abs(wanted), 1.0)
        assert found[name].entropy().item() == pytest.approx(wanted, abs=bound), name


def test_the_slope_of_an_entropy_keeps_its_digits_far_out() -> None:
    x = lt.tensor(1e5, requires_grad=True)
    (slope,) = lt.autograd.grad(D.Gamma(x, 1.0).entropy(), x)
    assert slope.item() == pytest.approx(0.5e-5, rel=1e-5)


def test_log_densities_of_float32_keep_their_digits_far_out() -> None:
    """Their terms are of 1e7, and cancel."""
    a = lt.tensor(1e6)
    wide = a.double()
    found = {D.Gamma: lambda x: D.Gamma(x, 1.0).log_prob(x),
             D.Poisson: lambda x: D.Poisson(x).log_prob(x),
             D.Beta: lambda x: D.Beta(x, x).log_prob(0 * x + 0.5),
             D.StudentT: lambda x: D.StudentT(x).log_prob(0 * x),
             D.Binomial: lambda x: D.Binomial(2 * x, 0 * x + 0.5).log_prob(x),
             D.kl_divergence: lambda x: D.kl_divergence(D.Gamma(x, 1.0), D.Gamma(2 * x, 2.0))}
    for kind, call in found.items():
        assert call(a).item() == pytest.approx(call(wide).item(), rel=1e-5), kind


def test_what_is_made_of_another_distribution_names_it() -> None:
    scale, x = lt.tensor([0.5, 2.0]), lt.tensor([0.3, 4.0])
    for made in (D.HalfNormal(scale), D.HalfCauchy(scale), D.InverseGamma(scale, 2.0)):
        same = D.TransformedDistribution(made.base_dist, made.transforms)
        assert same.batch_shape == (2,) and type(made.base_dist).__name__ in (
            "Normal", "Cauchy", "Gamma")
        found = same.log_prob(x) if same.transforms[0].bijective else \
            made.base_dist.log_prob(x) + np.log(2)
        np.testing.assert_allclose(found.numpy(), made.log_prob(x).numpy(), rtol=1e-5)


def test_a_precision_has_a_triangular_scale() -> None:
    from lazyten.distributions.multivariate_normal import (  # type: ignore[import-not-found]
        _batch_mahalanobis,
        _batch_mv,
        _precision_to_scale_tril,
    )
    x = lt.tensor(np.random.default_rng(0).normal(size=(2, 4, 4)))
    precision = x @ x.mT + 0.1 * lt.eye(4, dtype=lt.float64)
    lower, v = _precision_to_scale_tril(precision), x[:, 0]
    assert lower.tril().equal(lower)
    np.testing.assert_allclose((lower @ lower.mT @ precision).numpy(), [np.eye(4)] * 2, atol=1e-9)
    np.testing.assert_allclose(_batch_mahalanobis(lower, v).numpy(),
                               (v * _batch_mv(precision, v)).sum(-1).numpy(), rtol=1e-7)


def test_what_binomials_of_several_counts_have_not_says_so() -> None:
    several = lt.distributions.Binomial(lt.tensor([2.0, 3.0]), lt.tensor(0.5))
    for ask in (several.entropy, several.enumerate_support):
        with pytest.raises(NotImplementedError, match="all must have one total_count"):
            ask()


@pytest.mark.parametrize("made", [
    D.Normal(0.5, 2.0), D.Laplace(0.5, 2.0), D.Cauchy(0.5, 2.0), D.Gumbel(0.5, 2.0),
    D.HalfNormal(2.0), D.HalfCauchy(2.0), D.LogNormal(0.5, 0.5), D.Exponential(2.0),
    D.Uniform(0.5, 2.0), D.GeneralizedPareto(0.0, 1.0, 0.2), D.ContinuousBernoulli(0.3),
    D.Kumaraswamy(2.0, 3.0), D.Weibull(1.0, 2.0)], ids=lambda d: type(d).__name__)
def test_values_and_probabilities_may_be_numbers(made: D.Distribution) -> None:
    made._validate_args = False
    value = made.icdf(0.25)  # type: ignore[arg-type]
    np.testing.assert_allclose(value.numpy(), made.icdf(lt.tensor(0.25)).numpy())
    np.testing.assert_allclose(made.cdf(value.item()).numpy(), 0.25, rtol=1e-5)  # type: ignore[arg-type]
    np.testing.assert_allclose(made.log_prob(value.item()).numpy(),  # type: ignore[arg-type]
                               made.log_prob(value).numpy(), rtol=1e-6)


def test_chi2_of_a_negative_number_is_refused() -> None:
    with pytest.raises(ValueError, match="Chi2: df is not"):
        D.Chi2(-3.0)
