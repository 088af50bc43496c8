"""Views read through chains of movement ops what NumPy reads, and merge at least as well."""
from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from example_counts import examples
from graphs import moves
from hypothesis import given
from hypothesis import strategies as st

from lazyten.ir import dtype as dt
from lazyten.ir import evaluation, movement, ops
from lazyten.ir.arguments import Range
from lazyten.ir.movement import Shape
from lazyten.ir.node import Node, const, elementwise, index, make, toposort
from lazyten.ir.ops import Op
from lazyten.support.errors import InternalError
from lazyten.symbolic import view as views
from lazyten.symbolic.index_moves import axis_groups, source_indices
from lazyten.symbolic.view import ShapeTracker, View, composed, moved_array

Array = np.ndarray[Any, Any]
Chain = tuple[Shape, list[tuple[Op, Any]]]

SHAPES = st.lists(st.sampled_from([1, 2, 2, 3, 3, 4, 6]), max_size=4).map(tuple)


MANY = examples(75)


def paddings(shape: Shape) -> st.SearchStrategy[tuple[Op, Any]]:
    """PAD, more often than `moves` has it: masks are where views can go wrong."""
    widths = st.tuples(st.integers(0, 2), st.integers(0, 2))
    return st.tuples(*[widths for _ in shape]).map(lambda arg: (Op.PAD, arg))


@st.composite
def chains(draw: st.DrawFn, most: int = 8) -> Chain:
    """A shape and movement ops for it, one after the other; in one of eight, also empty arrays."""
    shape = start = draw(SHAPES)
    least = 0 if draw(st.integers(0, 7)) == 7 else 1
    if not least and draw(st.booleans()):
        shape = start = (*start, 0)
    chain = []
    for _ in range(draw(st.integers(1, most))):
        op, arg = draw(moves(shape) | paddings(shape))
        after = movement.out_shape(op, shape, arg)
        if least <= math.prod(after) <= 2000:
            chain.append((op, arg))
            shape = after
    return start, chain


def buffer_of(shape: Shape) -> Array:
    """A flat array whose element i is i + 1: a 0 read from it is padding."""
    return np.arange(1, math.prod(shape) + 1)


def expected(chain: Chain) -> Array:
    shape, steps = chain
    array = buffer_of(shape).reshape(shape)
    for op, arg in steps:
        array = evaluation.move(op, array, arg)
    return array


def tracked(chain: Chain) -> ShapeTracker:
    shape, steps = chain
    tracker = ShapeTracker.of(shape)
    for op, arg in steps:
        tracker = tracker.moved(op, arg)
    return tracker


def ranges(shape: Shape) -> list[Node]:
    return [make(Op.RANGE, dt.INDEX, (), Range((axis,), n, "loop")) for axis, n in enumerate(shape)]


def at_all_points(node: Node | None, shape: Shape) -> Array:
    """The values of an expression over `ranges(shape)` at every point; True for None."""
    if node is None:
        return np.ones(shape, np.bool_)
    values: dict[Node, Array] = {}
    for n in toposort([node]):
        if n.op is Op.RANGE:
            values[n] = np.indices(shape, np.int64)[n.arg.order[0]]
        elif n.op is Op.CONST:
            values[n] = np.asarray(n.value, n.dtype.compute)
        else:
            values[n] = np.asarray(ops.evaluate(n.op, n.dtype, [values[s] for s in n.src],
                                                [s.dtype for s in n.src]))
    return np.broadcast_to(values[node], shape)


def gathered(flat: Array, positions: Array, valid: Array) -> Array:
    """Read where valid, 0 elsewhere; every valid position must be in the buffer."""
    wanted = positions[valid]
    assert wanted.size == 0 or wanted.min() >= 0 and wanted.max() < flat.size
    result = np.zeros(valid.shape, flat.dtype)
    result[valid] = flat[wanted]
    return result


# ---- reading -------------------------------------------------------------------------------------

