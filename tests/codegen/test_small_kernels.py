"""All small kernels of a kind give on the cpu what NumPy says, and stay inside their arguments:
what random programs meet only now and then."""
from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pytest
from c_kernels import leaf
from kernel_checks import run_all
from slow_rows import slow_but

from lazyten.ir import dtype as dt
from lazyten.ir import ops
from lazyten.ir.dtype import DType
from lazyten.ir.evaluation import evaluate
from lazyten.ir.kernel import Kernel
from lazyten.ir.movement import Shape
from lazyten.ir.node import Node, cast, const, elementwise, expand, iota, move, reduce, reshape
from lazyten.ir.ops import Op

Array = np.ndarray[Any, Any]


def check(outputs: Sequence[Node], values: Array, dtype: DType = dt.int32,
          checked: bool = True) -> None:
    """Each output, over argument 1, alone in a kernel that looks where it reads and writes."""
    stored = values.astype(dtype.numpy).reshape(-1)
    found = run_all("cpu", [Kernel("small", (node,), ((dtype, stored.size),),
                                   checks=("bounds",) if checked else ()) for node in outputs],
                    [[stored]] * len(outputs))
    for node, (got,) in zip(outputs, found, strict=True):
        expected, = evaluate([node], {1: stored})
        np.testing.assert_array_equal(got.reshape(node.shape), expected, str(node))


# ---- comparisons ---------------------------------------------------------------------------------

@pytest.mark.parametrize("dtype", [dt.int64, dt.int32, dt.int8, dt.uint8], ids=lambda t: t.name)
def test_integers_are_between_any_two_limits(dtype: DType) -> None:
    """In vectors and one by one; what is -1 < x and x < 5 is one comparison without signs."""
    for size in (3, 64):
        values = np.arange(-size, size)[::2 if size > 3 else 1]
        x = leaf(1, (values.size,), dtype)
        limits = [v for v in (-2, -1, 0, 5) if v >= dtype.min]
        check([cast(elementwise(Op.AND, elementwise(Op.CMPLT, const(low, dtype, x.shape), x),
                                elementwise(Op.CMPLT, y, const(high, dtype, x.shape))), dt.int32)
               for low in limits for high in limits for y in (x, move(Op.FLIP, x, (0,)))],
              values, dtype)


# ---- movements one after the other ---------------------------------------------------------------

