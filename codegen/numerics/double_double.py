"""Sums of two floats: a value as high + low, some 106 bits of float64, 48 of float32.

In and out: LOOP expressions. sine.py and power.py use it where a float's own bits on the way
are not enough.
After T. J. Dekker, "A floating-point technique for extending the available precision" (1971).
Nothing here needs a fused multiply-add. A target must not fuse what is not a MULACC.
"""
from __future__ import annotations

from typing import NamedTuple

from lazyten.codegen.numerics.expression import Operand, add, mul, muladd, sub
from lazyten.ir import dtype as dt
from lazyten.ir.node import Node, const

_SPLITTER = {dt.float32: 2.0**12 + 1, dt.float64: 2.0**27 + 1}


class Pair(NamedTuple):
    """The unevaluated sum high + low, low at most about a rounding error of high."""

    high: Node
    low: Node


def fast_sum(a: Operand, b: Node) -> Pair:
    """a + b exactly, where |a| >= |b| or a is 0."""
    total = add(a, b)
    return Pair(total, sub(b, sub(total, a)))


def two_sum(a: Node, b: Node) -> Pair:
    """a + b exactly, whichever is larger (D. E. Knuth)."""
    total = add(a, b)
    of_b = sub(total, a)
    return Pair(total, add(sub(a, sub(total, of_b)), sub(b, of_b)))


def _halves(a: Node) -> Pair:
    """a as two numbers of half its bits; |a| below 2**996, of float32 2**115."""
    wide = mul(a, _SPLITTER[a.dtype])
    high = sub(wide, sub(wide, a))
    return Pair(high, sub(a, high))


def product(a: Node, b: Node) -> Pair:
    """a * b exactly, unless it underflows."""
    total = mul(a, b)
    x, y = _halves(a), _halves(b)
    error = sub(mul(x.high, y.high), total)
    error = add(add(error, mul(x.high, y.low)), mul(x.low, y.high))
    return Pair(total, add(error, mul(x.low, y.low)))


def multiply(x: Pair, y: Pair) -> Pair:
    """x * y to about 100 bits, of float32 44."""
    exact = product(x.high, y.high)
    low = muladd(x.low, y.high, muladd(x.high, y.low, exact.low))
    return fast_sum(exact.high, low)


def scale(x: Pair, high: float, low: float) -> Pair:
    """x times the constant high + low."""
    exact = product(x.high, const(high, x.high.dtype))
    return fast_sum(exact.high, muladd(x.low, high, muladd(x.high, low, exact.low)))