def windows_of(shape: Shape) -> list[tuple[Op, Any]]:
    """Every SHRINK of a shape that leaves elements."""
    spans = [[(a, b) for a in range(n) for b in range(a + 1, n + 1)] for n in shape]
    return [(Op.SHRINK, arg) for arg in itertools.product(*spans)]


@pytest.mark.few(2)
@pytest.mark.parametrize("shape", [(3, 2), (2, 4), (4, 3), (3, 4)], ids=str)
def test_every_part_of_every_reshape_of_a_transposed_array_is_read_right(shape: Shape) -> None:
    """Where views may merge, and where they just may not."""
    n = math.prod(shape)
    shapes = [s for rank in (1, 2, 3) for s in itertools.product(range(1, n + 1), repeat=rank)
              if math.prod(s) == n]
    for new in shapes:
        for window in windows_of(new):
            chain = shape, [(Op.PERMUTE, (1, 0)), (Op.RESHAPE, new), window]
            got = tracked(chain).numpy_view(buffer_of(shape))
            np.testing.assert_array_equal(got, expected(chain), str(chain))


@pytest.mark.parametrize("middle", [(2, 3, 1), (2, 1, 3), (1, 2, 3), (2, 1, 1, 3), (2, 3, 1, 1)],
                         ids=str)
@pytest.mark.parametrize("last", [(6,), (3, 2), (6, 1)], ids=str)
def test_axes_of_size_1_between_views_have_no_say_in_an_index(middle: Shape, last: Shape) -> None:
    chain = (3, 2), [(Op.PERMUTE, (1, 0)), (Op.RESHAPE, middle), (Op.RESHAPE, last)]
    tracker = ShapeTracker((View((2, 3), (1, 2)).reshape(middle), View.contiguous(last)))
    positions, _ = tracker.index(ranges(last))
    got = buffer_of(chain[0])[at_all_points(positions, last)]
    np.testing.assert_array_equal(got, expected(chain))


@pytest.mark.parametrize("size", [1, 2, 3])
def test_every_repeated_part_of_a_padded_array_is_read_right(size: int) -> None:
    for before, after in itertools.product(range(3), repeat=2):
        for window in windows_of((size + before + after,)):
            chain = (size,), [(Op.PAD, ((before, after),)), window]
            if expected(chain).shape == (1,):
                chain[1].append((Op.EXPAND, (4,)))
            got = tracked(chain).numpy_view(buffer_of((size,)))
            np.testing.assert_array_equal(got, expected(chain), str(chain))


@MANY
@given(chain=chains())
def test_index_expressions_read_what_numpy_reads_and_stay_inside_the_buffer(chain: Chain) -> None:
    tracker = tracked(chain)
    positions, valid = tracker.index(ranges(tracker.shape))
    got = gathered(buffer_of(chain[0]), at_all_points(positions, tracker.shape),
                   at_all_points(valid, tracker.shape))
    np.testing.assert_array_equal(got, expected(chain))


@pytest.mark.slow
@MANY
@given(chain=chains())
def test_source_indices_lead_back_through_a_chain_to_the_elements_numpy_moves(chain: Chain) -> None:
    shape, steps = chain
    shapes = [shape]
    for op, arg in steps:
        shapes.append(movement.out_shape(op, shapes[-1], arg))
    indices: Sequence[Node] = ranges(shapes[-1])
    valid = np.ones(shapes[-1], np.bool_)
    for (op, arg), below in zip(reversed(steps), reversed(shapes[:-1]), strict=True):
        indices, inside = source_indices(op, below, arg, indices)
        assert len(indices) == len(below)
        valid = valid & at_all_points(inside, shapes[-1])
    positions = np.zeros(shapes[-1], np.int64)
    for n, i in zip(shape, indices, strict=True):
        i_values = at_all_points(i, shapes[-1])
        assert ((0 <= i_values) & (i_values < n))[valid].all()
        positions = positions * n + i_values
    got = gathered(buffer_of(shape), positions, valid)
    np.testing.assert_array_equal(got, expected(chain))


