"""Functions of PyTorch and of lazyten on the same inputs, values and gradients compared."""
from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import strategies as st
from tensor_values import Array

import lazyten as lt

torch = pytest.importorskip("torch")
Options = dict[str, Any]


def normal(*shape: int, seed: int = 0) -> Array:
    return np.random.default_rng(seed).normal(size=shape)


def compare(ours: Callable[..., lt.Tensor], theirs: Callable[..., Any], *arrays: Array,
            device: str = "interpreter") -> None:
    """Assert equal values, and equal gradients for all arrays, in float64."""
    mine = [lt.tensor(a, device=device, requires_grad=True) for a in arrays]
    other = [torch.tensor(a, requires_grad=True) for a in arrays]
    found, expected = ours(*mine), theirs(*other)
    assert found.shape == tuple(expected.shape)
    weight = np.random.default_rng(9).uniform(0.5, 1.5, found.shape)
    found.backward(lt.tensor(weight, device=device), retain_graph=True)
    expected.backward(torch.tensor(weight))
    lt.realize(found, *(t.grad for t in mine if t.grad is not None))
    np.testing.assert_allclose(found.detach().numpy(), expected.detach().numpy(), rtol=1e-10,
                               atol=1e-12)
    for number, (m, t) in enumerate(zip(mine, other, strict=True)):
        if t.grad is None:
            assert m.grad is None
            continue
        assert m.grad is not None
        np.testing.assert_allclose(m.grad.numpy(), t.grad.numpy(), rtol=1e-9, atol=1e-11,
                                   err_msg=f"gradient {number}")


@st.composite
def pools(draw: st.DrawFn) -> tuple[tuple[int, ...], Options]:
    kernel = draw(st.tuples(st.integers(1, 3), st.integers(1, 3)))
    padding = tuple(draw(st.integers(0, k // 2)) for k in kernel)
    stride = draw(st.none() | st.tuples(st.integers(1, 4), st.integers(1, 4)))
    size = [k + draw(st.integers(0, 5)) for k in kernel]
    return (2, 2, *size), {"kernel_size": kernel, "padding": padding, "stride": stride,
                           "ceil_mode": draw(st.booleans())}


def distinct(*shape: int) -> Array:
    return np.random.default_rng(4).permutation(int(np.prod(shape))).reshape(shape) / 8.0
