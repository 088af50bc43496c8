"""A look at one value of a frame, by a program that is known, is the same as any other look."""
from __future__ import annotations

from collections.abc import Callable
from threading import Thread
from typing import Any

import numpy as np
import pytest

import lazyten as lt
from lazyten.execution import realization
from lazyten.support import observers
from lazyten.support.location import user_place
from lazyten.support.observers import OnRun

OFTEN = 8
"""So many times a program is run until it is known to only read."""


def _given(seed: int) -> tuple[lt.Tensor, lt.Tensor, Any, Any]:
    drawn = np.random.default_rng(seed)
    a, b = (drawn.integers(-8, 8, (3, 4)).astype(np.float32) for _ in range(2))
    return lt.tensor(a), lt.tensor(b), a, b


def _alone(x: Any, y: Any) -> list[float]:
    return [(x + y).sum().item()]


def _others_alive(x: Any, y: Any) -> list[float]:
    z = x + y
    half = z / 2
    return [z.sum().item(), half.max().item(), z.min().item()]


def _others_written(x: Any, y: Any) -> list[float]:
    z = x * 2
    z += y
    first = (x - y).sum().item()
    z *= 2
    return [first, z.sum().item(), z.max().item()]


def _views(x: Any, y: Any) -> list[float]:
    z = x * y
    return [float(z[1][2]), float((z[1] + 1).sum()), float(z.T[2].max())]


def _again(x: Any, y: Any) -> list[float]:
    z = (x + y).sum()
    return [float(z), float(z), float(z + 1)]


COURSES: dict[str, Callable[[Any, Any], list[float]]] = {
    "alone": _alone, "others alive": _others_alive, "others written": _others_written,
    "views": _views, "again": _again}


@pytest.mark.parametrize("name", COURSES)
def test_looks_give_what_numpy_gives(name: str) -> None:
    course, kept = COURSES[name], []
    for seed in range(OFTEN):
        x, y, a, b = _given(seed)
        kept += [x, y]
        assert course(x, y) == [float(v) for v in course(_Array(a), _Array(b))]
    if name == "alone":
        return
    for seed in range(3):  # of other courses between
        x, y, a, b = _given(seed)
        assert _alone(x, y) == [float((a + b).sum())]
        assert course(x, y) == [float(v) for v in course(_Array(a), _Array(b))]


class _Array(np.ndarray[Any, Any]):
    """An array, which is made of another."""

    def __new__(cls, values: Any) -> _Array:
        return values.copy().view(cls)  # type: ignore[no-any-return]


def _refuse(*_: Any, **__: Any) -> None:
    raise AssertionError("the look is not known")


@pytest.mark.parametrize("keeps", [False, True], ids=["alone", "others alive"])
def test_a_known_look_takes_one_way(keeps: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    x, y, a, b = _given(0)
    kept: list[lt.Tensor] = []

    def total() -> lt.Tensor:
        z = x + y
        kept[:] = [z] * keeps
        return z.sum()
    for _ in range(OFTEN):
        total().item()
    found = total()
    monkeypatch.setattr(realization, "realize", _refuse)
    assert found.item() == (a + b).sum()
    assert found.item() == (a + b).sum()


def test_what_is_due_with_a_known_look_is_computed_by_it(monkeypatch: pytest.MonkeyPatch) -> None:
    x, y, a, b = _given(0)
    sums = lt.zeros(3, 4)

    def total() -> lt.Tensor:
        nonlocal sums
        z = x + y
        sums += z
        return z.sum()
    for _ in range(OFTEN):
        total().item()
    found = total()
    monkeypatch.setattr(realization, "realize", _refuse)
    assert found.item() == (a + b).sum()
    assert sums._storage._frame is None and sums._storage.buffer is not None
    monkeypatch.undo()
    assert sums.tolist() == ((OFTEN + 1) * (a + b)).tolist()


def test_who_looks_on_is_told_of_a_known_look() -> None:
    x, y, *_ = _given(0)
    for _ in range(OFTEN):
        _alone(x, y)
    seen = list[str]()
    with observers.told(OnRun(lambda device, plan: seen.append(device))):
        _alone(x, y)
    assert seen == ["cpu"]


def test_a_known_look_is_checked_where_that_is_asked_for() -> None:
    x, zero = lt.tensor([1.0, 2.0]).realize(), lt.zeros(2).realize()

    def quotient() -> Any:
        return (x / zero).sum().item()
    for _ in range(OFTEN):
        quotient()
    with lt.check("inf"), pytest.raises(lt.CheckError):
        quotient()
    assert quotient() == np.inf


def test_what_was_recorded_before_a_known_look_reads_what_that_has_computed() -> None:
    x, y, a, b = _given(0)
    for _ in range(OFTEN):
        total = (x + y).sum()
        template, more = total._storage._template, total * 2
        frame = more._storage._frame
        total.item()
        assert frame is not None and template in frame.realized
        assert more.item() == 2 * (a + b).sum()


def test_a_value_with_a_graph_is_looked_at_and_differentiated() -> None:
    w = lt.tensor([1.0, 2.0]).requires_grad_()
    for n in range(OFTEN):
        loss = (w * w * (n + 1)).sum()
        assert loss.item() == 5 * (n + 1)
        w.grad = None
        loss.backward()
        assert w.grad is not None and w.grad.tolist() == [2 * (n + 1), 4 * (n + 1)]
        assert loss.item() == 5 * (n + 1)


def test_another_thread_looks_at_what_this_one_has_recorded() -> None:
    x, y, a, b = _given(0)
    found = list[Any]()
    for _ in range(OFTEN):
        total = (x + y).sum()
        thread = Thread(target=lambda t=total: found.append(t.item()))  # type: ignore[misc]
        thread.start()
        thread.join()
        (x + y).sum().item()
    assert found == [(a + b).sum()] * OFTEN


def test_results_that_are_kept_stay_what_they_were() -> None:
    kept = []
    for seed in range(OFTEN):
        x, y, a, b = _given(seed)
        z = (x - y).realize()
        kept.append((z, a - b))
    for z, expected in kept:
        np.testing.assert_array_equal(z.numpy(), expected)


def test_a_place_is_one_object_and_is_not_compared_by_its_code() -> None:
    places = [user_place() for _ in range(2)]
    assert places[0] is places[1]
    assert hash(places[0]) == object.__hash__(places[0])
    assert user_place() is not places[0]
