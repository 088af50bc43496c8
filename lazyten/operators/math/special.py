"""Elementary and special functions, as graphs of the few ops of the op table.

In and out: GRAPH nodes; integers and bools are first converted to the default float type. Errors
in units in the last place are in docs/accuracy.md, measured by tests/operators/test_special.py.
"""
from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from lazyten.ir import dtype as dt
from lazyten.ir.node import Node, cast, const, elementwise
from lazyten.ir.ops import Op
from lazyten.operators.math import elementwise as ew
from lazyten.operators.math.elementwise import Operand, as_float
from lazyten.operators.math.gradients import OfOperands, flat_in, with_gradient
from lazyten.support.errors import DTypeError

LN2 = math.log(2)


def exp2(x: Node) -> Node:
    """2 ** x."""
    return elementwise(Op.EXP2, as_float(x))


def exp(x: Node) -> Node:
    """e ** x."""
    return elementwise(Op.EXP, as_float(x))


def log2(x: Node) -> Node:
    """The logarithm to base 2: -inf at 0, NaN below."""
    return elementwise(Op.LOG2, as_float(x))


def log(x: Node) -> Node:
    """The natural logarithm: -inf at 0, NaN below."""
    return ew.mul(log2(x), LN2)


def log10(x: Node) -> Node:
    """The logarithm to base 10."""
    return ew.mul(log2(x), math.log10(2))


def expm1(x: Node) -> Node:
    """e ** x - 1 without the loss for small x: (u - 1) * x / log(u) with u = e ** x (W. Kahan)."""
    x = as_float(x)
    u = exp(x)
    less_one = ew.sub(u, 1.0)
    exact = ew.true_divide(ew.mul(less_one, x), log(u))
    plain = ew.bitwise_or(ew.equal(u, 1.0), ew.greater(ew.absolute(x), 1.0))
    value = ew.where(plain, ew.where(ew.equal(u, 1.0), x, less_one), exact)
    return with_gradient(value, (x,), _expm1_gradient)


def _expm1_gradient(g: Node, node: Node) -> tuple[Node]:
    """e ** x itself: 1 more than the value has lost its digits far below 0."""
    return (ew.mul(g, exp(node.src[1])),)


def log1p(x: Node) -> Node:
    """log(1 + x) without the loss for small x: log(u) * (x / (u - 1)) with u = 1 + x (W. Kahan)."""
    x = as_float(x)
    u = ew.add(x, 1.0)
    exact = ew.mul(log(u), ew.true_divide(x, ew.sub(u, 1.0)))
    infinite = ew.equal(u, math.inf)
    value = ew.where(ew.equal(u, 1.0), x, ew.where(infinite, u, exact))
    return with_gradient(value, (x,), _log1p_gradient)


def _log1p_gradient(g: Node, node: Node) -> tuple[Node]:
    return (ew.true_divide(g, ew.add(node.src[1], 1.0)),)


def sqrt(x: Node) -> Node:
    """The square root: NaN below 0."""
    return elementwise(Op.SQRT, as_float(x))


def rsqrt(x: Node) -> Node:
    """1 / sqrt(x)."""
    return reciprocal(sqrt(x))


def over_root(x: Node) -> Node:
    """sqrt(x) / x: rsqrt, but NaN at infinity and at 0."""
    x = as_float(x)
    return with_gradient(ew.true_divide(sqrt(x), x), (x,), _over_root_gradient)


def _over_root_gradient(g: Node, node: Node) -> tuple[Node]:
    return (ew.mul(g, ew.true_divide(ew.mul(node, -0.5), node.src[1])),)


def reciprocal(x: Node) -> Node:
    """1 / x."""
    return elementwise(Op.RECIPROCAL, as_float(x))


def sin(x: Node) -> Node:
    """The sine of x radians."""
    return elementwise(Op.SIN, as_float(x))


def cos(x: Node) -> Node:
    """The cosine of x radians."""
    return elementwise(Op.COS, as_float(x))


def tan(x: Node) -> Node:
    """sin(x) / cos(x)."""
    return ew.true_divide(sin(x), cos(x))


def square(x: Node) -> Node:
    """x * x; of bools int64."""
    x = cast(x, dt.int64) if x.dtype is dt.bool_ else x
    return ew.mul(x, x)


# ---- rounding ------------------------------------------------------------------------------------

def _where_fractional(x: Node, value: Node) -> Node:
    """`value` where x may have a fraction; x where it is whole already, infinite or NaN."""
    limit = 2.0 ** (x.dtype.significand_bits - 1)
    rounded = ew.where(ew.less(ew.absolute(x), limit), value, x)
    return with_gradient(rounded, (x,), _flat)


def _flat(g: Node, node: Node) -> tuple[Node]:
    return (const(0.0, g.dtype, g.shape),)


