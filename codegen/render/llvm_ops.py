"""How LLVM spells each elementwise op: a table row an op.

A row is a template over the operands' names and types, or a function for ops that take several
instructions. Semantics are those of the op table; what decompose has already removed has no row.
"""
from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Protocol

from lazyten.ir import dtype as dt
from lazyten.ir.dtype import DType, Scalar
from lazyten.ir.ops import Op


def scalar_type(dtype: DType) -> str:
    """The register type of one element."""
    if dtype.kind == "b":
        return "i1"
    return {32: "float", 64: "double"}[dtype.bits] if dtype.is_float else f"i{dtype.bits}"


def memory_type(dtype: DType) -> str:
    """The type of one element in memory: bools take a byte."""
    return "i8" if dtype.kind == "b" else scalar_type(dtype)


def type_name(dtype: DType, lanes: int) -> str:
    """The register type of a value: a scalar, or a vector of several lanes."""
    return scalar_type(dtype) if lanes == 1 else f"<{lanes} x {scalar_type(dtype)}>"


def literal(value: Scalar, dtype: DType, lanes: int = 1) -> str:
    """A constant operand (without its type)."""
    if dtype.kind == "b":
        text = "true" if value else "false"
    elif dtype.is_float:
        text = _float_literal(_to_float32(float(value)) if dtype.bits == 32 else float(value))
    else:
        text = str(int(value))
    return text if lanes == 1 else f"splat ({scalar_type(dtype)} {text})"


def _float_literal(number: float) -> str:
    """Decimal where that is short and exact, as LLVM asks, else the bits of the double."""
    if number != number:
        return "0x7FF8000000000000"
    if abs(number) < 1e6 and (number * 64).is_integer():
        return repr(number)
    return f"0x{struct.pack('>d', number).hex().upper()}"


def _to_float32(number: float) -> float:
    try:
        return float(struct.unpack("<f", struct.pack("<f", number))[0])
    except OverflowError:
        return float("inf") if number > 0 else float("-inf")


class Emitter(Protocol):
    """What a row needs of the renderer."""

    def line(self, text: str) -> str:
        """Append `%new = text`; gives the new name."""

    def intrinsic(self, name: str, result: str, *args: tuple[str, str]) -> str:
        """Call an intrinsic on (type, operand) pairs, declaring it; gives the result's name."""


Row = Callable[[Emitter, DType, int, tuple[str, ...]], str]


def _pick(floating: str, signed: str, unsigned: str | None = None) -> Row:
    """One instruction, by kind of operand: '{op} type a, b'."""
    def row(out: Emitter, dtype: DType, lanes: int, args: tuple[str, ...]) -> str:
        integer = signed if dtype.kind == "i" else unsigned or signed
        spelling = floating if dtype.is_float else integer
        return out.line(f"{spelling} {type_name(dtype, lanes)} {', '.join(args)}")
    return row


def _neg(out: Emitter, dtype: DType, lanes: int, args: tuple[str, ...]) -> str:
    kind = type_name(dtype, lanes)
    return out.line(f"fneg {kind} {args[0]}" if dtype.is_float
                    else f"sub {kind} {literal(0, dtype, lanes)}, {args[0]}")


def _not(out: Emitter, dtype: DType, lanes: int, args: tuple[str, ...]) -> str:
    ones = literal(True if dtype.kind == "b" else -1, dtype, lanes)
    return out.line(f"xor {type_name(dtype, lanes)} {args[0]}, {ones}")


def _sqrt(out: Emitter, dtype: DType, lanes: int, args: tuple[str, ...]) -> str:
    kind = type_name(dtype, lanes)
    return out.intrinsic(f"llvm.sqrt.{suffix(dtype, lanes)}", kind, (kind, args[0]))


def _reciprocal(out: Emitter, dtype: DType, lanes: int, args: tuple[str, ...]) -> str:
    return out.line(f"fdiv {type_name(dtype, lanes)} {literal(1.0, dtype, lanes)}, {args[0]}")


def _max(out: Emitter, dtype: DType, lanes: int, args: tuple[str, ...]) -> str:
    """The greater; NaN if either is: `a > b ? a : b` keeps b's NaN, a second select a's."""
    a, b = args
    kind, mask = type_name(dtype, lanes), type_name(dt.bool_, lanes)
    if dtype.kind == "b":
        return out.line(f"or {kind} {a}, {b}")
    compare = {"f": "fcmp ogt", "i": "icmp sgt", "u": "icmp ugt"}[dtype.kind]
    greater = out.line(f"{compare} {kind} {a}, {b}")
    result = out.line(f"select {mask} {greater}, {kind} {a}, {kind} {b}")
    if not dtype.is_float:
        return result
    unordered = out.line(f"fcmp uno {kind} {a}, {a}")
    return out.line(f"select {mask} {unordered}, {kind} {a}, {kind} {result}")


