"""What tensors say of themselves, their copies, and other libraries' views of them."""
from __future__ import annotations

import copy
import math
import struct
from typing import Any

import numpy as np
import pytest
from torch_if_there import torch

import lazyten as lt
from lazyten.frontend.recorded import lookup
from lazyten.ir.dtype import ARITHMETIC


def test_views_share_a_storage_and_clones_do_not(device: str) -> None:
    x = lt.arange(6, device=device).reshape(2, 3)
    same = x.untyped_storage()
    for view in (x[0], x.T, x.detach(), x.diagonal(), x.view(6), x.expand(4, 2, 3)):
        assert view.untyped_storage() == same
        assert hash(view.untyped_storage()) == hash(same)
    for other in (x.clone(), x + 0, x.T.reshape(6), x.flip(0)):
        assert other.untyped_storage() != same
    assert same.nbytes() == 48


def test_describe_says_what_is_known_without_computing(device: str) -> None:
    x = lt.ones(2, 3, device=device, requires_grad=True)
    y = (x * 2).exp()[:, ::2]
    text = y.describe()
    for words in ("(2, 2)", "lazyten.float32", device, "(3, 2)", "not computed yet", "test_tensor"):
        assert words in text
    assert y._storage.buffer is None
    assert "yes, a leaf" in x.describe()
    y.realize()
    assert "not computed" not in y.describe()


def test_describe_counts_writes_once_each_however_they_are_made(device: str) -> None:
    x = lt.zeros(3, device=device)
    double = lt.jit(lambda: x.mul_(2))
    x.add_(1)
    x[1:] = 5
    assert "written to 2 times" in x.describe()
    for count in (3, 4):
        double()
        assert f"written to {count} times" in x[:1].describe()


def test_data_ptr_is_the_address_of_the_first_element() -> None:
    x = lt.arange(6, device="cpu").reshape(2, 3)
    assert x[1].data_ptr() == x.data_ptr() + 24
    with pytest.raises(lt.ArgumentError, match=r"cpu\(\)"):
        lt.ones(2, device="interpreter").data_ptr()
    array = np.zeros(2)
    assert lt.as_tensor(array, device="interpreter").data_ptr() == array.ctypes.data


# ---- copies --------------------------------------------------------------------------------------

def test_a_deep_copy_has_a_storage_of_its_own_and_keeps_aliases(device: str) -> None:
    x = lt.arange(6.0, device=device).requires_grad_()
    x.grad = lt.ones(6, device=device)
    view = x.detach()[2:]
    y, other = copy.deepcopy([x, view])
    with lt.no_grad():
        x.zero_()
    assert y.requires_grad and y.is_leaf and y.tolist() == [0.0, 1.0, 2.0, 3.0, 4.0, 5.0]
    assert other.untyped_storage() == y.untyped_storage()
    assert y.grad is not None and y.grad.tolist() == [1.0] * 6
    assert copy.copy(view).untyped_storage() == view.untyped_storage()


def test_a_deep_copy_of_a_module_trains_on_its_own(device: str) -> None:
    model = lt.nn.Sequential(lt.nn.Linear(2, 3), lt.nn.ReLU(), lt.nn.Linear(3, 1)).to(device)
    twin = copy.deepcopy(model)
    x = lt.ones(4, 2, device=device)
    before = model(x).tolist()
    assert twin(x).tolist() == before
    optimizer = lt.optim.SGD(twin.parameters(), lr=0.5)
    twin(x).sum().backward()
    optimizer.step()
    assert model(x).tolist() == before
    assert all(p.grad is None for p in model.parameters())
    assert all(p.grad is not None for p in twin.parameters())


# ---- sorting what is long ------------------------------------------------------------------------

@pytest.mark.torch
@pytest.mark.parametrize("n", [1, 7, 1024, 1025, 5000])
def test_sorting_is_numpys_stable_one_at_any_length(n: int, device: str) -> None:
    values = np.random.default_rng(n).integers(0, n // 3 + 2, (2, n)).astype(np.float32)
    x = lt.tensor(values, device=device)
    found = x.sort(1)
    np.testing.assert_array_equal(found.indices.numpy(), np.argsort(values, 1, kind="stable"))
    np.testing.assert_array_equal(found.values.numpy(), np.sort(values, 1))
    down = x.sort(1, descending=True)
    expected = torch.sort(torch.tensor(values), dim=1, descending=True, stable=True)
    np.testing.assert_array_equal(down.indices.numpy(), expected.indices.numpy())


@pytest.mark.parametrize("n", [8, 2000])
def test_axes_of_any_length_are_sorted_inside_jit(n: int, device: str) -> None:
    top = lt.jit(lambda x: x.topk(2).values)
    for shift in (0, 3):
        values = lt.arange(n, device=device) * 3 % n + shift
        assert top(values).tolist() == [n - 1 + shift, n - 2 + shift]


def test_the_default_dtype_makes_a_jitted_function_trace_again() -> None:
    made = lt.jit(lambda x: x + lt.ones(2))
    x = lt.zeros(2, dtype=lt.int32)
    assert made(x).dtype is lt.float32
    lt.set_default_dtype(lt.float64)
    try:
        assert made(x).dtype is lt.float64
    finally:
        lt.set_default_dtype(lt.float32)
    assert made(x).dtype is lt.float32


@pytest.mark.parametrize("dtype", [lt.float32, lt.float64, lt.float16, lt.bfloat16, lt.bool,
                                   lt.int8, lt.uint8, lt.int64], ids=str)
@pytest.mark.parametrize("number", [0.0, -0.0, 1.1, -2.7, float("nan"), float("inf"), 300.0],
                         ids=str)
def test_a_tensor_of_one_number_is_read_without_computing_it(dtype: lt.DType,
                                                             number: float) -> None:
    if not dtype.is_float:
        number = abs(number) % 100 if np.isfinite(number) else 7.0
    lookup.forget()  # that this line had other numbers
    x = lt.full((2, 3), number, dtype=dtype)
    found = [x.numpy(), x[1:].T.numpy(), x[:0].numpy(), x.clone().numpy()]
    assert x._storage.buffer is None
    x.realize()
    expected = [x.numpy(), x[1:].T.numpy(), x[:0].numpy(), x.clone().numpy()]
    for mine, other in zip(found, expected, strict=True):
        assert mine.dtype == other.dtype
        assert mine.shape == other.shape
        assert mine.tobytes() == other.tobytes()
    found[0][0] = 1  # of its own
    assert x.numpy().tobytes() == expected[0].tobytes()


@pytest.mark.parametrize("dtype", ARITHMETIC, ids=str)
def test_item_is_the_number_that_numpy_has(dtype: Any, device: str) -> None:
    found = lt.tensor([1, 0], dtype=dtype, device=device)
    for x in (found[0], found[:1].clone(), found[:1].clone().reshape(1, 1), found[1] * 3):
        expected = x.numpy().item()
        assert x.item() == expected and type(x.item()) is type(expected)


@pytest.mark.parametrize("value", [-0.0, math.inf, -math.inf, math.nan, 0.1, -2.5e-42])
def test_item_of_special_numbers_keeps_their_bits(value: float, device: str) -> None:
    for dtype in (lt.float32, lt.float64):
        x = lt.tensor([value], dtype=dtype, device=device)
        assert struct.pack("d", x.item()) == struct.pack("d", x.numpy().item())
        assert struct.pack("d", x.clone().item()) == struct.pack("d", x.numpy().item())
