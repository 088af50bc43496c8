"""Schedules by what was chosen for a graph of other sizes."""
from __future__ import annotations

from lazyten.ir import dtype as dt
from lazyten.ir.kernel import Slot
from lazyten.ir.node import Node, elementwise, make, reduce, reshape
from lazyten.ir.ops import Op
from lazyten.schedule.draft import Limits
from lazyten.schedule.schedule import choose, schedule, schedule_by

F32 = dt.float32
LIMITS = Limits(True, 0, 0, 1)


def graph(rows: int) -> list[Node]:
    """The squares of sums of rows, and the largest of each column."""
    x = reshape(make(Op.BUFFER, F32, (), Slot(0, rows * 5)), (rows, 5))
    total = reduce(x, Op.ADD, (1,))
    return [elementwise(Op.MUL, total, total), reduce(x, Op.MAX, (0,))]


def test_another_size_is_scheduled_as_the_first() -> None:
    choices = choose(graph(100), [(F32, 500)], LIMITS)
    made = schedule_by(choices, graph(30), [(F32, 150)], LIMITS)
    own = schedule(graph(30), [(F32, 150)], *LIMITS)
    assert made is not None and made.arrays == own.arrays
    assert {s.kernel.outputs for s in made.steps} == {s.kernel.outputs for s in own.steps}


def test_a_graph_that_is_not_like_the_first_has_no_schedule() -> None:
    choices = choose(graph(100), [(F32, 500)], LIMITS)
    other = [elementwise(Op.SQRT, graph(30)[0])]
    assert schedule_by(choices, other, [(F32, 150)], LIMITS) is None
    assert schedule_by((), graph(30), [(F32, 150)], LIMITS) is None  # of fewer sections
