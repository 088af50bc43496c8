"""Pooling to a given size: windows share each spatial axis out, and may differ by one in size.

input: (batch, channels, *spatial), or the same without a batch.
"""
from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from lazyten.frontend.arguments import takes_tensors
from lazyten.frontend.tensor import Tensor
from lazyten.ir.node import Node, cast, iota, reshape
from lazyten.nn.functions.spatial.pooling import check_spatial
from lazyten.operators.arrays import pooling
from lazyten.operators.math import elementwise as ew
from lazyten.operators.math import shapes
from lazyten.operators.math.gradients import flat_later
from lazyten.support.errors import ArgumentError, DTypeError, ShapeError

OutputSize = int | Sequence[int | None] | None


def _windows(input: Tensor, output_size: OutputSize, name: str) -> dict[int, int]:
    """How many windows each spatial axis is shared out to, by axis, the last axis last:
    until then vectors are of neighbours, and less is left of the axis that has these."""
    spatial = int(name[-2])
    check_spatial(input, spatial, name)
    sized: Any = output_size
    sized = sized.tolist() if hasattr(sized, "tolist") else sized
    given = list(sized) if isinstance(sized, Sequence) else [sized] * spatial
    if len(given) != spatial:
        raise ArgumentError(f"{name}: output_size {output_size} needs one number, or {spatial}, "
                            f"one for each spatial axis")
    sizes = input.shape[-spatial:]
    counts = [n if wanted is None else shapes.as_int(wanted, name, "output_size")
              for wanted, n in zip(given, sizes, strict=True)]
    if min(counts) < 0:
        raise ArgumentError(f"{name}: output_size {output_size} is below 0; give 0 or more")
    if 0 in input.shape[-spatial - 1:]:
        raise ShapeError(f"{name} of shape {input.shape}: an axis of channels or elements has size "
                         f"0, and a window of none has no value; check the size first")
    first = input.ndim - spatial
    return {first + i: counts[i] for i in range(spatial)}


def _average(input: Tensor, output_size: OutputSize, name: str) -> Tensor:
    counts = _windows(input, output_size, name)
    if not input.dtype.is_float:
        raise DTypeError(f"{name} of {input.dtype.name}: a mean is a float; convert first with "
                         f".float()")

    def means(x: Node) -> Node:
        for axis, windows in counts.items():
            x = pooling.adaptive_average(x, axis, windows)
        return x
    return input._unary(lambda x: cast(means(ew.wide(flat_later(x))), x.dtype))


@takes_tensors
def adaptive_avg_pool1d(input: Tensor, output_size: OutputSize) -> Tensor:
    """adaptive_avg_pool2d with one spatial axis."""
    return _average(input, output_size, "adaptive_avg_pool1d")


@takes_tensors
def adaptive_avg_pool2d(input: Tensor, output_size: OutputSize) -> Tensor:
    """The mean of each of output_size windows, which share the spatial axes out evenly; None keeps
    an axis as it is."""
    return _average(input, output_size, "adaptive_avg_pool2d")


@takes_tensors
def adaptive_avg_pool3d(input: Tensor, output_size: OutputSize) -> Tensor:
    """adaptive_avg_pool2d with three spatial axes."""
    return _average(input, output_size, "adaptive_avg_pool3d")


def _greatest(input: Tensor, output_size: OutputSize, return_indices: bool, name: str) -> Any:
    counts = _windows(input, output_size, name)
    order = list(counts.items())
    if input.requires_grad:  # it goes to the first of equal elements in row-major order
        order.reverse()

    def both(x: Node) -> tuple[Node, Node]:
        size = x.shape[-len(counts):]
        where = ew.broadcast_to(reshape(iota(math.prod(size)), size), x.shape)
        for axis, windows in order:
            x, where = pooling.adaptive_max(x, where, axis, windows)
        return x, where
    values = input._unary(lambda x: both(x)[0])
    if not return_indices:
        return values
    return values, input.detach()._unary(lambda x: both(x)[1])


@takes_tensors
def adaptive_max_pool1d(input: Tensor, output_size: OutputSize,
                        return_indices: bool = False) -> Any:
    """adaptive_max_pool2d with one spatial axis."""
    return _greatest(input, output_size, return_indices, "adaptive_max_pool1d")


@takes_tensors
def adaptive_max_pool2d(input: Tensor, output_size: OutputSize,
                        return_indices: bool = False) -> Any:
    """The greatest of each of output_size windows, which share the spatial axes out evenly.

    return_indices: also where each is, its position in the spatial axes in row-major order (int64).
    """
    return _greatest(input, output_size, return_indices, "adaptive_max_pool2d")


@takes_tensors
def adaptive_max_pool3d(input: Tensor, output_size: OutputSize,
                        return_indices: bool = False) -> Any:
    """adaptive_max_pool2d with three spatial axes."""
    return _greatest(input, output_size, return_indices, "adaptive_max_pool3d")


@takes_tensors
def adaptive_max_pool1d_with_indices(input: Tensor, output_size: OutputSize,
                                     return_indices: bool = False) -> Any:
    """adaptive_max_pool1d with return_indices, whatever is given for it."""
    return _greatest(input, output_size, True, "adaptive_max_pool1d")


@takes_tensors
def adaptive_max_pool2d_with_indices(input: Tensor, output_size: OutputSize,
                                     return_indices: bool = False) -> Any:
    """adaptive_max_pool2d with return_indices, whatever is given for it."""
    return _greatest(input, output_size, True, "adaptive_max_pool2d")


@takes_tensors
def adaptive_max_pool3d_with_indices(input: Tensor, output_size: OutputSize,
                                     return_indices: bool = False) -> Any:
    """adaptive_max_pool3d with return_indices, whatever is given for it."""
    return _greatest(input, output_size, True, "adaptive_max_pool3d")
