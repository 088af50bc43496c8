"""The 8- and 16-bit floats in float32: machine code has none of them.

In: LOOP-level STORE nodes. Out: the same stores without narrow floats: their memory is uint8 or
uint16, decoded after a load and encoded before a store; every op on them is computed in float32 and
its result rounded to what the narrow type can hold, as the op table's `round_to` says. What a
device has of 16-bit floats (native_half.py) is used in the place of the formulas. decompose calls
it first.
"""
from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from lazyten.codegen.numerics.casts import round_to_odd
from lazyten.codegen.numerics.expression import (
    UNSIGNED,
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
from lazyten.codegen.targets.native_half import SOFTWARE, NativeHalves
from lazyten.ir import dtype as dt
from lazyten.ir import ops
from lazyten.ir.dtype import DType
from lazyten.ir.node import Node, cast, const, elementwise, make, toposort
from lazyten.ir.ops import ELEMENTWISE, Op
from lazyten.support.errors import InternalError

# ---- formats -------------------------------------------------------------------------------------

@dataclass(frozen=True, slots=True)
class _Format:
    """How a narrow float is laid out: a sign, an exponent, and `fraction` bits after the point.

    beyond: the code, without its sign, of what is past the greatest number. special: the first
    code that is an infinity or NaN, and nan: the one that a NaN gets.
    """

    fraction: int
    bias: int
    beyond: int
    special: int
    nan: int

    @property
    def dropped(self) -> int:
        """How many bits of a float32's fraction it does not have."""
        return 23 - self.fraction


_FORMATS = {dt.float16: _Format(10, 15, 0x7C00, 0x7C00, 0x7E00),
            dt.float8_e5m2: _Format(2, 15, 0x7C, 0x7C, 0x7E),
            dt.float8_e4m3fn: _Format(3, 7, 0x7E, 0x7F, 0x7F)}
"""float8_e4m3fn has no infinity: its greatest number stands for it. (bfloat16 is a float32 cut off,
and has rows of its own.)"""


def decode(pattern: Node, dtype: DType, native: NativeHalves = SOFTWARE) -> Node:
    """The float32 value of the pattern of a narrow float."""
    wide = cast(pattern, dt.uint32)
    if dtype is dt.bfloat16:
        return bitcast(shl(wide, 16), dt.float32)
    if native.converts(dtype):
        return cast(bitcast(pattern, dtype), dt.float32)
    form, top = _FORMATS[dtype], 1 << dtype.bits - 1
    magnitude = shl(both(wide, top - 1), form.dropped)
    normal = add(magnitude, (127 - form.bias) << 23)
    special = either(normal, 255 << 23)
    lifted = sub(bitcast(add(magnitude, (128 - form.bias) << 23), dt.float32),
                 2.0 ** (1 - form.bias))
    value = where(less(magnitude, 1 << 23), bits_of(lifted),
                  where(less(magnitude, form.special << form.dropped), normal, special))
    return bitcast(either(value, shl(both(wide, top), 32 - dtype.bits)), dt.float32)


def encode(value: Node, dtype: DType, native: NativeHalves = SOFTWARE) -> Node:
    """The pattern of a float32, rounded to nearest even; a NaN is kept and made quiet, but by
    instructions, which give one of their own."""
    if native.converts(dtype):
        return bitcast(cast(value, dtype), UNSIGNED[dtype.bits])
    pattern = bits_of(value)
    if dtype is dt.bfloat16:
        rounded = where(differ(value, value), either(shr(pattern, 16), 0x40),
                        shr(_round_bits(pattern, 16), 16))
        return cast(rounded, dt.uint16)
    form, top = _FORMATS[dtype], 1 << dtype.bits - 1
    magnitude = both(pattern, 0x7FFF_FFFF)
    normal = shr(sub(_round_bits(magnitude, form.dropped), (127 - form.bias) << 23), form.dropped)
    normal = where(less(normal, form.beyond), normal, form.beyond)
    unit = 24 - form.bias - form.fraction  # adding 2**unit rounds at the least subnormal
    lifted = sub(bits_of(add(bitcast(magnitude, dt.float32), 2.0**unit)), (127 + unit) << 23)
    finite = where(less(magnitude, (128 - form.bias) << 23), lifted, normal)
    payload = either(both(shr(magnitude, form.dropped), (1 << form.fraction) - 1), form.nan)
    result = where(less(255 << 23, magnitude), payload, finite)
    return cast(either(result, both(shr(pattern, 32 - dtype.bits), top)), UNSIGNED[dtype.bits])


def round_value(value: Node, dtype: DType, native: NativeHalves = SOFTWARE) -> Node:
    """A float32 rounded to what `dtype` can hold, as a float32."""
    if dtype.is_stored or native.converts(dtype):
        return decode(encode(value, dtype, native), dtype, native)
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
    """A narrow float value, in the forms that are at hand.

    raw: a float32 that rounds to it. rounded: the float32 equal to it, None until somebody needs
    it. pattern: what memory holds, where that takes no encoding.
    """

    dtype: DType
    raw: Node
    rounded: Node | None = None
    pattern: Node | None = None


def lower_halves(stores: Sequence[Node], native: NativeHalves = SOFTWARE) -> list[Node]:
    """The same stores, with narrow floats in memory only, as unsigned integers; what is native has
    them between BITCASTs, too."""
    order = toposort(stores)
    if not any(n.dtype.is_narrow for n in order):
        return list(stores)
    work = _Halves(native)
    for node in order:
        work.visit(node)
    return [work.plain[s] for s in stores]


class _Halves:
    """What each node has become: in `halves` if it is a narrow float, otherwise in `plain`."""

    def __init__(self, native: NativeHalves) -> None:
        self.native = native
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
        elif node.dtype.is_narrow:
            self.halves[node] = self._half(node)
        elif node.op is Op.BITCAST and node.src[0].dtype.is_narrow:
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
            rounded = round_value(half.raw, half.dtype, self.native)
            half = self.halves[node] = _Half(half.dtype, half.raw, rounded)
        assert half.rounded is not None
        return half.rounded

    def _pattern(self, node: Node) -> Node:
        half = self.halves[node]
        return encode(half.raw, half.dtype, self.native) if half.pattern is None else half.pattern

    def _store(self, node: Node) -> Node:
        param, index, value, *valid = node.src
        stored = self._pattern(value) if value.dtype.is_narrow else self.plain[value]
        rest = (self.plain[v] for v in valid)
        sources = (self.plain[param], self.plain[index], stored, *rest)
        return make(Op.STORE, node.dtype, sources, node.arg)

    def _stage(self, node: Node) -> Node:
        sources = (self._pattern(s) if s.dtype.is_narrow else self.plain[s] for s in node.src)
        return make(Op.STAGE, _stored(node.dtype), tuple(sources), node.arg)

    def _matrix(self, node: Node) -> None:
        factors = (self._pattern(s) if s.dtype.is_narrow else self.plain[s] for s in node.src[:2])
        sources = (*factors, *(self.plain[r] for r in node.src[2:]))
        made = make(Op.MATRIX, dt.float32, sources, node.arg)
        if node.dtype.is_narrow:
            self.halves[node] = _Half(node.dtype, made)
        else:
            self.plain[node] = made

    def _half(self, node: Node) -> _Half:
        dtype = node.dtype
        if node.op is Op.LOAD:
            sources = tuple(self.plain[s] for s in node.src)
            return self._exact(make(Op.LOAD, _stored(dtype), sources), dtype)
        if node.op is Op.CONST:
            return _constant(node)
        if node.op is Op.ACCUMULATE:
            sources = (self._value(node.src[0]), *(self.plain[r] for r in node.src[1:]))
            raw = make(node.op, dt.float32, sources, node.arg)
            return _Half(dtype, raw, raw if node.arg is Op.MAX else None)
        if node.op is Op.BITCAST:
            source = node.src[0]
            pattern = self._pattern(source) if source.dtype.is_narrow else self.plain[source]
            return self._exact(bitcast(pattern, _stored(dtype)), dtype)
        if node.op is Op.CAST:
            source = self._value(node.src[0])
            wide = source.dtype is dt.float64
            return _Half(dtype, round_to_odd(source) if wide else cast(source, dt.float32))
        if node.op not in ELEMENTWISE:
            raise InternalError(f"{node.op.name} does not give a {dtype.name}")
        return self._passed_on(node) if node.op in (Op.NEG, Op.WHERE) else self._computed(node)

    def _exact(self, pattern: Node, dtype: DType) -> _Half:
        value = decode(pattern, dtype, self.native)
        return _Half(dtype, value, value, pattern)

    def _computed(self, node: Node) -> _Half:
        if self.native.computes(node.op, node.dtype):
            args = (bitcast(self._pattern(s), node.dtype) for s in node.src)
            return self._exact(bitcast(elementwise(node.op, *args), _stored(node.dtype)),
                               node.dtype)
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
    return UNSIGNED[dtype.bits] if dtype.is_narrow else dtype


def _constant(node: Node) -> _Half:
    dtype = node.dtype
    pattern = ops.encode(np.asarray(node.value, np.float32), dtype)
    value, stored = const(float(ops.decode(pattern, dtype)), dt.float32), _stored(dtype)
    return _Half(dtype, value, value, const(int(pattern.view(stored.numpy)), stored))
