"""How LLVM spells each elementwise op: a table row an op.

A row is a template over the operands' names and types, or a function for ops that take several
instructions. Semantics are those of the op table; what decompose has already removed has no row.
"""
from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from lazyten.codegen.render.llvm_functions import EXACT, Defined, remainder
from lazyten.codegen.render.llvm_types import literal, suffix, type_name
from lazyten.ir import dtype as dt
from lazyten.ir.dtype import DType
from lazyten.ir.ops import Op


class Emitter(Protocol):
    """What a row needs of the renderer. fuses: see Target."""

    fuses: bool

    def line(self, text: str) -> str:
        """Append `%new = text`; gives the new name."""

    def intrinsic(self, name: str, result: str, *args: tuple[str, str]) -> str:
        """Call an intrinsic on (type, operand) pairs, declaring it; gives the result's name."""

    def call(self, called: Defined, result: str, *args: tuple[str, str]) -> str:
        """Call a function on (type, operand) pairs, defining it; gives the result's name."""


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
    kind, mask = type_name(dtype, lanes), type_name(dt.bool_, lanes)
    return out.line(f"select {mask} {args[0]}, {kind} {args[1]}, {kind} {args[2]}")


def _mulacc(out: Emitter, dtype: DType, lanes: int, args: tuple[str, ...]) -> str:
    kind = type_name(dtype, lanes)
    if dtype.is_float:
        name = f"llvm.fmuladd.{suffix(dtype, lanes)}"
        return out.intrinsic(name, kind, *((kind, a) for a in args))
    return out.line(f"add {kind} {out.line(f'mul {kind} {args[0]}, {args[1]}')}, {args[2]}")


def _floor(out: Emitter, dtype: DType, lanes: int, args: tuple[str, ...]) -> str:
    kind = type_name(dtype, lanes)
    return out.intrinsic(f"llvm.floor.{suffix(dtype, lanes)}", kind, (kind, args[0]))


def _greater(out: Emitter, dtype: DType, lanes: int, args: tuple[str, ...]) -> str:
    kind = type_name(dtype, lanes)
    return out.intrinsic(f"llvm.maxnum.{suffix(dtype, lanes)}", kind, *((kind, a) for a in args))


def _remainder(out: Emitter, dtype: DType, lanes: int, args: tuple[str, ...]) -> str:
    found = remainder(dtype, lanes, out.fuses) if dtype in EXACT else None
    if found is None:
        return _pick("frem", "srem", "urem")(out, dtype, lanes, args)
    kind = type_name(dtype, lanes)
    return out.call(found, kind, *((kind, a) for a in args))


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
    Op.DIV: _pick("fdiv", "sdiv"), Op.QUOTIENT: _pick("", "sdiv", "udiv"),
    Op.REMAINDER: _remainder, Op.FLOOR: _floor, Op.MAX: _max,
    Op.CMPLT: _pick("fcmp olt", "icmp slt", "icmp ult"), Op.CMPNE: _pick("fcmp une", "icmp ne"),
    Op.AND: _pick("", "and"), Op.OR: _pick("", "or"), Op.XOR: _pick("", "xor"),
    Op.SHL: _pick("", "shl"), Op.SHR: _pick("", "ashr", "lshr"),
    Op.WHERE: _where, Op.MULACC: _mulacc, Op.GREATER: _greater,
}