@MANY
@given(chain=chains())
def test_numpy_view_reads_what_numpy_reads(chain: Chain) -> None:
    tracker = tracked(chain)
    flat = buffer_of(chain[0])
    got = tracker.numpy_view(flat)
    assert got.shape == tracker.shape
    np.testing.assert_array_equal(got, expected(chain))
    if tracker.single and tracker.single.mask is None and got.size:
        assert np.shares_memory(got, flat)


@MANY
@given(chain=chains())
def test_moves_of_an_array_show_what_numpy_shows(chain: Chain) -> None:
    shape, moves = chain
    np.testing.assert_array_equal(
        moved_array(buffer_of(shape).reshape(shape), tuple(moves)), expected(chain))


def test_numpy_view_follows_the_strides_of_the_array_that_it_reads() -> None:
    tracker = ShapeTracker.of((2, 3)).moved(Op.FLIP, (1,)).moved(Op.PAD, ((0, 0), (1, 0)))
    np.testing.assert_array_equal(tracker.numpy_view(np.arange(12)[::2]),
                                  [[0, 4, 2, 0], [0, 10, 8, 6]])


# ---- merging -------------------------------------------------------------------------------------

def without_copy(array: Array, op: Op, arg: Any) -> Array | None:
    """The movement as an alias of the array; None if NumPy has to copy, or nothing is left."""
    if op is Op.SHEAR and array.size:
        axis, by, factor, offset, size = arg
        start = array[tuple(slice(offset, None) if a == axis else slice(None)
                            for a in range(array.ndim))]
        shape = [size if a == axis else n for a, n in enumerate(array.shape)]
        strides = list(array.strides)
        strides[by] += factor * strides[axis]
        return np.lib.stride_tricks.as_strided(start, shape, strides)
    moved = evaluation.move(op, array, arg)
    return moved if np.shares_memory(moved, array) else None


@MANY
@given(chain=chains())
def test_whatever_numpy_does_without_a_copy_is_one_view_of_the_same_strides(chain: Chain) -> None:
    shape, steps = chain
    array: Array | None = buffer_of(shape).reshape(shape)
    tracker = ShapeTracker.of(shape)
    for op, arg in steps:
        tracker = tracker.moved(op, arg)
        array = without_copy(array, op, arg) if array is not None else None
        if array is not None:
            assert tracker.single is not None and tracker.single.mask is None
            for n, s, nbytes in zip(array.shape, tracker.single.strides, array.strides,
                                    strict=True):
                assert n < 2 or s * array.itemsize == nbytes


@MANY
@given(chain=chains())
def test_a_tracker_is_contiguous_exactly_if_its_elements_follow_each_other(chain: Chain) -> None:
    flat = expected(chain).reshape(-1)
    follow = flat.size == 0 or bool((flat == flat[0] + np.arange(flat.size)).all() and flat[0] > 0)
    assert tracked(chain).is_contiguous == follow


@given(start=SHAPES, data=st.data())
def test_arrays_without_elements_are_always_one_view(start: Shape, data: st.DataObject) -> None:
    tracker = tracked((start, [])).moved(Op.RESHAPE, (1, *start))
    tracker = tracker.moved(Op.SHRINK, ((0, 0), *((0, n) for n in start)))
    for _ in range(4):
        op, arg = data.draw(moves(tracker.shape))
        tracker = tracker.moved(op, arg)
        if math.prod(tracker.shape) == 0:
            assert tracker.single is not None and tracker.single.mask is None
            assert tracker.is_contiguous


def after(shape: Shape, *steps: tuple[Op, Any]) -> ShapeTracker:
    return tracked((shape, list(steps)))


