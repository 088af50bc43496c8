"""Arithmetic of complex numbers: its rules, and its forms."""
from __future__ import annotations

import math
from typing import Any

import numpy as np

from lazyten.frontend.complexes.computing import Pair, Part, carry_out, elementwise, form, rule
from lazyten.frontend.complexes.tensors import ComplexTensor, of_parts, pairs
from lazyten.frontend.core.forms import Complex
from lazyten.frontend.core.operands import tensors_given
from lazyten.frontend.functions import cat, ones_like, where
from lazyten.frontend.tensor import Tensor
from lazyten.ir import dtype as dt
from lazyten.operators.math import shapes
from lazyten.support.errors import DTypeError, ShapeError, not_complex

# ---- rules: parts in, parts out ------------------------------------------------------------------

@rule
def add(a: Pair, b: Pair) -> Pair:
    """The sum of each part."""
    return Pair(a.real + b.real, _sum(a.imag, b.imag))


@rule
def sub(a: Pair, b: Pair) -> Pair:
    """The difference of each part."""
    return Pair(a.real - b.real, a.second - b.second)


def _sum(a: Part, b: Part) -> Part:
    return b if a is None else a if b is None else a + b


@rule
def mul(a: Pair, b: Pair) -> Pair:
    """(a + bi)(c + di) = ac - bd + (ad + bc)i."""
    if b.imag is None or a.imag is None:
        one, other = (a, b) if b.imag is None else (b, a)
        return Pair(one.real * other.real, one.imag * other.real)
    return Pair(a.real * b.real - a.imag * b.imag, a.real * b.imag + a.imag * b.real)


@rule
def div(a: Pair, b: Pair) -> Pair:
    """a times the conjugate of b over |b| squared, both divided by b's greater part first, so that
    no square overflows. (The quotient is the same whatever they are divided by, so no gradient
    flows through that.) What is divided by an infinity is 0."""
    if b.imag is None:
        return Pair(a.real / b.real, a.second / b.real)
    scale = _greater(b.real, b.imag)
    c, d = _share(b.real, scale), _share(b.imag, scale)
    below = (c * c + d * d) * scale
    return Pair((a.real * c + a.second * d) / below, (a.second * c - a.real * d) / below)


def _greater(a: Part, b: Part) -> Part:
    """The greater magnitude of two parts."""
    if isinstance(a, Tensor) and isinstance(b, Tensor):
        return a.detach().abs().maximum(b.detach().abs())
    return max(abs(a), abs(b))


def _share(part: Part, greater: Part) -> Part:
    """A part over the greater of both: 1 where that is infinite, NaN where it is 0."""
    if isinstance(greater, Tensor):
        return where(greater == math.inf, 1.0, part / greater)
    return math.nan if greater == 0 else 1.0 if greater == math.inf else part / greater


@rule
def conj(a: Pair) -> Pair:
    """The imaginary part negated."""
    return Pair(a.real, -a.second)


@rule
def absolute(a: Pair) -> Tensor:
    """The length; its gradient at 0 is 0."""
    zero = is_zero(a)
    found: Tensor = where(zero, 0.0, where(zero, 1.0, a.real).hypot(a.imag))
    return found


@rule
def angle(a: Pair) -> Tensor:
    """The angle from the positive real axis; its gradient at 0 is 0."""
    zero = is_zero(a)
    there = a.imag.detach().atan2(a.real.detach())
    found: Tensor = where(zero, there, a.imag.atan2(where(zero, 1.0, a.real)))
    return found


def is_zero(a: Pair) -> Any:
    """Whether both parts are 0."""
    return (a.real == 0).logical_and(a.imag == 0)


@rule
def reciprocal(a: Pair) -> Pair:
    """1 over a."""
    return div(Pair(1.0), a)


@rule
def square(a: Pair) -> Pair:
    """a times a."""
    return Pair((a.real - a.imag) * (a.real + a.imag), 2 * a.real * a.imag)


