"""Every elementwise op, cast and 16-bit float means on the cpu what the op table says."""
from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from graphs import compute, leaf
from hypothesis import given
from hypothesis import strategies as st

from lazyten.codegen.numerics.decompose import decompose
from lazyten.codegen.targets.target import Target
from lazyten.ir import dtype as dt
from lazyten.ir import ops
from lazyten.ir.arguments import Param, Range
from lazyten.ir.dtype import DType
from lazyten.ir.node import Node, cast, const, elementwise, index, make, reduce, toposort
from lazyten.ir.ops import ELEMENTWISE, SPECS, Op

Array = np.ndarray[Any, Any]
HALVES = [d for d in dt.ALL if d.is_half]
by_name = pytest.mark.parametrize("dtype", dt.ALL, ids=lambda d: d.name)
for_halves = pytest.mark.parametrize("dtype", HALVES, ids=lambda d: d.name)


def edges(dtype: DType) -> Array:
    """Values of `dtype` (as compute type) at which something changes."""
    if dtype.kind == "b":
        return np.array([False, True])
    if dtype.is_int:
        around = [0, 1, 2, 3, 7, 8, 31, 32, 63, 64, int(dtype.max), int(dtype.max) - 1,
                  int(dtype.min), int(dtype.min) + 1, int(dtype.max) // 2]
        if dtype.kind == "i":
            around += [-1, -2, -3, -8, -64]
        return np.array([v for v in around if dtype.min <= v <= dtype.max], dtype.compute)
    numbers = [0.0, 1.0, 0.5, 1.5, 2.0, 3.0, 127.5, 128.0, 255.99, 256.0, 1e-3, 1e-7, 6e-8, 65504.0,
               65519.9, 65520.0, 2.0**31, 2.0**31 - 1, 2.0**32, 2.0**63, 2.0**64, 2.0**-126, 1e-42,
               3e38, 1 + 2.0**-8, 1 + 2.0**-8 + 2.0**-30, 1 + 2.0**-11, 1 + 2.0**-11 - 2.0**-40,
               float("inf")]
    both = np.array([*numbers, *np.negative(numbers), float("nan")])
    with np.errstate(all="ignore"):
        return ops.round_to(both.astype(dtype.compute), dtype)


def assert_same(got: Array, expected: Array, rtol: float = 0.0) -> None:
    """Equal values, NaN where NaN is expected, and equal signs of zero."""
    np.testing.assert_allclose(got, expected, rtol=rtol, atol=0.0)
    if got.dtype.kind == "f":
        number = ~np.isnan(expected)
        np.testing.assert_array_equal(np.signbit(got[number]), np.signbit(expected[number]))


# ---- every op ------------------------------------------------------------------------------------

def takers(op: Op) -> list[DType]:
    return [d for d in dt.ALL if d.kind in SPECS[op].takes]


def arguments(op: Op, dtype: DType) -> list[Array]:
    """All combinations of edge values."""
    kinds = [dt.bool_ if op is Op.WHERE and i == 0 else dtype for i in range(SPECS[op].arity)]
    values = [edges(d) for d in kinds]
    if op is Op.MULACC and dtype.is_float:  # fused or not, these are exact
        values = [np.array([0.0, 1.0, -2.0, 3.0, np.inf, np.nan], dtype.compute)] * 3
    columns = zip(*itertools.product(*(v.tolist() for v in values)), strict=True)
    return [np.array(c, d.compute) for c, d in zip(columns, kinds, strict=True)]


FUNCTIONS = (Op.EXP, Op.EXP2, Op.LOG2, Op.SIN, Op.COS, Op.POW)
ARITHMETIC = sorted(ELEMENTWISE - {Op.CAST, Op.BITCAST}, key=lambda op: op.name)


@pytest.mark.few(58)
@pytest.mark.parametrize(("op", "dtype"), [(op, d) for op in ARITHMETIC for d in takers(op)],
                         ids=lambda p: p.name)
def test_every_op_gives_what_the_op_table_says_at_the_edges(op: Op, dtype: DType) -> None:
    values = arguments(op, dtype)
    kinds = [dt.bool_ if v.dtype == np.bool_ else dtype for v in values]
    got = compute(elementwise(op, *map(leaf, values, kinds, ["cpu"] * 3)), "cpu")
    expected = ops.evaluate(op, dtype, values, kinds)
    inexact = dtype.is_float and op in (*FUNCTIONS, Op.IDIV, Op.MOD)
    steps = {16: 2.0**-7 if dtype is dt.bfloat16 else 2.0**-10, 32: 2.0**-22, 64: 2.0**-51}
    if op in FUNCTIONS and dtype.is_float:
        normal = ~(np.abs(expected) < 2.0**-100)  # test_accuracy.py looks below
        got, expected = got[normal], expected[normal]
    assert_same(got, expected, steps[dtype.bits] if inexact else 0.0)


@pytest.mark.parametrize("op", [Op.IDIV, Op.MOD], ids=lambda op: op.name)
@pytest.mark.parametrize("dtype", [d for d in dt.INTS if d.bits < 64], ids=lambda d: d.name)
def test_integers_beside_multiples_are_divided_exactly(op: Op, dtype: DType) -> None:
    """All pairs of 8 bits; of more bits large quotients, and dividends beside their multiples."""
    least, most = int(dtype.min), int(dtype.max)
    if dtype.bits == 8:
        pairs = [*itertools.product(range(least, most + 1), repeat=2)]
    else:
        random = np.random.default_rng(dtype.bits)
        divisors = [1, 2, 3, most, most - 1, *random.integers(1, most, 400).tolist(),
                    *random.integers(1, 1000, 400).tolist()]
        divisors += [-b for b in divisors if least < 0]
        pairs = [(a, b) for b in divisors for q in (1, most // b, random.integers(0, most // abs(b)
                 + 1)) for a in (b * q - 1, b * q, b * q + 1, b * q + b - 1) if least <= a <= most]
    values = [np.array(column, dtype.compute) for column in zip(*pairs, strict=True)]
    got = compute(elementwise(op, *(leaf(v, dtype, "cpu") for v in values)), "cpu")
    np.testing.assert_array_equal(got, ops.evaluate(op, dtype, values, [dtype, dtype]))