def floor(x: Node) -> Node:
    """The greatest whole number <= x; integers as they are. The gradient is 0."""
    return _where_fractional(x, ew.floor_divide(x, 1.0)) if x.dtype.is_float else x


def ceil(x: Node) -> Node:
    """The least whole number >= x; integers as they are. The gradient is 0."""
    if not x.dtype.is_float:
        return x
    return _where_fractional(x, ew.negative(ew.floor_divide(ew.negative(x), 1.0)))


def trunc(x: Node) -> Node:
    """x without its fraction; integers as they are. The gradient is 0."""
    if not x.dtype.is_float:
        return x
    below = ew.less(x, 0.0)
    return ew.where(below, ceil(x), floor(x))


def rounded(x: Node, decimals: int) -> Node:
    """The nearest number of so many decimals (below 0: of zeros), halves to the even one. Integers
    are as they are, and have no decimals to choose."""
    if decimals == 0:
        return round_half_even(x)
    if not x.dtype.is_float:
        raise DTypeError(f"round of {x.dtype.name} to {decimals} decimals: it is for floats; "
                         f"convert with .float()")
    wide, unit = ew.wide(x), 10.0 ** abs(decimals)
    up, down = (ew.mul, ew.true_divide) if decimals > 0 else (ew.true_divide, ew.mul)
    return cast(down(round_half_even(up(wide, unit)), unit), x.dtype)


def round_half_even(x: Node) -> Node:
    """The nearest whole number, halves to the even one; integers as they are. The gradient is 0."""
    if not x.dtype.is_float:
        return x
    wide = ew.wide(x)
    unit = 2.0 ** (wide.dtype.significand_bits - 1)
    # a sum of this size has no bits for a fraction: adding rounds it, halves to the even one
    away = ew.where(ew.less(wide, 0.0), -unit, unit)
    whole = ew.sub(ew.add(wide, away), away)
    return _where_fractional(x, cast(_signed_zero(whole, wide), x.dtype))


def _signed_zero(value: Node, x: Node) -> Node:
    """`value`, with the sign of x made that of a zero."""
    return ew.where(ew.equal(value, 0.0), ew.mul(x, 0.0), value)


# ---- activations ---------------------------------------------------------------------------------

def relu(x: Node) -> Node:
    """max(x, 0); NaN stays. The gradient at 0 is 0, and is decided by the output alone."""
    zero = const(0, x.dtype, x.shape)
    value = elementwise(Op.MAX, x, zero)
    return with_gradient(value, (x,), _relu_gradient) if x.dtype.is_float else value


def _relu_gradient(g: Node, node: Node) -> tuple[Node]:
    zero = const(0, g.dtype, g.shape)
    chosen = elementwise(Op.WHERE, elementwise(Op.CMPLT, zero, node), g, zero)
    return (flat_in(node.src[1], chosen),)


def sigmoid(x: Node) -> Node:
    """1 / (1 + e ** -x), from e ** -|x|, which neither overflows nor loses digits."""
    x = as_float(x)
    negative = ew.less(x, 0.0)
    small = exp(ew.where(negative, x, ew.negative(x)))
    rest = ew.true_divide(small, ew.add(small, 1.0))
    below = ew.sub(small, ew.mul(small, rest))  # `rest` itself, rounded once less
    value = ew.where(negative, below, ew.sub(1.0, rest))
    return with_gradient(value, (x,), _sigmoid_gradient)


def _sigmoid_gradient(g: Node, node: Node) -> tuple[Node]:
    return (ew.mul(g, ew.mul(node, ew.sub(1.0, node))),)


def logistic(x: Node) -> Node:
    """sigmoid(x) as a slope: its own gradients keep their digits where it is near 1."""
    return with_gradient(sigmoid(x), (x,), _logistic_gradient)


def _logistic_gradient(g: Node, node: Node) -> tuple[Node]:
    x = node.src[1]
    return (ew.mul(g, ew.mul(logistic(x), logistic(ew.negative(x)))),)


_TANH_P = (-9.64399179425052238628e-1, -9.92877231001918586564e1, -1.61468768441708447952e3)
_TANH_Q = (1.0, 1.12811678491632931402e2, 2.23548839060100448583e3, 4.84406305325125486048e3)
# (tanh(x) / x - 1) / x**2 of x**2 for |x| < 0.625, fitted with mpmath (`chebyfit`), to 2**-26.2
_TANH_NEAR = (0.002292744815349579, -0.008343945257365704, 0.02176891826093197,
              -0.053959257900714874, 0.13333304226398468, -0.3333333432674408)