@rule
def sgn(a: Pair) -> Pair:
    """a over its length; 0 for 0."""
    zero = is_zero(a)
    size = where(zero, 1.0, a.real).hypot(a.imag)
    return Pair(where(zero, 0.0, a.real / size), where(zero, 0.0, a.imag / size))


@rule
def same(a: Pair, b: Pair) -> Tensor:
    """Whether both parts are equal."""
    found: Tensor = (a.real == b.real).logical_and(a.second == b.second)
    return found


@rule
def put_together(a: Pair, b: Pair) -> Pair:
    """Two real numbers as the parts of one."""
    return Pair(a.real, b.real)


@rule
def chosen(a: Pair, b: Pair, mask: Tensor) -> Pair:
    """Parts of one or the other."""
    return Pair(where(mask, a.real, b.real), where(mask, a.second, b.second))


# ---- forms ---------------------------------------------------------------------------------------

for _name, _others in (("conj", ("conj_physical",)), ("reciprocal", ()), ("square", ()),
                       ("sgn", ())):
    elementwise(_name, *_others)


@form("__add__", "add")
def added(self: Any, other: Any, alpha: Any = 1) -> Any:
    """self + alpha * other."""
    return carry_out("add", self, other if type(alpha) is int and alpha == 1 else product(
        other, alpha))


@form("__radd__")
def _radd(self: Any, other: Any) -> Any:
    return added(other, self)


@form("__sub__", "sub", "subtract")
def subtracted(self: Any, other: Any, alpha: Any = 1) -> Any:
    """self - alpha * other."""
    for x in (self, other):
        if isinstance(x, Tensor) and x.dtype is dt.bool_:
            raise DTypeError("sub of a complex tensor and one of bool: convert it first, for "
                             "example with .long()")
    return carry_out("sub", self, other if type(alpha) is int and alpha == 1 else product(
        other, alpha))


@form("__rsub__", "rsub")
def _rsub(self: Any, other: Any, alpha: Any = 1) -> Any:
    return subtracted(other, self, alpha)


@form("__mul__", "__rmul__", "mul", "multiply")
def product(self: Any, other: Any) -> Any:
    """self * other."""
    if isinstance(self, Complex | Tensor) or isinstance(other, Complex | Tensor):
        return carry_out("mul", self, other)
    return self * other


@form("__truediv__", "div", "divide", "true_divide")
def quotient(self: Any, other: Any, *, rounding_mode: str | None = None) -> Any:
    """self / other."""
    if rounding_mode is not None:
        raise not_complex("div with a rounding_mode")
    return carry_out("div", self, other)


@form("__rtruediv__")
def _rdiv(self: Any, other: Any) -> Any:
    return quotient(other, self)


@form("__neg__", "neg", "negative")
def negated(self: Any) -> Any:
    """-self."""
    return of_parts(-self._parts)


@form("__pos__", "positive")
def _same(self: Any) -> Any:
    return self


@form("resolve_conj", "resolve_neg")
def _as_it_is(self: Any) -> Any:
    return self


@form("__pow__", "pow")
def power(self: Any, exponent: Any) -> Any:
    """self to the power of exponent; small whole numbers by products."""
    if isinstance(exponent, int | float) and exponent in (-2, -1, 0, 1, 2, 3, 4):
        if exponent < 0:
            return carry_out("reciprocal", power(self, -exponent))
        found = ones_like(self) if exponent == 0 else self
        for _ in range(int(exponent) - 1):
            found = carry_out("mul", found, self)
        return found.clone() if exponent == 1 else found
    if isinstance(exponent, float) and exponent == 0.5:
        return carry_out("sqrt", self)
    return carry_out("power_of", self, exponent)


