"""The 16-bit floats in float32: machine code has no float16 or bfloat16.

In: LOOP-level STORE nodes. Out: the same stores without 16-bit floats: their memory is uint16,
decoded after a load and encoded before a store; every op on them is computed in float32 and its
result rounded to what the 16-bit type can hold, as the op table's `round_to` says. decompose calls
it first.
"""
from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from lazyten import dtype as dt
from lazyten import ops
from lazyten.codegen.casts import round_to_odd
from lazyten.codegen.expression import (
    absolute,
    add,
    bitcast,
    bits_of,
    both,
    differ,
    either,
    less,
    mul,
    shl,
    shr,
    sub,
    where,
    with_sign_of,
    xor,
)
from lazyten.dtype import DType
from lazyten.errors import InternalError
from lazyten.node import Node, cast, const, elementwise, make, toposort
from lazyten.ops import ELEMENTWISE, Op

# ---- formats -------------------------------------------------------------------------------------

def decode(pattern: Node, dtype: DType) -> Node:
    """The float32 value of a uint16 pattern of a 16-bit float."""
    wide = cast(pattern, dt.uint32)
    if dtype is dt.bfloat16:
        return bitcast(shl(wide, 16), dt.float32)
    magnitude = shl(both(wide, 0x7FFF), 13)
    normal = add(magnitude, (127 - 15) << 23)
    infinite = add(magnitude, (255 - 31) << 23)
    lifted = sub(bitcast(add(magnitude, (127 - 14) << 23), dt.float32), 2.0**-14)
    value = where(less(magnitude, 1 << 23), bits_of(lifted),
                  where(less(magnitude, 31 << 23), normal, infinite))
    return bitcast(either(value, shl(both(wide, 0x8000), 16)), dt.float32)


def encode(value: Node, dtype: DType) -> Node:
    """The uint16 pattern of a float32, rounded to nearest even; a NaN is kept and made quiet."""
    pattern = bits_of(value)
    if dtype is dt.bfloat16:
        rounded = where(differ(value, value), either(shr(pattern, 16), 0x40),
                        shr(_round_bits(pattern, 16), 16))
        return cast(rounded, dt.uint16)
    magnitude = both(pattern, 0x7FFF_FFFF)
    normal = shr(sub(_round_bits(magnitude, 13), (127 - 15) << 23), 13)
    normal = where(less(normal, 0x7C00), normal, 0x7C00)
    lifted = bits_of(add(bitcast(magnitude, dt.float32), 0.5))  # rounds at 2**-24
    finite = where(less(magnitude, (127 - 14) << 23), sub(lifted, 126 << 23), normal)
    payload = either(both(shr(magnitude, 13), 0x3FF), 0x7E00)
    result = where(less(255 << 23, magnitude), payload, finite)
    return cast(either(result, both(shr(pattern, 16), 0x8000)), dt.uint16)


def round_value(value: Node, dtype: DType) -> Node:
    """A float32 rounded to what `dtype` can hold, as a float32."""
    if dtype is dt.bfloat16:
        pattern = bits_of(value)
        rounded = both(_round_bits(pattern, 16), 0xFFFF_0000)
        return where(differ(value, value), value, bitcast(rounded, dt.float32))
    size = absolute(value)
    # Adding 2**13 times the power of two below rounds at the last bit that float16 keeps.
    power = both(bits_of(size), 0x7F80_0000)
    least = (127 - 14) << 23
    unit = bitcast(add(where(less(power, least), least, power), 13 << 23), dt.float32)
    rounded = sub(add(size, unit), unit)
    return with_sign_of(where(less(size, 65520.0), rounded, mul(size, math.inf)), bits_of(value))


def _round_bits(pattern: Node, dropped: int) -> Node:
    """Add half of the last kept place, less one where that bit is even: ties go to even."""
    odd = both(shr(pattern, dropped), 1)
    return add(add(pattern, (1 << dropped - 1) - 1), odd)


# ---- expressions ---------------------------------------------------------------------------------

@dataclass(frozen=True, slots=True)
class _Half:
    """A 16-bit float value, in the forms that are at hand.

    raw: a float32 that rounds to it. rounded: the float32 equal to it, None until somebody needs
    it. pattern: its uint16, where that takes no encoding.
    """

    dtype: DType
    raw: Node
    rounded: Node | None = None
    pattern: Node | None = None


def lower_halves(stores: Sequence[Node]) -> list[Node]:
    """The same stores, with 16-bit floats in memory only, as uint16."""
    order = toposort(stores)
    if not any(n.dtype.is_half for n in order):
        return list(stores)
    work = _Halves()
    for node in order:
        work.visit(node)
    return [work.plain[s] for s in stores]


