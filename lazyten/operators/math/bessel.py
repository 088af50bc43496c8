"""Bessel's functions of orders 0 and 1, and Airy's, as graphs of ops.

In and out: GRAPH nodes. All are computed in float64 and rounded once to the type of x; integers
and bools are first converted to the default float type. Below some |x| they are Chebyshev series,
beyond it products of their asymptotic forms with such series (M. Abramowitz and I. Stegun, 9 and
10.4).
"""
from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from lazyten.ir.node import GradientRule, Node, const
from lazyten.operators.math import bessel_tables as tables
from lazyten.operators.math import elementwise as ew
from lazyten.operators.math import special
from lazyten.operators.math.composites import SINC_SLOPE
from lazyten.operators.math.statistical_functions import in_float64

_LEAST = math.ulp(0.0)


def chebyshev(t: Node, coefficients: Sequence[float]) -> Node:
    """The sum of coefficients times Chebyshev's polynomials of t, by Clenshaw's recurrence."""
    high = low = const(0.0, t.dtype, t.shape)
    twice = ew.mul(t, 2.0)
    for c in reversed(coefficients[1:]):
        high, low = ew.add(ew.sub(ew.mul(twice, high), low), c), high
    return ew.add(ew.sub(ew.mul(t, high), low), coefficients[0])


def _slope(name: str, make: Callable[[Node, Node], Node]) -> GradientRule:
    """The gradient's rule of the function `name`, whose derivative is `make(x, value)`."""
    def rule(g: Node, node: Node) -> tuple[Node]:
        return (ew.mul(g, make(node.src[1], node)),)
    rule.__name__ = rule.__qualname__ = f"_{name}_gradient"
    return rule


# ---- of an imaginary argument --------------------------------------------------------------------

def _scaled_i(x: Node, order: int) -> Node:
    """e ** -|x| times I of order 0 or 1."""
    size = ew.absolute(x)
    near_table, far_table = ((tables.I0_NEAR, tables.I0_FAR), (tables.I1_NEAR, tables.I1_FAR))[
        order]
    near = chebyshev(ew.sub(ew.mul(ew.minimum(size, 8.0), 0.25), 1.0), near_table)
    large = ew.maximum(size, 8.0)
    far = ew.true_divide(chebyshev(ew.sub(ew.true_divide(16.0, large), 1.0), far_table),
                         special.sqrt(large))
    near = ew.mul(near, x) if order else near
    far = ew.where(ew.less(x, 0.0), ew.negative(far), far) if order else far
    return ew.where(ew.less(size, 8.0), near, far)


def _grown(x: Node, scaled: Node) -> Node:
    """A scaled value times e ** |x|, in two steps: the power alone may not fit."""
    half = special.exp(ew.mul(ew.absolute(x), 0.5))
    return ew.mul(ew.mul(scaled, half), half)


OVER = (1 / 18432, 1 / 384, 1 / 16, 1 / 2)
"""I1(x) / x as a polynomial of x**2, and J1(x) / x as one of -x**2, highest power first."""


def _over(value: Node, x: Node, near: Node) -> Node:
    """value / x, and where x is 0 `near`, whose gradients are right there, too."""
    none = ew.equal(x, 0.0)
    return ew.where(none, near, ew.true_divide(value, ew.where(none, 1.0, x)))


def _first_over(value: Node, x: Node, sign: float = 1.0) -> Node:
    """value / x of `value`, I1(x), or J1(x) for sign -1."""
    return _over(value, x, special.polynomial(ew.mul(ew.mul(x, x), sign), OVER))


def i0(x: Node) -> Node:
    """The modified function of the first kind, of order 0."""
    return in_float64(lambda v: _grown(v, _scaled_i(v, 0)), _i0_gradient, x)


def i1(x: Node) -> Node:
    """The same of order 1."""
    return in_float64(lambda v: _grown(v, _scaled_i(v, 1)), _i1_gradient, x)


def i0e(x: Node) -> Node:
    """e ** -|x| I0(x)."""
    return in_float64(lambda v: _scaled_i(v, 0), _i0e_gradient, x)


def i1e(x: Node) -> Node:
    """e ** -|x| I1(x)."""
    return in_float64(lambda v: _scaled_i(v, 1), _i1e_gradient, x)


