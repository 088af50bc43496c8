"""Garbage is collected after a graph is planned, and as usual before and after that."""
from __future__ import annotations

import gc
import os
import threading
from collections.abc import Callable

import numpy as np
import pytest
from graphs import compute, leaf

import lazyten as lt
from lazyten.execution import frame_runs
from lazyten.execution.plans import making, varying
from lazyten.ir.node import const, elementwise
from lazyten.ir.ops import Op
from lazyten.support.collecting import collecting_later


@pytest.fixture(autouse=True, params=[True, False], ids=["collecting", "not collecting"])
def usual(request: pytest.FixtureRequest) -> bool:
    was = gc.isenabled()
    (gc.enable if request.param else gc.disable)()
    yield request.param
    (gc.enable if was else gc.disable)()


def eager() -> float:
    return (lt.arange(7, device="cpu").float().realize() * 3 + 17.25)[1].item()


def jitted() -> float:
    return lt.jit(lambda x: x * 3 + 17.25)(lt.arange(7, device="cpu").float())[1].item()


def alone() -> float:
    """Without a frame that knows it."""
    x = leaf(np.arange(7, dtype=np.float32), lt.float32, "cpu")
    return float(compute(elementwise(Op.ADD, x, const(19.25, x.dtype, x.shape)), "cpu")[1])


@pytest.mark.parametrize("run", [eager, jitted, alone])
def test_nothing_is_collected_while_a_graph_is_planned(
        monkeypatch: pytest.MonkeyPatch, usual: bool, run: Callable[[], float]) -> None:
    seen = []
    scheduled = varying.scheduled

    def look(*given: object) -> object:
        seen.append(gc.isenabled())
        return scheduled(*given)  # type: ignore[arg-type]
    monkeypatch.setattr(varying, "scheduled", look)
    making._plans.clear()
    frame_runs.forget()
    assert run() == 20.25
    assert seen and not any(seen)
    assert gc.isenabled() is usual


def test_it_is_as_usual_after_an_error_and_after_the_last_block(usual: bool) -> None:
    with pytest.raises(ZeroDivisionError), collecting_later():
        with collecting_later():
            assert not gc.isenabled()
        assert not gc.isenabled()
        _ = 1 / 0
    assert gc.isenabled() is usual


def test_threads_have_it_as_usual_when_the_last_is_done(usual: bool) -> None:
    entered, leave = threading.Event(), threading.Event()

    def stay() -> None:
        with collecting_later():
            entered.set()
            leave.wait(10)
    other = threading.Thread(target=stay)
    other.start()
    entered.wait(10)
    with collecting_later():
        pass
    assert not gc.isenabled()
    leave.set()
    other.join()
    assert gc.isenabled() is usual


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
def test_a_child_that_another_thread_forks_collects_as_usual(usual: bool) -> None:
    entered = threading.Event()

    def stay() -> None:
        with collecting_later():
            entered.set()
            threading.Event().wait(0.2)
    other = threading.Thread(target=stay)
    other.start()
    entered.wait(10)
    child = os.fork()
    if child == 0:
        os._exit(int(gc.isenabled() is not usual))
    assert os.waitpid(child, 0)[1] == 0
    other.join()
