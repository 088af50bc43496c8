"""log, exp and sine from +, * and / alone, each rounded by itself: the same bits on every device.

The ops LOG2, EXP and SIN are what a device makes of them, to a unit in the last place. Random
numbers are the same everywhere, so distributions.py uses these, over the ranges that it needs. In
and out: GRAPH nodes of float32 or float64.
"""
from __future__ import annotations

import math
from collections.abc import Sequence

from lazyten.ir import dtype as dt
from lazyten.ir.node import Node, cast, const, make
from lazyten.ir.ops import Op
from lazyten.operators.math import elementwise as ew

_LN2 = (0.693359375, -2.121944400546905827679e-4)
"""The natural logarithm of 2 in two parts, the first so short that small multiples are exact."""

# S. Moshier's Cephes, highest power first: logf.c and log.c, expf.c and exp.c
_LOG32 = (7.0376836292e-2, -1.1514610310e-1, 1.1676998740e-1, -1.2420140846e-1, 1.4249322787e-1,
          -1.6668057665e-1, 2.0000714765e-1, -2.4999993993e-1, 3.3333331174e-1)
_LOG64_P = (1.01875663804580931796e-4, 4.97494994976747001425e-1, 4.70579119878881725854,
            1.44989225341610930846e1, 1.79368678507819816313e1, 7.70838733755885391666)
_LOG64_Q = (1.0, 1.12873587189167450590e1, 4.52279145837532221105e1, 8.29875266912776603211e1,
            7.11544750618563894466e1, 2.31251620126765340583e1)
_EXP32 = (1.9875691500e-4, 1.3981999507e-3, 8.3334519073e-3, 4.1665795894e-2, 1.6666665459e-1,
          5.0000001201e-1)
_EXP64_P = (1.26177193074810590878e-4, 3.02994407707441961300e-2, 1.0)
_EXP64_Q = (3.00198505138664455042e-6, 2.52448340349684104192e-3, 2.27265548208155028766e-1, 2.0)

# sin(x * pi / 2) / x of x**2 below 1, fitted with mpmath (`chebyfit`), to 2**-35 and 2**-80
_SINE = {dt.float32: (-3.431789082242176e-06, 0.00016025459626689553, -0.004681657534092665,
                      0.07969260215759277, -0.6459640860557556, 1.5707963705062866),
         dt.float64: (2.503337437658531e-16, -4.375455310033695e-14, 6.0669141664229194e-12,
                      -6.688034930326678e-10, 5.692172921007915e-08, -3.5988432352087873e-06,
                      0.00016044118478735912, -0.004681754135318688, 0.07969262624616705,
                      -0.6459640975062463, 1.5707963267948966)}

_INTEGER = {dt.float32: dt.int32, dt.float64: dt.int64}


def _polynomial(x: Node, coefficients: Sequence[float]) -> Node:
    """Horner's rule, each product and each sum rounded."""
    total = const(coefficients[0], x.dtype, x.shape)
    for c in coefficients[1:]:
        total = ew.add(ew.mul(total, x), c)
    return total


def _bits(x: Node) -> Node:
    return make(Op.BITCAST, _INTEGER[x.dtype], (x,))


def log(x: Node) -> Node:
    """The natural logarithm of positive normal numbers, within 2 units in the last place."""
    fraction = x.dtype.significand_bits - 1
    root = _bits(const(math.sqrt(0.5), x.dtype, x.shape))
    exponent = ew.shift_right(ew.sub(_bits(x), root), fraction)
    near = make(Op.BITCAST, x.dtype, (ew.sub(_bits(x), ew.shift_left(exponent, fraction)),))
    times = cast(exponent, x.dtype)
    r = ew.sub(near, 1.0)
    z = ew.mul(r, r)
    if x.dtype is dt.float32:
        rest = _polynomial(r, _LOG32)
    else:
        rest = ew.true_divide(_polynomial(r, _LOG64_P), _polynomial(r, _LOG64_Q))
    small = ew.add(ew.mul(r, ew.mul(z, rest)), ew.mul(times, _LN2[1]))
    small = ew.sub(small, ew.mul(z, 0.5))
    return ew.add(ew.add(r, small), ew.mul(times, _LN2[0]))


def exp(x: Node) -> Node:
    """e ** x, within 2 units in the last place; infinite or 0 where it is out of range."""
    fraction = x.dtype.significand_bits - 1
    limit = 2.0 ** (x.dtype.bits - fraction - 2) * math.log(2)
    held = ew.clip(x, -limit, limit + 1)
    magic = 1.5 * 2.0**fraction
    times = ew.sub(ew.add(ew.mul(held, 1 / math.log(2)), magic), magic)
    r = ew.sub(ew.sub(held, ew.mul(times, _LN2[0])), ew.mul(times, _LN2[1]))
    z = ew.mul(r, r)
    if x.dtype is dt.float32:
        near = ew.add(ew.add(ew.mul(z, _polynomial(r, _EXP32)), r), 1.0)
    else:
        odd = ew.mul(r, _polynomial(z, _EXP64_P))
        near = ew.add(ew.mul(ew.true_divide(odd, ew.sub(_polynomial(z, _EXP64_Q), odd)), 2.0), 1.0)
    whole = cast(times, _INTEGER[x.dtype])
    half = ew.shift_right(whole, 1)
    value = ew.mul(ew.mul(near, _power_of_two(half, x.dtype)),
                   _power_of_two(ew.sub(whole, half), x.dtype))
    return ew.where(ew.greater(ew.absolute(x), limit), ew.where(ew.less(x, 0.0), 0.0, math.inf),
                    value)


def _power_of_two(n: Node, dtype: dt.DType) -> Node:
    fraction = dtype.significand_bits - 1
    bias = (1 << dtype.bits - fraction - 2) - 1
    return make(Op.BITCAST, dtype, (ew.shift_left(ew.add(n, bias), fraction),))


def sine(turns: Node) -> Node:
    """sin(2 pi turns) for turns between -1/2 and 1/2; odd, and exact at quarters."""
    side = ew.where(ew.less(turns, 0.0), const(-0.5, turns.dtype), const(0.5, turns.dtype))
    near = ew.where(ew.greater(ew.absolute(turns), 0.25), ew.sub(side, turns), turns)
    x = ew.mul(near, 4.0)
    return ew.mul(_polynomial(ew.mul(x, x), _SINE[x.dtype]), x)
