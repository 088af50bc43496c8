"""Pooling: one number for each window of the last axes. In and out: GRAPH nodes.

`nn/functions/spatial/pooling.py` makes functions of tensors of it.
"""
from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

from lazyten.ir import dtype as dt
from lazyten.ir.node import Node, Shape, cast, const, iota, move, reshape
from lazyten.ir.ops import Op
from lazyten.operators.arrays.windows import Geometry, all_windows
from lazyten.operators.math import elementwise as ew
from lazyten.operators.math import reductions
from lazyten.operators.math.elementwise import broadcast_to
from lazyten.operators.math.gradients import flat_later
from lazyten.support.errors import DTypeError


@dataclass(frozen=True, slots=True)
class Pooling:
    """How windows are laid out; `ceil`: the last may reach past the padding, if it begins before
    that."""

    geometry: Geometry
    ceil: bool = False

    def check(self, size: Shape, operation: str) -> None:
        """ShapeError if there is no window along an axis."""
        if any(last < 0 for last, _ in self._windows(size)):
            self.geometry.check(size, operation)

    def beyond(self, size: Shape) -> Shape:
        """For each spatial axis how many elements after its padding the last window needs."""
        return tuple(max(last * stride - rest, 0) for (last, rest), stride in
                     zip(self._windows(size), self.geometry.stride, strict=True))

    def _windows(self, size: Shape) -> Iterator[tuple[int, int]]:
        """For each spatial axis the last window's number, below 0 if there is none, and how many
        elements there are, with the padding, past the first one."""
        g = self.geometry
        for n, kernel, stride, padding, dilation in zip(size, g.kernel, g.stride, g.padding,
                                                        g.dilation, strict=True):
            rest = n + 2 * padding - dilation * (kernel - 1) - 1
            last = -(-rest // stride) if self.ceil else rest // stride
            if last * stride >= n + padding:  # it would begin in the padding after the end
                last -= self.ceil
            yield last, rest

    def taps(self, x: Node, value: float) -> Node:
        """(.., *windows, taps): the elements of each window along the last axis, `value` where a
        window reaches past the input."""
        spatial = len(self.geometry.kernel)
        none = ((0, 0),) * (len(x.shape) - spatial)
        more = tuple((0, n) for n in self.beyond(x.shape[-spatial:]))
        return _taps_last(all_windows(ew.padded(x, none + more, value), self.geometry, value),
                          spatial)

    def counts(self, size: Shape, dtype: dt.DType, count_padding: bool) -> Node:
        """How many elements of each window count: those of an input of `size`, and its padding if
        `count_padding`."""
        if not count_padding:
            return _sums(self.taps(const(1.0, dtype, size), 0.0))
        g = self.geometry
        more = tuple((0, n) for n in self.beyond(size))
        full = tuple(n + 2 * p for n, p in zip(size, g.padding, strict=True))
        ones = ew.padded(const(1.0, dtype, full), more, 0.0)
        bare = Geometry(g.kernel, g.stride, (0,) * len(size), g.dilation)
        return _sums(_taps_last(all_windows(ones, bare), len(size)))


def max_pool(x: Node, pooling: Pooling) -> Node:
    """The greatest of each window of the last axes; padding never wins. NaN if any is.

    The gradient of a window goes to its first greatest element.
    """
    taps = pooling.taps(x, _lowest(x.dtype))
    return reductions.extreme_along(taps, len(taps.shape) - 1, keepdim=False, least=False)


def max_positions(x: Node, pooling: Pooling) -> Node:
    """Where max_pool's elements are: int64 positions in the last axes, in row-major order."""
    taps = pooling.taps(x, _lowest(x.dtype))
    size = x.shape[-len(pooling.geometry.kernel):]
    where = pooling.taps(reshape(iota(math.prod(size)), size), -1)
    where = broadcast_to(where, taps.shape)
    greatest = reductions.amax(taps, (len(taps.shape) - 1,), keepdim=True)
    return first_position(taps, greatest, where, len(taps.shape) - 1)


def first_position(x: Node, greatest: Node, where: Node, axis: int) -> Node:
    """The least of `where` along `axis` among the places where x is `greatest` (or NaN); places
    below 0 do not count."""
    found = ew.bitwise_or(ew.equal(x, broadcast_to(greatest, x.shape)), ew.not_equal(x, x))
    found = ew.bitwise_and(found, ew.greater_equal(where, 0))
    none = const(dt.int64.max, dt.int64, x.shape)
    return reductions.amin(ew.where(found, cast(where, dt.int64), none), (axis,))


def _lowest(dtype: dt.DType) -> float:
    return -math.inf if dtype.is_float else float(dtype.min)


def _taps_last(x: Node, spatial: int) -> Node:
    """Windows' tap axes moved to the end and made one."""
    first = len(x.shape) - 2 * spatial
    order = (*range(first), *range(first, len(x.shape), 2), *range(first + 1, len(x.shape), 2))
    x = move(Op.PERMUTE, x, order)
    return reshape(x, (*x.shape[:first + spatial], math.prod(x.shape[first + spatial:])))


def _sums(taps: Node) -> Node:
    return reductions.sum(taps, (len(taps.shape) - 1,))


def average_pool(x: Node, pooling: Pooling, count_padding: bool, divisor: int | None) -> Node:
    """The mean of each window of the last axes; padding counts as 0, or not at all. With a
    `divisor` the sum over it."""
    if not x.dtype.is_float:
        raise DTypeError(f"avg_pool of {x.dtype.name}: a mean is a float; convert first with "
                         f".float()")
    geometry, wide = pooling.geometry, ew.wide(flat_later(x))
    size = x.shape[-len(geometry.kernel):]
    total = _sums(pooling.taps(wide, 0.0))
    if divisor is not None:
        mean = ew.true_divide(total, float(divisor))
    elif (count_padding or not any(geometry.padding)) and not any(pooling.beyond(size)):
        mean = ew.mul(total, 1.0 / math.prod(geometry.kernel))
    else:
        counts = pooling.counts(size, wide.dtype, count_padding)
        mean = ew.true_divide(total, broadcast_to(counts, total.shape))
    return cast(mean, x.dtype)


# ---- windows of different sizes ------------------------------------------------------------------

def _inside(n: int, windows: int) -> Node:
    """(windows, n): which of n elements are in each of some windows that share them out: window i
    from floor(i * n / windows) up to ceil((i + 1) * n / windows)."""
    shape = (windows, n)
    window, place = (reductions.positions(shape, axis, dt.int64) for axis in (0, 1))
    start = ew.floor_divide(ew.mul(window, n), windows)
    end = ew.negative(ew.floor_divide(ew.mul(ew.add(window, 1), -n), windows))
    return ew.bitwise_and(ew.greater_equal(place, start), ew.less(place, end))


def _shared_out(x: Node, axis: int, windows: int, value: float) -> Node:
    """`axis` as (windows, taps): the elements of each window, `value` for those of others."""
    n = x.shape[axis]
    if windows and n % windows == 0:
        return reshape(x, (*x.shape[:axis], windows, n // windows, *x.shape[axis + 1:]))
    shape = (*x.shape[:axis], windows, n, *x.shape[axis + 1:])
    wide = broadcast_to(reshape(x, (*x.shape[:axis], 1, *x.shape[axis:])), shape)
    inside = reshape(_inside(n, windows), (windows, n, *(1,) * (len(x.shape) - axis - 1)))
    return ew.where(broadcast_to(inside, shape), wide, value)


def adaptive_average(x: Node, axis: int, windows: int) -> Node:
    """The mean along `axis` in each of `windows` windows that share it out."""
    n = x.shape[axis]
    total = reductions.sum(_shared_out(x, axis, windows, 0.0), (axis + 1,))
    if windows and n % windows == 0:
        return ew.true_divide(total, float(n // windows))
    counts = _sums(cast(_inside(n, windows), x.dtype))
    return ew.true_divide(total, reshape(counts, (windows, *(1,) * (len(x.shape) - axis - 1))))


def adaptive_max(x: Node, where: Node, axis: int, windows: int) -> tuple[Node, Node]:
    """The greatest along `axis` in each of `windows` windows that share it out, and the least of
    `where` (int64, shaped as x) among the places that have it."""
    values = _shared_out(x, axis, windows, _lowest(x.dtype))
    places = _shared_out(where, axis, windows, -1)
    greatest = reductions.extreme_along(values, axis + 1, keepdim=True, least=False)
    return (reductions.squeezed(greatest, (axis + 1,), False),
            first_position(values, greatest, places, axis + 1))
