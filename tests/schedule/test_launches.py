"""Which kernels are launched together, that each runs after what it needs, and their values."""
from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import lazyten as lt
from lazyten import optim
from lazyten.schedule.launches import MOST_TOGETHER, STRETCH, Work, launches


def small(writes: int, *reads: int) -> Work:
    return Work((writes,), reads, 100, 1000.0)


def large(writes: int, *reads: int) -> Work:
    return Work((writes,), reads, 1_000_000, 1e7)


# ---- which are launched together -----------------------------------------------------------------

def test_small_kernels_that_need_nothing_of_each_other_are_one_launch() -> None:
    assert launches([small(1, 0), small(2, 0), small(3)]) == [[0, 1, 2]]


def test_a_kernel_waits_for_what_it_needs() -> None:
    assert launches([small(1), small(2, 1), small(3, 2)]) == [[0], [1], [2]]
    assert launches([small(1), small(2, 1), small(3), small(4, 3)]) == [[0, 2], [1, 3]]


def test_what_stands_between_two_kernels_keeps_them_apart() -> None:
    assert launches([small(1), large(2, 1), small(3, 2)]) == [[0], [1], [2]]
    assert launches([small(1), large(2, 1), small(3)]) == [[0, 2], [1]]


def test_large_kernels_are_launched_alone() -> None:
    assert launches([large(1), large(2), small(3)]) == [[0], [1], [2]]
    assert launches([Work((1,), (), 10, 1e9), Work((2,), (), 10, 1e9)]) == [[0], [1]]


def test_a_launch_holds_so_many_kernels_and_no_more() -> None:
    found = launches([small(n) for n in range(MOST_TOGETHER + 3)])
    assert list(map(len, found)) == [MOST_TOGETHER, 3]


@st.composite
def graphs(draw: st.DrawFn) -> list[Work]:
    """Kernels that each read some arrays of those before, and arrays that were given."""
    work: list[Work] = []
    for number in range(draw(st.integers(1, 40))):
        reads = draw(st.lists(st.integers(-3, number - 1), max_size=3))
        work.append((small if draw(st.integers(0, 3)) else large)(number, *reads))
    return work


def check(work: list[Work], found: list[list[int]]) -> None:
    assert sorted(n for launch in found for n in launch) == list(range(len(work)))
    done: set[int] = set()
    for launch in found:
        assert len(launch) == 1 or all(work[n].saving for n in launch)
        for n in launch:
            assert {a for a in work[n].reads if a >= 0} <= done, "what it reads has been written"
        done |= set(launch)


@given(graphs())
def test_every_kernel_runs_once_and_after_what_it_reads(work: list[Work]) -> None:
    check(work, launches(work))


def test_long_programs_are_taken_in_stretches() -> None:
    work = [small(n, n - 1 if n % 3 else -1) for n in range(3 * STRETCH + 7)]
    check(work, launches(work))


# ---- in a program --------------------------------------------------------------------------------

def updated(step: Callable[[list[lt.Tensor]], Any], device: str) -> tuple[Any, list[Any]]:
    """What two steps launch that update 30 parameters of 13 shapes, and what becomes of them."""
    rng = np.random.default_rng(0)
    parameters = [lt.tensor(rng.normal(size=(n % 5 + 1, n % 13 + 1)).astype(np.float32),
                            device=device).requires_grad_() for n in range(30)]
    optimizer = step(parameters)
    for _ in range(2):
        for p in parameters:
            p.grad = lt.tensor(rng.normal(size=p.shape).astype(np.float32), device=device)
        with lt.testing.watch_kernels() as kernels:
            optimizer.step()
    return kernels, [p.detach().numpy() for p in parameters]


@pytest.mark.few(2)
@pytest.mark.parametrize("make", [
    lambda p: optim.SGD(p, lr=0.1), lambda p: optim.SGD(p, lr=0.1, momentum=0.9),
    lambda p: optim.Adam(p), lambda p: optim.AdamW(p)])
def test_an_optimizer_updates_all_parameters_in_one_launch(
        make: Callable[[list[lt.Tensor]], Any]) -> None:
    kernels, here = updated(make, "cpu")
    assert (len(kernels), kernels.launches) == (30, 1)
    _, there = updated(make, "interpreter")
    for a, b in zip(here, there, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-6, atol=1e-7)


def test_explain_says_what_is_launched_together() -> None:
    x, y = lt.rand(4, 5).realize(), lt.rand(7).realize()
    text = lt.explain(x + 1, y * 2)
    assert "one launch for the last 2 kernels, which need nothing of each other, spares 1" in text
    assert text.splitlines()[-1].startswith("2 kernels in 1 launch;")


def test_debug_prints_a_row_for_each_launch(monkeypatch: pytest.MonkeyPatch,
                                            capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("DEBUG", "2")
    x, y = lt.rand(4, 5, device="cpu"), lt.rand(7, device="cpu")
    lt.realize(x, y)
    capsys.readouterr()
    lt.realize(x + 1, y * 2)
    printed = capsys.readouterr().out
    assert "2 kernels in 1 launch" in printed
    rows = [line for line in printed.splitlines() if line.startswith("map_4_5 and 1 more ")]
    assert len(rows) == 1 and "float32[4, 5], float32[7]" in rows[0]
    rows_of_equal = lt.rand(3, 4, 2, device="cpu").realize()
    capsys.readouterr()
    lt.realize(*(rows_of_equal[:, t].exp() for t in range(4)))
    assert "4 x map_3_2 " in capsys.readouterr().out
