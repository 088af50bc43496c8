"""Scans: what they compute, on devices and through `unrolled`; their kernels, for any length; and
their gradients, by both modes."""
from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from graphs import compute
from graphs import leaf as device_leaf

from lazyten.autodiff.batching import batch
from lazyten.autodiff.forward_mode import jvp
from lazyten.autodiff.gradient import vjp
from lazyten.execution.aliasing import first_launches, replacements
from lazyten.ir import dtype as dt
from lazyten.ir.evaluation import evaluate
from lazyten.ir.kernel import Slot
from lazyten.ir.node import (
    Node,
    elementwise,
    expand,
    make,
    move,
    reduce,
    reshape,
    toposort,
    unshaped,
)
from lazyten.ir.ops import Op
from lazyten.ir.scan import Body, leaf, part, scan, unrolled
from lazyten.operators.arrays.windows import matmul
from lazyten.operators.math import elementwise as ew
from lazyten.operators.math import special
from lazyten.schedule.schedule import schedule

F64, F32 = dt.float64, dt.float32
Array = np.ndarray[Any, Any]
Steps = Callable[..., tuple[Node, ...]]


def totals(x: Node, s: Node) -> tuple[Node, ...]:
    """A state, and something else of each step."""
    return ew.add(s, x), ew.mul(s, special.sigmoid(x))


def network(x: Node, h: Node, w: Node) -> tuple[Node, ...]:
    """A product and a nonlinearity."""
    return special.tanh(ew.add(matmul(h, w), x)),


def exchanged(x: Node, a: Node, b: Node) -> tuple[Node, ...]:
    """Two states, each made of the other."""
    return ew.add(b, x), ew.mul(a, 0.5)


def held(there: Node, x: Node, s: Node) -> tuple[Node, ...]:
    """A state that is kept where there is no step."""
    return ew.where(there, ew.sub(x, s), s),


BODIES: dict[str, tuple[Steps, int, int, list[tuple[int, ...]]]] = {
    "totals": (totals, 1, 1, [(5,), (5,)]),
    "network": (network, 1, 1, [(3, 4), (3, 4), (4, 4)]),
    "exchanged": (exchanged, 1, 2, [(16,), (16,), (16,)]),
    "held": (held, 2, 1, [(6,), (6,), (6,)]),
}
"""By name: the steps, how many arrays have a row a step, how many states are handed on, and the
shapes of what a step reads: rows, states, and what is the same for all."""


def scanned(name: str, given: list[Node], reverse: bool) -> tuple[Node, Body]:
    """A scan of a body over these arrays."""
    steps, xs, carried, sizes = BODIES[name]
    leaves = [leaf(i, shape, n.dtype)
              for i, (shape, n) in enumerate(zip(sizes, given, strict=True))]
    body = Body(steps(*leaves), xs, carried, given[0].shape[0], reverse)
    return scan(body, given[:xs], given[xs:xs + carried], given[xs + carried:]), body


def values(name: str, length: int) -> list[Array]:
    """Arrays for a body, in float64; the first of two with rows are bools."""
    rng = np.random.default_rng(0)
    _, xs, _, sizes = BODIES[name]
    found = [rng.normal(size=(length, *s) if i < xs else s) for i, s in enumerate(sizes)]
    return [x > 0 if i < xs - 1 else x for i, x in enumerate(found)]


def slots(arrays: list[Array]) -> list[Node]:
    """Arrays as inputs of a schedule, or of NumPy's evaluation."""
    return [reshape(make(Op.BUFFER, _dtype(a), (), Slot(i, a.size)), a.shape)
            for i, a in enumerate(arrays)]


def _dtype(a: Array) -> dt.DType:
    return dt.bool_ if a.dtype == np.bool_ else F64


def flat(arrays: list[Array]) -> dict[int, Array]:
    return {i: a.ravel() for i, a in enumerate(arrays)}


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("length", [1, 2, 5])
@pytest.mark.parametrize("name", BODIES)
def test_a_scan_is_its_steps_one_after_the_other(name: str, length: int, reverse: bool, device: str
                                                 ) -> None:
    arrays = values(name, length)
    rows, body = scanned(name, slots(arrays), reverse)
    wanted, = evaluate([rows], flat(arrays))
    if length > 1:
        assert rows.op is Op.SCAN
        written_out, = evaluate([unrolled(rows)], flat(arrays))
        np.testing.assert_allclose(written_out, wanted, rtol=1e-12)
    found, body = scanned(name, [device_leaf(a, _dtype(a), device) for a in arrays], reverse)
    for i, n in enumerate(body.outputs):
        start = body.starts[i]
        np.testing.assert_allclose(
            compute(part(found, body, i, n.shape), device),
            wanted[:, start:start + n.numel].reshape(length, *n.shape), rtol=1e-12)


