"""scaled_dot_product_attention beside PyTorch's: values, gradients, masks and refusals."""
from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from torch_if_there import torch

import lazyten as lt
from lazyten.nn.functional import scaled_dot_product_attention as attention

RNG = np.random.default_rng(0)
SEEN = np.arange(35).reshape(5, 7) % 3 > 0
BIAS = RNG.normal(size=(2, 1, 5, 7))


def hidden_rows() -> tuple[Any, Any]:
    """A mask in which query 2 sees no key: bool, and as floats."""
    seen = SEEN.copy()
    seen[2] = False
    return seen, np.where(seen, 0.0, -np.inf)


@pytest.mark.torch
@pytest.mark.parametrize("mask", [None, SEEN, BIAS, BIAS.astype("f4"), *hidden_rows()],
                         ids=["none", "bool", "float", "float32", "a row hidden", "a row at -inf"])
@pytest.mark.parametrize("scale", [None, 0.3])
def test_values_and_gradients_are_pytorchs(mask: Any, scale: float | None, device: str) -> None:
    arrays = [RNG.normal(size=s) for s in ((2, 3, 5, 4), (2, 3, 7, 4), (2, 3, 7, 6))]
    check(arrays, {"scale": scale}, mask, device)


@pytest.mark.torch
@pytest.mark.parametrize(("queries", "keys"), [(5, 5), (4, 7), (7, 4)])
def test_a_causal_query_sees_no_later_key(queries: int, keys: int, device: str) -> None:
    arrays = [RNG.normal(size=s) for s in ((2, queries, 3), (2, keys, 3), (2, keys, 3))]
    check(arrays, {"is_causal": True}, None, device)


@pytest.mark.torch
@pytest.mark.parametrize("mask", [SEEN, BIAS, *hidden_rows()],
                         ids=["bool", "float", "a row hidden", "a row at -inf"])
def test_a_causal_query_sees_of_earlier_keys_what_a_mask_shows(mask: Any, device: str) -> None:
    arrays = [RNG.normal(size=s) for s in ((2, 3, 5, 4), (2, 3, 7, 4), (2, 3, 7, 4))]
    check(arrays, {"is_causal": True}, mask, device)


def check(arrays: list[Any], options: dict[str, Any], mask: Any, device: str) -> None:
    ours = [lt.tensor(a, device=device, requires_grad=True) for a in arrays]
    other = [torch.tensor(a, requires_grad=True) for a in arrays]
    found = attention(*ours, None if mask is None else lt.tensor(mask, device=device), **options)
    expected = torch.nn.functional.scaled_dot_product_attention(
        *other, None if mask is None else torch.tensor(mask), **options)
    weights = RNG.normal(size=found.shape)
    (found * lt.tensor(weights, device=device)).sum().backward()
    (expected * torch.tensor(weights)).sum().backward()
    np.testing.assert_allclose(found.detach().numpy(), expected.detach().numpy(), rtol=1e-10,
                               atol=1e-12)
    for mine, its in zip(ours, other, strict=True):
        assert mine.grad is not None
        np.testing.assert_allclose(mine.grad.numpy(), its.grad.numpy(), rtol=1e-9, atol=1e-11)


@pytest.mark.torch
@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_a_mask_of_float32_leaves_a_smaller_type(dtype: str, device: str) -> None:
    q, k, v = (RNG.normal(size=s) for s in ((5, 4), (7, 4), (7, 6)))
    found, expected = (m.nn.functional.scaled_dot_product_attention(
        *(m.tensor(a, dtype=getattr(m, dtype), device=where) for a in (q, k, v)),
        m.tensor(BIAS[0, 0].astype("f4"), device=where))
        for m, where in ((lt, device), (torch, "cpu")))
    assert found.dtype is getattr(lt, dtype) and expected.dtype is getattr(torch, dtype)
    np.testing.assert_allclose(found.float().numpy(), expected.float().numpy(), rtol=0, atol=0.02)


def test_scores_beyond_float16_are_scores(device: str) -> None:
    q = lt.tensor([[300.0] * 16, [-300.0] * 16], dtype=lt.float16, device=device)
    v = lt.tensor([[1.0, 2.0], [3.0, 4.0]], dtype=lt.float16, device=device, requires_grad=True)
    found = attention(q, q, v)
    found.sum().backward()
    assert found.tolist() == [[1.0, 2.0], [3.0, 4.0]] and found.dtype is lt.float16
    assert v.grad is not None and v.grad.tolist() == [[1.0, 1.0], [1.0, 1.0]]


def zeros(*shape: int) -> lt.Tensor:
    return lt.zeros(*shape)


@pytest.mark.parametrize(("arguments", "error", "words"), [
    ((zeros(3), zeros(2, 3), zeros(2, 3)), lt.ShapeError, ["query", "(3,)"]),
    ((zeros(4, 3), zeros(5, 2), zeros(5, 3)), lt.ShapeError, ["(4, 3)", "(5, 2)"]),
    ((zeros(4, 3), zeros(5, 3), zeros(6, 3)), lt.ShapeError, ["(5, 3)", "(6, 3)"]),
    ((zeros(4, 3), zeros(5, 3).double(), zeros(5, 3)), lt.DTypeError, ["key", "float64"]),
    ((zeros(4, 3), zeros(5, 3), zeros(5, 3), zeros(4, 5).long()), lt.DTypeError, ["int64"]),
    ((zeros(4, 3), zeros(5, 3), zeros(5, 3), zeros(4, 4)), lt.ShapeError, ["mask", "(4, 4)"]),
])
def test_refusals_name_what_is_wrong(arguments: tuple[Any, ...], error: type[Exception],
                                     words: list[str]) -> None:
    with pytest.raises(error) as raised:
        attention(*arguments)
    assert all(w in str(raised.value) for w in ["scaled_dot_product_attention", *words])
