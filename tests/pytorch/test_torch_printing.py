"""The text of tensors beside PyTorch's."""
from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import lazyten as lt

torch = pytest.importorskip("torch")

pytestmark = pytest.mark.torch

inf, nan = float("inf"), float("nan")
VALUES: list[Any] = [
    3, -7, 2.5, True, nan, inf, 1e10, 1e-10, [], [[]], [[], []], [1, 2, 3], [1, -20, 300],
    [1.0, 2.0], [1.5, -2.25], [0.1, 100.0], [1e-5, 1.0], [1e-3, 999.0], [1e-3, 1001.0], [1e8, 1.0],
    [1e9, 1.0], [123456.0, 1.0], [0.0, -0.0], [nan, 1.0], [inf, -inf, 1.0], [inf, 1.5], [nan, nan],
    [nan, inf], [nan, 1.25, 3e-7], [True, False], [[True], [False]], [[1, 2], [3, 4]],
    [[1.5, 2.0], [-3.0, 4.0]],
    [[[1, 2], [3, 4]], [[5, 6], [7, 8]]], [[[[1.0]]]], list(range(40)), [i / 7 for i in range(30)],
    [[i * j for i in range(30)] for j in range(2)], [1e38, 1e-38], [0.00001], [100000.0, 0.5],
    [1e4 + 0.5, 2.0], [-1.0, 1e-4], [0.0] * 30, [-0.0, *[1.0] * 30], [12345678.0], [1.0, 1e7],
    [-0.5], [9999999.0, 0.1]]


def check(values: Any, dtype: lt.DType | None = None, requires_grad: bool = False) -> None:
    """Assert that ours and torch's text differ in nothing but the library's name."""
    theirs = torch.tensor(values, dtype=None if dtype is None else getattr(torch, dtype.name),
                          requires_grad=requires_grad)
    ours = lt.tensor(values, dtype=dtype, requires_grad=requires_grad)
    assert repr(ours) == repr(theirs).replace("torch.", "lazyten.")


@pytest.mark.parametrize("number", range(len(VALUES)))
def test_text_is_torchs(number: int) -> None:
    check(VALUES[number])


@pytest.mark.parametrize("dtype", [lt.float64, lt.float16, lt.int8, lt.int32, lt.uint8, lt.bool_,
                                   lt.bfloat16, lt.int64], ids=lambda d: d.name)
def test_text_of_other_dtypes_is_torchs(dtype: lt.DType) -> None:
    for values in (1, [0, 1, 2], [[0, 1], [1, 100]], []):
        check(values, dtype)
    if dtype.is_float:
        check([0.5, 1.25], dtype)
        check([0.001, 1.25], dtype)


SHAPES = [(1001,), (2000,), (40, 40), (1, 1200), (1200, 1), (7, 8, 30), (3, 4, 100), (2, 2, 2, 300),
          (1000,), (25, 40), (3, 0), (0, 3), (2, 3, 4), (2, 1, 2, 2), (6, 200), (1001, 2)]


@pytest.mark.parametrize("shape", SHAPES)
def test_text_of_large_and_deep_tensors_is_torchs(shape: tuple[int, ...]) -> None:
    size = int(np.prod(shape))
    check(np.arange(size).reshape(shape))
    check(np.arange(size, dtype=np.float32).reshape(shape))
    check((np.arange(size, dtype=np.float32) / 7 - 3).reshape(shape))
    check(np.random.default_rng(0).normal(size=shape).astype(np.float32) > 0)


def test_text_tells_what_requires_gradients_as_torchs() -> None:
    check([1.0, 2.0], requires_grad=True)
    check([i / 3 for i in range(10)], lt.float64, requires_grad=True)
    check(1.5, requires_grad=True)


@given(values=st.lists(st.floats(width=32), min_size=1, max_size=12))
def test_text_of_random_floats_is_torchs(values: list[float]) -> None:
    check(np.array(values, np.float32))


@given(values=st.lists(st.integers(-1000, 1000).map(lambda n: n / 8), min_size=1, max_size=12))
def test_text_of_random_round_floats_is_torchs(values: list[float]) -> None:
    check(np.array(values, np.float32))