def _where(out: Emitter, dtype: DType, lanes: int, args: tuple[str, ...]) -> str:
    return _select(out, lanes, type_name(dtype, lanes), *args)


def _mulacc(out: Emitter, dtype: DType, lanes: int, args: tuple[str, ...]) -> str:
    kind = type_name(dtype, lanes)
    if dtype.is_float:
        name = f"llvm.fmuladd.{suffix(dtype, lanes)}"
        return out.intrinsic(name, kind, *((kind, a) for a in args))
    return out.line(f"add {kind} {out.line(f'mul {kind} {args[0]}, {args[1]}')}, {args[2]}")


def _select(out: Emitter, lanes: int, kind: str, condition: str, a: str, b: str) -> str:
    return out.line(f"select {type_name(dt.bool_, lanes)} {condition}, {kind} {a}, {kind} {b}")


def _is_positive_constant(operand: str) -> bool:
    """A literal divisor that needs no guard: not 0, and not -1, whose quotient may overflow."""
    text = operand.rstrip(")").split()[-1]
    return text.isdigit() and int(text) > 0


def _int_division(out: Emitter, dtype: DType, lanes: int, args: tuple[str, ...],
                  modulo: bool) -> str:
    """Floor division or its remainder. By 0: 0. The least integer by -1 wraps."""
    a, b = args
    kind, mask = type_name(dtype, lanes), type_name(dt.bool_, lanes)
    zero, one = literal(0, dtype, lanes), literal(1, dtype, lanes)
    constant = _is_positive_constant(b)
    safe, is_zero, is_minus = b, "", ""
    if not constant:
        is_zero = out.line(f"icmp eq {kind} {b}, {zero}")
        safe = _select(out, lanes, kind, is_zero, one, b)
        if dtype.kind == "i":
            is_minus = out.line(f"icmp eq {kind} {b}, {literal(-1, dtype, lanes)}")
            safe = _select(out, lanes, kind, is_minus, one, safe)
    sign = "s" if dtype.kind == "i" else "u"
    result = out.line(f"{sign}rem {kind} {a}, {safe}")
    if sign == "s":
        nonzero = out.line(f"icmp ne {kind} {result}, {zero}")
        signs = out.line(f"xor {kind} {result}, {safe}")
        opposite = out.line(f"icmp slt {kind} {signs}, {zero}")
        crossed = out.line(f"and {mask} {nonzero}, {opposite}")
        if modulo:
            moved = out.line(f"add {kind} {result}, {safe}")
            result = _select(out, lanes, kind, crossed, moved, result)
        else:
            quotient = out.line(f"sdiv {kind} {a}, {safe}")
            lower = out.line(f"sub {kind} {quotient}, {one}")
            result = _select(out, lanes, kind, crossed, lower, quotient)
    elif not modulo:
        result = out.line(f"udiv {kind} {a}, {safe}")
    if is_minus:
        negated = zero if modulo else out.line(f"sub {kind} {zero}, {a}")
        result = _select(out, lanes, kind, is_minus, negated, result)
    return result if constant else _select(out, lanes, kind, is_zero, zero, result)


def _float_modulo(out: Emitter, dtype: DType, lanes: int, args: tuple[str, ...]) -> tuple[str, str]:
    """C's remainder, and whether it must move by one divisor to get the divisor's sign."""
    a, b = args
    kind, mask = type_name(dtype, lanes), type_name(dt.bool_, lanes)
    zero = literal(0.0, dtype, lanes)
    remainder = out.line(f"frem {kind} {a}, {b}")
    nonzero = out.line(f"fcmp une {kind} {remainder}, {zero}")
    signs = out.line(f"xor {mask} {out.line(f'fcmp olt {kind} {b}, {zero}')}, "
                     + out.line(f"fcmp olt {kind} {remainder}, {zero}"))
    return remainder, out.line(f"and {mask} {nonzero}, {signs}")


def _float_mod(out: Emitter, dtype: DType, lanes: int, args: tuple[str, ...]) -> str:
    kind = type_name(dtype, lanes)
    remainder, crossed = _float_modulo(out, dtype, lanes, args)
    moved = out.line(f"fadd {kind} {remainder}, {args[1]}")
    moved = _select(out, lanes, kind, crossed, moved, remainder)
    signed = out.intrinsic(f"llvm.copysign.{suffix(dtype, lanes)}", kind,
                           (kind, literal(0.0, dtype, lanes)), (kind, args[1]))
    is_zero = out.line(f"fcmp oeq {kind} {remainder}, {literal(0.0, dtype, lanes)}")
    return _select(out, lanes, kind, is_zero, signed, moved)


