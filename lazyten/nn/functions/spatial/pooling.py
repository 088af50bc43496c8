"""Pooling of tensors, which `lazyten.nn.functional` offers.

input: (batch, channels, *spatial), or the same without a batch; windows slide over spatial axes.
"""
from __future__ import annotations

import math
from typing import Any

from lazyten.frontend.arguments import takes_tensors
from lazyten.frontend.tensor import Tensor
from lazyten.operators.arrays import pooling
from lazyten.operators.arrays.pooling import Pooling
from lazyten.operators.arrays.windows import Geometry
from lazyten.operators.math import shapes
from lazyten.operators.math.shapes import Sizes
from lazyten.support.errors import ArgumentError, ShapeError

SPATIAL = ("", "length", "height, width", "depth, height, width")
"""What some number of spatial axes is called."""


def check_spatial(input: Tensor, spatial: int, operation: str) -> None:
    """ShapeError unless the input has `spatial` axes after its channels."""
    if input.ndim not in (spatial + 1, spatial + 2):
        raise ShapeError(f"{operation}: the input has shape {input.shape}; it needs (batch, "
                         f"channels, {SPATIAL[spatial]}), or the same without a batch")


def _pooling(input: Tensor, kernel_size: Sizes, stride: Sizes | None, padding: Sizes,
             dilation: Sizes, ceil_mode: bool, name: str) -> Pooling:
    spatial = int(name[-2])
    check_spatial(input, spatial, name)
    kernel = shapes.pair(kernel_size, spatial, name, "kernel_size")
    steps = kernel if stride is None or isinstance(stride, list | tuple) and not stride else \
        shapes.pair(stride, spatial, name, "stride")
    around = shapes.pair(padding, spatial, name, "padding", least=0)
    gaps = shapes.pair(dilation, spatial, name, "dilation")
    if any(2 * p > d * (k - 1) + 1 for p, d, k in zip(around, gaps, kernel, strict=True)):
        raise ArgumentError(f"{name}: padding {padding} is more than half of kernel_size "
                            f"{kernel_size}; some windows would hold nothing but padding")
    how = Pooling(Geometry(kernel, steps, around, gaps), bool(ceil_mode))
    how.check(input.shape[-spatial:], name)
    return how


# ---- the greatest --------------------------------------------------------------------------------

def _max_pool(input: Tensor, kernel_size: Sizes, stride: Sizes | None, padding: Sizes,
              dilation: Sizes, ceil_mode: bool, return_indices: bool, name: str) -> Any:
    how = _pooling(input, kernel_size, stride, padding, dilation, ceil_mode, name)
    values = input._unary(lambda x: pooling.max_pool(x, how))
    if not return_indices:
        return values
    return values, input.detach()._unary(lambda x: pooling.max_positions(x, how))


@takes_tensors
def max_pool1d(input: Tensor, kernel_size: Sizes, stride: Sizes | None = None, padding: Sizes = 0,
               dilation: Sizes = 1, ceil_mode: bool = False, return_indices: bool = False) -> Any:
    """max_pool2d with one spatial axis."""
    return _max_pool(input, kernel_size, stride, padding, dilation, ceil_mode, return_indices,
                     "max_pool1d")


@takes_tensors
def max_pool2d(input: Tensor, kernel_size: Sizes, stride: Sizes | None = None, padding: Sizes = 0,
               dilation: Sizes = 1, ceil_mode: bool = False, return_indices: bool = False) -> Any:
    """The greatest of each window (stride: the kernel's size); padding never wins.

    ceil_mode: a last window may reach past the end. return_indices: also where each is, its
    position in the spatial axes in row-major order (int64).
    """
    return _max_pool(input, kernel_size, stride, padding, dilation, ceil_mode, return_indices,
                     "max_pool2d")


@takes_tensors
def max_pool3d(input: Tensor, kernel_size: Sizes, stride: Sizes | None = None, padding: Sizes = 0,
               dilation: Sizes = 1, ceil_mode: bool = False, return_indices: bool = False) -> Any:
    """max_pool2d with three spatial axes."""
    return _max_pool(input, kernel_size, stride, padding, dilation, ceil_mode, return_indices,
                     "max_pool3d")


@takes_tensors
def max_pool1d_with_indices(input: Tensor, kernel_size: Sizes, stride: Sizes | None = None,
                            padding: Sizes = 0, dilation: Sizes = 1, ceil_mode: bool = False,
                            return_indices: bool = False) -> Any:
    """max_pool1d with return_indices, whatever is given for it."""
    return _max_pool(input, kernel_size, stride, padding, dilation, ceil_mode, True,
                     "max_pool1d")


