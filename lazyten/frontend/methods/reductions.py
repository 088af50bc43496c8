"""Reductions and cumulative functions, as methods."""
from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, overload

from lazyten.frontend.core.functions import RETURNED, ValuesAndIndices, combined, returned_by
from lazyten.frontend.core.in_place import in_place
from lazyten.frontend.core.mixed_precision import WIDE, casting
from lazyten.frontend.core.tensor_core import Tensor, TensorCore
from lazyten.ir import dtype as dt
from lazyten.ir.dtype import DType
from lazyten.ir.node import Node, const, gather
from lazyten.operators.arrays import arrangements
from lazyten.operators.math import composites, reductions, scans, shapes
from lazyten.operators.math import elementwise as ew
from lazyten.operators.math.shapes import Axes
from lazyten.storage import tracing
from lazyten.support.errors import ArgumentError, ShapeError


@returned_by("aminmax")
class LeastAndGreatest(NamedTuple):
    """What aminmax gives."""

    min: Any
    max: Any


class ReductionMethods(TensorCore[Tensor]):
    """Sums, extremes and statistics over some axes, or all."""

    __slots__ = ()

    @casting(WIDE)
    def sum(self, dim: Axes = None, keepdim: bool = False, dtype: Any = None) -> Tensor:
        """The sum over some axes, or all, which are gone from the shape, or of size 1 if keepdim.
        dtype: what is summed in; else floats in their own type (16-bit ones in float32, and rounded
        once), integers and bools in int64. 0 over no elements."""
        return _reduced(self, "sum", reductions.sum, dim, keepdim, _type(dtype))

    def sum_to_size(self, *size: Any) -> Tensor:
        """The sum over the axes along which a tensor of this size would be repeated to have this
        shape. ShapeError if it would not."""
        wanted = shapes.new_shape(size, "sum_to_size")
        extra = self.ndim - len(wanted)
        if extra < 0 or any(n not in (1, m) for n, m in zip(wanted, self.shape[extra:],
                                                            strict=True)):
            raise ShapeError(f"sum_to_size {wanted} of shape {self.shape}: that size is not one "
                             f"that broadcasts to the shape")
        axes = [*range(extra), *(i + extra for i, n in enumerate(wanted) if n == 1)]
        return (self.sum(axes) if axes or not wanted else self).reshape(wanted)

    @casting(WIDE)
    def prod(self, dim: Axes = None, keepdim: bool = False, dtype: Any = None) -> Tensor:
        """The product over some axes, or all. Integers and bools are multiplied in int64."""
        return _reduced(self, "prod", reductions.prod, dim, keepdim, _type(dtype))

    def mean(self, dim: Axes = None, keepdim: bool = False, dtype: Any = None) -> Tensor:
        """The mean over some axes, or all, which are gone, or of size 1 if keepdim; of floats, or
        in the float type `dtype`: DTypeError for integers without it. NaN over no elements."""
        return _reduced(self._as_floats(dtype, "mean"), "mean", reductions.mean, dim, keepdim)

    def nansum(self, dim: Axes = None, keepdim: bool = False, dtype: Any = None) -> Tensor:
        """The sum without NaN."""
        return _reduced(self, "nansum", lambda x, axes: reductions.sum(
            arrangements.without_nan(x), axes, keepdim, _type(dtype)), dim)

    def nanmean(self, dim: Axes = None, keepdim: bool = False, dtype: Any = None) -> Tensor:
        """The mean without NaN."""
        given = self._as_floats(dtype, "nanmean")
        return _reduced(given, "nanmean", arrangements.nan_mean, dim, keepdim)

    def var(self, dim: Axes = None, correction: float | None = 1, keepdim: bool = False, *,
            unbiased: bool | None = None) -> Tensor:
        """The variance over some axes, or all: squared distances over count - correction. A bool,
        `unbiased`, in place of dim or of correction says whether the correction is 1."""
        axes, number = reductions.freedom(dim, correction, unbiased, "var")
        return _reduced(self, "var", reductions.var, axes, keepdim, number)

    def std(self, dim: Axes = None, correction: float | None = 1, keepdim: bool = False, *,
            unbiased: bool | None = None) -> Tensor:
        """The square root of the variance."""
        axes, number = reductions.freedom(dim, correction, unbiased, "std")
        return _reduced(self, "std", reductions.std, axes, keepdim, number)

    def var_mean(self, dim: Axes = None, correction: float | None = 1, keepdim: bool = False, *,
                 unbiased: bool | None = None) -> tuple[Tensor, Tensor]:
        """(variance, mean) over some axes, or all."""
        axes, number = reductions.freedom(dim, correction, unbiased, "var_mean")
        return (_reduced(self, "var_mean", reductions.var, axes, keepdim, number),
                _reduced(self, "var_mean", reductions.mean, axes, keepdim))

    def std_mean(self, dim: Axes = None, correction: float | None = 1, keepdim: bool = False, *,
                 unbiased: bool | None = None) -> tuple[Tensor, Tensor]:
        """(standard deviation, mean) over some axes, or all."""
        axes, number = reductions.freedom(dim, correction, unbiased, "std_mean")
        return (_reduced(self, "std_mean", reductions.std, axes, keepdim, number),
                _reduced(self, "std_mean", reductions.mean, axes, keepdim))

    def logsumexp(self, dim: Axes = None, keepdim: bool = False) -> Tensor:
        """log(sum(e ** x)) over some axes, safe for large x."""
        return _reduced(self, "logsumexp", reductions.logsumexp, dim, keepdim)

    def any(self, dim: Axes = None, keepdim: bool = False) -> Tensor:
        """Whether any is not 0 along some axes, or all (of none, dim=(), each element by itself);
        of uint8 1 or 0 in uint8."""
        return _truth(self, "any", reductions.any, dim, keepdim)

    def all(self, dim: Axes = None, keepdim: bool = False) -> Tensor:
        """Whether all are not 0 along some axes, or all (of none, dim=(), each element by itself);
        of uint8 1 or 0 in uint8."""
        return _truth(self, "all", reductions.all, dim, keepdim)

    # ---- extremes --------------------------------------------------------------------------------

    def amax(self, dim: Axes = None, keepdim: bool = False) -> Tensor:
        """The greatest over some axes, or all; equal ones share the gradient evenly."""
        return _reduced(self, "amax", reductions.amax, dim, keepdim)

    def amin(self, dim: Axes = None, keepdim: bool = False) -> Tensor:
        """The least over some axes, or all; equal ones share the gradient evenly."""
        return _reduced(self, "amin", reductions.amin, dim, keepdim)

    def aminmax(self, dim: int | None = None, keepdim: bool = False) -> LeastAndGreatest:
        """The least and the greatest, over an axis or all."""
        return LeastAndGreatest(_reduced(self, "aminmax", reductions.amin, dim, keepdim),
                                _reduced(self, "aminmax", reductions.amax, dim, keepdim))

    @overload
    def max(self, dim: None = None, keepdim: bool = False) -> Tensor: ...
    @overload
    def max(self, dim: int, keepdim: bool = False) -> ValuesAndIndices[Tensor]: ...
    @overload
    def max(self, dim: Tensor) -> Tensor: ...

    def max(self, dim: Any = None, keepdim: bool = False, *,
            other: Any = None) -> Tensor | ValuesAndIndices[Tensor]:
        """The greatest of all, a zero-dim tensor; along one axis (values, indices), int64, of the
        first greatest; with another tensor, maximum(). NaN where there is one."""
        return _extreme(self, dim if other is None else other, keepdim, False)

    @overload
    def min(self, dim: None = None, keepdim: bool = False) -> Tensor: ...
    @overload
    def min(self, dim: int, keepdim: bool = False) -> ValuesAndIndices[Tensor]: ...
    @overload
    def min(self, dim: Tensor) -> Tensor: ...

    def min(self, dim: Any = None, keepdim: bool = False, *,
            other: Any = None) -> Tensor | ValuesAndIndices[Tensor]:
        """The least of all, a zero-dim tensor; along one axis (values, indices), int64, of the
        first least; with another tensor, minimum(). NaN where there is one."""
        return _extreme(self, dim if other is None else other, keepdim, True)

    def argmax(self, dim: int | None = None, keepdim: bool = False) -> Tensor:
        """The index, int64, of the first greatest along an axis, which is gone, or of size 1 if
        keepdim; without dim, of all elements in row-major order. NaN is greater than all numbers.
        """
        axis = None if dim is None else shapes.axis(dim, self.ndim, "argmax")
        return self._unary(lambda x: reductions.arg_extreme(x, axis, keepdim, False))

    def argmin(self, dim: int | None = None, keepdim: bool = False) -> Tensor:
        """The index of the first least along an axis, or in row-major order; int64."""
        axis = None if dim is None else shapes.axis(dim, self.ndim, "argmin")
        return self._unary(lambda x: reductions.arg_extreme(x, axis, keepdim, True))

    # ---- cumulative ------------------------------------------------------------------------------

    def renorm(self, p: float, dim: int, maxnorm: float) -> Tensor:
        """Each position of an axis, of whose other elements the p-norm is above maxnorm, scaled
        down to that."""
        axis = shapes.axis(dim, self.ndim, "renorm")
        power, most = [float(shapes.as_number(v, "renorm", what))
                       for v, what in ((p, "p"), (maxnorm, "maxnorm"))]
        if self.ndim < 2 or power <= 0 or most < 0:
            raise ArgumentError(f"renorm of shape {self.shape}, p={p}, maxnorm={maxnorm}: it needs "
                                f"2 axes or more, p above 0 and maxnorm of 0 or more")
        others = tuple(a for a in range(self.ndim) if a != axis)

        def scaled(x: Node) -> Node:
            size = composites.norm(x, power, others, True)
            factor = ew.true_divide(most, ew.add(size, 1e-7))
            return ew.mul(x, ew.where(ew.greater(size, most), factor, 1.0))
        return self._special(scaled)

    renorm_ = in_place(renorm)

    @casting(WIDE)
    def cumsum(self, dim: int, dtype: Any = None) -> Tensor:
        """Sums of the elements up to each one and with it, along an axis, in the same shape;
        integers and bools in int64 unless `dtype` says otherwise."""
        axis = shapes.axis(dim, self.ndim, "cumsum")
        return _cumulative(self, scans.cumulative_sum, axis, dtype)

    cumsum_ = in_place(cumsum)

    @casting(WIDE)
    def cumprod(self, dim: int, dtype: Any = None) -> Tensor:
        """Products of the elements up to each one, along an axis."""
        axis = shapes.axis(dim, self.ndim, "cumprod")
        return _cumulative(self, scans.cumulative_product, axis, dtype)

    cumprod_ = in_place(cumprod)

    def logcumsumexp(self, dim: int) -> Tensor:
        """log of the sums of e ** x up to each element, along an axis, safe for large x."""
        axis = shapes.axis(dim, self.ndim, "logcumsumexp")
        return self._special(lambda x: scans.cumulative_logsumexp(x, axis, tracing.of_any_size()))

    def cummax(self, dim: int) -> ValuesAndIndices[Tensor]:
        """The greatest up to each element along an axis, and where the last such one is."""
        return _extremes(self, dim, False)

    def cummin(self, dim: int) -> ValuesAndIndices[Tensor]:
        """The least up to each element along an axis, and where the last such one is."""
        return _extremes(self, dim, True)


