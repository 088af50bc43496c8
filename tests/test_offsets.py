"""Kernels that differ only in where their inputs start are one, and give what they gave."""
from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import lazyten as lt
from lazyten import dtype as dt
from lazyten.device import executor
from lazyten.kernel import Slot
from lazyten.node import Node, elementwise, make, move, reshape
from lazyten.offsets import without_offsets
from lazyten.ops import Op
from lazyten.schedule import schedule

F32 = dt.float32


def array(slot: int, *shape: int) -> Node:
    return reshape(make(Op.BUFFER, F32, (), Slot(slot, int(np.prod(shape)))), shape)


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


def test_parts_of_one_array_keep_their_distance() -> None:
    x = array(0, 6, 12)
    pairs = [elementwise(Op.ADD, part(x, 1, i, i + 2), part(x, 1, i + 5, i + 7)) for i in range(4)]
    made = schedule(pairs, [(F32, 72)])
    assert len({s.kernel for s in made.steps}) == 1
    assert [s.offsets[1] for s in made.steps] == [0, 4, 8, 12]


def test_an_array_that_is_also_read_from_its_start_does_not_move() -> None:
    x = array(0, 6, 8)
    both = elementwise(Op.ADD, part(x, 0, 1, 2), part(negated(x), 0, 0, 1))
    assert without_offsets([both]) == ([both], {})


def test_a_transposed_array_moves_by_the_stride_of_its_axis() -> None:
    x = move(Op.PERMUTE, array(0, 6, 8), (1, 0))
    _, offsets = without_offsets([negated(part(part(x, 0, 3, 5), 1, 0, 6))])
    assert offsets == {0: 3}
    _, offsets = without_offsets([negated(part(x, 1, 3, 5))])
    assert offsets == {0: 24}


def test_a_runtime_without_offsets_gets_none() -> None:
    x = array(0, 4, 12)
    made = schedule([negated(part(x, 0, t, t + 1)) for t in range(4)], [(F32, 48)], False)
    assert len({s.kernel for s in made.steps}) == 4
    assert all(not any(s.offsets) for s in made.steps)


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


def test_a_recurrent_net_compiles_its_step_once() -> None:
    x, w = lt.rand(3, 8, 4).realize(), lt.rand(4, 4).realize()
    state = lt.zeros(3, 4)
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
    assert executor(device).has_offsets
