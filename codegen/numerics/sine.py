"""SIN and COS of float32 and float64, right for huge arguments too: x/pi modulo 2 is exact enough.

float32 is computed in float64, on a device without it in float32 as float64 is in float64.

In: a LOOP expression. Out: a LOOP expression without them, and without branches but for a RARELY:
up to 2**20 a multiple of pi is subtracted. decompose calls it. Beyond, both reductions multiply by
as many bits of 1/pi as matter, after M. Payne and R. Hanek, "Radian reduction for trigonometric
functions" (1983); what is a multiple of 2 is left out as it arises.
Polynomials: through the Chebyshev nodes, worked out with mpmath at 200 bits (`chebyfit`).
"""
from __future__ import annotations

import math
from dataclasses import dataclass

from lazyten.codegen.numerics import double_double as dd
from lazyten.codegen.numerics.double_double import Pair
from lazyten.codegen.numerics.expression import (
    FLOATS,
    SIGNED,
    UNSIGNED,
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
    rarely,
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


def sin(x: Node, wide: bool) -> Node:
    """sin(x), by range reduction and an odd polynomial; sin(-0.0) is -0.0, of an infinity NaN.

    wide: whether there is float64.
    """
    if wide and x.dtype is dt.float32:
        rest, odd = _turns(absolute(x))
        return _sine_of_turns(rest, xor(odd, bits_of(x)))
    return _in_own_type(x, 0, bits_of(x))


def cos(x: Node, wide: bool) -> Node:
    """cos(x) is the sine of pi/2 more; of an infinity NaN. wide: whether there is float64."""
    if wide and x.dtype is dt.float32:
        rest, odd = _turns(absolute(x))
        return _sine_of_turns(sub(0.5, absolute(rest)), odd)
    return _in_own_type(x, 1, const(0, UNSIGNED[x.dtype.bits]))


# ---- float32, in float64 -------------------------------------------------------------------------

_CHUNK = 24
_CHUNKS = [float(_ONE_OVER_PI >> (_PLACES - _CHUNK * (i + 1)) & (1 << _CHUNK) - 1)
           * 2.0 ** (-_CHUNK * (i + 1)) for i in range(8)]
"""1/pi in pieces of 24 bits: a float32 times one is exact in float64. 192 bits: 128 for the
exponent, 24 for the fraction and 32 as x/pi of no float32 but 0 is nearer to an integer."""
_LEAST_TURN = 2.0**-(128 + 33)
"""A float32 times less than this takes no sum past an integer: none is so near to one, or to half
of an odd one."""
_USUAL = 2.0**20
"""Up to here 1/pi is two numbers: the first of 29 bits, so that a float32 times it is exact, and
what is lost by rounding the second is 2**-64, of what is 2**-33 at least."""
_HIGH = float(_ONE_OVER_PI >> (_PLACES - 30)) * 2.0**-30
_LOW = float((_ONE_OVER_PI & (1 << _PLACES - 30) - 1) >> (_PLACES - 90)) * 2.0**-90
_TO_EVEN = 1.5 * 2.0**53
"""Adding this to a float64 rounds it to an even integer."""
_TO_INTEGER = 1.5 * 2.0**52
_SIN_PI = (-0.007028303855203096, 0.08205035020147247, -0.599252186531583, 2.550163317938427,
           -5.167712764593, 3.141592653536132)
"""sin(pi g) / g in g**2, for |g| <= 1/2; absolute error 2**-34."""


def _turns(x: Node) -> tuple[Node, Node]:
    """What x/pi of x >= 0 is more than an integer, in float64, and whether that integer is odd, in
    the highest bit of a uint32."""
    wide = cast(x, dt.float64)
    large = less(_USUAL, x)
    turns = rarely(large, _turns_of_large(wide), mul(wide, _HIGH))
    shifted = add(turns, _TO_INTEGER)
    rest = sub(turns, sub(shifted, _TO_INTEGER))
    rest = muladd(where(large, 0.0, wide), _LOW, rest)
    return rest, cast(shl(bits_of(shifted), 31), dt.uint32)


def _turns_of_large(wide: Node) -> Node:
    """x/pi modulo 2, for any x."""
    turns = _without_even(mul(wide, _CHUNKS[0]))
    for chunk in _CHUNKS[1:]:
        # Where the product, of 48 bits, is 1 or more, all bits of `turns` are above its last, and
        # it is below 2**(128 - 24 * i): so the sum is exact. Even parts go before lower bits come,
        # so that none are lost.
        turns = muladd(wide, chunk, turns)
        turns = _without_even(turns) if chunk > _LEAST_TURN else turns
    return turns


def _sine_of_turns(rest: Node, sign: Node) -> Node:
    """sin(pi * rest) for |rest| <= 1/2, negated where the highest bit of `sign` is set."""
    result = cast(mul(rest, horner(mul(rest, rest), _SIN_PI)), dt.float32)
    return bitcast(xor(bits_of(result), both(sign, 1 << 31)), dt.float32)


def _without_even(x: Node) -> Node:
    """x less the nearest even integer, exact."""
    return sub(x, sub(add(x, _TO_EVEN), _TO_EVEN))


# ---- in the type itself, and integers of its width -----------------------------------------------

@dataclass(frozen=True, slots=True)
class _Format:
    """What the formulas need to know of a float type.

    fraction: bits of the significand after the point. place: the exponent's bits less this are the
    place in `words` of the bit of 1/pi that is worth 2**-e, for x of a last bit worth 2**e. words:
    1/pi as integers of the type's width: bit 0 (the highest) of word 1 is worth 1, word 0 is what
    is above. steps: the powers of two whose sum chooses the first word. pi: in two parts. sin, cos:
    polynomials in r**2 for |r| <= pi/4.
    """

    fraction: int
    place: int
    words: tuple[int, ...]
    steps: tuple[int, ...]
    pi: tuple[float, float]
    sin: tuple[float, ...]
    cos: tuple[float, ...]


def _words(width: int, count: int) -> tuple[int, ...]:
    return (0, *(_ONE_OVER_PI >> (_PLACES + 1 - width * i) & (1 << width) - 1
                 for i in range(1, count)))


_FORMATS = {
    dt.float32: _Format(
        fraction=23, place=150 - 32, words=_words(32, 8), steps=(4, 2, 1),
        pi=(3.1415927410125732, -8.742277657347586e-08),
        # (sin(r) - r) / r**3, absolute error 2**-35
        sin=(2.724962087086169e-06, -0.00019840084132738411, 0.008333331905305386,
             -0.1666666716337204),
        # (cos(r) - 1 + r**2/2) / r**4, absolute error 2**-28.9
        cos=(2.4547689463361166e-05, -0.0013888301327824593, 0.0416666641831398)),
    dt.float64: _Format(
        fraction=52, place=1075 - 64, words=_words(64, 20), steps=(16, 8, 4, 2, 1),
        pi=(3.141592653589793, 1.2246467991473532e-16),
        # as above, 2**-55
        sin=(1.5917988979397435e-10, -2.5051129896450185e-08, 2.7557316093198404e-06,
             -0.00019841269836740532, 0.008333333333330936, -0.16666666666666666),
        # as above, 2**-59
        cos=(-1.138254464534925e-11, 2.087614504941318e-09, -2.755731726587808e-07,
             2.48015872987544e-05, -0.0013888888888887389, 0.041666666666666664)),
}
_SMALL = 0.5
"""Below this nothing is reduced."""


_HALF_PI = (1.570796325802803, 9.920935791635221e-10, 5.17018297889025e-19,
            2.9038559739793605e-28)
"""pi/2 in four parts, the first three of so few bits that times an integer below 2**21 they are
exact."""


def _in_own_type(x: Node, more: int, sign: Node) -> Node:
    """sin(|x| + pi/2 * more), negated where the highest bit of `sign` is set."""
    value = _sine_of_quarters(x, more, sign)
    if x.dtype is not dt.float64:
        return value
    size = absolute(x)
    return rarely(less(_USUAL, size), value, _sine_of_usual(size, more, sign))


def _sine_of_usual(size: Node, more: int, sign: Node) -> Node:
    """The same of float64 up to _USUAL, after W. J. Cody and W. Waite: `size` less a multiple of
    pi/2, whose parts are subtracted one by one. The first difference is exact, as what cancels is
    near in size; what the others lose is kept."""
    shifted = muladd(size, 2 / math.pi, _TO_INTEGER)
    times = sub(shifted, _TO_INTEGER)
    first, second, third, last = (mul(times, -part) for part in _HALF_PI)
    rest = dd.two_sum(add(size, first), second)
    finer = dd.two_sum(rest.high, third)
    rest = dd.fast_sum(finer.high, add(rest.low, add(finer.low, last)))
    quarter = add(shl(bits_of(shifted), 62), more << 62)
    value = where(differ(both(quarter, 1 << 62), 0), _cosine(rest), _sine(rest))
    return bitcast(xor(bits_of(value), both(xor(sign, quarter), 1 << 63)), size.dtype)


def _sine_of_quarters(x: Node, more: int, sign: Node) -> Node:
    """sin(|x| + pi/2 * more), negated where the highest bit of `sign` is set, for any x."""
    size, width = absolute(x), x.dtype.bits
    reduced, quarter, minus = _reduce(size)
    small = less(size, _SMALL)
    quarter = add(where(small, 0, quarter), more << width - 2)
    rest = Pair(where(small, size, reduced.high), where(small, 0.0, reduced.low))
    across = differ(both(quarter, 1 << width - 2), 0)
    value = where(across, _cosine(rest), _sine(rest))
    flipped = xor(xor(sign, quarter), where(either(across, small), 0, minus))
    value = bitcast(xor(bits_of(value), both(flipped, 1 << width - 1)), x.dtype)
    return where(less(size, math.inf), value, math.nan)


def _sine(r: Pair) -> Node:
    square = mul(r.high, r.high)
    correction = mul(r.low, muladd(square, -0.5, 1.0))
    curve = horner(square, _FORMATS[square.dtype].sin)
    return add(r.high, muladd(mul(r.high, square), curve, correction))


def _cosine(r: Pair) -> Node:
    square = mul(r.high, r.high)
    half = mul(square, 0.5)
    top = sub(1.0, half)
    lost = sub(sub(sub(1.0, top), half), mul(r.high, r.low))
    curve = horner(square, _FORMATS[square.dtype].cos)
    return add(top, muladd(mul(square, square), curve, lost))


def _reduce(size: Node) -> tuple[Pair, Node, Node]:
    """size = k pi/2 + r for size >= 1/2: |r|, k in the two highest bits, and r's sign.

    size = m * 2**e with an integer m. The bits of 1/pi from the one worth 2**-e on, times m, give
    size/pi modulo 2: as a fraction of two words whose highest bit is worth 1.
    """
    form, pattern, width = _FORMATS[size.dtype], bits_of(size), size.dtype.bits
    place = sub(shr(pattern, form.fraction), form.place)
    m = either(both(pattern, (1 << form.fraction) - 1), 1 << form.fraction)
    w0, w1, w2 = _window(form, place)
    low = mul(m, w1)
    second = add(low, _high_product(m, w2))
    carry = cast(less(second, low), m.dtype)
    first = add(add(mul(m, w0), _high_product(m, w1)), carry)
    quarter = add(first, 1 << width - 3)
    rest = sub(both(quarter, (1 << width - 2) - 1), 1 << width - 3)
    ones = const((1 << width) - 1, m.dtype)
    minus = where(less(bitcast(rest, SIGNED[width]), 0), ones, 0)  # all bits, to negate by XOR
    return _times_pi(form, xor(rest, minus), xor(second, minus)), quarter, minus


def _window(form: _Format, place: Node) -> tuple[Node, Node, Node]:
    """Three words' bits of 1/pi from `place` on: whole words by choices, then by shifts."""
    width = place.dtype.bits
    words = [const(w, place.dtype) for w in form.words]
    for step in form.steps:
        taken = differ(both(shr(place, width.bit_length() - 1), step), 0)
        words = [where(taken, words[i + step], words[i]) if i + step < len(words) else words[i]
                 for i in range(step + 3)]
    count = both(place, width - 1)
    rest = sub(width - 1, count)
    a, b, c = (either(shl(words[i], count), shr(shr(words[i + 1], 1), rest)) for i in range(3))
    return a, b, c


def _high_product(a: Node, b: Node) -> Node:
    """The high word of a * b."""
    half = a.dtype.bits // 2
    mask = (1 << half) - 1
    a_low, a_high, b_low, b_high = both(a, mask), shr(a, half), both(b, mask), shr(b, half)
    middle = add(mul(a_high, b_low), shr(mul(a_low, b_low), half))
    other = add(mul(a_low, b_high), both(middle, mask))
    return add(add(mul(a_high, b_high), shr(middle, half)), shr(other, half))


def _times_pi(form: _Format, first: Node, second: Node) -> Pair:
    """pi times the fraction whose words are given, the first one's highest bit worth 1."""
    width, half = first.dtype.bits, first.dtype.bits // 2
    parts = [cast(bitcast(p, SIGNED[width]), FLOATS[width])
             for word in (first, second) for p in (shr(word, half), both(word, (1 << half) - 1))]
    units = [2.0 ** (1 - half * (i + 1)) for i in range(4)]  # what the last bit of each is worth
    tail = muladd(parts[3], units[3], mul(parts[2], units[2]))
    tail = muladd(parts[1], units[1], tail)
    return dd.scale(dd.fast_sum(mul(parts[0], units[0]), tail), *form.pi)