@form("cumprod")
def _cumulative_product(self: Any, dim: int, dtype: Any = None) -> Any:
    found = self if dtype is None else self.to(dtype=dtype)
    if not self.ndim:
        return found.clone()
    axis, step = shapes.axis(dim, self.ndim, "cumprod"), 1
    while step < self.shape[axis]:  # products of 2, 4, 8, ... neighbours
        begun, rest = found.split([step, self.shape[axis] - step], axis)
        before = found.narrow(axis, 0, self.shape[axis] - step)
        found = cat([begun, carry_out("mul", rest, before)], axis)
        step *= 2
    return found


@form("__rpow__")
def _rpow(self: Any, other: Any) -> Any:
    return carry_out("power_of", other, self)


@form("__abs__", "abs", "absolute")
def length(self: Any) -> Tensor:
    """The length of each number: real."""
    found: Tensor = carry_out("absolute", self, gives="r")
    return found


@form("angle")
def _angle(self: Any) -> Any:
    return carry_out("angle", self, gives="r")


@form("real")
def _real(self: Any) -> Any:
    return self.real


@form("imag")
def _imag(self: Any) -> Any:
    if not isinstance(self, ComplexTensor):
        raise DTypeError("imag of a tensor that is not complex: it has no imaginary parts")
    return self.imag


@form("__eq__", "eq")
def equal_to(self: Any, other: Any) -> Any:
    """Whether each number is the same."""
    if not isinstance(other, Tensor | Complex | bool | int | float | complex | np.generic
                      | np.ndarray):
        return False
    return carry_out("same", self, other, gives="r")


@form("__ne__", "ne", "not_equal")
def _not_equal(self: Any, other: Any) -> Any:
    found = equal_to(self, other)
    return True if found is False else found.logical_not()


@form("isfinite")
def _isfinite(self: Any) -> Any:
    return self._parts.isfinite().all(-1)


@form("isnan")
def _isnan(self: Any) -> Any:
    return self._parts.isnan().any(-1)


@form("isinf")
def _isinf(self: Any) -> Any:
    return self._parts.isinf().any(-1)


@form("isreal")
def _isreal(self: Any) -> Any:
    return self.imag == 0


@form("isclose")
def _isclose(self: Any, other: Any, rtol: float = 1e-5, atol: float = 1e-8,
             equal_nan: bool = False) -> Any:
    tensors_given("isclose", self, other)
    if self.dtype is not other.dtype:
        raise DTypeError(f"isclose of {self.dtype.name} and {other.dtype.name}: convert one first")
    near = length(self - other) <= atol + rtol * length(other)
    near = near.logical_or(equal_to(self, other)).logical_and(
        _isfinite(other).logical_or(equal_to(self, other)))
    return near.logical_or(_isnan(self).logical_and(_isnan(other))) if equal_nan else near


@form("allclose")
def _allclose(self: Any, other: Any, rtol: float = 1e-5, atol: float = 1e-8,
              equal_nan: bool = False) -> bool:
    return bool(_isclose(self, other, rtol, atol, equal_nan).all())


@form("equal")
def _equal(self: Any, other: Any) -> bool:
    tensors_given("equal", self, other)
    return self.shape == other.shape and bool(equal_to(self, other).all())


@form("where")
def _where(condition: Any, input: Any = None, other: Any = None) -> Any:
    if isinstance(condition, ComplexTensor):
        raise not_complex("where with a complex condition")
    return carry_out("chosen", input, other, others=(condition,))


@form("Tensor.where")
def _this_where(self: Any, condition: Any, other: Any) -> Any:
    return _where(condition, self, other)


@form("masked_fill")
def _masked_fill(self: Any, mask: Any, value: Any) -> Any:
    if isinstance(value, Tensor) and value.ndim:
        raise ShapeError(f"masked_fill by a tensor of shape {value.shape}: give a number, or a "
                         f"zero-dim tensor")
    if not isinstance(self, ComplexTensor):
        raise DTypeError(f"masked_fill of {self.dtype.name} by a complex number: it does not fit; "
                         f"make the tensor complex first")
    return of_parts(where(mask.unsqueeze(-1), pairs(value, self), self._parts))
