"""How LLVM spells types and constants: in registers, in memory, and in names of intrinsics."""
from __future__ import annotations

import struct

from lazyten.ir.dtype import DType, Scalar


def scalar_type(dtype: DType) -> str:
    """The register type of one element; of 16-bit floats, float16 alone has one."""
    if dtype.kind == "b":
        return "i1"
    floats = {16: "half", 32: "float", 64: "double"}
    return floats[dtype.bits] if dtype.is_float else f"i{dtype.bits}"


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


def suffix(dtype: DType, lanes: int) -> str:
    """What an intrinsic's name ends in: v8f32."""
    kind = ("f" if dtype.is_float else "i") + str(dtype.bits)
    return kind if lanes == 1 else f"v{lanes}{kind}"
