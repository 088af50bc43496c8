"""Elementwise functions of complex numbers: their rules, and their forms.

The inverse functions are those of W. Kahan, Branch Cuts for Complex Elementary Functions (1987): of
roots, so that signs of 0 tell the sides of cuts, and no digit is lost near them.
"""
from __future__ import annotations

import math
from typing import Any

from lazyten.frontend.complexes.arithmetic import is_zero, mul
from lazyten.frontend.complexes.computing import Pair, Part, carry_out, elementwise, form, rule
from lazyten.frontend.functions import where
from lazyten.frontend.tensor import Tensor
from lazyten.ir import dtype as dt

# ---- rules: parts in, parts out ------------------------------------------------------------------

@rule
def exp(a: Pair) -> Pair:
    """e to the real part, at the angle of the imaginary one."""
    return _turned(a.real.exp(), a.imag)


def _turned(size: Tensor, angle: Part) -> Pair:
    """A length at an angle."""
    return Pair(size * angle.cos(), _no_part_of(size, angle) * angle.sin())


def _no_part_of(size: Tensor, at: Tensor) -> Tensor:
    """A factor of what is 0 where `at` is 0, finite there: no part of an infinity is 0, not NaN."""
    found: Tensor = where((at == 0).logical_and(size.isfinite().logical_not()), 1.0, size)
    return found


@rule
def log(a: Pair) -> Pair:
    """The logarithm of the length, and the angle. Near length 1 it is half of log1p of the square
    less 1, of which no digit is lost."""
    x, y = a.real.abs(), a.imag.abs()
    greater, lesser = x.maximum(y), x.minimum(y)
    near = (greater > 0.5).logical_and(greater < 2)
    most, least = where(near, greater, 1.0), where(near, lesser, 0.0)
    within = ((most - 1) * (most + 1) + least.square()).log1p() / 2
    size = where(near, 1.0, a.real).hypot(where(near, 0.0, a.imag)).log()
    return Pair(where(near, within, size), a.imag.atan2(a.real))


@rule
def sqrt(a: Pair) -> Pair:
    """The root whose real part is not below 0. The greater part of it is a sum that loses no digit,
    the lesser one half of b over that. Magnitudes are taken by sign, so that their gradients are
    those of the side that a 0 is on; abs() has none there."""
    zero, right = is_zero(a), a.real >= 0
    real = where(zero, 1.0, a.real)
    greater = ((real.hypot(a.imag) + where(right, real, -real)) / 2).sqrt()
    sign = where(a.imag.detach().signbit(), -1.0, 1.0)
    lesser = where(a.imag.isinf(), greater, a.imag * sign / (2 * greater))
    real, imag = where(right, greater, lesser), where(right, lesser, greater) * sign
    return Pair(where(zero, 0.0, real), where(zero, a.imag, imag))


@rule
def sin(a: Pair) -> Pair:
    """sin a cosh b + i cos a sinh b."""
    return Pair(a.real.sin() * _no_part_of(a.imag.cosh(), a.real), a.real.cos() * a.imag.sinh())


@rule
def cos(a: Pair) -> Pair:
    """cos a cosh b - i sin a sinh b."""
    return Pair(a.real.cos() * a.imag.cosh(),
                -(a.real.sin() * _no_part_of(a.imag.sinh(), a.real)))


@rule
def sinh(a: Pair) -> Pair:
    """sinh a cos b + i cosh a sin b."""
    return Pair(a.real.sinh() * a.imag.cos(), _no_part_of(a.real.cosh(), a.imag) * a.imag.sin())


@rule
def cosh(a: Pair) -> Pair:
    """cosh a cos b + i sinh a sin b."""
    return Pair(a.real.cosh() * a.imag.cos(), _no_part_of(a.real.sinh(), a.imag) * a.imag.sin())


@rule
def tanh(a: Pair) -> Pair:
    """(t + i s sin b cos b) / (t^2 + s cos^2 b), with t = tanh a, and s = 1 / cosh^2 a by what does
    not overflow: with e to the -2 |a|."""
    t, small = a.real.tanh(), (-2 * a.real.abs()).exp()
    s = 4 * small / (1 + small).square()
    sine, cosine = a.imag.sin(), a.imag.cos()
    below = t.square() + s * cosine.square()
    return Pair(t / below, s * sine * cosine / below)


