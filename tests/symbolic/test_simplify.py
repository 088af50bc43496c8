"""simplify: the same values from less, for index expressions row by row and at random."""
from __future__ import annotations

import itertools
import math
import operator
from collections.abc import Callable

import numpy as np
import pytest
from example_counts import examples
from hypothesis import given
from hypothesis import strategies as st
from loop_values import Values, evaluate_at, grid

from lazyten.ir import dtype as dt
from lazyten.ir import node as nodes
from lazyten.ir import ops
from lazyten.ir.arguments import Param, Range
from lazyten.ir.dtype import Scalar
from lazyten.ir.inspection import dump
from lazyten.ir.node import Node, const, elementwise, index, make, set_simple, toposort
from lazyten.ir.ops import Op
from lazyten.symbolic.simplify import simplify, simplify_all

INTEGERS = (dt.int8, dt.uint8, dt.int16, dt.uint16, dt.int32, dt.int64)
INT64 = (-(1 << 63), (1 << 63) - 1)


class Expression:
    """A node with Python's operators, to write expressions as they are read."""

    def __init__(self, node: Node) -> None:
        self.node = node

    def _with(self, op: Op, other: Expression | Scalar, swap: bool = False) -> Expression:
        right = other.node if isinstance(other, Expression) else const(other, self.node.dtype)
        pair = (right, self.node) if swap else (self.node, right)
        return Expression(elementwise(op, *pair))

    def __add__(self, other: Expression | Scalar) -> Expression:
        return self._with(Op.ADD, other)

    def __sub__(self, other: Expression | Scalar) -> Expression:
        return self._with(Op.SUB, other)

    def __rsub__(self, other: Scalar) -> Expression:
        return self._with(Op.SUB, other, swap=True)

    def __mul__(self, other: Expression | Scalar) -> Expression:
        return self._with(Op.MUL, other)

    __rmul__ = __mul__
    __radd__ = __add__

    def __floordiv__(self, other: Expression | Scalar) -> Expression:
        return self._with(Op.IDIV, other)

    def __mod__(self, other: Expression | Scalar) -> Expression:
        return self._with(Op.MOD, other)

    def __lshift__(self, other: Expression | Scalar) -> Expression:
        return self._with(Op.SHL, other)

    def __lt__(self, other: Expression | Scalar) -> Expression:
        return self._with(Op.CMPLT, other)

    def __gt__(self, other: Expression | Scalar) -> Expression:
        return self._with(Op.CMPLT, other, swap=True)

    def __and__(self, other: Expression | Scalar) -> Expression:
        return self._with(Op.AND, other)

    def __or__(self, other: Expression | Scalar) -> Expression:
        return self._with(Op.OR, other)

    def __neg__(self) -> Expression:
        return Expression(elementwise(Op.NEG, self.node))

    def __invert__(self) -> Expression:
        return Expression(elementwise(Op.NOT, self.node))

    def differs(self, other: Expression | Scalar) -> Expression:
        return self._with(Op.CMPNE, other)

    def __str__(self) -> str:
        return infix(self.node)


SYMBOLS = {Op.ADD: "+", Op.SUB: "-", Op.MUL: "*", Op.IDIV: "//", Op.MOD: "%", Op.CMPLT: "<",
           Op.CMPNE: "!=", Op.AND: "&", Op.OR: "|"}
PREFIXES = {Op.NEG: "-", Op.NOT: "~"}


def infix(node: Node, inside: bool = False) -> str:
    """A node as Python would write it, with every pair of parentheses but the outer one."""
    if node.op is Op.CONST:
        return str(node.value)
    if node.op is Op.RANGE:
        return "ijkrs"[node.arg.order[0]]
    if node.op is Op.LOAD:
        return "x"
    if node.op in SYMBOLS:
        text = f" {SYMBOLS[node.op]} ".join(infix(s, True) for s in node.src)
        return f"({text})" if inside else text
    if node.op in PREFIXES:
        return PREFIXES[node.op] + infix(node.src[0], True)
    return f"{node.op.name.lower()}({', '.join(map(infix, node.src))})"


def loop(number: int, extent: int) -> Expression:
    return Expression(make(Op.RANGE, dt.INDEX, (), Range((number,), extent, "loop")))


def loaded(dtype: dt.DType = dt.INDEX) -> Expression:
    param = make(Op.PARAM, dtype, (), Param(0, 8))
    return Expression(make(Op.LOAD, dtype, (param, index(0))))


def maximum(a: Expression, b: Expression | Scalar) -> Expression:
    return a._with(Op.MAX, b)