_i0_gradient = _slope("i0", lambda x, value: i1(x))
_i1_gradient = _slope("i1", lambda x, value: ew.sub(i0(x), _first_over(value, x)))
_i0e_gradient = _slope("i0e", lambda x, value: ew.sub(i1e(x), ew.mul(ew.sign(x), value)))
_i1e_gradient = _slope("i1e", lambda x, value: ew.sub(
    ew.sub(i0e(x), ew.mul(ew.sign(x), value)), _first_over(value, x)))


def _k(x: Node, order: int, scaled: bool) -> Node:
    """K of order 0 or 1, scaled by e ** x: infinite at 0, NaN below."""
    small, large = ew.clip(x, _LEAST, 2.0), ew.maximum(x, 2.0)
    t = ew.sub(ew.mul(ew.mul(small, small), 0.5), 1.0)
    tiny = ew.less(small, 1e-300)  # of which a half may be 0
    logs = special.log(ew.where(tiny, small, ew.mul(small, 0.5)))
    logs = ew.where(tiny, ew.sub(logs, special.LN2), logs)
    grown = _grown(small, _scaled_i(small, order))
    near = ew.sub(chebyshev(t, tables.K0_NEAR), ew.mul(logs, grown)) if not order else ew.add(
        ew.true_divide(chebyshev(t, tables.K1_NEAR), small), ew.mul(logs, grown))
    near = ew.mul(near, special.exp(small)) if scaled else near
    far = ew.true_divide(
        chebyshev(ew.sub(ew.true_divide(4.0, large), 1.0), (tables.K0_FAR, tables.K1_FAR)[order]),
        special.sqrt(large))
    far = far if scaled else ew.mul(far, special.exp(ew.negative(large)))
    return _of_positive(x, ew.where(ew.less_equal(x, 2.0), near, far), math.inf)


def _of_positive(x: Node, value: Node, at_zero: float) -> Node:
    value = ew.where(ew.equal(x, 0.0), at_zero, value)
    return ew.where(ew.greater_equal(x, 0.0), value, math.nan)


def k0(x: Node) -> Node:
    """The modified function of the second kind, of order 0."""
    return in_float64(lambda v: _k(v, 0, False), _k0_gradient, x)


def k1(x: Node) -> Node:
    """The same of order 1."""
    return in_float64(lambda v: _k(v, 1, False), _k1_gradient, x)


def k0e(x: Node) -> Node:
    """e ** x K0(x)."""
    return in_float64(lambda v: _k(v, 0, True), _k0e_gradient, x)


def k1e(x: Node) -> Node:
    """e ** x K1(x)."""
    return in_float64(lambda v: _k(v, 1, True), _k1e_gradient, x)


_k0_gradient = _slope("k0", lambda x, value: ew.negative(k1(x)))
_k1_gradient = _slope("k1", lambda x, value: ew.negative(ew.add(k0(x), ew.true_divide(value, x))))
_k0e_gradient = _slope("k0e", lambda x, value: ew.sub(value, k1e(x)))
_k1e_gradient = _slope("k1e", lambda x, value: ew.sub(
    ew.sub(value, k0e(x)), ew.true_divide(value, x)))


# ---- of a real argument --------------------------------------------------------------------------

def _waves(size: Node, order: int) -> tuple[Node, Node]:
    """J and Y of order 0 or 1 where size is 8 or more."""
    x = ew.maximum(size, 8.0)
    t = ew.sub(ew.true_divide(ew.true_divide(128.0, x), x), 1.0)
    p_table, q_table = ((tables.P0_FAR, tables.Q0_FAR), (tables.P1_FAR, tables.Q1_FAR))[order]
    p, q = chebyshev(t, p_table), ew.true_divide(chebyshev(t, q_table), x)
    cosine, sine = special.cos(x), special.sin(x)
    turned = ew.add(cosine, sine), ew.sub(sine, cosine)  # of x less pi / 4, times sqrt 2
    if order:
        turned = turned[1], ew.negative(turned[0])  # of x less 3 pi / 4
    scale = special.sqrt(ew.true_divide(1 / math.pi, x))
    return (ew.mul(scale, ew.sub(ew.mul(p, turned[0]), ew.mul(q, turned[1]))),
            ew.mul(scale, ew.add(ew.mul(p, turned[1]), ew.mul(q, turned[0]))))


def _squared(size: Node) -> Node:
    """Of x below 8, the argument of its series."""
    near = ew.minimum(size, 8.0)
    return ew.sub(ew.mul(ew.mul(near, near), 1 / 32), 1.0)


