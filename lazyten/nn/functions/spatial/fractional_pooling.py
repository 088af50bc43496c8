"""Pooling whose windows of one size begin at places that are drawn (B. Graham, 2014)."""
from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from lazyten.frontend import functions
from lazyten.frontend.arguments import takes_tensors
from lazyten.frontend.tensor import Tensor
from lazyten.ir import dtype as dt
from lazyten.nn.functions.spatial.pooling import check_spatial
from lazyten.operators.math import shapes
from lazyten.operators.math.shapes import Sizes
from lazyten.support.errors import ArgumentError, ShapeError

Ratios = float | Sequence[float]


def _starts(size: int, windows: int, kernel: int, sample: Tensor) -> Tensor:
    """Where the windows of an axis begin, (.., windows), for samples (..) in [0, 1)."""
    last = functions.full((1,), size - kernel, device=sample.device).expand(*sample.shape, 1)
    if windows == 1:
        return last
    step = (size - kernel) / (windows - 1)
    places = functions.arange(windows - 1, device=sample.device).to(dtype=sample.dtype)
    drawn = sample.unsqueeze(-1)
    begun = ((places + drawn) * step).long() - (drawn * step).long()
    return functions.cat([begun, last], -1)


def _counts(input: Tensor, kernel: tuple[int, ...], output_size: Sizes | None,
            output_ratio: Ratios | None, name: str) -> tuple[int, ...]:
    spatial = len(kernel)
    sizes = input.shape[-spatial:]
    if (output_size is None) == (output_ratio is None):
        raise ArgumentError(f"{name}: give either output_size or output_ratio")
    if output_size is not None:
        counts = shapes.pair(output_size, spatial, name, "output_size")
    else:
        given = list(output_ratio) if isinstance(output_ratio, Sequence) else \
            [output_ratio] * spatial
        ratios = [shapes.as_number(r, name, "output_ratio") for r in given]
        if len(ratios) != spatial or not all(0 < r < 1 for r in ratios):
            raise ArgumentError(f"{name}: output_ratio {output_ratio} needs one number between 0 "
                                f"and 1, or {spatial}, one for each spatial axis")
        counts = tuple(int(n * r) for n, r in zip(sizes, ratios, strict=True))
    if any(n < 1 or n + k - 1 > size for n, k, size in zip(counts, kernel, sizes, strict=True)):
        raise ShapeError(f"{name} of shape {input.shape}: {counts} windows of {kernel} do not fit "
                         f"into {tuple(sizes)}; the windows of an axis and its kernel's size come "
                         f"to one more than its elements at most")
    return counts


def _fractional(input: Tensor, kernel_size: Sizes, output_size: Sizes | None,
                output_ratio: Ratios | None, samples: Tensor | None, name: str
                ) -> tuple[Tensor, Tensor]:
    """The greatest of each window, and where it is."""
    spatial = int(name[-2])
    check_spatial(input, spatial, name)
    kernel = shapes.pair(kernel_size, spatial, name, "kernel_size")
    counts = _counts(input, kernel, output_size, output_ratio, name)
    if input.ndim == spatial + 1:
        one = _fractional(input.unsqueeze(0), kernel, counts, None, samples, name)
        return one[0].squeeze(0), one[1].squeeze(0)
    lines, sizes = input.shape[:2], input.shape[2:]
    if samples is None:
        samples = functions.empty((*lines, spatial), dtype=input.dtype,
                                  device=input.device).uniform_()
    if samples.shape != (*lines, spatial):
        raise ShapeError(f"{name}: _random_samples have shape {samples.shape}; they need "
                         f"{(*lines, spatial)}")
    order = range(spatial) if spatial == 3 else reversed(range(spatial))  # as PyTorch has it
    places = functions.zeros((), dtype=dt.int64, device=input.device)
    for axis, number in zip(range(spatial), order, strict=True):
        starts = _starts(sizes[axis], counts[axis], kernel[axis], samples[..., number])
        taps = functions.arange(kernel[axis], device=input.device)
        along = [1] * (2 * spatial)
        along[axis], along[spatial + axis] = counts[axis], kernel[axis]
        here = (starts.unsqueeze(-1) + taps).reshape(*lines, *along)
        places = places + here * math.prod(sizes[axis + 1:])
    flat = places.reshape(*lines, math.prod(counts) * math.prod(kernel))
    windows = input.reshape(*lines, math.prod(sizes)).gather(-1, flat).reshape(
        *lines, math.prod(counts), math.prod(kernel))
    values, greatest = windows.max(-1)
    indices = flat.reshape(windows.shape).gather(-1, greatest.unsqueeze(-1)).squeeze(-1)
    return values.reshape(*lines, *counts), indices.reshape(*lines, *counts)


@takes_tensors
def fractional_max_pool2d(input: Tensor, kernel_size: Sizes, output_size: Sizes | None = None,
                          output_ratio: Ratios | None = None, return_indices: bool = False,
                          _random_samples: Tensor | None = None) -> Any:
    """The greatest of each of output_size windows (or output_ratio times the input's size), which
    begin at places that are drawn for each channel: about evenly, the last at the end.

    return_indices: also where each is, as of max_pool2d. _random_samples: (batch, channels, 2) in
    [0, 1), drawn unless given: what decides the places in the width, and in the height.
    """
    values, indices = _fractional(input, kernel_size, output_size, output_ratio, _random_samples,
                                  "fractional_max_pool2d")
    return (values, indices) if return_indices else values


@takes_tensors
def fractional_max_pool3d(input: Tensor, kernel_size: Sizes, output_size: Sizes | None = None,
                          output_ratio: Ratios | None = None, return_indices: bool = False,
                          _random_samples: Tensor | None = None) -> Any:
    """fractional_max_pool2d with three spatial axes; samples decide about depth, height, width."""
    values, indices = _fractional(input, kernel_size, output_size, output_ratio, _random_samples,
                                  "fractional_max_pool3d")
    return (values, indices) if return_indices else values


@takes_tensors
def fractional_max_pool2d_with_indices(
        input: Tensor, kernel_size: Sizes, output_size: Sizes | None = None,
        output_ratio: Ratios | None = None, return_indices: bool = False,
        _random_samples: Tensor | None = None) -> tuple[Tensor, Tensor]:
    """fractional_max_pool2d with return_indices, whatever is given for it."""
    return _fractional(input, kernel_size, output_size, output_ratio, _random_samples,
                       "fractional_max_pool2d")


@takes_tensors
def fractional_max_pool3d_with_indices(
        input: Tensor, kernel_size: Sizes, output_size: Sizes | None = None,
        output_ratio: Ratios | None = None, return_indices: bool = False,
        _random_samples: Tensor | None = None) -> tuple[Tensor, Tensor]:
    """fractional_max_pool3d with return_indices, whatever is given for it."""
    return _fractional(input, kernel_size, output_size, output_ratio, _random_samples,
                       "fractional_max_pool3d")
