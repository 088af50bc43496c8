"""Threads that record, and that read and write what others have recorded."""
from __future__ import annotations

import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest
from changing_programs import Values, anew

import lazyten as lt
from lazyten.execution import frame_runs
from lazyten.storage.frames import Frame


def test_what_was_recorded_in_one_thread_is_read_in_another() -> None:
    x = lt.tensor([1.0, 2.0]).realize()
    results: list[Any] = []
    for _ in range(3):
        y = x * 3 + 1

        def read(given: lt.Tensor = y) -> None:
            results.append((given * 2).tolist())

        thread = threading.Thread(target=read)
        thread.start()
        thread.join()
        assert y.tolist() == [4, 7]
    assert results == [[8, 14]] * 3


def test_a_value_that_another_thread_computes_while_a_program_is_made(
        monkeypatch: pytest.MonkeyPatch) -> None:
    x = lt.tensor([1.0, 2.0]).realize()
    values: list[lt.Tensor] = []

    def look_at_one() -> list[float]:
        values[:] = x * 3, x * 5
        found: list[float] = (values[0] * 7 + values[1]).tolist()
        return found

    def make_later(*given: Any) -> frame_runs.Program:
        seen: list[Any] = []
        thread = threading.Thread(target=lambda: seen.append(values[0].tolist()))
        thread.start()
        thread.join()
        assert seen == [[3, 6]]
        calls.append(make(*given))
        return calls[-1]
    make = frame_runs._made
    calls: list[frame_runs.Program] = []
    for _ in range(3):
        assert look_at_one() == [26, 52]
    frame_runs.forget()
    with monkeypatch.context() as patched:
        patched.setattr(frame_runs, "_made", make_later)
        assert look_at_one() == [26, 52]
    assert len(calls) == 1
    for _ in range(3):
        assert look_at_one() == [26, 52]
        assert values[0].tolist() == [3, 6] and values[1].tolist() == [5, 10]


def test_threads_train_side_by_side() -> None:
    found: dict[int, Values] = {}

    def run_one(number: int) -> None:
        rng = np.random.default_rng(number)
        w = lt.tensor(rng.normal(size=(4, 4)), requires_grad=True)
        optimizer = lt.optim.SGD([w], lr=0.1)
        losses = found[number] = []
        for _ in range(12):
            optimizer.zero_grad()
            loss = ((lt.tensor(rng.normal(size=(3, 4))) @ w) ** 2).mean()
            loss.backward()
            optimizer.step()
            losses.append(loss.item())

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(run_one, range(4)))
    together = dict(found)
    with anew():
        for n in range(4):
            run_one(n)
    for n in range(4):
        assert together[n] == pytest.approx(found[n], rel=1e-9)


def test_threads_that_do_the_same_with_values_of_their_own_have_memory_of_their_own() -> None:
    wrong: list[int] = []

    def run_one(number: int) -> None:
        x = lt.full((40_000,), float(number)).contiguous().realize()
        for _ in range(200):
            y = (x * 2 + 1).sum()
            if y.item() != 40_000 * (2 * number + 1):
                wrong.append(number)

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(run_one, range(4)))
    assert wrong == []



@contextmanager
def changing_often() -> Iterator[None]:
    """Python goes from thread to thread as often as it can."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        yield
    finally:
        sys.setswitchinterval(before)


def test_a_write_while_another_thread_asks_for_the_value_is_not_lost(
        monkeypatch: pytest.MonkeyPatch) -> None:
    count = lt.zeros(3).contiguous().realize()
    real, has_begun = Frame.real, threading.Event()

    def slow(frame: Frame, template: Any) -> Any:
        has_begun.set()
        time.sleep(0.1)
        return real(frame, template)

    count += 1
    monkeypatch.setattr(Frame, "real", slow)
    with ThreadPoolExecutor(1) as pool:
        read = pool.submit(lambda: (count * 1).tolist())
        has_begun.wait()
        count += 1
    assert read.result() in ([1] * 3, [2] * 3)
    assert count.tolist() == [2] * 3


def test_writes_are_not_lost_however_often_threads_take_turns() -> None:
    counts, is_over = [lt.zeros(3, dtype=lt.int64) for _ in range(2)], threading.Event()

    def write(count: lt.Tensor) -> None:
        for _ in range(300):
            count += 1

    def look() -> None:
        while not is_over.is_set():
            for count in counts:
                (count + 1).sum().item()

    with changing_often(), ThreadPoolExecutor(3) as pool:
        looking = pool.submit(look)
        try:
            list(pool.map(write, counts))
        finally:
            is_over.set()
        looking.result()
    assert [c.tolist() for c in counts] == [[300] * 3] * 2


def test_threads_that_read_the_same_tensors_number_them_on_their_own() -> None:
    stored = [lt.full((3,), float(n)).contiguous().realize() for n in range(1, 4)]
    tensors = [*stored, stored[0] * 3 + stored[1], stored[2] - stored[1]]
    values = [1.0, 2.0, 3.0, 5.0, 1.0]

    def read(number: int) -> None:
        rng, own, mine = np.random.default_rng(number), lt.full((3,), float(number)), float(number)
        for _ in range(40):
            i, j = rng.integers(0, len(tensors), 2)
            assert (own * tensors[i] + tensors[j]).tolist() == [mine * values[i] + values[j]] * 3
            own += tensors[j]
            mine += values[j]
            assert (tensors[i] * 2 + tensors[j]).sum().item() == 3 * (2 * values[i] + values[j])

    with changing_often(), ThreadPoolExecutor(4) as pool:
        list(pool.map(read, range(4)))
    assert [x.tolist() for x in tensors] == [[v] * 3 for v in values]
