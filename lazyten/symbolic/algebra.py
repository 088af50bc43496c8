"""The table of algebraic rules that hold for every dtype they name, exactly, wrapping included.

Read `rules.py` for the notation. What needs bounds or sums of many terms is in `index_algebra.py`.
Floats follow IEEE 754: x + 0.0 is not x when x is -0.0, x * 0.0 is not 0.0 when x is NaN, and
nothing is reassociated.
"""
from __future__ import annotations

import math

from lazyten.ir import dtype as dt
from lazyten.ir.dtype import DType
from lazyten.symbolic.rules import (
    Any,
    Boolean,
    Constant,
    Float,
    Integer,
    Rule,
    RuleSet,
    bitcast,
    cast,
    differ,
    maximum,
    where,
)

x, y, z = Any("x"), Any("y"), Any("z")
n, m = Integer("n"), Integer("m")
f, g = Float("f"), Float("g")
p, q = Boolean("p"), Boolean("q")
c, d = Constant("c", "iu"), Constant("d", "iu")
e = Constant("e", "f")

_LEAST_EXPONENT = {dt.float16: -14, dt.bfloat16: -126, dt.float32: -126, dt.float64: -1022}


def is_lossless(source: DType, target: DType) -> bool:
    """Whether `target` has every value of `source`."""
    if source is target or source is dt.bool_:
        return True
    if source.is_float or target.is_float:
        if not target.is_float:
            return False
        if source.is_float:
            return source.bits < target.bits
        return source.bits - (source.kind == "i") <= target.significand_bits
    if target is dt.bool_ or source.kind == "i" and target.kind == "u":
        return False
    return source.bits < target.bits or source.kind == target.kind and source.bits == target.bits


def _skips(source: DType, middle: DType, target: DType) -> bool:
    """Whether casting by way of `middle` is the same as casting at once."""
    if target is dt.bool_:
        return is_lossless(source, middle)
    if source.is_int and middle.is_int and target.is_int and target.bits <= middle.bits:
        return True  # wrapping twice
    if not is_lossless(source, middle):
        return False
    saturates = source.is_int and middle.is_float and target.is_int  # where at once would wrap
    return not saturates or is_lossless(source, target)


def _has_exact_reciprocal(value: float, dtype: DType) -> bool:
    """Whether `value` is a power of two, and its reciprocal not subnormal."""
    fraction, exponent = math.frexp(value)
    return abs(fraction) == 0.5 and abs(exponent - 1) <= -_LEAST_EXPONENT[dtype]


ALGEBRA = RuleSet([
    # nothing to do
    Rule(n + 0, n),
    Rule(f + -0.0, f),
    Rule(n - 0, n),
    Rule(f - 0.0, f),
    Rule(x * 1, x),
    Rule(f / 1.0, f),
    Rule(n // 1, n),
    Rule(x ** 1, x),
    Rule(n << 0, n),
    Rule(n >> 0, n),
    Rule(n & -1, n),
    Rule(n | 0, n),
    Rule(n ^ 0, n),
    Rule(p & True, p),
    Rule(p | False, p),
    Rule(p ^ False, p),
    Rule(differ(p, False), p),
    Rule(x & x, x),
    Rule(x | x, x),
    Rule(maximum(x, x), x),
    Rule(maximum(n, c), n, where=lambda n, c: c == n.dtype.min),
    Rule(maximum(f, e), f, where=lambda e: e == -math.inf),
    Rule((x & y) & y, x & y),
    Rule((x | y) | y, x | y),
    Rule(x & (x | y), x),
    Rule(x | (x & y), x),

    # known
    Rule(n * 0, 0),
    Rule(n - n, 0),
    Rule(n // 0, 0),
    Rule(n % 0, 0),
    Rule(n % 1, 0),
    Rule(x ** 0, 1),
    Rule(n & 0, 0),
    Rule(n | -1, -1),
    Rule(p & False, False),
    Rule(p | True, True),
    Rule(p & ~p, False),
    Rule(p | ~p, True),
    Rule(n ^ n, 0),
    Rule(p ^ p, False),
    Rule(x < x, False),
    Rule(differ(n, n), False),
    Rule(differ(p, p), False),
    Rule(maximum(n, c), c, where=lambda n, c: c == n.dtype.max),

    # negation
    Rule(-(-x), x),  # noqa: B002
    Rule(~(~x), x),
    Rule(0 - n, -n),
    Rule(-0.0 - f, -f),
    Rule(x * -1, -x, where=lambda x: x.dtype.kind in "if"),
    Rule(f / -1.0, -f),
    Rule(x + -y, x - y),
    Rule(x - -y, x + y),
    Rule(-(n - m), m - n),
    Rule(-x * -y, x * y),
    Rule(p ^ True, ~p),
    Rule(differ(p, True), ~p),
    Rule(~p & ~q, ~(p | q)),
    Rule(~p | ~q, ~(p & q)),
    Rule(~(n < c), c - 1 < n, where=lambda n, c: c > n.dtype.min),
    Rule(~(c < n), n < c + 1, where=lambda n, c: c < n.dtype.max),

    # constants together
    Rule((n + c) + d, n + (c + d)),
    Rule((n - c) + d, n + (d - c)),
    Rule((n + c) - d, n + (c - d)),
    Rule((c - n) + d, (c + d) - n),
    Rule((n * c) * d, n * (c * d)),
    Rule(-(n * c), n * -c),
    Rule(-(f * e), f * -e),
    Rule(-n * c, n * -c),
    Rule(-f * e, f * -e),
    Rule(maximum(maximum(n, c), d), maximum(n, maximum(c, d))),
    Rule((n & c) & d, n & (c & d)),
    Rule((n | c) | d, n | (c | d)),
    Rule((n ^ c) ^ d, n ^ (c ^ d)),
    Rule(f / e, f * (1.0 / e), where=lambda f, e: _has_exact_reciprocal(e, f.dtype)),

    # choice
    Rule(where(p, x, x), x),
    Rule(where(True, x, y), x),
    Rule(where(False, x, y), y),
    Rule(where(~p, x, y), where(p, y, x)),
    Rule(where(p, where(p, x, y), z), where(p, x, z)),
    Rule(where(p, x, where(p, y, z)), where(p, x, z)),
    Rule(where(p, where(q, x, y), y), where(p & q, x, y)),
    Rule(where(p, True, False), p),
    Rule(where(p, False, True), ~p),
    Rule(where(p, q, False), p & q),
    Rule(where(p, True, q), p | q),
    Rule(maximum(p, q), p | q),

    # conversion
    Rule(cast(x, "t"), x, where=lambda x, t: x.dtype is t),
    Rule(cast(cast(x, "s"), "t"), cast(x, "t"), where=lambda x, s, t: _skips(x.dtype, s, t)),
    Rule(differ(cast(p, "t"), 0), p),
    Rule(bitcast(x, "t"), x, where=lambda x, t: x.dtype is t),
    Rule(bitcast(bitcast(x, "s"), "t"), bitcast(x, "t")),
])
