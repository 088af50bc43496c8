"""What numbers are made of: neighbours, significands and exponents, angles, common divisors.

In: GRAPH nodes. Out: one of the same shape.
"""
from __future__ import annotations

import math

from lazyten.ir import dtype as dt
from lazyten.ir.dtype import DType
from lazyten.ir.node import Node, cast, const, make
from lazyten.ir.ops import Op
from lazyten.operators.math import elementwise as ew
from lazyten.operators.math import special
from lazyten.operators.math.elementwise import Operand
from lazyten.operators.math.gradients import flat_in, with_gradient
from lazyten.operators.math.scans import stored
from lazyten.support.errors import NotOfTypeError

STEPS = 64
"""Steps towards a common divisor in one kernel, which takes longer to compile the more it has."""

_BITS = {16: dt.int16, 32: dt.int32, 64: dt.int64}


def _bits(x: Node) -> Node:
    """The bits of floats as integers."""
    return make(Op.BITCAST, _BITS[x.dtype.bits], (x,))


def _of_bits(x: Node, dtype: DType) -> Node:
    return make(Op.BITCAST, dtype, (x,))


# ---- floats --------------------------------------------------------------------------------------

def nextafter(a: Operand, b: Operand) -> Node:
    """The float beside a in the direction of b; b itself where they are equal."""
    dtype = ew.result_type([a, b])
    if not dtype.is_float:
        raise NotOfTypeError(f"nextafter of {dtype.name}: it is for floats; convert with .float()")
    shape = ew.common_shape([a, b], "nextafter")
    x, y = ew.as_node(a, dtype, shape), ew.as_node(b, dtype, shape)
    bits = _bits(x)
    outward = ew.equal(ew.less(x, y), ew.greater(x, 0.0))  # bits count up, away from 0
    moved = _of_bits(ew.add(bits, ew.where(outward, const(1, bits.dtype), -1)), dtype)
    least = _of_bits(const(1, bits.dtype, shape), dtype)
    from_zero = ew.where(ew.less(y, 0.0), ew.negative(least), least)
    value = ew.where(ew.equal(x, 0.0), from_zero, moved)
    unordered = ew.bitwise_or(ew.not_equal(x, x), ew.not_equal(y, y))
    value = ew.where(ew.equal(x, y), y, ew.where(unordered, math.nan, value))
    return with_gradient(value, (x, y), _of_the_first)


def _of_the_first(g: Node, node: Node) -> tuple[Node, Node]:
    return g, const(0.0, g.dtype, g.shape)


def exponent(x: Node) -> Node:
    """The int32 e for which x / 2**e is in [0.5, 1), or its opposite; 0 for 0 and what is not
    finite."""
    kept = x.dtype.significand_bits - 1
    width = x.dtype.bits - kept - 1
    tiny = 2.0 ** -(2 ** (width - 1) - 2)  # the least with a significand of full length
    small = ew.less(ew.absolute(x), tiny)
    scaled = ew.where(small, ew.mul(x, 2.0 ** (kept + 1)), x)
    field = ew.bitwise_and(ew.shift_right(_bits(scaled), kept), 2**width - 1)
    number = ew.sub(cast(field, dt.int32), 2 ** (width - 1) - 2)
    number = ew.where(small, ew.sub(number, kept + 1), number)
    none = ew.bitwise_or(ew.equal(x, 0.0), ew.equal(field, 2**width - 1))
    return ew.where(none, const(0, dt.int32), number)


def significand(x: Node) -> Node:
    """x over 2 to the power of `exponent`; 0 and what is not finite as they are."""
    return _scaled(x, ew.negative(exponent(x)))


def _scaled(x: Node, powers: Node) -> Node:
    """x * 2**powers, in two exact steps, as one power may be beyond the type."""
    half = ew.shift_right(powers, 1)
    first = ew.mul(x, special.exp2(cast(half, x.dtype)))
    value = ew.mul(first, special.exp2(cast(ew.sub(powers, half), x.dtype)))
    return with_gradient(value, (x, powers), _scaled_gradient)


def _scaled_gradient(g: Node, node: Node) -> tuple[Node, Node]:
    return _scaled(g, node.src[2]), const(0, node.src[2].dtype, g.shape)


def angle(x: Node) -> Node:
    """pi for what is below 0, else 0; NaN for NaN. The gradient is 0."""
    x = ew.as_float(x)
    value = ew.where(ew.less(x, 0.0), const(math.pi, x.dtype), 0.0)
    return flat_in(x, ew.where(ew.not_equal(x, x), const(math.nan, x.dtype), value))


# ---- integers ------------------------------------------------------------------------------------

def gcd(a: Operand, b: Operand) -> Node:
    """The greatest common divisor, 0 of 0 and 0: of magnitudes, which are unsigned, as that of the
    least number fits in no signed type.

    By halving and subtracting (J. Stein, 1967), as processors divide few integers at a time: y is
    an odd multiple of the greatest power of two in both, and each step takes a bit at least off x
    or y until x is 0. As many steps as the type may need."""
    dtype = ew.result_type([a, b])
    if not dtype.is_int or dtype is dt.bool_:
        raise NotOfTypeError(f"gcd and lcm of {dtype.name}: they are for integers")
    shape = ew.common_shape([a, b], "gcd")
    x, y = (_magnitude(ew.as_node(v, dtype, shape)) for v in (a, b))
    either = ew.bitwise_or(x, y)
    power = ew.bitwise_and(either, ew.negative(either))
    has_more = ew.equal(ew.bitwise_and(y, power), 0)
    x, y = ew.where(has_more, y, x), ew.where(has_more, x, y)
    for step in range(2 * dtype.bits - 1):
        if step and step % STEPS == 0:
            x, y = stored(x), stored(y)
        x, y = _without_a_bit(x, y, power)
    return cast(y, dtype)


def _without_a_bit(x: Node, y: Node, power: Node) -> tuple[Node, Node]:
    """Two numbers with the same divisors, of which y is an odd multiple of `power`: x halved, or if
    it is odd, too, half of the difference, and the lesser."""
    is_odd, is_less = ew.not_equal(ew.bitwise_and(x, power), 0), ew.less(x, y)
    apart = ew.where(is_less, ew.sub(y, x), ew.sub(x, y))
    return (ew.shift_right(ew.where(is_odd, apart, x), 1),
            ew.where(ew.bitwise_and(is_odd, is_less), x, y))


def _magnitude(x: Node) -> Node:
    """The absolute value of an integer, as an unsigned one."""
    return cast(ew.absolute(x), dt.BY_NAME[f"uint{x.dtype.bits}"])


def lcm(a: Operand, b: Operand) -> Node:
    """The least common multiple, 0 of 0 and anything."""
    divisor = gcd(a, b)
    x, y = (ew.as_node(v, divisor.dtype, divisor.shape) for v in (a, b))
    return ew.absolute(ew.mul(ew.floor_divide(x, divisor), y))
