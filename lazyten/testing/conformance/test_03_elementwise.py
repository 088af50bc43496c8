"""Stage 3: every op of the op table on every element type that the device claims."""
from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pytest

from lazyten.ir import dtype as dt
from lazyten.ir import ops
from lazyten.ir.dtype import DType
from lazyten.ir.node import Node, cast, make
from lazyten.ir.ops import SPECS, Op
from lazyten.support.errors import DTypeError
from lazyten.testing.conformance.values import FUNCTIONS, WIDE, computed, edges, leaf
from lazyten.testing.diagnosis import (
    NAN_LOST,
    Array,
    Nonconformance,
    differs,
    errors_in_ulp,
    is_subnormal,
    likely_cause,
)
from lazyten.testing.kit import advice
from lazyten.testing.scorecard import FAILED, OK, UNSUPPORTED, Scorecard

COUNT = 203
CONTRACTED = (
    "The values of {name} are off by more than its bound. Compile without options that let the "
    "compiler change floats: no -ffast-math, -ffp-contract=off (a multiply-add is contracted "
    "in MULACC alone), division and square root correctly rounded.")


@dataclass(frozen=True, slots=True)
class Case:
    """One op on one dtype: its operands' dtypes and values, and the dtype of the result."""

    op: Op
    target: DType
    dtypes: tuple[DType, ...]
    values: tuple[Array, ...]

    @property
    def name(self) -> str:
        arrow = f" to {self.target.name}" if self.op in (Op.CAST, Op.BITCAST) else ""
        return f"{self.op.name} of {self.dtypes[-1].name}{arrow}"

    def node(self, device: str) -> Node:
        leaves = [leaf(v, d, device) for v, d in zip(self.values, self.dtypes, strict=True)]
        return make(self.op, self.target, tuple(leaves))


def cases(dtype: DType, claimed: frozenset[DType]) -> Iterator[Case]:
    """Every op that takes a dtype, with every dtype that it may give."""
    values = [edges(dtype, COUNT, seed) for seed in range(3)]
    for op, spec in SPECS.items():
        if dtype.kind not in spec.takes:
            continue
        targets: Sequence[DType] = [dt.bool_ if spec.gives == "bool" else dtype]
        if spec.gives == "any":
            targets = [t for t in dt.ARITHMETIC if t in claimed and t is not dtype and
                       (op is Op.CAST or t.bits == dtype.bits)]
        for target in targets:
            if op is Op.WHERE:
                condition = edges(dt.bool_, COUNT)
                yield Case(op, target, (dt.bool_, dtype, dtype), (condition, *values[:2]))
            else:
                yield Case(op, target, (dtype,) * spec.arity, tuple(values[:spec.arity]))


def faults(case: Case, got: Array) -> tuple[Array, Array]:
    """Where a result is wrong, and what it should be. Subnormal numbers are another stage's."""
    want = np.asarray(ops.evaluate(case.op, case.target, case.values, case.dtypes))
    spec, target = SPECS[case.op], case.target
    if not target.is_float or case.op is Op.WHERE or spec.ulp <= 0.5:
        wrong = differs(got, want)
    else:
        wide = WIDE[target.name]
        with np.errstate(all="ignore"):
            args = [v.astype(wide) for v in case.values]
            exact = spec.numpy(*args) if case.op in FUNCTIONS else want.astype(wide)
            scale = np.abs(args[0] * args[1]) + np.abs(args[2]) if case.op is Op.MULACC else None
        wrong = errors_in_ulp(got, exact, target, scale) > spec.ulp + 0.5 * target.is_half
        wrong &= differs(got, want)
    for values, dtype in (*zip(case.values, case.dtypes, strict=True), (want, target)):
        if dtype.is_float:
            wrong = wrong & ~is_subnormal(values, dtype)
    return wrong, want


def results(todo: list[Case], device: str) -> list[Array | Exception]:
    """What each case gives, or its error: all as one schedule, or each alone if that fails."""
    try:
        return list(computed([case.node(device) for case in todo], device))
    except Exception as error:
        if len(todo) == 1:
            return [error]
    return [results([case], device)[0] for case in todo]


