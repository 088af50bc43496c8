"""Schedules as bytes: what is read is what was written, and nothing is taken for what it is not."""
from __future__ import annotations

import json
import math
import zlib
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from graphs import expressions
from hypothesis import assume, given
from hypothesis import strategies as st

from lazyten.ir import dtype as dt
from lazyten.ir.kernel import Given, Slot
from lazyten.ir.node import Node, const, elementwise, expand, make, move, reduce, reshape, toposort
from lazyten.ir.ops import Op
from lazyten.schedule.schedule import Schedule, schedule
from lazyten.schedule.schedule_file import read_schedule, write_schedule
from lazyten.support.location import Location

F32 = dt.float32


def array(slot: int, *shape: int, dtype: dt.DType = F32) -> Node:
    return reshape(make(Op.BUFFER, dtype, (), Slot(slot, math.prod(shape))), shape)


def refused() -> Schedule:
    raise AssertionError("nobody asked why values are stored")


def softmax(*lines: int) -> Node:
    """Each op on a line of its own if there are any: then the rows are others than elsewhere, as
    nodes belong to the line that made an equal one first."""
    at = [Location("program.py", line) for line in lines] or [None] * 3
    x = array(0, 8, 1000) if lines else array(0, 4, 2000)
    largest = expand(make(Op.REDUCE, F32, (x,), (Op.MAX, (1,)), at[0]), x.shape)
    powers = make(Op.EXP2, F32, (elementwise(Op.SUB, x, largest),), None, at[1])
    total = reduce(powers, Op.ADD, (1,))
    return make(Op.DIV, F32, (powers, expand(total, x.shape)), None, at[2])


def scheduled(*roots: Node, sizes: tuple[int, ...] = (8000,)) -> tuple[Schedule, Any]:
    """A schedule, and what is written of it."""
    made = schedule(roots, [(F32, n) for n in sizes])
    return made, write_schedule(made, roots)


@given(st.data())
def test_what_is_read_of_random_graphs_is_what_was_written(data: st.DataObject) -> None:
    dtype = data.draw(st.sampled_from([F32, dt.bfloat16, dt.float64, dt.int32, dt.uint8, dt.bool_]))
    leaves = [array(0, 3, 4, dtype=dtype), array(1, 40, dtype=dtype)]
    roots = [data.draw(expressions(dtype, leaves)) for _ in range(3)]
    inputs = [(dtype, 12), (dtype, 40)]
    assume(all(n.op is not Op.CUSTOM_GRADIENT for n in toposort(roots)))  # normalized graphs
    made = schedule(roots, inputs)
    written = write_schedule(made, roots)
    assert written is not None
    found = read_schedule(written, roots, inputs, lambda: schedule(roots, inputs))
    assert found is not None
    assert (found.steps, found.arrays, found.outputs) == (made.steps, made.arrays, made.outputs)
    assert (found.aliases, found.blocks) == (made.aliases, made.blocks)
    assert (found.block_sizes, found.launches) == (made.block_sizes, made.launches)
    assert (list(found.stored), list(found.saved)) == (list(made.stored), list(made.saved))


@pytest.mark.parametrize("value", [0.0, -0.0, math.inf, -math.inf, math.nan, 1.0, 1, True, 5e-324,
                                   2**63 - 1])
def test_constants_keep_their_type_and_bits(value: float) -> None:
    dtype = {bool: dt.bool_, int: dt.int64, float: dt.float64}[type(value)]
    x = array(0, 3, dtype=dtype)
    root = elementwise(Op.MAX, x, const(value, dtype, (3,))) if dtype is not dt.bool_ else \
        elementwise(Op.OR, x, const(value, dtype, (3,)))
    made = schedule([root], [(dtype, 3)])
    found = read_schedule(write_schedule(made, [root]) or b"", [root], [(dtype, 3)], refused)
    assert found is not None and found.steps == made.steps


def test_why_values_are_stored_is_worked_out_when_somebody_asks() -> None:
    root = softmax()
    made, data = scheduled(root)
    asked: list[int] = []

    def again() -> Schedule:
        asked.append(1)
        return schedule([root], [(F32, 8000)])
    found = read_schedule(data, [root], [(F32, 8000)], again)
    assert found is not None and not asked
    assert found.describe(1) == made.describe(1)
    assert list(found.stored) == list(made.stored) and len(asked) == 1