def tanh(x: Node) -> Node:
    """The hyperbolic tangent: near 0 a polynomial of x**2, in float64 a rational function (S.
    Moshier's Cephes), else 1 - 2 / (e ** 2|x| + 1)."""
    x = as_float(x)
    negative, size = split_sign(x)
    small = ew.less(size, 0.625)
    squared = square(ew.where(small, x, 0.625))
    if x.dtype is dt.float32:
        curve = polynomial(squared, _TANH_NEAR)
    else:
        curve = ew.true_divide(polynomial(squared, _TANH_P), polynomial(squared, _TANH_Q))
    near = elementwise(Op.MULACC, x, ew.mul(squared, curve), x)
    near = ew.where(ew.not_equal(x, 0.0), near, x)  # the sum would make 0.0 of -0.0
    far = ew.sub(1.0, ew.true_divide(2.0, ew.add(exp(ew.mul(size, 2.0)), 1.0)))
    value = ew.where(small, near, ew.where(negative, ew.negative(far), far))
    return with_gradient(value, (x,), _tanh_gradient)


def split_sign(x: Node) -> tuple[Node, Node]:
    """Whether a float is below 0, and how large it is; -0.0 is not, and stays what it is."""
    negative = ew.less(x, 0.0)
    return negative, ew.where(negative, ew.negative(x), x)


def _tanh_gradient(g: Node, node: Node) -> tuple[Node]:
    return (ew.mul(g, ew.sub(1.0, square(node))),)


def polynomial(x: Node, coefficients: Sequence[float]) -> Node:
    """Horner's rule, the highest power first."""
    total = const(coefficients[0], x.dtype, x.shape)
    for c in coefficients[1:]:
        total = elementwise(Op.MULACC, total, x, const(c, x.dtype, x.shape))
    return total


def _split_polynomial(x: Node, coefficients: Sequence[float]) -> Node:
    """An odd number of terms as two polynomials of x**2, which processors compute side by side:
    half as many steps wait for each other as in Horner's rule."""
    squared = square(x)
    odd = polynomial(squared, coefficients[1::2])
    return elementwise(Op.MULACC, odd, x, polynomial(squared, coefficients[::2]))


# Rational approximations of W. J. Cody, Math. Comp. 23 (1969), highest power first.
# _ERF_P is his less _ERF_Q: what erf(x) is more than x loses nothing to the rounding of a product.
_ERF_P = (-0.8142222938153968, -20.440167208473554, -130.16048378339403, -905.1312883920702,
          365.14075569929884)
_ERF_Q = (1.0, 2.36012909523441209e1, 2.44024637934444173e2, 1.28261652607737228e3,
          2.84423683343917062e3)
ERFC_P = (2.15311535474403846e-8, 5.64188496988670089e-1, 8.88314979438837594,
          6.61191906371416295e1, 2.98635138197400131e2, 8.81952221241769090e2,
          1.71204761263407058e3, 2.05107837782607147e3, 1.23033935479799725e3)
ERFC_Q = (1.0, 1.57449261107098347e1, 1.17693950891312499e2, 5.37181101862009858e2,
          1.62138957456669019e3, 3.29079923573345963e3, 4.36261909014324716e3,
          3.43936767414372164e3, 1.23033935480374942e3)


# Polynomials for float32, highest power first, fitted with mpmath (`chebyfit`): erf(t) / t - 1 of
# t**2 for t < 0.95, to 2**-30.5; log(erfc(t)) of t in [0.95, 4], where erfc(t) < 2**-2.4, to
# 2**-25.7.
_ERF_NEAR = (8.204169716918841e-05, -0.0008102915599010885, 0.005197487305849791,
             -0.026857959106564522, 0.11283669620752335, -0.37612631916999817, 0.12837916612625122)
_LOG_ERFC = (1.6426789670731523e-06, -4.616478690877557e-05, 0.0005976772517897189,
             -0.00476350961253047, 0.026431642472743988, -0.1100972443819046, -0.6318095326423645,
             -1.130241870880127, 0.00032186624594032764)


def erf(x: Node) -> Node:
    """The error function, 2/sqrt(pi) times the integral of e ** -t**2 from 0 to x."""
    x = as_float(x)
    value = _erf64(x) if x.dtype is dt.float64 else _erf32(x)
    return with_gradient(value, (x,), _erf_gradient)


def _erf32(x: Node) -> Node:
    """In float32: without a division, and with half the terms that float64 needs."""
    size = ew.clip(split_sign(x)[1], None, 4.0)  # where erf is 1 in float32
    near = elementwise(Op.MULACC, x, _split_polynomial(square(size), _ERF_NEAR), x)
    return _erf_of_parts(x, near, size, exp(_split_polynomial(size, _LOG_ERFC)), 0.95)


def _erf64(x: Node) -> Node:
    squared = square(ew.clip(x, -0.5, 0.5))
    ratio = ew.true_divide(polynomial(squared, _ERF_P), polynomial(squared, _ERF_Q))
    near = elementwise(Op.MULACC, x, ratio, x)
    size = ew.minimum(ew.absolute(x), 6.0)  # where erf is 1 in float64
    tail = ew.true_divide(polynomial(size, ERFC_P), polynomial(size, ERFC_Q))
    return _erf_of_parts(x, near, size, ew.mul(exp(ew.negative(square(size))), tail), 0.5)