@rule
def tan(a: Pair) -> Pair:
    """-i tanh(ia)."""
    turned = tanh(Pair(-a.imag, a.real))
    return Pair(turned.imag, -turned.real)


@rule
def sigmoid(a: Pair) -> Pair:
    """1 / (1 + e^-a), by tanh of the half, which does not overflow."""
    half = tanh(Pair(a.real / 2, a.imag / 2))
    return Pair((half.real + 1) / 2, half.imag / 2)


@rule
def silu(a: Pair) -> Pair:
    """a sigmoid(a)."""
    return mul(a, sigmoid(a))


@rule
def expm1(a: Pair) -> Pair:
    """e^a - 1, of which the real part is expm1(a) cos b - 2 sin(b / 2)^2."""
    small = a.real.expm1() * a.imag.cos() - 2 * (a.imag / 2).sin().square()
    return Pair(small, exp(a).imag)


@rule
def log1p(a: Pair) -> Pair:
    """log(1 + a): where a is small, half of log1p(|1 + a|^2 - 1)."""
    x, y = a.real, a.imag
    near = x.abs().maximum(y.abs()) < 0.5
    small = (where(near, x, 0.0) * (where(near, x, 0.0) + 2) + where(near, y, 0.0).square()).log1p()
    size = where(near, 1.0, x + 1).hypot(where(near, 0.0, y)).log()
    return Pair(where(near, small / 2, size), y.atan2(x + 1))


@rule
def logaddexp(a: Pair, b: Pair) -> Pair:
    """log(e^a + e^b): the one with the greater real part, and log1p of e to the difference."""
    first = a.real >= b.real
    greater = Pair(where(first, a.real, b.real), where(first, a.second, b.second))
    lesser = Pair(where(first, b.real, a.real), where(first, b.second, a.second))
    more = log1p(exp(Pair(lesser.real - greater.real, lesser.imag - greater.imag)))
    return Pair(greater.real + more.real, greater.imag + more.imag)


FAR = 2.0 ** 30
"""From where on 1 - a^2 is -a^2, to all digits."""


def _roots(a: Pair) -> tuple[Pair, Pair, Any, Tensor]:
    """The roots of 1 - a and of 1 + a, of 1 where a is far out; where that is, and log 2|a|."""
    far = a.real.abs().maximum(a.imag.abs()) >= FAR
    x, y = where(far, 0.0, a.real), where(far, 0.0, a.imag)
    size = where(far, a.real, 1.0).hypot(where(far, a.imag, 0.0)).log() + math.log(2)
    return sqrt(Pair(1 - x, -y)), sqrt(Pair(1 + x, y)), far, size


@rule
def asin(a: Pair) -> Pair:
    """The angle whose sine is a."""
    minus, plus, far, size = _roots(a)
    below = where(far, a.imag.abs(), minus.real * plus.real - minus.imag * plus.imag)
    imag = (minus.real * plus.imag - minus.imag * plus.real).asinh()
    return Pair(a.real.atan2(below), where(far, size.copysign(a.imag), imag))


@rule
def acos(a: Pair) -> Pair:
    """The angle whose cosine is a."""
    minus, plus, far, size = _roots(a)
    real = where(far, a.imag.abs().atan2(a.real), 2 * minus.real.atan2(plus.real))
    imag = (plus.real * minus.imag - plus.imag * minus.real).asinh()
    return Pair(real, where(far, -size.copysign(a.imag), imag))


@rule
def acosh(a: Pair) -> Pair:
    """The number whose hyperbolic cosine is a: of those of acos, turned by a right angle, the one
    that is on the right."""
    turned = acos(a)
    down = a.imag.signbit()
    return Pair(where(down, turned.imag, -turned.imag), where(down, -turned.real, turned.real))


@rule
def asinh(a: Pair) -> Pair:
    """-i asin(ia), as sinh is of sin."""
    turned = asin(Pair(-a.imag, a.real))
    return Pair(turned.imag, -turned.real)


