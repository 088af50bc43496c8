"""Elementwise methods beyond the usual ones: a table, and those that need more than an operand."""
from __future__ import annotations

import math
from functools import reduce
from typing import Any, NamedTuple, Self, cast

from lazyten.frontend.core.functions import binary, check_divisor, combined, returned_by, unary
from lazyten.frontend.core.in_place import in_place
from lazyten.frontend.core.keywords import also_named, numbers_among
from lazyten.frontend.core.mixed_precision import WIDE, casting
from lazyten.frontend.core.tensor_core import Tensor, TensorCore
from lazyten.ir import dtype as dt
from lazyten.ir.dtype import DType, Scalar, as_dtype
from lazyten.ir.node import Node, const
from lazyten.operators.math import (
    bessel,
    composites,
    incomplete_gamma,
    number_parts,
    shapes,
    special,
    statistical_functions,
    zeta_functions,
)
from lazyten.operators.math import elementwise as ew
from lazyten.operators.math import inverse_functions as inverse
from lazyten.operators.math.shapes import Axes
from lazyten.support.errors import ArgumentError, DTypeError

HIGHEST = 160
"""Of polygamma's n, the factorial of which still fits, and of mvlgamma's p, its terms."""


@returned_by("frexp")
class SignificandAndExponent(NamedTuple):
    """What frexp gives."""

    mantissa: Any
    exponent: Any


