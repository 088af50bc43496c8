"""Functions of statistics: the error function's complement and inverse, and the gamma function's
logarithm with its derivatives, as graphs of ops.

In and out: GRAPH nodes. All are computed in float64 and rounded once to the type of x; integers
and bools are first converted to the default float type. Errors are in docs/accuracy.md.
"""
from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial

from lazyten.ir import dtype as dt
from lazyten.ir.dtype import DType
from lazyten.ir.node import GradientRule, Node, cast, const
from lazyten.operators.math import elementwise as ew
from lazyten.operators.math import special
from lazyten.operators.math.elementwise import as_float
from lazyten.operators.math.gradients import with_gradient

# W. J. Cody, Math. Comp. 23 (1969), highest power first: erfc beyond 4, of 1 / x**2
_FAR_P = (1.63153871373020978e-2, 3.05326634961232344e-1, 3.60344899949804439e-1,
          1.25781726111229246e-1, 1.60837851487422766e-2, 6.58749161529837803e-4)
_FAR_Q = (1.0, 2.56852019228982242, 1.87295284992346725, 5.27905102951428412e-1,
          6.05183413124413191e-2, 2.33520497626869185e-3)

# M. J. Wichura, Applied Statistics 37 (1988), algorithm AS 241: the quantiles of the normal
# distribution, of 0.425**2 - (p - 1/2)**2, and of sqrt(-log(1 - p)) less 1.6, or 5
_MIDDLE_P = (2509.0809287301226727, 33430.575583588128105, 67265.770927008700853,
             45921.953931549871457, 13731.693765509461125, 1971.5909503065514427,
             133.14166789178437745, 3.3871328727963666080)
_MIDDLE_Q = (5226.4952788528545610, 28729.085735721942674, 39307.895800092710610,
             21213.794301586595867, 5394.1960214247511077, 687.18700749205790830,
             42.313330701600911252, 1.0)
_TAIL_P = (7.74545014278341407640e-4, 2.27238449892691845833e-2, 2.41780725177450611770e-1,
           1.27045825245236838258, 3.64784832476320460504, 5.76949722146069140550,
           4.63033784615654529590, 1.42343711074968357734)
_TAIL_Q = (1.05075007164441684324e-9, 5.47593808499534494600e-4, 1.51986665636164571966e-2,
           1.48103976427480074590e-1, 6.89767334985100004550e-1, 1.67638483018380384940,
           2.05319162663775882187, 1.0)
_END_P = (2.01033439929228813265e-7, 2.71155556874348757815e-5, 1.24266094738807843860e-3,
          2.65321895265761230930e-2, 2.96560571828504891230e-1, 1.78482653991729133580,
          5.46378491116411436990, 6.65790464350110377720)
_END_Q = (2.04426310338993978564e-15, 1.42151175831644588870e-7, 1.84631831751005468180e-5,
          7.86869131145613259100e-4, 1.48753612908506148525e-2, 1.36929880922735805310e-1,
          5.99832206555887937690e-1, 1.0)

# lgamma(2 + z) / z for |z| <= 0.5, to 2**-60, fitted with mpmath (`chebyfit`), highest power first
_LGAMMA_OF_2 = (
    -1.3219945666117874e-07, 2.78740805211359e-07, -4.3252393445604814e-07, 9.200527894968101e-07,
    -2.0439048107029907e-06, 4.38470440459836e-06, -9.438715099211532e-06, 2.0505590755833454e-05,
    -4.49263133791557e-05, 9.945767355819498e-05, -0.00022315475400520507, 0.0005096695154115458,
    -0.0011927539118428156, 0.002890510331034267, -0.0073855510286719986, 0.02058080842778038,
    -0.0673523010531981, 0.32246703342411326, 0.42278433509846713)

# S. Moshier's Cephes: gamma.c (lgam) and psi.c
_STIRLING = (8.11614167470508450300e-4, -5.95061904284301438324e-4, 7.93650340457716943945e-4,
             -2.77777777730099687205e-3, 8.33333333333331927722e-2)
