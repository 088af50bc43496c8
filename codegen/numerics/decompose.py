"""decompose: ops and types that machine code lacks become ones that it has.

In: LOOP-level STORE nodes, after optimize. Out: the same with only what every renderer has a row
for: no 8-bit floats, no 16-bit ones but for what the device has, no EXP, EXP2, LOG2, SIN, COS or
POW, no conversion or shift out of range. pipeline.py calls it. It works on nodes, not on target
text, so that all targets compute the same bits.
"""
from __future__ import annotations

from collections.abc import Callable, Sequence

from lazyten.codegen.numerics.casts import guard_cast
from lazyten.codegen.numerics.expression import UNSIGNED, less, shl, shr, where
from lazyten.codegen.numerics.half import lower_halves
from lazyten.codegen.numerics.power import power
from lazyten.codegen.numerics.sine import cos, sin
from lazyten.codegen.numerics.transcendental import exp, exp2, log2
from lazyten.codegen.targets.dialect import dialect_of
from lazyten.codegen.targets.near import NEAR_EXP2
from lazyten.codegen.targets.target import Target
from lazyten.ir import dtype as dt
from lazyten.ir.node import Node, cast, rewrite
from lazyten.ir.ops import Op
from lazyten.symbolic.bounds import bounds


def decompose(stores: Sequence[Node], target: Target) -> list[Node]:
    """The same stores in simple ops, and in what a device does with 16-bit floats and float64."""
    wide = dt.float64 in target.dtypes
    dialect = dialect_of(target.language)
    is_near = dialect is not None and NEAR_EXP2 in dict(dialect.functions)

    def rule(node: Node) -> Node | None:
        if node.op in _WIDENED:
            return _WIDENED[node.op](*node.src, wide)
        if node.op is Op.NEAR_EXP2 and not is_near:
            return exp2(node.src[0])
        row = _ROWS.get(node.op)
        return None if row is None else row(node)
    return rewrite(lower_halves(stores, target.halves), rule)


def _guard_shift(node: Node) -> Node | None:
    """A shift whose count may be out of range, where machines do what they like."""
    value, count = node.src
    bits = node.dtype.bits
    limits = bounds(count)
    if limits is not None and 0 <= limits[0] and limits[1] < bits:
        return None
    inside = less(cast(count, UNSIGNED[bits]), bits)
    if node.op is Op.SHR and node.dtype.kind == "i":
        return shr(value, where(inside, count, bits - 1))
    shift = shl if node.op is Op.SHL else shr
    return where(inside, shift(value, where(inside, count, 0)), 0)


_WIDENED: dict[Op, Callable[..., Node]] = {Op.SIN: sin, Op.COS: cos, Op.POW: power}
"""Those whose float32 is computed in float64 where a device has it."""
_ROWS: dict[Op, Callable[[Node], Node | None]] = {
    Op.EXP: lambda node: exp(node.src[0]),
    Op.EXP2: lambda node: exp2(node.src[0]),
    Op.LOG2: lambda node: log2(node.src[0]),
    Op.CAST: guard_cast,
    Op.SHL: _guard_shift,
    Op.SHR: _guard_shift,
}
DECOMPOSED = frozenset({*_WIDENED, *_ROWS})
"""What may become other ops, whatever its type."""
