"""The incomplete gamma functions, as graphs of ops.

In and out: GRAPH nodes. Computed in float64 and rounded once. From z = 1 on the smaller side of the
density's integral is a sum over t = z * exp(s), s from 0 to plus or minus infinity, with even steps
of u in s = exp(sinh(u) * pi / 2) (H. Takahasi and M. Mori, 1974): its integrand has no maximum
inside. Below 1 it is the power series.
"""
from __future__ import annotations

import math
from dataclasses import dataclass

from lazyten.autodiff.gradient import vjp
from lazyten.ir import dtype as dt
from lazyten.ir.node import Node, cast, iota, reduce, reshape
from lazyten.ir.ops import Op
from lazyten.operators.math import elementwise as ew
from lazyten.operators.math import inverse_functions as inverse
from lazyten.operators.math import special
from lazyten.operators.math.elementwise import Operand
from lazyten.operators.math.gradients import with_gradient
from lazyten.operators.math.statistical_functions import lgamma, stirling_rest

_FIRST, _STEP, _PLACES = -4.0, 0.04, 160
"""The sum is exact to the last places of float64 for a up to 10**4, and to 3e-10 at 10**6."""
_TERMS = 20
_LARGE = 20.0


def gammainc(a: Operand, x: Operand) -> Node:
    """The part of the gamma function's integral that is below x: 0 at 0, 1 at infinity, NaN below
    0. Gradients flow to a, too, as they do not in PyTorch."""
    return _part(a, x, False)


def gammaincc(a: Operand, x: Operand) -> Node:
    """1 - gammainc, exact where that is small."""
    return _part(a, x, True)


def _part(a: Operand, x: Operand, upper: bool) -> Node:
    kind = ew.result_type([a, x])
    kind = kind if kind.is_float else dt.default_float
    shape = ew.common_shape([a, x], "gammaincc" if upper else "gammainc")
    given, at = (ew.as_node(v, kind, shape) for v in (a, x))
    value = _value(cast(given, dt.float64), cast(at, dt.float64), upper)
    return with_gradient(cast(value, kind), (given, at), _Slopes(upper))


def _value(a: Node, x: Node, upper: bool) -> Node:
    held, z = ew.clip(a, 1e-300, 1e300), ew.clip(x, 1e-300, 1e300)
    by_series = ew.less(z, 1.0)
    beyond = ew.bitwise_and(ew.greater_equal(z, held), ew.invert(by_series))
    weight = special.exp(_log_weight(held, z))
    integral = ew.mul(weight, _integral(held, ew.maximum(z, 1.0), beyond))
    below = ew.where(by_series, ew.mul(weight, _series(held, ew.minimum(z, 1.0))), integral)
    known = beyond if upper else ew.invert(beyond)  # this side, and not 1 less it
    value = ew.where(known, below, ew.sub(1.0, below))
    none, all_ = (1.0, 0.0) if upper else (0.0, 1.0)
    value = ew.where(ew.equal(x, 0.0), none, value)
    value = ew.where(ew.bitwise_or(ew.equal(a, 0.0), ew.equal(x, math.inf)), all_, value)
    value = ew.where(ew.equal(a, math.inf), none, value)
    both = ew.bitwise_or(ew.bitwise_and(ew.equal(a, 0.0), ew.equal(x, 0.0)),
                         ew.bitwise_and(ew.equal(a, math.inf), ew.equal(x, math.inf)))
    outside = ew.bitwise_or(ew.less(a, 0.0), ew.less(x, 0.0))
    missing = ew.bitwise_or(ew.not_equal(a, a), ew.not_equal(x, x))
    return ew.where(ew.bitwise_or(ew.bitwise_or(both, outside), missing), math.nan, value)


def _log_weight(a: Node, z: Node) -> Node:
    """log(z ** a * exp(-z) / gamma(a)), by Stirling's formula where a is large and z near it."""
    near = ew.sub(ew.sub(ew.mul(a, special.log(z)), z), lgamma(a))
    large = ew.maximum(a, _LARGE)
    gap = ew.true_divide(ew.sub(z, large), large)
    close = ew.bitwise_and(ew.greater_equal(a, _LARGE), ew.less(ew.absolute(gap), 0.5))
    far = ew.mul(large, ew.sub(special.log1p(gap), gap))
    root = ew.mul(special.log(ew.mul(large, 1 / (2 * math.pi))), 0.5)
    return ew.where(close, ew.sub(ew.add(far, root), stirling_rest(large)), near)


def _series(a: Node, z: Node) -> Node:
    """(1 + z / (a + 1) + z**2 / ((a + 1) * (a + 2)) + ..) / a, of z up to 1."""
    term = total = ew.true_divide(1.0, a)
    for n in range(1, _TERMS):
        term = ew.mul(term, ew.true_divide(z, ew.add(a, float(n))))
        total = ew.add(total, term)
    return total


def _integral(a: Node, z: Node, beyond: Node) -> Node:
    """The integral of exp(a * s - z * (exp(s) - 1)) over s above 0, or else below."""
    a, z, beyond = (reshape(n, (*n.shape, 1)) for n in (a, z, beyond))
    u = ew.add(ew.mul(cast(iota(_PLACES), dt.float64), _STEP), _FIRST)
    grown = special.exp(u)
    shrunk = special.exp(ew.negative(u))
    s = special.exp(ew.mul(ew.sub(grown, shrunk), math.pi / 4))
    weight = ew.mul(ew.mul(ew.add(grown, shrunk), _STEP * math.pi / 4), s)
    side = ew.where(beyond, s, ew.negative(s))
    log_of = ew.sub(ew.mul(a, side), ew.mul(z, special.expm1(side)))
    summed = reduce(ew.mul(special.exp(log_of), weight), Op.ADD, (len(a.shape) - 1,))
    return reshape(summed, a.shape[:-1])


@dataclass(frozen=True, slots=True)
class _Slopes:
    """The gradient: of x the density, of a that of what computes the value."""

    upper: bool

    def __call__(self, g: Node, node: Node) -> tuple[Node | None, Node]:
        a, x = (cast(n, dt.float64) for n in node.src[1:])
        power = ew.sub(ew.sub(inverse.xlogy(ew.sub(a, 1.0), x), x), lgamma(a))
        slope = cast(special.exp(power), g.dtype)
        by_a = vjp(_value(a, x, self.upper), cast(g, dt.float64), [a])[0]
        return (None if by_a is None else cast(by_a, g.dtype),
                ew.mul(g, ew.negative(slope) if self.upper else slope))