_DIGAMMA = (8.33333333333333333333e-2, -2.10927960927960927961e-2, 7.57575757575757575758e-3,
            -4.16666666666666666667e-3, 3.96825396825396825397e-3, -8.33333333333333333333e-3,
            8.33333333333333333333e-2)


def in_float64(compute: Callable[[Node], Node], rule: GradientRule | None, x: Node) -> Node:
    """What `compute` makes of x in float64, rounded to its own type."""
    x = as_float(x)
    value = cast(compute(cast(x, dt.float64)), x.dtype)
    return with_gradient(value, (x,), rule) if rule else value


def _ratio(x: Node, top: tuple[float, ...], bottom: tuple[float, ...]) -> Node:
    return ew.true_divide(special.polynomial(x, top), special.polynomial(x, bottom))


# ---- the error function --------------------------------------------------------------------------

def erfc(x: Node) -> Node:
    """1 - erf(x), exact also where that is small."""
    return in_float64(_erfc, _erfc_gradient, x)


def _erfc(x: Node) -> Node:
    size = ew.minimum(ew.absolute(x), 28.0)  # where erfc is 0
    tail = ew.mul(_bell(size), _tail(size))
    signed = ew.where(ew.less(x, 0.0), ew.sub(2.0, tail), tail)
    return ew.where(ew.less(ew.absolute(x), 0.5), ew.sub(1.0, special.erf(x)), signed)


def _bell(size: Node) -> Node:
    """e ** -size**2, from a part of size whose square is exact, and the rest."""
    rounded = ew.mul(special.floor(ew.mul(size, 16.0)), 1 / 16)
    rest = ew.mul(ew.sub(size, rounded), ew.add(size, rounded))
    return ew.mul(special.exp(ew.negative(ew.mul(rounded, rounded))),
                  special.exp(ew.negative(rest)))


def _tail(size: Node) -> Node:
    """e ** size**2 times erfc(size), of 0.5 and more."""
    held = ew.maximum(size, 4.0)
    z = ew.true_divide(1.0, ew.mul(held, held))
    far = ew.sub(1 / math.sqrt(math.pi), ew.mul(z, _ratio(z, _FAR_P, _FAR_Q)))
    near = _ratio(ew.minimum(size, 4.0), special.ERFC_P, special.ERFC_Q)
    return ew.where(ew.less(size, 4.0), near, ew.true_divide(far, held))


def _erfc_gradient(g: Node, node: Node) -> tuple[Node]:
    x = node.src[1]
    slope = ew.mul(special.exp(ew.negative(ew.mul(x, x))), -2 / math.sqrt(math.pi))
    return (ew.mul(g, slope),)


def erfinv(x: Node) -> Node:
    """The number whose erf is x: infinite at -1 and 1, NaN outside."""
    x = as_float(x)
    return in_float64(partial(_erfinv, digits=x.dtype), _erfinv_gradient, x)


def _erfinv(y: Node, digits: DType) -> Node:
    size = ew.absolute(y)
    x = _erfinv_of(size, ew.sub(1.0, size), digits)
    return ew.where(ew.equal(y, 0.0), y, ew.where(ew.less(y, 0.0), ew.negative(x), x))


def _erfinv_of(size: Node, left: Node, digits: DType) -> Node:
    """Of a size, and what it lacks to 1, to the digits of a type: of float64, with a step of
    Newton's method, of what is near 0: erf, or its complement."""
    x = _guessed_erfinv(size, left)
    if digits is dt.float64:
        short = ew.where(ew.less(size, 0.5), ew.sub(size, special.erf(x)), ew.sub(_erfc(x), left))
        x = ew.add(x, ew.mul(short, _slope(x)))
    return ew.where(ew.equal(left, 0.0), math.inf, x)


