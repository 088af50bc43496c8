"""Elements at a column of each row: rows are counted by a range, an array or a list, and the step
that reads them stays one that is known."""
from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import lazyten as lt
from lazyten.storage.frames import Frame

ROWS: dict[str, Callable[[int], Any]] = {
    "range": range, "range backwards": lambda n: range(n - 1, -1, -1), "array": np.arange,
    "list": lambda n: [*range(n)]}


@pytest.mark.parametrize("name", ROWS)
def test_a_step_that_reads_and_writes_a_column_a_row_is_known(
        name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    net, rng, real = lt.nn.Linear(3, 4), np.random.default_rng(5), list[Any]()
    make_real = Frame._make_real
    monkeypatch.setattr(Frame, "_make_real",
                        lambda frame, made: (real.append(made), make_real(frame, made)))
    for _ in range(4):
        real.clear()
        x, columns = rng.normal(size=(6, 3)).astype(np.float32), rng.integers(0, 4, 6)
        rows = ROWS[name](6)
        net.zero_grad()
        made = net(lt.tensor(x))
        made[rows, lt.tensor(columns)].sum().backward()
        left = made.detach().clone()
        left[rows, lt.tensor(columns)] = 0
        expected = np.zeros((4, 3), np.float32)
        np.add.at(expected, columns, x[[*rows]])
        assert net.weight.grad is not None
        np.testing.assert_allclose(net.weight.grad.numpy(), expected, rtol=1e-5, atol=1e-6)
        found = left.numpy()
        assert (found[[*rows], columns] == 0).all() and np.count_nonzero(found) == 18
    assert not real, "nothing of the step is recorded over real memory"


def test_an_index_of_a_range_that_is_not_inside_is_an_error() -> None:
    for index in (range(5), range(-4, 0), (range(2), range(3, 6))):
        with pytest.raises(lt.LazytenError):
            lt.ones(3, 4)[index]