@pytest.mark.few(6)
@pytest.mark.parametrize("op", [Op.SHL, Op.SHR], ids=lambda op: op.name)
@pytest.mark.parametrize("dtype", dt.INTS, ids=lambda d: d.name)
def test_shifts_by_constants_need_no_guard_when_in_range(op: Op, dtype: DType) -> None:
    x = edges(dtype)
    for count in (0, 1, dtype.bits - 1, dtype.bits, 100):
        shift = elementwise(op, leaf(x, dtype, "cpu"), const(count, dtype, x.shape))
        expected = ops.evaluate(op, dtype, [x, np.full_like(x, count)], [dtype, dtype])
        np.testing.assert_array_equal(compute(shift, "cpu"), expected)
    load = a_load(dtype)
    assert decomposed(elementwise(op, load, const(3, dtype))) is elementwise(
        op, load, const(3, dtype))


@pytest.mark.parametrize("exponent", [0, 0.5, 1, 2, 3, 4, -1, -2, 7, -33, 64, 65, 2.5, -0.5])
@pytest.mark.parametrize("dtype", [dt.float32, dt.float64], ids=lambda d: d.name)
def test_constant_powers_give_what_numpy_gives(dtype: DType, exponent: float) -> None:
    x = edges(dtype)
    power = elementwise(Op.POW, leaf(x, dtype, "cpu"), const(exponent, dtype, x.shape))
    with np.errstate(all="ignore"):
        expected = np.power(x, np.full_like(x, exponent))  # IEEE 754; by a scalar 0.5 is sqrt
    got = compute(power, "cpu")
    number = ~np.isnan(expected)
    np.testing.assert_array_equal(np.signbit(got[number]), np.signbit(expected[number]))
    np.testing.assert_allclose(got, expected, rtol=4 * float(np.finfo(x.dtype).eps), atol=1e-45)


