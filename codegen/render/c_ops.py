"""How C spells each elementwise op: a table row an op.

A row gives an expression over operands that are names or literals, of one type and number of lanes.
Semantics are those of the op table; what decompose has already removed has no row. A bool is `bool`
as a scalar; among several lanes it is a `char` of all ones or zeros, which is what comparisons give
and `c ? a : b` takes, lane by lane, once it is as wide as a and b.
"""
from __future__ import annotations

import math
import re
import struct
from collections.abc import Callable
from typing import Protocol

from lazyten.codegen.targets.dialect import Dialect
from lazyten.codegen.targets.near import NEAR_EXP2
from lazyten.ir.dtype import DType, Scalar
from lazyten.ir.ops import Op

_BY_BITS = {8: "char", 16: "short", 32: "int", 64: "long"}


def element_type(dtype: DType) -> str:
    """The type of one element in memory, and in registers but for bools, which are bytes there.
    16-bit floats are their patterns."""
    if dtype.is_float and not dtype.is_half:
        return {32: "float", 64: "double"}[dtype.bits]
    return "u" + _BY_BITS[max(dtype.bits, 8)]


def type_name(dtype: DType, lanes: int) -> str:
    """The register type of a value."""
    if dtype.kind == "b":
        return "bool" if lanes == 1 else f"char{lanes}"
    return element_type(dtype) + _width(lanes)


def mask_type(dtype: DType, lanes: int) -> str:
    """The type of a comparison of two values."""
    return "int" if lanes == 1 else _BY_BITS[max(dtype.bits, 8)] + str(lanes)


def _width(lanes: int) -> str:
    return "" if lanes == 1 else str(lanes)


def lane(*numbers: int) -> str:
    """How lanes of a vector are named: `.s0` to `.sf`; several are a vector, `.s0123`."""
    return ".s" + "".join(f"{i:x}" for i in numbers)


def literal(value: Scalar, dtype: DType, lanes: int = 1) -> str:
    """A constant operand."""
    if lanes > 1:
        one = str(-int(bool(value))) if dtype.kind == "b" else literal(value, dtype)
        return f"({type_name(dtype, lanes)})({one})"
    if dtype.kind == "b":
        return "true" if value else "false"
    if dtype.is_float:
        return _float_literal(float(value), dtype)
    size, cast = abs(int(value)), f"({element_type(dtype)})" if dtype.bits < 32 else ""
    text = f"{size}{'ul' if dtype.bits == 64 else 'u'}"
    return f"({cast}-{text})" if int(value) < 0 else f"({cast}{text})" if cast else text


def _float_literal(number: float, dtype: DType) -> str:
    """Decimal where that is short and exact, or else hexadecimal; the bits of NaN and infinity."""
    double = dtype.bits == 64
    try:
        bits = struct.pack("<d" if double else "<f", number)
    except OverflowError:
        bits = struct.pack("<f", math.copysign(math.inf, number))
    if number != number:
        return "as_double(0x7ff8000000000000ul)" if double else "as_float(0x7fc00000u)"
    rounded: float = struct.unpack("<d" if double else "<f", bits)[0]
    if math.isinf(rounded):
        return (f"as_double({int.from_bytes(bits, 'little'):#x}ul)" if double
                else f"as_float({int.from_bytes(bits, 'little'):#x}u)")
    short = abs(rounded) < 1e6 and (rounded * 64).is_integer()
    digits = repr(rounded) if short else re.sub(r"\.?0*p", "p", rounded.hex())
    text = digits + ("" if double else "f")
    return f"({text})" if text[0] == "-" else text


class Emitter(Protocol):
    """What a row needs of the renderer."""

    dialect: Dialect

    def let(self, kind: str, text: str) -> str:
        """Append `kind new = text;`; gives the new name."""

    def mulacc(self, a: str, b: str, c: str) -> str:
        """a * b + c of floats."""

    def call(self, name: str, dtype: DType, lanes: int, *args: str) -> str:
        """A built-in function of operands of one type, lane by lane."""

    def helper(self, name: str, *args: str) -> str:
        """A call of one of the dialect's functions."""

    def to_vector(self, kind: str, x: str) -> str:
        """A vector converted to another type, of as many lanes."""


