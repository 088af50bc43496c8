"""Inverse trigonometric and hyperbolic functions, and functions of two floats, as graphs of ops.

In and out: GRAPH nodes; integers and bools are first converted to the default float type. Errors
are a few units in the last place: docs/accuracy.md.
"""
from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from lazyten.ir import dtype as dt
from lazyten.ir.node import Node, cast, const, make
from lazyten.ir.ops import Op
from lazyten.operators.math import elementwise as ew
from lazyten.operators.math import special
from lazyten.operators.math.elementwise import Operand, as_float
from lazyten.operators.math.gradients import flat_in, with_gradient

_LARGE = {dt.float32: 44.0, dt.float64: 350.0}
"""From here on e ** x is squared in two steps: sinh and cosh fit where e ** x does not."""

# fdlibm's s_atan.c: atan(x) = x - x * (s1 + s2) for |x| < 7/16, and around four other points
_POINTS = ((7 / 16, 0.0), (11 / 16, 0.5), (19 / 16, 1.0), (39 / 16, 1.5))
_ATAN_EVEN = (1.62858201153657823623e-02, 4.97687799461593236017e-02, 6.66107313738753120669e-02,
              9.09088713343650656196e-02, 1.42857142725034663711e-01, 3.33333333333329318027e-01)
_ATAN_ODD = (-3.65315727442169155270e-02, -5.83357013379057348645e-02, -7.69187620504482999495e-02,
             -1.11111104054623557880e-01, -1.99999999998764832476e-01)
_ATAN_LOW = {0.0: 0.0, 0.5: 2.26987774529616870924e-17, 1.0: 3.06161699786838301793e-17,
             1.5: 1.39033110312309984516e-17, math.inf: 6.12323399573676603587e-17}
"""What the double nearest to atan of a point is short of it."""
# (1 - atan(t) / t) / t**2 of t**2 for |t| < 7/16, fitted with mpmath (`chebyfit`), to 2**-24.8
_ATAN32 = (0.062031250447034836, -0.1066410094499588, 0.14256131649017334, -0.19999299943447113,
           0.3333333134651184)


def atan(x: Node) -> Node:
    """The angle in -pi/2 to pi/2 whose tangent is x: that of the point beside it, and of what is
    left, for which there is one quotient whatever the point."""
    x = as_float(x)
    negative, size = special.split_sign(x)
    below = [ew.less(size, limit) for limit, _ in _POINTS]
    point = _first(below[:-1], [point for _, point in _POINTS], x)
    near = ew.true_divide(ew.where(below[-1], ew.sub(size, point), -1.0),
                          ew.where(below[-1], ew.add(ew.mul(size, point), 1.0), size))
    ends = [_atan_of(point, x.dtype) for _, point in (*_POINTS, (math.inf, math.inf))]
    top, bottom = (_first(below, part, x) for part in zip(*ends, strict=True))
    z = ew.mul(near, near)
    if x.dtype is dt.float32:
        terms = ew.mul(special.polynomial(z, _ATAN32), z)
    else:
        w = ew.mul(z, z)
        terms = ew.add(ew.mul(special.polynomial(w, _ATAN_EVEN), z),
                       ew.mul(special.polynomial(w, _ATAN_ODD), w))
    value = ew.sub(top, ew.sub(ew.sub(ew.mul(near, terms), bottom), near))
    value = ew.where(negative, ew.negative(value), value)
    value = ew.where(ew.not_equal(x, 0.0), value, x)  # -0.0 is not below 0
    return with_gradient(value, (x,), _atan_gradient)


def _first(below: Sequence[Node], values: Sequence[float], x: Node) -> Node:
    """The value of the first of `below` that holds, the last one where none does."""
    *firsts, found = [const(value, x.dtype, x.shape) for value in values]
    for holds, value in zip(below[::-1], firsts[::-1], strict=True):
        found = ew.where(holds, value, found)
    return found


def _atan_of(point: float, dtype: dt.DType) -> tuple[float, float]:
    """atan(point) as a number of this dtype, and what it is short of it."""
    exact, short = math.atan(point), _ATAN_LOW[point]
    if dtype is dt.float64:
        return exact, short
    high = float(np.float32(exact))
    return high, exact - high


