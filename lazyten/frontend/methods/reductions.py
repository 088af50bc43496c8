"""Reductions and cumulative functions, as methods."""
from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, overload

from lazyten.frontend.core.mixed_precision import WIDE, casting
from lazyten.frontend.methods.in_place import in_place
from lazyten.frontend.methods.tensor_like import T, ValuesAndIndices, combined
from lazyten.ir import dtype as dt
from lazyten.ir.dtype import DType
from lazyten.ir.node import Node, const, gather
from lazyten.operators.arrays import arrangements
from lazyten.operators.math import elementwise as ew
from lazyten.operators.math import reductions, scans, shapes
from lazyten.operators.math.shapes import Axes


class LeastAndGreatest(NamedTuple):
    """What aminmax gives."""

    min: Any
    max: Any


class ReductionMethods:
    """Sums, extremes and statistics over some axes, or all."""

    __slots__ = ()

    @casting(WIDE)
    def sum(self: T, dim: Axes = None, keepdim: bool = False, dtype: Any = None) -> T:
        """The sum over some axes, or all. Integers and bools are summed in int64."""
        return _reduced(self, "sum", reductions.sum, dim, keepdim, _type(dtype))

    @casting(WIDE)
    def prod(self: T, dim: Axes = None, keepdim: bool = False, dtype: Any = None) -> T:
        """The product over some axes, or all. Integers and bools are multiplied in int64."""
        return _reduced(self, "prod", reductions.prod, dim, keepdim, _type(dtype))

    def mean(self: T, dim: Axes = None, keepdim: bool = False, dtype: Any = None) -> T:
        """The mean over some axes, or all; of floats, or in the float type `dtype`."""
        return _reduced(_as(self, dtype), "mean", reductions.mean, dim, keepdim)

    def nansum(self: T, dim: Axes = None, keepdim: bool = False, dtype: Any = None) -> T:
        """The sum without NaN."""
        return _reduced(self, "nansum", lambda x, axes: reductions.sum(
            arrangements.without_nan(x), axes, keepdim, _type(dtype)), dim)

    def nanmean(self: T, dim: Axes = None, keepdim: bool = False, dtype: Any = None) -> T:
        """The mean without NaN."""
        return _reduced(_as(self, dtype), "nanmean", arrangements.nan_mean, dim, keepdim)

    def var(self: T, dim: Axes = None, correction: float | None = 1, keepdim: bool = False, *,
            unbiased: bool | None = None) -> T:
        """The variance over some axes, or all: squared distances over count - correction. A bool,
        `unbiased`, in place of dim or of correction says whether the correction is 1."""
        axes, number = reductions.freedom(dim, correction, unbiased, "var")
        return _reduced(self, "var", reductions.var, axes, keepdim, number)

    def std(self: T, dim: Axes = None, correction: float | None = 1, keepdim: bool = False, *,
            unbiased: bool | None = None) -> T:
        """The square root of the variance."""
        axes, number = reductions.freedom(dim, correction, unbiased, "std")
        return _reduced(self, "std", reductions.std, axes, keepdim, number)

    def var_mean(self: T, dim: Axes = None, correction: float | None = 1, keepdim: bool = False, *,
                 unbiased: bool | None = None) -> tuple[T, T]:
        """(variance, mean) over some axes, or all."""
        axes, number = reductions.freedom(dim, correction, unbiased, "var_mean")
        return (_reduced(self, "var_mean", reductions.var, axes, keepdim, number),
                _reduced(self, "var_mean", reductions.mean, axes, keepdim))

    def std_mean(self: T, dim: Axes = None, correction: float | None = 1, keepdim: bool = False, *,
                 unbiased: bool | None = None) -> tuple[T, T]:
        """(standard deviation, mean) over some axes, or all."""
        axes, number = reductions.freedom(dim, correction, unbiased, "std_mean")
        return (_reduced(self, "std_mean", reductions.std, axes, keepdim, number),
                _reduced(self, "std_mean", reductions.mean, axes, keepdim))

    def logsumexp(self: T, dim: Axes = None, keepdim: bool = False) -> T:
        """log(sum(e ** x)) over some axes, safe for large x."""
        return _reduced(self, "logsumexp", reductions.logsumexp, dim, keepdim)

    def any(self: T, dim: Axes = None, keepdim: bool = False) -> T:
        """Whether any is not 0; of uint8 1 or 0 in uint8."""
        return _truth(_reduced(self, "any", reductions.any, dim, keepdim), self)

    def all(self: T, dim: Axes = None, keepdim: bool = False) -> T:
        """Whether all are not 0; of uint8 1 or 0 in uint8."""
        return _truth(_reduced(self, "all", reductions.all, dim, keepdim), self)

    # ---- extremes --------------------------------------------------------------------------------

    def amax(self: T, dim: Axes = None, keepdim: bool = False) -> T:
        """The greatest over some axes, or all; equal ones share the gradient evenly."""
        return _reduced(self, "amax", reductions.amax, dim, keepdim)

    def amin(self: T, dim: Axes = None, keepdim: bool = False) -> T:
        """The least over some axes, or all; equal ones share the gradient evenly."""
        return _reduced(self, "amin", reductions.amin, dim, keepdim)

    def aminmax(self: T, dim: int | None = None, keepdim: bool = False) -> LeastAndGreatest:
        """The least and the greatest, over an axis or all."""
        return LeastAndGreatest(_reduced(self, "aminmax", reductions.amin, dim, keepdim),
                                _reduced(self, "aminmax", reductions.amax, dim, keepdim))

    @overload
    def max(self: T, dim: None = None, keepdim: bool = False) -> T: ...
    @overload
    def max(self: T, dim: int, keepdim: bool = False) -> ValuesAndIndices[T]: ...
    @overload
    def max(self: T, dim: T) -> T: ...

    def max(self: T, dim: Any = None, keepdim: bool = False, *,
            other: Any = None) -> T | ValuesAndIndices[T]:
        """The greatest of all; along one axis (values, indices) of the first greatest; with another
        tensor, maximum()."""
        return _extreme(self, dim if other is None else other, keepdim, False)

    @overload
    def min(self: T, dim: None = None, keepdim: bool = False) -> T: ...
    @overload
    def min(self: T, dim: int, keepdim: bool = False) -> ValuesAndIndices[T]: ...
    @overload
    def min(self: T, dim: T) -> T: ...

    def min(self: T, dim: Any = None, keepdim: bool = False, *,
            other: Any = None) -> T | ValuesAndIndices[T]:
        """The least of all; along one axis (values, indices) of the first least; with another
        tensor, minimum()."""
        return _extreme(self, dim if other is None else other, keepdim, True)

    def argmax(self: T, dim: int | None = None, keepdim: bool = False) -> T:
        """The index of the first greatest along an axis, or in row-major order; int64."""
        axis = None if dim is None else shapes.axis(dim, self.ndim, "argmax")
        return self._unary(lambda x: reductions.arg_extreme(x, axis, keepdim, False))

    def argmin(self: T, dim: int | None = None, keepdim: bool = False) -> T:
        """The index of the first least along an axis, or in row-major order; int64."""
        axis = None if dim is None else shapes.axis(dim, self.ndim, "argmin")
        return self._unary(lambda x: reductions.arg_extreme(x, axis, keepdim, True))

    # ---- cumulative ------------------------------------------------------------------------------

    @casting(WIDE)
    def cumsum(self: T, dim: int, dtype: Any = None) -> T:
        """Sums of the elements up to each one, along an axis."""
        axis = shapes.axis(dim, self.ndim, "cumsum")
        return _as(_as(self, dtype)._unary(lambda x: scans.cumulative_sum(x, axis)), dtype)

    cumsum_ = in_place(cumsum)

    @casting(WIDE)
    def cumprod(self: T, dim: int, dtype: Any = None) -> T:
        """Products of the elements up to each one, along an axis."""
        axis = shapes.axis(dim, self.ndim, "cumprod")
        return _as(_as(self, dtype)._unary(lambda x: scans.cumulative_product(x, axis)), dtype)

    cumprod_ = in_place(cumprod)

    def logcumsumexp(self: T, dim: int) -> T:
        """log of the sums of e ** x up to each element, along an axis, safe for large x."""
        axis = shapes.axis(dim, self.ndim, "logcumsumexp")
        return self._special(lambda x: scans.cumulative_logsumexp(x, axis))

    def cummax(self: T, dim: int) -> ValuesAndIndices[T]:
        """The greatest up to each element along an axis, and where the last such one is."""
        return _extremes(self, dim, False)

    def cummin(self: T, dim: int) -> ValuesAndIndices[T]:
        """The least up to each element along an axis, and where the last such one is."""
        return _extremes(self, dim, True)