@rule
def atanh(a: Pair) -> Pair:
    """Half of log((1 + a) / (1 - a)), which is odd: for x = |real part| a quarter of log1p(4 x /
    |1 - a|^2), or half the log of the quotient where that is large; and half the angle."""
    sign = where(a.real.signbit(), -1.0, 1.0)
    x, y = a.real * sign, a.imag
    away = (1 - x).hypot(y)
    share = 4 * (where(x.isinf(), 1.0, x) / away) / away
    far = share > 1
    size = where(far, ((1 + x).hypot(y) / away).log() / 2, where(far, 0.0, share).log1p() / 4)
    return Pair(size * sign, (y.atan2(1 + a.real) - (-y).atan2(1 - a.real)) / 2)


@rule
def atan(a: Pair) -> Pair:
    """-i atanh(ia), as tanh is of tan."""
    turned = atanh(Pair(-a.imag, a.real))
    return Pair(turned.imag, -turned.real)


@rule
def power_of(a: Pair, b: Pair) -> Pair:
    """e to the b log a; 0 to what is right of 0 is 0, 0 to 0 is 1, and 0 to anything else NaN."""
    if isinstance(a.real, Tensor):
        zero = (a.real == 0).logical_and(a.second == 0) if a.imag is not None else a.real == 0
        base = log(Pair(where(zero, 1.0, a.real), a.real.new_zeros(a.real.shape)
                        if a.imag is None else a.imag))
    else:
        known = complex(a.real, a.second)
        zero = (b.real == b.real).logical_and(known == 0)
        base = Pair(math.log(abs(known or 1)), math.atan2(known.imag, known.real))
    turned = mul(base, b)
    found = _turned(turned.real.exp(), turned.imag)
    nothing = _power_of_0(b)
    return Pair(where(zero, nothing.real, found.real), where(zero, nothing.second, found.imag))


def _power_of_0(b: Pair) -> Pair:
    """0 to the power of b."""
    if not isinstance(b.real, Tensor):
        known = 0.0 if b.real > 0 else 1.0 if b.real == b.second == 0 else math.nan
        return Pair(known, 0.0 * known)
    none = (b.real == 0).logical_and(b.second == 0)
    real = where(none, 1.0, where(b.real > 0, 0.0, b.real.new_full((), math.nan)))
    return Pair(real, 0.0 * real)


# ---- forms ---------------------------------------------------------------------------------------

for _name, _others in (("exp", ()), ("expm1", ()), ("log", ()), ("log1p", ()), ("sqrt", ()),
                       ("sin", ()), ("cos", ()), ("tan", ()), ("sinh", ()), ("cosh", ()),
                       ("tanh", ()), ("sigmoid", ()), ("silu", ()),
                       ("asin", ("arcsin",)), ("acos", ("arccos",)), ("atan", ("arctan",)),
                       ("asinh", ("arcsinh",)), ("acosh", ("arccosh",)), ("atanh", ("arctanh",))):
    elementwise(_name, *_others)


@form("rsqrt")
def _rsqrt(self: Any) -> Any:
    return carry_out("reciprocal", carry_out("sqrt", self))


@form("log2")
def _log2(self: Any) -> Any:
    return carry_out("log", self) * (1 / math.log(2))


@form("log10")
def _log10(self: Any) -> Any:
    return carry_out("log", self) * (1 / math.log(10))


@form("logaddexp")
def _logaddexp(self: Any, other: Any) -> Any:
    return carry_out("logaddexp", self, other)


@form("exp2")
def _exp2(self: Any) -> Any:
    return carry_out("exp", self * math.log(2))


@form("sinc")
def _sinc(self: Any) -> Any:
    zero = self == 0
    turned = where(zero, 1.0, self * math.pi)
    return where(zero, 1.0, carry_out("sin", turned) / turned)


@form("logsumexp")
def _logsumexp(self: Any, dim: Any = None, keepdim: bool = False) -> Any:
    axes = tuple(range(self.ndim)) if dim is None else dim
    greatest = self.real.detach().amax(axes, keepdim=True)
    greatest = where(greatest.isfinite(), greatest, 0.0)
    total = carry_out("log", carry_out("exp", self - greatest).sum(axes, keepdim))
    return total + (greatest if keepdim else greatest.reshape(total.shape))


@form("dist")
def _dist(self: Any, other: Any, p: Any = 2) -> Any:
    return (self - other).norm(p)


@form("float_power")
def _float_power(self: Any, exponent: Any) -> Any:
    kind = dt.complex128
    return carry_out("power_of", *[x.to(dtype=kind) if isinstance(x, Tensor) else x
                                   for x in (self, exponent)])
