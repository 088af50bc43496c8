"""Hurwitz's zeta function, and the derivatives of digamma, as graphs of ops.

In and out: GRAPH nodes. All are computed in float64 and rounded once.
"""
from __future__ import annotations

import math
from dataclasses import dataclass

from lazyten.ir import dtype as dt
from lazyten.ir.node import Node, cast, const
from lazyten.operators.math import elementwise as ew
from lazyten.operators.math import special
from lazyten.operators.math.elementwise import Operand
from lazyten.operators.math.gradients import with_gradient
from lazyten.operators.math.statistical_functions import digamma, in_float64, trigamma

_BERNOULLI = (1 / 6, -1 / 30, 1 / 42, -1 / 30, 5 / 66, -691 / 2730, 7 / 6, -3617 / 510,
              43867 / 798, -174611 / 330)
"""B2, B4, ..: the terms of Euler and Maclaurin's formula."""
_DIRECT = 12
"""So many terms are added one by one before it."""
_STEEP = 3.0
"""From an exponent of so many times the next term's base on, these terms are all that counts: what
follows is below exp(-_STEEP * _DIRECT) of the first. Below it the formula's terms fall."""


def zeta(x: Operand, q: Operand) -> Node:
    """The sum of (q + k) ** -x over k = 0, 1, ..: infinite for x = 1 and for q = 0, -1, .., NaN
    for x below 1, and for q below 0 unless x is whole."""
    kind = ew.result_type([x, q])
    kind = kind if kind.is_float else dt.default_float
    shape = ew.common_shape([x, q], "zeta")
    wide = [cast(ew.as_node(v, kind, shape), dt.float64) for v in (x, q)]
    return cast(_zeta(*wide), kind)


def _zeta(x: Node, q: Node) -> Node:
    below = ew.less_equal(q, 0.0)
    rest, above = ew.sub(q, special.floor(q)), ew.negative(q)
    pole = ew.bitwise_and(below, ew.equal(rest, 0.0))
    turned = ew.bitwise_and(below, ew.invert(pole))
    first = _positive_zeta(x, ew.where(turned, rest, ew.where(pole, 1.0, q)))
    # the terms of q below 0, from those of numbers above: sums that differ by where they begin
    nearest = ew.sub(above, special.floor(above))  # exact, as 1 - rest is not
    lower = ew.sub(_positive_zeta(x, ew.where(turned, nearest, 1.0)),
                   _positive_zeta(x, ew.where(below, ew.add(above, 1.0), 2.0)))
    odd = ew.not_equal(ew.remainder(x, 2.0), 0.0)
    value = ew.where(below, ew.add(first, ew.where(odd, ew.negative(lower), lower)), first)
    whole = ew.equal(x, special.floor(x))
    value = ew.where(ew.bitwise_and(below, ew.invert(whole)), math.nan, value)
    value = ew.where(pole, math.inf, value)
    return ew.where(ew.equal(x, 1.0), math.inf, ew.where(ew.less(x, 1.0), math.nan, value))


def _positive_zeta(x: Node, q: Node) -> Node:
    """Of q above 0."""
    down = ew.negative(x)
    total = ew.power(q, down)
    for k in range(1, _DIRECT):
        total = ew.add(total, ew.power(ew.add(q, float(k)), down))
    a = ew.add(q, float(_DIRECT))
    steep = ew.mul(a, _STEEP)
    held = ew.clip(x, 1.0 + 2.0**-40, steep)
    power = ew.power(a, ew.negative(held))
    integral = ew.true_divide(ew.power(a, ew.sub(1.0, held)), ew.sub(held, 1.0))
    tail = ew.add(integral, ew.mul(power, 0.5))
    factor, step = ew.true_divide(ew.mul(power, held), a), ew.mul(a, a)
    for j, b in enumerate(_BERNOULLI, 1):
        tail = ew.add(tail, ew.mul(factor, b / math.factorial(2 * j)))
        rising = ew.mul(ew.add(held, 2.0 * j - 1), ew.add(held, 2.0 * j))
        factor = ew.true_divide(ew.mul(factor, rising), step)
    return ew.where(ew.less(x, steep), ew.add(total, tail), total)


def polygamma(n: int, x: Node) -> Node:
    """The n-th derivative of digamma: (-1) ** (n + 1) n! zeta(n + 1, x)."""
    if n < 2:
        return _first(x) if n else digamma(x)
    return in_float64(lambda v: _polygamma(n, v), _NextPolygamma(n), x)


def _first(x: Node) -> Node:
    value = trigamma(x)
    return with_gradient(value, (ew.as_float(x),), _NextPolygamma(1))


def _polygamma(n: int, x: Node) -> Node:
    sign = -1.0 if n % 2 == 0 else 1.0
    order = const(n + 1.0, x.dtype, x.shape)
    return ew.mul(_zeta(order, x), sign * math.gamma(n + 1))


@dataclass(frozen=True, slots=True)
class _NextPolygamma:
    """The gradient of polygamma(n)."""

    n: int

    def __call__(self, g: Node, node: Node) -> tuple[Node]:
        return (ew.mul(g, polygamma(self.n + 1, node.src[1])),)
