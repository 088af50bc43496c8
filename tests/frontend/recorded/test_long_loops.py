"""Loops so long that they are computed piece by piece, though nobody looks."""
from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import lazyten as lt
from lazyten.execution import frame_runs, segment
from lazyten.frontend.recorded import lookup
from lazyten.storage import frames
from lazyten.storage.frames import here


@pytest.fixture
def recorded(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """The names of operations that were recorded, as they were not known."""
    lookup.forget()
    names: list[str] = []
    record = lookup.record
    monkeypatch.setattr(lookup, "record",
                        lambda *args: names.append(args[1].__name__) or record(*args))
    yield names
    lookup.forget()


@pytest.mark.usefixtures("interpreting_as_users_do")
def test_pieces_of_a_loop_are_alike(recorded: list[str]) -> None:
    x, lengths = lt.ones(3).realize() * 1, []
    expected = np.ones(3)
    for _ in range(800):
        x, expected = _thirteen_operations(x), _thirteen_operations(expected)
        frame = here.current()
        lengths.append(0 if frame is None else frame.recorded)
    np.testing.assert_allclose(x.numpy(), expected, rtol=1e-5)
    assert len(recorded) < 4 * frames.lengths.usual  # and not thirteen times
    assert max(lengths) <= 2 * frames.lengths.usual + 13


def _thirteen_operations(x: Any) -> Any:
    return ((((((x * .5 + 1) * .5 + 2) * .5 + 3) * .5 + 4) * .5 + 5) * .5 + 6) * .5


@pytest.mark.usefixtures("interpreting_as_users_do")
def test_a_loop_is_known_though_what_ends_it_is_much_work(
        recorded: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lookup, "FRESH", frames.lengths.usual)
    lookup.forget()
    steps = [lt.tensor([step / 4, 1.0]).realize() for step in range(frame_runs.SHORTEST * 2 // 3)]
    for time in range(3):
        x, found = lt.zeros(2), []
        for step in steps:
            x = x + step
            found.append(x)
        assert lt.stack(found)[-1].tolist() == [sum(range(len(steps))) / 4, len(steps)]
        assert time == 0 or not recorded
        recorded.clear()


@pytest.mark.usefixtures("interpreting_as_users_do", "recorded")
def test_what_is_left_of_a_loop_at_a_look_is_computed_as_its_pieces_are(
        monkeypatch: pytest.MonkeyPatch) -> None:
    """It is as long as a piece, and takes as long to compile; a look begins anew."""
    planned: list[int] = []
    plan = segment.plan_of
    monkeypatch.setattr(segment, "plan_of",
                        lambda device, graph: planned.append(0) or plan(device, graph))
    for _ in range(3):
        x = lt.zeros(4)
        for number in range(2 * frames.lengths.usual):
            x = x * 0.5 + number
        assert x[0].item() == pytest.approx(2 * number, abs=4)
        assert not planned
    (x * 2).sum().item()
    assert planned