def movements(shape: Shape) -> Iterator[tuple[Op, Any]]:
    """One movement of each kind for each axis, none of which leaves an axis empty."""
    none, whole = [(0, 0)] * len(shape), [(0, n) for n in shape]
    for axis, n in enumerate(shape):
        yield Op.FLIP, (axis,)
        yield Op.PAD, (*none[:axis], (1, 2), *none[axis + 1:])
        if n > 1:
            yield Op.SHRINK, (*whole[:axis], (1, n), *whole[axis + 1:])
        by = (axis + 1) % len(shape)
        if shape[by] <= n and by != axis:
            yield Op.SHEAR, (axis, by, -1, shape[by] - 1, n - shape[by] + 1)
    if len(shape) > 1:
        yield Op.PERMUTE, tuple(reversed(range(len(shape))))
    yield Op.RESHAPE, (math.prod(shape),)
    yield from ((Op.RESHAPE, (n, math.prod(shape) // n)) for n in (2, 3)
                if math.prod(shape) % n == 0)


def moved(x: Node, times: int) -> list[Node]:
    """What so many movements make of x."""
    found = [x]
    for _ in range(times):
        found = [move(op, y, arg) for y in found for op, arg in movements(y.shape)]
    return list(dict.fromkeys(found))


@pytest.mark.slow
def test_any_three_movements_one_after_the_other_are_right() -> None:
    values = np.arange(1, 7).reshape(2, 3)
    outputs = moved(leaf(1, (2, 3), dt.int32), 3)
    assert len(outputs) > 500
    check(outputs[::5], values, checked=False)


@pytest.mark.slow
def test_any_two_movements_of_a_computed_value_are_right_within_a_sum() -> None:
    values = np.arange(1, 7).reshape(2, 3)
    x = elementwise(Op.ADD, leaf(1, (2, 3), dt.int32), const(1, dt.int32, (2, 3)))
    outputs = [reduce(node, Op.ADD, [len(node.shape) - 1]) for node in moved(x, 2)]
    check(outputs, values)


# ---- one array under several masks ---------------------------------------------------------------

@pytest.mark.slow
def test_parts_of_an_array_with_zeros_around_are_told_apart_at_one_place() -> None:
    n = 21
    x = leaf(1, (n,), dt.int32)
    parts = [move(Op.PAD, move(Op.SHRINK, x, ((start, end),)), ((start, n - end),))
             for start, end in itertools.combinations((0, 1, 5, 20, 21), 2)]
    sums = [elementwise(Op.ADD, elementwise(Op.MUL, a, const(100, dt.int32, (n,))), b)
            for a, b in itertools.permutations(parts, 2)]
    check(sums[::3] + [reduce(y, Op.ADD, [0]) for y in sums[1::3]], np.arange(1, n + 1))


# ---- divided loops -------------------------------------------------------------------------------

DIVIDED = [(n, m) for n in range(3, 11) for m in range(2, n)]


def counted(n: int, op: Op, m: int) -> Node:
    return elementwise(op, iota(n), const(m, dt.INDEX, (n,)))


@pytest.mark.slow
@pytest.mark.parametrize("op", [Op.IDIV, Op.MOD], ids=lambda op: op.name)
def test_a_sum_over_quotients_or_remainders_takes_each_once(op: Op) -> None:
    """Also beside another loop, and of what is read there."""
    outputs = []
    for n, m in DIVIDED:
        divided = cast(counted(n, op, m), dt.int32)
        x = elementwise(Op.ADD, divided, leaf(1, (n,), dt.int32)) if n == 10 else divided
        outputs += [reduce(x, Op.ADD, [0]), reduce(x, Op.MAX, [0])]
    check([o for o in outputs if o.src[0].shape != (10,)], np.arange(10))
    check([o for o in outputs if o.src[0].shape == (10,)], np.arange(10))


@pytest.mark.slow
@pytest.mark.parametrize("across", [False, True])
def test_rows_that_repeat_are_multiplied_and_summed(across: bool) -> None:
    """Element i of the result is a sum over row i // m, or i % m: the output's loop is divided."""
    for n, m in DIVIDED:
        rows = -(-n // m) if not across else m
        x = leaf(1, (rows, 5), dt.int32)
        copies = (rows, m, 5) if not across else (-(-n // m), m, 5)
        x = reshape(x, (rows, 1, 5) if not across else (1, m, 5))
        wide = reshape(expand(x, copies), (copies[0] * m, 5))
        cut = move(Op.SHRINK, wide, ((0, n), (0, 5)))
        check([reduce(cut, Op.ADD, [1])], np.arange(rows * 5) % 7)


@pytest.mark.few(4)
@pytest.mark.parametrize("shape", slow_but(
    itertools.product((1, 3, 4), (5, 6, 8), (2, 3, 7)),
    *itertools.product((1, 4), (5, 8), (2, 7))), ids=str)
def test_a_sum_over_a_reshaped_axis_takes_each_element_once(shape: Shape) -> None:
    a, b, c = shape
    x = leaf(1, (a * b * c,), dt.int32)
    outputs = [reduce(reshape(x, s), Op.ADD, axes) for s in ((a * b, c), (a, b * c), (a, b, c))
               for rank in (1, 2) for axes in itertools.combinations(range(len(s)), rank)]
    check(outputs, np.arange(a * b * c))


# ---- neighbours, near and far --------------------------------------------------------------------

@pytest.mark.few(1)
@pytest.mark.parametrize("dtype", [dt.uint8, dt.int32, dt.float64], ids=lambda d: d.name)
def test_every_step_through_memory_is_taken_right(dtype: DType) -> None:
    """One of every k elements, from each of them on, either way."""
    outputs = []
    for k, count in itertools.product(range(1, 7), (5, 16, 33, 70)):
        rows = reshape(leaf(1, (420,), dtype), (420 // k, k))
        for first in range(k):
            part = move(Op.SHRINK, rows, ((1, min(1 + count, 420 // k)), (first, first + 1)))
            outputs.append(move(Op.FLIP, part, (0,)) if first % 2 else part)
    check(outputs, np.arange(420) % 250, dtype, checked=False)
    check(outputs[::5], np.arange(420) % 250, dtype)


# ---- several types and signs in one kernel -------------------------------------------------------

@pytest.mark.parametrize("source", dt.ARITHMETIC, ids=lambda d: d.name)
def test_conversions_to_several_types_are_told_apart(source: DType) -> None:
    x = leaf(1, (9,), source)
    total = const(0, dt.int64, (9,))
    for number, target in enumerate(dt.INTS):
        part = cast(cast(x, target), dt.int64)
        total = elementwise(Op.ADD, elementwise(Op.MUL, total, const(number + 2, dt.int64, (9,))),
                            part)
    values = np.array([0, 1, -1, 3, 100, -100, 127, 200, 255])
    if not source.is_float:
        values = values.astype(source.numpy)
    check([total], ops.encode(values.astype(source.compute), source), source)


@pytest.mark.parametrize("dtype", dt.FLOATS, ids=lambda d: d.name)
def test_zeros_of_both_signs_in_one_kernel_are_told_apart(dtype: DType) -> None:
    x = leaf(1, (40,), dtype)
    zeros = [const(z, dtype, x.shape) for z in (0.0, -0.0)]
    chosen = elementwise(Op.WHERE, elementwise(Op.CMPLT, x, zeros[0]), *zeros)
    stored = ops.encode((np.arange(40) - 20).astype(dtype.compute), dtype)
    (found,), = run_all("cpu", [Kernel("zeros", (chosen,), ((dtype, 40),))], [[stored]])
    signs = np.signbit(ops.decode(found, dtype))
    np.testing.assert_array_equal(signs, np.arange(40) >= 20)


# ---- index arithmetic that is computed -----------------------------------------------------------

@pytest.mark.few(2)
@pytest.mark.parametrize("power", range(26, 34))
def test_positions_beyond_32_bits_are_compared_right(power: int) -> None:
    step = 1 << power
    scaled = elementwise(Op.MUL, iota(32), const(step, dt.INDEX, (32,)))
    rows = elementwise(Op.ADD, expand(reshape(scaled, (1, 32)), (3, 32)),
                       expand(reshape(iota(3), (3, 1)), (3, 32)))
    limits = [sign * (n * step) + more for n in (1, 5, 31) for sign in (-1, 1) for more in (0, 1)]
    check([elementwise(Op.CMPLT, *pair) for limit in limits
           for pair in itertools.permutations((rows, const(limit, dt.INDEX, (3, 32))))],
          np.zeros(1), checked=False)


@pytest.mark.few(2)
@pytest.mark.parametrize("dtype", dt.INTS, ids=lambda d: d.name)
def test_integers_are_divided_by_constants_of_either_sign(dtype: DType) -> None:
    values = [0, 1, 2, 3, 7, 8, 9, int(dtype.max), int(dtype.max) - 1, int(dtype.min),
              int(dtype.min) + 1]
    values += [-1, -2, -3, -7, -8, -9] if dtype.kind == "i" else []
    x = leaf(1, (len(values),), dtype)
    divisors = [d for d in (1, 2, 3, 7, 8, -1, -2, -3, -8, 0, int(dtype.min), int(dtype.max))
                if dtype.min <= d <= dtype.max]
    check([elementwise(op, x, const(d, dtype, x.shape)) for d in divisors
           for op in (Op.IDIV, Op.MOD)], np.array(values, dtype.numpy), dtype)
