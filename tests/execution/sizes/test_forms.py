"""Forms of schedules: by formulas they are what the scheduler makes, or there is none."""
from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace

import numpy as np
import pytest
from changing_programs import anew

import lazyten as lt
from lazyten.execution.plans.graph import Graph
from lazyten.execution.sizes import planned
from lazyten.execution.sizes.forms import Forms
from lazyten.execution.sizes.planned import Sizes
from lazyten.ir.numbers import numbers_of
from lazyten.schedule.draft import Limits
from lazyten.schedule.schedule import Schedule

Function = Callable[[int], lt.Tensor]
ALIGNED = 64
SEEN = (31, 63, 82, 95, 129)
"""Sizes between which any is known: two that differ by one, and the ends."""


class Known:
    """Forms of a function's graph that has been seen at some sizes."""

    def __init__(self, function: Function, sizes: Iterable[int] = SEEN) -> None:
        self.function, self.forms = function, Forms()
        for n in sizes:
            assert self.made(n) is not None

    def made(self, n: int) -> Schedule | None:
        graph, limits = self._graph(n)
        roots = graph.normalized()
        return self.forms.schedule((n,), numbers_of(roots)[1], roots, graph.inputs, limits)

    def predicted(self, n: int) -> Schedule | None:
        graph, limits = self._graph(n)
        return self.forms.predicted((n,), numbers_of(graph.normalized())[1], limits.alignment)

    def _graph(self, n: int) -> tuple[Graph, Limits]:
        with anew():
            x = self.function(n)
        return Graph([x._storage.value], x.device), Limits(True, 0, 0, ALIGNED)


def zeros(*shape: int) -> lt.Tensor:
    return lt.tensor(np.zeros(shape), dtype=lt.float32)


def of(made: Schedule, part: str) -> object:
    """A part of a schedule, but for the lines that kernels belong to: those of nodes that may have
    been there before, equal ones, from anywhere."""
    if part != "steps":
        return getattr(made, part)
    return [replace(s, kernel=replace(s.kernel, where=None)) for s in made.steps]


def in_kernels(n: int) -> lt.Tensor:
    x = zeros(n, 5)
    y = (x @ x.T).softmax(1)
    return (y @ x * 0.25 + y.sum() / n).amax(1)


def test_a_schedule_by_formulas_is_the_schedulers() -> None:
    known = Known(in_kernels)
    for n in (33, 48, 70, 96, 127):
        found, made = known.predicted(n), known.made(n)
        assert found is not None and made is not None and len(made.steps) > 2
        for part in ("arrays", "inputs", "steps", "outputs", "aliases", "blocks", "launches"):
            assert of(found, part) == of(made, part), (n, part)


def over_time(n: int) -> lt.Tensor:
    """Two directions and two layers; rows of 3 elements begin at addresses of all kinds."""
    lt.manual_seed(0)
    lstm, last = lt.nn.LSTM(3, 5, 2, bidirectional=True), lt.nn.GRU(10, 4)
    return last(lstm(zeros(n, 2, 3))[0] * 2)[0].sum(0)


def test_rounds_of_a_scan_are_as_many_as_its_steps() -> None:
    """A form has one of them, whatever the size."""
    known = Known(over_time)
    assert len(known.forms._forms) == 1
    for n in (33, 48, 70, 128):
        found, made = known.predicted(n), known.made(n)
        assert found is not None and made is not None and len(made.repeats) == 5
        for part in ("arrays", "inputs", "outputs", "aliases", "blocks", "launches"):
            assert getattr(found, part) == getattr(made, part), (n, part)
        for one, other in zip(found.steps, made.steps, strict=True):
            assert (one.args, one.offsets) == (other.args, other.offsets)
            assert one.kernel.outputs == other.kernel.outputs
            assert one.kernel.inputs == other.kernel.inputs
            assert one.kernel.unaligned == other.kernel.unaligned
    assert len(known.forms._forms) == 1


def test_there_is_none_of_a_scan_of_two_steps() -> None:
    """One round says nothing of how offsets grow."""
    known = Known(over_time, (2,))
    assert not known.forms._forms


def test_values_that_only_their_kernel_reads_hide_no_form() -> None:
    """A sum that was to be stored for two values, which one kernel computes."""
    def function(n: int) -> lt.Tensor:
        y = zeros(n, 20) @ lt.ones(20, 20)
        return y.exp() @ y.sin().T
    known = Known(function)
    [choices] = known.forms._choices
    assert len(choices.same) > sum(map(len, choices.groups))
    assert known.predicted(48) is not None


@pytest.mark.parametrize("n", [30, 130, 500])
def test_there_is_none_at_sizes_that_are_not_between_those_seen(n: int) -> None:
    assert Known(in_kernels).predicted(n) is None


def test_there_is_none_for_a_float_of_another_kind() -> None:
    factors = dict(zip((*SEEN, 40, 41, 42, 43), (0.3, 0.7, 0.6, 0.9, 0.1, 0.8, 0.25, 3.0, -0.8),
                       strict=True))
    known = Known(lambda n: zeros(n, 5) * factors[n])
    assert [known.predicted(n) is not None for n in (40, 41, 42, 43)] == [True, *[False] * 3]


def test_there_is_none_where_an_input_begins_at_an_address_of_another_kind() -> None:
    x = zeros(400)
    known = Known(lambda n: x[n:n + n].exp())
    steps = [known.made(n).steps[0] for n in (33, 48)]  # type: ignore[union-attr]
    assert [step.offsets[1] % ALIGNED != 0 for step in steps] == [True, False]
    known = Known(lambda n: x[n:n + n].exp())
    assert known.predicted(33) is not None and known.predicted(48) is None


def test_forms_are_those_of_a_device_a_region_and_a_graph() -> None:
    sizes, skeletons = Sizes(), [numbers_of([zeros(3)[:2].node])[0], numbers_of([zeros(3).node])[0]]
    found = [sizes.forms(device, region, skeleton) for device in ("cpu", "interpreter")
             for region in (((8, 32),), ((33, 128),)) for skeleton in skeletons]
    assert len({*map(id, found)}) == 8
    assert sizes.forms("cpu", ((8, 32),), skeletons[0]) is found[0]


def test_what_is_planned_within_another_is_over_when_its_block_is() -> None:
    first, second = Sizes(), Sizes()
    assert planned.current() is None
    with first.planning((3,), "a"):
        with pytest.raises(ZeroDivisionError), second.planning((4,), "b"):
            now = planned.current()
            assert now is not None and now.of is second and now.at.sizes == (4,)
            raise ZeroDivisionError
        now = planned.current()
        assert now is not None and now.of is first and now.at.sizes == (3,)
    assert planned.current() is None