@pytest.mark.few(4)
@pytest.mark.parametrize("dtype", dt.INTS, ids=lambda d: d.name)
def test_constant_powers_of_integers_wrap(dtype: DType) -> None:
    x = edges(dtype)
    for exponent in (0, 1, 2, 5, 63, -1, -2):
        b = const(exponent, dtype, x.shape)
        expected = ops.evaluate(Op.POW, dtype, [x, np.full_like(x, b.value)], [dtype, dtype])
        got = compute(elementwise(Op.POW, leaf(x, dtype, "cpu"), b), "cpu")
        np.testing.assert_array_equal(got, expected)


# ---- casts ---------------------------------------------------------------------------------------

@pytest.mark.few(64)
@pytest.mark.parametrize("target", dt.ALL, ids=lambda d: d.name)
@pytest.mark.parametrize("source", dt.ALL, ids=lambda d: d.name)
def test_every_cast_agrees_with_the_op_table(source: DType, target: DType) -> None:
    x = edges(source)
    got = compute(make(Op.CAST, target, (leaf(x, source, "cpu"),)), "cpu")
    assert_same(got, ops.cast(x, source, target))


@for_halves
@given(seed=st.integers(0, 2**32 - 1), extra=st.sampled_from([1, 2, 13, 14, 17, 20]))
def test_float64_to_16_bits_rounds_once(dtype: DType, seed: int, extra: int) -> None:
    """Near ties: numbers with a bit more than fits (extra = 1), and their float64 neighbours."""
    rng = np.random.default_rng(seed)
    kept = (7 if dtype is dt.bfloat16 else 10) + extra
    whole = rng.integers(2**kept, 2**(kept + 1), 100) | 1
    ties = whole * 2.0 ** rng.integers(-30, 4, 100) * rng.choice([-1, 1], 100)
    x = np.concatenate([ties, np.nextafter(ties, 0), np.nextafter(ties, 2 * ties)])
    got = compute(make(Op.CAST, dtype, (leaf(x, dt.float64, "cpu"),)), "cpu")
    assert_same(got, ops.cast(x, dt.float64, dtype))


@pytest.mark.parametrize("target", dt.INTS, ids=lambda d: d.name)
@pytest.mark.parametrize("source", dt.FLOATS, ids=lambda d: d.name)
def test_random_floats_saturate_to_integers(source: DType, target: DType) -> None:
    raw = np.random.default_rng(0).bytes(4000 * source.itemsize)
    x = ops.decode(np.frombuffer(raw, source.numpy), source)
    near = float(target.max) * np.linspace(-1.5, 1.5, 301)
    with np.errstate(all="ignore"):
        x = np.concatenate([x, ops.round_to(near.astype(source.compute), source)])
    got = compute(make(Op.CAST, target, (leaf(x, source, "cpu"),)), "cpu")
    np.testing.assert_array_equal(got, ops.cast(x, source, target))


@pytest.mark.few(86)
@pytest.mark.parametrize("through", [dt.float32, dt.float64], ids=lambda d: d.name)
@pytest.mark.parametrize(("source", "target"), list(itertools.product(dt.INTS, repeat=2)),
                         ids=lambda d: d.name)
def test_an_integer_converted_and_back_saturates_where_rounding_left_the_type(
        source: DType, through: DType, target: DType) -> None:
    x = leaf(edges(source), source, "cpu")
    found = compute(cast(cast(x, through), target), "cpu")
    wide = ops.evaluate(Op.CAST, through, [edges(source)], [source])
    assert_same(found, ops.evaluate(Op.CAST, target, [wide], [through]))


