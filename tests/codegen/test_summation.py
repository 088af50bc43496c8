"""Long sums of floats: their errors, the loops they are cut into, and sums that share a loop."""
from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from slow_rows import slow_but

import lazyten as lt
from lazyten.codegen.loops.lower import lower
from lazyten.codegen.loops.ranges import merge_ranges
from lazyten.codegen.loops.summation import LONGEST, adds_narrow_products, blocked_sums
from lazyten.codegen.pipeline import generate
from lazyten.codegen.targets.target import AVX2
from lazyten.ir import dtype as dt
from lazyten.ir.kernel import Kernel, Slot
from lazyten.ir.node import (
    Node,
    cast,
    const,
    elementwise,
    expand,
    make,
    ranges_of,
    reduce,
    reshape,
    toposort,
)
from lazyten.ir.ops import Op

UNIT = 2.0**-24
LAYOUTS: dict[str, tuple[tuple[int, ...], Any]] = {
    "all": ((10_000_000,), None), "an odd number": ((10_000_019,), None),
    "all of a matrix": ((3001, 3001), None), "axis 0": ((100_003, 40), 0),
    "axis 0 of few": ((1_000_001, 3), 0), "axis 1": ((40, 100_003), 1),
    "both ends": ((301, 7, 1009), (0, 2))}


def adversarial(kind: str, shape: tuple[int, ...]) -> np.ndarray[Any, Any]:
    if kind == "equal":  # every rounding of a running sum goes the same way for long
        return np.full(shape, 0.1, np.float32)
    count = math.prod(shape)
    size = np.where(np.arange(count) % 2, np.float32(1e-3), np.float32(1e4))
    return (size * (1 + np.arange(count) % 7)).astype(np.float32).reshape(shape)


@pytest.mark.parametrize("kind", slow_but(["equal", "alternating"], "equal"))
@pytest.mark.parametrize("layout", LAYOUTS)
def test_long_sums_err_by_a_hundred_roundings_at_most(layout: str, kind: str) -> None:
    shape, axes = LAYOUTS[layout]
    x = adversarial(kind, shape)
    found = lt.tensor(x).sum(axes).numpy()
    exact = x.sum(axes, dtype=np.float64)
    if axes is None:
        exact = np.asarray(math.fsum(x.ravel().tolist()))
    assert np.max(np.abs(found - exact) / np.abs(x).sum(axes, dtype=np.float64)) <= 100 * UNIT


def test_strided_sums_means_variances_and_products_of_vectors_are_as_exact() -> None:
    x = adversarial("equal", (3_000_001, 2))
    column, value = lt.tensor(x)[:, 1], float(x[0, 0])
    near = {"strided sum": (column.sum(), len(x) * value), "mean": (column.mean(), value),
            "dot": ((column * column).sum(), len(x) * value * value),
            "vector product": (column @ column, len(x) * value * value)}
    for name, (found, exact) in near.items():
        assert abs(found.item() - exact) <= 100 * UNIT * exact, name
    assert abs((lt.tensor(x) + 1.0).var().item()) <= (100 * UNIT * 1.1) ** 2


@st.composite
def shapes_and_axes(draw: st.DrawFn) -> tuple[tuple[int, ...], tuple[int, ...]]:
    rank = draw(st.integers(1, 3))
    largest = {1: 200_000, 2: 1000, 3: 90}[rank]  # squares sum to less than 2**24
    shape = tuple(draw(st.integers(1, largest)) for _ in range(rank))
    axes = draw(st.sets(st.integers(0, rank - 1), min_size=1))
    return shape, tuple(sorted(axes))


@pytest.mark.slow
@given(given_=shapes_and_axes(), seed=st.integers(0, 9), flip=st.booleans())
def test_sums_that_need_no_rounding_are_exact(
        given_: tuple[tuple[int, ...], tuple[int, ...]], seed: int, flip: bool) -> None:
    shape, axes = given_
    values = np.random.default_rng(seed).integers(-4, 5, shape)
    x = lt.tensor(values.astype(np.float32))
    y = x.flip(0).permute(*reversed(range(len(shape)))) if flip else x
    mirrored = tuple(len(shape) - 1 - a for a in axes) if flip else axes
    total, squares, most = y.sum(mirrored), (y * y).sum(mirrored), y.amax(mirrored)
    offset = (y - most.reshape([1 if a in mirrored else n for a, n in enumerate(y.shape)]))
    results = total, squares, most, offset.sum(mirrored)
    lt.realize(*results)
    expected = values[::-1].T if flip else values
    sums, greatest = expected.sum(mirrored), expected.max(mirrored)
    count = math.prod(shape[a] for a in axes)
    for found, right in zip(results, (sums, (expected**2).sum(mirrored), greatest,
                                      sums - count * greatest), strict=True):
        np.testing.assert_array_equal(found.numpy(), right)


