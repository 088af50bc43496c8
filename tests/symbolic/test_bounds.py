"""Bounds contain every value that an expression takes, and are no wider than a reader would say."""
from __future__ import annotations

import itertools

import numpy as np
import pytest
from example_counts import examples
from hypothesis import given
from hypothesis import strategies as st
from loop_nodes import loop, op
from loop_values import evaluate_at, grid

from lazyten.ir import dtype as dt
from lazyten.ir import ops
from lazyten.ir.arguments import Param
from lazyten.ir.dtype import DType
from lazyten.ir.inspection import dump
from lazyten.ir.kernel import Slot
from lazyten.ir.node import Node, cast, const, elementwise, index, make
from lazyten.ir.ops import Op
from lazyten.symbolic.bounds import bounds, limits

ARITHMETIC = (Op.ADD, Op.SUB, Op.MUL, Op.IDIV, Op.MOD, Op.MAX, Op.AND, Op.OR, Op.XOR,
              Op.SHL, Op.SHR)
INTS = (dt.int8, dt.uint8, dt.int16, dt.int64)


def loaded(dtype: DType) -> Node:
    return make(Op.LOAD, dtype, (make(Op.PARAM, dtype, (), Param(0, 9)), index(0)))


@st.composite
def integer_expressions(draw: st.DrawFn, ranges: list[Node]) -> Node:
    """Random arithmetic in one integer dtype, so narrow that it wraps, with bools beside it."""
    dtype = draw(st.sampled_from(INTS))
    constants = st.integers(int(dtype.min), int(dtype.max)) | st.integers(-9, 20)
    made = [cast(r, dtype) for r in ranges]
    bools = [const(True, dt.bool_)]
    for _ in range(draw(st.integers(1, 8))):
        a = draw(st.sampled_from(made))
        b = draw(st.sampled_from(made) | constants.map(lambda v: const(v, dtype)))
        p, q = draw(st.sampled_from(bools)), draw(st.sampled_from(bools))
        kind = draw(st.sampled_from(["binary", "unary", "cast", "compare", "logic", "where"]))
        if kind == "binary":
            made.append(op(draw(st.sampled_from(ARITHMETIC)), a, b))
        elif kind == "unary":
            made.append(op(draw(st.sampled_from([Op.NEG, Op.NOT])), a))
        elif kind == "cast":
            made.append(cast(cast(a, draw(st.sampled_from([dt.bool_, *INTS]))), dtype))
        elif kind == "compare":
            bools.append(op(draw(st.sampled_from([Op.CMPLT, Op.CMPNE])), a, b))
        elif kind == "logic":
            which = draw(st.sampled_from([Op.AND, Op.OR, Op.XOR, Op.MAX, Op.CMPLT, Op.CMPNE]))
            bools += [elementwise(which, p, q), elementwise(Op.NOT, p)]
        else:
            chosen = draw(st.sampled_from([a, op(Op.NOT, a)]))
            compared = draw(st.sampled_from([a, op(Op.NOT, a), made[-1]]))
            sides = draw(st.permutations([compared, const(draw(constants), dtype)]))
            p = elementwise(Op.AND, p, op(Op.CMPLT, *sides))
            made.append(elementwise(Op.WHERE, p, chosen, b))
    return draw(st.sampled_from([made[-1], bools[-1]]))


@given(data=st.data())
@examples(300)
def test_bounds_contain_every_value(data: st.DataObject) -> None:
    ranges = [loop(n, data.draw(st.sampled_from([1, 2, 5, 16, 60]))) for n in range(2)]
    root = data.draw(integer_expressions(ranges))
    found = bounds(root)
    assert found is not None
    values = evaluate_at(root, grid(ranges))
    assert found[0] <= int(values.min()) and int(values.max()) <= found[1], dump([root])


