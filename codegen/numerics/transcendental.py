"""EXP, EXP2 and LOG2 of float32 and float64, from arithmetic, integer shifts and bit patterns.

In: a LOOP expression. Out: a LOOP expression without these ops, and without branches, so that a
loop around it can be vectorized. decompose calls them; power.py builds POW for float32 from them.

The coefficients are near-minimax: polynomials through the Chebyshev nodes, worked out with mpmath
at 200 bits (`chebyfit`) and rounded to the type. Errors named here are those of the polynomials
alone; tests/codegen/test_accuracy.py measures the whole.
"""
from __future__ import annotations

import math
from dataclasses import dataclass

from lazyten.codegen.numerics.expression import (
    SIGNED,
    add,
    bitcast,
    bits_of,
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
)
from lazyten.ir import dtype as dt
from lazyten.ir.node import Node, cast, const


@dataclass(frozen=True, slots=True)
class _Format:
    """What the formulas need to know of a float type.

    fraction: bits of the significand after the point. least: the exponent of the least normal
    number. under: an exponent whose power of two rounds to 0. over: the first exponent that
    overflows. ln2: the natural logarithm of 2 in two parts, the first so short that n times it is
    exact.
    """

    fraction: int
    least: int
    under: float
    over: float
    ln2: tuple[float, float]
    exp: tuple[float, ...]
    exp2: tuple[float, ...]
    log2: tuple[float, ...]

    @property
    def to_integer(self) -> float:
        """Adding this rounds a small number to an integer, which is then in the low bits."""
        return 1.5 * 2.0**self.fraction


_LN2 = math.log(2)

_FLOAT32 = _Format(
    fraction=23, least=-126, under=-151.0, over=128.0,
    # 2 * (e**r - 1 - r) / r**2 on [-ln(2)/2, ln(2)/2]; e**r to a relative 2**-26.5
    exp=(0.0027852500788867474, 0.01672646589577198, 0.0833331048488617, 0.33333152532577515, 1.0),
    ln2=(0.693115234375, 3.194618329871446e-05),
    # 2 * (2**r - 1) / r - 1 on [-1/2, 1/2], absolute error 2**-25.9
    exp2=(0.0003090632671955973, 0.0026781726628541946, 0.019236166030168533, 0.11100713908672333,
          0.4804530143737793, 0.3862943649291992),
    # log2(1 + f) / f - 1 for 1 + f in [1/sqrt(2), sqrt(2)], absolute error 2**-26.9
    log2=(-0.10749789327383041, 0.18476033210754395, -0.19138838350772858, 0.20485764741897583,
          -0.23960812389850616, 0.28855255246162415, -0.36069655418395996, 0.48089852929115295,
          -0.7213473320007324, 0.4426950514316559))

_FLOAT64 = _Format(
    fraction=52, least=-1022, under=-1076.0, over=1024.0,
    # as above, 2**-61.4
    exp=(4.18295106517864e-09, 5.0210625459244206e-08, 5.511454695743716e-07,
         5.511451034000178e-06, 4.960317465135492e-05, 0.0003968253975000456,
         0.0027777777777767423, 0.016666666666652168, 0.08333333333333334, 0.3333333333333334,
         1.0),
    ln2=(0.6931471805582987, 1.6465949582897082e-12),
    # as above, absolute error 2**-55
    exp2=(8.909921196373037e-10, 1.4145171898538447e-08, 2.0356124891691547e-07,
          2.643088517584338e-06, 3.050546765967224e-05, 0.000308070608834721,
          0.002666711629283387, 0.019236258215213776, 0.1110082173296432, 0.48045301391820194,
          0.38629436111989063),
    # as above, absolute error 2**-58.5
    log2=(-0.034065899567745014, 0.08115768710202004, -0.09066295929036122, 0.078603116517106,
          -0.0769038835824262, 0.08384080162652882, -0.09043558742630768, 0.09631240089334668,
          -0.10303976623495806, 0.11096724361106544, -0.12022457968262618, 0.13115448168044017,
          -0.14426951802649127, 0.16029943931839305, -0.1803368796240827, 0.2060992916942484,
          -0.24044917348855005, 0.28853900817677364, -0.36067376022219916, 0.4808983469629908,
          -0.7213475204444818, 0.4426950408889634))

