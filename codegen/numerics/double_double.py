"""Sums of two float64s: a value as high + low, about 106 bits, in plain float64 operations.

In and out: LOOP expressions. sine.py and power.py use it where 53 bits on the way are not enough.
After T. J. Dekker, "A floating-point technique for extending the available precision" (1971).
Nothing here needs a fused multiply-add. A target must not fuse what is not a MULACC.
"""
from __future__ import annotations

from typing import NamedTuple

from lazyten.codegen.numerics.expression import Operand, add, mul, muladd, sub
from lazyten.ir.node import Node, const

_SPLITTER = float(2**27 + 1)


class Pair(NamedTuple):
    """The unevaluated sum high + low, low at most about a rounding error of high."""

    high: Node
    low: Node


def fast_sum(a: Operand, b: Node) -> Pair:
    """a + b exactly, where |a| >= |b| or a is 0."""
    total = add(a, b)
    return Pair(total, sub(b, sub(total, a)))


def _halves(a: Node) -> Pair:
    """a as two numbers of 26 bits; |a| below 2**996."""
    wide = mul(a, _SPLITTER)
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
    """x * y to about 100 bits."""
    exact = product(x.high, y.high)
    low = muladd(x.low, y.high, muladd(x.high, y.low, exact.low))
    return fast_sum(exact.high, low)


def scale(x: Pair, high: float, low: float) -> Pair:
    """x times the constant high + low."""
    exact = product(x.high, const(high, x.high.dtype))
    return fast_sum(exact.high, muladd(x.low, high, muladd(x.high, low, exact.low)))