@given(data=st.data())
@examples(100)
def test_bounds_contain_every_value_of_data(data: st.DataObject) -> None:
    """Loaded values may be anything, so nearly everything wraps."""
    root = data.draw(integer_expressions([loop(0, 4)]))
    leaf = loaded(dt.INDEX)
    root = data.draw(integer_expressions([leaf, root if root.dtype is dt.INDEX else leaf]))
    edges = [int(d.min) for d in INTS] + [int(d.max) for d in INTS]
    known = {leaf: np.array([*edges, 0, 1, -1, 127, 128, 255], np.int64), loop(0, 4): np.array([3])}
    found = bounds(root)
    values = evaluate_at(root, known)
    assert found is not None and found[0] <= int(values.min()) and int(values.max()) <= found[1]


@pytest.mark.few(14)
@pytest.mark.parametrize("which", [*ARITHMETIC, Op.CMPLT, Op.CMPNE], ids=lambda op: op.name)
@pytest.mark.parametrize("dtype", [dt.int64, dt.int8], ids=lambda d: d.name)
def test_bounds_contain_every_value_of_every_two_small_intervals(which: Op, dtype: DType) -> None:
    """Ends that just meet, and intervals of one number, are there too."""
    intervals = [(low, high) for low in range(-3, 5) for high in range(low, 5)]
    for (a, b), (c, d) in itertools.product(intervals, repeat=2):
        x, y = (op(Op.ADD, cast(loop(n, high - low + 1), dtype), low)
                for n, (low, high) in enumerate(((a, b), (c, d))))
        found = bounds(elementwise(which, x, y))
        values = ops.evaluate(which, dt.bool_ if which in (Op.CMPLT, Op.CMPNE) else dtype,
                              np.meshgrid(np.arange(a, b + 1).astype(dtype.numpy),
                                          np.arange(c, d + 1).astype(dtype.numpy)), [dtype, dtype])
        assert found is not None
        assert found[0] <= int(values.min()) and int(values.max()) <= found[1], (a, b, c, d)


@pytest.mark.parametrize("combiner", [Op.ADD, Op.MAX, Op.MUL], ids=lambda op: op.name)
def test_bounds_contain_every_value_of_a_reduction(combiner: Op) -> None:
    function = {Op.ADD: np.add, Op.MAX: np.maximum, Op.MUL: np.multiply}[combiner]
    for low, high, count in itertools.product(range(-3, 3), range(-3, 3), range(1, 5)):
        if low <= high:
            value = op(Op.ADD, loop(0, high - low + 1), low)
            found = bounds(make(Op.ACCUMULATE, dt.INDEX, (value, loop(1, count)), combiner))
            values = [function.reduce([v] * count) for v in range(low, high + 1)]
            assert found is not None and found[0] <= min(values) and max(values) <= found[1]


i, j = loop(0, 10), loop(1, 8)
byte = loaded(dt.uint8)
anything = loaded(dt.int64)
inverse = op(Op.NOT, anything)
inside = elementwise(Op.AND, op(Op.CMPLT, -1, anything), op(Op.CMPLT, anything, 9))
clamped = elementwise(Op.WHERE, inside, anything, index(0))
twice = elementwise(Op.AND, inside, op(Op.CMPLT, clamped, 5))