@advice("Ops go wrong one by one: look at the source of the kernel with DEBUG=2, and at the row of "
        "the op in your language's table.")
@pytest.mark.parametrize("dtype", dt.ARITHMETIC, ids=lambda d: d.name)
def test_every_op_gives_what_the_op_table_says(device: str, card: Scorecard, dtype: DType) -> None:
    todo = list(cases(dtype, card.dtypes))
    if dtype not in card.dtypes:
        card.ops.update({(case.op, dtype): UNSUPPORTED for case in todo})
        card.note_unsupported(dtype.name)
        pytest.skip("the device does not claim it")
    wrong = []
    for case, got in zip(todo, results(todo, device), strict=True):
        result, fault = judge(case, got, card)
        card.ops[case.op, dtype] = worse(result, card.ops.get((case.op, dtype), OK))
        if fault is not None:
            wrong.append(fault)
    if wrong:
        others = f" (and {len(wrong) - 1} more)" if wrong[1:] else ""
        raise Nonconformance(f"{wrong[0]}{others}", wrong[0].advice)


def judge(case: Case, got: Array | Exception, card: Scorecard) -> tuple[str, Nonconformance | None]:
    """The result of a case, and what is wrong with it if something is."""
    if isinstance(got, DTypeError) and dt.float64 not in card.dtypes:
        card.note_unsupported(f"{case.name} (computes in float64)")
        return UNSUPPORTED, None
    if isinstance(got, Exception):
        return FAILED, Nonconformance(f"{case.name}: {type(got).__name__}: {got}")
    wrong, want = faults(case, got)
    if not wrong.any():
        return OK, None
    at = int(np.argmax(wrong))
    arguments = ", ".join(repr(v[at]) for v in case.values)
    cause = likely_cause(got, want, wrong)
    if not cause and case.target.is_float and SPECS[case.op].ulp >= 0.5:
        cause = CONTRACTED.format(name=case.op.name)
    what = f"{case.name}: of ({arguments}) gives {got[at]!r}, not {want[at]!r}"
    return FAILED, Nonconformance(what, cause)


def worse(a: str, b: str) -> str:
    """The worse of two results of one op."""
    return max(a, b, key=[OK, UNSUPPORTED, FAILED].index)


@advice("8-bit floats are bytes to the device, converted by integer arithmetic: look at shifts and "
        "comparisons of 8-bit and 32-bit integers.")
@pytest.mark.parametrize("dtype", [d for d in dt.ALL if d.is_stored], ids=lambda d: d.name)
def test_floats_of_8_bits_are_stored_and_read(device: str, card: Scorecard, dtype: DType) -> None:
    if dtype not in card.dtypes:
        card.note_unsupported(dtype.name)
        pytest.skip("the device does not claim it")
    values = edges(dt.float32, COUNT)
    got, = computed([cast(cast(leaf(values, dt.float32, device), dtype), dt.float32)], device)
    np.testing.assert_array_equal(got, ops.round_to(values, dtype))


@advice(NAN_LOST)
def test_nan_infinity_and_the_sign_of_zero_are_kept(device: str, card: Scorecard) -> None:
    zero, nan = np.array([0.0, -0.0], np.float32), np.array([np.nan, 1.0], np.float32)
    x, y = leaf(zero, dt.float32, device), leaf(nan, dt.float32, device)
    one = leaf(np.ones(2, np.float32), dt.float32, device)
    infinities, left, right, unequal = computed(
        [make(Op.DIV, dt.float32, (one, x)), make(Op.MAX, dt.float32, (y, one)),
         make(Op.MAX, dt.float32, (one, y)), make(Op.CMPNE, dt.bool_, (y, y))], device)
    for what, got, want in (("1 / [0, -0]", infinities, [np.inf, -np.inf]),
                            ("max of [nan, 1] and 1", left, [np.nan, 1]),
                            ("max of 1 and [nan, 1]", right, [np.nan, 1]),
                            ("[nan, 1] != itself", unequal, [True, False])):
        if differs(got, np.array(want)).any():
            raise Nonconformance(f"{what} gives {got.tolist()}, not {want}")