def test_scans_stand_among_other_nodes(device: str) -> None:
    """Two in a row, one beside them, values computed before that are read in between and after,
    moved and not, and rows that are results themselves."""
    arrays = [*values("network", 4), np.random.default_rng(1).normal(size=(4, 3, 4))]

    def program(given: list[Node]) -> Node:
        x, h, w, other = given
        doubled = ew.mul(x, 2.0)
        first, body = scanned("network", [doubled, h, w], False)
        between = ew.add(part(first, body, 0, (3, 4)), ew.mul(doubled, other))
        second, _ = scanned("network", [between, ew.negative(h), w], True)
        beside, _ = scanned("network", [move(Op.FLIP, other, (0,)), h, w], True)
        ends = [part(rows, body, 0, (3, 4)) for rows in (second, beside)]
        turned = move(Op.PERMUTE, doubled, (0, 2, 1))
        moved = reshape(reduce(ew.mul(turned, turned), Op.ADD, (1,)), (4, 1, 3))
        total = ew.mul(ew.add(*ends), ew.add(doubled, between))
        return ew.add(reduce(total, Op.ADD, (2,)), reshape(moved, (4, 3, 1)))
    wanted, = evaluate([program(slots(arrays))], flat(arrays))
    found = compute(program([device_leaf(a, F64, device) for a in arrays]), device)
    np.testing.assert_allclose(found, wanted, rtol=1e-10)
    rows, _ = scanned("exchanged", [device_leaf(a, F64, device) for a in values("exchanged", 3)],
                      False)
    wanted, = evaluate([scanned("exchanged", slots(values("exchanged", 3)), False)[0]],
                       flat(values("exchanged", 3)))
    np.testing.assert_allclose(compute(rows, device), wanted, rtol=1e-12)


# ---- kernels -------------------------------------------------------------------------------------

def made(name: str, length: int, **limits: Any) -> Any:
    arrays = values(name, length)
    rows, _ = scanned(name, slots(arrays), False)
    return schedule([rows], [(_dtype(a), a.size) for a in arrays], **limits)


@pytest.mark.parametrize("name", BODIES)
def test_a_scan_of_any_length_is_the_same_kernels(name: str) -> None:
    short, long = made(name, 3), made(name, 40)
    assert {s.kernel for s in short.steps} == {s.kernel for s in long.steps}
    assert len(long.steps) * 3 == len(short.steps) * 40
    assert sum(long.launches) == len(long.steps) == len(long.saved)


def test_devices_without_offsets_get_the_nodes_of_all_steps() -> None:
    plain = made("totals", 4, offsets=False)
    assert not any(o for s in plain.steps for o in s.offsets)
    assert all(n.op is not Op.SCAN for s in plain.steps for n in toposort(s.kernel.outputs))


def test_rows_that_start_anywhere_are_unaligned() -> None:
    """A row of "totals" takes 40 bytes, and one of "exchanged" 128; states are aligned."""
    assert {s.kernel.unaligned != () for s in made("totals", 3, alignment=16).steps} == {True}
    assert {s.kernel.unaligned for s in made("exchanged", 3, alignment=16).steps} == {()}


def test_what_a_later_section_decides_by_is_computed_once() -> None:
    """Two functions of a sum are compared after a scan: both must have read the same sum."""
    arrays = [*values("exchanged", 2), np.ones((16, 2))]
    *given, a = slots(arrays)
    total = reshape(reduce(a, Op.ADD, (1,)), (16,))
    double = ew.mul(total, 2.0)
    wide = ew.add(expand(reshape(total, (1, 16)), (2, 16)), given[0])
    rows, body = scanned("exchanged", [wide, double, given[2]], False)
    is_less = ew.less(double, reshape(move(Op.SHRINK, wide, ((0, 1), (0, 16))), (16,)))
    chosen = ew.where(expand(reshape(is_less, (1, 16)), (2, 16)), wide,
                      part(rows, body, 0, (16,)))
    steps = schedule([chosen], [(F64, x.size) for x in arrays]).steps
    sums = [s for s in steps if any(n.op is Op.REDUCE for n in toposort(s.kernel.outputs))]
    assert len(sums) == 1


def test_what_all_steps_write_is_no_place_for_what_one_of_them_reads() -> None:
    schedules = made("exchanged", 3)
    every = [SimpleNamespace(in_place=[(0, i) for i in range(1, len(s.args))])
             for s in schedules.steps]
    assert replacements(schedules, every) == frozenset()  # type: ignore[arg-type]
    result, = schedules.outputs
    assert first_launches(schedules)[result] == 0


# ---- gradients -----------------------------------------------------------------------------------

@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("name", BODIES)
def test_a_scan_is_differentiated_and_batched_as_its_steps_are(name: str, reverse: bool) -> None:
    arrays = values(name, 3)
    given = slots(arrays)
    rows, _ = scanned(name, given, reverse)
    steps = unrolled(rows)
    wanted = [unshaped(n) for n in given if n.dtype.is_float]
    rng = np.random.default_rng(2)
    g = rng.normal(size=rows.shape)
    weight = reshape(make(Op.BUFFER, F64, (), Slot(9, g.size)), rows.shape)
    leaves = {**flat(arrays), 9: g.ravel()}
    pairs = list(zip(vjp(rows, weight, wanted), vjp(steps, weight, wanted), strict=True))
    tangents = {n: elementwise(Op.SIN, n) for n in wanted}
    pairs += zip(jvp([rows], tangents), jvp([steps], tangents), strict=True)
    for mine, its in pairs:
        assert mine is not None and its is not None
        np.testing.assert_allclose(*evaluate([mine, its], leaves), rtol=1e-9, atol=1e-12)
    both = rng.normal(size=(2, given[-1].numel))
    many = reshape(make(Op.BUFFER, F64, (), Slot(10, both.size)), both.shape)
    whole, = batch([rows], {wanted[-1]: many}, 2)
    assert whole is not None
    found, = evaluate([whole], {**leaves, 10: both.ravel()})
    for one, x in zip(found, both, strict=True):
        single, = evaluate([rows], {**leaves, len(given) - 1: x})
        np.testing.assert_allclose(one, single, rtol=1e-12)
