"""Windows of images as columns and back, and channels exchanged with places.

input: (batch, channels, height, width), or the same without a batch.
"""
from __future__ import annotations

import math
from collections.abc import Sequence

from lazyten.autodiff.gradient import vjp
from lazyten.frontend.arguments import takes_tensors
from lazyten.frontend.tensor import Tensor
from lazyten.ir.node import Node, Shape, const, make, move, reshape
from lazyten.ir.ops import Op
from lazyten.operators.arrays.windows import Geometry, all_windows
from lazyten.operators.math import shapes
from lazyten.operators.math.shapes import Sizes
from lazyten.support.errors import ArgumentError, DTypeError, ShapeError


def _geometry(kernel_size: Sizes, dilation: Sizes, padding: Sizes, stride: Sizes, name: str
              ) -> Geometry:
    return Geometry(shapes.pair(kernel_size, 2, name, "kernel_size"),
                    shapes.pair(stride, 2, name, "stride"),
                    shapes.pair(padding, 2, name, "padding", least=0),
                    shapes.pair(dilation, 2, name, "dilation"))


def _columns(x: Node, geometry: Geometry) -> Node:
    """(batch, channels, height, width) to (batch, channels * taps, windows)."""
    x = all_windows(x, geometry)
    x = move(Op.PERMUTE, x, (0, 1, 3, 5, 2, 4))
    batch, channels, high, wide, rows, columns = x.shape
    return reshape(x, (batch, channels * high * wide, rows * columns))


@takes_tensors
def unfold(input: Tensor, kernel_size: Sizes, dilation: Sizes = 1, padding: Sizes = 0,
           stride: Sizes = 1) -> Tensor:
    """The elements of each window as a column: (batch, channels * taps, windows)."""
    geometry = _geometry(kernel_size, dilation, padding, stride, "unfold")
    if input.ndim not in (3, 4):
        raise ShapeError(f"unfold: the input has shape {input.shape}; it needs (batch, channels, "
                         f"height, width), or the same without a batch")
    if input.ndim == 3:
        return unfold(input.unsqueeze(0), kernel_size, dilation, padding, stride).squeeze(0)
    geometry.check(input.shape[2:], "unfold")
    return input._unary(lambda x: _columns(x, geometry))


@takes_tensors
def fold(input: Tensor, output_size: Sizes, kernel_size: Sizes, dilation: Sizes = 1,
         padding: Sizes = 0, stride: Sizes = 1) -> Tensor:
    """(batch, channels * taps, windows) to (batch, channels, *output_size): columns back to where
    unfold takes them from, summed where windows overlap. It is the transpose of unfold."""
    geometry = _geometry(kernel_size, dilation, padding, stride, "fold")
    size = shapes.pair(output_size, 2, "fold", "output_size")
    if input.ndim == 2:
        return fold(input.unsqueeze(0), output_size, kernel_size, dilation, padding,
                    stride).squeeze(0)
    if not input.dtype.is_float:
        raise DTypeError(f"fold of {input.dtype.name}: it is for floats; convert with .float()")
    taps = math.prod(geometry.kernel)
    if input.ndim != 3 or input.shape[1] % taps:
        raise ShapeError(f"fold: the input has shape {input.shape}; it needs (batch, channels * "
                         f"{taps}, windows), or the same without a batch")
    geometry.check(size, "fold")
    shape = (input.shape[0], input.shape[1] // taps, *size)
    image = make(Op.LEAF, input.dtype, (const(0.0, input.dtype, shape),), "fold")
    columns = _columns(image, geometry)
    if columns.shape != input.shape:
        raise ShapeError(f"fold: the input has shape {input.shape}; windows of {geometry.kernel} "
                         f"over {size} are {columns.shape[2]}, so it needs {columns.shape}")

    def summed(x: Node) -> Node:
        total, = vjp(columns, x, [image])
        assert total is not None  # floats have gradients
        return total
    return input._unary(summed)


# ---- channels and places -------------------------------------------------------------------------

def _factor(value: int, name: str, what: str) -> int:
    number = shapes.as_int(value, name, what)
    if number < 1:
        raise ArgumentError(f"{name}: {what}={value} is below 1; give 1 or more")
    return number


def _moved(input: Tensor, parts: Shape, order: Sequence[int], shape: Shape) -> Tensor:
    """The axes cut in parts, exchanged and joined again: always a new tensor."""
    return input._unary(lambda x: reshape(
        move(Op.PERMUTE, reshape(x, parts), tuple(order)), shape))


@takes_tensors
def pixel_shuffle(input: Tensor, upscale_factor: int) -> Tensor:
    """(.., channels * r * r, height, width) to (.., channels, height * r, width * r)."""
    r = _factor(upscale_factor, "pixel_shuffle", "upscale_factor")
    if input.ndim < 3 or input.shape[-3] % (r * r):
        raise ShapeError(f"pixel_shuffle of shape {input.shape}: it needs (.., channels, height, "
                         f"width) with a number of channels that {r * r} divides")
    *batch, channels, height, width = input.shape
    n = len(batch)
    parts = (*batch, channels // (r * r), r, r, height, width)
    order = (*range(n), n, n + 3, n + 1, n + 4, n + 2)
    return _moved(input, parts, order, (*batch, channels // (r * r), height * r, width * r))


@takes_tensors
def pixel_unshuffle(input: Tensor, downscale_factor: int) -> Tensor:
    """(.., channels, height * r, width * r) to (.., channels * r * r, height, width)."""
    r = _factor(downscale_factor, "pixel_unshuffle", "downscale_factor")
    if input.ndim < 3 or input.shape[-2] % r or input.shape[-1] % r:
        raise ShapeError(f"pixel_unshuffle of shape {input.shape}: it needs (.., channels, height, "
                         f"width) with a height and a width that {r} divides")
    *batch, channels, height, width = input.shape
    n = len(batch)
    parts = (*batch, channels, height // r, r, width // r, r)
    order = (*range(n), n, n + 2, n + 4, n + 1, n + 3)
    return _moved(input, parts, order, (*batch, channels * r * r, height // r, width // r))


@takes_tensors
def channel_shuffle(input: Tensor, groups: int) -> Tensor:
    """The channels (axis 1) of all groups in turn: the first of each group, the second of each."""
    count = _factor(groups, "channel_shuffle", "groups")
    if input.ndim < 3 or input.shape[1] % count:
        raise ShapeError(f"channel_shuffle of shape {input.shape}: it needs (batch, channels, ..) "
                         f"with a number of channels that groups={groups} divides")
    batch, channels, *rest = input.shape
    parts = (batch, count, channels // count, *rest)
    return _moved(input, parts, (0, 2, 1, *range(3, len(parts))), input.shape)


@takes_tensors
def native_channel_shuffle(input: Tensor, groups: int) -> Tensor:
    """channel_shuffle() by another name of PyTorch's."""
    return channel_shuffle(input, groups)
