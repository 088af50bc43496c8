"""`kl_divergence` of every pair of classes that PyTorch has a formula for, with its gradients."""
from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import lazyten as lt

torch = pytest.importorskip("torch")
from torch.distributions.kl import _KL_REGISTRY  # noqa: E402

pytestmark = pytest.mark.torch

Parameter = Callable[[Any], Any]
FIRST = {"a": [0.6, 1.2, 3.1], "b": [1.3, 0.8, 2.9], "probs": [0.6, 0.3, 0.85],
         "low": [0.1, -0.5, 0.2], "high": [0.9, 0.8, 1.5], "trials": [5.0, 7.0, 5.0]}
SECOND = {"a": [0.3, 1.7, 2.5], "b": [0.9, 2.2, 1.4], "probs": [0.2, 0.7, 0.45],
          "low": [-0.1, -0.5, 0.2], "high": [1.9, 2.8, 1.5], "trials": [5.0, 5.0, 5.0]}
"""Numbers of p and of q."""
COVARIANCE = [[2.0, 0.3, 0.1], [0.3, 1.0, 0.2], [0.1, 0.2, 1.5]]
FACTOR = [[0.5, 0.1], [0.2, 1.0], [0.3, 0.4]]
MADE: dict[str, Callable[[Any, Parameter, dict[str, Any]], Any]] = {
    **{name: lambda D, p, n, name=name: getattr(D, name)(p(n["a"]), p(n["b"]))
       for name in ("Beta", "Gamma", "Gumbel", "Laplace", "Normal")},
    **{name: lambda D, p, n, name=name: getattr(D, name)(p(n["a"]))
       for name in ("Exponential", "Poisson")},
    **{name: lambda D, p, n, name=name: getattr(D, name)(p(n["probs"]))
       for name in ("Bernoulli", "ContinuousBernoulli")},
    "Binomial": lambda D, p, n: D.Binomial(p(n["trials"]).detach(), p(n["probs"])),
    "Pareto": lambda D, p, n: D.Pareto(p(n["b"]), p(n["a"]) + 1),
    "Uniform": lambda D, p, n: D.Uniform(p(n["low"]), p(n["high"])),
    "MultivariateNormal": lambda D, p, n: D.MultivariateNormal(p(n["a"]), p(COVARIANCE)),
    "HalfCauchy": lambda D, p, n: D.HalfCauchy(p(n["a"])),
    "LowRankMultivariateNormal": lambda D, p, n: D.LowRankMultivariateNormal(
        p(n["a"]), p(FACTOR), p(n["b"])),
}
PAIRS = sorted((p.__name__, q.__name__) for p, q in _KL_REGISTRY
               if p.__name__ in MADE and q.__name__ in MADE)
PAIRS.append(("HalfCauchy", "HalfCauchy"))  # by the rule of its class's base


def divergence(L: Any, names: tuple[str, str]) -> tuple[Any, list[Any]]:
    """The divergence, and the gradients where all of it is finite."""
    made: list[Any] = []

    def parameter(values: Any) -> Any:
        made.append(L.tensor(values, dtype=L.float64, requires_grad=True))
        return made[-1]

    p, q = (MADE[name](L.distributions, parameter, numbers)
            for name, numbers in zip(names, (FIRST, SECOND), strict=True))
    found = L.distributions.kl_divergence(p, q)
    if bool(L.isfinite(found).all()):
        found.sum().backward()
    return found.detach().numpy(), [np.zeros(m.shape) if m.grad is None else m.grad.numpy()
                                    for m in made]


@pytest.mark.parametrize("names", PAIRS, ids=["-".join(pair) for pair in PAIRS])
def test_a_divergence_is_torchs(names: tuple[str, str]) -> None:
    (found, gradients), (expected, others) = divergence(lt, names), divergence(torch, names)
    np.testing.assert_allclose(found, expected, rtol=1e-8, atol=1e-10)
    for mine, other in zip(gradients, others, strict=True):
        np.testing.assert_allclose(mine, other, rtol=1e-6, atol=1e-8)


def test_the_second_of_two_binomials_may_not_have_more_trials() -> None:
    few, many = (lt.distributions.Binomial(n, lt.tensor(0.5)) for n in (3, 4))
    with pytest.raises(NotImplementedError, match="more trials"):
        lt.distributions.kl_divergence(few, many)
