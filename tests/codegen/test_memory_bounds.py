"""Compiled kernels touch no byte outside their arguments.

Every array ends, or starts, at a page that may not be read or written.
"""
from __future__ import annotations

import sys

import numpy as np
import pytest
from example_counts import examples
from graphs import SIZES, arrays, expressions
from guarded_memory import check, leaf, run_guarded
from hypothesis import given
from hypothesis import strategies as st
from slow_rows import slow_but

from lazyten.ir import dtype as dt
from lazyten.ir import ops
from lazyten.ir.dtype import DType
from lazyten.ir.kernel import Given, Kernel
from lazyten.ir.node import elementwise, make, move, reduce, reshape
from lazyten.ir.ops import Op
from lazyten.runtimes.cpu.cpu import CpuRuntime
from lazyten.runtimes.host.processors import PROCESSORS

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="guards pages with POSIX mprotect")


@pytest.mark.parametrize("at_end", [True, False])
@pytest.mark.parametrize("dtype", slow_but([dt.float32, dt.int8, dt.float64, dt.bfloat16],
                                           dt.float32, dt.int8), ids=lambda d: d.name)
@given(data=st.data())
@examples(15)
def test_random_kernels_stay_inside_their_arguments(dtype: DType, at_end: bool,
                                                    data: st.DataObject) -> None:
    shapes = data.draw(st.lists(st.lists(SIZES, min_size=1, max_size=3).map(tuple), min_size=1,
                                max_size=2))
    shapes = [s for s in shapes if 0 < np.prod(s) <= 2000] or [(3, 4)]
    values = [ops.encode(data.draw(arrays(dtype, s)), dtype) for s in shapes]
    node = data.draw(expressions(dtype, [leaf(1 + i, s, dtype) for i, s in enumerate(shapes)]))
    if node.numel:
        check(node, values, [dtype] * len(values), at_end)


@pytest.mark.parametrize("at_end", [True, False])
@pytest.mark.parametrize("size", [1, 3, 7, 8, 9, 15, 17, 31, 33, 100])
def test_tails_of_reductions_and_products_stay_inside(size: int, at_end: bool) -> None:
    rng = np.random.default_rng(size)
    a = rng.normal(size=(5, size)).astype(np.float32)
    b = rng.normal(size=(size, 7)).astype(np.float32)
    rows, columns = leaf(1, (5, 1, size), dt.float32), leaf(2, (size, 7), dt.float32)
    columns = make(Op.PERMUTE, dt.float32, (columns,), (1, 0))
    wide = [make(Op.EXPAND, dt.float32, (x,), (5, 7, size))
            for x in (rows, reshape(columns, (1, 7, size)))]
    product = reduce(make(Op.MUL, dt.float32, tuple(wide)), Op.ADD, (2,))
    check(product, [a, b], [dt.float32] * 2, at_end)
    check(reduce(leaf(1, (5, size), dt.float32), Op.MAX, (0, 1)), [a], [dt.float32], at_end)


@pytest.mark.few(2)
@pytest.mark.parametrize("at_end", [True, False])
@pytest.mark.parametrize("dtype", slow_but([dt.float32, dt.int8, dt.float64, dt.bool_],
                                           dt.float32, dt.int8), ids=lambda d: d.name)
@given(count=st.integers(1, 70), step=st.integers(2, 5), rows=st.integers(1, 3), data=st.data())
@examples(15)
def test_every_nth_element_is_read_inside(dtype: DType, at_end: bool, count: int, step: int,
                                          rows: int, data: st.DataObject) -> None:
    first = data.draw(st.integers(0, step - 1))
    most = 2 if dtype is dt.bool_ else 97
    values = np.arange(rows * count * step).reshape(rows, count, step) % most
    x = leaf(1, (rows, count, step), dtype)
    part = move(Op.SHRINK, x, ((0, rows), (0, count), (first, first + 1)))
    if data.draw(st.booleans()):
        part = move(Op.FLIP, part, (1,))
    node = elementwise(Op.NOT if dtype is dt.bool_ else Op.NEG, part)
    check(node, [ops.encode(values.astype(dtype.compute), dtype)], [dtype], at_end)


@pytest.mark.few(3)
@pytest.mark.parametrize("at_end", [True, False])
@pytest.mark.parametrize("dtype", [dt.float32, dt.float64, dt.int32, dt.bfloat16],
                         ids=lambda d: d.name)
@given(size=st.integers(1, 70), step=st.integers(2, 3), rows=st.integers(1, 3), data=st.data())
@examples(15)
def test_every_nth_element_of_what_is_padded_is_read_inside(
        dtype: DType, at_end: bool, size: int, step: int, rows: int, data: st.DataObject) -> None:
    """Lanes that the padding masks off, and what lies between lanes, are not touched."""
    before = data.draw(st.integers(1, 2 * step))
    after = data.draw(st.integers(0, step)) // step * step + -(size + before) % step
    values = np.arange(1, 1 + rows * size).reshape(rows, size) % 97
    padded = move(Op.PAD, leaf(1, (rows, size), dtype), ((0, 0), (before, after)))
    count = (size + before + after) // step
    first = data.draw(st.integers(0, step - 1))
    part = move(Op.SHRINK, reshape(padded, (rows, count, step)),
                ((0, rows), (0, count), (first, first + 1)))
    if data.draw(st.booleans()):
        part = move(Op.FLIP, part, (1,))
    check(elementwise(Op.NEG, part), [ops.encode(values.astype(dtype.compute), dtype)], [dtype],
          at_end)


@pytest.mark.parametrize("at_end", [True, False])
@pytest.mark.parametrize("decisions", ["vector(i0:8)", "vector(i1:8)", "vector(i0:8) tile(i1:2)"])
@pytest.mark.parametrize("reverse", [False, True])
def test_a_vector_past_the_end_of_its_axis_touches_nothing_there(
        decisions: str, at_end: bool, reverse: bool) -> None:
    """Neither where its lanes are neighbours in memory, nor where they lie apart."""
    values = np.arange(6 * 7, dtype=np.float32).reshape(7, 6)
    node = make(Op.PERMUTE, dt.float32, (leaf(1, (7, 6), dt.float32),), (1, 0))
    if reverse:
        node = make(Op.FLIP, dt.float32, (node,), (0, 1))
    node = elementwise(Op.ADD, node, node)
    kernel = Kernel("guarded", (node,), ((dt.float32, values.size),), decisions=Given(decisions))
    found = run_guarded(CpuRuntime(0, PROCESSORS["x86-64-v3"].target), kernel, [values], at_end)
    np.testing.assert_array_equal(found, 2 * (values.T[::-1, ::-1] if reverse else values.T))