def array(slot: int, *shape: int) -> Node:
    size = math.prod(shape)
    return reshape(make(Op.BUFFER, dt.float32, (), Slot(slot, size)), shape)


@given(extents=st.lists(st.integers(2, 20_000), min_size=1, max_size=3), data=st.data())
def test_no_accumulator_adds_more_than_so_many_numbers_in_a_row(
        extents: list[int], data: st.DataObject) -> None:
    x = array(1, *extents)
    sink = lower(Kernel("k", (reduce(x, Op.ADD, range(len(extents))),), ()))
    steps = {r: data.draw(st.sampled_from([1, 3, 8, 32])) for r in ranges_of([sink])}
    found = blocked_sums(sink, steps.__getitem__, {})
    row = 1
    for r in sorted(steps, key=lambda r: r.arg.order, reverse=True):
        count = -(-r.arg.extent // steps[r])
        loops = found.get(r, ((count, "reduce"),))
        assert math.prod(n for n, _ in loops) >= count
        for extent, kind in reversed(loops):
            row = extent if kind == "block" else row * extent
            assert row <= LONGEST


@pytest.mark.parametrize("count", [513, 1024, 4096, 100_000])
def test_blocks_that_divide_a_sum_need_no_mask(count: int) -> None:
    sink = lower(Kernel("k", (reduce(array(1, count * 32), Op.ADD, [0]),), ()))
    loops, = blocked_sums(sink, lambda r: 32, {}).values()
    assert math.prod(n for n, _ in loops) == count


def reductions(kernel: tuple[Node, ...]) -> int:
    """How many loop nests of reductions a kernel has, before they are split."""
    sink = merge_ranges(lower(Kernel("k", kernel, ())))
    return len({r.arg.order[0] for r in ranges_of([sink]) if r.arg.kind == "reduce"})


def test_reductions_of_the_same_data_share_a_loop() -> None:
    x, y = array(4, 64, 1000), array(5, 64, 1000)
    squares = reduce(elementwise(Op.MUL, x, x), Op.ADD, [1])
    total, most = reduce(x, Op.ADD, [1]), reduce(x, Op.MAX, [1])
    product = reduce(elementwise(Op.MUL, x, y), Op.ADD, [1])
    assert reductions((total, squares, most)) == 1
    assert reductions((total, product)) == 1
    assert reductions((total, reduce(y, Op.ADD, [1]))) == 2  # each reads what is its own
    assert reductions((total, reduce(x, Op.ADD, [0]))) == 2


def test_a_reduction_that_needs_another_has_its_own_loop() -> None:
    x = array(4, 64, 1000)
    first, second = reduce(x, Op.ADD, [1]), reduce(x, Op.MAX, [1])
    third = reduce(elementwise(Op.MUL, x, expand(first, x.shape)), Op.ADD, [1])
    fourth = reduce(elementwise(Op.ADD, x, expand(second, x.shape)), Op.ADD, [1])
    assert reductions((first, fourth, second, third)) == 2
    kernel = Kernel("k", (first, fourth, second, third), ((dt.float32, 64 * 1000),))
    assert generate(kernel, AVX2).source


@pytest.mark.parametrize(("dtype", "less", "is_narrow"), [
    (dt.int16, 0, True), (dt.int16, 1, False), (dt.int16, -1, False), (dt.uint8, 255, True),
    (dt.uint16, 0, False), (dt.uint16, 1 << 15, True), (dt.int32, 0, False)])
def test_factors_are_narrow_if_all_their_values_fit_16_bits(
        dtype: dt.DType, less: int, is_narrow: bool) -> None:
    x = cast(make(Op.BUFFER, dtype, (), Slot(1, 40)), dt.int32)
    x = elementwise(Op.SUB, x, const(less, dt.int32, x.shape))
    y = cast(make(Op.BUFFER, dt.int16, (), Slot(2, 40)), dt.int32)
    total = reduce(elementwise(Op.MUL, x, y), Op.ADD, [0])
    sink = lower(Kernel("sum", (total,), ((dtype, 40), (dt.int16, 40))))
    node, = (n for n in toposort([sink]) if n.op is Op.ACCUMULATE)
    assert adds_narrow_products(node) == is_narrow