def test_an_integer_converted_and_back_is_not_guarded() -> None:
    byte = a_load(dt.int8)
    back = make(Op.CAST, dt.int32, (make(Op.CAST, dt.float32, (byte,)),))
    assert decomposed(back) is back
    wide = make(Op.CAST, dt.int8, (make(Op.CAST, dt.float32, (a_load(dt.int32),)),))
    assert decomposed(wide).op is Op.WHERE


# ---- 16-bit floats -------------------------------------------------------------------------------

ALL_PATTERNS = np.arange(2**16, dtype=np.uint16)


@for_halves
def test_every_pattern_decodes_to_its_value(dtype: DType) -> None:
    half = make(Op.BITCAST, dtype, (leaf(ALL_PATTERNS, dt.uint16, "cpu"),))
    assert_same(compute(make(Op.CAST, dt.float32, (half,)), "cpu"),
                ops.decode(ALL_PATTERNS.view(dtype.numpy), dtype))


@for_halves
def test_every_pattern_survives_decoding_and_encoding(dtype: DType) -> None:
    values = ops.decode(ALL_PATTERNS.view(dtype.numpy), dtype)
    number = ~np.isnan(values)
    there = make(Op.CAST, dtype, (leaf(values, dt.float32, "cpu"),))
    back = compute(make(Op.BITCAST, dt.uint16, (there,)), "cpu")
    np.testing.assert_array_equal(back[number], ALL_PATTERNS[number])
    assert np.isnan(ops.decode(back[~number].view(dtype.numpy), dtype)).all()


@for_halves
def test_moved_and_negated_halves_keep_their_bits_even_in_nan(dtype: DType) -> None:
    half = make(Op.BITCAST, dtype, (leaf(ALL_PATTERNS, dt.uint16, "cpu"),))
    moved = make(Op.BITCAST, dt.uint16, (elementwise(Op.NEG, half),))
    np.testing.assert_array_equal(compute(moved, "cpu"), ALL_PATTERNS ^ np.uint16(0x8000))


@for_halves
def test_float32_rounds_to_16_bits_like_the_op_table(dtype: DType) -> None:
    rng = np.random.default_rng(0)
    x = rng.integers(0, 2**32, 100_000, dtype=np.uint64).astype(np.uint32)
    ties = (np.arange(2**18, dtype=np.uint32) << np.uint32(14)) + np.uint32(0x1000)
    x = np.concatenate([x, ties, ties - np.uint32(1), ties + np.uint32(1)]).view(np.float32)
    half = make(Op.CAST, dtype, (leaf(x, dt.float32, "cpu"),))
    assert_same(compute(half, "cpu"), ops.round_to(x, dtype))
    squared = make(Op.CAST, dt.float32, (elementwise(Op.MUL, half, half),))
    with np.errstate(all="ignore"):
        expected = ops.round_to(ops.round_to(x, dtype) ** 2, dtype)
    assert_same(compute(squared, "cpu"), expected)


EXACT_OPS = [Op.ADD, Op.SUB, Op.MUL, Op.DIV, Op.MAX, Op.NEG, Op.SQRT, Op.RECIPROCAL, Op.WHERE]


@for_halves
@given(data=st.data())
def test_expressions_of_halves_are_bit_equal_to_the_interpreter(dtype: DType,
                                                               data: st.DataObject) -> None:
    seeds = data.draw(st.lists(st.integers(0, 2**32 - 1), min_size=2, max_size=2))
    raw = [np.random.default_rng(s).integers(0, 2**16, 50).astype(np.uint16) for s in seeds]
    values = [ops.decode(r.view(dtype.numpy), dtype) for r in raw]
    chosen = data.draw(st.lists(st.sampled_from(EXACT_OPS), min_size=1, max_size=6))
    results = [compute(_chain([leaf(v, dtype, device) for v in values], chosen), device)
               for device in ("cpu", "interpreter")]
    assert_same(*results)