def _atan_gradient(g: Node, node: Node) -> tuple[Node]:
    x = node.src[1]
    return (ew.true_divide(g, ew.add(ew.mul(x, x), 1.0)),)


def asin(x: Node) -> Node:
    """The angle in -pi/2 to pi/2 whose sine is x; NaN outside -1 to 1."""
    x = as_float(x)
    return with_gradient(atan(ew.true_divide(x, _leg(x))), (x,), _asin_gradient)


def _leg(x: Node) -> Node:
    """sqrt(1 - x**2) without cancellation. Its gradient at -1 and 1 is infinite, where that of a
    product of factors would be 0 * inf."""
    value = special.sqrt(ew.mul(ew.sub(1.0, x), ew.add(x, 1.0)))
    return with_gradient(value, (x,), _leg_gradient)


def _leg_gradient(g: Node, node: Node) -> tuple[Node]:
    x = node.src[1]
    return (ew.negative(ew.mul(g, ew.true_divide(x, _leg(x)))),)


def _asin_gradient(g: Node, node: Node) -> tuple[Node]:
    return (ew.true_divide(g, _leg(node.src[1])),)


def acos(x: Node) -> Node:
    """The angle in 0 to pi whose cosine is x; NaN outside -1 to 1."""
    x = as_float(x)
    half = atan(special.sqrt(ew.true_divide(ew.sub(1.0, x), ew.add(x, 1.0))))
    return with_gradient(ew.mul(half, 2.0), (x,), _acos_gradient)


def _acos_gradient(g: Node, node: Node) -> tuple[Node]:
    return (ew.negative(ew.true_divide(g, _leg(node.src[1]))),)


# ---- hyperbolic ----------------------------------------------------------------------------------

def _halved(size: Node) -> Node:
    """e ** size / 2, which may fit where e ** size does not."""
    root = special.exp(ew.mul(size, 0.5))
    return ew.mul(ew.mul(root, 0.5), root)


def sinh(x: Node) -> Node:
    """(e ** x - e ** -x) / 2."""
    x = as_float(x)
    size = ew.absolute(x)
    less_one = special.expm1(size)
    near = ew.mul(ew.add(less_one, ew.true_divide(less_one, ew.add(less_one, 1.0))), 0.5)
    value = ew.where(ew.less(size, _LARGE[x.dtype]), near, _halved(size))
    return with_gradient(copysign(value, x), (x,), _sinh_gradient)


def _sinh_gradient(g: Node, node: Node) -> tuple[Node]:
    return (ew.mul(g, cosh(node.src[1])),)


def cosh(x: Node) -> Node:
    """(e ** x + e ** -x) / 2."""
    x = as_float(x)
    size = ew.absolute(x)
    power = special.exp(size)
    near = ew.mul(ew.add(power, special.reciprocal(power)), 0.5)
    return with_gradient(ew.where(ew.less(size, _LARGE[x.dtype]), near, _halved(size)), (x,),
                         _cosh_gradient)


def _cosh_gradient(g: Node, node: Node) -> tuple[Node]:
    return (ew.mul(g, sinh(node.src[1])),)


def asinh(x: Node) -> Node:
    """The number whose sinh is x."""
    x = as_float(x)
    size = ew.absolute(x)
    square = ew.mul(size, size)
    root = special.sqrt(ew.add(square, 1.0))
    near = special.log1p(ew.add(size, ew.true_divide(square, ew.add(root, 1.0))))
    far = ew.add(special.log(size), math.log(2))
    value = ew.where(ew.less(size, 2.0 ** (x.dtype.significand_bits + 4)), near, far)
    return with_gradient(copysign(value, x), (x,), _asinh_gradient)


def _asinh_gradient(g: Node, node: Node) -> tuple[Node]:
    return (ew.true_divide(g, hypot(node.src[1], 1.0)),)


