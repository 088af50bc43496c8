"""What a max_pool found put back to where it was, with zeros elsewhere."""
from __future__ import annotations

import math
from collections.abc import Sequence

from lazyten.frontend import functions
from lazyten.frontend.arguments import takes_tensors
from lazyten.frontend.tensor import Tensor
from lazyten.nn.functions.spatial.pooling import check_spatial
from lazyten.operators.math import shapes
from lazyten.operators.math.shapes import Sizes
from lazyten.support.errors import ArgumentError, ShapeError


def _sizes(input: Tensor, kernel_size: Sizes, stride: Sizes | None, padding: Sizes,
           output_size: Sequence[int] | None, name: str) -> tuple[int, ...]:
    """The spatial sizes of the result: as given, if a pooling would bring them to the input's."""
    spatial = int(name[-2])
    kernel = shapes.pair(kernel_size, spatial, name, "kernel_size")
    steps = kernel if stride is None or stride == [] else shapes.pair(stride, spatial, name,
                                                                      "stride")
    around = shapes.pair(padding, spatial, name, "padding", least=0)
    usual = tuple((n - 1) * s - 2 * p + k for n, s, p, k in zip(
        input.shape[-spatial:], steps, around, kernel, strict=True))
    if output_size is None:
        return usual
    given = shapes.sizes([output_size], name)
    wanted = given
    given = given[2:] if len(given) == spatial + 2 else given
    if len(given) != spatial or any(abs(n - u) >= s for n, u, s in zip(given, usual, steps,
                                                                       strict=True)):
        raise ArgumentError(f"{name}: output_size {wanted} of an input {input.shape}: "
                            f"the {spatial} spatial sizes must be {usual}, or differ from them by "
                            f"less than the stride {steps}")
    return given


def _unpooled(input: Tensor, indices: Tensor, kernel_size: Sizes, stride: Sizes | None,
              padding: Sizes, output_size: Sequence[int] | None, name: str) -> Tensor:
    spatial = int(name[-2])
    check_spatial(input, spatial, name)
    if indices.shape != input.shape or not indices.dtype.is_int:
        raise ShapeError(f"{name}: an input {input.shape} takes the integer indices that max_pool "
                         f"gave with it, not {indices.dtype.name} {indices.shape}")
    sizes = _sizes(input, kernel_size, stride, padding, output_size, name)
    lines = input.shape[:-spatial]
    zeros = functions.zeros((*lines, math.prod(sizes)), dtype=input.dtype, device=input.device)
    count = math.prod(input.shape[-spatial:])
    flat = zeros.scatter(-1, indices.reshape(*lines, count), input.reshape(*lines, count))
    return flat.reshape(*lines, *sizes)


@takes_tensors
def max_unpool1d(input: Tensor, indices: Tensor, kernel_size: Sizes, stride: Sizes | None = None,
                 padding: Sizes = 0, output_size: Sequence[int] | None = None) -> Tensor:
    """max_unpool2d with one spatial axis."""
    return _unpooled(input, indices, kernel_size, stride, padding, output_size, "max_unpool1d")


@takes_tensors
def max_unpool2d(input: Tensor, indices: Tensor, kernel_size: Sizes, stride: Sizes | None = None,
                 padding: Sizes = 0, output_size: Sequence[int] | None = None) -> Tensor:
    """Zeros, but each element of the input at its position of `indices`, which max_pool2d gave with
    it. output_size: the spatial sizes before the pooling, where its options do not tell them.

    Of two elements for one position the last stays. A position outside is an IndexError once it is
    computed.
    """
    return _unpooled(input, indices, kernel_size, stride, padding, output_size, "max_unpool2d")


@takes_tensors
def max_unpool3d(input: Tensor, indices: Tensor, kernel_size: Sizes, stride: Sizes | None = None,
                 padding: Sizes = 0, output_size: Sequence[int] | None = None) -> Tensor:
    """max_unpool2d with three spatial axes."""
    return _unpooled(input, indices, kernel_size, stride, padding, output_size, "max_unpool3d")
