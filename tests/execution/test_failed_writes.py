"""What is written in place by means of an index that is outside is as it was, once that is said."""
from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any

import numpy as np
import pytest

import lazyten as lt
from lazyten import nn

ROWS = [2, 3, 2, 0, 2, 3, 2, 1, 4]


class Net(nn.Module):
    """A table whose rows are normalized by running statistics."""

    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Embedding(5, 3)
        self.norm = nn.BatchNorm1d(3)
        self.mean = nn.Buffer(lt.zeros(3))
        self.other = nn.Parameter(lt.arange(3.0))

    def forward(self, row: int) -> lt.Tensor:
        rows = self.table(lt.tensor([row, 1]))
        with lt.no_grad():
            self.mean.mul_(0.5).add_(rows.mean(0), alpha=0.5)
        result: lt.Tensor = (self.norm(rows * self.other) - self.mean).square().sum()
        return result


def subtract(net: Net) -> None:
    with lt.no_grad():
        for p in net.parameters():
            p -= 0.1 * p.grad


def by_data(net: Net) -> None:
    for p in net.parameters():
        assert p.grad is not None
        p.data.add_(p.grad, alpha=-0.1)


def averaged(net: Net) -> None:
    subtract(net)
    with lt.no_grad():
        net.other.lerp_(net.table.weight[0], 0.25).clamp_(-1, 1)


def trained(update: Callable[[Net], None], rows: list[int], looks_late: bool) -> list[Any]:
    """All of a net after steps, one for each row; those outside are skipped."""
    lt.manual_seed(0)
    net = Net()
    for row in rows:
        net.zero_grad()
        with suppress(lt.IndexingError):
            loss = net(row)
            loss.backward()
            if not looks_late:
                loss.item()
            update(net)
            loss.item()
            assert row != 7
    del net.norm.num_batches_tracked  # depends on no index
    return [x.detach().numpy() for x in net.state_dict().values()]


@pytest.mark.few(6)
@pytest.mark.parametrize("looks_late", [False, True])
@pytest.mark.parametrize("at", [0, 1, 2, 7])
@pytest.mark.parametrize("update", [subtract, by_data, averaged])
def test_training_goes_on_after_an_index_outside(update: Callable[[Net], None], at: int,
                                                 looks_late: bool) -> None:
    found = trained(update, [*ROWS[:at], 7, 7, *ROWS[at:], 7], looks_late)
    for a, b in zip(found, trained(update, ROWS, looks_late), strict=True):
        np.testing.assert_array_equal(a, b)


def test_what_was_written_by_other_means_stays(device: str) -> None:
    a, b, c = (lt.full((3,), v, device=device).contiguous().realize() for v in (1.0, 2.0, 3.0))
    index = lt.tensor([1, 7], device=device).realize()
    a.add_(c[index].sum())
    b.add_(c.sum())
    with pytest.raises(lt.IndexingError, match="index 7 is outside axis 0"):
        a.tolist()
    assert a.tolist() == [1, 1, 1]
    assert b.tolist() == [11, 11, 11]


def test_a_result_of_what_failed_is_an_error_each_time(device: str) -> None:
    a = lt.ones(3, device=device).contiguous().realize()
    index = lt.tensor([1, 7], device=device).realize()
    a.add_(a[index].sum())
    later = a * 2
    for _ in range(2):
        with pytest.raises(lt.IndexingError, match="index 7 is outside axis 0"):
            later.tolist()
    assert a.tolist() == [1, 1, 1]


def test_what_is_written_after_the_error_is_written() -> None:
    a = lt.ones(3).contiguous().realize()
    for _ in range(4):
        a.add_(a[lt.tensor([1, 7])].sum())
        with pytest.raises(lt.IndexingError):
            a.tolist()
        a.mul_(2).realize()
    assert a.tolist() == [16, 16, 16]


def test_memory_that_others_have_by_now_is_not_given_back() -> None:
    doubled = lt.jit(lambda x: x * 2)
    x = lt.tensor([1.0, 2.0, 3.0]).realize()
    doubled(x), doubled(x)
    a = doubled(x)
    a.copy_(x[lt.tensor([1, 7])].sum().expand(3))  # nothing needs what it had
    kept = [doubled(x + number) for number in range(1, 4)]
    for _ in range(2):
        with pytest.raises(lt.IndexingError):
            a.tolist()
    assert [k.tolist() for k in kept] == [[4, 6, 8], [6, 8, 10], [8, 10, 12]]


def test_what_a_jitted_function_has_written_is_the_value_before(device: str) -> None:
    a = lt.ones(3, device=device).contiguous().realize()
    index = lt.tensor([1, 7], device=device).realize()
    add = lt.jit(lambda x: x.add_(1))
    for number in range(1, 6):
        a.add_(a[index].sum())  # noted before the call, which computes it
        with pytest.raises(lt.IndexingError):
            a.tolist()
        add(a)
        a.mul_(a[index].sum())
        with pytest.raises(lt.IndexingError):
            a.tolist()
        assert a.tolist() == [1 + number] * 3