def acosh(x: Node) -> Node:
    """The number >= 0 whose cosh is x; NaN below 1."""
    x = as_float(x)
    over = ew.sub(x, 1.0)
    root = special.sqrt(ew.mul(over, ew.add(over, 2.0)))
    far = ew.add(special.log(x), math.log(2))
    limit = 2.0 ** (x.dtype.significand_bits + 4)
    value = ew.where(ew.less(x, limit), special.log1p(ew.add(over, root)), far)
    return with_gradient(ew.where(ew.less(x, 1.0), math.nan, value), (x,), _acosh_gradient)


def _acosh_gradient(g: Node, node: Node) -> tuple[Node]:
    return (ew.true_divide(g, _roots(node.src[1])),)


def _roots(x: Node) -> Node:
    """sqrt(x**2 - 1) without cancellation, for x >= 1; its gradient at 1 is infinite."""
    value = ew.mul(special.sqrt(ew.sub(x, 1.0)), special.sqrt(ew.add(x, 1.0)))
    return with_gradient(value, (x,), _roots_gradient)


def _roots_gradient(g: Node, node: Node) -> tuple[Node]:
    x = node.src[1]
    return (ew.mul(g, ew.true_divide(x, _roots(x))),)


def atanh(x: Node) -> Node:
    """The number whose tanh is x; infinite at -1 and 1, NaN outside."""
    x = as_float(x)
    size = ew.absolute(x)
    value = ew.mul(special.log1p(ew.true_divide(ew.mul(size, 2.0), ew.sub(1.0, size))), 0.5)
    value = ew.where(ew.greater(size, 1.0), math.nan, value)
    return with_gradient(copysign(value, x), (x,), _atanh_gradient)


def _atanh_gradient(g: Node, node: Node) -> tuple[Node]:
    return (ew.true_divide(g, _square_to_1(node.src[1])),)


def _square_to_1(x: Node) -> Node:
    """1 - x**2 without cancellation."""
    value = ew.mul(ew.sub(1.0, x), ew.add(x, 1.0))
    return with_gradient(value, (x,), _square_to_1_gradient)


def _square_to_1_gradient(g: Node, node: Node) -> tuple[Node]:
    return (ew.mul(ew.mul(g, node.src[1]), -2.0),)


# ---- signs ---------------------------------------------------------------------------------------

_BITS = {16: dt.int16, 32: dt.int32, 64: dt.int64}


def signbit(x: Node) -> Node:
    """Whether below 0, also -0.0 and NaN with a sign."""
    if not x.dtype.is_float:
        return ew.less(x, 0) if x.dtype.kind == "i" else ew.not_equal(x, x)
    return ew.less(make(Op.BITCAST, _BITS[x.dtype.bits], (x,)), 0)


def copysign(a: Operand, b: Operand) -> Node:
    """|a| with the sign of b. The gradient at a = 0 is 0."""
    size, sign = _float_pair(a, b)
    value = ew.where(ew.equal(signbit(size), signbit(sign)), size, ew.negative(size))
    return with_gradient(value, (size, sign), _copysign_gradient)


def _copysign_gradient(g: Node, node: Node) -> tuple[Node, Node]:
    _, a, b = node.src
    kept = ew.where(ew.equal(signbit(a), signbit(b)), g, ew.negative(g))
    zero = const(0.0, g.dtype, g.shape)
    return flat_in(a, ew.where(ew.equal(a, 0.0), zero, kept)), zero


# ---- of two numbers ------------------------------------------------------------------------------

def _float_pair(a: Operand, b: Operand) -> tuple[Node, Node]:
    """Both in their common float type, broadcast."""
    dtype = ew.result_type([a, b])
    dtype = dtype if dtype.is_float else dt.default_float
    shape = ew.common_shape([a, b], "")
    return ew.as_node(a, dtype, shape), ew.as_node(b, dtype, shape)


def in_floats(function: Callable[[Node, Node], Node]) -> Callable[[Operand, Operand], Node]:
    """A function of two floats of any kind: 16-bit ones are computed in float32."""
    def of_operands(a: Operand, b: Operand) -> Node:
        first, second = _float_pair(a, b)
        if not first.dtype.is_half:
            return function(first, second)
        wide = function(cast(first, dt.float32), cast(second, dt.float32))
        return cast(wide, first.dtype)
    return of_operands