Row = Callable[[Emitter, DType, int, tuple[str, ...]], str]


def signed(x: str, dtype: DType, lanes: int) -> str:
    """An operand as its type is: integers with their sign."""
    if dtype.kind != "i":
        return x
    kind = _BY_BITS[dtype.bits]
    return f"({kind}){x}" if lanes == 1 else f"as_{kind}{lanes}({x})"


def _unsigned(expression: str, dtype: DType, lanes: int) -> str:
    kind = type_name(dtype, lanes)
    return f"({kind})({expression})" if lanes == 1 else f"as_{kind}({expression})"


def _promoted(x: str, dtype: DType, lanes: int) -> str:
    """A scalar narrower than int, which C would make a signed int, as an unsigned one."""
    return f"(uint){x}" if lanes == 1 and dtype.is_int and dtype.bits < 32 else x


def _as_bool(out: Emitter, comparison: str, lanes: int) -> str:
    return comparison if lanes == 1 else out.to_vector(f"char{lanes}", comparison)


def _infix(symbol: str) -> Row:
    def row(out: Emitter, dtype: DType, lanes: int, args: tuple[str, ...]) -> str:
        return f"{_promoted(args[0], dtype, lanes)} {symbol} {args[1]}"
    return row


def _neg(out: Emitter, dtype: DType, lanes: int, args: tuple[str, ...]) -> str:
    return f"-{_promoted(args[0], dtype, lanes)}"


def _not(out: Emitter, dtype: DType, lanes: int, args: tuple[str, ...]) -> str:
    return f"!{args[0]}" if dtype.kind == "b" and lanes == 1 else f"~{args[0]}"


def _reciprocal(out: Emitter, dtype: DType, lanes: int, args: tuple[str, ...]) -> str:
    return f"{literal(1.0, dtype, lanes)} / {args[0]}"


def _sqrt(out: Emitter, dtype: DType, lanes: int, args: tuple[str, ...]) -> str:
    return out.call("sqrt", dtype, lanes, args[0])


def _less(out: Emitter, dtype: DType, lanes: int, args: tuple[str, ...]) -> str:
    if dtype.kind == "b":
        return f"{_not(out, dtype, lanes, args)} & {args[1]}"
    a, b = _ordered(out, dtype, lanes, args)
    return _as_bool(out, f"{a} < {b}", lanes)


def _ordered(out: Emitter, dtype: DType, lanes: int, args: tuple[str, ...]) -> tuple[str, ...]:
    """Numbers as they are compared for the greater."""
    if dtype.kind == "i" and out.dialect.guards_choices:
        sign = _unsigned(f"{1 << dtype.bits - 1}ul", dtype, 1)
        return tuple(f"({x} ^ {sign})" for x in args)
    return tuple(signed(x, dtype, lanes) for x in args)


def _unequal(out: Emitter, dtype: DType, lanes: int, args: tuple[str, ...]) -> str:
    if dtype.kind == "b":
        return f"{args[0]} ^ {args[1]}"
    return _as_bool(out, f"{args[0]} != {args[1]}", lanes)


def _shift_right(out: Emitter, dtype: DType, lanes: int, args: tuple[str, ...]) -> str:
    value, count = (signed(x, dtype, lanes) for x in args)
    return _unsigned(f"{value} >> {count}", dtype, lanes)


def _max(out: Emitter, dtype: DType, lanes: int, args: tuple[str, ...]) -> str:
    """The greater; NaN if either is: a where that is NaN, and where b is, `a > b` is false."""
    a, b = args
    if dtype.kind == "b":
        return f"{a} | {b}"
    if dtype.is_float:
        return f"(({a} > {b}) | ({a} != {a})) ? {a} : {b}"
    first, second = _ordered(out, dtype, lanes, args)
    return f"({first} > {second}) ? {_chosen(out, dtype, a)} : {b}"