class _Halves:
    """What each node has become: in `halves` if it has a 16-bit type, otherwise in `plain`."""

    def __init__(self) -> None:
        self.plain: dict[Node, Node] = {}
        self.halves: dict[Node, _Half] = {}

    def visit(self, node: Node) -> None:
        """Translate a node whose sources are translated."""
        if node.op is Op.PARAM:
            self.plain[node] = make(Op.PARAM, _stored(node.dtype), (), node.arg)
        elif node.op is Op.STORE:
            self.plain[node] = self._store(node)
        elif node.op is Op.STAGE:
            self.plain[node] = self._stage(node)
        elif node.op is Op.MATRIX:
            self._matrix(node)
        elif node.dtype.is_half:
            self.halves[node] = self._half(node)
        elif node.op is Op.BITCAST and node.src[0].dtype.is_half:
            self.plain[node] = bitcast(self._pattern(node.src[0]), node.dtype)
        elif node.op is Op.CAST:
            self.plain[node] = cast(self._value(node.src[0]), node.dtype)
        else:
            sources = tuple(self._value(s) for s in node.src)
            self.plain[node] = make(node.op, node.dtype, sources, node.arg)

    def _value(self, node: Node) -> Node:
        """What stands for a source: a half as an exact float32."""
        half = self.halves.get(node)
        if half is None:
            return self.plain[node]
        if half.rounded is None:
            rounded = round_value(half.raw, half.dtype)
            half = self.halves[node] = _Half(half.dtype, half.raw, rounded)
        assert half.rounded is not None
        return half.rounded

    def _pattern(self, node: Node) -> Node:
        half = self.halves[node]
        return encode(half.raw, half.dtype) if half.pattern is None else half.pattern

    def _store(self, node: Node) -> Node:
        param, index, value, *valid = node.src
        stored = self._pattern(value) if value.dtype.is_half else self.plain[value]
        rest = (self.plain[v] for v in valid)
        sources = (self.plain[param], self.plain[index], stored, *rest)
        return make(Op.STORE, node.dtype, sources, node.arg)

    def _stage(self, node: Node) -> Node:
        value, *rest = node.src
        staged = self._pattern(value) if value.dtype.is_half else self.plain[value]
        sources = (staged, *(self.plain[r] for r in rest))
        return make(Op.STAGE, _stored(node.dtype), sources, node.arg)

    def _matrix(self, node: Node) -> None:
        factors = (self._pattern(s) if s.dtype.is_half else self.plain[s] for s in node.src[:2])
        sources = (*factors, *(self.plain[r] for r in node.src[2:]))
        made = make(Op.MATRIX, dt.float32, sources, node.arg)
        if node.dtype.is_half:
            self.halves[node] = _Half(node.dtype, made)
        else:
            self.plain[node] = made

    def _half(self, node: Node) -> _Half:
        dtype = node.dtype
        if node.op is Op.LOAD:
            sources = tuple(self.plain[s] for s in node.src)
            return _exact_pattern(make(Op.LOAD, dt.uint16, sources), dtype)
        if node.op is Op.CONST:
            return _constant(node)
        if node.op is Op.ACCUMULATE:
            sources = (self._value(node.src[0]), *(self.plain[r] for r in node.src[1:]))
            raw = make(node.op, dt.float32, sources, node.arg)
            return _Half(dtype, raw, raw if node.arg is Op.MAX else None)
        if node.op is Op.BITCAST:
            source = node.src[0]
            pattern = self._pattern(source) if source.dtype.is_half else self.plain[source]
            return _exact_pattern(bitcast(pattern, dt.uint16), dtype)
        if node.op is Op.CAST:
            source = self._value(node.src[0])
            wide = source.dtype is dt.float64
            return _Half(dtype, round_to_odd(source) if wide else cast(source, dt.float32))
        if node.op not in ELEMENTWISE:
            raise InternalError(f"{node.op.name} does not give a {dtype.name}")
        return self._passed_on(node) if node.op in (Op.NEG, Op.WHERE) else self._computed(node)

    def _computed(self, node: Node) -> _Half:
        raw = elementwise(node.op, *(self._value(s) for s in node.src))
        return _Half(node.dtype, raw, raw if node.op is Op.MAX else None)

    def _passed_on(self, node: Node) -> _Half:
        """NEG and WHERE: rounding may come before or after, and they work on patterns too."""
        dtype, choice = node.dtype, node.op is Op.WHERE
        condition = [self.plain[node.src[0]]] if choice else []
        operands = [self.halves[s] for s in node.src[len(condition):]]
        patterns = [h.pattern for h in operands if h.pattern is not None]
        pattern = None
        if len(patterns) == len(operands):
            pattern = (elementwise(node.op, *condition, *patterns) if choice
                       else xor(patterns[0], 0x8000))
        raw = elementwise(node.op, *condition, *(h.raw for h in operands))
        if all(h.rounded is h.raw for h in operands):
            return _Half(dtype, raw, raw, pattern)
        rounded = elementwise(node.op, *condition,
                              *(self._value(s) for s in node.src[len(condition):]))
        return _Half(dtype, raw, rounded, pattern)


def _stored(dtype: DType) -> DType:
    return dt.uint16 if dtype.is_half else dtype


def _exact_pattern(pattern: Node, dtype: DType) -> _Half:
    value = decode(pattern, dtype)
    return _Half(dtype, value, value, pattern)


def _constant(node: Node) -> _Half:
    dtype = node.dtype
    pattern = ops.encode(np.asarray(node.value, np.float32), dtype)
    value = const(float(ops.decode(pattern, dtype)), dt.float32)
    return _Half(dtype, value, value, const(int(pattern.view(np.uint16)), dt.uint16))
