"""Small functions made of others, elementwise: scaled sums, interpolation, comparisons with
tolerance.

In and out: GRAPH nodes and numbers, promoted and broadcast as everywhere.
"""
from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from lazyten.ir import dtype as dt
from lazyten.ir import ops
from lazyten.ir.dtype import DType, Scalar
from lazyten.ir.node import GradientRule, Node, cast, const
from lazyten.operators.math import elementwise as ew
from lazyten.operators.math import reductions, shapes, special
from lazyten.operators.math.elementwise import Operand
from lazyten.operators.math.gradients import with_gradient
from lazyten.support.errors import ArgumentError, DTypeError, EmptyAxisError


def scaled_sum(a: Operand, b: Operand, alpha: Scalar) -> Node:
    """a + alpha * b, computed in the type of the result."""
    return _scaled("add", ew.add, a, b, alpha)


def scaled_difference(a: Operand, b: Operand, alpha: Scalar) -> Node:
    """a - alpha * b, computed in the type of the result."""
    return _scaled("sub", difference, a, b, alpha)


def difference(a: Operand, b: Operand) -> Node:
    """a - b of what users give: DTypeError for bools."""
    if any(x.dtype is dt.bool_ if isinstance(x, Node) else isinstance(x, bool) for x in (a, b)):
        raise DTypeError("sub of bools: they have no difference; ~x turns a mask, and x.long() "
                         "makes numbers of one")
    return ew.sub(a, b)


def _scaled(operation: str, combine: Callable[[Operand, Operand], Node], a: Operand, b: Operand,
            alpha: Scalar) -> Node:
    kind = ew.result_type([a, b], operation)
    if not kind.is_float and (isinstance(alpha, float)
                              or isinstance(alpha, bool) and kind is not dt.bool_):
        raise DTypeError(f"{operation} of {kind.name}: alpha={alpha!r} is of another kind; give a "
                         f"whole number, or convert with .float()")
    if alpha == 1:
        return combine(a, b)
    if kind is dt.bool_:
        alpha = bool(alpha)
    return ew.together(operation, lambda x, y, factor: combine(x, ew.mul(y, factor)), a, b, alpha)


def lerp(start: Node, end: Operand, weight: Operand) -> Node:
    """start + weight * (end - start), exact at weight 0 and 1; floats only."""
    if not start.dtype.is_float:
        raise DTypeError(f"lerp of {start.dtype.name}: it is for floats; convert with .float()")
    ew.of_one_type("lerp", start, end, *[w for w in [weight] if isinstance(w, Node) and w.shape])
    if not isinstance(weight, Node):
        near = abs(weight) < 0.5
        return ew.together("lerp", lambda a, b: _from_start(a, b, weight) if near else
                           _from_end(a, b, 1.0 - weight), start, end)
    return ew.together("lerp", _lerp, start, end, weight)


def _from_start(a: Node, b: Node, weight: Operand) -> Node:
    return ew.add(a, ew.mul(ew.sub(b, a), weight))


def _from_end(a: Node, b: Node, rest: Operand) -> Node:
    return ew.sub(b, ew.mul(ew.sub(b, a), rest))


def _lerp(start: Node, end: Node, weight: Node) -> Node:
    shape = ew.common_shape([start, end, weight], "lerp")
    start, end, weight = (ew.broadcast_to(x, shape) for x in (start, end, weight))
    value = ew.where(ew.less(ew.absolute(weight), 0.5), _from_start(start, end, weight),
                     _from_end(start, end, ew.sub(1.0, weight)))
    return with_gradient(value, (start, end, weight), _lerp_gradient)


def _lerp_gradient(g: Node, node: Node) -> tuple[Node, Node, Node]:
    _, start, end, weight = node.src
    return (ew.mul(g, ew.sub(1.0, weight)), ew.mul(g, weight), ew.mul(g, ew.sub(end, start)))