@in_floats
def atan2(y: Node, x: Node) -> Node:
    """The angle in -pi to pi of the point (x, y)."""
    up, along = ew.absolute(y), ew.absolute(x)
    low, high = ew.minimum(up, along), ew.maximum(up, along)
    same = ew.bitwise_and(ew.equal(low, high), ew.greater(high, 0.0))
    slope = ew.where(same, 1.0, ew.true_divide(low, ew.where(ew.equal(high, 0.0), 1.0, high)))
    angle = atan(slope)
    angle = ew.where(ew.greater(up, along), ew.sub(math.pi / 2, angle), angle)
    angle = ew.where(signbit(x), ew.sub(math.pi, angle), angle)
    angle = ew.where(ew.bitwise_or(ew.not_equal(x, x), ew.not_equal(y, y)), math.nan, angle)
    return with_gradient(copysign(angle, y), (y, x), _atan2_gradient)


def _atan2_gradient(g: Node, node: Node) -> tuple[Node, Node]:
    _, y, x = node.src
    squared = ew.add(ew.mul(x, x), ew.mul(y, y))
    share = ew.where(ew.equal(squared, 0.0), 0.0, ew.true_divide(g, squared))
    return ew.mul(share, x), ew.negative(ew.mul(share, y))


@in_floats
def hypot(a: Node, b: Node) -> Node:
    """sqrt(a**2 + b**2), also where the squares do not fit."""
    up, along = ew.absolute(a), ew.absolute(b)
    low, high = ew.minimum(up, along), ew.maximum(up, along)
    ratio = ew.true_divide(low, ew.where(ew.equal(high, 0.0), 1.0, high))
    value = ew.mul(high, special.sqrt(ew.add(ew.mul(ratio, ratio), 1.0)))
    infinite = ew.bitwise_or(ew.equal(up, math.inf), ew.equal(along, math.inf))
    return with_gradient(ew.where(infinite, math.inf, value), (a, b), _hypot_gradient)


def _hypot_gradient(g: Node, node: Node) -> tuple[Node, Node]:
    _, a, b = node.src
    return ew.mul(g, ew.true_divide(a, node)), ew.mul(g, ew.true_divide(b, node))


@in_floats
def logaddexp(a: Node, b: Node) -> Node:
    """log(e ** a + e ** b), safe for large numbers."""
    high, low = ew.maximum(a, b), ew.minimum(a, b)
    value = ew.add(high, special.log1p(special.exp(ew.sub(low, high))))
    value = ew.where(ew.equal(a, b), ew.add(a, math.log(2)), value)
    return with_gradient(value, (a, b), _logaddexp_gradient)


def _logaddexp_gradient(g: Node, node: Node) -> tuple[Node, Node]:
    _, a, b = node.src
    return (ew.mul(g, special.logistic(ew.sub(a, b))), ew.mul(g, special.logistic(ew.sub(b, a))))


@in_floats
def logaddexp2(first: Node, second: Node) -> Node:
    """log2(2 ** first + 2 ** second), safe for large numbers."""
    total = logaddexp(ew.mul(first, math.log(2)), ew.mul(second, math.log(2)))
    return ew.mul(total, 1 / math.log(2))


def fmod(a: Operand, b: Operand) -> Node:
    """What a division that rounds towards 0 leaves: the sign of a; of integers by 0, 0."""
    rest = ew.remainder(a, b)
    if not rest.dtype.is_float:
        below = ew.less(ew.as_node(a, rest.dtype, rest.shape), 0)
        above = ew.bitwise_and(ew.not_equal(rest, 0), ew.not_equal(ew.less(rest, 0), below))
        return ew.where(above, ew.sub(rest, b), rest)
    first, second = _float_pair(a, b)
    value = copysign(ew.remainder(ew.absolute(first), ew.absolute(second)), first)
    return with_gradient(value, (first, second), _fmod_gradient)


