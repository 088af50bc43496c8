"""Images read at any places: the places of an affine map, and what is there.

Places go from -1 to 1: from one end of an axis to the other, or, with align_corners, from the
middle of its first element to that of its last one.
"""
from __future__ import annotations

import itertools
import math
from collections.abc import Sequence

from lazyten.frontend import functions
from lazyten.frontend.arguments import takes_tensors
from lazyten.frontend.tensor import Tensor
from lazyten.ir import dtype as dt
from lazyten.operators.math import shapes
from lazyten.support.errors import ArgumentError, DTypeError, ShapeError

MODES = ("bilinear", "nearest", "bicubic")
PADDING = ("zeros", "border", "reflection")
CUBIC = -0.75
"""The slope of the cubic kernel at distance 1 (R. Keys, IEEE Trans. ASSP 29, 1981)."""


@takes_tensors
def affine_grid(theta: Tensor, size: Sequence[int], align_corners: bool | None = None) -> Tensor:
    """Places for grid_sample: those of an image of `size` (batch, channels, height, width) moved by
    theta (batch, 2, 3): (batch, height, width, 2), x first. Of (batch, channels, depth, height,
    width) and theta (batch, 3, 4): (batch, depth, height, width, 3)."""
    wanted = shapes.sizes([size], "affine_grid")
    batch, *sizes = (n for i, n in enumerate(wanted or (0,)) if i != 1)
    spatial = len(sizes)
    if not theta.dtype.is_float:
        raise DTypeError(f"affine_grid of {theta.dtype.name}: theta is of floats; convert with "
                         f".float()")
    if spatial not in (2, 3) or theta.shape != (batch, spatial, spatial + 1) or min(sizes) < 1:
        raise ShapeError(f"affine_grid: theta has shape {theta.shape} and size is {wanted}; "
                         f"they need to be (batch, 2, 3) and (batch, channels, height, width), or "
                         f"(batch, 3, 4) and one more axis, with sizes of 1 or more")
    lines = []
    for axis in reversed(range(spatial)):
        n = sizes[axis]
        line = functions.linspace(-1, 1, n, dtype=theta.dtype, device=theta.device) if n > 1 \
            else functions.zeros(1, dtype=theta.dtype, device=theta.device)
        line = line if align_corners else line * ((n - 1) / n)
        lines.append(line.reshape([n if a == axis else 1 for a in range(spatial)]).expand(sizes))
    base = functions.stack([*lines, functions.ones_like(lines[0])], -1).reshape(1, -1, spatial + 1)
    return (base.expand(batch, -1, -1) @ theta.transpose(1, 2)).reshape(batch, *sizes, spatial)


@takes_tensors
def grid_sample(input: Tensor, grid: Tensor, mode: str = "bilinear", padding_mode: str = "zeros",
                align_corners: bool | None = None) -> Tensor:
    """(batch, channels, height, width) read at `grid` (batch, rows, columns, 2), x first: (batch,
    channels, rows, columns). Also with a depth before the height, and a grid (.., 3).

    mode: 'bilinear' (also for three axes), 'nearest' or, of two axes, 'bicubic'. padding_mode: what
    is beyond the image: 'zeros', its 'border', or the image mirrored ('reflection').
    """
    spatial = input.ndim - 2
    if mode not in MODES or padding_mode not in PADDING or (mode == "bicubic" and spatial != 2):
        raise ArgumentError(f"grid_sample of shape {input.shape}: mode {mode!r} with padding_mode "
                            f"{padding_mode!r}; a mode is one of {', '.join(MODES)} (the last of "
                            f"images only), a padding_mode one of {', '.join(PADDING)}")
    if spatial not in (2, 3) or grid.ndim != input.ndim or grid.shape[-1] != spatial \
            or grid.shape[0] != input.shape[0] or 0 in input.shape[2:]:
        raise ShapeError(f"grid_sample: the input has shape {input.shape} and the grid "
                         f"{grid.shape}; they need (batch, channels, height, width) and (batch, "
                         f"rows, columns, 2), or one more axis each and 3, without an axis of 0")
    if input.dtype is not grid.dtype or not input.dtype.is_float:
        raise DTypeError(f"grid_sample: the input is {input.dtype.name} and the grid "
                         f"{grid.dtype.name}; they need to be floats of one type")
    reader = _Reader(input, padding_mode, bool(align_corners))
    places = [reader.unscaled(grid[..., spatial - 1 - a], a) for a in range(spatial)]
    if mode == "bicubic":
        return reader.cubic(places)
    places = [reader.inside(at, a) for a, at in enumerate(places)]
    if mode == "nearest":
        never = functions.zeros(1, dtype=dt.bool_, device=grid.device)
        flat: Tensor = functions.where(never, grid.sum(-1), 0.0)  # gradients of 0, not none
        return reader.read([at.detach().round() for at in places]) + flat.unsqueeze(1)
    return reader.linear(places)