def _reduced(x: TensorCore[Tensor], operation: str, function: Callable[..., Node], dim: Any,
             *args: Any) -> Tensor:
    axes = shapes.axes(dim, x.ndim, operation)
    return x._unary(lambda node: function(node, axes, *args))


def _cumulative(x: TensorCore[Tensor], function: Callable[..., Node], axis: int,
                dtype: Any) -> Tensor:
    found = x._as(dtype)._unary(lambda node: function(node, axis, tracing.of_any_size()))
    return found if dtype is None else found._cast(dt.as_dtype(dtype))


def _truth(x: TensorCore[Tensor], operation: str, function: Callable[..., Node], dim: Any,
           keepdim: bool) -> Tensor:
    """any or all of x, in the type that PyTorch gives it."""
    axes = () if isinstance(dim, tuple | list) and not dim else shapes.axes(dim, x.ndim, operation)
    found = x._unary(lambda node: function(node, axes, keepdim))
    return found._cast(dt.uint8) if x.dtype is dt.uint8 else found


def _type(dtype: Any) -> DType | None:
    return None if dtype is None else dt.as_dtype(dtype)


def _extreme(x: TensorCore[Tensor], dim: Any, keepdim: bool,
             least: bool) -> Tensor | ValuesAndIndices[Tensor]:
    name = "min" if least else "max"
    if dim is None:
        return _reduced(x, name, reductions.amin if least else reductions.amax, None)
    if hasattr(dim, "node"):
        return combined(x, name, ew.minimum if least else ew.maximum, dim)
    axis = shapes.axis(dim, x.ndim, name)
    kind: type[ValuesAndIndices[Tensor]] = RETURNED[name]
    if not x.shape:
        return kind(x._given(x.node), x._fresh(const(0, dt.INDEX)))
    values = x._unary(lambda node: reductions.extreme_along(node, axis, keepdim, least))
    return kind(values, x._unary(
        lambda node: reductions.arg_extreme(node, axis, keepdim, least)))


def _extremes(x: TensorCore[Tensor], dim: int, least: bool) -> ValuesAndIndices[Tensor]:
    name = "cummin" if least else "cummax"
    axis = shapes.axis(dim, x.ndim, name)
    kind: type[ValuesAndIndices[Tensor]] = RETURNED[name]
    if not x.shape:
        return kind(x._given(x.node), x._fresh(const(0, dt.INDEX)))
    index = scans.cumulative_argmax(x.node, axis, least, tracing.of_any_size())
    return kind(x._given(gather(x.node, axis, index)), x._given(index))
