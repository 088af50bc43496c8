"""Kernels that differ only in where their inputs start are one, and give what they gave."""
from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from slot_graphs import array

import lazyten as lt
from lazyten.ir import dtype as dt
from lazyten.ir.evaluation import evaluate
from lazyten.ir.node import Node, const, elementwise, expand, make, move, reduce, reshape
from lazyten.ir.ops import Op
from lazyten.schedule.offsets import without_offsets
from lazyten.schedule.schedule import schedule
from lazyten.storage.device import executor

F32 = dt.float32


def part(x: Node, axis: int, first: int, stop: int) -> Node:
    ranges = [(0, n) for n in x.shape]
    ranges[axis] = first, stop
    return move(Op.SHRINK, x, tuple(ranges))


def negated(x: Node) -> Node:
    return elementwise(Op.NEG, x)


# ---- which kernels are one -----------------------------------------------------------------------

def test_steps_through_an_array_share_one_kernel() -> None:
    x = array(0, 4, 12, 5)
    made = schedule([negated(part(x, 1, t, t + 1)) for t in range(12)], [(F32, 240)])
    assert len({s.kernel for s in made.steps}) == 1
    assert [s.offsets for s in made.steps] == [(0, t * 5 * 4) for t in range(12)]


def test_parts_of_parts_share_one_kernel() -> None:
    """As a step of what `split` gave."""
    piece = part(array(0, 4, 12, 18), 2, 2, 10)
    made = schedule([negated(part(piece, 1, t, t + 1)) for t in range(12)], [(F32, 864)])
    assert len({s.kernel for s in made.steps}) == 1
    assert [s.offsets for s in made.steps] == [(0, (t * 18 + 2) * 4) for t in range(12)]


def test_parts_of_one_array_keep_their_distance() -> None:
    x = array(0, 6, 12)
    pairs = [elementwise(Op.ADD, part(x, 1, i, i + 2), part(x, 1, i + 5, i + 7)) for i in range(4)]
    made = schedule(pairs, [(F32, 72)])
    assert len({s.kernel for s in made.steps}) == 1
    assert [s.offsets[1] for s in made.steps] == [0, 4, 8, 12]


def test_an_array_that_is_also_read_from_its_start_does_not_move() -> None:
    x = array(0, 6, 8)
    both = elementwise(Op.ADD, part(x, 0, 1, 2), part(negated(x), 0, 0, 1))
    assert without_offsets([both])[1] == {}
    both = elementwise(Op.ADD, part(x, 0, 1, 2), reduce(x, Op.ADD, [0]))
    assert without_offsets([both]) == ([both], {})


def test_a_transposed_array_moves_by_the_stride_of_its_axis() -> None:
    x = move(Op.PERMUTE, array(0, 6, 8), (1, 0))
    _, offsets = without_offsets([negated(part(part(x, 0, 3, 5), 1, 0, 6))])
    assert offsets == {0: 3}
    _, offsets = without_offsets([negated(part(x, 1, 3, 5))])
    assert offsets == {0: 24}


@pytest.mark.parametrize("order", list(itertools.permutations(range(3))), ids=str)
def test_a_part_of_a_transposed_value_is_cut_from_the_axes_that_it_comes_from(
        order: tuple[int, ...]) -> None:
    values = np.arange(3 * 4 * 5, dtype=np.float32).reshape(3, 4, 5)
    moved = move(Op.PERMUTE, negated(array(0, 3, 4, 5)), order)
    for axis, n in enumerate(moved.shape):
        (found,), offsets = without_offsets([part(moved, axis, n - 2, n)])
        cut = array(0, 3, 4, 5).src[0]
        got, = evaluate([found], {cut.arg.slot: np.roll(values.ravel(), -offsets.get(0, 0))})
        np.testing.assert_array_equal(got, -values.transpose(order).take([n - 2, n - 1], axis))


