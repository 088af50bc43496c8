"""POW: cheap forms for common constant exponents, then by logarithm, then integers by squaring.

In: a base and an exponent of one dtype. Out: an expression without POW. decompose calls it. Special
cases follow IEEE 754 (and so C and NumPy): pow(x, 0) and pow(1, y) are 1 even for NaN, and so on.
"""
from __future__ import annotations

import math
from dataclasses import dataclass

from lazyten.codegen.numerics import double_double as dd
from lazyten.codegen.numerics.double_double import Pair
from lazyten.codegen.numerics.expression import (
    UNSIGNED,
    absolute,
    add,
    bits_of,
    both,
    differ,
    divide,
    either,
    horner,
    invert,
    less,
    mul,
    muladd,
    shr,
    sub,
    where,
    with_sign_of,
    xor,
)
from lazyten.codegen.numerics.transcendental import exp2, exp2_of_sum, log2, split_exponent
from lazyten.ir import dtype as dt
from lazyten.ir.node import Node, cast, const, elementwise
from lazyten.ir.ops import Op
from lazyten.symbolic.bounds import bounds


def power(base: Node, exponent: Node, wide: bool) -> Node:
    """base ** exponent. wide: whether there is float64."""
    if not base.dtype.is_float:
        return _integer_power(base, exponent)
    if exponent.op is Op.CONST:
        cheap = _constant_power(base, float(exponent.value), wide)
        if cheap is not None:
            return cheap
    if base.op is Op.CONST and base.value == 2:
        return exp2(exponent)
    if wide and base.dtype is dt.float32:
        result = _float_power(cast(base, dt.float64), cast(exponent, dt.float64), exact=False)
        return cast(result, dt.float32)
    return _float_power(base, exponent, exact=True)


# ---- constant exponents --------------------------------------------------------------------------

MOST_MULTIPLIED = 64
"""Whole exponents up to this, and float32, are by squaring in float64: each step loses 2**-53."""


def _constant_power(x: Node, exponent: float, wide: bool) -> Node | None:
    """What multiplications, a reciprocal or a square root give within 2 ulp; None for the rest."""
    if exponent == 0.5:  # sqrt, but for -0.0 (gives 0.0) and -inf (gives inf)
        root = add(elementwise(Op.SQRT, x), 0.0)
        return where(differ(x, -math.inf), root, math.inf)
    if exponent == -1:
        return elementwise(Op.RECIPROCAL, x)
    if not exponent.is_integer() or abs(exponent) > MOST_MULTIPLIED:
        return None
    if 0 <= exponent <= 3:
        return by_squaring(x, int(exponent))
    if not wide or x.dtype is not dt.float32:
        return None
    result = by_squaring(cast(x, dt.float64), abs(int(exponent)))
    return cast(elementwise(Op.RECIPROCAL, result) if exponent < 0 else result, dt.float32)


def by_squaring(x: Node, exponent: int) -> Node:
    """x ** exponent for a constant exponent >= 0, in multiplications."""
    result, square = None, x
    while exponent:
        if exponent & 1:
            result = square if result is None else mul(result, square)
        exponent >>= 1
        square = mul(square, square)
    return const(1, x.dtype) if result is None else result


# ---- floats --------------------------------------------------------------------------------------

_BEYOND = 2.0**64
"""An exponent of this size takes every base but 1 to 0 or infinity."""


def _float_power(a: Node, b: Node, exact: bool) -> Node:
    """a ** b: to 1 ulp if `exact`, otherwise, of float64, to about 40 bits."""
    size = absolute(a)
    finite = where(less(_BEYOND, b), _BEYOND, where(less(b, -_BEYOND), -_BEYOND, b))
    regular = both(less(0.0, size), less(size, math.inf))
    safe = where(regular, size, 1.0)
    result = _exact_magnitude(safe, finite) if exact else exp2(mul(finite, log2(safe)))
    grows = xor(less(0.0, size), less(b, 0.0))
    limit = where(grows, const(math.inf, a.dtype), const(0.0, a.dtype))
    return _special_powers(a, b, where(regular, result, limit))


def _special_powers(a: Node, b: Node, magnitude: Node) -> Node:
    """|a| ** b with its sign, and the cases where NaN comes in."""
    half = mul(absolute(b), 0.5)
    odd = both(_is_whole(absolute(b)), invert(_is_whole(half)))
    result = with_sign_of(magnitude, where(odd, bits_of(a), 0))
    root = both(both(less(a, 0.0), less(-math.inf, a)), invert(_is_whole(absolute(b))))
    result = where(either(root, either(differ(a, a), differ(b, b))), math.nan, result)
    one = either(invert(differ(a, 1.0)), invert(differ(b, 0.0)))
    return where(one, 1.0, result)


