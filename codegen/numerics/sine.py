"""SIN and COS of float32 and float64, right for huge arguments too: x/pi modulo 2 is exact enough.

In: a LOOP expression. Out: a LOOP expression without them and without branches. decompose calls it.
Both reductions multiply by as many bits of 1/pi as matter, after M. Payne and R. Hanek, "Radian
reduction for trigonometric functions" (1983); what is a multiple of 2 is left out as it arises.
Polynomials: through the Chebyshev nodes, worked out with mpmath at 200 bits (`chebyfit`).
"""
from __future__ import annotations

import math

from lazyten.codegen.numerics import double_double as dd
from lazyten.codegen.numerics.double_double import Pair
from lazyten.codegen.numerics.expression import (
    absolute,
    add,
    bitcast,
    bits_of,
    both,
    differ,
    either,
    horner,
    less,
    mul,
    muladd,
    shl,
    shr,
    sub,
    where,
    xor,
)
from lazyten.ir import dtype as dt
from lazyten.ir.node import Node, cast, const

_PLACES = 1215
_ONE_OVER_PI = int(
    "28be60db9391054a7f09d5f47d4d377036d8a5664f10e4107f9458eaf7aef1586dc91b8e9093"
    "74b801924bba827464873f877ac72c4a69cfba208d7d4baed1213a671c09ad17df904e64758e"
    "60d4ce7d272117e2ef7e4a0ec7fe25fff7816603fbcbc462d6829b47db4d9fb3c9f2c26dd3d1"
    "8fd9a797fa8b5d49eeb1faf97c5ecf41ce7de294a4ba9afed7ec47e357421580cc11bf1edaea", 16)
"""1/pi * 2**1215, rounded down."""


def sin(x: Node) -> Node:
    """sin(x), by range reduction and an odd polynomial; sin(-0.0) is -0.0, of an infinity NaN."""
    return _sin32(x) if x.dtype is dt.float32 else _sin64(x)


def cos(x: Node) -> Node:
    """cos(x) is the sine of pi/2 more; of an infinity NaN."""
    return _cos32(x) if x.dtype is dt.float32 else _cos64(x)


# ---- float32, in float64 -------------------------------------------------------------------------

_CHUNK = 24
_CHUNKS = [float(_ONE_OVER_PI >> (_PLACES - _CHUNK * (i + 1)) & (1 << _CHUNK) - 1)
           * 2.0 ** (-_CHUNK * (i + 1)) for i in range(8)]
"""1/pi in pieces of 24 bits: a float32 times one is exact in float64. 192 bits: 128 for the
exponent, 24 for the fraction and 32 as x/pi of no float32 but 0 is nearer to an integer."""
_TO_EVEN = 1.5 * 2.0**53
"""Adding this to a float64 rounds it to an even integer."""
_TO_INTEGER = 1.5 * 2.0**52
_SIN_PI = (-0.007028303855203096, 0.08205035020147247, -0.599252186531583, 2.550163317938427,
           -5.167712764593, 3.141592653536132)
"""sin(pi g) / g in g**2, for |g| <= 1/2; absolute error 2**-34."""


def _sin32(x: Node) -> Node:
    return _sine_of_turns(absolute(x), 0.0, bits_of(x))


def _cos32(x: Node) -> Node:
    return _sine_of_turns(absolute(x), 0.5, const(0, dt.uint32))


def _sine_of_turns(x: Node, more: float, sign: Node) -> Node:
    """sin(x + pi * more) of x >= 0, negated where the highest bit of `sign` is set.

    `more` is a half at most: added to what is left of the first product, which has no bits below
    2**-52 where x is so large that the result may be small, it is exact too.
    """
    wide = cast(x, dt.float64)
    turns = _without_even(mul(wide, _CHUNKS[0]))
    if more:
        turns = add(turns, more)
    for chunk in _CHUNKS[1:]:
        # Both terms are exact; even parts go before lower bits come, so that none are lost.
        turns = _without_even(add(turns, _without_even(mul(wide, chunk))))
    shifted = add(turns, _TO_INTEGER)
    rest = sub(turns, sub(shifted, _TO_INTEGER))
    result = cast(mul(rest, horner(mul(rest, rest), _SIN_PI)), dt.float32)
    flipped = xor(sign, cast(shl(bits_of(shifted), 31), dt.uint32))
    return bitcast(xor(bits_of(result), both(flipped, 1 << 31)), dt.float32)


def _without_even(x: Node) -> Node:
    """x less the nearest even integer, exact."""
    return sub(x, sub(add(x, _TO_EVEN), _TO_EVEN))


# ---- float64, in uint64 --------------------------------------------------------------------------

_WORDS = [0] + [_ONE_OVER_PI >> (_PLACES + 1 - 64 * i) & (1 << 64) - 1 for i in range(1, 20)]
"""1/pi as words: bit 0 (the highest) of word 1 is worth 1, word 0 is what is above."""
_PI = (3.141592653589793, 1.2246467991473532e-16)
_SIN = (1.5917988979397435e-10, -2.5051129896450185e-08, 2.7557316093198404e-06,
        -0.00019841269836740532, 0.008333333333330936, -0.16666666666666666)