def choose(condition: Expression, then: Expression, otherwise: Expression) -> Expression:
    return Expression(elementwise(Op.WHERE, condition.node, then.node, otherwise.node))


i, j, k, r = loop(0, 10), loop(1, 8), loop(2, 100), loop(3, 28)
s = loop(4, 4)
x = loaded()

ROWS: list[tuple[Expression, str]] = [
    # sums
    (i + 0, "i"), (i * 1, "i"), (i * 0, "0"), (i - i, "0"), (i + i, "i * 2"), (j + i, "i + j"),
    (2 * (i + 3) + 4, "(i * 2) + 10"), (3 * i - 2 * i, "i"), (5 - (2 - i), "i + 3"),
    ((i + j) - (i - j), "j * 2"), (i << 3, "i * 8"), (~(~i), "i"), (-1 - i, "~i"),
    (4 * (i * 8 + j) - 32 * i, "j * 4"),
    # quotients
    (i // 1, "i"), (i // 10, "0"), (i // 16, "0"), (8 * i // 8, "i"), ((8 * i + j) // 8, "i"),
    ((8 * i + j + 8) // 8, "i + 1"), ((28 * i + r) // 56, "i // 2"), ((6 * i) // 4, "(i * 3) // 2"),
    ((k // 4) // 5, "k // 20"), (((k // 4) + 3) // 5, "(k + 12) // 20"),
    ((k + 9) // 8, "((k + 1) // 8) + 1"),
    ((k - 3) // 8, "((k + 5) // 8) + -1"), ((16 * i + k) // 8, "(i * 2) + (k // 8)"),
    ((k % 20) // 4, "(k // 4) % 5"), ((64 * i + 8 * j + s) // 16, "(i * 4) + (j // 2)"),
    ((8 * i + j - 1) // 8, "(i + ((j + 7) // 8)) + -1"),
    # remainders
    (i % 1, "0"), (i % 10, "i"), (8 * i % 8, "0"), ((8 * i + j) % 8, "j"),
    ((6 * i + 4 * j) % 8, "(((i * 3) + (j * 2)) % 4) * 2"),
    ((4 * i + s) % 8, "((i % 2) * 4) + s"), ((k % 24) % 8, "k % 8"), ((k % 8) % 24, "k % 8"),
    ((9 * i + j) % 8, "(i + j) % 8"),
    ((7 - j) % 8, "7 - j"), ((7 * j + 7) % 8, "7 - j"), ((k + 800) % 8, "k % 8"),
    ((k - 3) % 8, "(k + 5) % 8"),
    ((3 * (k % 24) + i) % 8, "(i + (k * 3)) % 8"), ((k + 98) % 100, "(k + 98) % 100"),
    (99 - k % 100, "99 - k"),
    # quotients and remainders together
    (8 * (k // 8) + k % 8, "k"), (k % 8 + 8 * (k // 8) + i, "i + k"),
    (24 * (k // 8) + 3 * (k % 8), "k * 3"),
    ((k // 4) % 5 * 4 + k % 4, "k % 20"), (k // 20 * 20 + (k // 4) % 5 * 4 + k % 4, "k"),
    (k - 8 * (k // 8), "k % 8"), ((x // 8) * 8 + x % 8, "x"), (x // 4 % 6 * 4 + x % 4, "x % 24"),
    (((k + 9) // 8) * 8 + (k + 1) % 8, "k + 9"), ((k // 8) * 7 + k % 8, "((k // 8) * 7) + (k % 8)"),
    ((k + i) // 8 * 8 + k % 8, "(k % 8) + (((i + k) // 8) * 8)"),
    # where wrapping could matter
    ((x * 2) // 2, "(x * 2) // 2"), ((x + 1) // 1, "x + 1"), ((8 * x + 8) % 8, "((x * 8) + 8) % 8"),
    (x + 1 < x, "(x + 1) < x"),
    ((x // 8) // 4, "x // 32"), ((x % 24) % 8, "x % 8"),
    ((x // 4 + 3) // 5, "((x // 4) + 3) // 5"),
    ((x // 4 + 3) % 6 * 4 + x % 4, "((((x // 4) + 3) % 6) * 4) + (x % 4)"),
    ((3 * (x % 24) + i) % 8, "(((x % 24) * 3) + i) % 8"),
    # comparisons
    (i < 10, "True"), (i < 9, "i < 9"), (2 * i + 3 < 8, "i < 3"), (-i < -2, "2 < i"),
    (i + 3 < j + 5, "i < (j + 2)"),
    (i < i + 1, "True"), (28 * i + r < 112, "i < 4"), (28 * i + r < 100, "((i * 28) + r) < 100"),
    (k // 8 < 3, "k < 24"),
    (k // 8 > 3, "31 < k"), (2 * i - 2 * j < 3, "i < (j + 2)"), (i > -1, "True"),
    (i + j < 17, "True"),
    ((2 * i).differs(3), "True"), ((2 * i).differs(4), "i != 2"), (i.differs(i), "False"),
    (i.differs(j), "i != j"),
    ((j + 2).differs(i + 4), "i != (j + -2)"), (~(i < 3), "2 < i"),
    # conjunctions
    ((i < 5) & (i < 3), "i < 3"), ((i < 3) & (i < 5), "i < 3"), ((i > 2) & (i > 4), "4 < i"),
    ((i > 4) & (i < 5), "False"), ((i < 5) | (i < 3), "i < 5"), ((i < 5) | (i > 3), "True"),
    ((i > 2) & (j < 3) & (i < 11) & (i > 3), "(3 < i) & (j < 3)"), ((i < 3) & (2 * i < 5), "i < 3"),
    ((i < 3) | (i > 4), "(i < 3) | (4 < i)"), ((i - j < 3) & (i < j + 2), "i < (j + 2)"),
    # choices
    (maximum(i, -1), "i"), (maximum(i, 9), "9"), (maximum(i + 1, i), "i + 1"),
    (maximum(i, 4), "max(i, 4)"),
    (choose(i < 10, i, j), "i"), (choose(i < 3, j, j), "j"), (choose(i > 9, i, j), "j"),
    (choose(i < 3, choose(2 * i < 5, i, j), k), "where(i < 3, i, k)"),
]


@pytest.mark.parametrize(("before", "after"), ROWS, ids=lambda v: str(v) or "-")
def test_index_expressions_simplify_as_they_would_by_hand(before: Expression, after: str) -> None:
    assert infix(simplify(before.node)) == after


def assert_simple(node: Node) -> None:
    """It is simplified to itself, and not because it is remembered."""
    for kept in [*nodes._interned.values()]:
        if (one := kept()) is not None:
            set_simple(one, None)
    again = simplify(node)
    assert again is node, f"{infix(node)} becomes {infix(again)}"


@pytest.mark.parametrize("before", [row[0] for row in ROWS], ids=str)
def test_a_simplified_expression_is_simplified_to_itself(before: Expression) -> None:
    assert_simple(simplify(before.node))


# ---- at random -----------------------------------------------------------------------------------

FACTORS = st.integers(-4, 33)
DIVISORS = st.integers(-1, 12) | st.sampled_from([16, 24, 32, 64])


@st.composite
def index_expressions(draw: st.DrawFn, ranges: list[Expression]) -> Expression:
    """Sums, quotients and remainders of some ranges, the parts shared now and then."""
    made = list(ranges)
    for _ in range(draw(st.integers(1, 8))):
        a, b = draw(st.sampled_from(made)), draw(st.sampled_from(made))
        kind = draw(st.sampled_from(["+", "-", "*", "//", "%", "split", "max", "where"]))
        c, d = draw(FACTORS), draw(DIVISORS)
        if kind == "+":
            made.append(a * c + b + draw(FACTORS))
        elif kind == "-":
            made.append(a - b * c)
        elif kind == "*":
            made.append(a * b)
        elif kind == "split":
            made += [a // d * (d * c), a % d * c, a // d % 5 * (d * c)]
        elif kind == "max":
            made.append(maximum(a, b + c))
        elif kind == "where":
            made.append(choose(draw(conditions(made)), a, b))
        else:
            made.append(a // d if kind == "//" else a % d)
    return made[-1] + draw(st.sampled_from(made)) + draw(st.sampled_from(made))


@st.composite
def conditions(draw: st.DrawFn, made: list[Expression]) -> Expression:
    """A few comparisons."""
    parts = []
    for _ in range(draw(st.integers(1, 3))):
        a, b = draw(st.sampled_from(made)), draw(st.sampled_from(made))
        limit = draw(FACTORS)
        parts.append(draw(st.sampled_from([a < limit, a > limit, a * limit < b, a.differs(limit),
                                           ~(a < b + limit), (a + limit).differs(b)])))
    result = parts[0]
    for part in parts[1:]:
        result = result & part if draw(st.booleans()) else result | part
    return result


def assert_same_values(root: Node, points: Values) -> None:
    np.testing.assert_array_equal(evaluate_at(simplify(root), points), evaluate_at(root, points),
                                  err_msg=dump([root]))


@given(data=st.data())
@examples(100)
def test_random_index_expressions_keep_their_values(data: st.DataObject) -> None:
    ranges = [loop(n, data.draw(st.sampled_from([1, 2, 3, 4, 6, 7, 8, 12, 20]))) for n in range(3)]
    index_expression = data.draw(index_expressions(ranges))
    condition = data.draw(conditions([*ranges, index_expression]))
    points = grid([r.node for r in ranges])
    for root in (index_expression.node, condition.node):
        assert_same_values(root, points)


def small_sums() -> list[Expression]:
    """Sums of two short loops whose factors may divide each other, or turn them round."""
    return [a * loop(0, 2) + b * loop(1, 3) + c
            for a, b, c in itertools.product((-3, -1, 1, 2, 4), (-2, 0, 1, 3), (-2, 0, 1))]


SMALL = grid([loop(0, 2).node, loop(1, 3).node])


@pytest.mark.parametrize("constant", range(-3, 6))
def test_every_small_sum_divided_or_compared_keeps_its_values(constant: int) -> None:
    for x in small_sums():
        for made in (x // constant, x % constant, x < constant, x > constant, x.differs(constant),
                     x._with(Op.MAX, constant), (x < constant) & (x > constant - 2),
                     (x < constant) & (x < 1), (x < constant) | (x < 1), (x // 4) % constant,
                     (x % 6) // constant, (x // 2) < constant):
            assert_same_values(made.node, SMALL)


def test_every_small_sum_compared_with_another_keeps_its_values() -> None:
    for x, y in itertools.product(small_sums()[::3], small_sums()[::2]):
        for made in (x._with(Op.MAX, y), x < y, x.differs(y)):
            assert_same_values(made.node, SMALL)


@pytest.mark.parametrize("divisor", range(1, 5))
def test_every_sum_of_a_quotient_and_a_remainder_keeps_its_values(divisor: int) -> None:
    """Those that are one number again, and those that only look alike."""
    numbers = [2 * loop(0, 2) + loop(1, 3), 3 * loop(0, 2) + loop(1, 3) + 1]
    for x, y in itertools.product(numbers, repeat=2):
        for other, factor, shift in itertools.product(range(1, 5), (-2, 1, 2, 3, 4), (0, 1)):
            for made in (factor * (x // divisor) + (y + shift) % other,
                         factor * ((x // divisor) % 2) + y % other,
                         x - factor * (y // divisor) + shift):
                assert_same_values(made.node, SMALL)


@given(data=st.data())
@examples(100)
def test_index_expressions_of_any_int64_keep_their_values(data: st.DataObject) -> None:
    """Nothing is known of loaded values, so wrapping must be reckoned with."""
    loads = [x, Expression(make(Op.LOAD, dt.INDEX, (x.node.src[0], index(1))))]
    root = data.draw(index_expressions([*loads, loop(0, 4)])).node
    some = st.integers(*INT64) | st.sampled_from(INT64) | st.integers(-50, 50)
    values = np.array(data.draw(st.lists(some, min_size=8, max_size=8)), np.int64)
    leaves = [load.node for load in (*loads, loop(0, 4))]
    assert_same_values(root, dict(zip(leaves, [values, values[::-1], values & 3], strict=True)))


def test_a_quotient_of_a_sum_that_wraps_is_not_divided_further() -> None:
    """Eight more and the sum would not wrap, but it does."""
    wraps = index(INT64[0] + 4)
    root = ((Expression(wraps) - i) // 4 + 2) // 5
    assert_same_values(root.node, grid([i.node]))


@given(data=st.data())
def test_simplifying_twice_changes_nothing(data: st.DataObject) -> None:
    root = data.draw(index_expressions([loop(0, 6), loop(1, 8), loop(2, 20)])).node
    assert_simple(simplify(root))
    assert simplify(root) is simplify(simplify(root))


@given(base=st.lists(st.integers(2, 9), min_size=2, max_size=4), order=st.permutations(range(4)))
def test_digits_of_a_number_in_any_order_make_the_number(base: list[int], order: list[int]) -> None:
    """The indices that a reshape takes apart, another puts together."""
    number = loop(0, math.prod(base))
    digits, stride = [], 1
    for n in base:
        digits.append((number // stride) % n * stride)
        stride *= n
    parts = [digits[n] for n in order if n < len(digits)]
    total = parts[0]
    for part in parts[1:]:
        total = total + part
    assert simplify(total.node) is number.node


# ---- data ----------------------------------------------------------------------------------------

Step = Callable[[Expression], Expression]
STEPS: list[Step] = [operator.neg, lambda a: a + 0.0, lambda a: a - 0.0, lambda a: a * 1,
                     lambda a: a * -1.0, lambda a: a * 0.0]


@pytest.mark.parametrize("dtype", dt.FLOATS, ids=lambda d: d.name)
@given(steps=st.lists(st.sampled_from(STEPS), min_size=1, max_size=6))
def test_floats_keep_every_bit(dtype: dt.DType, steps: list[Step]) -> None:
    value = loaded(dtype)
    root = value
    for step in steps:
        root = step(root)
    special = np.array([0.0, -0.0, np.inf, -np.inf, np.nan, 1.5, -3.0, 1e-8], dtype.compute)
    special = ops.round_to(special, dtype)
    before = evaluate_at(root.node, {value.node: special})
    after = evaluate_at(simplify(root.node), {value.node: special})
    np.testing.assert_array_equal(after, before)
    numbers = ~np.isnan(before)
    np.testing.assert_array_equal(np.signbit(after)[numbers], np.signbit(before)[numbers])


def test_float_sums_are_not_reassociated() -> None:
    value = loaded(dt.float32)
    assert infix(simplify(((value + 1.0) + 2.0).node)) == "(x + 1.0) + 2.0"


def test_a_load_that_always_happens_needs_no_condition() -> None:
    param = make(Op.PARAM, dt.float32, (), Param(0, 10))
    load = make(Op.LOAD, dt.float32, (param, i.node, (i < 10).node))
    assert simplify(load) is make(Op.LOAD, dt.float32, (param, i.node))
    never = make(Op.LOAD, dt.float32, (param, i.node, (i > 10).node))
    assert simplify(never) is const(0.0, dt.float32)


def test_constants_fold_to_what_the_op_table_says() -> None:
    third = elementwise(Op.DIV, const(1.0, dt.float16), const(3.0, dt.float16))
    assert simplify(third) is const(float(np.float16(1) / np.float16(3)), dt.float16)
    tenths = elementwise(Op.ADD, const(0.1, dt.float16), const(0.7, dt.float16))
    assert simplify(tenths) is const(float(np.float16(0.1) + np.float16(0.7)), dt.float16)
    wrapped = elementwise(Op.ADD, const(200, dt.uint8), const(100, dt.uint8))
    assert simplify(wrapped) is const(44, dt.uint8)


# ---- size ----------------------------------------------------------------------------------------

@pytest.mark.few(1)
@pytest.mark.parametrize("dtype", [dt.INDEX, dt.int32, dt.float32], ids=lambda d: d.name)
def test_a_long_chain_does_not_meet_the_recursion_limit(dtype: dt.DType) -> None:
    value = loaded(dtype)
    total = value
    for n in range(20_000):
        total = total * 3 + value if n % 2 else total - 1
    assert len(toposort([simplify(total.node)])) > 1


def test_a_long_sum_of_different_terms_keeps_its_value() -> None:
    terms = [(i * j) % n for n in range(2, 300)]
    total = terms[0]
    for term in terms[1:]:
        total = total + term
    points = grid([i.node, j.node])
    assert_same_values(total.node, points)


def test_shared_parts_are_simplified_once_and_stay_shared() -> None:
    """A tower of 60 doublings has 2**60 paths."""
    value = loaded(dt.float32)
    for _ in range(60):
        value = value * value + 0.5
    assert len(toposort([simplify(value.node)])) == len(toposort([value.node]))


def test_several_roots_are_simplified_together() -> None:
    assert simplify_all([(i + 0).node, (i // 16).node]) == [i.node, index(0)]


@pytest.mark.parametrize("middle", INTEGERS)
@pytest.mark.parametrize("last", INTEGERS)
def test_a_conversion_between_two_goes_only_where_all_values_fit(
        middle: dt.DType, last: dt.DType) -> None:
    i = make(Op.RANGE, dt.INDEX, (), Range((0,), 9, "loop"))
    for low, step in itertools.product((0, -1, -128, 120, 250, -32768, 32760, 65530), (0, 1, 40)):
        values = elementwise(Op.ADD, elementwise(Op.MUL, i, index(step)), index(low))
        both = nodes.cast(nodes.cast(values, middle), last)
        made = simplify(both)
        at = {i: np.arange(9)}
        np.testing.assert_array_equal(evaluate_at(made, at), evaluate_at(both, at))
        fits = middle.min <= low and low + 8 * step <= middle.max
        assert not fits or all(n.dtype is not middle or middle in (last, dt.INDEX)
                               for n in toposort([made]))