def _guessed_erfinv(size: Node, left: Node) -> Node:
    """The same, off by some units in the last place of float64."""
    middle = ew.mul(size, _ratio(ew.sub(0.180625, ew.mul(ew.mul(size, size), 0.25)),
                                 _MIDDLE_P, _MIDDLE_Q))
    depth = special.sqrt(ew.negative(special.log(ew.mul(left, 0.5))))
    tail = ew.where(ew.less(depth, 5.0), _ratio(ew.sub(depth, 1.6), _TAIL_P, _TAIL_Q),
                    _ratio(ew.sub(depth, 5.0), _END_P, _END_Q))
    return ew.where(ew.less(size, 0.85), ew.mul(middle, math.sqrt(0.125)),
                    ew.mul(tail, math.sqrt(0.5)))


def _slope(x: Node) -> Node:
    """The derivative of erfinv where it is x."""
    return ew.mul(special.exp(ew.mul(x, x)), math.sqrt(math.pi) / 2)


def _erfinv_gradient(g: Node, node: Node) -> tuple[Node]:
    return (ew.mul(g, _slope(node)),)


def erfcx(x: Node) -> Node:
    """e ** x**2 erfc(x), which falls slowly."""
    return in_float64(_erfcx, _erfcx_gradient, x)


def _erfcx(x: Node) -> Node:
    size = ew.absolute(x)
    held = ew.minimum(size, 27.0)  # of negative numbers beyond it is infinite
    power = ew.true_divide(1.0, _bell(held))
    near = ew.mul(power, ew.sub(1.0, special.erf(ew.clip(x, -0.5, 0.5))))
    value = ew.where(ew.less(x, 0.0), ew.sub(ew.mul(power, 2.0), _tail(size)), _tail(size))
    value = ew.where(ew.less(size, 0.5), near, value)
    return ew.where(ew.less(x, -27.0), math.inf, value)


def _erfcx_gradient(g: Node, node: Node) -> tuple[Node]:
    return (ew.mul(g, in_float64(_erfcx_slope, None, node.src[1])),)


def _erfcx_slope(x: Node) -> Node:
    """2 x erfcx(x) - 2 / sqrt(pi); far out, where these are equal, its series in 1 / x**2."""
    far = ew.greater(x, 100.0)
    held, large = ew.where(far, 0.0, x), ew.where(far, x, 100.0)
    near = ew.sub(ew.mul(ew.mul(held, erfcx(held)), 2.0), 2 / math.sqrt(math.pi))
    t = ew.true_divide(1.0, ew.mul(large, large))
    series = ew.mul(special.polynomial(t, (-105 / 8, 15 / 4, -3 / 2, 1.0)), t)
    return ew.where(far, ew.mul(series, -1 / math.sqrt(math.pi)), near)


# ---- the normal distribution ---------------------------------------------------------------------

def ndtr(x: Node) -> Node:
    """The probability that a normal number is below x: erfc(-x / sqrt 2) / 2."""
    return in_float64(lambda v: ew.mul(_erfc(ew.mul(v, -math.sqrt(0.5))), 0.5), _ndtr_gradient, x)


def _ndtr_gradient(g: Node, node: Node) -> tuple[Node]:
    x = node.src[1]
    density = ew.mul(special.exp(ew.mul(ew.mul(x, x), -0.5)), 1 / math.sqrt(2 * math.pi))
    return (ew.mul(g, density),)


def ndtri(p: Node) -> Node:
    """The number below which a normal one is with probability p."""
    p = as_float(p)
    return in_float64(partial(_ndtri, digits=p.dtype), _ndtri_gradient, p)


def _ndtri(p: Node, digits: DType) -> Node:
    lower = ew.less(p, 0.5)
    left = ew.mul(ew.where(lower, p, ew.sub(1.0, p)), 2.0)
    found = ew.mul(_erfinv_of(ew.sub(1.0, left), left, digits), math.sqrt(2))
    found = ew.where(lower, ew.negative(found), found)
    outside = ew.bitwise_or(ew.less(p, 0.0), ew.greater(p, 1.0))
    return ew.where(outside, math.nan, found)