def _float_floor_division(out: Emitter, dtype: DType, lanes: int, args: tuple[str, ...]) -> str:
    """NumPy's: from the remainder, so that it agrees with `%`, rounded to the nearest integer."""
    a, b = args
    kind, name = type_name(dtype, lanes), suffix(dtype, lanes)
    if b == literal(1.0, dtype, lanes):
        return _floor(out, kind, name, lanes, a)
    zero, one = literal(0.0, dtype, lanes), literal(1.0, dtype, lanes)
    remainder, crossed = _float_modulo(out, dtype, lanes, args)
    quotient = out.line(f"fdiv {kind} {out.line(f'fsub {kind} {a}, {remainder}')}, {b}")
    lower = out.line(f"fsub {kind} {quotient}, {one}")
    quotient = _select(out, lanes, kind, crossed, lower, quotient)
    floor = out.intrinsic(f"llvm.floor.{name}", kind, (kind, quotient))
    rest = out.line(f"fsub {kind} {quotient}, {floor}")
    low = out.line(f"fcmp ogt {kind} {rest}, {literal(0.5, dtype, lanes)}")
    floor = _select(out, lanes, kind, low, out.line(f"fadd {kind} {floor}, {one}"), floor)
    exact = out.line(f"fdiv {kind} {a}, {b}")
    signed = out.intrinsic(f"llvm.copysign.{name}", kind, (kind, zero), (kind, exact))
    is_zero = out.line(f"fcmp oeq {kind} {quotient}, {zero}")
    floor = _select(out, lanes, kind, is_zero, signed, floor)
    return _select(out, lanes, kind, out.line(f"fcmp oeq {kind} {b}, {zero}"), exact, floor)


def _floor(out: Emitter, kind: str, name: str, lanes: int, x: str) -> str:
    """Floor division by 1, which is NaN for an infinite x."""
    floor = out.intrinsic(f"llvm.floor.{name}", kind, (kind, x))
    none = out.line(f"fsub {kind} {x}, {x}")
    infinite = out.line(f"fcmp uno {kind} {none}, {none}")
    return _select(out, lanes, kind, infinite, none, floor)


def _idiv(out: Emitter, dtype: DType, lanes: int, args: tuple[str, ...]) -> str:
    if dtype.is_float:
        return _float_floor_division(out, dtype, lanes, args)
    return _int_division(out, dtype, lanes, args, modulo=False)


def _mod(out: Emitter, dtype: DType, lanes: int, args: tuple[str, ...]) -> str:
    if dtype.is_float:
        return _float_mod(out, dtype, lanes, args)
    return _int_division(out, dtype, lanes, args, modulo=True)


def suffix(dtype: DType, lanes: int) -> str:
    """What an intrinsic's name ends in: v8f32."""
    kind = ("f" if dtype.is_float else "i") + str(dtype.bits)
    return kind if lanes == 1 else f"v{lanes}{kind}"


def convert(out: Emitter, source: DType, target: DType, lanes: int, x: str) -> str:
    """CAST, where the value is within the target's range (decompose has seen to that)."""
    old, new = type_name(source, lanes), type_name(target, lanes)
    if target.kind == "b":
        compare = "fcmp une" if source.is_float else "icmp ne"
        return out.line(f"{compare} {old} {x}, {literal(0, source, lanes)}")
    signed = source.kind == "i"
    if source.is_float and target.is_float:
        spelling = "fpext" if target.bits > source.bits else "fptrunc"
    elif source.is_float:
        spelling = "fptosi" if target.kind == "i" else "fptoui"
    elif target.is_float:
        spelling = "sitofp" if signed else "uitofp"
    elif target.bits == source.bits:
        return x
    else:
        spelling = "trunc" if target.bits < source.bits else "sext" if signed else "zext"
    return out.line(f"{spelling} {old} {x} to {new}")


ROWS: dict[Op, Row] = {
    Op.NEG: _neg, Op.NOT: _not, Op.SQRT: _sqrt, Op.RECIPROCAL: _reciprocal,
    Op.ADD: _pick("fadd", "add"), Op.SUB: _pick("fsub", "sub"), Op.MUL: _pick("fmul", "mul"),
    Op.DIV: _pick("fdiv", "sdiv"), Op.IDIV: _idiv, Op.MOD: _mod, Op.MAX: _max,
    Op.CMPLT: _pick("fcmp olt", "icmp slt", "icmp ult"), Op.CMPNE: _pick("fcmp une", "icmp ne"),
    Op.AND: _pick("", "and"), Op.OR: _pick("", "or"), Op.XOR: _pick("", "xor"),
    Op.SHL: _pick("", "shl"), Op.SHR: _pick("", "ashr", "lshr"),
    Op.WHERE: _where, Op.MULACC: _mulacc,
}
