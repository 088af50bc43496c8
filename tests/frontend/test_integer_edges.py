"""Integers at the limits of their types, beside Python's."""
from __future__ import annotations

import math

import pytest

import lazyten as lt
from lazyten.ir import dtype as dt


@pytest.mark.parametrize("dtype", dt.INTS, ids=str)
def test_the_greatest_divisor_of_the_least_number_is_positive_where_it_fits(dtype: dt.DType,
                                                                            device: str) -> None:
    least = int(dtype.min)
    x = lt.tensor([least, least, 0, 6], dtype=dtype, device=device)
    y = lt.tensor([least // 2, 6, least // 2, 4], dtype=dtype, device=device)
    wanted = [math.gcd(a, b) for a, b in zip(x.tolist(), y.tolist(), strict=True)]
    assert x.gcd(y).tolist() == wanted
    assert y.gcd(x).tolist() == wanted


@pytest.mark.parametrize(("dtype", "number"), ((lt.uint8, -1), (lt.uint8, 256), (lt.int8, 200),
                                               (lt.int64, 2**63)))
def test_an_exponent_that_the_type_does_not_hold_is_refused(dtype: dt.DType, number: int) -> None:
    x = lt.tensor([1, 2, 3], dtype=dtype)
    for power in (lambda: x ** number, lambda: x.pow(number), lambda: x.pow_(number)):
        with pytest.raises(lt.ArgumentError, match="does not fit"):
            power()