def _erf_of_parts(x: Node, near: Node, size: Node, rest: Node, limit: float) -> Node:
    """`near` for a `size` of x below `limit`, else 1 - rest with the sign of x."""
    far = ew.sub(1.0, rest)
    signed = ew.where(ew.less(x, 0.0), ew.negative(far), far)
    return ew.where(ew.less(size, limit), near, signed)


def _erf_gradient(g: Node, node: Node) -> tuple[Node]:
    slope = ew.mul(exp(ew.negative(square(node.src[1]))), 2 / math.sqrt(math.pi))
    return (ew.mul(g, slope),)


def silu(x: Node) -> Node:
    """x * sigmoid(x), also called swish."""
    x = as_float(x)
    return ew.mul(x, sigmoid(x))


def gelu(x: Node, tanh_approximation: bool = False) -> Node:
    """x times the normal distribution function at x; with `tanh_approximation` Hendrycks and
    Gimpel's formula for it."""
    x = as_float(x)
    if tanh_approximation:
        cubic = ew.mul(ew.mul(x, square(x)), 0.044715)
        inner = tanh(ew.mul(ew.add(x, cubic), math.sqrt(2 / math.pi)))
    else:
        inner = erf(ew.mul(x, math.sqrt(0.5)))
    return ew.mul(ew.mul(x, 0.5), ew.add(inner, 1.0))


def softplus(x: Node) -> Node:
    """log(1 + e ** x), safe for large x."""
    x = as_float(x)
    value = ew.add(ew.maximum(x, 0.0), log1p(exp(ew.negative(ew.absolute(x)))))
    return with_gradient(value, (x,), _softplus_gradient)


def _softplus_gradient(g: Node, node: Node) -> tuple[Node]:
    """The formula has a kink at 0, whose second derivative is 0; softplus has none."""
    return (ew.mul(g, logistic(node.src[1])),)


def logsigmoid(x: Node) -> Node:
    """log(sigmoid(x)), safe for any x."""
    x = as_float(x)
    value = ew.sub(ew.minimum(x, 0.0), log1p(exp(ew.negative(ew.absolute(x)))))
    return with_gradient(value, (x,), _logsigmoid_gradient)


def _logsigmoid_gradient(g: Node, node: Node) -> tuple[Node]:
    return (ew.mul(g, logistic(ew.negative(node.src[1]))),)


def leaky_relu(x: Node, slope: float) -> Node:
    """x where positive, slope * x elsewhere."""
    x = as_float(x)
    return with_gradient(ew.where(ew.greater(x, 0.0), x, ew.mul(x, slope)), (x,), _Leaky(slope))


@dataclass(frozen=True, slots=True)
class _Leaky(OfOperands):
    """leaky_relu's gradient."""

    slope: Operand

    def __call__(self, g: Node, node: Node) -> tuple[Node]:
        x = node.src[1]
        return (flat_in(x, ew.where(ew.greater(x, 0.0), g, ew.mul(g, self.slope))),)


def elu(x: Node, alpha: float) -> Node:
    """x where positive, alpha * (e ** x - 1) elsewhere."""
    x = as_float(x)
    return ew.where(ew.greater(x, 0.0), x, ew.mul(expm1(ew.clip(x, None, 0.0)), alpha))


def hardshrink(x: Node, limit: float) -> Node:
    """x, but 0 where |x| <= limit."""
    return _with_outside(ew.where(_within(x, -limit, limit), const(0, x.dtype), x), x, limit)


def softshrink(x: Node, limit: float) -> Node:
    """x moved towards 0 by limit, and 0 where |x| <= limit."""
    x = as_float(x)
    below = ew.where(ew.less(x, -limit), ew.add(x, limit), ew.mul(x, 0.0))
    return _with_outside(ew.where(ew.greater(x, limit), ew.sub(x, limit), below), x, limit)


def _within(x: Node, low: Operand, high: Operand) -> Node:
    """Where low <= x <= high."""
    return ew.bitwise_and(ew.greater_equal(x, low), ew.less_equal(x, high))


def _with_outside(value: Node, x: Node, limit: float) -> Node:
    return with_gradient(value, (x,), _Outside(-limit, limit)) if value.dtype.is_float else value


@dataclass(frozen=True, slots=True)
class _Outside(OfOperands):
    """The gradient of what is 0 where low <= x <= high, and moves with x elsewhere."""

    low: Operand
    high: Operand

    def __call__(self, g: Node, node: Node) -> tuple[Node]:
        x = node.src[1]
        return (flat_in(x, ew.where(_within(x, self.low, self.high), 0.0, g)),)
