"""In-place methods: each writes what the method of the same name without `_` gives.

The result must have this tensor's shape, and a dtype that fits in its own.
"""
from __future__ import annotations

from collections.abc import Callable
from typing import Any

from lazyten.frontend.methods.tensor_like import T, documented
from lazyten.ir.dtype import Scalar
from lazyten.ir.node import const
from lazyten.operators.arrays import strided
from lazyten.operators.math import shapes
from lazyten.support.errors import ShapeError


def _in_place(name: str) -> Callable[[T], T]:
    """The method `name`_, for a method without arguments."""
    def method(self: T) -> T:
        return self._update(f"{name}_", getattr(self, name)().node)
    return documented(method, f"{name}_", f"{name}, in place.")


def _in_place_of(name: str) -> Callable[..., Any]:
    """The method `name`_: method `name`, written to the tensor."""
    def method(self: T, *args: Any, **kwargs: Any) -> T:
        new = getattr(self, name)(*args, **kwargs)
        given = [a for a in (*args, *kwargs.values()) if isinstance(a, type(self))]
        return self._update(f"{name}_", new.node, *given)
    return documented(method, f"{name}_", f"{name}, in place.")


class InPlaceMethods:
    """Methods that write to the tensor, and so to all views of its storage."""

    __slots__ = ()

    abs_ = _in_place("abs")
    neg_ = _in_place("neg")
    sign_ = _in_place("sign")
    square_ = _in_place("square")
    exp_ = _in_place("exp")
    exp2_ = _in_place("exp2")
    expm1_ = _in_place("expm1")
    log_ = _in_place("log")
    log2_ = _in_place("log2")
    log10_ = _in_place("log10")
    log1p_ = _in_place("log1p")
    sqrt_ = _in_place("sqrt")
    rsqrt_ = _in_place("rsqrt")
    reciprocal_ = _in_place("reciprocal")
    sin_ = _in_place("sin")
    cos_ = _in_place("cos")
    tan_ = _in_place("tan")
    asin_ = _in_place("asin")
    acos_ = _in_place("acos")
    atan_ = _in_place("atan")
    sinh_ = _in_place("sinh")
    cosh_ = _in_place("cosh")
    asinh_ = _in_place("asinh")
    acosh_ = _in_place("acosh")
    atanh_ = _in_place("atanh")
    floor_ = _in_place("floor")
    ceil_ = _in_place("ceil")
    trunc_ = _in_place("trunc")
    round_ = _in_place_of("round")
    frac_ = _in_place("frac")
    erf_ = _in_place("erf")
    relu_ = _in_place("relu")
    sigmoid_ = _in_place("sigmoid")
    tanh_ = _in_place("tanh")
    logit_ = _in_place_of("logit")
    nan_to_num_ = _in_place_of("nan_to_num")
    bitwise_not_ = _in_place("bitwise_not")
    logical_not_ = _in_place("logical_not")
    rad2deg_ = _in_place("rad2deg")
    deg2rad_ = _in_place("deg2rad")
    floor_divide_ = _in_place_of("floor_divide")
    remainder_ = _in_place_of("remainder")
    fmod_ = _in_place_of("fmod")
    atan2_ = _in_place_of("atan2")
    hypot_ = _in_place_of("hypot")
    copysign_ = _in_place_of("copysign")
    lerp_ = _in_place_of("lerp")
    addcmul_ = _in_place_of("addcmul")
    addcdiv_ = _in_place_of("addcdiv")
    addmm_ = _in_place_of("addmm")
    addmv_ = _in_place_of("addmv")
    baddbmm_ = _in_place_of("baddbmm")
    masked_fill_ = _in_place_of("masked_fill")
    clamp_min_ = _in_place_of("clamp_min")
    clamp_max_ = _in_place_of("clamp_max")
    xlogy_ = _in_place_of("xlogy")
    heaviside_ = _in_place_of("heaviside")
    bitwise_and_ = _in_place_of("bitwise_and")
    bitwise_or_ = _in_place_of("bitwise_or")
    bitwise_xor_ = _in_place_of("bitwise_xor")
    bitwise_left_shift_ = _in_place_of("bitwise_left_shift")
    bitwise_right_shift_ = _in_place_of("bitwise_right_shift")
    logical_and_ = _in_place_of("logical_and")
    logical_or_ = _in_place_of("logical_or")
    logical_xor_ = _in_place_of("logical_xor")
    eq_ = _in_place_of("eq")
    ne_ = _in_place_of("ne")
    lt_ = _in_place_of("lt")
    le_ = _in_place_of("le")
    gt_ = _in_place_of("gt")
    ge_ = _in_place_of("ge")
    cumsum_ = _in_place_of("cumsum")
    cumprod_ = _in_place_of("cumprod")
    tril_ = _in_place_of("tril")
    triu_ = _in_place_of("triu")
    put_ = _in_place_of("put")
    index_copy_ = _in_place_of("index_copy")
    index_fill_ = _in_place_of("index_fill")
    scatter_ = _in_place_of("scatter")
    scatter_add_ = _in_place_of("scatter_add")
    scatter_reduce_ = _in_place_of("scatter_reduce")
    index_add_ = _in_place_of("index_add")
    masked_scatter_ = _in_place_of("masked_scatter")
    clip_ = _in_place_of("clip")
    erfc_, erfinv_ = _in_place("erfc"), _in_place("erfinv")
    lgamma_, digamma_ = _in_place("lgamma"), _in_place("digamma")
    sgn_, sinc_, fix_ = _in_place("sgn"), _in_place("sinc"), _in_place("fix")
    ldexp_, addr_, addbmm_ = _in_place_of("ldexp"), _in_place_of("addr"), _in_place_of("addbmm")
    subtract_, float_power_ = _in_place_of("subtract"), _in_place_of("float_power")
    absolute_, negative_ = abs_, neg_
    arcsin_, arccos_, arctan_, arctan2_ = asin_, acos_, atan_, atan2_
    arcsinh_, arccosh_, arctanh_ = asinh_, acosh_, atanh_
    greater_, greater_equal_, less_, less_equal_, not_equal_ = gt_, ge_, lt_, le_, ne_
    divide_, multiply_ = _in_place_of("divide"), _in_place_of("multiply")
    true_divide_ = _in_place_of("true_divide")
    __ifloordiv__, __imod__ = floor_divide_, remainder_
    __iand__, __ior__, __ixor__ = bitwise_and_, bitwise_or_, bitwise_xor_
    __ilshift__, __irshift__ = bitwise_left_shift_, bitwise_right_shift_

    def fill_diagonal_(self: T, fill_value: Scalar) -> T:
        """Set the elements whose positions on all axes are equal, in place."""
        if self.ndim != 2:
            raise ShapeError(f"fill_diagonal_ of shape {self.shape}: it is for 2 axes; fill "
                             f"diagonal() of the axes you mean")
        number = shapes.as_element(fill_value, self.dtype, "fill_diagonal_")
        line = self._moved(*strided.diagonal(self.shape, 0, 0, 1))
        line._update("fill_diagonal_", const(number, self.dtype, line.shape), replaces=True)
        return self