def test_equal_kernels_whose_inputs_start_at_unlike_places_are_two_where_that_matters() -> None:
    """One may read vectors, the other must not."""
    x = array(0, 5, 6)
    made = schedule([negated(part(x, 0, i, i + 1)) for i in (2, 4, 1, 3)], [(F32, 30)],
                    alignment=16)
    assert [s.kernel.unaligned for s in made.steps] == [(), (), (1,), (1,)]
    assert len({s.kernel for s in made.steps}) == 2


def test_a_runtime_without_offsets_gets_none() -> None:
    x = array(0, 4, 12)
    made = schedule([negated(part(x, 0, t, t + 1)) for t in range(4)], [(F32, 48)], False)
    assert len({s.kernel for s in made.steps}) == 4
    assert all(not any(s.offsets) for s in made.steps)


COMPUTED: list[Callable[[Node], Node]] = [
    negated, lambda x: reduce(x, Op.ADD, [2]), lambda x: move(Op.PERMUTE, x, (0, 2, 1)),
    lambda x: elementwise(Op.MUL, x, expand(part(array(1, 6, 12, 1), 2, 0, 1), (6, 12, 4))),
    lambda x: reshape(elementwise(Op.EXP, x), (1, 6, 12, 4))]


@pytest.mark.parametrize("computed", COMPUTED)
def test_parts_of_a_computed_value_share_one_kernel(computed: Callable[[Node], Node]) -> None:
    value = computed(array(0, 6, 12, 4))
    axis = value.shape.index(12)
    made = [without_offsets([part(value, axis, t, t + 1)]) for t in range(12)]
    assert len({tuple(outputs) for outputs, _ in made}) == 1
    assert [offsets.get(0, 0) for _, offsets in made] == [4 * t for t in range(12)]


def test_which_of_many_values_an_element_belongs_to_is_known() -> None:
    x, y = array(0, 1, 1), array(1, 1, 1)
    positions = reshape(make(Op.IOTA, dt.INDEX, (), 9), (9, 1))
    is_first = elementwise(Op.CMPLT, positions, const(5, dt.INDEX, (9, 1)))
    chosen = elementwise(Op.WHERE, is_first, expand(x, (9, 1)), expand(y, (9, 1)))
    assert [without_offsets([part(chosen, 0, t, t + 1)])[0] for t in (4, 5)] == [[x], [y]]


# ---- values --------------------------------------------------------------------------------------

@st.composite
def slices(draw: st.DrawFn) -> tuple[tuple[int, ...], list[tuple[slice, ...]], bool]:
    """A shape, equal slices of it at random places, and whether it is transposed first."""
    shape = tuple(draw(st.lists(st.integers(1, 9), min_size=1, max_size=3)))
    sizes = [draw(st.integers(1, n)) for n in shape]
    places = []
    for _ in range(draw(st.integers(1, 4))):
        starts = [draw(st.integers(0, n - k)) for n, k in zip(shape, sizes, strict=True)]
        places.append(tuple(slice(a, a + k) for a, k in zip(starts, sizes, strict=True)))
    return shape, places, draw(st.booleans())


@settings(deadline=None)
@given(slices(), st.sampled_from(["float32", "int8", "float64"]), st.booleans())
def test_slices_at_any_place_have_the_values_of_numpy(
        device: str, case: tuple[tuple[int, ...], list[tuple[slice, ...]], bool], kind: str,
        joined: bool) -> None:
    shape, places, transposed = case
    values = (np.arange(np.prod(shape)) % 100).reshape(shape).astype(kind)
    x = lt.tensor(values, device=device).realize()
    if transposed:
        x, values = x.T if x.ndim == 2 else x, values.T if values.ndim == 2 else values
        places = [p[::-1] if values.ndim == 2 else p for p in places]
    found = [x[p] * 2 + x[q] for p, q in zip(places, places[::-1], strict=True)]
    wanted = [values[p] * 2 + values[q] for p, q in zip(places, places[::-1], strict=True)]
    if joined:
        found, wanted = [sum(found[1:], found[0])], [sum(wanted[1:], wanted[0])]
    lt.realize(*found)
    for a, b in zip(found, wanted, strict=True):
        np.testing.assert_array_equal(a.numpy(), b)


