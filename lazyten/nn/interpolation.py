"""Resizing: each spatial axis in turn is read at positions between its elements.

Positions are worked out on the host, in the input's type, as PyTorch does.
"""
from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from lazyten import functions, shapes
from lazyten.arguments import takes_tensors
from lazyten.errors import ArgumentError, DTypeError, ShapeError
from lazyten.nn.adaptive_pooling import (
    adaptive_avg_pool1d,
    adaptive_avg_pool2d,
    adaptive_avg_pool3d,
)
from lazyten.tensor import Tensor

MODES = {"nearest": (1, 2, 3), "nearest-exact": (1, 2, 3), "linear": (1,), "bilinear": (2,),
         "bicubic": (2,), "trilinear": (3,), "area": (1, 2, 3)}
"""How many spatial axes each mode takes."""
CUBIC = -0.75
"""The slope of the cubic kernel at distance 1 (R. Keys, IEEE Trans. ASSP 29, 1981)."""

Array = np.ndarray[Any, Any]


@dataclass(frozen=True, slots=True)
class _Resize:
    """One axis of `size` elements read at `count` places. scale: inputs an output; None: as the
    sizes say."""

    size: int
    count: int
    scale: float | None
    align_corners: bool

    def places(self, kind: Any) -> Array:
        """Where between the elements each output is, in floats of type `kind`."""
        outputs: Array = np.arange(self.count).astype(kind)
        if self.align_corners:
            outputs *= kind(self.size - 1) / kind(max(self.count - 1, 1))
            return outputs
        outputs += kind(0.5)
        outputs *= self.step(kind)
        outputs -= kind(0.5)
        return outputs

    def step(self, kind: Any) -> Any:
        """Elements an output."""
        return kind(self.size) / kind(self.count) if self.scale is None else kind(self.scale)

    def nearest(self, exact: bool) -> Array:
        """The element of each output: at its start, or `exact` at its middle."""
        outputs = np.arange(self.count).astype(np.float32)
        at = np.floor((outputs + np.float32(0.5 * exact)) * self.step(np.float32))
        index: Array = np.minimum(at.astype(np.int64), self.size - 1)
        return index

    def taps(self, mode: str, kind: Any) -> list[tuple[Array, Array]]:
        """The elements that each output is a sum of, and their weights."""
        at = self.places(kind)
        if mode == "bicubic":
            first = np.floor(at)
            t = at - first
            index = first.astype(np.int64)
            weights = [_cubic(t + kind(1)), _cubic(t), _cubic(kind(1) - t), _cubic(kind(2) - t)]
            return [(np.clip(index + i - 1, 0, self.size - 1), w) for i, w in enumerate(weights)]
        at = np.maximum(at, kind(0))
        below = np.minimum(np.floor(at).astype(np.int64), self.size - 1)
        above = np.minimum(below + 1, self.size - 1)
        t = np.clip(at - below.astype(kind), kind(0), kind(1))
        return [(below, kind(1) - t), (above, t)]


def _cubic(t: Array) -> Array:
    """The cubic convolution kernel at distances 0 to 2."""
    near = ((CUBIC + 2) * t - (CUBIC + 3)) * t * t + 1
    far = ((CUBIC * t - 5 * CUBIC) * t + 8 * CUBIC) * t - 4 * CUBIC
    return np.where(t <= 1, near, far).astype(t.dtype)


def _sizes(input: Tensor, size: Any, scale_factor: Any, recompute: bool
           ) -> list[tuple[int, float | None]]:
    """How many outputs each spatial axis gets, and its scale if that is not what the sizes say."""
    spatial = input.ndim - 2
    if (size is None) == (scale_factor is None):
        raise ArgumentError("interpolate: give either size or scale_factor")
    given = size if size is not None else scale_factor
    each = list(given) if isinstance(given, Sequence) else [given] * spatial
    if len(each) != spatial:
        raise ArgumentError(f"interpolate of shape {input.shape}: {given} needs one number, or "
                            f"{spatial}, one for each spatial axis")
    if size is not None:
        counts: list[tuple[int, float | None]] = [
            (shapes.as_int(n, "interpolate", "size"), None) for n in each]
    else:
        factors = [float(shapes.as_number(f, "interpolate", "scale_factor")) for f in each]
        counts = [(math.floor(n * f), None if recompute or f <= 0 else 1 / f)
                  for n, f in zip(input.shape[2:], factors, strict=True)]
    if any(n < 1 for n, _ in counts) or 0 in input.shape[1:]:
        raise ShapeError(f"interpolate of shape {input.shape} to {[n for n, _ in counts]}: sizes "
                         f"must be 1 or more")
    return counts


def _line(x: Tensor, array: Array, axis: int) -> Tensor:
    """An array along one axis of x."""
    line = functions.tensor(array, device=x.device)
    return line.reshape(-1, *(1,) * (x.ndim - axis - 1))


def _resized(x: Tensor, axis: int, how: _Resize, mode: str) -> Tensor:
    if mode.startswith("nearest"):
        if how.count % how.size == 0 and how.scale in (None, how.size / how.count):
            return x.repeat_interleave(how.count // how.size, axis)
        at = functions.tensor(how.nearest(mode == "nearest-exact"), device=x.device)
        return x.index_select(axis, at)
    parts = [x.index_select(axis, functions.tensor(at, device=x.device)) * _line(x, weight, axis)
             for at, weight in how.taps(mode, x.dtype.numpy.type)]
    total = parts[0]
    for part in parts[1:]:
        total = total + part
    return total


@takes_tensors
def interpolate(input: Tensor, size: int | Sequence[int] | None = None,
                scale_factor: float | Sequence[float] | None = None, mode: str = "nearest",
                align_corners: bool | None = None, recompute_scale_factor: bool | None = None,
                antialias: bool = False) -> Tensor:
    """(batch, channels, *spatial) resized to `size`, or by `scale_factor`.

    mode: 'nearest' (the element at an output's start), 'nearest-exact' (at its middle), 'linear',
    'bilinear', 'trilinear', 'bicubic' or 'area' (adaptive_avg_pool). align_corners: the first and
    the last elements stay where they are. recompute_scale_factor: positions follow from the sizes.
    """
    if mode not in MODES or input.ndim - 2 not in MODES[mode]:
        raise ArgumentError(f"interpolate of shape {input.shape}: mode {mode!r} is not one for "
                            f"{input.ndim - 2} spatial axes; those are "
                            f"{', '.join(m for m, n in MODES.items() if input.ndim - 2 in n)}")
    if antialias:
        raise ArgumentError("interpolate: antialias=True is not supported; leave it out, or use "
                            "mode 'area' to make images smaller")
    plain = mode in ("nearest", "nearest-exact", "area")
    if plain and align_corners is not None:
        raise ArgumentError(f"interpolate: align_corners is for linear and cubic modes, not "
                            f"{mode!r}; leave it out")
    if not plain and not input.dtype.is_float:
        raise DTypeError(f"interpolate of {input.dtype.name}: mode {mode!r} is for floats; convert "
                         f"with .float()")
    counts = _sizes(input, size, scale_factor, bool(recompute_scale_factor))
    if mode == "area":
        pools = (adaptive_avg_pool1d, adaptive_avg_pool2d, adaptive_avg_pool3d)
        return pools[input.ndim - 3](input, [n for n, _ in counts])
    x = input.float() if input.dtype.is_half and not plain else input
    for axis in reversed(range(2, input.ndim)):
        count, scale = counts[axis - 2]
        how = _Resize(x.shape[axis], count, scale, bool(align_corners))
        x = _resized(x, axis, how, mode)
    return x._cast(input.dtype)