@pytest.mark.parametrize("tracker", [
    after((3, 4), (Op.PERMUTE, (1, 0)), (Op.RESHAPE, (12,)), (Op.RESHAPE, (4, 3)),
          (Op.PERMUTE, (1, 0))),
    after((3, 4), (Op.PERMUTE, (1, 0)), (Op.RESHAPE, (2, 6)), (Op.RESHAPE, (4, 1, 3)),
          (Op.RESHAPE, (4, 3)), (Op.PERMUTE, (1, 0))),
    after((3, 4), (Op.PAD, ((1, 2), (0, 0))), (Op.RESHAPE, (24,)), (Op.SHRINK, ((4, 16),)),
          (Op.RESHAPE, (3, 4))),
    after((3, 4), (Op.FLIP, (0, 1)), (Op.RESHAPE, (12,)), (Op.FLIP, (0,)), (Op.RESHAPE, (3, 4))),
    after((3, 4), (Op.RESHAPE, (3, 1, 4)), (Op.EXPAND, (3, 2, 4)), (Op.RESHAPE, (6, 4)),
          (Op.RESHAPE, (3, 2, 4)), (Op.SHRINK, ((0, 3), (1, 2), (0, 4))), (Op.RESHAPE, (3, 4))),
])
def test_moves_that_undo_each_other_leave_the_whole_buffer(tracker: ShapeTracker) -> None:
    assert tracker.views == (View.contiguous((3, 4)),)


def test_a_mask_goes_with_its_axis_through_reshapes_that_leave_it_whole() -> None:
    padded = after((3, 4), (Op.PAD, ((1, 1), (0, 0))))
    assert padded.moved(Op.RESHAPE, (5, 2, 1, 2)).single == View(
        (5, 2, 1, 2), (4, 2, 0, 1), -4, ((1, 4), (0, 2), (0, 1), (0, 2)))
    assert padded.moved(Op.RESHAPE, (20,)).single == View((20,), (1,), -4, ((4, 16),))
    assert padded.moved(Op.RESHAPE, (4, 5)).single is None  # rows begin and end in the padding


@pytest.mark.parametrize(("shape", "steps", "views"), [
    # An inner axis with padding does not join the outer one, though its strides would let it.
    ((4, 8), [(Op.SHRINK, ((0, 4), (0, 6))), (Op.PAD, ((0, 0), (0, 2))), (Op.RESHAPE, (32,))], 2),
    # Masks seen backwards.
    ((3, 4), [(Op.PAD, ((1, 0), (0, 2))), (Op.FLIP, (0, 1))], 1),
    ((3, 4), [(Op.PAD, ((1, 1), (0, 0))), (Op.RESHAPE, (4, 5)), (Op.FLIP, (0, 1)),
              (Op.RESHAPE, (20,))], 1),
    ((6, 3), [(Op.PAD, ((1, 0), (0, 0))), (Op.SHEAR, (0, 1, -1, 3, 4))], 1),
    ((6, 3), [(Op.PAD, ((1, 0), (0, 0))), (Op.SHEAR, (0, 1, -1, 2, 4))], 2),
    # Steps that leave an axis below its start.
    ((3, 4), [(Op.PERMUTE, (1, 0)), (Op.RESHAPE, (12,)), (Op.FLIP, (0,))], 2),
    # Padding around what two views see, and then one.
    ((3, 4), [(Op.PERMUTE, (1, 0)), (Op.RESHAPE, (12,)), (Op.PAD, ((3, 3),)),
              (Op.RESHAPE, (6, 3))], 1),
])
def test_views_merge_only_where_one_view_reads_the_same(
        shape: Shape, steps: list[tuple[Op, Any]], views: int) -> None:
    tracker = after(shape, *steps)
    assert len(tracker.views) == views
    np.testing.assert_array_equal(tracker.numpy_view(buffer_of(shape)), expected((shape, steps)))


def test_a_reshape_that_no_strides_reach_begins_a_second_view() -> None:
    tracker = after((3, 4), (Op.PERMUTE, (1, 0)), (Op.RESHAPE, (12,)))
    assert tracker.views == (View((4, 3), (1, 4)), View((12,), (1,)))
    assert (tracker.single, tracker.strides, tracker.offset) == (None, None, None)
    assert View((4, 3), (1, 4)).reshape((2, 6)) is None


def test_strides_and_offset_count_elements_as_pytorch_does() -> None:
    tracker = after((3, 4), (Op.SHRINK, ((1, 3), (1, 4))), (Op.FLIP, (1,)))
    assert (tracker.strides, tracker.offset) == ((4, -1), 7)
    assert after((6,), (Op.RESHAPE, (2, 1, 3))).strides == (3, 3, 1)