@takes_tensors
def max_pool2d_with_indices(input: Tensor, kernel_size: Sizes, stride: Sizes | None = None,
                            padding: Sizes = 0, dilation: Sizes = 1, ceil_mode: bool = False,
                            return_indices: bool = False) -> Any:
    """max_pool2d with return_indices, whatever is given for it."""
    return _max_pool(input, kernel_size, stride, padding, dilation, ceil_mode, True,
                     "max_pool2d")


@takes_tensors
def max_pool3d_with_indices(input: Tensor, kernel_size: Sizes, stride: Sizes | None = None,
                            padding: Sizes = 0, dilation: Sizes = 1, ceil_mode: bool = False,
                            return_indices: bool = False) -> Any:
    """max_pool3d with return_indices, whatever is given for it."""
    return _max_pool(input, kernel_size, stride, padding, dilation, ceil_mode, True,
                     "max_pool3d")


# ---- the mean ------------------------------------------------------------------------------------

def _avg_pool(input: Tensor, kernel_size: Sizes, stride: Sizes | None, padding: Sizes,
              ceil_mode: bool, count_include_pad: bool, divisor_override: int | None,
              name: str) -> Tensor:
    how = _pooling(input, kernel_size, stride, padding, 1, ceil_mode, name)
    if divisor_override is not None:
        divisor_override = shapes.as_int(divisor_override, name, "divisor_override")
        if divisor_override == 0:
            raise ArgumentError(f"{name}: divisor_override=0; give another number to divide by")
    return input._unary(lambda x: pooling.average_pool(x, how, count_include_pad,
                                                       divisor_override))


@takes_tensors
def avg_pool1d(input: Tensor, kernel_size: Sizes, stride: Sizes | None = None, padding: Sizes = 0,
               ceil_mode: bool = False, count_include_pad: bool = True) -> Tensor:
    """avg_pool2d with one spatial axis."""
    return _avg_pool(input, kernel_size, stride, padding, ceil_mode, count_include_pad, None,
                     "avg_pool1d")


@takes_tensors
def avg_pool2d(input: Tensor, kernel_size: Sizes, stride: Sizes | None = None, padding: Sizes = 0,
               ceil_mode: bool = False, count_include_pad: bool = True,
               divisor_override: int | None = None) -> Tensor:
    """The mean of each window (stride: the kernel's size); with divisor_override the sum over it.

    ceil_mode: a last window may reach past the end, and what is there does not count.
    """
    return _avg_pool(input, kernel_size, stride, padding, ceil_mode, count_include_pad,
                     divisor_override, "avg_pool2d")


@takes_tensors
def avg_pool3d(input: Tensor, kernel_size: Sizes, stride: Sizes | None = None, padding: Sizes = 0,
               ceil_mode: bool = False, count_include_pad: bool = True,
               divisor_override: int | None = None) -> Tensor:
    """avg_pool2d with three spatial axes."""
    return _avg_pool(input, kernel_size, stride, padding, ceil_mode, count_include_pad,
                     divisor_override, "avg_pool3d")


# ---- the norm ------------------------------------------------------------------------------------

def _lp_pool(input: Tensor, norm_type: float, kernel_size: Sizes, stride: Sizes | None,
             ceil_mode: bool, name: str) -> Tensor:
    power = shapes.as_number(norm_type, name, "norm_type")
    if power == 0:
        raise ArgumentError(f"{name}: norm_type=0 has no root; give another number")
    taps = math.prod(shapes.pair(kernel_size, int(name[-2]), name, "kernel_size"))
    means = _avg_pool(input.pow(power), kernel_size, stride, 0, ceil_mode, True, None, name)
    return (means.sign() * means.abs().relu() * taps).pow(1 / power)


@takes_tensors
def lp_pool1d(input: Tensor, norm_type: float, kernel_size: Sizes, stride: Sizes | None = None,
              ceil_mode: bool = False) -> Tensor:
    """lp_pool2d with one spatial axis."""
    return _lp_pool(input, norm_type, kernel_size, stride, ceil_mode, "lp_pool1d")


@takes_tensors
def lp_pool2d(input: Tensor, norm_type: float, kernel_size: Sizes, stride: Sizes | None = None,
              ceil_mode: bool = False) -> Tensor:
    """(the sum of x ** norm_type over each window) ** (1 / norm_type); of a window that reaches
    past the end (ceil_mode) the mean of what is inside, times the kernel's size."""
    return _lp_pool(input, norm_type, kernel_size, stride, ceil_mode, "lp_pool2d")


@takes_tensors
def lp_pool3d(input: Tensor, norm_type: float, kernel_size: Sizes, stride: Sizes | None = None,
              ceil_mode: bool = False) -> Tensor:
    """lp_pool2d with three spatial axes."""
    return _lp_pool(input, norm_type, kernel_size, stride, ceil_mode, "lp_pool3d")
