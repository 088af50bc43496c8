"""What a mask chooses of memory is read and written by the host: as NumPy does it, and never as
another program for each number of elements."""
from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from tensor_values import counted_plans

import lazyten as lt
from lazyten.execution import frame_runs

VIEWS: dict[str, Callable[[Any], Any]] = {
    "whole": lambda x: x, "columns": lambda x: x[:, 1:3], "rows": lambda x: x[2:],
    "turned": lambda x: x.T, "line": lambda x: x.reshape(-1), "a row": lambda x: x[1]}


def memory(*shape: int) -> lt.Tensor:
    return lt.tensor(np.random.default_rng(0).normal(size=shape).astype(np.float32))


@pytest.mark.parametrize("how", VIEWS)
def test_elements_are_those_that_numpy_chooses(how: str) -> None:
    x = VIEWS[how](memory(5, 4))
    for mask in (x > 0, x > 9, x < 9, x[..., 0] > 0):
        if mask.ndim:
            np.testing.assert_array_equal(x[mask].numpy(), x.numpy()[mask.numpy()])


@pytest.mark.parametrize("how", VIEWS)
def test_elements_are_put_where_numpy_puts_them(how: str) -> None:
    x = memory(5, 4)
    before, kept = x.numpy(), x * 1
    view = VIEWS[how](x)
    expected = before.copy()
    shown = VIEWS[how](expected)
    mask = view > 0
    values = view[mask] * 10
    shown[mask.numpy()] *= 10
    view[mask] = values
    np.testing.assert_array_equal(view.numpy(), shown)
    np.testing.assert_array_equal(x.numpy(), expected)
    np.testing.assert_array_equal(kept.numpy(), before)


def test_a_view_that_was_copied_leaves_what_it_was_of() -> None:
    x = memory(3, 4)
    before, turned = x.numpy(), x.T.reshape(-1)
    turned[turned > 0] = lt.zeros(int((before > 0).sum()))
    np.testing.assert_array_equal(x.numpy(), before)
    np.testing.assert_array_equal(turned.numpy(), np.minimum(before.T.reshape(-1), 0))


@pytest.mark.parametrize("dtype", [lt.bfloat16, lt.float16, lt.float64, lt.int8, lt.bool])
def test_types_keep_their_bits(dtype: Any) -> None:
    x = (memory(6) * 3).to(dtype)
    mask = lt.tensor([True, False, True, True, False, True])
    assert x[mask].dtype is dtype
    assert x[mask].tolist() == [v for v, is_on in zip(x.tolist(), mask.tolist(), strict=True)
                                if is_on]
    y = lt.zeros(6, dtype=dtype)
    y[mask] = x[mask]
    assert y.tolist() == lt.where(mask, x, lt.zeros(6, dtype=dtype)).tolist()


def test_values_that_do_not_fit_or_are_of_another_type_are_written_as_ever() -> None:
    x, mask = lt.zeros(4), lt.tensor([True, False, True, False])
    x[mask] = lt.tensor([1, 2])
    assert x.tolist() == [1, 0, 2, 0]
    x[mask] = lt.tensor([3.0])
    assert x.tolist() == [3, 0, 3, 0]
    with pytest.raises(lt.ShapeError, match="broadcast"):
        x[mask] = lt.ones(3)
    assert x.tolist() == [3, 0, 3, 0]


def test_gradients_flow_to_what_a_mask_chooses() -> None:
    x = memory(5).requires_grad_()
    mask = x > 0
    (x[mask] ** 2).sum().backward()
    np.testing.assert_allclose(x.grad.numpy(), 2 * np.maximum(x.detach().numpy(), 0))
    y = lt.zeros(5)
    y[mask] = 3 * x[mask]
    y.sum().backward()
    assert y.requires_grad


def test_memory_that_numpy_shares_is_read_and_written() -> None:
    array = np.array([1.0, -2.0, 3.0], np.float32)
    x = lt.from_numpy(array)
    array[0] = -1
    mask = x > 0
    assert x[mask].tolist() == [3.0]
    x[mask] = lt.tensor([7.0])
    assert array.tolist() == [-1.0, -2.0, 7.0]


def test_numbers_of_elements_are_no_reason_for_other_programs(
        monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[object] = []
    make = frame_runs._made
    monkeypatch.setattr(frame_runs, "_made", lambda *args: made.append(1) or make(*args))
    x = memory(40)
    counts = []
    with counted_plans():
        for number in range(1, 13):
            made.clear()
            y = x * 2
            mask = y.argsort() < number
            y[mask] = y[mask]
            assert (y[mask].shape[0], y[0].item()) == (number, 2 * x[0].item())
            counts.append(len(made))
    assert not any(counts[-6:]), counts