def addcmul(x: Node, a: Operand, b: Operand, value: Scalar) -> Node:
    """x + value * a * b, from left to right, computed in the type of the result, which value has no
    say in. DTypeError for integers with a fraction."""
    if isinstance(value, float) and not ew.result_type([x, a, b]).is_float:
        if not value.is_integer():
            raise DTypeError(f"addcmul of integers with value={value}: they need a whole number; "
                             f"convert one of them with .float()")
        value = int(value)
    if value == 1:
        return ew.together("addcmul", lambda base, u, v: ew.add(base, ew.mul(u, v)), x, a, b)
    return ew.together("addcmul", lambda base, u, v, factor: ew.add(
        base, ew.mul(ew.mul(u, factor), v)), x, a, b, value)


def addcdiv(x: Node, a: Operand, b: Operand, value: Scalar) -> Node:
    """x + value * a / b, computed in the type of the result. DTypeError for integers a and b: is
    their quotient a float?"""
    if not ew.result_type([a, b]).is_float:
        raise DTypeError("addcdiv of integers: their quotient is a float; convert one of them with "
                         ".float()")
    if value == 1:
        return ew.together("addcdiv", lambda base, u, v: ew.add(base, ew.true_divide(u, v)),
                           x, a, b)
    return ew.together("addcdiv", lambda base, u, v, factor: ew.add(
        base, ew.true_divide(ew.mul(u, factor), v)), x, a, b, value)


def nan_to_num(x: Node, nan: Scalar, high: Scalar | None, low: Scalar | None) -> Node:
    """NaN, infinity and -infinity replaced; None is the greatest (least) finite number."""
    if not x.dtype.is_float:
        return x
    number, high, low = [v if v is None else shapes.as_number(v, "nan_to_num", "a replacement")
                         for v in (nan, high, low)]
    most = largest(x.dtype)
    x = ew.where(ew.not_equal(x, x), ew.as_node(number or 0.0, x.dtype, ()), x)
    high, low = most if high is None else high, -most if low is None else low
    x = ew.where(ew.equal(x, math.inf), ew.as_node(high, x.dtype, ()), x)
    return ew.where(ew.equal(x, -math.inf), ew.as_node(low, x.dtype, ()), x)


def largest(dtype: DType) -> float:
    """The greatest finite number of a float type."""
    pattern = {"float8_e4m3fn": 0x7E, "float8_e5m2": 0x7B, "float16": 0x7BFF,
               "bfloat16": 0x7F7F}.get(dtype.name)
    if pattern is not None:
        bits = np.array([pattern], f"uint{dtype.bits}")
        return float(ops.decode(bits.view(dtype.numpy), dtype)[0])
    return float(np.finfo(dtype.numpy.name).max)


def isclose(a: Node, b: Node, rtol: float, atol: float, equal_nan: bool) -> Node:
    """|a - b| <= atol + rtol * |b|, or equal, or both NaN where `equal_nan`."""
    rtol, atol = (shapes.as_number(x, "isclose", what) for x, what in (
        (rtol, "rtol"), (atol, "atol")))
    if min(rtol, atol) < 0:
        raise ArgumentError(f"isclose: rtol={rtol!r} and atol={atol!r} are distances; give 0 or "
                            f"more")
    if a.dtype is not b.dtype:
        raise DTypeError(f"isclose of {a.dtype.name} and {b.dtype.name}: both must have one dtype; "
                         f"convert one")
    same = ew.equal(a, b)
    if not a.dtype.is_float and rtol == 0 and atol == 0:
        return same
    if equal_nan and a.dtype.is_float:
        same = ew.bitwise_or(same, ew.bitwise_and(ew.not_equal(a, a), ew.not_equal(b, b)))
    x, y = (cast(v, dt.float64) if not v.dtype.is_float else v for v in (a, b))
    gap = ew.absolute(ew.sub(x, y))
    near = ew.less_equal(gap, ew.add(ew.mul(ew.absolute(y), rtol), atol))
    return ew.bitwise_or(same, ew.bitwise_and(near, ew.less(gap, math.inf)))


def frac(x: Node) -> Node:
    """x - trunc(x): the sign of x."""
    return ew.sub(x, special.trunc(x))


def sinc(x: Node) -> Node:
    """sin(pi x) / (pi x), and 1 at 0."""
    x = ew.as_float(x)
    angle = ew.mul(x, math.pi)
    none = ew.equal(angle, 0.0)
    safe = ew.where(none, const(1.0, x.dtype), angle)
    value = ew.where(none, const(1.0, x.dtype), ew.true_divide(special.sin(safe), safe))
    return with_gradient(value, (x,), _sinc_gradient)