def _chain(leaves: list[Node], chosen: list[Op]) -> Node:
    x, y = leaves
    for op in chosen:
        if op is Op.WHERE:
            x, y = elementwise(op, elementwise(Op.CMPLT, x, y), y, x), x
        else:
            x, y = elementwise(op, *(x, y)[:SPECS[op].arity]), x
    return x


@for_halves
def test_sums_near_the_greatest_number_round_within_an_expression_as_in_memory(
        dtype: DType) -> None:
    """Just below where they become infinite, and at it."""
    top = float(ops.round_to(np.float32(3.38e38 if dtype is dt.bfloat16 else 65504), dtype))
    unit = top * 2.0 ** (-8 if dtype is dt.bfloat16 else -11)
    steps = np.arange(-8, 9, dtype=np.float32) * (unit / 4)
    a, b = (v.ravel().astype(np.float32) for v in np.meshgrid([top, -top, top / 2], steps))
    a, b = ops.round_to(a, dtype), ops.round_to(b, dtype)
    x, y = leaf(a, dtype, "cpu"), leaf(b, dtype, "cpu")
    half = const(0.5, dtype, x.shape)
    got = compute(elementwise(Op.MUL, elementwise(Op.ADD, x, y), half), "cpu")
    with np.errstate(over="ignore"):
        assert_same(got, ops.round_to(ops.round_to(a + b, dtype) * np.float32(0.5), dtype))


@for_halves
def test_sums_of_halves_are_rounded_once(dtype: DType) -> None:
    """256 + 68 * 0.25: with a rounding after each addition the quarters would vanish."""
    x = np.array([2.0 ** (11 if dtype is dt.float16 else 8)] + [0.25] * 68, np.float32)
    total = reduce(leaf(x, dtype, "cpu"), Op.ADD, (0,))
    expected = ops.round_to(x.sum(keepdims=True), dtype)
    assert x.sum() > expected > x[0]
    np.testing.assert_array_equal(compute(total, "cpu"), expected)


# ---- the form of the result ----------------------------------------------------------------------

def a_load(dtype: DType) -> Node:
    return make(Op.LOAD, dtype, (make(Op.PARAM, dtype, (), Param(1, 1)), index(0)))


def decomposed(value: Node) -> Node:
    """What is stored in the end where `value` is."""
    param = make(Op.PARAM, value.dtype, (), Param(0, 1))
    return decompose([make(Op.STORE, dt.bool_, (param, index(0), value))], Target())[0].src[2]


@by_name
def test_nothing_that_machine_code_lacks_is_left(dtype: DType) -> None:
    for op in ARITHMETIC:
        if dtype.kind in SPECS[op].takes:
            loads = [a_load(dtype)] * SPECS[op].arity
            if op is Op.WHERE:
                loads[0] = a_load(dt.bool_)
            order = toposort([decomposed(elementwise(op, *loads))])
            assert not any(n.dtype.is_half for n in order), op
            assert not any(n.op in FUNCTIONS for n in order), op


@for_halves
def test_a_stored_result_is_rounded_only_by_encoding_it(dtype: DType) -> None:
    x = a_load(dtype)
    once = toposort([decomposed(elementwise(Op.ADD, x, x))])
    wide = make(Op.CAST, dt.float32, (x,))
    alone = toposort([decomposed(make(Op.CAST, dtype, (elementwise(Op.ADD, wide, wide),)))])
    assert len(once) == len(alone)
    assert decomposed(x).op is Op.LOAD


@for_halves
def test_a_sum_used_in_its_kernel_is_rounded_and_a_maximum_need_not_be(dtype: DType) -> None:
    loop = make(Op.RANGE, dt.INDEX, (), Range((0,), 4, "reduce"))
    sources = (a_load(dtype), loop)
    total, most = (make(Op.CAST, dt.float32, (make(Op.ACCUMULATE, dtype, sources, combiner),))
                   for combiner in (Op.ADD, Op.MAX))
    assert decomposed(total).op is not Op.ACCUMULATE
    assert decomposed(most).op is Op.ACCUMULATE
