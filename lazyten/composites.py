"""Small functions made of others, elementwise: interpolation, limits, comparisons with tolerance.

In and out: GRAPH nodes and numbers, promoted and broadcast as everywhere.
"""
from __future__ import annotations

import math

import numpy as np

from lazyten import dtype as dt
from lazyten import elementwise as ew
from lazyten import ops, reductions, special
from lazyten.dtype import DType, Scalar
from lazyten.elementwise import Operand
from lazyten.errors import DTypeError
from lazyten.node import Node, cast, const


def lerp(start: Node, end: Operand, weight: Operand) -> Node:
    """start + weight * (end - start), exact at weight 0 and 1; floats only."""
    if not start.dtype.is_float:
        raise DTypeError(f"lerp of {start.dtype.name}: it is for floats; convert with .float()")
    span = ew.sub(end, start)
    near = ew.add(start, ew.mul(span, weight))
    far = ew.sub(end, ew.mul(span, ew.sub(1.0, weight) if isinstance(weight, Node)
                             else 1.0 - weight))
    if not isinstance(weight, Node):
        return near if abs(weight) < 0.5 else far
    return ew.where(ew.less(ew.absolute(weight), 0.5), near, far)


def addcmul(x: Node, a: Operand, b: Operand, value: Scalar) -> Node:
    """x + value * a * b."""
    product = ew.mul(a, b)
    return ew.add(x, product if value == 1 else ew.mul(product, value))


def addcdiv(x: Node, a: Operand, b: Operand, value: Scalar) -> Node:
    """x + value * a / b; floats only."""
    quotient = ew.true_divide(a if value == 1 else ew.mul(a, value), b)
    return ew.add(x, quotient)


def nan_to_num(x: Node, nan: Scalar, high: Scalar | None, low: Scalar | None) -> Node:
    """NaN, infinity and -infinity replaced; None is the greatest (least) finite number."""
    if not x.dtype.is_float:
        return x
    most = largest(x.dtype)
    x = ew.where(ew.not_equal(x, x), const(float(nan), x.dtype), x)
    x = ew.where(ew.equal(x, math.inf), const(float(most if high is None else high), x.dtype), x)
    return ew.where(ew.equal(x, -math.inf), const(float(-most if low is None else low), x.dtype), x)


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
    safe = ew.where(ew.equal(x, 0.0), const(1.0, x.dtype), angle)
    return ew.where(ew.equal(x, 0.0), const(1.0, x.dtype), ew.true_divide(special.sin(safe), safe))


def logit(x: Node) -> Node:
    """log(x / (1 - x)), the inverse of sigmoid."""
    x = ew.as_float(x)
    return ew.sub(special.log(x), special.log1p(ew.negative(x)))


def degrees(x: Node) -> Node:
    """Radians in degrees."""
    return ew.mul(ew.as_float(x), 180 / math.pi)


def radians(x: Node) -> Node:
    """Degrees in radians."""
    return ew.mul(ew.as_float(x), math.pi / 180)


def heaviside(x: Node, at_zero: Operand) -> Node:
    """0 below 0 and for NaN, 1 above, `at_zero` at 0."""
    step = cast(ew.greater(x, 0), x.dtype)
    return ew.where(ew.equal(x, 0), at_zero, step)


def fmax(a: Operand, b: Operand) -> Node:
    """The greater; of a NaN and a number, the number."""
    top = ew.maximum(a, b)
    return _without_nan(a, b, top)


def fmin(a: Operand, b: Operand) -> Node:
    """The lesser; of a NaN and a number, the number."""
    return _without_nan(a, b, ew.minimum(a, b))


def _without_nan(a: Operand, b: Operand, value: Node) -> Node:
    if not value.dtype.is_float:
        return value
    first, second = (ew.as_node(x, value.dtype, value.shape) for x in (a, b))
    value = ew.where(ew.not_equal(first, first), second, value)
    return ew.where(ew.not_equal(second, second), first, value)


def rounded_quotient(a: Node, b: Operand, mode: str | None) -> Node:
    """a / b; mode 'floor' and 'trunc' round it, and keep integers."""
    if mode is None:
        return ew.true_divide(a, b)
    if mode == "floor":
        return ew.floor_divide(a, b)
    if ew.result_type([a, b]).is_float:
        return special.trunc(ew.true_divide(a, b))
    down, rest = ew.floor_divide(a, b), ew.remainder(a, b)
    left, right = (ew.as_node(x, down.dtype, down.shape) for x in (a, b))
    inexact = ew.bitwise_and(ew.not_equal(rest, 0), ew.not_equal(ew.less(left, 0),
                                                                ew.less(right, 0)))
    return ew.add(down, cast(inexact, down.dtype))


def ldexp(x: Operand, exponent: Operand) -> Node:
    """x * 2 ** exponent, in floats."""
    kind = ew.result_type([x, exponent])
    kind = kind if kind.is_float else dt.default_float
    shape = ew.common_shape([x, exponent], "ldexp")
    return ew.mul(ew.as_node(x, kind, shape), special.exp2(ew.as_node(exponent, kind, shape)))


def float_power(x: Operand, exponent: Operand) -> Node:
    """x ** exponent in float64."""
    shape = ew.common_shape([x, exponent], "float_power")
    return ew.power(ew.as_node(x, dt.float64, shape), ew.as_node(exponent, dt.float64, shape))


def norm(x: Node, p: float, axes: tuple[int, ...], keepdim: bool = False) -> Node:
    """The p-norm over `axes`; its gradient at 0 is 0. Floats only."""
    if not x.dtype.is_float:
        raise DTypeError(f"norm of {x.dtype.name}: a norm is a float; convert first with .float()")
    return cast(_wide_norm(ew.wide(x), p, axes, keepdim), x.dtype)


def _wide_norm(x: Node, p: float, axes: tuple[int, ...], keepdim: bool) -> Node:
    size = ew.absolute(x)
    if math.isinf(p):
        extreme = reductions.amax if p > 0 else reductions.amin
        return extreme(size, axes, keepdim)
    if p == 0:
        return cast(reductions.sum(ew.not_equal(size, 0.0), axes, keepdim), size.dtype)
    if p == 1:
        return reductions.sum(size, axes, keepdim)
    power = special.square(x) if p == 2 else ew.power(size, p)
    total = reductions.sum(power, axes, keepdim)
    none = ew.equal(total, 0.0)
    some = ew.where(none, const(1.0, total.dtype), total)
    root = special.sqrt(some) if p == 2 else ew.power(some, 1 / p)
    return ew.where(none, ew.power(total, 1 / p) if p < 0 else total, root)


def distance(a: Operand, b: Operand, p: float) -> Node:
    """The p-norm of all elements of a - b, computed in float32 or wider."""
    gap = ew.as_float(ew.sub(a, b))
    return norm(gap, p, tuple(range(len(gap.shape))))