def _j(x: Node, order: int) -> Node:
    size = ew.absolute(x)
    near = chebyshev(_squared(size), (tables.J0_NEAR, tables.J1_NEAR)[order])
    far = _waves(size, order)[0]
    if order:
        near, far = ew.mul(near, x), ew.where(ew.less(x, 0.0), ew.negative(far), far)
    return ew.where(ew.less(size, 8.0), near, far)


def _y(x: Node, order: int) -> Node:
    small = ew.clip(x, _LEAST, 8.0)
    series = chebyshev(_squared(small), (tables.Y0_NEAR, tables.Y1_NEAR)[order])
    part = ew.mul(special.log(small), _j(small, order))
    if order:
        part, series = ew.sub(part, ew.true_divide(1.0, small)), ew.mul(series, small)
    near = ew.add(ew.mul(part, 2 / math.pi), series)
    return _of_positive(x, ew.where(ew.less(x, 8.0), near, _waves(x, order)[1]), -math.inf)


def j0(x: Node) -> Node:
    """The function of the first kind, of order 0."""
    return in_float64(lambda v: _j(v, 0), _j0_gradient, x)


def j1(x: Node) -> Node:
    """The same of order 1."""
    return in_float64(lambda v: _j(v, 1), _j1_gradient, x)


def y0(x: Node) -> Node:
    """The function of the second kind, of order 0: -infinite at 0, NaN below."""
    return in_float64(lambda v: _y(v, 0), _y0_gradient, x)


def y1(x: Node) -> Node:
    """The same of order 1."""
    return in_float64(lambda v: _y(v, 1), _y1_gradient, x)


_j0_gradient = _slope("j0", lambda x, value: ew.negative(j1(x)))
_j1_gradient = _slope("j1", lambda x, value: ew.sub(j0(x), _first_over(value, x, -1.0)))
_y0_gradient = _slope("y0", lambda x, value: ew.negative(y1(x)))
_y1_gradient = _slope("y1", lambda x, value: ew.sub(y0(x), ew.true_divide(value, x)))


def spherical_j0(x: Node) -> Node:
    """sin(x) / x, 1 at 0 and 0 at infinity."""
    return in_float64(_spherical, _spherical_gradient, x)


def _spherical(x: Node) -> Node:
    endless = ew.equal(ew.absolute(x), math.inf)
    held = ew.where(endless, 1.0, x)
    return ew.where(endless, 0.0, _over(special.sin(held), held, const(1.0, x.dtype)))


def _spherical_slope(x: Node, value: Node) -> Node:
    """(cos(x) - sin(x) / x) / x; near 0, where that cancels, its power series."""
    near = ew.less(ew.absolute(x), 0.5)
    small, large = ew.where(near, x, 0.0), ew.where(near, const(1.0, x.dtype), x)
    series = ew.mul(special.polynomial(ew.mul(small, small), SINC_SLOPE), ew.negative(small))
    return ew.where(near, series, ew.true_divide(ew.sub(special.cos(large), value), large))


_spherical_gradient = _slope("spherical_bessel_j0", _spherical_slope)


# ---- Airy's --------------------------------------------------------------------------------------

def airy_ai(x: Node) -> Node:
    """Airy's function Ai, which falls beyond 0 and swings below."""
    return in_float64(_airy, None, x)


def _airy(x: Node) -> Node:
    near = chebyshev(ew.mul(ew.clip(x, -4.0, 4.0), 0.25), tables.AIRY_NEAR)
    size = ew.maximum(ew.absolute(x), 4.0)
    root = special.sqrt(size)
    z = ew.mul(ew.mul(size, root), 2 / 3)
    scale = ew.true_divide(1 / math.sqrt(math.pi), special.sqrt(root))
    part = ew.true_divide(16 / 3, z)
    falling = ew.mul(chebyshev(ew.sub(ew.mul(part, 2.0), 1.0), tables.AIRY_FAR),
                     ew.mul(special.exp(ew.negative(z)), 0.5))
    t = ew.sub(ew.mul(ew.mul(part, part), 2.0), 1.0)
    angle = ew.add(z, math.pi / 4)
    swinging = ew.sub(
        ew.mul(special.sin(angle), chebyshev(t, tables.AIRY_P)),
        ew.mul(special.cos(angle), ew.true_divide(chebyshev(t, tables.AIRY_Q), z)))
    far = ew.mul(scale, ew.where(ew.less(x, 0.0), swinging, falling))
    return ew.where(ew.less(ew.absolute(x), 4.0), near, far)
