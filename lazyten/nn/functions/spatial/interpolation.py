"""Resizing: each spatial axis in turn is read at positions between its elements.

Positions are worked out in the input's type, as PyTorch does, from an IOTA: no array is stored.
"""
from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from lazyten.frontend.arguments import takes_tensors
from lazyten.frontend.tensor import Tensor
from lazyten.ir import dtype as dt
from lazyten.ir.dtype import DType
from lazyten.ir.node import Node, cast, const, expand, gather, iota, reduce, reshape
from lazyten.ir.ops import Op
from lazyten.nn.functions.spatial.adaptive_pooling import (
    adaptive_avg_pool1d,
    adaptive_avg_pool2d,
    adaptive_avg_pool3d,
)
from lazyten.operators.math import composites, shapes, special
from lazyten.operators.math import elementwise as ew
from lazyten.support.errors import ArgumentError, DTypeError, ShapeError

MODES = {"nearest": (1, 2, 3), "nearest-exact": (1, 2, 3), "linear": (1,), "bilinear": (2,),
         "bicubic": (2,), "lanczos": (2,), "trilinear": (3,), "area": (1, 2, 3)}
"""How many spatial axes each mode takes."""
PLAIN = ("nearest", "nearest-exact", "area")
"""Modes that take elements of any type."""
CUBIC = -0.75
"""The slope of the cubic kernel at distance 1 (R. Keys, IEEE Trans. ASSP 29, 1981)."""
SMOOTH_CUBIC = -0.5
"""The same where images are made smoother first, as Pillow has it."""
REACH = {"bilinear": 1, "bicubic": 2, "lanczos": 3}
"""How far the kernels of antialias=True reach."""


@dataclass(frozen=True, slots=True)
class _Resize:
    """One axis of `size` elements read at `count` places. scale: inputs an output; None: as the
    sizes say."""

    size: int
    count: int
    scale: float | None
    align_corners: bool

    @property
    def is_same(self) -> bool:
        """Whether each output is the element of its own position."""
        return self.count == self.size and self.scale in (None, 1.0)

    def step(self, dtype: DType) -> Node:
        """Elements an output."""
        if self.scale is not None:
            return const(self.scale, dtype)
        return _ratio(self.size, self.count, dtype)

    def places(self, dtype: DType) -> Node:
        """Where between the elements each output is, in floats of type `dtype`."""
        outputs = cast(iota(self.count), dtype)
        if self.align_corners:
            return ew.mul(outputs, _ratio(self.size - 1, max(self.count - 1, 1), dtype))
        return ew.sub(ew.mul(ew.add(outputs, 0.5), self.step(dtype)), 0.5)

    def nearest(self, exact: bool) -> Node:
        """The element of each output: at its start, or `exact` at its middle."""
        outputs = ew.add(cast(iota(self.count), dt.float32), 0.5 * exact)
        return self.inside(special.floor(ew.mul(outputs, self.step(dt.float32))))

    def inside(self, at: Node) -> Node:
        """Positions as integers, the nearest element for those outside."""
        return ew.clip(cast(at, dt.int64), 0, self.size - 1)

    def taps(self, mode: str, dtype: DType) -> list[tuple[Node, Node]]:
        """The elements that each output is a sum of, and their weights."""
        at = self.places(dtype)
        if mode == "bicubic":
            first = special.floor(at)
            t = ew.sub(at, first)
            distances = [ew.add(t, 1.0), t, ew.sub(1.0, t), ew.sub(2.0, t)]
            return [(self.inside(ew.add(first, i - 1.0)), _cubic(d))
                    for i, d in enumerate(distances)]
        at = ew.maximum(at, 0.0)
        below = self.inside(special.floor(at))
        t = ew.clip(ew.sub(at, cast(below, dtype)), 0.0, 1.0)
        return [(below, ew.sub(1.0, t)), (self.inside(ew.add(below, 1)), t)]

    def window(self, mode: str, dtype: DType) -> tuple[Node, Node]:
        """The elements that each output is a sum of, and their weights, (count, taps): those that a
        kernel reaches that is as much wider as there are elements an output."""
        ends = (self.size - 1, self.count - 1) if self.align_corners else (self.size, self.count)
        step = self.scale if self.scale is not None and not self.align_corners else \
            ends[0] / ends[1] if ends[1] else 0.0
        wide, reach = max(step, 1.0), REACH[mode]
        taps = 2 * math.ceil(reach * wide) + 1
        middle = ew.mul(ew.add(cast(iota(self.count), dtype), 0.5), const(step, dtype))
        first = ew.maximum(special.floor(ew.sub(middle, reach * wide - 0.5)), 0.0)
        end = ew.minimum(special.floor(ew.add(middle, reach * wide + 0.5)), float(self.size))
        at = ew.add(_along(first, 0, 2), _along(cast(iota(taps), dtype), 1, 2))
        distance = ew.mul(ew.absolute(ew.sub(ew.add(at, 0.5), _along(middle, 0, 2))), 1 / wide)
        weight = _kernel(distance, mode)
        near = ew.logical_and(ew.less(at, _along(end, 0, 2)), ew.less(distance, float(reach)))
        weight = ew.where(near, weight, const(0.0, dtype))
        total = reshape(reduce(weight, Op.ADD, (1,)), (self.count, 1))
        return self.inside(at), ew.true_divide(weight, total)