class MathMethods(TensorCore[Tensor]):
    """Elementwise functions, and cumulative ones."""

    __slots__ = ()

    atan = arctan = unary("atan", inverse.atan, "The angle whose tangent is x.")
    atan_ = arctan_ = in_place(atan)
    asin = arcsin = unary("asin", inverse.asin, "The angle whose sine is x.", WIDE)
    asin_ = arcsin_ = in_place(asin)
    acos = arccos = unary("acos", inverse.acos, "The angle whose cosine is x.", WIDE)
    acos_ = arccos_ = in_place(acos)
    sinh = unary("sinh", inverse.sinh, "The hyperbolic sine.", WIDE)
    sinh_ = in_place(sinh)
    cosh = unary("cosh", inverse.cosh, "The hyperbolic cosine.", WIDE)
    cosh_ = in_place(cosh)
    asinh = arcsinh = unary("asinh", inverse.asinh, "The number whose sinh is x.")
    asinh_ = arcsinh_ = in_place(asinh)
    acosh = arccosh = unary("acosh", inverse.acosh, "The number >= 0 whose cosh is x.")
    acosh_ = arccosh_ = in_place(acosh)
    atanh = arctanh = unary("atanh", inverse.atanh, "The number whose tanh is x.")
    atanh_ = arctanh_ = in_place(atanh)
    erfc = unary("erfc", statistical_functions.erfc, "1 - erf(x), exact where it is small.")
    erfc_ = in_place(erfc)
    erfinv = unary("erfinv", statistical_functions.erfinv, "The number whose erf is x.")
    erfinv_ = in_place(erfinv)
    lgamma = unary("lgamma", statistical_functions.lgamma, "log(abs(gamma(x))).")
    lgamma_ = in_place(lgamma)
    digamma = unary("digamma", statistical_functions.digamma, "The derivative of lgamma.")
    digamma_ = in_place(digamma)
    sinc = unary("sinc", composites.sinc, "sin(pi x) / (pi x), and 1 at 0.")
    sinc_ = in_place(sinc)
    rad2deg = unary("rad2deg", composites.degrees, "Radians in degrees.")
    rad2deg_ = in_place(rad2deg)
    deg2rad = unary("deg2rad", composites.radians, "Degrees in radians.")
    deg2rad_ = in_place(deg2rad)
    frac = unary("frac", composites.frac, "x - trunc(x).")
    frac_ = in_place(frac)
    bitwise_not = unary("bitwise_not", ew.invert, "Every bit turned; logical not of bools.")
    bitwise_not_ = in_place(bitwise_not)
    absolute = unary("absolute", ew.absolute, "|x|.")
    negative = unary("negative", ew.negative, "-x.")
    fix = unary("fix", special.trunc, "x without its fraction.")
    fix_ = in_place(fix)
    sgn = unary("sgn", ew.sign, "-1, 0 or 1; NaN for NaN.")
    sgn_ = in_place(sgn)

    atan2 = arctan2 = binary("atan2", inverse.atan2, "The angle of the point (other, self).")
    atan2_ = arctan2_ = in_place(atan2)
    hypot = binary("hypot", inverse.hypot, "sqrt(self ** 2 + other ** 2).")
    hypot_ = in_place(hypot)
    logaddexp = binary("logaddexp", inverse.logaddexp, "log(e ** self + e ** other).")
    logaddexp2 = binary("logaddexp2", inverse.logaddexp2, "log2(2 ** self + 2 ** other).")

    def fmod(self, other: Any) -> Tensor:
        """What a division rounded towards 0 leaves: the sign of self; of integers by a tensor's 0,
        0. ArgumentError for integers by the number 0."""
        check_divisor(self, other, "fmod")
        return combined(self, "fmod", inverse.fmod, other)

    fmod_ = in_place(fmod)

    copysign = binary("copysign", inverse.copysign, "|self| with the sign of other.")
    copysign_ = in_place(copysign)
    xlogy = binary("xlogy", inverse.xlogy, "self * log(other), and 0 where self is 0.")
    xlogy_ = in_place(xlogy)
    heaviside = also_named(values="other")(binary(
        "heaviside", composites.heaviside, "0 below 0, 1 above, other at 0."))
    heaviside_ = in_place(heaviside)
    fmax = binary("fmax", composites.fmax, "The greater; a number rather than NaN.")
    fmin = binary("fmin", composites.fmin, "The lesser; a number rather than NaN.")
    multiply = binary("multiply", ew.mul, "self * other.")
    multiply_ = in_place(multiply)
    true_divide = binary("true_divide", ew.true_divide, "self / other in a float type.")
    true_divide_ = in_place(true_divide)
    greater = binary("greater", ew.greater, "self > other, as bool.")
    greater_equal = binary("greater_equal", ew.greater_equal, "self >= other, as bool.")
    less = binary("less", ew.less, "self < other, as bool.")
    less_equal = binary("less_equal", ew.less_equal, "self <= other, as bool.")
    not_equal = binary("not_equal", ew.not_equal, "self != other, as bool.")
    bitwise_and = binary("bitwise_and", ew.bitwise_and, "Bit by bit and.")
    bitwise_and_ = in_place(bitwise_and)
    bitwise_or = binary("bitwise_or", ew.bitwise_or, "Bit by bit or.")
    bitwise_or_ = in_place(bitwise_or)
    bitwise_xor = binary("bitwise_xor", ew.bitwise_xor, "Bit by bit exclusive or.")
    bitwise_xor_ = in_place(bitwise_xor)
    bitwise_left_shift = binary("bitwise_left_shift", ew.shift_left, "self * 2 ** other.")
    bitwise_left_shift_ = in_place(bitwise_left_shift)
    bitwise_right_shift = binary("bitwise_right_shift", ew.shift_right, "self // 2 ** other.")
    bitwise_right_shift_ = in_place(bitwise_right_shift)
    ldexp = binary("ldexp", inverse.ldexp, "self * 2 ** other, in floats.")
    ldexp_ = in_place(ldexp)
    gcd = binary("gcd", number_parts.gcd, "The greatest common divisor, of integers.")
    gcd_ = in_place(gcd)
    lcm = binary("lcm", number_parts.lcm, "The least common multiple, of integers.")
    lcm_ = in_place(lcm)
    nextafter = binary("nextafter", number_parts.nextafter, "The float beside self towards other.")
    nextafter_ = in_place(nextafter)
    angle = unary("angle", number_parts.angle, "pi for what is below 0, else 0; NaN for NaN.")

    __iand__, __ior__, __ixor__ = bitwise_and_, bitwise_or_, bitwise_xor_
    __ilshift__, __irshift__ = bitwise_left_shift_, bitwise_right_shift_

    def frexp(self) -> SignificandAndExponent:
        """(m, e) for which self is m * 2 ** e, |m| in [0.5, 1) and e int32."""
        if not self.dtype.is_float:
            raise DTypeError(f"frexp of {self.dtype.name}: it is for floats; convert with .float()")
        return SignificandAndExponent(self._special(number_parts.significand), self._fresh(
            number_parts.exponent(ew.wide(self.detach().node))))

    i0 = unary("i0", bessel.i0, "Bessel's modified function of the first kind, of order 0.")
    i0_ = in_place(i0)

    def polygamma(self, n: int) -> Tensor:
        """The n-th derivative of digamma. (The function is called polygamma(n, x).)"""
        order = shapes.as_int(n, "polygamma", "n")
        if not 0 <= order < HIGHEST:
            raise ArgumentError(f"polygamma: n={order}; give 0 to {HIGHEST}")
        return self._special(lambda x: zeta_functions.polygamma(order, x))

    polygamma_ = in_place(polygamma)

    igamma = binary("igamma", incomplete_gamma.gammainc,
                    "The regularized lower incomplete gamma function of a, which this is, and x: "
                    "gradients flow to both.")
    igamma_ = in_place(igamma)
    igammac = binary("igammac", incomplete_gamma.gammaincc,
                     "The upper one: 1 - igamma, exact where that is small.")
    igammac_ = in_place(igammac)

    def mvlgamma(self, p: int) -> Tensor:
        """The logarithm of the multivariate gamma function of dimension p: the sum over j < p of
        lgamma(x - j / 2), and p (p - 1) / 4 log pi."""
        count = shapes.as_int(p, "mvlgamma", "p")
        if not 1 <= count <= HIGHEST:
            raise ArgumentError(f"mvlgamma: p={count}; give 1 to {HIGHEST}")

        def total(x: Node) -> Node:
            terms = [statistical_functions.lgamma(ew.sub(ew.as_float(x), j / 2))
                     for j in range(count)]
            return ew.add(reduce(ew.add, terms), count * (count - 1) / 4 * math.log(math.pi))
        return self._special(total)

    mvlgamma_ = in_place(mvlgamma)

    def isposinf(self) -> Tensor:
        """Whether infinity."""
        return self._unary(lambda x: ew.equal(x, math.inf))

    def isneginf(self) -> Tensor:
        """Whether -infinity."""
        return self._unary(lambda x: ew.equal(x, -math.inf))

    def clamp_min(self, min: Any) -> Tensor:
        """At least min."""
        return combined(self, "clamp_min", lambda x, low: ew.clip(x, low, None), min)

    clamp_min_ = in_place(clamp_min)

    def clamp_max(self, max: Any) -> Tensor:
        """At most max."""
        return combined(self, "clamp_max", lambda x, high: ew.clip(x, None, high), max)

    clamp_max_ = in_place(clamp_max)

    def float_power(self, exponent: Any) -> Tensor:
        """self ** exponent in float64."""
        return combined(self, "float_power", composites.float_power, exponent)

    def float_power_(self, exponent: Any) -> Self:
        """float_power, in place: of float64 alone, which its results are."""
        if self.dtype is not dt.float64:
            raise DTypeError(f"float_power_ of {self.dtype.name}: its results are float64; use "
                             f"pow_, or float_power of a tensor")
        return self._update("float_power_", self.float_power(exponent).node)

    def rsub(self, other: Any, *, alpha: Scalar = 1) -> Tensor:
        """other - alpha * self."""
        number = shapes.as_number(alpha, "rsub", "alpha")
        return combined(self, "rsub", lambda x, y: composites.scaled_difference(y, x, number),
                        other)

    def positive(self) -> Self:
        """The tensor itself; bools have no sign."""
        if self.dtype is dt.bool_:
            raise DTypeError("positive of bool: it is for numbers")
        return self

    def subtract(self, other: Any, *, alpha: Scalar = 1) -> Tensor:
        """self - alpha * other."""
        number = shapes.as_number(alpha, "subtract", "alpha")
        return combined(self, "subtract", lambda x, y: composites.scaled_difference(x, y, number),
                        other)

    subtract_ = in_place(subtract)

    def isreal(self) -> Tensor:
        """Whether each element has no imaginary part: True everywhere in real tensors."""
        return self._fresh(const(True, dt.bool_, self.shape))

    def hardshrink(self, lambd: float = 0.5) -> Tensor:
        """x where it is further from 0 than lambd, else 0."""
        limit = shapes.as_float(lambd, "hardshrink", "lambd")
        return self._unary(lambda x: special.hardshrink(x, limit))

    def where(self, condition: Tensor, other: Any) -> Tensor:
        """self where the bool tensor `condition` holds, else other."""
        mask = self._tensor(condition, "where")
        return combined(self, "where", lambda x, c, y: ew.chosen(c, x, y), mask, other)

    def dist(self, other: Tensor, p: float = 2) -> Tensor:
        """(sum of |self - other| ** p) ** (1 / p); for p = inf the greatest."""
        power = float(shapes.as_number(p, "dist", "p"))
        return combined(self, "dist", lambda a, b: composites.distance(a, b, power),
                        self._tensor(other, "dist"))

    @casting(WIDE)
    def norm(self, p: Any = "fro", dim: Axes = None, keepdim: bool = False,
             dtype: DType | str | None = None) -> Tensor:
        """(sum of |x| ** p) ** (1 / p) over some axes, or all: p = 'fro' is 2; inf is the greatest
        and -inf the least of |x|, 0 the count of what is not 0. The gradient at 0 is 0. 'nuc': the
        sum of the singular values of the matrix in two axes."""
        if p == "nuc":
            return self._nuclear_norm(dim, keepdim, dtype)
        if isinstance(p, str) and p != "fro":
            raise ArgumentError(f"norm: p={p!r} is neither 'fro', 'nuc' nor a number")
        power = 2.0 if p is None or isinstance(p, str) else float(shapes.as_number(p, "norm", "p"))
        x = self if dtype is None else self._cast(as_dtype(dtype))
        axes = shapes.axes(dim, self.ndim, "norm")
        return x._unary(lambda node: composites.norm(node, power, axes, keepdim))

    def _nuclear_norm(self, dim: Axes, keepdim: bool, dtype: DType | str | None) -> Tensor:
        axes = shapes.axes(dim, self.ndim, "norm")
        if len(axes) != 2:
            raise ArgumentError(f"norm of shape {self.shape} with p='nuc' is of 2 axes, which hold "
                                f"matrices, not of {len(axes)}; give dim=")
        x: Any = self if dtype is None else self._cast(as_dtype(dtype))
        result = x.movedim(axes, (-2, -1)).svd().S.sum(-1)
        for axis in sorted(axes) if keepdim else ():
            result = result.unsqueeze(axis)
        return cast("Tensor", result)

    def signbit(self) -> Tensor:
        """Whether below 0, also -0.0."""
        return self._unary(inverse.signbit)

    def lerp(self, end: Tensor, weight: Any) -> Tensor:
        """self + weight * (end - self); weight is a number or a tensor."""
        return combined(self, "lerp", composites.lerp, self._tensor(end, "lerp"), weight)

    lerp_ = in_place(lerp)

    @numbers_among("value")
    def addcmul(self, tensor1: Tensor, tensor2: Tensor, *, value: Scalar = 1) -> Tensor:
        """self + value * tensor1 * tensor2."""
        number = shapes.as_number(value, "addcmul", "value")
        return combined(self, "addcmul", lambda x, a, b: composites.addcmul(x, a, b, number),
                        tensor1, tensor2)

    addcmul_ = in_place(addcmul)

    @numbers_among("value")
    def addcdiv(self, tensor1: Tensor, tensor2: Tensor, *, value: Scalar = 1) -> Tensor:
        """self + value * tensor1 / tensor2."""
        number = shapes.as_number(value, "addcdiv", "value")
        return combined(self, "addcdiv", lambda x, a, b: composites.addcdiv(x, a, b, number),
                        tensor1, tensor2)

    addcdiv_ = in_place(addcdiv)

    def nan_to_num(self, nan: Scalar = 0.0, posinf: Scalar | None = None,
                   neginf: Scalar | None = None) -> Tensor:
        """NaN and infinities replaced by numbers; None is the greatest (least) finite one."""
        for value in (nan, posinf, neginf):
            if value is not None:
                shapes.as_number(value, "nan_to_num", "what takes the place")
        return self._unary(lambda x: composites.nan_to_num(x, nan, posinf, neginf))

    nan_to_num_ = in_place(nan_to_num)

    def isclose(self, other: Tensor, rtol: float = 1e-5, atol: float = 1e-8,
                equal_nan: bool = False) -> Tensor:
        """Whether |self - other| <= atol + rtol * |other|, element by element."""
        return combined(self, "isclose", lambda a, b: composites.isclose(
            a, b, rtol, atol, equal_nan), self._tensor(other, "isclose"))

    def logit(self, eps: float | None = None) -> Tensor:
        """log(x / (1 - x)), of x held between eps and 1 - eps: where x is below eps, that is eps,
        also if eps is above .5."""
        if eps is None:
            return self._special(composites.logit)
        least = shapes.as_float(eps, "logit", "eps")
        if least <= 0.5:
            return self._special(lambda x: composites.logit(ew.clip(x, least, 1 - least)))
        return self._special(lambda x: composites.logit(ew.where(
            ew.less(x, least), least,
            ew.where(ew.greater(x, 1 - least), 1 - least, ew.as_float(x)))))

    logit_ = in_place(logit)
