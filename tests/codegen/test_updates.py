"""Values that are put in, or combined with what is there: one after the other along the axis that
they are scattered on, in vectors and by threads along the others."""
from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from example_counts import examples
from graphs import compute
from hypothesis import example, given
from hypothesis import strategies as st
from kernel_checks import computed
from tensor_values import assert_same

import lazyten as lt
from lazyten.codegen.pipeline import generate
from lazyten.codegen.targets.target import AVX2
from lazyten.ir import dtype as dt
from lazyten.ir.dtype import DType
from lazyten.ir.kernel import Given, Kernel, Slot
from lazyten.ir.node import Node, const, expand, make, move, reshape, scatter
from lazyten.ir.ops import Op
from lazyten.support.errors import ArgumentError

COMBINED = {None: None, Op.ADD: np.add, Op.MUL: np.multiply, Op.MAX: np.maximum}


def update(shape: tuple[int, int, int], count: int, dtype: DType, combiner: Op | None = Op.ADD,
           decisions: str | None = None) -> Kernel:
    """`count` values put in rows of the middle axis, at places that are read."""
    outer, _, inner = shape
    values = outer, count, inner
    buffers = [make(Op.BUFFER, t, (), Slot(i + 1, size)) for i, (t, size) in enumerate(
        _inputs(shape, count, dtype))]
    places = expand(reshape(buffers[1], (1, count, 1)), values)
    made: Node = scatter(reshape(buffers[0], shape), 1, places, reshape(buffers[2], values),
                         combiner)
    chosen = None if decisions is None else Given(decisions)
    return Kernel("update", (made,), tuple(_inputs(shape, count, dtype)), decisions=chosen)


def _inputs(shape: tuple[int, int, int], count: int,
            dtype: DType) -> list[tuple[DType, int]]:
    outer, rows, inner = shape
    return [(dtype, outer * rows * inner), (dt.int64, count), (dtype, outer * count * inner)]


def check(kernel: Kernel, shape: tuple[int, int, int], count: int, combiner: Op | None) -> None:
    """Beside NumPy; one place in seven is outside, and left out."""
    outer, rows, inner = shape
    random = np.random.default_rng(inner)
    inputs = [random.integers(0, 3, size).astype(t.numpy) for t, size in kernel.inputs]
    inputs[1][:] = random.integers(0, rows, count)
    inputs[1][3::7] = rows
    expected = inputs[0].reshape(shape).copy()
    for place, value in zip(inputs[1], inputs[2].reshape(outer, count, inner).swapaxes(0, 1),
                            strict=True):
        if place < rows:
            combine = COMBINED[combiner]
            expected[:, place] = value if combine is None else combine(expected[:, place], value)
    np.testing.assert_array_equal(computed(kernel, inputs).reshape(shape), expected)


@pytest.mark.parametrize("combiner", COMBINED, ids=str)
@pytest.mark.parametrize("dtype", [dt.float32, dt.float64, dt.int64, dt.int32, dt.int8],
                         ids=lambda dtype: dtype.name)
@pytest.mark.parametrize("shape", [(1, 5, 64), (3, 4, 24), (2, 9, 3), (4, 6, 1), (5, 1, 10)])
def test_updates_are_right_in_vectors(shape: tuple[int, int, int], dtype: DType,
                                      combiner: Op | None) -> None:
    check(update(shape, 20, dtype, combiner), shape, 20, combiner)


SIZES = st.sampled_from((1, 2, 3, 4, 8, 9, 16, 17, 32, 33, 100))


@given(shape=st.tuples(SIZES, SIZES, SIZES), count=SIZES, combiner=st.sampled_from([*COMBINED]),
       dtype=st.sampled_from((dt.float32, dt.float64, dt.int64, dt.int32, dt.int8)))
@example((8, 3, 33), 19, Op.ADD, dt.int64)
@examples(40)
def test_updates_of_any_shape_are_right(shape: tuple[int, int, int], count: int,
                                        combiner: Op | None, dtype: DType) -> None:
    check(update(shape, count, dtype, combiner), shape, count, combiner)