@pytest.mark.few(1)
@settings(deadline=None)
@given(st.data())
def test_parts_of_computed_values_have_the_values_of_numpy(
        device: str, data: st.DataObject) -> None:
    n, m, k = (data.draw(st.integers(1, 5)) for _ in range(3))
    values = np.arange(n * m * k, dtype=np.float64).reshape(n, m, k) % 7 - 3
    x = lt.tensor(values, device=device).realize()
    steps: list[Callable[[Any], Any]] = [
        lambda v: v * 2 + 1, lambda v: v.sum(1)[:, None], lambda v: v.T if v.ndim == 2 else v,
        lambda v: (v + v[:1]) * v[..., -1:], lambda v: v.reshape(-1), lambda v: v[None],
        lambda v: v[v.shape[0] // 2:], lambda v: v[..., v.shape[-1] // 2], lambda v: -v.cumsum(0)]
    found, wanted = x, values
    for step in data.draw(st.lists(st.sampled_from(steps), max_size=4)):
        if wanted.ndim < 2:
            break
        found, wanted = step(found), step(wanted)
    for axis in range(wanted.ndim):
        at = data.draw(st.integers(0, wanted.shape[axis] - 1))
        place = (slice(None),) * axis + (slice(at, at + 1),)
        np.testing.assert_array_equal((found[place] + 1).numpy(), wanted[place] + 1)


@pytest.mark.parametrize("place", range(5))
def test_the_gradient_of_stacked_values_goes_where_it_belongs(device: str, place: int) -> None:
    values = np.arange(30, dtype=np.float32).reshape(5, 3, 2)
    parts = [lt.tensor(v, device=device).requires_grad_() for v in values]
    (lt.stack([p * (i + 1) for i, p in enumerate(parts)], 1) ** 2)[:, place:].sum().backward()
    for i, (p, v) in enumerate(zip(parts, values, strict=True)):
        assert p.grad is not None
        expected = 2 * v * (i + 1) ** 2 if i >= place else np.zeros_like(v)
        np.testing.assert_allclose(p.grad.numpy(), expected)


def test_a_recurrent_net_compiles_its_step_once() -> None:
    """On a device whose arguments may start at any element."""
    x, w = lt.rand(3, 8, 4, device="cpu").realize(), lt.rand(4, 4, device="cpu").realize()
    state = lt.zeros(3, 4, device="cpu")
    for t in range(8):
        state = (x[:, t] @ w + state @ w).tanh()
    with lt.testing.watch_kernels() as kernels:
        state.realize()
    distinct = {step.kernel for _, made in kernels.schedules for step in made.steps}
    assert len(kernels) >= 8 and len(distinct) <= 3
    wanted = np.zeros((3, 4), np.float32)
    for t in range(8):
        wanted = np.tanh(x.numpy()[:, t] @ w.numpy() + wanted @ w.numpy())
    np.testing.assert_allclose(state.numpy(), wanted, rtol=1e-5)


@pytest.mark.parametrize("repeats", [1, 8])
def test_a_plan_that_runs_often_finds_the_same_places(device: str, repeats: int) -> None:
    values = np.arange(60, dtype=np.float32).reshape(3, 5, 4)
    for k in range(repeats):
        x = lt.tensor(values + k, device=device)
        parts = [x[:, t].sum(1) for t in range(5)]
        lt.realize(*parts)
        for t, y in enumerate(parts):
            assert y.tolist() == (values + k)[:, t].sum(1).tolist()
    assert executor(device).has_offsets is not device.startswith("opencl")
