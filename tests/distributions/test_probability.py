"""Distributions in training, in jitted functions, and what they refuse. (tests/pytorch has their
numbers.)"""
from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import lazyten as lt
from lazyten import distributions as D
from lazyten.distributions import constraints
from lazyten.distributions.gamma import standard_gamma
from lazyten.distributions.multivariate import cholesky


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
    assert repr(constraints.interval(0.0, 1.0)) == "interval(lower_bound=0.0, upper_bound=1.0)"


def test_nothing_is_looked_at_where_that_is_switched_off() -> None:
    D.Normal(0.0, -1.0, validate_args=False).log_prob(lt.tensor(float("nan")))
    D.Distribution.set_default_validate_args(False)
    try:
        D.Normal(0.0, -1.0)
    finally:
        D.Distribution.set_default_validate_args(True)


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
    (lambda: D.Normal(0.0, -1.0), ValueError, r"scale is not greater_than"),
    (lambda: D.Uniform(1.0, 0.0), ValueError, "below high"),
    (lambda: D.Bernoulli(), ValueError, "either probs or logits"),
    (lambda: D.Bernoulli(0.5, logits=0.5), ValueError, "either probs or logits"),
    (lambda: D.Bernoulli(1.5), ValueError, "probs is not interval"),
    (lambda: D.Bernoulli(0.5).log_prob(lt.tensor(0.5)), ValueError, "is not in Boolean"),
    (lambda: D.Normal(lt.zeros(3), 1.0).log_prob(lt.zeros(2)), ValueError, "do not fit"),
    (lambda: D.Normal(0.0, 1.0).log_prob(1.0), ValueError, "lazyten.tensor"),
    (lambda: D.Categorical(0.5), lt.ShapeError, "one axis or more"),
    (lambda: D.Categorical(half()).log_prob(lt.tensor(2)), ValueError, "integer_interval"),
    (lambda: D.Gamma(1.0, 1.0).rsample(), lt.GradientError, r"use sample\(\)"),
    (lambda: D.Poisson(1.0).sample(), NotImplementedError, "cannot be sampled"),
    (lambda: D.Multinomial(half(), half()), ValueError, "whole number"),
    (lambda: D.MultivariateNormal(half()), ValueError, "give one of"),
    (lambda: D.MultivariateNormal(half(), lt.eye(3)), lt.ShapeError, r"\(3, 3\)"),
    (lambda: D.Independent(D.Normal(0.0, 1.0), 1), ValueError, "reinterpreted_batch_ndims=1"),
    (lambda: D.TransformedDistribution(D.Normal(0.0, 1.0), [abs]), ValueError, "not transforms"),
    (lambda: D.MixtureSameFamily(D.Categorical(half()), D.Normal(0.0, 1.0)), ValueError,
     "last axis"),
    (lambda: D.Cauchy(0.0, 1.0).enumerate_support(), NotImplementedError, "Cauchy")])
def test_mistakes_are_explained(call: Callable[[], Any], error: type[Exception],
                                message: str) -> None:
    with pytest.raises(error, match=message):
        call()
