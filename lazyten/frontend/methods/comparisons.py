"""Comparisons, logic and bits, and what is chosen by them."""
from __future__ import annotations

from typing import Any

from lazyten.frontend.core.handle import Handle
from lazyten.frontend.core.in_place import in_place
from lazyten.frontend.core.operands import is_comparable, node_of
from lazyten.frontend.core.tensor_core import Tensor, TensorCore
from lazyten.ir import dtype as dt
from lazyten.operators.math import elementwise as ew
from lazyten.operators.math import shapes
from lazyten.support.errors import ArgumentError, DTypeError


class ComparisonMethods(TensorCore[Tensor]):
    """Comparing, combining truths and bits, and holding between limits."""

    __slots__ = ()
    __hash__ = TensorCore.__hash__  # which __eq__ would take away

    def eq(self, other: Any) -> Tensor:
        """self == other, as bool."""
        return self._binary("eq", ew.equal, other)

    eq_ = in_place(eq)

    def ne(self, other: Any) -> Tensor:
        """self != other, as bool."""
        return self._binary("ne", ew.not_equal, other)

    ne_ = not_equal_ = in_place(ne)

    def lt(self, other: Any) -> Tensor:
        """self < other, as bool."""
        return self._binary("lt", ew.less, other)

    lt_ = less_ = in_place(lt)

    def le(self, other: Any) -> Tensor:
        """self <= other, as bool."""
        return self._binary("le", ew.less_equal, other)

    le_ = less_equal_ = in_place(le)

    def gt(self, other: Any) -> Tensor:
        """self > other, as bool."""
        return self._binary("gt", ew.greater, other)

    gt_ = greater_ = in_place(gt)

    def ge(self, other: Any) -> Tensor:
        """self >= other, as bool."""
        return self._binary("ge", ew.greater_equal, other)

    ge_ = greater_equal_ = in_place(ge)

    __lt__, __le__, __gt__, __ge__ = lt, le, gt, ge

    def __eq__(self, other: object) -> Tensor:  # type: ignore[override]  # elementwise, as in NumPy
        return self.eq(other) if is_comparable(other) else NotImplemented

    def __ne__(self, other: object) -> Tensor:  # type: ignore[override]  # elementwise, as in NumPy
        return self.ne(other) if is_comparable(other) else NotImplemented

    def __contains__(self, element: Any) -> bool:
        equal = self == element
        if isinstance(equal, bool):
            raise DTypeError(f"{element!r:.60} in a tensor: give a number or a tensor")
        return bool(equal.any())

    def __and__(self, other: Any) -> Tensor:
        return self._binary("bitwise_and", ew.bitwise_and, other)

    def __or__(self, other: Any) -> Tensor:
        return self._binary("bitwise_or", ew.bitwise_or, other)

    def __xor__(self, other: Any) -> Tensor:
        return self._binary("bitwise_xor", ew.bitwise_xor, other)

    __rand__, __ror__, __rxor__ = __and__, __or__, __xor__

    def __invert__(self) -> Tensor:
        return self._unary(ew.invert)

    def __lshift__(self, other: Any) -> Tensor:
        return self._binary("bitwise_left_shift", ew.shift_left, other)

    def __rshift__(self, other: Any) -> Tensor:
        return self._binary("bitwise_right_shift", ew.shift_right, other)

    def __rlshift__(self, other: Any) -> Tensor:
        return self._binary("bitwise_left_shift", ew.shift_left, other, swapped=True)

    def __rrshift__(self, other: Any) -> Tensor:
        return self._binary("bitwise_right_shift", ew.shift_right, other, swapped=True)

    def logical_not(self) -> Tensor:
        """Whether 0."""
        return self._unary(lambda x: ew.invert(ew.as_bool(x)))

    logical_not_ = in_place(logical_not)

    def logical_and(self, other: Any) -> Tensor:
        """Whether both are not 0."""
        return self._binary("logical_and", ew.logical_and, other)

    logical_and_ = in_place(logical_and)

    def logical_or(self, other: Any) -> Tensor:
        """Whether one is not 0."""
        return self._binary("logical_or", ew.logical_or, other)

    logical_or_ = in_place(logical_or)

    def logical_xor(self, other: Any) -> Tensor:
        """Whether exactly one is not 0."""
        return self._binary("logical_xor", ew.logical_xor, other)

    logical_xor_ = in_place(logical_xor)

    def isnan(self) -> Tensor:
        """Whether NaN."""
        return self._unary(lambda x: ew.not_equal(x, x))

    def isinf(self) -> Tensor:
        """Whether infinite, of either sign."""
        return self._unary(lambda x: ew.equal(ew.absolute(x), float("inf")))

    def isfinite(self) -> Tensor:
        """Whether neither infinite nor NaN."""
        return self._unary(lambda x: ew.less(ew.absolute(x), float("inf")))

    def clamp(self, min: Any = None, max: Any = None) -> Tensor:
        """The elements held between min and max, numbers or tensors; NaN stays."""
        if min is None and max is None:
            raise ArgumentError("clamp: give min, max or both")
        low, high = [None if b is None else self._operand_here(b, "clamp") for b in (min, max)]
        shapes.broadcast([t.shape for t in (self, low, high) if isinstance(t, Handle)], "clamp")
        node = ew.clip(self.node, None if low is None else node_of(low),
                       None if high is None else node_of(high))
        return self._result(node, self, *[b for b in (low, high) if isinstance(b, Handle)])

    clamp_ = clip_ = in_place(clamp)

    clip = clamp

    def masked_fill(self, mask: Tensor, value: Any) -> Tensor:
        """`value`, a number or a zero-dim tensor, where the bool mask holds, else the elements."""
        chosen = self._tensor(mask, "masked_fill").node
        if chosen.dtype is not dt.bool_:
            raise DTypeError(f"masked_fill: the mask is {chosen.dtype.name}; make it bool first, "
                             f"for example with `mask != 0`")
        shapes.broadcast([self.shape, chosen.shape], "masked_fill")
        number = self._element(value, "masked_fill")
        element = ew.fitting(node_of(number), self.dtype, "masked_fill")
        node = ew.where(chosen, ew.as_node(element, self.dtype, ()), self.node)
        return self._result(node, self, mask, *([number] if isinstance(number, Handle) else []))

    masked_fill_ = in_place(masked_fill)
