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


class Defined(NamedTuple):
    """A function: its name and definition, and lines that must stand before it."""

    name: str
    text: str
    declares: tuple[str, ...]


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
  %q = fpext $float %quotient to $double
  %wide.x = fpext $float %x to $double
  %wide.y = fpext $float %y to $double
  %taken = fmul $double %q, %wide.y
  %rest = fsub $double %wide.x, %taken
  %past = fcmp olt $double %rest, $zero
  %back = fadd $double %rest, %wide.y
  %exact = select $mask %past, $double %back, $double %rest
  %size = fptrunc $double %exact to $float
  %result = call $float @llvm.copysign.$suffix($float %size, $float %a)
  ret $float %result
by_function:
  %called = frem $float %a, %b
  ret $float %called
}""")


@lru_cache
def float32_remainder(lanes: int) -> Defined:
    """What a division rounded towards 0 leaves, exactly, with the dividend's sign.

    Where all quotients are below 2**24, they have an error of 1 at most, and their products with
    the divisor 48 bits: exact in float64. For others, NaN and infinities C's fmodf is called, one
    lane at a time, as LLVM would do for all.
    """
    kind, name = type_name(dt.float32, lanes), suffix(dt.float32, lanes)
    function = f"lazyten_remainder.{name}"
    text = _REMAINDER.substitute(
        float=kind, double=type_name(dt.float64, lanes), mask=type_name(dt.bool_, lanes),
        suffix=name, function=function, lanes=lanes, limit=literal(1 << 24, dt.float32, lanes),
        infinity=literal(math.inf, dt.float32, lanes), zero=literal(0, dt.float64, lanes))
    return Defined(function, text, tuple(
        f"declare {kind} @llvm.{op}.{name}({', '.join([kind] * arguments)})"
        for op, arguments in (("fabs", 1), ("trunc", 1), ("copysign", 2))))
