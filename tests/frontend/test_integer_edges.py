"""Integers at the limits of their types, beside Python's."""
from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import lazyten as lt
from lazyten.ir import dtype as dt
from lazyten.nn import functional as F


@pytest.mark.parametrize("dtype", dt.INTS, ids=str)
def test_the_greatest_divisor_of_the_least_number_is_positive_where_it_fits(dtype: dt.DType,
                                                                            device: str) -> None:
    least = int(dtype.min)
    x = lt.tensor([least, least, 0, 6], dtype=dtype, device=device)
    y = lt.tensor([least // 2, 6, least // 2, 4], dtype=dtype, device=device)
    wanted = [math.gcd(a, b) for a, b in zip(x.tolist(), y.tolist(), strict=True)]
    assert x.gcd(y).tolist() == wanted
    assert y.gcd(x).tolist() == wanted


@pytest.mark.parametrize("dtype", (dt.int8, dt.uint8), ids=str)
def test_the_greatest_divisor_of_any_two_numbers_of_a_byte_is_numpys(dtype: dt.DType,
                                                                     device: str) -> None:
    numbers = np.arange(int(dtype.min), int(dtype.max) + 1)
    wanted = np.gcd(numbers[:, None], numbers).astype(dtype.numpy)
    x = lt.tensor(numbers, dtype=dtype, device=device)
    assert_array_equal(x[:, None].gcd(x).numpy(), wanted)


@pytest.mark.parametrize("dtype", (dt.int16, dt.int32, dt.uint32, dt.int64, dt.uint64), ids=str)
def test_numbers_of_all_lengths_have_the_greatest_divisors_that_numpy_finds(dtype: dt.DType,
                                                                            device: str) -> None:
    rng = np.random.default_rng(0)
    most = np.iinfo(dtype.numpy)
    x, y = (rng.integers(most.min, most.max, 1000, dtype.numpy, endpoint=True)
            >> rng.integers(0, dtype.bits, 1000).astype(dtype.numpy) for _ in range(2))
    powers = np.ones(dtype.bits, dtype.numpy) << np.arange(dtype.bits).astype(dtype.numpy)
    x, y = np.append(x, powers), np.append(y, powers[::-1])
    found = lt.tensor(x, device=device).gcd(lt.tensor(y, device=device))
    assert_array_equal(found.numpy(), np.gcd(x, y))


@pytest.mark.parametrize(("dtype", "number"), ((lt.uint8, -1), (lt.uint8, 256), (lt.int8, 200),
                                               (lt.int64, 2**63)))
def test_an_exponent_that_the_type_does_not_hold_is_refused(dtype: dt.DType, number: int) -> None:
    x = lt.tensor([1, 2, 3], dtype=dtype)
    why = "does not fit" if number > 0 else "negative powers"
    for power in (lambda: x ** number, lambda: x.pow(number), lambda: x.pow_(number)):
        with pytest.raises(lt.ArgumentError, match=why):
            power()


def test_a_list_of_numbers_beyond_int64_is_of_uint64_or_refused(device: str) -> None:
    """NumPy makes float64 of some, which would round them."""
    for numbers in ([2**63], [3, 2**64 - 1], [[True], [2**63 + 1]]):
        for dtype in (None, lt.uint64):
            found = lt.tensor(numbers, dtype=dtype, device=device)
            assert found.dtype is lt.uint64 and found.tolist() == numbers
    assert lt.tensor([3, 2**63], dtype=lt.float32, device=device).tolist() == [3, 2**63]
    with pytest.raises(lt.ArgumentError, match="does not fit in int64"):
        lt.tensor([3, 2**63], dtype=lt.int64, device=device)
    with pytest.raises(lt.DTypeError, match="neither int64 nor uint64"):
        lt.tensor([-1, 2**63], device=device)
    mixed = [np.uint64(5), np.int64(-1)]
    assert lt.tensor(mixed, device=device).tolist() == [5, -1]


OF_INTEGERS: dict[str, Callable[..., Any]] = {
    "trapezoid": lt.trapezoid, "trapezoid at": lambda x, y: lt.trapezoid(x, y),
    "cumulative_trapezoid": lambda x, y: lt.cumulative_trapezoid(x, y),
    "gradient": lambda x, y: lt.gradient(x)[0],
    "gradient at": lambda x, y: lt.gradient(x, spacing=(y,))[0],
    "dist": lt.dist, "pairwise_distance": F.pairwise_distance,
    "poisson_nll_loss": lambda x, y: F.poisson_nll_loss(x % 3, y, full=True),
    "triplet_margin_loss": lambda x, y: F.triplet_margin_loss(x, y, y.flip(0), margin=300.0),
    "margin_ranking_loss": lambda x, y: F.margin_ranking_loss(
        x, y, lt.tensor([1, -1, 1, -1], device=x.device), margin=150.0),
    "cosine_embedding_loss": lambda x, y: F.cosine_embedding_loss(
        x, y, lt.tensor(1, device=x.device))}


@pytest.mark.parametrize("dtype", (lt.uint8, lt.int8, lt.int16, lt.int64), ids=str)
@pytest.mark.parametrize("name", OF_INTEGERS)
def test_a_float_of_integers_is_made_of_none_that_wrapped(name: str, dtype: dt.DType,
                                                          device: str) -> None:
    high = int(dtype.max) if dtype is not lt.int64 else 2**20
    low = max(int(dtype.min), -high)
    x = lt.tensor([high, low, high - 1, low + 2], dtype=dtype, device=device)
    y = lt.tensor([low, high, high - 9, low + 1], dtype=dtype, device=device)
    found, wanted = (OF_INTEGERS[name](*z) for z in ((x, y), (x.double(), y.double())))
    assert_allclose(found.numpy(), wanted.numpy(), rtol=1e-3)


def test_differences_of_great_integers_are_exact(device: str) -> None:
    """A float32 of each would be the same number."""
    x = lt.tensor([2**40, 2**40 + 1, 2**40 + 3], device=device)
    assert lt.gradient(x)[0].tolist() == [1, 1.5, 2]
    assert lt.dist(x, x + 1, p=1).item() == 3
    assert lt.trapezoid(x * 0 + 1, x).item() == 3