def _greater(out: Emitter, dtype: DType, lanes: int, args: tuple[str, ...]) -> str:
    return f"fmax({args[0]}, {args[1]})"


def _near_exp2(out: Emitter, dtype: DType, lanes: int, args: tuple[str, ...]) -> str:
    return out.helper(NEAR_EXP2, *args)


def _where(out: Emitter, dtype: DType, lanes: int, args: tuple[str, ...]) -> str:
    condition, a, b = args
    if lanes > 1 and dtype.bits > 8:
        condition = out.to_vector(mask_type(dtype, lanes), condition)
    return f"{condition} ? {_chosen(out, dtype, a)} : {b}"


def _chosen(out: Emitter, dtype: DType, x: str) -> str:
    """An integer as it may stand beside a condition. With 0, which the compiler does not know."""
    if dtype.is_int and out.dialect.guards_choices:
        return f"({x} ^ {_unsigned('get_work_dim() >> 8', dtype, 1)})"
    return x


def _mulacc(out: Emitter, dtype: DType, lanes: int, args: tuple[str, ...]) -> str:
    a, b, c = args
    if dtype.is_float:
        return out.mulacc(a, b, c)
    return f"{_promoted(a, dtype, lanes)} * {b} + {c}"


def _truncating(symbol: str) -> Row:
    def row(out: Emitter, dtype: DType, lanes: int, args: tuple[str, ...]) -> str:
        if dtype.is_float:
            return out.call("fmod", dtype, lanes, *args)
        result = f" {symbol} ".join(signed(x, dtype, lanes) for x in args)
        return _unsigned(result, dtype, lanes) if dtype.kind == "i" else result
    return row


def _floor(out: Emitter, dtype: DType, lanes: int, args: tuple[str, ...]) -> str:
    return out.call("floor", dtype, lanes, args[0])


def convert(out: Emitter, source: DType, target: DType, lanes: int, x: str) -> str:
    """CAST, where the value is within the target's range (decompose has seen to that)."""
    if source is target or source.is_int and target.is_int and source.bits == target.bits:
        return x
    if target.kind == "b":
        return _as_bool(out, f"{x} != {literal(0, source, lanes)}", lanes)
    if lanes == 1:
        if source.is_int and target.is_int and target.bits < source.bits:
            return f"({element_type(target)}){x}"
        kind = element_type(target) if target.kind != "i" else _BY_BITS[target.bits]
        converted = f"({kind}){signed(x, source, lanes)}"
        return f"({element_type(target)}){converted}" if target.kind == "i" else converted
    if source.kind == "b":
        return out.to_vector(type_name(target, lanes), f"{x} & (char{lanes})(1)")
    x = signed(x, source, lanes)
    if target.is_float or target.kind == "u" and source.kind != "i":
        return out.to_vector(type_name(target, lanes), x)
    converted = out.to_vector(f"{_BY_BITS[target.bits]}{lanes}", x)
    return f"as_{type_name(target, lanes)}({converted})"


ROWS: dict[Op, Row] = {
    Op.NEG: _neg, Op.NOT: _not, Op.SQRT: _sqrt,
    Op.RECIPROCAL: _reciprocal, Op.ADD: _infix("+"), Op.SUB: _infix("-"), Op.MUL: _infix("*"),
    Op.DIV: _infix("/"), Op.QUOTIENT: _truncating("/"), Op.REMAINDER: _truncating("%"),
    Op.FLOOR: _floor, Op.MAX: _max, Op.CMPLT: _less, Op.CMPNE: _unequal, Op.AND: _infix("&"),
    Op.OR: _infix("|"), Op.XOR: _infix("^"), Op.SHL: _infix("<<"), Op.SHR: _shift_right,
    Op.WHERE: _where, Op.MULACC: _mulacc, Op.GREATER: _greater,
    Op.NEAR_EXP2: _near_exp2,
}