TIGHT: list[tuple[Node, tuple[int, int]]] = [
    (i, (0, 9)), (index(-4), (-4, -4)), (op(Op.ADD, i, j), (0, 16)), (op(Op.SUB, i, j), (-7, 9)),
    (op(Op.MUL, i, -3), (-27, 0)), (op(Op.MUL, op(Op.SUB, i, 5), op(Op.SUB, j, 5)), (-20, 25)),
    (op(Op.NEG, i), (-9, 0)), (op(Op.NOT, i), (-10, -1)), (op(Op.IDIV, i, 4), (0, 2)),
    (op(Op.IDIV, op(Op.SUB, i, 5), 4), (-2, 1)), (op(Op.IDIV, i, 0), (0, 9)),
    (op(Op.MOD, i, 4), (0, 3)), (op(Op.MOD, i, 40), (0, 9)),
    (op(Op.MOD, op(Op.ADD, i, 40), 64), (40, 49)),
    (op(Op.MOD, i, -4), (-3, 0)), (op(Op.MAX, i, 4), (4, 9)), (op(Op.AND, i, 5), (0, 5)),
    (op(Op.OR, i, 16), (16, 31)), (op(Op.XOR, i, 3), (0, 15)), (op(Op.SHL, i, 2), (0, 36)),
    (op(Op.SHR, i, 1), (0, 4)), (op(Op.CMPLT, i, 10), (1, 1)), (op(Op.CMPLT, i, 9), (0, 1)),
    (op(Op.CMPNE, i, 10), (1, 1)), (op(Op.CMPNE, i, i), (0, 1)), (cast(i, dt.int8), (0, 9)),
    (cast(i, dt.bool_), (0, 1)), (cast(op(Op.ADD, i, 1), dt.bool_), (1, 1)),
    (elementwise(Op.WHERE, op(Op.CMPLT, i, 3), j, op(Op.NEG, j)), (-7, 7)),
    (clamped, (0, 8)), (elementwise(Op.WHERE, twice, anything, index(0)), (0, 4)),
    (elementwise(Op.WHERE, inside, inverse, index(-3)), (-9, -1)),
    (elementwise(Op.WHERE, op(Op.CMPLT, inverse, index(-5)), anything, index(0)),
     (0, limits(dt.int64)[1])),
    (byte, (0, 255)), (op(Op.ADD, byte, 1), (0, 255)), (op(Op.IDIV, byte, 2), (0, 127)),
    (cast(cast(byte, dt.INDEX), dt.int8), (-128, 127)),
    (make(Op.ACCUMULATE, dt.INDEX, (op(Op.SUB, i, j), j), Op.ADD), (-56, 72)),
    (make(Op.ACCUMULATE, dt.INDEX, (op(Op.SUB, i, j), j), Op.MAX), (-7, 9)),
]


@pytest.mark.parametrize(("node", "expected"), TIGHT, ids=range(len(TIGHT)))
def test_bounds_are_tight(node: Node, expected: tuple[int, int]) -> None:
    assert bounds(node) == expected


def test_an_operation_that_may_wrap_has_the_bounds_of_its_dtype() -> None:
    small = cast(loop(2, 100), dt.int8)
    assert bounds(op(Op.ADD, small, 28)) == (28, 127)
    assert bounds(op(Op.ADD, small, 29)) == limits(dt.int8)
    assert bounds(op(Op.NEG, loaded(dt.int64))) == limits(dt.int64)


def test_floats_have_no_bounds_but_comparisons_of_them_do() -> None:
    x = loaded(dt.float32)
    assert bounds(x) is None
    assert bounds(elementwise(Op.CMPLT, x, x)) == (0, 1)
    assert bounds(cast(x, dt.int8)) == limits(dt.int8)


def test_a_long_chain_does_not_meet_the_recursion_limit() -> None:
    total = i
    for _ in range(20_000):
        total = op(Op.ADD, total, j)
    assert bounds(total) == (0, 9 + 7 * 20_000)


@pytest.mark.parametrize(("move", "arg", "expected"), [
    (Op.PAD, ((1, 0),), (0, 8)), (Op.FLIP, (0,), (3, 8)), (Op.EXPAND, (6,), (3, 8)),
    (Op.RESHAPE, (2, 3), (3, 8))])
def test_movements_keep_bounds_and_padding_adds_zero(
        move: Op, arg: object, expected: tuple[int, int]) -> None:
    x = make(Op.BUFFER, dt.uint8, (), Slot(0, 1 if move is Op.EXPAND else 6))
    limited = elementwise(Op.ADD, elementwise(Op.MOD, x, const(6, dt.uint8, x.shape)),
                          const(3, dt.uint8, x.shape))
    assert bounds(make(move, dt.uint8, (limited,), arg)) == expected