SINC_SLOPE = (1 / 3991680, -1 / 45360, 1 / 840, -1 / 30, 1 / 3)
"""(sin t - t cos t) / t**3 as a polynomial of t**2, highest power first."""


def _sinc_gradient(g: Node, node: Node) -> tuple[Node]:
    """pi (cos t - sin(t) / t) / t with t = pi x; near 0, where that cancels, its power series."""
    angle = ew.mul(node.src[1], math.pi)
    near = ew.less(ew.absolute(angle), 0.5)
    small, large = ew.where(near, angle, 0.0), ew.where(near, const(1.0, angle.dtype), angle)
    series = ew.mul(special.polynomial(ew.mul(small, small), SINC_SLOPE), ew.negative(small))
    formula = ew.true_divide(ew.sub(special.cos(large), ew.true_divide(special.sin(large), large)),
                             large)
    return (ew.mul(g, ew.mul(ew.where(near, series, formula), math.pi)),)


def logit(x: Node) -> Node:
    """log(x / (1 - x)), the inverse of sigmoid."""
    x = ew.as_float(x)
    return with_gradient(ew.sub(special.log(x), special.log1p(ew.negative(x))), (x,),
                         _logit_gradient)


def _logit_gradient(g: Node, node: Node) -> tuple[Node]:
    """1 / (x (1 - x)), but NaN where logit is NaN."""
    x = node.src[1]
    inside = ew.bitwise_and(ew.greater_equal(x, 0.0), ew.less_equal(x, 1.0))
    return (ew.where(inside, ew.true_divide(g, ew.mul(x, ew.sub(1.0, x))), math.nan),)


def degrees(x: Node) -> Node:
    """Radians in degrees."""
    return ew.mul(ew.as_float(x), 180 / math.pi)


def radians(x: Node) -> Node:
    """Degrees in radians."""
    return ew.mul(ew.as_float(x), math.pi / 180)


def heaviside(x: Node, at_zero: Operand) -> Node:
    """0 below 0 and for NaN, 1 above, `at_zero` at 0."""
    ew.of_one_type("heaviside", x, at_zero)
    step = cast(ew.greater(x, 0), x.dtype)
    return ew.where(ew.equal(x, 0), at_zero, step)


def fmax(a: Operand, b: Operand) -> Node:
    """The greater; of a NaN and a number, the number. Of equal ones the first has the gradient."""
    return _without_nan(a, b, ew.maximum(a, b), _greater_gradient)


def fmin(a: Operand, b: Operand) -> Node:
    """The lesser; of a NaN and a number, the number. Of equal ones the first has the gradient."""
    return _without_nan(a, b, ew.minimum(a, b), _lesser_gradient)


def _without_nan(a: Operand, b: Operand, value: Node, rule: GradientRule) -> Node:
    if not value.dtype.is_float:
        return value
    first, second = (ew.as_node(x, value.dtype, value.shape) for x in (a, b))
    value = ew.where(ew.not_equal(first, first), second, value)
    value = ew.where(ew.not_equal(second, second), first, value)
    return with_gradient(value, (first, second), rule)


def _greater_gradient(g: Node, node: Node) -> tuple[Node, Node]:
    _, a, b = node.src
    return _one_of_two(g, ew.bitwise_or(ew.greater_equal(a, b), ew.not_equal(b, b)))


def _lesser_gradient(g: Node, node: Node) -> tuple[Node, Node]:
    _, a, b = node.src
    return _one_of_two(g, ew.bitwise_or(ew.less_equal(a, b), ew.not_equal(b, b)))


def _one_of_two(g: Node, first: Node) -> tuple[Node, Node]:
    return ew.where(first, g, 0.0), ew.where(first, 0.0, g)