def _fmod_gradient(g: Node, node: Node) -> tuple[Node, Node]:
    _, a, b = node.src
    return g, ew.negative(ew.mul(g, special.trunc(ew.true_divide(a, b))))


@in_floats
def xlogy(a: Node, b: Node) -> Node:
    """a * log(b), and 0 where a is 0 and b is not NaN."""
    return with_gradient(_times(a, special.log(b), b), (a, b), _xlogy_gradient)


def _times(a: Node, logs: Node, b: Node) -> Node:
    """a times logarithms, which are of b, and 0 where a is 0 and b is not NaN."""
    value = ew.where(ew.equal(a, 0.0), 0.0, ew.mul(a, logs))
    return ew.where(ew.not_equal(b, b), math.nan, value)


def _within(a: Node, b: Node, end: float) -> Node:
    """b, but end + 1 where a is 0 and b at the `end` of a logarithm or beyond."""
    none = ew.bitwise_and(ew.equal(a, 0.0), ew.less_equal(b, end))
    return ew.where(none, const(end + 1.0, b.dtype), b)


def _xlogy_gradient(g: Node, node: Node) -> tuple[Node, Node]:
    """log(b), but 0 where a is 0 and log(b) is -inf or NaN; and a / b."""
    _, a, b = node.src
    return ew.mul(g, special.log(_within(a, b, 0.0))), ew.mul(g, ew.true_divide(a, b))


def entr(x: Node) -> Node:
    """-x log x; 0 at 0, and -inf below."""
    x = as_float(x)
    value = ew.where(ew.less(x, 0.0), -math.inf, ew.negative(xlogy(x, x)))
    return with_gradient(value, (x,), _entr_gradient)


def _entr_gradient(g: Node, node: Node) -> tuple[Node]:
    return (ew.mul(g, ew.sub(-1.0, special.log(node.src[1]))),)


@in_floats
def xlog1py(a: Node, b: Node) -> Node:
    """a * log(1 + b), and 0 where a is 0 and b is not NaN."""
    return with_gradient(_times(a, special.log1p(b), b), (a, b), _xlog1py_gradient)


def _xlog1py_gradient(g: Node, node: Node) -> tuple[Node, Node]:
    """log(1 + b), but 0 where a is 0 and that is -inf or NaN; and a / (1 + b)."""
    _, a, b = node.src
    logs = special.log1p(_within(a, b, -1.0))
    return ew.mul(g, logs), ew.mul(g, ew.true_divide(a, ew.add(b, 1.0)))


def ldexp(x: Operand, exponent: Operand) -> Node:
    """x * 2 ** exponent, in floats."""
    whole = not ew.result_type([exponent]).is_float
    return in_floats(lambda a, b: with_gradient(
        _scaled(a, b, whole), (a, b), _ScaledGradient(whole)))(x, exponent)


@dataclass(frozen=True)
class _ScaledGradient:
    """g * 2 ** exponent, and g * value * log 2."""
    whole: bool

    def __call__(self, g: Node, node: Node) -> tuple[Node, Node]:
        value, _, exponent = node.src
        return _scaled(g, exponent, self.whole), ew.mul(ew.mul(g, value), math.log(2))


def _scaled(x: Node, exponent: Node, whole: bool) -> Node:
    """x * 2 ** exponent, by three powers of which each is a normal number: the whole one may be
    infinite, or 0, where the product is not. The greatest part is last: one product rounds.
    whole: the exponent is a whole number, so finite: 0 remains 0."""
    high = 127 if x.dtype is dt.float32 else 1023
    left = _between(exponent, 3 * (1 - high), 3 * high) if whole else exponent
    powers = []
    for _ in range(2):
        part = _between(left, 1 - high, high)
        powers.append(special.exp2(part))
        left = ew.sub(left, part)
    return ew.mul(ew.mul(ew.mul(x, special.exp2(left)), powers[1]), powers[0])


def _between(x: Node, low: int, high: int) -> Node:
    return ew.minimum(ew.maximum(x, float(low)), float(high))