def _ratio(a: int, b: int, dtype: DType) -> Node:
    return ew.true_divide(const(float(a), dtype), float(b))


def _cubic(t: Node, slope: float = CUBIC) -> Node:
    """The cubic convolution kernel at distances 0 to 2."""
    near = ew.add(ew.mul(ew.mul(ew.sub(ew.mul(t, slope + 2), slope + 3), t), t), 1.0)
    far = ew.add(ew.mul(ew.sub(ew.mul(t, slope), 5 * slope), t), 8 * slope)
    return ew.where(ew.less_equal(t, 1.0), near, ew.sub(ew.mul(far, t), 4 * slope))


def _kernel(t: Node, mode: str) -> Node:
    """The kernel of a mode with antialias=True at distances up to its reach."""
    if mode == "lanczos":
        return ew.mul(composites.sinc(t), composites.sinc(ew.true_divide(t, 3.0)))
    return _cubic(t, SMOOTH_CUBIC) if mode == "bicubic" else ew.sub(1.0, t)


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


def _kept(mode: str, spatial: int) -> tuple[int, ...]:
    """By which factors an axis may become larger so that its scale is that of the sizes, whatever
    was given: as PyTorch has it."""
    if mode.endswith("linear"):
        return (1,)
    return (1, 2) if mode == "nearest" and spatial == 2 else ()


def _read(x: Node, axis: int, at: Node) -> Node:
    """The elements at positions (count,), all inside, along an axis."""
    shape = (*x.shape[:axis], at.shape[0], *x.shape[axis + 1:])
    return gather(x, axis, expand(_along(at, axis, len(shape)), shape))


def _along(line: Node, axis: int, rank: int) -> Node:
    """(count,) as an axis of `rank` axes."""
    return reshape(line, (*(1,) * axis, line.shape[0], *(1,) * (rank - axis - 1)))


def _smoothed(x: Node, axis: int, how: _Resize, mode: str) -> Node:
    """An axis resized by a kernel that reaches all elements between outputs."""
    at, weight = how.window(mode, x.dtype)
    count, taps = at.shape
    before, after = x.shape[:axis], x.shape[axis + 1:]
    parts = reshape(_read(x, axis, reshape(at, (count * taps,))), (*before, count, taps, *after))
    line = reshape(weight, (*(1,) * axis, count, taps, *(1,) * len(after)))
    total = reduce(ew.mul(parts, line), Op.ADD, (axis + 1,))
    return reshape(total, (*before, count, *after))


def _resized(x: Node, axis: int, how: _Resize, mode: str) -> Node:
    if mode.startswith("nearest"):
        return _read(x, axis, how.nearest(mode == "nearest-exact"))
    parts = [ew.mul(_read(x, axis, at), _along(weight, axis, len(x.shape)))
             for at, weight in how.taps(mode, x.dtype)]
    total = parts[0]
    for part in parts[1:]:
        total = ew.add(total, part)
    return total