def test_what_padding_alone_reads_is_a_view_of_nothing() -> None:
    nothing = after((3, 4), (Op.PAD, ((0, 2), (0, 0))), (Op.SHRINK, ((3, 5), (0, 4))))
    assert nothing.single is not None and nothing.single.mask == ((0, 0), (0, 0))
    assert nothing.moved(Op.RESHAPE, (8,)).single == View((8,), (0,), 0, ((0, 0),))
    scalar = nothing.moved(Op.SHRINK, ((0, 1), (0, 1))).moved(Op.RESHAPE, ())
    assert scalar.numpy_view(buffer_of((3, 4))) == 0  # (): no axis to mask, so two views


# ---- index expressions ---------------------------------------------------------------------------

def test_a_reshape_mixes_only_axes_whose_products_force_it_to() -> None:
    assert axis_groups((2, 3, 1, 20), (6, 4, 5)) == [([0, 1], [0]), ([3], [1, 2])]
    assert axis_groups((2, 3, 4), (1, 2, 3, 4, 1)) == [([0], [1]), ([1], [2]), ([2], [3])]
    assert axis_groups((4, 6), (6, 4)) == [([0, 1], [0, 1])]
    assert axis_groups((1, 1), ()) == []


def test_the_first_axis_of_a_group_takes_no_modulo_and_the_last_no_division() -> None:
    i, j = ranges((7, 24))
    (same, a, b, c), valid = source_indices(Op.RESHAPE, (7, 2, 3, 4), (7, 24), (i, j))
    assert valid is None and same is i
    assert [{n.op for n in toposort([x])} - {Op.CONST, Op.RANGE} for x in (a, b, c)] == [
        {Op.IDIV}, {Op.IDIV, Op.MOD}, {Op.MOD}]


def test_only_sides_that_may_be_padding_are_checked() -> None:
    i, j = ranges((5, 4))
    below, valid = source_indices(Op.PAD, (3, 4), ((0, 2), (0, 0)), (i, j))
    assert below == (i, j)
    assert valid is elementwise(Op.CMPLT, i, index(3))
    assert source_indices(Op.PAD, (3, 4), ((1, 1), (0, 0)), (index(1), j)) == ((index(0), j), None)
    assert source_indices(Op.PAD, (0,), ((1, 1),), (i,)) == ((index(0),), const(False, dt.bool_))


def test_axes_of_size_one_are_read_at_zero() -> None:
    i, j = ranges((3, 4))
    assert source_indices(Op.EXPAND, (3, 1), (3, 4), (i, j))[0] == (i, index(0))
    assert source_indices(Op.RESHAPE, (1, 3, 1, 4, 1), (3, 4), (i, j))[0] == (
        index(0), i, index(0), j, index(0))


@pytest.mark.parametrize(("op", "arg"), [
    (Op.RESHAPE, (5, 2)), (Op.PERMUTE, (0, 0)), (Op.EXPAND, (6, 4)), (Op.PAD, ((-1, 0), (0, 0))),
    (Op.SHRINK, ((0, 4), (0, 4))), (Op.FLIP, (2,)), (Op.SHEAR, (0, 1, 1, 0, 3))])
def test_a_movement_that_does_not_fit_is_refused(op: Op, arg: Any) -> None:
    with pytest.raises(InternalError, match=f"{op.name} .* does not fit shape"):
        ShapeTracker.of((3, 4)).moved(op, arg)


def test_a_composition_is_made_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Small programs took most of their time to find what they give, the same at each call."""
    outer, inner = View((6, 4), (1, 6), 0), View((4, 2, 3), (1, 12, 4), 0)
    first = composed(outer, inner)
    monkeypatch.setattr(views, "coalesced", None)  # what a composition starts with
    assert composed(View((6, 4), (1, 6), 0), View((4, 2, 3), (1, 12, 4), 0)) == first