@takes_tensors
def grid_sampler(input: Tensor, grid: Tensor, interpolation_mode: int, padding_mode: int,
                 align_corners: bool) -> Tensor:
    """grid_sample, whose modes are numbers: 0 'bilinear', 1 'nearest', 2 'bicubic'; and 0 'zeros',
    1 'border', 2 'reflection'."""
    if interpolation_mode not in range(3) or padding_mode not in range(3):
        raise ArgumentError(f"grid_sampler: interpolation_mode={interpolation_mode!r:.40} and "
                            f"padding_mode={padding_mode!r:.40}; both are 0, 1 or 2")
    return grid_sample(input, grid, MODES[interpolation_mode], PADDING[padding_mode], align_corners)


grid_sampler_2d = grid_sampler_3d = grid_sampler


class _Reader:
    """An image, and how to read it. Places of an axis are (batch, *rows), in elements."""

    def __init__(self, image: Tensor, padding: str, align_corners: bool) -> None:
        self.sizes = image.shape[2:]
        self.flat = image.flatten(2)
        self.padding, self.align = padding, align_corners

    def unscaled(self, at: Tensor, axis: int) -> Tensor:
        """Places of -1 to 1 in elements."""
        n = self.sizes[axis]
        if self.align:
            return (at + 1) / 2 * (n - 1)
        return ((at + 1) * n - 1) / 2

    def inside(self, at: Tensor, axis: int) -> Tensor:
        """What counts in place of places outside the image."""
        if self.padding == "zeros":
            return at
        return self._held(self._mirrored(at, axis) if self.padding == "reflection" else at, axis)

    def _held(self, at: Tensor, axis: int) -> Tensor:
        """The nearest element; no gradient goes to a place that is not between two."""
        end = self.sizes[axis] - 1
        between = (at > 0) & (at < end)
        held: Tensor = functions.where(between, at, at.detach().clamp(0, end).nan_to_num())
        return held

    def _mirrored(self, at: Tensor, axis: int) -> Tensor:
        """Back and forth between the ends of the axis."""
        low, span = (0.0, self.sizes[axis] - 1) if self.align else (-0.5, self.sizes[axis])
        if not span:
            return at * 0
        away = (at - low).abs()
        turns = (away.detach() / span).floor()
        rest = away - turns * span
        mirrored: Tensor = functions.where(turns % 2 == 0, rest + low, span - rest + low)
        return mirrored

    def read(self, places: Sequence[Tensor]) -> Tensor:
        """(batch, channels, *rows): the elements at whole places, 0 outside."""
        at, is_inside = None, None
        for place, n in zip(places, self.sizes, strict=True):
            here = (place >= 0) & (place <= n - 1)
            is_inside = here if is_inside is None else is_inside & here
            index = place.nan_to_num().clamp(0, n - 1).long()
            at = index if at is None else at * n + index
        assert at is not None and is_inside is not None
        batch, channels, _ = self.flat.shape
        wide = at.flatten(1).unsqueeze(1).expand(batch, channels, -1)
        values = self.flat.gather(2, wide).reshape(batch, channels, *at.shape[1:])
        inside: Tensor = functions.where(is_inside.unsqueeze(1), values, 0.0)
        return inside

    def linear(self, places: Sequence[Tensor]) -> Tensor:
        """The elements around each place, the nearer the more."""
        below = [at.detach().floor() for at in places]
        total = None
        for corner in itertools.product((0, 1), repeat=len(places)):
            shares = [at - low if up else 1 - (at - low)
                      for at, low, up in zip(places, below, corner, strict=True)]
            part = self.read([low + up for low, up in zip(below, corner, strict=True)]
                             ) * math.prod(shares[1:], start=shares[0]).unsqueeze(1)
            total = part if total is None else total + part
        assert total is not None
        return total

    def cubic(self, places: Sequence[Tensor]) -> Tensor:
        """The 16 elements around each place; those outside are padded one by one."""
        below = [at.detach().floor() for at in places]
        shares = [_cubic_shares(at - low) for at, low in zip(places, below, strict=True)]
        total = None
        for i, j in itertools.product(range(4), repeat=2):
            element = self.read([self.inside(low + (k - 1), a).round() for a, (low, k) in enumerate(
                zip(below, (i, j), strict=True))])
            part = element * (shares[0][i] * shares[1][j]).unsqueeze(1)
            total = part if total is None else total + part
        assert total is not None
        return total


def _cubic_shares(t: Tensor) -> list[Tensor]:
    """Of the elements at -1, 0, 1 and 2, for a place at t: the kernel at their distances."""
    def near(x: Tensor) -> Tensor:
        return ((CUBIC + 2) * x - (CUBIC + 3)) * x * x + 1

    def far(x: Tensor) -> Tensor:
        return ((CUBIC * x - 5 * CUBIC) * x + 8 * CUBIC) * x - 4 * CUBIC
    return [far(t + 1), near(t), near(1 - t), far(2 - t)]
