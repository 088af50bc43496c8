"""Arithmetic and its operators, with and without writing in place."""
from __future__ import annotations

from collections.abc import Callable
from typing import Any, Self

from lazyten.frontend.core.functions import check_divisor, combined
from lazyten.frontend.core.handle import Handle
from lazyten.frontend.core.in_place import in_place
from lazyten.frontend.core.mixed_precision import WIDE, casting
from lazyten.frontend.core.tensor_core import Tensor, TensorCore
from lazyten.ir import dtype as dt
from lazyten.ir.dtype import Scalar
from lazyten.ir.node import Node
from lazyten.operators.math import composites, shapes
from lazyten.operators.math import elementwise as ew
from lazyten.support.errors import ArgumentError


class ArithmeticMethods(TensorCore[Tensor]):
    """Sums, products, powers and remainders."""

    __slots__ = ()

    def add(self, other: Any, alpha: Scalar = 1) -> Tensor:
        """self + alpha * other, broadcast and promoted."""
        return self._binary("add", *_scaled(composites.scaled_sum, alpha, other, "add"))

    def sub(self, other: Any, alpha: Scalar = 1) -> Tensor:
        """self - alpha * other, broadcast and promoted."""
        return self._binary("sub", *_scaled(composites.scaled_difference, alpha, other, "sub"))

    def mul(self, other: Any) -> Tensor:
        """self * other, broadcast and promoted."""
        return self._binary("mul", ew.mul, other)

    def div(self, other: Any, *, rounding_mode: str | None = None) -> Tensor:
        """self / other in a float type; see divide for rounding_mode."""
        if rounding_mode is not None:
            return self.divide(other, rounding_mode)
        return self._binary("div", ew.true_divide, other)

    def divide(self, other: Any, rounding_mode: str | None = None) -> Tensor:
        """self / other; rounding_mode 'floor' or 'trunc' rounds, and keeps integers."""
        if rounding_mode not in (None, "floor", "trunc"):
            raise ArgumentError(f"divide: rounding_mode={rounding_mode!r} is not None, 'floor' or "
                                f"'trunc'")
        if rounding_mode is not None:
            check_divisor(self, other, f"divide(rounding_mode={rounding_mode!r})")
        return combined(self, "divide", lambda a, b: composites.rounded_quotient(
            a, b, rounding_mode), other)

    divide_ = in_place(divide)

    def floor_divide(self, other: Any) -> Tensor:
        """The greatest whole numbers <= self / other; of integers by a tensor's 0, 0. ArgumentError
        for integers by the number 0."""
        check_divisor(self, other, "floor_divide")
        return self._binary("floor_divide", ew.floor_divide, other)

    floor_divide_ = in_place(floor_divide)

    def remainder(self, other: Any) -> Tensor:
        """self - floor_divide(self, other) * other: the sign of other; of integers by a tensor's 0,
        0. ArgumentError for integers by the number 0."""
        check_divisor(self, other, "remainder")
        return self._binary("remainder", ew.remainder, other)

    remainder_ = in_place(remainder)

    @casting(WIDE)
    def pow(self, exponent: Any) -> Tensor:
        """self to the power of exponent."""
        return self._binary("pow", ew.power, exponent)

    def maximum(self, other: Any) -> Tensor:
        """The greater of each pair; NaN if either is."""
        return self._binary("maximum", ew.maximum, other)

    def minimum(self, other: Any) -> Tensor:
        """The lesser of each pair; NaN if either is."""
        return self._binary("minimum", ew.minimum, other)

    __add__, __sub__, __truediv__ = add, sub, div

    __floordiv__, __mod__, __pow__ = floor_divide, remainder, pow

    def __radd__(self, other: Any) -> Tensor:
        return self._binary("add", ew.add, other, swapped=True)

    def __rsub__(self, other: Any) -> Tensor:
        return self._binary("sub", composites.difference, other, swapped=True)

    def __mul__(self, other: Any) -> Tensor:
        return NotImplemented if self._repeats(other) else self._binary("mul", ew.mul, other)

    def __rmul__(self, other: Any) -> Tensor:
        return NotImplemented if self._repeats(other) else \
            self._binary("mul", ew.mul, other, swapped=True)

    def _repeats(self, other: Any) -> bool:
        """Whether a product is Python's: a sequence so many times as one whole number says."""
        return isinstance(other, list | tuple | str | bytes) and self.numel() == 1 \
            and dt.category(self.dtype) < 2

    def __rtruediv__(self, other: Any) -> Tensor:
        return self._binary("div", ew.true_divide, other, swapped=True)

    __rdiv__ = __rtruediv__

    def __rfloordiv__(self, other: Any) -> Tensor:
        return self._binary("floor_divide", ew.floor_divide, other, swapped=True)

    def __rmod__(self, other: Any) -> Tensor:
        return self._binary("remainder", ew.remainder, other, swapped=True)

    @casting(WIDE)
    def __rpow__(self, other: Any) -> Tensor:
        return self._binary("pow", ew.power, other, swapped=True)

    def __neg__(self) -> Tensor:
        return self._unary(ew.negative)

    def __pos__(self) -> Self:
        return self

    def __abs__(self) -> Tensor:
        return self._unary(ew.absolute)

    def neg(self) -> Tensor:
        """-self; the least integer stays itself."""
        return self._unary(ew.negative)

    neg_ = negative_ = in_place(neg)

    def abs(self) -> Tensor:
        """|self|; the least integer stays itself. The gradient at 0 is 0."""
        return self._unary(ew.absolute)

    abs_ = absolute_ = in_place(abs)

    def sign(self) -> Tensor:
        """-1, 0 or 1; NaN for NaN."""
        return self._unary(ew.sign)

    sign_ = in_place(sign)

    # ---- in place --------------------------------------------------------------------------------

    def add_(self, other: Any, alpha: Scalar = 1) -> Self:
        """self += alpha * other, in place."""
        return self._in_place("add_", *_scaled(composites.scaled_sum, alpha, other, "add_"))

    def sub_(self, other: Any, alpha: Scalar = 1) -> Self:
        """self -= alpha * other, in place."""
        return self._in_place("sub_", *_scaled(composites.scaled_difference, alpha, other, "sub_"))

    def mul_(self, other: Any) -> Self:
        """self *= other, in place."""
        return self._in_place("mul_", ew.mul, other)

    def div_(self, other: Any, *, rounding_mode: str | None = None) -> Self:
        """self /= other, in place; see divide for rounding_mode."""
        if rounding_mode is None:
            return self._in_place("div_", ew.true_divide, other)
        quotient = self.divide(other, rounding_mode)
        return self._update("div_", quotient.node, quotient)

    def pow_(self, exponent: Any) -> Self:
        """self **= exponent, in place."""
        return self._in_place("pow_", ew.power, exponent)

    __iadd__, __isub__, __imul__, __itruediv__, __ipow__ = add_, sub_, mul_, div_, pow_

    __ifloordiv__, __imod__ = floor_divide_, remainder_


def _scaled(function: Callable[[Any, Any, Scalar], Node], alpha: Any, other: Any,
            operation: str) -> tuple[Callable[[Any, Any], Node], Any]:
    """A function of two operands with the factor of the second, and the second. A tensor as the
    factor, which need not be known yet, is multiplied with it first."""
    if isinstance(alpha, Handle):
        return lambda a, b: function(a, b, 1), alpha * other
    factor = shapes.as_number(alpha, operation, "alpha")
    return lambda a, b: function(a, b, factor), other
