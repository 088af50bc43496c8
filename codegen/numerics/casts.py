"""CAST where machine conversions do not say what happens: floats to integers, float64 to 16 bits.

In: a CAST node of the LOOP level. Out: an expression in which every CAST from a float to an integer
is of a value within the integer's range. decompose and half.py call it.
"""
from __future__ import annotations

import math

import numpy as np

from lazyten.codegen.numerics.expression import add, bitcast, both, differ, invert, less, sub, where
from lazyten.ir import dtype as dt
from lazyten.ir.dtype import DType
from lazyten.ir.node import Node, cast
from lazyten.ir.ops import Op
from lazyten.symbolic.bounds import bounds


def guard_cast(node: Node) -> Node | None:
    """A CAST with what it needs around it; None where the machine's conversion is right."""
    source, target = node.src[0], node.dtype
    if not source.dtype.is_float or not target.is_int or _is_known_inside(source, target):
        return None
    return _saturate(source, target)


def _is_known_inside(source: Node, target: DType) -> bool:
    """Whether a float is a converted integer that is exact in it and lies within `target`."""
    if source.op is not Op.CAST:
        return False
    limits = bounds(source.src[0])
    if limits is None:
        return False
    exact = 1 << (24 if source.dtype is dt.float32 else 53)
    low, high = max(int(target.min), -exact), min(int(target.max), exact)
    return low <= limits[0] and limits[1] <= high


def _saturate(x: Node, target: DType) -> Node:
    """Truncation towards zero, the nearest limit for what is beyond, 0 for NaN."""
    low, end = float(target.min), float(int(target.max) + 1)
    last = float(np.nextafter(x.dtype.numpy.type(end), x.dtype.numpy.type(0)))
    inside = where(less(x, end), x, 0.0)  # NaN: 0
    inside = where(less(inside, low), low, inside)
    return where(less(last, x), int(target.max), cast(inside, target))


def round_to_odd(x: Node) -> Node:
    """float64 to float32, inexact results to an odd last bit: rounding that again is rounding once.

    After S. Boldo and G. Melquiond, "Emulation of a FMA and correctly rounded sums: proved
    algorithms using rounding to odd" (2008).
    """
    narrow = cast(x, dt.float32)
    back = cast(narrow, dt.float64)
    pattern = bitcast(narrow, dt.uint32)
    size, size_back = (bitcast(both(bitcast(v, dt.uint64), (1 << 63) - 1), dt.float64)
                       for v in (x, back))
    is_even = invert(differ(both(pattern, 1), 0))
    finite = both(less(size, math.inf), less(size_back, math.inf))
    inexact = both(differ(back, x), finite)
    towards_odd = where(less(size, size_back), sub(pattern, 1), add(pattern, 1))
    return bitcast(where(both(inexact, is_even), towards_odd, pattern), dt.float32)