def _ndtri_gradient(g: Node, node: Node) -> tuple[Node]:
    slope = ew.mul(special.exp(ew.mul(ew.mul(node, node), 0.5)), math.sqrt(2 * math.pi))
    return (ew.mul(g, slope),)


def log_ndtr(x: Node) -> Node:
    """The logarithm of the probability that a normal number is below x, exact far below 0, too."""
    return in_float64(_log_ndtr, _log_ndtr_gradient, x)


def _log_ndtr(x: Node) -> Node:
    low = ew.minimum(x, -1.0)
    far = ew.sub(special.log(ew.mul(_erfcx(ew.mul(low, -math.sqrt(0.5))), 0.5)),
                 ew.mul(ew.mul(low, low), 0.5))
    near = special.log1p(ew.mul(_erfc(ew.mul(ew.maximum(x, -1.0), math.sqrt(0.5))), -0.5))
    return ew.where(ew.less(x, -1.0), far, near)


def _log_ndtr_gradient(g: Node, node: Node) -> tuple[Node]:
    return (ew.mul(g, in_float64(_log_ndtr_slope, None, node.src[1])),)


def _log_ndtr_slope(x: Node) -> Node:
    """The density over the probability, which is 1 beyond 10: e ** (x**2 / 2) would be infinite."""
    far = ew.greater(x, 10.0)
    held, large = ew.where(far, 0.0, x), ew.where(far, x, 10.0)
    density = ew.mul(special.exp(ew.mul(ew.mul(large, large), -0.5)), 1 / math.sqrt(2 * math.pi))
    near = ew.true_divide(math.sqrt(2 / math.pi), erfcx(ew.mul(held, -math.sqrt(0.5))))
    return ew.where(far, density, near)


# ---- the gamma function --------------------------------------------------------------------------

def lgamma(x: Node) -> Node:
    """log(abs(gamma(x))): infinite at 0, -1, -2, ..."""
    return in_float64(_lgamma, _lgamma_gradient, x)


def _lgamma(x: Node) -> Node:
    size = ew.absolute(x)
    value = ew.where(ew.less(size, 13.0), _lgamma_near(ew.minimum(size, 13.0)), _stirling(size))
    sine = ew.mul(size, _sine_of_pi(size))
    turned = ew.sub(ew.sub(math.log(math.pi), special.log(ew.absolute(sine))), value)
    turned = ew.where(ew.equal(sine, 0.0), math.inf, turned)
    value = ew.where(ew.less(x, 0.0), turned, value)
    value = ew.where(ew.less(size, 1e-20), ew.negative(special.log(size)), value)
    return ew.where(ew.equal(size, math.inf), math.inf, value)


def _lgamma_near(x: Node) -> Node:
    """For 0 <= x < 13: gamma(x) is gamma of a number in [1.5, 2.5) times or over whole steps. How
    far that is from 2 is exact near 1 and 2, where the result is 0."""
    first, second = ew.less(x, 0.5), ew.less(x, 1.5)
    past = ew.where(first, x, ew.sub(x, 1.0))
    below = ew.where(first, ew.mul(x, ew.add(x, 1.0)), x)
    above = const(1.0, x.dtype, x.shape)
    for _ in range(11):
        over = ew.greater_equal(x, 2.5)
        x = ew.where(over, ew.sub(x, 1.0), x)
        above = ew.where(over, ew.mul(above, x), above)
    past = ew.where(second, past, ew.sub(x, 2.0))
    log = special.log(ew.where(second, below, above))
    rest = ew.mul(past, special.polynomial(past, _LGAMMA_OF_2))
    return ew.add(rest, ew.where(second, ew.negative(log), log))


def _stirling(x: Node) -> Node:
    main = ew.sub(ew.mul(ew.sub(x, 0.5), special.log(x)), x)
    return ew.add(ew.add(main, math.log(2 * math.pi) / 2), stirling_rest(x))


def stirling_rest(x: Node) -> Node:
    """What lgamma(x) is above Stirling's formula, of 13 and more."""
    z = ew.true_divide(1.0, ew.mul(x, x))
    return ew.true_divide(special.polynomial(z, _STIRLING), x)