@takes_tensors
def interpolate(input: Tensor, size: int | Sequence[int] | None = None,
                scale_factor: float | Sequence[float] | None = None, mode: str = "nearest",
                align_corners: bool | None = None, recompute_scale_factor: bool | None = None,
                antialias: bool = False) -> Tensor:
    """(batch, channels, *spatial) resized to `size`, or by `scale_factor`.

    mode: 'nearest' (the element at an output's start), 'nearest-exact' (at its middle), 'linear',
    'bilinear', 'trilinear', 'bicubic', 'lanczos' or 'area' (adaptive_avg_pool). align_corners: the
    first and the last elements stay where they are. recompute_scale_factor: positions follow from
    the sizes. antialias: in the modes 'bilinear', 'bicubic' and 'lanczos' an image that becomes
    smaller is read at all elements, as Pillow does it, and not only at those beside each output.
    """
    _check_mode(input, mode, align_corners, antialias)
    counts = _sizes(input, size, scale_factor, bool(recompute_scale_factor))
    kept = _kept(mode, input.ndim - 2)
    counts = [(m, None if m in [n * k for k in kept] else scale)
              for n, (m, scale) in zip(input.shape[2:], counts, strict=True)]
    if mode == "area":
        pools = (adaptive_avg_pool1d, adaptive_avg_pool2d, adaptive_avg_pool3d)
        return pools[input.ndim - 3](input, [n for n, _ in counts])

    def resized(x: Node) -> Node:
        for axis in reversed(range(2, len(x.shape))):
            count, scale = counts[axis - 2]
            how = _Resize(x.shape[axis], count, scale, bool(align_corners))
            if not how.is_same:
                x = (_smoothed if antialias else _resized)(x, axis, how, mode)
        return x
    if mode == "nearest" and all(m % n == 0 and scale in (None, n / m) for n, (m, scale) in zip(
            input.shape[2:], counts, strict=True)):
        return _repeated(input, [n for n, _ in counts])
    return input._unary(resized) if mode in PLAIN else input._special(resized)


def _check_mode(input: Tensor, mode: str, align_corners: bool | None, antialias: bool) -> None:
    """ArgumentError and DTypeError for a mode that is not one for such an input."""
    if not isinstance(mode, str) or mode not in MODES or input.ndim - 2 not in MODES[mode]:
        raise ArgumentError(f"interpolate of shape {input.shape}: mode {mode!r} is not one for "
                            f"{input.ndim - 2} spatial axes; those are "
                            f"{', '.join(m for m, n in MODES.items() if input.ndim - 2 in n)}")
    if antialias and mode not in REACH:
        raise ArgumentError(f"interpolate: antialias=True is for the modes {', '.join(REACH)} of "
                            f"images, not {mode!r}; leave it out, or use mode 'area'")
    if mode == "lanczos" and (align_corners or not antialias):
        raise ArgumentError("interpolate: mode 'lanczos' is there with antialias=True, and without "
                            "align_corners")
    if mode in PLAIN and align_corners is not None:
        raise ArgumentError(f"interpolate: align_corners is for linear and cubic modes, not "
                            f"{mode!r}; leave it out")
    if mode not in PLAIN and not input.dtype.is_float:
        raise DTypeError(f"interpolate of {input.dtype.name}: mode {mode!r} is for floats; convert "
                         f"with .float()")


def _repeated(x: Tensor, sizes: Sequence[int]) -> Tensor:
    """Each element as often as its axis becomes larger, as a view: its gradient is a sum."""
    for axis, n in enumerate(sizes, 2):
        x = x.repeat_interleave(n // x.shape[axis], axis)
    return x


@takes_tensors
def upsample(input: Tensor, size: int | Sequence[int] | None = None,
             scale_factor: float | Sequence[float] | None = None, mode: str = "nearest",
             align_corners: bool | None = None) -> Tensor:
    """interpolate() by an older name."""
    return interpolate(input, size, scale_factor, mode, align_corners)


@takes_tensors
def upsample_nearest(input: Tensor, size: int | Sequence[int] | None = None,
                     scale_factor: float | Sequence[float] | None = None) -> Tensor:
    """interpolate() in mode 'nearest'."""
    return interpolate(input, size, scale_factor)


@takes_tensors
def upsample_bilinear(input: Tensor, size: int | Sequence[int] | None = None,
                      scale_factor: float | Sequence[float] | None = None) -> Tensor:
    """interpolate() in mode 'bilinear' between corners."""
    return interpolate(input, size, scale_factor, "bilinear", True)
