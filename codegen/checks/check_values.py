"""Checks of values, as stores of the LOOP level: NaN, infinities and integers out of range.

In: the SINK of optimize, before decompose. Out: the same with STOREs to the report (report.py).
Each STORE gets one for each kind of check, in the same loops and over the same lanes: the key of
its site where the stored element is affected, else 0. Overflow is followed from where it happens to
what is stored: a WHERE passes on only that of the value it takes.
"""
from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from lazyten.codegen.checks.report import LOW, WORD, WORDS, key_of
from lazyten.codegen.numerics.expression import (
    absolute,
    both,
    differ,
    either,
    invert,
    less,
    sub,
    where,
)
from lazyten.ir import dtype as dt
from lazyten.ir.arguments import Param
from lazyten.ir.dtype import DType
from lazyten.ir.node import Node, cast, const, elementwise, index, make, ranges_of, toposort
from lazyten.ir.ops import ELEMENTWISE, Op
from lazyten.symbolic.bounds import bounds

WRAPPING = frozenset({Op.ADD, Op.SUB, Op.MUL, Op.NEG})
"""Ops of signed integers whose exact result may be out of range."""
NEVER = const(False, dt.bool_)


def check_values(sink: Node, report: int, outputs: int, records: int, grain: int,
                 kinds: Sequence[str]) -> Node:
    """The SINK with checks of these kinds that report in argument `report`, of so many records.

    outputs: arguments before this one are what a user sees; in the others, which hold partial
    results, only overflow is looked for.
    """
    param = make(Op.PARAM, dt.int64, (), Param(report, records * WORDS))
    stores = list(sink.src)
    taint = _Taint()
    for store in sink.src:
        slot, value = store.src[0].arg.slot, store.src[2]
        found = {"overflow": taint.of(value)} if "overflow" in kinds else {}
        if value.dtype.is_float and slot < outputs:
            found |= {"nan": is_nan(value), "inf": is_infinite(value)}
        for kind in (k for k in kinds if found.get(k, NEVER) is not NEVER):
            flag = found[kind] if len(store.src) == 3 else both(found[kind], store.src[3])
            key = where(flag, either(both(invert(store.src[1]), LOW), key_of(slot)), 0)
            place = elementwise(Op.ADD, _record(store, grain), index(WORD[kind]))
            stores.append(make(Op.STORE, dt.bool_, (param, place, key), Op.MAX))
    return make(Op.SINK, sink.dtype, tuple(stores))


def _record(store: Node, grain: int) -> Node:
    """Where the record of the work item begins that runs a STORE."""
    parallel = next((r for r in ranges_of([store.src[1]]) if r.arg.kind == "parallel"), None)
    if parallel is None:
        return index(0)
    return elementwise(Op.MUL, elementwise(Op.IDIV, parallel, index(grain)), index(WORDS))


def is_nan(x: Node) -> Node:
    """Whether a float is NaN."""
    x = _readable(x)
    return differ(x, x)


def is_infinite(x: Node) -> Node:
    """Whether a float is inf or -inf: the difference from itself is then NaN."""
    x = _readable(x)
    return both(is_nan(sub(x, x)), invert(is_nan(x)))


def _readable(x: Node) -> Node:
    """A float that ops take: 8-bit floats only store numbers."""
    return cast(x, dt.float32) if x.dtype.is_stored else x


class _Taint:
    """For each node, whether it depends on an overflow."""

    def __init__(self) -> None:
        self.found: dict[Node, Node] = {}

    def of(self, root: Node) -> Node:
        """A bool expression; NEVER where that is known."""
        for node in toposort([root], lambda n: () if n in self.found else _operands(n)):
            if node not in self.found:
                self.found[node] = _either(overflows(node), self._passed_on(node))
        return self.found[root]

    def _passed_on(self, node: Node) -> Node:
        parts = [self.found[s] for s in _operands(node)]
        if node.op is Op.WHERE and not parts[1] is parts[2] is NEVER:
            return _either(parts[0], elementwise(Op.WHERE, node.src[0], *parts[1:]))
        if node.op is Op.ACCUMULATE and parts[0] is not NEVER:
            return make(Op.ACCUMULATE, dt.bool_, (parts[0], *node.src[1:]), Op.MAX)
        flag = NEVER
        for part in parts:
            flag = _either(flag, part)
        return flag


def _operands(node: Node) -> tuple[Node, ...]:
    """What a value is made from; positions in memory and loop variables are none."""
    if node.op is Op.ACCUMULATE:
        return node.src[:1]
    return node.src if node.op in ELEMENTWISE else ()


def _either(a: Node, b: Node) -> Node:
    if a is NEVER or a is b:
        return b
    return a if b is NEVER else either(a, b)


def overflows(node: Node) -> Node:
    """Whether this op itself gives an integer other than its exact result; NEVER for most ops."""
    if node.op is Op.CAST and node.src[0].dtype.is_float and node.dtype.is_int:
        return invert(_fits(node.src[0], node.dtype))
    if node.dtype.kind != "i" or bounds(node) != (node.dtype.min, node.dtype.max):
        return NEVER  # a narrower answer is a proof
    if node.op in WRAPPING:
        exact = make(node.op, dt.float32, tuple(cast(s, dt.float32) for s in node.src))
        return _differ_by_wrapping(node, exact)
    if node.op is Op.ACCUMULATE and node.arg in WRAPPING:
        element = cast(node.src[0], dt.float64)
        exact = make(Op.ACCUMULATE, dt.float64, (element, *node.src[1:]), node.arg)
        return _differ_by_wrapping(node, exact)
    return NEVER


def _differ_by_wrapping(node: Node, exact: Node) -> Node:
    """Wrapping changes a result by a multiple of 2**bits; rounding `exact` by much less."""
    distance = absolute(sub(exact, cast(node, exact.dtype)))
    return less(2.0 ** (node.dtype.bits - 2), distance)


def _fits(x: Node, target: DType) -> Node:
    """Whether a float, truncated, is within an integer type; false for NaN."""
    if x.dtype.is_narrow:
        x = cast(x, dt.float32)
    return both(less(below(x.dtype, target), x), less(x, float(int(target.max) + 1)))


def below(dtype: DType, target: DType) -> float:
    """The greatest float of this type that truncation leaves below the integers of `target`."""
    kind, least = dtype.compute.type, int(target.min)
    beneath = kind(least - 1)
    return float(beneath if int(beneath) < least else np.nextafter(kind(least), kind(-np.inf)))
