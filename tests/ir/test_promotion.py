"""Dtype promotion beside torch.result_type: every pair of dtypes, in all three kinds of operand."""
from __future__ import annotations

from functools import cache
from typing import Any

import pytest
from torch_if_there import torch

import lazyten as lt
from lazyten.ir import dtype as dt

SCALARS = (True, 3, 2.5)


def torch_type(dtype: dt.DType) -> Any:
    return getattr(torch, dtype.name)


def both(dtype: dt.DType, shape: tuple[int, ...]) -> tuple[lt.Tensor, Any]:
    """A tensor of ones, ours and torch's."""
    return lt.ones(shape, dtype=dtype), torch.ones(shape, dtype=torch_type(dtype))


def lacks(first: dt.DType, second: dt.DType) -> bool:
    """Whether torch promotes no such pair: wide unsigned integers with other integers."""
    try:
        torch.promote_types(torch_type(first), torch_type(second))
    except RuntimeError:
        return True
    return False


@cache
def pairs() -> list[tuple[dt.DType, dt.DType]]:
    return [(a, b) for a in dt.ARITHMETIC for b in dt.ARITHMETIC if not lacks(a, b)]


@pytest.mark.torch
def test_torch_lacks_only_pairs_with_a_wide_unsigned_type() -> None:
    wide = (lt.uint16, lt.uint32, lt.uint64)
    missing = [(a, b) for a in dt.ARITHMETIC for b in dt.ARITHMETIC if (a, b) not in pairs()]
    assert len(pairs()) > 100
    assert all(a in wide or b in wide for a, b in missing)


@pytest.mark.torch
@pytest.mark.parametrize("shapes", [((2,), (2,)), ((2,), ()), ((), (2,)), ((), ())],
                         ids=["dim-dim", "dim-zero", "zero-dim", "zero-zero"])
def test_tensors_promote_as_torchs(shapes: tuple[tuple[int, ...], tuple[int, ...]]) -> None:
    wrong = []
    for first, second in pairs():
        (a, theirs_a), (b, theirs_b) = both(first, shapes[0]), both(second, shapes[1])
        expected = torch.result_type(theirs_a, theirs_b)
        if torch_type((a * b).dtype) is not expected:
            wrong.append(f"{first} * {second}: {(a * b).dtype}, not {expected}")
    assert not wrong


@pytest.mark.torch
@pytest.mark.parametrize("shape", [(2,), ()], ids=["dim", "zero"])
@pytest.mark.parametrize("number", SCALARS)
def test_python_numbers_are_weak_as_in_torch(shape: tuple[int, ...], number: float) -> None:
    for dtype in dt.ARITHMETIC:
        ours, theirs = both(dtype, shape)
        expected = torch.result_type(theirs, number)
        assert torch_type((ours * number).dtype) is expected, f"{dtype} * {number}"
        assert torch_type((number * ours).dtype) is expected, f"{number} * {dtype}"


@pytest.mark.torch
def test_division_of_integers_gives_the_default_float_as_in_torch() -> None:
    for first, second in pairs():
        (a, theirs_a), (b, theirs_b) = both(first, (2,)), both(second, (2,))
        assert torch_type((a / b).dtype) is (theirs_a / theirs_b).dtype, f"{first} / {second}"


@pytest.mark.torch
def test_joining_and_choosing_promote_as_in_torch() -> None:
    for first, second in [(lt.int8, lt.float16), (lt.bool_, lt.int32), (lt.uint8, lt.int8),
                          (lt.float16, lt.bfloat16)]:
        (a, theirs_a), (b, theirs_b) = both(first, (2,)), both(second, (2,))
        assert torch_type(lt.cat([a, b]).dtype) is torch.cat([theirs_a, theirs_b]).dtype
        chosen = torch.where(theirs_a.bool(), theirs_a, theirs_b)
        assert torch_type(lt.where(a.bool(), a, b).dtype) is chosen.dtype


def test_pairs_that_torch_lacks_give_the_next_wider_signed_type() -> None:
    assert lt.promote_types(lt.uint16, lt.int8) is lt.int32
    assert lt.promote_types(lt.int32, lt.uint32) is lt.int64
    assert lt.promote_types(lt.uint64, lt.int64) is lt.int64
    assert lt.promote_types(lt.uint16, lt.uint64) is lt.uint64


def test_promotion_is_the_same_both_ways_and_keeps_a_type_with_itself() -> None:
    for first in dt.ARITHMETIC:
        assert lt.promote_types(first, first) is first
        for second in dt.ARITHMETIC:
            assert lt.promote_types(first, second) is lt.promote_types(second, first)


def test_values_survive_promotion(device: str) -> None:
    a = lt.tensor([200], dtype=lt.uint8, device=device) + lt.tensor([-100], dtype=lt.int8,
                                                                    device=device)
    b = lt.tensor([1, 2], dtype=lt.int32, device=device) * 0.5
    lt.realize(a, b)
    assert a.dtype is lt.int16 and a.tolist() == [100]
    assert b.dtype is lt.float32 and b.tolist() == [0.5, 1.0]