"""(sin(r) - r) / r**3 in r**2, for |r| <= pi/4; absolute error 2**-55."""
_COS = (-1.138254464534925e-11, 2.087614504941318e-09, -2.755731726587808e-07,
        2.48015872987544e-05, -0.0013888888888887389, 0.041666666666666664)
"""(cos(r) - 1 + r**2/2) / r**4 in r**2, for |r| <= pi/4; absolute error 2**-59."""
_SMALL = 0.5
"""Below this nothing is reduced."""


def _sin64(x: Node) -> Node:
    return _sine_of_quarters(absolute(x), 0, bits_of(x))


def _cos64(x: Node) -> Node:
    return _sine_of_quarters(absolute(x), 1, const(0, dt.uint64))


def _sine_of_quarters(size: Node, more: int, sign: Node) -> Node:
    """sin(size + pi/2 * more) of size >= 0, negated where the highest bit of `sign` is set."""
    reduced, quarter, minus = _reduce(bits_of(size))
    small = less(size, _SMALL)
    quarter = add(where(small, 0, quarter), more << 62)
    rest = Pair(where(small, size, reduced.high), where(small, 0.0, reduced.low))
    across = differ(both(quarter, 1 << 62), 0)
    value = where(across, _cosine(rest), _sine(rest))
    flipped = xor(xor(sign, quarter), where(either(across, small), 0, minus))
    value = bitcast(xor(bits_of(value), both(flipped, 1 << 63)), size.dtype)
    return where(less(size, math.inf), value, math.nan)


def _sine(r: Pair) -> Node:
    square = mul(r.high, r.high)
    correction = mul(r.low, muladd(square, -0.5, 1.0))
    return add(r.high, muladd(mul(r.high, square), horner(square, _SIN), correction))


def _cosine(r: Pair) -> Node:
    square = mul(r.high, r.high)
    half = mul(square, 0.5)
    top = sub(1.0, half)
    lost = sub(sub(sub(1.0, top), half), mul(r.high, r.low))
    return add(top, muladd(mul(square, square), horner(square, _COS), lost))


def _reduce(pattern: Node) -> tuple[Pair, Node, Node]:
    """|x| = k pi/2 + r for |x| >= 1/2 given as bits: |r|, k in the two highest bits, and r's sign.

    x = m * 2**e with an integer m of 53 bits. The bits of 1/pi from the one worth 2**-e on, times
    m, give x/pi modulo 2: as a fraction of 128 bits whose highest bit is worth 1.
    """
    place = sub(shr(pattern, 52), 1075 - 64)
    m = either(both(pattern, (1 << 52) - 1), 1 << 52)
    w0, w1, w2 = _window(place)
    low = mul(m, w1)
    second = add(low, _high_product(m, w2))
    carry = cast(less(second, low), dt.uint64)
    first = add(add(mul(m, w0), _high_product(m, w1)), carry)
    quarter = add(first, 1 << 61)
    rest = sub(both(quarter, (1 << 62) - 1), 1 << 61)
    ones = const((1 << 64) - 1, dt.uint64)
    minus = where(less(bitcast(rest, dt.int64), 0), ones, 0)  # all bits, to negate by XOR
    return _times_pi(xor(rest, minus), xor(second, minus)), quarter, minus


def _window(place: Node) -> tuple[Node, Node, Node]:
    """192 bits of _WORDS from bit `place` on: whole words by five choices, then by shifts."""
    words = [const(w, dt.uint64) for w in _WORDS]
    for step in (16, 8, 4, 2, 1):
        taken = differ(both(shr(place, 6), step), 0)
        words = [where(taken, words[i + step], words[i]) if i + step < len(words) else words[i]
                 for i in range(step + 3)]
    count = both(place, 63)
    rest = sub(63, count)
    a, b, c = (either(shl(words[i], count), shr(shr(words[i + 1], 1), rest)) for i in range(3))
    return a, b, c


def _high_product(a: Node, b: Node) -> Node:
    """The high word of a * b."""
    mask = (1 << 32) - 1
    a_low, a_high, b_low, b_high = both(a, mask), shr(a, 32), both(b, mask), shr(b, 32)
    middle = add(mul(a_high, b_low), shr(mul(a_low, b_low), 32))
    other = add(mul(a_low, b_high), both(middle, mask))
    return add(add(mul(a_high, b_high), shr(middle, 32)), shr(other, 32))


def _times_pi(first: Node, second: Node) -> Pair:
    """pi times the fraction (first + second / 2**64) / 2**63, which is at most 1/4."""
    parts = [cast(bitcast(p, dt.int64), dt.float64)
             for word in (first, second) for p in (shr(word, 32), both(word, (1 << 32) - 1))]
    tail = muladd(parts[3], 2.0**-127, mul(parts[2], 2.0**-95))
    tail = muladd(parts[1], 2.0**-63, tail)
    fraction = dd.fast_sum(mul(parts[0], 2.0**-31), tail)
    return dd.scale(fraction, *_PI)
