"""Parts of memory by plain indices: views that are made without looking anything up."""
from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import lazyten as lt
from lazyten.frontend.recorded import lookup
from lazyten.frontend.recorded.cuts import Cut

Array = np.ndarray[Any, Any]
DATA = np.arange(12, dtype=np.float32).reshape(3, 4)
PARTS = [0, 2, -1, -3, 3, -4, slice(None), slice(1, None), slice(-2, -1), slice(2, 1),
         slice(0, 9), slice(1, 3, 1), slice(None, None, 2), slice(-9, 2)]
INDICES = [*PARTS, (), *itertools.product(PARTS, PARTS), (0, 0, 0)]
VIEWS: dict[str, Callable[[Any], Any]] = {
    "whole": lambda x: x, "transposed": lambda x: x.T, "a part": lambda x: x[1:, 1:],
    "of one row": lambda x: x[:1], "of no axis": lambda x: x[1, 2]}


@pytest.mark.parametrize("name", VIEWS)
def test_a_part_is_the_one_that_numpy_shows(name: str) -> None:
    x, values = VIEWS[name](lt.tensor(DATA)), VIEWS[name](DATA)
    for index in INDICES:
        try:
            expected = values[index]
        except IndexError:
            with pytest.raises(lt.IndexingError):
                x[index]
            continue
        found = x[index]
        assert found.shape == expected.shape
        np.testing.assert_array_equal(found.numpy(), expected)
        np.testing.assert_array_equal((found + 0.5).numpy(), expected + 0.5)


def test_parts_of_memory_are_not_looked_up() -> None:
    x = lt.tensor(DATA)
    known = len(lookup._known)
    rows = [part for i in range(3) for part in (x[i], x[i:i + 1], x[i, 1], x[i][2])]
    assert len(lookup._known) == known and all(type(row._value) is Cut for row in rows)


def test_what_is_written_to_a_part_or_the_whole_is_seen_by_both() -> None:
    x, expected = lt.tensor(DATA), DATA.copy()
    for step in range(8):
        row, own = x[step % 3], expected[step % 3]
        if step % 2:
            row += step
            own += step
        else:
            x *= 0.5
            expected *= 0.5
        np.testing.assert_array_equal(row.numpy(), own)
        np.testing.assert_array_equal(x[:, 1].numpy(), expected[:, 1])
        np.testing.assert_array_equal((x * 2).numpy(), expected * 2)


def test_gradients_flow_through_parts_of_what_requires_them_alone() -> None:
    for _ in range(3):
        w, x = lt.tensor(DATA, requires_grad=True), lt.tensor(DATA)
        (w[1] * x[2, :]).sum().backward()
        assert w.grad is not None and x.grad is None
        np.testing.assert_array_equal(w.grad.numpy(), [[0] * 4, DATA[2], [0] * 4])
        with lt.no_grad():
            assert not w[1].requires_grad
        row = x[0]
        x.requires_grad_()
        assert row.requires_grad
        (row * 3).sum().backward()
        assert x.grad is not None and x.grad[0].tolist() == [3] * 4


def test_a_part_that_begins_elsewhere_in_each_step_is_what_is_there() -> None:
    x, y = lt.tensor(DATA), lt.tensor(DATA[:, 0])
    for step in range(24):
        if step == 16:
            x, y = lt.tensor(-DATA), lt.tensor(-DATA[:, 0])
        i, j = step % 3, (step // 3 + step) % 3
        values = -DATA if step >= 16 else DATA
        assert (x[i] * x[j]).sum().item() == (values[i] * values[j]).sum()
        expected = values[i, :1] + values[j:j + 1, 1:]
        assert (y[i:i + 1] + x[j:j + 1, 1:]).tolist() == expected.tolist()
