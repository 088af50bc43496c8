"""`lt.masked`: reductions and normalizations that leave elements out, under PyTorch's names.

`mask` says which elements count, as bools that broadcast to the input; without one all do. What has
no element that counts is what a reduction of nothing is, or NaN where that is nothing.
"""
from __future__ import annotations

import math

from lazyten.frontend.arguments import takes_tensors
from lazyten.frontend.core.handle import DTypeLike
from lazyten.frontend.functions import ones, where
from lazyten.frontend.tensor import Tensor
from lazyten.ir import dtype as dt
from lazyten.ir.dtype import DType
from lazyten.nn import functional
from lazyten.operators.math import shapes
from lazyten.operators.math.shapes import Axes
from lazyten.support.errors import ArgumentError, DTypeError


def _counted(input: Tensor, mask: Tensor | None) -> Tensor:
    """Which elements count, in the input's shape."""
    if mask is None:
        return ones(input.shape, dtype=dt.bool_, device=input.device)
    return mask.bool().expand(input.shape)


def _filled(input: Tensor, mask: Tensor | None, value: float, dtype: DTypeLike | None = None,
            ) -> Tensor:
    """The input in a type, with `value` where elements do not count."""
    x = input if dtype is None else input.to(dtype=dtype)
    if mask is None:
        return x
    filled: Tensor = where(_counted(input, mask), x, x.new_full((), value))
    return filled


def _least(dtype: DType) -> float:
    return -math.inf if dtype.is_float else dtype.min


def _greatest(dtype: DType) -> float:
    return math.inf if dtype.is_float else dtype.max


def _wide(input: Tensor, dtype: DTypeLike | None) -> DType:
    """The type of sums: int64 of whole numbers."""
    if dtype is not None:
        return dt.as_dtype(dtype)
    return input.dtype if input.dtype.is_float else dt.int64


def _axes(dim: Axes, input: Tensor, operation: str) -> tuple[int, ...]:
    return shapes.axes(dim, input.ndim, operation)


# ---- sums and the like ---------------------------------------------------------------------------

@takes_tensors
def sum(input: Tensor, dim: Axes = None, *, keepdim: bool = False, dtype: DTypeLike | None = None,
        mask: Tensor | None = None) -> Tensor:
    """The sums over some axes, or all."""
    kind = _wide(input, dtype)
    return _filled(input, mask, 0, kind).sum(_axes(dim, input, "sum"), keepdim)


@takes_tensors
def prod(input: Tensor, dim: Axes = None, *, keepdim: bool = False, dtype: DTypeLike | None = None,
         mask: Tensor | None = None) -> Tensor:
    """The products over some axes, or all."""
    result = _filled(input, mask, 1, _wide(input, dtype))
    for axis in reversed(_axes(dim, input, "prod") if input.shape else ()):
        result = result.prod(axis, keepdim)
    return result


@takes_tensors
def cumsum(input: Tensor, dim: int, *, dtype: DTypeLike | None = None,
           mask: Tensor | None = None) -> Tensor:
    """The sums up to each element along an axis."""
    return _filled(input, mask, 0, _wide(input, dtype)).cumsum(dim)


@takes_tensors
def cumprod(input: Tensor, dim: int, *, dtype: DTypeLike | None = None,
            mask: Tensor | None = None) -> Tensor:
    """The products up to each element along an axis."""
    return _filled(input, mask, 1, _wide(input, dtype)).cumprod(dim)


@takes_tensors
def mean(input: Tensor, dim: Axes = None, *, keepdim: bool = False, dtype: DTypeLike | None = None,
         mask: Tensor | None = None) -> Tensor:
    """The means over some axes, or all, of floats."""
    kind = input.dtype if dtype is None else dt.as_dtype(dtype)
    if not kind.is_float:
        raise DTypeError(f"masked.mean of {kind.name}: a mean is a float; give a float dtype")
    axes = _axes(dim, input, "mean")
    count = _counted(input, mask).sum(axes, keepdim)
    return _filled(input, mask, 0, kind).sum(axes, keepdim) / count


@takes_tensors
def var(input: Tensor, dim: Axes = None, unbiased: bool | None = None, *,
        correction: float | None = None, keepdim: bool = False, dtype: DTypeLike | None = None,
        mask: Tensor | None = None) -> Tensor:
    """The variances over some axes, or all; see `Tensor.var`."""
    found, kind = _wide_var(input, dim, unbiased, correction, keepdim, dtype, mask)
    return found.to(dtype=kind)


@takes_tensors
def std(input: Tensor, dim: Axes = None, unbiased: bool | None = None, *,
        correction: float | None = None, keepdim: bool = False, dtype: DTypeLike | None = None,
        mask: Tensor | None = None) -> Tensor:
    """The roots of the variances."""
    found, kind = _wide_var(input, dim, unbiased, correction, keepdim, dtype, mask)
    return found.sqrt().to(dtype=kind)


def _wide_var(input: Tensor, dim: Axes, unbiased: bool | None, correction: float | None,
              keepdim: bool, dtype: DTypeLike | None,
              mask: Tensor | None) -> tuple[Tensor, dt.DType]:
    """The variances in float64, whose squares neither overflow nor vanish for narrower floats, and
    the type to round to."""
    if unbiased is not None and correction is not None:
        raise ArgumentError(f"masked.var: unbiased={unbiased} and correction={correction}; give "
                            f"one")
    less = correction if correction is not None else float(unbiased is not False)
    kind = dt.as_dtype(dtype) if dtype is not None else (
        input.dtype if input.dtype.is_float else dt.default_float)
    axes = _axes(dim, input, "var")
    x, counted = input.to(dtype=kind).double(), _counted(input, mask)
    middle = _filled(x, mask, 0).sum(axes, True) / counted.sum(axes, True)
    gaps = x - middle
    count = counted.sum(axes, keepdim).double()
    freedom = (count - less).clamp(min=0) if less else count
    found: Tensor = _filled(gaps * gaps, mask, 0).sum(axes, keepdim) / freedom
    return found, kind