def rounded_quotient(a: Node, b: Operand, mode: str | None) -> Node:
    """a / b; mode 'floor' and 'trunc' round it, and keep integers."""
    if mode is None:
        return ew.true_divide(a, b)
    if mode == "floor":
        return _flat_quotient(ew.floor_divide(a, b), a, b)
    if ew.result_type([a, b]).is_float:
        return _flat_quotient(ew.together(
            "div", lambda x, y: special.trunc(ew.true_divide(x, y)), a, b), a, b)
    down, rest = ew.floor_divide(a, b), ew.remainder(a, b)
    left, right = (ew.as_node(x, down.dtype, down.shape) for x in (a, b))
    inexact = ew.bitwise_and(ew.not_equal(rest, 0), ew.not_equal(ew.less(left, 0),
                                                                ew.less(right, 0)))
    return ew.add(down, cast(inexact, down.dtype))


def _flat_quotient(value: Node, a: Node, b: Operand) -> Node:
    """A rounded quotient: its gradient is 0, also where the quotient's is infinite."""
    if not value.dtype.is_float:
        return value
    inputs = tuple(ew.as_node(x, value.dtype, value.shape) for x in (a, b))
    return with_gradient(value, inputs, _no_slopes)


def _no_slopes(g: Node, node: Node) -> tuple[Node, ...]:
    return (const(0.0, g.dtype, g.shape),) * (len(node.src) - 1)


def float_power(x: Operand, exponent: Operand) -> Node:
    """x ** exponent in float64."""
    shape = ew.common_shape([x, exponent], "float_power")
    exponent = exponent if isinstance(exponent, Node) else ew.exponent(exponent)
    return ew.power(ew.as_node(x, dt.float64, shape), ew.as_node(exponent, dt.float64, shape))


def norm(x: Node, p: float, axes: tuple[int, ...], keepdim: bool = False) -> Node:
    """The p-norm over `axes`; its gradient at 0 is 0. Floats only. Powers are of float64, in which
    they neither overflow nor vanish for narrower floats."""
    if not x.dtype.is_float:
        raise DTypeError(f"norm of {x.dtype.name}: a norm is a float; convert first with .float()")
    if p < 0 and reductions.count(x.shape, axes) == 0:
        raise EmptyAxisError(f"norm of shape {x.shape} with p={p}: there are no elements, and "
                             f"their norm would be infinite; check the size first")
    wide = ew.wide(x) if p in (0.0, 1.0) or math.isinf(p) else cast(x, dt.float64)
    return cast(_wide_norm(wide, p, axes, keepdim), x.dtype)


def _wide_norm(x: Node, p: float, axes: tuple[int, ...], keepdim: bool) -> Node:
    size = ew.absolute(x)
    if math.isinf(p):
        extreme = reductions.amax if p > 0 else reductions.amin
        return extreme(size, axes, keepdim)
    if p == 0:
        return cast(reductions.sum(ew.not_equal(size, 0.0), axes, keepdim), size.dtype)
    if p == 1:
        return reductions.sum(size, axes, keepdim)
    power = special.square(x) if p == 2 else _power_of_size(size, p)
    total = reductions.sum(power, axes, keepdim)
    none = ew.equal(total, 0.0)
    some = ew.where(none, const(1.0, total.dtype), total)
    root = special.sqrt(some) if p == 2 else ew.power(some, 1 / p)
    return ew.where(none, ew.power(total, 1 / p) if p < 0 else total, root)


def _power_of_size(size: Node, p: float) -> Node:
    """size ** p, whose gradient at 0 is 0."""
    none = ew.equal(size, 0.0)
    at_0 = const(0.0 if p > 0 else math.inf, size.dtype)
    return ew.where(none, at_0, ew.power(ew.where(none, const(1.0, size.dtype), size), p))


def exact(x: Node) -> Node:
    """x itself; integers and bools in int64, so that a difference or a sum of narrower ones, which
    a float is made of then, does not wrap."""
    return cast(x, dt.int64) if x.dtype.is_int or x.dtype is dt.bool_ else x


def distance(a: Operand, b: Operand, p: float) -> Node:
    """The p-norm of all elements of a - b, computed in float32 or wider."""
    gap = ew.as_float(ew.sub(*[exact(x) if isinstance(x, Node) else x for x in (a, b)]))
    return norm(gap, p, tuple(range(len(gap.shape))))