@pytest.mark.frees_nodes
def test_kernels_belong_to_the_lines_of_the_graph_that_is_there_now() -> None:
    first = softmax(10, 11, 12)
    made, data = scheduled(first)
    lines = {s.kernel.where for s in made.steps}
    assert Location("program.py", 12) in lines
    del first, made
    second = softmax(20, 21, 22)
    found = read_schedule(data, [second], [(F32, 8000)], refused)
    assert found is not None
    moved = {s.kernel.where for s in found.steps}
    assert moved == {Location(line.file, line.line + 10) for line in lines if line}


@pytest.mark.parametrize("part", [b"bytes", Location("a.py", 1), (3, 1j)], ids=str)
def test_a_schedule_with_what_cannot_be_written_is_not_kept(part: Any) -> None:
    x = array(0, 8000)
    made, data = scheduled(elementwise(Op.NEG, x))
    assert data is not None
    step = made.steps[0]
    kernel = replace(step.kernel, outputs=(make(Op.CONTIGUOUS, F32, (x,), part),))
    assert write_schedule(replace(made, steps=(replace(step, kernel=kernel),)), [x]) is None


@pytest.mark.parametrize("setting", [{"checks": ("nan",)}, {"tf32": True},
                                     {"decisions": Given("")}], ids=str)
def test_a_schedule_of_kernels_with_settings_is_not_kept(setting: Any) -> None:
    x = array(0, 8000)
    made, _ = scheduled(elementwise(Op.NEG, x))
    step = made.steps[0]
    odd = replace(made, steps=(replace(step, kernel=replace(step.kernel, **setting)),))
    assert write_schedule(odd, [x]) is None


def changed(change: Callable[[Any], object]) -> Callable[[bytes], bytes]:
    def run(data: bytes) -> bytes:
        written = json.loads(zlib.decompress(data))
        change(written)
        return zlib.compress(json.dumps(written).encode())
    return run


DAMAGE: dict[str, Callable[[bytes], bytes]] = {
    "nothing": lambda data: b"", "half": lambda data: data[:len(data) // 2],
    "no text": lambda data: zlib.compress(b"\xff\xfe"), "a list": lambda data: zlib.compress(b"[]"),
    "a number": lambda data: zlib.compress(b"1"),
    "no steps": changed(lambda w: w.pop("steps")),
    "an unknown op": changed(lambda w: w["nodes"][-1].__setitem__(0, "CONJURE")),
    "no op": changed(lambda w: w["nodes"][-1].__setitem__(0, "__slots__")),
    "an unknown type": changed(lambda w: w["nodes"][0].__setitem__(1, "float31")),
    "an operand too few": changed(lambda w: w["nodes"][-1].pop()),
    "a source that is not there": changed(lambda w: w["nodes"][-1].__setitem__(-1, 10**6)),
    "another input": changed(lambda w: w["arrays"][0].__setitem__(1, 3)),
    "another result": changed(lambda w: w["outputs"].append(0)),
    "fewer inputs": changed(lambda w: w.__setitem__("inputs", 0)),
}


@pytest.mark.parametrize("damage", DAMAGE.values(), ids=DAMAGE)
def test_what_is_no_schedule_of_the_graph_is_none(damage: Callable[[bytes], bytes]) -> None:
    root = softmax()
    _, data = scheduled(root)
    assert read_schedule(data, [root], [(F32, 8000)], refused) is not None
    assert read_schedule(damage(data), [root], [(F32, 8000)], refused) is None


def test_a_schedule_of_another_graph_is_none() -> None:
    root = softmax()
    _, data = scheduled(root)
    other = move(Op.SHRINK, root, ((0, 4), (0, 1000)))
    assert read_schedule(data, [other], [(F32, 8000)], refused) is None
    assert read_schedule(data, [root], [(dt.float64, 8000)], refused) is None
    assert read_schedule(data, [root, root], [(F32, 8000)], refused) is None