@pytest.mark.parametrize("decisions", ["vector(i0:4)", "tile(i0:2) vector(i502:16)", "tile(i0:2)",
                                       "tile(i502:4) vector(i502:4)", "parallel(i0:1)"])
@pytest.mark.parametrize("combiner", COMBINED, ids=str)
def test_updates_are_right_however_they_are_decided(decisions: str, combiner: Op | None) -> None:
    shape = 4, 5, 16
    check(update(shape, 9, dt.float32, combiner, decisions), shape, 9, combiner)


def test_the_values_of_a_row_are_added_in_vectors() -> None:
    assert "fadd <8 x float>" in generate(update((1, 50, 64), 9, dt.float32), AVX2).source


@pytest.mark.parametrize("kind", [dt.int64, dt.int32, dt.uint8], ids=lambda dtype: dtype.name)
@pytest.mark.parametrize("place", [
    lambda i: i + 3, lambda i: 9 - i, lambda i: i * 2, lambda i: 2 * i - 5, lambda i: i % 7,
    lambda i: i // 2 + 1, lambda i: lt.where(i < 5, i + 5, i), lambda i: (i * i).clamp(max=12)])
def test_places_may_be_computed(place: Callable[[lt.Tensor], lt.Tensor], kind: DType) -> None:
    given = np.arange(12).astype(kind.numpy)
    places = place(lt.tensor(given, device="cpu"))
    wide = expand(reshape(places.node, (12, 1)), (12, 8))
    made = scatter(const(0, dt.float32, (10, 8)), 0, wide, const(1, dt.float32, (12, 8)), Op.ADD)
    expected = np.zeros((10, 8), np.float32)
    for at in places.numpy().astype(np.int64):
        if 0 <= at < 10:
            expected[at] += 1
    assert_same(compute(made, "cpu"), expected)


@pytest.mark.parametrize("shape", [(1, 50, 64), (1, 7, 9), (3, 5, 16)])
@pytest.mark.parametrize("combiner", COMBINED, ids=str)
def test_what_is_updated_may_stay_where_it_is(shape: tuple[int, int, int],
                                              combiner: Op | None) -> None:
    made = generate(update(shape, 9, dt.float32, combiner), AVX2)
    assert made.in_place == ((0, 1),)
    assert "icmp eq ptr %p0, %p1" in made.source


def test_what_is_changed_first_is_not_skipped() -> None:
    plain = update((1, 50, 64), 9, dt.float32)
    base, places, values = plain.outputs[0].src
    twice = make(Op.ADD, dt.float32, (base, base))
    for first, last in ((twice, values), (base, make(Op.ADD, dt.float32, (values, reshape(
            move(Op.SHRINK, reshape(base, (50, 64)), ((0, 9), (0, 64))), (1, 9, 64)))))):
        kernel = replace(plain, outputs=(scatter(first, 1, places, last, Op.ADD),))
        made = generate(kernel, AVX2)
        assert made.in_place == () or "icmp eq ptr" not in made.source


def test_threads_share_what_is_before_the_axis() -> None:
    assert "@update.chunk" in generate(update((64, 50, 64), 900, dt.float32), AVX2).source


@pytest.mark.parametrize(("decisions", "why"), [
    ("vector(i0:4, i502:8)", "only one of them can be its lanes"),
    ("outermost(i502)", "are the outermost")])
def test_what_updates_cannot_do_is_refused(decisions: str, why: str) -> None:
    with pytest.raises(ArgumentError, match=why):
        generate(update((4, 5, 16), 9, dt.float32, decisions=decisions), AVX2)


@pytest.mark.parametrize("decisions", ["vector(i502:8)", "tile(i502:4)"])
def test_nothing_is_combined_twice_by_a_block_that_overlaps(decisions: str) -> None:
    with pytest.raises(ArgumentError, match="does not divide its extent, 30"):
        generate(update((1, 5, 30), 9, dt.float32, decisions=decisions), AVX2)
