"""Functions of LLVM IR for ops that have no instruction, defined beside the kernels that call them.

In: how many lanes. Out: a `Defined`. One definition serves all kernels of a module.
"""
from __future__ import annotations

import math
from functools import lru_cache
from string import Template
from typing import NamedTuple

from lazyten.codegen.render.llvm_types import literal, suffix, type_name
from lazyten.ir import dtype as dt
from lazyten.ir.dtype import DType


class Defined(NamedTuple):
    """A function: its name and definition, and lines that must stand before it."""

    name: str
    text: str
    declares: tuple[str, ...]


EXACT = {dt.float32: 1 << 24, dt.float64: 1 << 53}
"""Below which a type has all integers."""

_REMAINDER = Template("""\
define internal $float @$function($float %a, $float %b) nounwind {
entry:
  %x = call $float @llvm.fabs.$suffix($float %a)
  %y = call $float @llvm.fabs.$suffix($float %b)
  %ratio = fdiv $float %x, %y
  %few = fcmp olt $float %ratio, $limit
  %finite = fcmp olt $float %y, $infinity
  %simple = and $mask %few, %finite
  %bits = bitcast $mask %simple to i$lanes
  %all = icmp eq i$lanes %bits, -1
  br i1 %all, label %by_quotient, label %by_function
by_quotient:
  %quotient = call $float @llvm.trunc.$suffix($float %ratio)
$rest
  %result = call $float @llvm.copysign.$suffix($float %size, $float %a)
  ret $float %result
by_function:
  %called = frem $float %a, %b
  ret $float %called
}""")

_FUSED = Template("""\
  %given = fneg $float %quotient
  %rest = call $float @llvm.fma.$suffix($float %given, $float %y, $float %x)
  %past = fcmp olt $float %rest, $zero
  %back = fadd $float %rest, %y
  %size = select $mask %past, $float %back, $float %rest""")

_WIDE = Template("""\
  %q = fpext $float %quotient to $double
  %wide.x = fpext $float %x to $double
  %wide.y = fpext $float %y to $double
  %taken = fmul $double %q, %wide.y
  %rest = fsub $double %wide.x, %taken
  %past = fcmp olt $double %rest, $zero
  %back = fadd $double %rest, %wide.y
  %exact = select $mask %past, $double %back, $double %rest
  %size = fptrunc $double %exact to $float""")


@lru_cache
def remainder(dtype: DType, lanes: int, fuses: bool) -> Defined | None:
    """What a division of float32 or float64 rounded towards 0 leaves, exactly, with the dividend's
    sign. fuses: see Target; without it None for float64.

    Where all quotients are integers that the type has, below 2**24 or 2**53, they have an error of
    1 at most, and what they leave is rounded once: it is below the divisor and a multiple of its
    last bit, so not at all. Their products with a divisor of float32 have 48 bits: exact in
    float64. For others, NaN and infinities C's fmod is called, one lane at a time, as LLVM would do
    for all.
    """
    if not fuses and dtype is dt.float64:
        return None
    kind, name = type_name(dtype, lanes), suffix(dtype, lanes)
    function, work = f"lazyten_remainder.{name}", dtype if fuses else dt.float64
    words = {"float": kind, "double": type_name(dt.float64, lanes), "suffix": name,
             "mask": type_name(dt.bool_, lanes), "zero": literal(0, work, lanes)}
    rest = (_FUSED if fuses else _WIDE).substitute(words)
    text = _REMAINDER.substitute(
        words, rest=rest, function=function, lanes=lanes,
        limit=literal(EXACT[dtype], dtype, lanes), infinity=literal(math.inf, dtype, lanes))
    return Defined(function, text, tuple(
        f"declare {kind} @llvm.{op}.{name}({', '.join([kind] * arguments)})"
        for op, arguments in (("fabs", 1), ("trunc", 1), ("copysign", 2), ("fma", 3))[:3 + fuses]))