def gamma_entropy(a: Node) -> Node:
    """a + lgamma(a) + (1 - a) digamma(a), whose terms cancel far out: what is left there of
    Stirling's formula, and of digamma's series."""
    return in_float64(_gamma_entropy, None, a)


def _gamma_entropy(a: Node) -> Node:
    far = ew.greater(a, 16.0)
    x, large = ew.where(far, 1.0, a), ew.where(far, a, 16.0)
    near = ew.add(ew.add(x, lgamma(x)), ew.mul(ew.sub(1.0, x), digamma(x)))
    z = ew.true_divide(1.0, ew.mul(large, large))
    short = ew.mul(z, special.polynomial(z, _DIGAMMA))
    rest = ew.add(stirling_rest(large), ew.sub(ew.mul(ew.sub(large, 1.0), short),
                                               ew.true_divide(0.5, large)))
    main = ew.add(ew.mul(special.log(large), 0.5), math.log(2 * math.pi) / 2 + 0.5)
    return ew.where(far, ew.add(main, rest), near)


def _sine_of_pi(x: Node) -> Node:
    """sin(pi x) but for its sign, from how far x is from a whole number."""
    return special.sin(ew.mul(ew.sub(x, special.round_half_even(x)), math.pi))


def _lgamma_gradient(g: Node, node: Node) -> tuple[Node]:
    return (ew.mul(g, digamma(node.src[1])),)


def digamma(x: Node) -> Node:
    """The derivative of lgamma: NaN at -1, -2, ..., and infinite at 0."""
    return in_float64(_digamma, _digamma_gradient, x)


def _digamma(x: Node) -> Node:
    below = ew.less_equal(x, 0.0)
    up = ew.where(below, ew.sub(1.0, x), x)
    steps = const(0.0, x.dtype, x.shape)
    for _ in range(10):
        near = ew.less(up, 10.0)
        steps = ew.where(near, ew.add(steps, ew.true_divide(1.0, up)), steps)
        up = ew.where(near, ew.add(up, 1.0), up)
    z = ew.true_divide(1.0, ew.mul(up, up))
    rest = ew.add(ew.mul(z, special.polynomial(z, _DIGAMMA)), ew.true_divide(0.5, up))
    value = ew.sub(ew.sub(special.log(up), rest), steps)
    angle = ew.mul(ew.sub(x, special.round_half_even(x)), math.pi)
    turned = ew.sub(value, ew.true_divide(math.pi, special.tan(angle)))
    turned = ew.where(ew.equal(x, special.floor(x)), math.nan, turned)
    turned = ew.where(ew.equal(x, 0.0), ew.true_divide(-1.0, x), turned)
    return ew.where(below, turned, value)


def _digamma_gradient(g: Node, node: Node) -> tuple[Node]:
    return (ew.mul(g, trigamma(node.src[1])),)


def trigamma(x: Node) -> Node:
    """The second derivative of lgamma."""
    return in_float64(_trigamma, None, x)


def _trigamma(x: Node) -> Node:
    below = ew.less(x, 0.5)
    up = ew.where(below, ew.sub(1.0, x), x)
    total = const(0.0, x.dtype, x.shape)
    for _ in range(12):
        total = ew.add(total, special.reciprocal(ew.mul(up, up)))
        up = ew.add(up, 1.0)
    z = special.reciprocal(ew.mul(up, up))
    series = special.polynomial(z, (7 / 6, -691 / 2730, 5 / 66, -1 / 30, 1 / 42, -1 / 30, 1 / 6))
    rest = ew.add(ew.add(1.0, ew.true_divide(0.5, up)), ew.mul(z, series))
    total = ew.add(total, ew.true_divide(rest, up))
    sine = _sine_of_pi(ew.where(below, x, 0.5))  # not 0 where it is not read: gradients
    turned = ew.sub(ew.true_divide(math.pi**2, ew.mul(sine, sine)), total)
    return ew.where(below, turned, total)
