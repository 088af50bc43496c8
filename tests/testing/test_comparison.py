"""`assert_close` beside PyTorch's: what is close for one is for the other."""
from __future__ import annotations

import math
from typing import Any

import pytest
from torch_if_there import torch

import lazyten as lt

CASES: dict[str, Any] = {
    "equal": lambda L: (L.ones(2), L.ones(2), {}),
    "just near": lambda L: (L.ones(2), L.ones(2) * (1 + 1.2e-6), {}),
    "just far": lambda L: (L.ones(2), L.ones(2) * (1 + 2e-5), {}),
    "near in 16 bits": lambda L: (L.ones(2).bfloat16(), L.ones(2).bfloat16() * 1.01, {}),
    "near complex numbers": lambda L: (L.ones(2) * 1j, L.ones(2) * 1j * (1 + 1e-6), {}),
    "far imaginary parts": lambda L: (L.ones(2) * (1 + 1j), L.ones(2) * (1 + 1.0001j), {}),
    "another dtype": lambda L: (L.ones(2), L.ones(2).double(), {}),
    "another dtype, unchecked": lambda L: (L.ones(2), L.ones(2).double(), {"check_dtype": False}),
    "another shape": lambda L: (L.ones(2), L.ones(1, 2), {}),
    "integers": lambda L: (L.arange(3), L.arange(3), {}),
    "other integers": lambda L: (L.arange(3), L.arange(3) + 1, {}),
    "NaN": lambda L: (L.tensor([float("nan")]), L.tensor([float("nan")]), {}),
    "NaN allowed": lambda L: (L.tensor([float("nan")]), L.tensor([float("nan")]),
                              {"equal_nan": True}),
    "infinity": lambda L: (L.tensor([float("inf")]), L.tensor([float("inf")]), {}),
    "own tolerances": lambda L: (L.ones(2), L.ones(2) * 1.1, {"rtol": 0.2, "atol": 0.0}),
    "numbers": lambda L: (1.0, 1.0 + 1e-9, {}),
    "nested": lambda L: ({"a": [L.ones(1), 2]}, {"a": [L.ones(1), 2]}, {}),
    "nested and far": lambda L: ({"a": [L.ones(1)]}, {"a": [L.zeros(1)]}, {}),
    "other keys": lambda L: ({"a": 1}, {"b": 1}, {}),
    "of other length": lambda L: ([L.ones(1)], [], {}),
    "strides": lambda L: (L.ones(2, 3), L.ones(3, 2).T, {"check_stride": True}),
}


def is_close(L: Any, name: str) -> bool:
    actual, expected, options = CASES[name](L)
    try:
        L.testing.assert_close(actual, expected, **options)
    except AssertionError:
        return False
    return True


@pytest.mark.torch
@pytest.mark.parametrize("name", CASES)
def test_what_is_close_is_so_for_pytorch(name: str) -> None:
    assert is_close(lt, name) == is_close(torch, name)


def test_what_differs_is_told() -> None:
    with pytest.raises(AssertionError, match=r"assert_close\['w'\]: 1 of 2 elements differ"):
        lt.testing.assert_close({"w": lt.tensor([1.0, 2.0])}, {"w": lt.tensor([1.0, 3.0])})
    with pytest.raises(AssertionError, match=r"1 of 1 elements .* by 3\.0 at most"):
        lt.testing.assert_close(lt.tensor([1j]), lt.tensor([4j]))
    with pytest.raises(AssertionError, match=r"^mine$"):
        lt.testing.assert_close(1, 2, msg="mine")
    with pytest.raises(AssertionError, match=r"^so: assert_close"):
        lt.testing.assert_close(1, 2, msg=lambda text: f"so: {text}")
    with pytest.raises(lt.ArgumentError, match="both rtol and atol"):
        lt.testing.assert_close(1, 1, rtol=0.1)
    assert lt.GradScaler is lt.amp.GradScaler


@pytest.mark.parametrize("values", ([0.0, math.nan], [1, 2**62]))
def test_without_a_tolerance_nan_may_equal_nan(values: list[float]) -> None:
    x = lt.tensor(values)
    lt.testing.assert_close(x, x.clone(), rtol=0, atol=0, equal_nan=True)
    with pytest.raises(AssertionError):
        lt.testing.assert_close(x, x + 1, rtol=0, atol=0, equal_nan=True)
    if x.dtype.is_float:
        with pytest.raises(AssertionError):
            lt.testing.assert_close(x, x.clone(), rtol=0, atol=0)
