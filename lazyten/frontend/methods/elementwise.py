"""The usual functions of each element, and softmax."""
from __future__ import annotations

from collections.abc import Callable
from typing import Any, Self

from lazyten.frontend.core.handle import DTypeLike
from lazyten.frontend.core.in_place import in_place
from lazyten.frontend.core.mixed_precision import WIDE, casting
from lazyten.frontend.core.tensor_core import Tensor, TensorCore
from lazyten.operators.math import losses, shapes, special
from lazyten.support.errors import ArgumentError, DTypeError, GradientError


class ElementwiseMethods(TensorCore[Tensor]):
    """Powers, logarithms, angles, rounding and activations."""

    __slots__ = ()

    @casting(WIDE)
    def exp(self) -> Tensor:
        """e to the power of each element."""
        return self._special(special.exp)

    exp_ = in_place(exp)

    def exp2(self) -> Tensor:
        """2 to the power of each element."""
        return self._special(special.exp2)

    exp2_ = in_place(exp2)

    @casting(WIDE)
    def expm1(self) -> Tensor:
        """exp(x) - 1, also for small x."""
        return self._special(special.expm1)

    expm1_ = in_place(expm1)

    @casting(WIDE)
    def log(self) -> Tensor:
        """The natural logarithm."""
        return self._special(special.log)

    log_ = in_place(log)

    @casting(WIDE)
    def log2(self) -> Tensor:
        """The logarithm to base 2."""
        return self._special(special.log2)

    log2_ = in_place(log2)

    @casting(WIDE)
    def log10(self) -> Tensor:
        """The logarithm to base 10."""
        return self._special(special.log10)

    log10_ = in_place(log10)

    @casting(WIDE)
    def log1p(self) -> Tensor:
        """log(1 + x), also for small x."""
        return self._special(special.log1p)

    log1p_ = in_place(log1p)

    def sqrt(self) -> Tensor:
        """The square root."""
        return self._special(special.sqrt)

    sqrt_ = in_place(sqrt)

    @casting(WIDE)
    def rsqrt(self) -> Tensor:
        """1 / sqrt(x)."""
        return self._special(special.rsqrt)

    rsqrt_ = in_place(rsqrt)

    @casting(WIDE)
    def reciprocal(self) -> Tensor:
        """1 / x."""
        return self._special(special.reciprocal)

    reciprocal_ = in_place(reciprocal)

    def square(self) -> Tensor:
        """x * x."""
        return self._unary(special.square)

    square_ = in_place(square)

    def sin(self) -> Tensor:
        """The sine of radians."""
        return self._special(special.sin)

    sin_ = in_place(sin)

    def cos(self) -> Tensor:
        """The cosine of radians."""
        return self._special(special.cos)

    cos_ = in_place(cos)

    @casting(WIDE)
    def tan(self) -> Tensor:
        """The tangent of radians."""
        return self._special(special.tan)

    tan_ = in_place(tan)

    def floor(self) -> Tensor:
        """The greatest whole number <= x."""
        return self._unary(special.floor)

    floor_ = in_place(floor)

    def ceil(self) -> Tensor:
        """The least whole number >= x."""
        return self._unary(special.ceil)

    ceil_ = in_place(ceil)

    def trunc(self) -> Tensor:
        """x without its fraction."""
        return self._unary(special.trunc)

    trunc_ = in_place(trunc)

    def round(self, *, decimals: int = 0) -> Tensor:
        """The nearest number of so many decimals (below 0: of zeros), halves to the even one."""
        places = shapes.as_int(decimals, "round", "decimals")
        return self._unary(lambda x: special.rounded(x, places))

    round_ = in_place(round)

    def erf(self) -> Tensor:
        """The error function."""
        return self._special(special.erf)

    erf_ = in_place(erf)

    def relu(self) -> Tensor:
        """max(x, 0)."""
        return self._unary(special.relu)

    relu_ = in_place(relu)

    def sigmoid(self) -> Tensor:
        """1 / (1 + e ** -x)."""
        return self._special(special.sigmoid)

    sigmoid_ = in_place(sigmoid)

    def tanh(self) -> Tensor:
        """The hyperbolic tangent."""
        return self._special(special.tanh)

    tanh_ = in_place(tanh)

    def gelu(self, approximate: str = "none") -> Tensor:
        """x times the normal distribution function at x; approximate='tanh' for the formula with
        tanh."""
        if approximate not in ("none", "tanh"):
            raise ArgumentError(f"gelu: approximate={approximate!r} is neither 'none' nor 'tanh'")
        return self._special(lambda x: special.gelu(x, approximate == "tanh"))

    def silu(self) -> Tensor:
        """x * sigmoid(x)."""
        return self._special(special.silu)

    @casting(WIDE)
    def softmax(self, dim: int, dtype: DTypeLike | None = None) -> Tensor:
        """e ** x over its sum along an axis, in the same shape; the greatest is taken off first, so
        that nothing overflows. dtype: what x is converted to first."""
        axis = shapes.axis(dim, self.ndim, "softmax")
        return self._as_floats(dtype, "softmax")._unary(
            lambda x: losses.softmax(x, axis))

    @casting(WIDE)
    def log_softmax(self, dim: int, dtype: DTypeLike | None = None) -> Tensor:
        """The logarithm of softmax."""
        axis = shapes.axis(dim, self.ndim, "log_softmax")
        return self._as_floats(dtype, "log_softmax")._unary(
            lambda x: losses.log_softmax(x, axis))

    # ---- functions of Python: a call for each element --------------------------------------------

    def apply_(self, callable: Callable[[Any], Any]) -> Self:
        """Write callable(x) in place of each element x, a number of Python. Slow: computes the
        tensor, and calls the function once an element. GradientError where gradients are wanted."""
        return self._called("apply_", callable)

    def map_(self, tensor: Tensor, callable: Callable[[Any, Any], Any]) -> Self:
        """The same of callable(x, y), with the elements y of another tensor, which broadcasts."""
        return self._called("map_", callable, tensor)

    def map2_(self, x: Tensor, y: Tensor, callable: Callable[[Any, Any, Any], Any]) -> Self:
        """The same of callable(a, b, c), with the elements of two others."""
        return self._called("map2_", callable, x, y)

    def _called(self, operation: str, function: Callable[..., Any], *others: Any) -> Self:
        if not callable(function):
            raise DTypeError(f"{operation}: {function!r:.60} is no function of numbers")
        given = [self._tensor(other, operation) for other in others]
        if any(t.requires_grad for t in (self, *given)):
            raise GradientError(f"{operation} of tensors that require gradients: none flow through "
                                f"a function of Python; use detach()")
        broadcast = [t.expand(self.shape) for t in given]
        values = [t.flatten().tolist() for t in (self, *broadcast)]
        made = self._copy_of([*map(function, *values)], self.dtype, self.device)
        return self.copy_(made.reshape(self.shape))