def _reduced(x: T, operation: str, function: Callable[..., Node], dim: Any, *args: Any) -> T:
    axes = shapes.axes(dim, x.ndim, operation)
    return x._unary(lambda node: function(node, axes, *args))


def _truth(found: T, x: T) -> T:
    """A result of any or all of x, in the type that PyTorch gives it."""
    return found._cast(dt.uint8) if x.dtype is dt.uint8 else found


def _type(dtype: Any) -> DType | None:
    return None if dtype is None else dt.as_dtype(dtype)


def _as(x: T, dtype: Any) -> T:
    return x if dtype is None else x._cast(dt.as_dtype(dtype))


def _extreme(x: T, dim: Any, keepdim: bool, least: bool) -> T | ValuesAndIndices[T]:
    name = "min" if least else "max"
    if dim is None:
        return _reduced(x, name, reductions.amin if least else reductions.amax, None)
    if hasattr(dim, "node"):
        return combined(x, name, ew.minimum if least else ew.maximum, dim)
    axis = shapes.axis(dim, x.ndim, name)
    if not x.shape:
        return ValuesAndIndices(x._given(x.node), x._fresh(const(0, dt.INDEX)))
    values = x._unary(lambda node: reductions.extreme_along(node, axis, keepdim, least))
    return ValuesAndIndices(values, x._unary(
        lambda node: reductions.arg_extreme(node, axis, keepdim, least)))


def _extremes(x: T, dim: int, least: bool) -> ValuesAndIndices[T]:
    axis = shapes.axis(dim, x.ndim, "cummin" if least else "cummax")
    if not x.shape:
        return ValuesAndIndices(x._given(x.node), x._fresh(const(0, dt.INDEX)))
    index = scans.cumulative_argmax(x.node, axis, least)
    return ValuesAndIndices(x._given(gather(x.node, axis, index)), x._given(index))