@takes_tensors
def norm(input: Tensor, ord: float | None = 2.0, dim: Axes = None, *, keepdim: bool = False,
         dtype: DTypeLike | None = None, mask: Tensor | None = None) -> Tensor:
    """The norms over some axes, or all; see `linalg.vector_norm`."""
    order = 2.0 if ord is None else float(shapes.as_number(ord, "masked.norm", "ord"))
    filled = _filled(input, mask, math.inf if order == -math.inf else 0, dtype)
    return filled.norm(order, _axes(dim, input, "norm"), keepdim)


@takes_tensors
def logsumexp(input: Tensor, dim: Axes = None, *, keepdim: bool = False,
              dtype: DTypeLike | None = None, mask: Tensor | None = None) -> Tensor:
    """log(sum(e ** x)) over some axes, or all, in the input's type."""
    filled = _filled(input, mask, _least(input.dtype), dtype)
    found = filled.logsumexp(_axes(dim, input, "logsumexp"), keepdim)
    return found.to(dtype=dtype or input.dtype)


@takes_tensors
def logaddexp(input: Tensor, other: Tensor, *, dtype: DTypeLike | None = None,
              input_mask: Tensor | None = None, other_mask: Tensor | None = None) -> Tensor:
    """log(e ** input + e ** other), each with a mask of its own."""
    first, second = (_filled(x, mask, _least(x.dtype), dtype)
                     for x, mask in ((input, input_mask), (other, other_mask)))
    return first.logaddexp(second)


# ---- extremes ------------------------------------------------------------------------------------

@takes_tensors
def amax(input: Tensor, dim: Axes = None, *, keepdim: bool = False, dtype: DTypeLike | None = None,
         mask: Tensor | None = None) -> Tensor:
    """The greatest over some axes, or all."""
    filled = _filled(input, mask, _least(input.dtype))
    found = filled.amax(_axes(dim, input, "amax"), keepdim)
    return found if dtype is None else found.to(dtype=dtype)


@takes_tensors
def amin(input: Tensor, dim: Axes = None, *, keepdim: bool = False, dtype: DTypeLike | None = None,
         mask: Tensor | None = None) -> Tensor:
    """The least over some axes, or all."""
    filled = _filled(input, mask, _greatest(input.dtype))
    found = filled.amin(_axes(dim, input, "amin"), keepdim)
    return found if dtype is None else found.to(dtype=dtype)


@takes_tensors
def argmax(input: Tensor, dim: int | None = None, *, keepdim: bool = False,
           dtype: DTypeLike | None = None, mask: Tensor | None = None) -> Tensor:
    """Where the first greatest is, along an axis, or in row-major order; in the input's type."""
    found = _filled(input, mask, _least(input.dtype)).argmax(dim, keepdim)
    return found.to(dtype=dtype or input.dtype)


@takes_tensors
def argmin(input: Tensor, dim: int | None = None, *, keepdim: bool = False,
           dtype: DTypeLike | None = None, mask: Tensor | None = None) -> Tensor:
    """Where the first least is, along an axis, or in row-major order; in the input's type."""
    found = _filled(input, mask, _greatest(input.dtype)).argmin(dim, keepdim)
    return found.to(dtype=dtype or input.dtype)


@takes_tensors
def median(input: Tensor, dim: int = -1, *, keepdim: bool = False, dtype: DTypeLike | None = None,
           mask: Tensor | None = None) -> Tensor:
    """The lower median along an axis, of floats."""
    if not input.dtype.is_float:
        raise DTypeError(f"masked.median of {input.dtype.name}: it is for floats; convert with "
                         f".float()")
    found: Tensor = _filled(input, mask, math.nan, dtype).nanmedian(dim, keepdim).values
    return found


# ---- normalized ----------------------------------------------------------------------------------

@takes_tensors
def softmax(input: Tensor, dim: int, *, dtype: DTypeLike | None = None,
            mask: Tensor | None = None) -> Tensor:
    """softmax along an axis; 0 for what does not count."""
    return _filled(input, mask, _least(input.dtype), None).softmax(dim, dtype)


@takes_tensors
def log_softmax(input: Tensor, dim: int, *, dtype: DTypeLike | None = None,
                mask: Tensor | None = None) -> Tensor:
    """The logarithm of softmax."""
    return _filled(input, mask, _least(input.dtype), None).log_softmax(dim, dtype)


@takes_tensors
def softmin(input: Tensor, dim: int, *, dtype: DTypeLike | None = None,
            mask: Tensor | None = None) -> Tensor:
    """softmax of the opposites."""
    return functional.softmin(_filled(input, mask, _greatest(input.dtype), None), dim,
                              dtype=dtype)


@takes_tensors
def normalize(input: Tensor, ord: float, dim: int, *, eps: float = 1e-12,
              dtype: DTypeLike | None = None, mask: Tensor | None = None) -> Tensor:
    """The elements over their norm along an axis, or over eps if that is larger; 0 for what does
    not count."""
    size: Tensor = norm(input, ord, dim, keepdim=True, dtype=dtype, mask=mask)
    return _filled(input, mask, 0, dtype) / size.clamp(min=eps)
