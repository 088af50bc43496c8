"""`lt._foreach_add_` and the like, beside PyTorch's."""
from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from numpy.testing import assert_allclose
from torch_if_there import torch

import lazyten as lt
from lazyten.utils import _foreach_utils as ours

CALLS: dict[str, Callable[[Any, list[Any], list[Any]], Any]] = {
    "numbers": lambda T, a, b: T._foreach_mul(a, 3),
    "a number for each": lambda T, a, b: T._foreach_add(a, [1.0, 2.0]),
    "lists": lambda T, a, b: T._foreach_sub(a, b, alpha=2),
    "addcmul": lambda T, a, b: T._foreach_addcmul(a, b, b, 0.5),
    "addcdiv": lambda T, a, b: T._foreach_addcdiv(a, a, b, [0.5, 2.0]),
    "addcdiv by a tensor": lambda T, a, b: T._foreach_addcdiv(a, a, b, T.tensor([0.5, 2.0])),
    "addcmul with scalars by name": lambda T, a, b: T._foreach_addcmul(a, b, b, scalars=[0.5, 2.0]),
    "addcdiv_ with a scalar by name": lambda T, a, b: T._foreach_addcdiv_(
        a, a, b, scalars=T.tensor([0.5, 2.0])),
    "add with a scalar by name": lambda T, a, b: T._foreach_add(a, scalar=2.0),
    "lerp": lambda T, a, b: T._foreach_lerp(a, b, 0.25),
    "maximum of a number": lambda T, a, b: T._foreach_maximum(a, 1.5),
    "minimum of lists": lambda T, a, b: T._foreach_minimum(a, b),
    "norm of the greatest": lambda T, a, b: T._foreach_norm(a, ord=float("inf")),
    "norm": lambda T, a, b: T._foreach_norm(a, 2), "sqrt": lambda T, a, b: T._foreach_sqrt(b),
    "pow": lambda T, a, b: T._foreach_pow(a, 2),
    "by a tensor": lambda T, a, b: T._foreach_div(a, T.tensor(4.0)),
    "add_": lambda T, a, b: T._foreach_add_(a, b, alpha=-0.1),
    "zero_": lambda T, a, b: T._foreach_zero_(a), "copy_": lambda T, a, b: T._foreach_copy_(a, b),
    "maximum_": lambda T, a, b: T._foreach_maximum_(a, b),
    "neg_": lambda T, a, b: T._foreach_neg_(a)}


@pytest.mark.torch
@pytest.mark.parametrize("name", CALLS)
def test_a_method_of_each_tensor_is_pytorchs(name: str) -> None:
    def found(T: Any) -> tuple[Any, Any]:
        a = [T.arange(4.0) - 1, T.arange(6.0).reshape(2, 3)]
        b = [T.arange(4.0) * 2 + 1, T.arange(6.0).reshape(2, 3) + 0.5]
        return CALLS[name](T, a, b), a
    (mine, mine_after), (other, other_after) = found(lt), found(torch)
    assert type(mine) is type(other) or other is None
    for x, y in zip([*mine, *mine_after], [*(other or other_after), *other_after], strict=True):
        assert_allclose(x.numpy(), y.numpy(), rtol=1e-6)


def test_lists_of_other_lengths_are_an_error() -> None:
    with pytest.raises(lt.ArgumentError, match=r"_foreach_add: 1 values for 2 tensors"):
        lt._foreach_add([lt.ones(2), lt.ones(3)], [1.0])
    with pytest.raises(AttributeError):
        lt._foreach_frobnicate  # noqa: B018


def test_tensors_that_are_alike_are_grouped() -> None:
    a, b, c = lt.ones(2), lt.ones(3, dtype=lt.float64), lt.zeros(1)
    groups = ours._group_tensors_by_device_and_dtype([[a, b, c], [None, 1, 2]], with_indices=True)
    assert groups == {(a.device, lt.float32): ([[a, c], [None, 2]], [0, 2]),
                      (a.device, lt.float64): ([[b], [1]], [1])}
    with pytest.raises(lt.ArgumentError, match="groups of tensors: lists of \\[1, 2\\]"):
        ours._group_tensors_by_device_and_dtype([[a], [b, c]])