_FORMATS = {dt.float32: _FLOAT32, dt.float64: _FLOAT64}
_SHIFTED = 64.0
"""Results that would be subnormal are computed so many powers of two higher, then scaled."""


def exp2(x: Node) -> Node:
    """2**x: the nearest integer n goes to the exponent bits, the rest through a polynomial."""
    form = _FORMATS[x.dtype]
    x = where(less(form.over, x), form.over, x)  # both keep NaN
    x = where(less(x, form.under), form.under, x)
    return _scaled_exp2(x, None)


def exp2_of_sum(high: Node, low: Node) -> Node:
    """2**(high + low), where low is a rounding error of high (anything where high overflows)."""
    form = _FORMATS[high.dtype]
    above, below = less(form.over, high), less(high, form.under)
    low = where(either(above, below), 0.0, low)
    high = where(below, form.under, where(above, form.over, high))
    return _scaled_exp2(high, low)


def _scaled_exp2(x: Node, low: Node | None) -> Node:
    """2**(x + low): twice a polynomial, times 2**(n - 1) made of bits; n may be past the top."""
    form = _FORMATS[x.dtype]
    small = less(x, float(form.least + 1))
    x = where(small, add(x, _SHIFTED), x)
    magic = form.to_integer - form.least  # n - 1 with its bias lands in the low bits
    shifted = add(x, magic)
    rest = sub(x, sub(shifted, magic))
    if low is not None:
        rest = add(rest, low)
    twice = add(muladd(rest, horner(rest, form.exp2), rest), 2.0)
    return _scaled(form, shifted, twice, small)


def _scaled(form: _Format, shifted: Node, twice: Node, small: Node) -> Node:
    """`twice` times a power of two, whose exponent is in the low bits of `shifted`."""
    scale = bitcast(shl(bits_of(shifted), form.fraction), twice.dtype)
    value = mul(twice, scale)
    return where(small, mul(value, 2.0**-_SHIFTED), value)


def exp(x: Node) -> Node:
    """e**x: n is x / ln 2 rounded; e to the rest x - n ln 2 comes from a polynomial."""
    form = _FORMATS[x.dtype]
    over, under = (form.over + 0.9) * _LN2, form.under * _LN2
    x = where(less(over, x), over, x)  # both keep NaN
    x = where(less(x, under), under, x)
    small = less(x, (form.least + 1) * _LN2)
    magic = form.to_integer - form.least
    shifted = muladd(x, 1 / _LN2, magic)
    n = sub(shifted, magic)
    high, low = form.ln2
    rest = muladd(n, -low, muladd(n, -high, x))  # n * high is exact, fused or not
    curve = muladd(mul(rest, rest), horner(rest, form.exp), add(rest, rest))
    shifted = where(small, add(shifted, _SHIFTED), shifted)
    return _scaled(form, shifted, add(curve, 2.0), small)


def split_exponent(x: Node) -> tuple[Node, Node]:
    """e (an integer of x's width) and m in [1/sqrt(2), sqrt(2)) with x = m * 2**e, for x > 0."""
    form, dtype = _FORMATS[x.dtype], x.dtype
    integer = SIGNED[dtype.bits]
    tiny = less(x, 2.0**form.least)
    scale = 2.0 ** (form.fraction + 1)
    pattern = bitcast(where(tiny, mul(x, scale), x), integer)
    root = bitcast(const(math.sqrt(0.5), dtype), integer)
    exponent = shr(sub(pattern, root), form.fraction)
    fraction = bitcast(sub(pattern, shl(exponent, form.fraction)), dtype)
    offset = where(tiny, const(-form.fraction - 1, integer), const(0, integer))
    return add(exponent, offset), fraction


def log2(x: Node) -> Node:
    """log2(x): the exponent, plus a polynomial in m - 1 that keeps its leading term exact."""
    exponent, m = split_exponent(x)
    f = sub(m, 1.0)
    fraction = muladd(horner(f, _FORMATS[x.dtype].log2), f, f)
    return log2_limits(x, add(fraction, cast(exponent, x.dtype)))


def log2_limits(x: Node, result: Node) -> Node:
    """`result`, or what log2 is where x is not a positive finite number."""
    dtype = x.dtype
    result = where(less(x, math.inf), result, x)
    outside = where(differ(x, 0.0), const(math.nan, dtype), const(-math.inf, dtype))
    return where(less(0.0, x), result, outside)
