"""The memory planner keeps every value until its last reader is done, whatever shares memory."""
from __future__ import annotations

import itertools
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from lazyten.execution.aliasing import aliased_outputs, postponed, replacements
from lazyten.ir import dtype as dt
from lazyten.schedule.memory import Lifetime, share
from lazyten.schedule.schedule import Schedule, replan
from lazyten.schedule.steps import Step

SIZES = (64, 64, 64, 128)
Contents = dict[Any, list[Any]]


@st.composite
def schedules(draw: st.DrawFn) -> tuple[Schedule, list[Any]]:
    """Steps that read any arrays and write new ones, and programs, which may write in place what
    they read."""
    inputs = draw(st.integers(1, 3))
    sizes = [draw(st.sampled_from(SIZES)) for _ in range(inputs)]
    steps: list[Step] = []
    programs, launches = [], []
    for _ in range(draw(st.integers(1, 6))):
        there = len(sizes)
        count = draw(st.integers(1, 2))
        launches.append(count)
        for _ in range(count):
            reads = draw(st.lists(st.integers(0, there - 1), min_size=1, max_size=3, unique=True))
            writes = []
            for _ in range(draw(st.integers(1, 2))):
                writes.append(len(sizes))
                sizes.append(draw(st.sampled_from(SIZES)))
            pairs = {(o, len(writes) + i) for o, a in enumerate(writes)
                     for i, b in enumerate(reads) if sizes[a] == sizes[b] and draw(st.booleans())}
            args = (*writes, *reads)
            offsets = tuple(draw(st.sampled_from((0, 0, 0, 4))) if n >= len(writes) else 0
                            for n in range(len(args)))
            kernel: Any = SimpleNamespace(outputs=tuple(writes))
            steps.append(Step(kernel, args, offsets))
            programs.append(SimpleNamespace(in_place=frozenset(pairs)))
    outputs = draw(st.lists(st.integers(0, len(sizes) - 1), min_size=1, max_size=5))
    arrays = tuple((dt.float32, size) for size in sizes)
    named: Any = tuple(range(inputs, len(sizes)))
    made = Schedule(arrays, inputs, tuple(steps), tuple(outputs), {}, {}, (), tuple(launches),
                    named, tuple(float(n) for n in range(len(steps))))
    return made, programs


def run(made: Schedule, programs: Sequence[Any], place: dict[int, Any],
        orders: Sequence[int]) -> Contents:
    """What memory holds in the end. place: of each array. An element of an output depends on that
    element of the inputs that the program may replace, and on all elements of the others."""
    memory: Contents = {place[a]: [("input", a, 0), ("input", a, 1)] for a in range(made.inputs)}
    rest = iter(zip(made.steps, programs, strict=True))
    for count, turn in zip(made.launches, orders, strict=True):
        together = list(itertools.islice(rest, count))
        for step, program in together[::1 if turn else -1]:
            outputs = len(step.kernel.outputs)
            replaced = {n for _, n in program.in_place}
            for position in (0, 1):
                results = []
                for o in range(outputs):
                    read = [memory[place[a]][position] if n in replaced
                            else tuple(memory[place[a]])
                            for n, a in enumerate(step.args) if n >= outputs]
                    results.append(hash((step.args[o], position, *read)))
                for o, result in enumerate(results):
                    memory.setdefault(place[step.args[o]], [None, None])[position] = result
    return memory


def test_what_reads_a_result_for_the_last_time_does_not_replace_it() -> None:
    """Step after step reads what the one before wrote, and may write there; so does the result."""
    steps = tuple(Step(SimpleNamespace(outputs=(n,)), (n + 1, n), (0, 0))  # type: ignore[arg-type]
                  for n in range(3))
    programs = [SimpleNamespace(in_place=frozenset({(0, 1)})) for _ in steps]
    arrays = ((dt.float32, 64),) * 4
    for outputs in ((1, 3), (1,), (2, 1), (3,)):
        made = Schedule(arrays, 1, steps, outputs, {}, {}, (), (1, 1, 1), (), (0.0,) * 3)
        check(made, programs, [0] * 3, [0])
    assert replacements(made, programs) == {(1, 0), (2, 1), (3, 2)}


@given(schedules(), st.lists(st.integers(0, 1), min_size=6, max_size=6), st.data())
def test_sharing_and_taking_memory_changes_no_result(
        drawn: tuple[Schedule, list[Any]], orders: list[int], data: st.DataObject) -> None:
    made, programs = drawn
    gone = data.draw(st.lists(st.integers(0, made.inputs - 1), unique=True))
    check(made, programs, orders, gone)


def check(made: Schedule, programs: Sequence[Any], orders: Sequence[int],
          gone: Sequence[int]) -> None:
    """Memory that is shared and taken holds in the end what it would hold otherwise. gone: inputs
    that nobody needs afterwards."""
    alone = {a: a for a in range(len(made.arrays))}
    expected = run(made, programs, alone, orders[:len(made.launches)])
    moved, ordered = postponed(made, programs, gone)
    assert sorted(moved.steps, key=lambda s: s.args) == sorted(made.steps, key=lambda s: s.args)
    replacing = replacements(moved, ordered)
    taking = aliased_outputs(moved, replacing, [(g, list(moved.outputs)) for g in gone])
    planned = replan(moved, replacing, taking)

    place: dict[int, Any] = {a: a for a in range(planned.inputs)}
    for a in {*planned.outputs} - {*place}:
        place[a] = taking.get(a, ("home", a))
    place |= {a: place[owner] for a, owner in planned.aliases.items()}
    place |= {a: ("block", block) for a, block in planned.blocks.items()}
    for step in planned.steps:  # what nobody reads has memory too
        assert all(a in place for a in step.args)
    found = run(planned, ordered, place, orders[:len(planned.launches)])
    for a in planned.outputs:
        assert found[place[a]] == expected[a]
    for a in {*range(planned.inputs)} - {*taking.values()}:
        assert found[a] == expected[a]
    for a, block in planned.blocks.items():
        assert planned.block_sizes[block] >= 4 * planned.arrays[a][1]


def test_one_that_may_replace_another_still_waits_for_a_third_that_begins_as_it_ends() -> None:
    begins_at_2, ends_at_2, much_later = Lifetime(64, 2, 3), Lifetime(64, 0, 2), Lifetime(64, 5, 6)
    chosen, sizes = share([begins_at_2, ends_at_2, much_later], replacing=[(2, 1)])
    assert chosen[0] != chosen[1] and len(sizes) == 2
