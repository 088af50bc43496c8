"""What is found by comparing and counting elements, as methods.

What has as many elements as there are different values is computed at once; a jitted function
runs its Python for that.
"""
from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from lazyten.frontend.core.functions import RETURNED, ValuesAndIndices, returned_by
from lazyten.frontend.core.tensor_core import Tensor, TensorCore
from lazyten.frontend.methods.order import order_along
from lazyten.ir import dtype as dt
from lazyten.ir.node import Node, cast, const, gather, iota, move, reshape, scatter
from lazyten.ir.ops import Op
from lazyten.operators.arrays import searching
from lazyten.operators.math import elementwise as ew
from lazyten.operators.math import reductions, shapes
from lazyten.random import Array
from lazyten.support.errors import ArgumentError, DTypeError, ShapeError


@returned_by("histogram", "histogramdd")
class PointsAndLimits(NamedTuple):
    """What histogram and histogramdd give."""

    hist: Any
    bin_edges: Any


class CountingMethods(TensorCore[Tensor]):
    """Different elements, and how often there are which."""

    __slots__ = ()

    def unique(self, sorted: bool = True, return_inverse: bool = False,
               return_counts: bool = False, dim: int | None = None) -> Any:
        """The different elements, or lines along `dim`, sorted; with where each element is among
        them, and how often each occurs. Each NaN is different. Computed at once."""
        axis = None if dim is None else shapes.axis(dim, self.ndim, "unique")
        lines = _lines(self, axis)
        if lines.shape[1] == 1 and lines.dtype.kind in "iu" and not (return_inverse
                                                                     or return_counts):
            lines = np.sort(lines, 0)  # equal integers are the same: which is first does not matter
            return _runs(self, axis, lines, np.arange(len(lines)), False, False)
        order = np.lexsort(lines.T[::-1]) if lines.shape[1] else np.arange(len(lines))
        return _runs(self, axis, lines, order, return_inverse, return_counts)

    def unique_consecutive(self, return_inverse: bool = False, return_counts: bool = False,
                           dim: int | None = None) -> Any:
        """The elements in row-major order, or the lines along `dim`, without repetitions of the one
        before. Computed at once."""
        axis = None if dim is None else shapes.axis(dim, self.ndim, "unique_consecutive")
        lines = _lines(self, axis)
        return _runs(self, axis, lines, np.arange(len(lines)), return_inverse, return_counts)

    def mode(self, dim: int = -1, keepdim: bool = False) -> ValuesAndIndices[Tensor]:
        """The value that occurs most often along an axis, the least of several, and where it is
        last."""
        axis = shapes.axis(dim, self.ndim, "mode")
        kind: type[ValuesAndIndices[Tensor]] = RETURNED["mode"]
        if not self.shape:
            return kind(self._given(self.node), self._fresh(const(0, dt.INDEX)))
        reductions.need_elements(self.node, (axis,), "mode")
        index = _last_of_longest_run(self.detach().node, axis, order_along(self, axis, False).node)
        shape = tuple(1 if a == axis else n for a, n in enumerate(self.shape)
                      if keepdim or a != axis)
        place = self._fresh(index)
        values = self._given(reshape(gather(self.node, axis, place.node), shape), place)
        return kind(values, place._reshaped(shape))

    def bincount(self, weights: Tensor | None = None, minlength: int = 0) -> Tensor:
        """How often each whole number from 0 occurs in a vector, or the sums of its weights.
        Computed at once, as the greatest number decides the length."""
        if self.ndim != 1 or not self.dtype.is_int:
            raise DTypeError(f"bincount of {self.dtype.name} {self.shape}: it is for a vector of "
                             f"integers")
        least = int(shapes.as_int(minlength, "bincount", "minlength"))
        if least < 0:
            raise ArgumentError(f"bincount: minlength={least}; give 0 or more")
        numbers = self.numpy()
        if numbers.size and int(numbers.min()) < 0:
            raise ArgumentError(f"bincount: {int(numbers.min())} is below 0; all must be 0 or more")
        longest = max(least, int(numbers.max()) + 1 if numbers.size else 0)
        shapes.allocatable(longest, "bincount")
        if weights is None:
            return self._fresh(np.bincount(numbers, minlength=least).astype(np.int64))
        given = self._tensor(weights, "bincount")
        if given.shape != self.shape:
            raise ShapeError(f"bincount: weights of shape {given.shape} for {self.shape}; they "
                             f"must be equal")
        sums = np.bincount(numbers, given.detach().numpy(), least)
        single = given.dtype is dt.float32
        return self._fresh(sums.astype(np.float32) if single else sums)

    def count_nonzero(self, dim: shapes.Axes = None) -> Tensor:
        """How many elements are not 0, over some axes or all."""
        axes = shapes.axes(dim, self.ndim, "count_nonzero")
        return self._unary(lambda x: reductions.sum(ew.as_bool(x), axes))

    def histc(self, bins: int = 100, min: float = 0, max: float = 0) -> Tensor:
        """How many elements are in each of `bins` equal parts of min to max, in x's type; the last
        has both its ends. With min == max they are the least and the greatest element."""
        if not self.dtype.is_float:
            raise DTypeError(f"histc of {self.dtype.name}: it is for floats; convert with .float()")
        count = _bins(bins, "histc")
        low, high = [float(shapes.as_number(v, "histc", "a limit")) for v in (min, max)]
        if not (low <= high and math.isfinite(high - low)):
            raise ArgumentError(f"histc: min={low} and max={high}; the first must not be above the "
                                f"second, and both finite")
        x = reshape(self.detach().node, (self.numel(),))
        ends = _ends(x, low, high, 1.0)
        return self._fresh(cast(_counts(_parts(x, count, *ends), count, None), self.dtype))

    def histogram(self, bins: Any, *, range: tuple[float, float] | None = None,
                  weight: Tensor | None = None, density: bool = False) -> tuple[Tensor, Tensor]:
        """How many elements are between neighbours of the sorted vector `bins`, or in `bins` equal
        parts of `range` (None: of the least to the greatest element), and these limits; the last
        part has both its ends. weight: what each element counts. density: the counts' sum times
        the parts' width is 1."""
        if not self.dtype.is_float or self.dtype.is_half:
            raise DTypeError(f"histogram of {self.dtype.name}: it is for float32 and float64; "
                             f"convert with .float()")
        x = reshape(self.detach().node, (self.numel(),))
        edges = _edges(self, x, bins, range)
        at, count = _between(edges, x), edges.numel - 1
        if weight is not None and weight.shape != self.shape:
            raise ShapeError(f"histogram: weight of shape {weight.shape} for {self.shape}; they "
                             f"must be equal")
        each = None if weight is None else reshape(weight.detach().node, x.shape)
        found = cast(_counts(at, count, each), self.dtype)
        if density:
            total = reductions.sum(found, (0,))
            found = ew.true_divide(ew.true_divide(found, total), _widths(edges))
        result: PointsAndLimits = RETURNED["histogram"](self._fresh(found), self._fresh(edges))
        return result

    def histogramdd(self, bins: Any, *, range: Any = None, weight: Tensor | None = None,
                    density: bool = False) -> PointsAndLimits:
        """How many points, the rows of (.., D), are in each box of a grid of D axes, and the limits
        on each. bins: how many parts each axis has, one number for all, or vectors of their limits.
        range: the first and the last limit of each axis, one after the other."""
        if self.ndim < 2 or not self.dtype.is_float or self.dtype.is_half:
            raise DTypeError(f"histogramdd of {self.dtype.name} {self.shape}: it is for points "
                             f"(.., D) of float32 or float64")
        axes = self.shape[-1]
        each = list(bins) if isinstance(bins, list | tuple) else [bins] * axes
        limits = None if range is None else shapes.listed(range, "histogramdd", "the limits")
        if len(each) != axes or limits is not None and len(limits) != 2 * axes:
            raise ArgumentError(f"histogramdd of points of {axes} numbers: bins={bins!r:.60}, "
                                f"range={range!r:.60}; give bins for each, and two limits")
        if weight is not None and weight.shape != self.shape[:-1]:
            raise ShapeError(f"histogramdd: weight of shape {weight.shape} for points of shape "
                             f"{self.shape}; it must be {self.shape[:-1]}")
        points = reshape(self.detach().node, (self.numel() // max(axes, 1), axes))
        at: Node = const(0, dt.INDEX, points.shape[:1])
        edges, inside = [], ew.equal(at, 0)
        for axis, count in enumerate(each):
            x = reshape(move(Op.SHRINK, points, ((0, points.shape[0]), (axis, axis + 1))),
                        points.shape[:1])
            edge = _edges(self, x, count, None if limits is None else tuple(
                limits[2 * axis:2 * axis + 2]))
            part = _between(edge, x)
            inside = ew.bitwise_and(inside, ew.greater_equal(part, 0))
            at = ew.add(ew.mul(at, edge.numel - 1), part)
            edges.append(edge)
        shape = tuple(e.numel - 1 for e in edges)
        each_weight = None if weight is None else reshape(weight.detach().node, at.shape)
        found = cast(_counts(ew.where(inside, at, -1), math.prod(shape), each_weight), self.dtype)
        if density:
            found = ew.true_divide(found, reductions.sum(found, (0,)))
        found = reshape(found, shape)
        for axis, edge in enumerate(edges if density else []):
            column = tuple(n if a == axis else 1 for a, n in enumerate(shape))
            found = ew.true_divide(found, reshape(_widths(edge), column))
        result: PointsAndLimits = RETURNED["histogramdd"](
            self._fresh(found), tuple(self._fresh(e) for e in edges))
        return result


# ---- lines that are equal ------------------------------------------------------------------------

def _lines(x: TensorCore[Tensor], axis: int | None) -> Array:
    """The elements, or the lines along `axis`, as the rows of a matrix on the host."""
    values: Array = x.detach().numpy()
    whole = axis is None or not x.shape
    front = values.reshape(-1) if whole else np.moveaxis(values, axis or 0, 0)
    if not whole and 0 in front.shape[1:]:
        raise ShapeError(f"unique lines along axis {axis} of shape {x.shape}: they have no "
                         f"elements to be told apart by")
    return front.reshape(len(front), int(np.prod(front.shape[1:])))


def _runs(x: TensorCore[Tensor], axis: int | None, lines: Array, order: Array, inverse: bool,
          counts: bool) -> Any:
    """The first of each run of equal lines in this order, with what is asked for beside it."""
    in_order = lines[order]
    new = np.ones(len(lines), bool)
    new[1:] = (in_order[1:] != in_order[:-1]).any(1)
    chosen = in_order[new]
    if axis is not None and x.shape:
        others = (n for a, n in enumerate(x.shape) if a != axis)
        chosen = np.moveaxis(chosen.reshape(len(chosen), *others), 0, axis)
    else:
        chosen = chosen.reshape(-1)
    result = [x._copy_of(chosen, x.dtype, x.device)]
    if inverse:
        places = np.empty(len(lines), np.int64)
        places[order] = np.cumsum(new) - 1
        result.append(x._fresh(places.reshape(x.shape) if axis is None else places))
    if counts:
        starts = np.flatnonzero(new)
        result.append(x._fresh(np.diff(starts, append=len(lines)).astype(np.int64)))
    return result[0] if len(result) == 1 else tuple(result)


def _last_of_longest_run(x: Node, axis: int, order: Node) -> Node:
    """Where the last of the most frequent elements along `axis` (kept) is."""
    last = (*(a for a in range(len(x.shape)) if a != axis), axis)
    lines = move(Op.PERMUTE, gather(x, axis, order), last)
    after = searching.found_places(lines, lines, True)
    length = ew.sub(after, searching.found_places(lines, lines, False))
    rank = len(x.shape) - 1
    longest = reductions.arg_extreme(length, rank, True, False)
    end = ew.sub(gather(after, rank, longest), 1)
    back = (*range(axis), rank, *range(axis, rank))
    return gather(order, axis, move(Op.PERMUTE, end, back))


# ---- histograms ----------------------------------------------------------------------------------

def _bins(bins: Any, operation: str) -> int:
    count = shapes.as_int(bins, operation, "bins")
    if count < 1:
        raise ArgumentError(f"{operation}: bins={count}; give 1 or more")
    return count


def _ends(x: Node, low: float, high: float, around: float) -> tuple[Node, Node]:
    """Where a histogram begins and ends: its limits, or where they are equal those of x, or
    `around` them where these are equal, too."""
    ends = [const(v, x.dtype) for v in (low, high)]
    if low == high and x.numel:
        ends = [reductions.amin(x, (0,)), reductions.amax(x, (0,))]
    equal = ew.equal(ends[0], ends[1])
    return (ew.where(equal, ew.sub(ends[0], around), ends[0]),
            ew.where(equal, ew.add(ends[1], around), ends[1]))


def _parts(x: Node, count: int, low: Node, high: Node) -> Node:
    """Which of `count` equal parts of low to high each element is in; -1 if in none."""
    share = ew.true_divide(ew.mul(ew.sub(x, low), float(count)), ew.sub(high, low))
    part = ew.minimum(cast(share, dt.INDEX), count - 1)
    inside = ew.bitwise_and(ew.greater_equal(x, low), ew.less_equal(x, high))
    return ew.where(inside, part, -1)


def _between(edges: Node, x: Node) -> Node:
    """Between which limits each element is; -1 if between none."""
    count = edges.numel - 1
    at = ew.sub(searching.found_places(edges, x, True), 1)
    last = move(Op.SHRINK, edges, ((count, count + 1),))
    at = ew.where(ew.equal(x, last), count - 1, at)
    first = move(Op.SHRINK, edges, ((0, 1),))
    inside = ew.bitwise_and(ew.greater_equal(x, first), ew.less_equal(x, last))
    return ew.where(inside, ew.minimum(at, count - 1), -1)


def _widths(edges: Node) -> Node:
    """The differences of neighbours."""
    n = edges.numel
    return ew.sub(move(Op.SHRINK, edges, ((1, n),)), move(Op.SHRINK, edges, ((0, n - 1),)))


def _counts(at: Node, count: int, weight: Node | None) -> Node:
    """How many elements are at each of `count` places, or the sums of their weights. Those at -1
    add nothing to the first: a processor cannot foretell which of them not to store."""
    each = const(1, dt.int64, at.shape) if weight is None else weight
    each = ew.where(ew.less(at, 0), const(0, each.dtype, at.shape), each)
    return scatter(const(0, each.dtype, (count,)), 0, ew.maximum(at, 0), each, Op.ADD)


def _edges(x: TensorCore[Tensor], flat: Node, bins: Any,
           limits: tuple[float, float] | None) -> Node:
    """The limits of a histogram's parts, in x's type."""
    if not isinstance(bins, int):
        edges = x._tensor(bins, "histogram").detach().node
        if len(edges.shape) != 1 or edges.numel < 2 or limits is not None:
            raise ShapeError(f"histogram: bins of shape {edges.shape}; give a sorted vector of 2 "
                             f"limits or more and no range, or a number of parts")
        return cast(edges, x.dtype)
    count = _bins(bins, "histogram")
    given = [0, 0] if limits is None else shapes.listed(limits, "histogram", "the limits")
    if len(given) != 2:
        raise ArgumentError(f"histogram: range={limits!r:.60}; give the first and the last limit")
    low, high = [float(shapes.as_number(v, "histogram", "a limit")) for v in given]
    if not (low <= high and math.isfinite(high - low)):
        raise ArgumentError(f"histogram: range=({low}, {high}); the first must be below the "
                            f"second, and both finite")
    if limits is not None and low == high:
        low, high = low - 0.5, high + 0.5
    elif limits is None and not flat.numel:
        low, high = 0.0, 1.0
    first, last = _ends(flat, low, high, 0.5)
    place = cast(iota(count + 1), x.dtype)
    gap = ew.true_divide(ew.sub(last, first), float(count))
    up, down = ew.add(first, ew.mul(place, gap)), ew.sub(last, ew.mul(ew.sub(count, place), gap))
    return ew.where(ew.less(place, (count + 1) // 2), up, down)