def _is_whole(size: Node) -> Node:
    """Whether a float that is not negative is an integer: adding `least` rounds it to one."""
    least = _FORMATS[size.dtype].whole
    size = where(less(size, least), size, least)
    return invert(differ(sub(add(size, least), least), size))


@dataclass(frozen=True, slots=True)
class _Format:
    """What the formulas need to know of a float type.

    whole: from here on all are integers. tail: (atanh(s)/s - 1 - u/3) / u**2 in u = s**2, for u up
    to 0.0297 (through Chebyshev nodes, by mpmath's chebyfit), highest power first. third: 1/3, and
    two_over_ln2: 2/ln 2, in two parts.
    """

    whole: float
    tail: tuple[float, ...]
    third: tuple[float, float]
    two_over_ln2: tuple[float, float]


_FORMATS = {
    dt.float32: _Format(
        whole=2.0**23,
        # absolute error 2**-38
        tail=(0.08209166675806046, 0.09077293425798416, 0.1111125648021698, 0.1428571343421936,
              0.20000000298023224),
        third=(0.3333333432674408, -9.934107758624577e-09),
        two_over_ln2=(2.885390043258667, 3.851926067000022e-08)),
    dt.float64: _Format(
        whole=2.0**52,
        # absolute error 2**-67
        tail=(0.053878005446940706, 0.052274330133643576, 0.0588343932799463, 0.06666647505950053,
              0.0769230789032387, 0.09090909089761286, 0.11111111111114441, 0.14285714285714282,
              0.2),
        third=(1 / 3, 1.850371707708594e-17),
        two_over_ln2=(2.8853900817779268, 4.0710547481862066e-17)),
}


def _log2_pair(x: Node) -> Pair:
    """log2 of a positive finite float64 to 65 bits, of float32 to 38: 2/ln 2 * atanh((m-1)/(m+1))
    + exponent."""
    form, (exponent, m) = _FORMATS[x.dtype], split_exponent(x)
    f, g = sub(m, 1.0), dd.fast_sum(1.0, m)
    g = Pair(g.high, sub(m, sub(g.high, 1.0)))
    quotient = divide(f, g.high)
    back = dd.product(quotient, g.high)
    rest = sub(sub(sub(f, back.high), back.low), mul(quotient, g.low))
    s = Pair(quotient, divide(rest, g.high))
    u = dd.multiply(s, s)
    third = dd.fast_sum(form.third[0], mul(u.high, horner(u.high, form.tail)))
    inner = dd.multiply(u, Pair(third.high, add(third.low, form.third[1])))
    series = dd.fast_sum(1.0, inner.high)
    series = Pair(series.high, add(series.low, inner.low))
    fraction = dd.scale(dd.multiply(s, series), *form.two_over_ln2)
    total = dd.fast_sum(cast(exponent, x.dtype), fraction.high)
    return dd.fast_sum(total.high, add(total.low, fraction.low))


def _exact_magnitude(size: Node, exponent: Node) -> Node:
    log = _log2_pair(size)
    total = dd.product(exponent, log.high)
    return exp2_of_sum(total.high, muladd(exponent, log.low, total.low))


# ---- integers ------------------------------------------------------------------------------------

def _integer_power(base: Node, exponent: Node) -> Node:
    """Modulo 2**bits; a negative exponent gives 0, but for base 1 and base -1."""
    limits = bounds(exponent)
    assert limits is not None
    low, high = limits
    if low == high >= 0:
        return by_squaring(base, low)
    result = _square_and_multiply(base, exponent, max(high, 0).bit_length())
    if low >= 0:
        return result
    minus = where(differ(both(exponent, 1), 0), const(-1, base.dtype), const(1, base.dtype))
    unit = where(differ(base, -1), 0, minus)
    unit = where(differ(base, 1), unit, 1)
    return where(less(exponent, 0), unit, result)


def _square_and_multiply(base: Node, exponent: Node, steps: int) -> Node:
    one = const(1, base.dtype)
    rest = cast(exponent, UNSIGNED[exponent.dtype.bits])
    result, square = one, base
    for step in range(steps):
        bit = both(shr(rest, step) if step else rest, 1)
        result = mul(result, where(differ(bit, 0), square, one))
        square = mul(square, square)
    return result
