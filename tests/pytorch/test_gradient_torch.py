"""Tensor.backward beside PyTorch's: the same function of equal inputs, gradients compared."""
from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import lazyten as lt

torch = pytest.importorskip("torch")

pytestmark = pytest.mark.torch


def compare(function: Callable[..., Any], *inputs: Any, atol: float = 1e-6) -> None:
    """Assert that `function`, of lazyten's and of torch's tensors alike, has equal gradients."""
    arrays = [np.asarray(x, np.float32) for x in inputs]
    ours = [lt.tensor(a, requires_grad=True) for a in arrays]
    theirs = [torch.tensor(a, requires_grad=True) for a in arrays]
    expected = function(torch, *theirs)
    found = function(lt, *ours)
    weight = np.random.default_rng(9).uniform(0.5, 1.5, tuple(expected.shape)).astype(np.float32)
    (expected * torch.tensor(weight)).sum().backward()
    (found * lt.tensor(weight)).sum().backward()
    wanted = expected.detach().numpy()
    np.testing.assert_allclose(found.detach().numpy(), wanted, rtol=1e-5, atol=atol)
    for mine, other in zip(ours, theirs, strict=True):
        np.testing.assert_allclose(mine.grad.numpy(), other.grad.numpy(), rtol=1e-4, atol=atol)


def normal(*shape: int, seed: int = 0) -> np.ndarray[Any, Any]:
    return np.random.default_rng(seed).normal(size=shape)


EDGES = [-np.inf, -2.5, -1.0, -0.0, 0.0, 0.5, 1.0, 3.0]

POINTWISE: dict[str, Callable[..., Any]] = {
    "relu": lambda lib, x: x.relu(),
    "sigmoid": lambda lib, x: x.sigmoid(),
    "tanh": lambda lib, x: x.tanh(),
    "abs": lambda lib, x: x.abs(),
    "exp": lambda lib, x: x.exp(),
    "square": lambda lib, x: x ** 2,
    "cube": lambda lib, x: x ** 3,
    "sin": lambda lib, x: x.sin(),
    "cos": lambda lib, x: x.cos(),
    "clip": lambda lib, x: x.clip(-1.0, 1.0),
    "maximum with a number": lambda lib, x: lib.where(x > 0.5, x, x * 2),
}


@pytest.mark.parametrize("name", POINTWISE)
def test_gradients_of_pointwise_functions_match_torch_at_their_edges_too(name):
    compare(POINTWISE[name], EDGES[1:])
