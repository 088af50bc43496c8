"""Elements repeated, shifted, turned and cut. In and out: GRAPH nodes."""
from __future__ import annotations

from collections.abc import Sequence

from lazyten.ir import dtype as dt
from lazyten.ir.node import Node, Shape, cast, const, expand, iota, move, reshape
from lazyten.ir.ops import Op
from lazyten.operators.arrays import joining
from lazyten.operators.arrays.indexing import Chain, apply
from lazyten.operators.math import elementwise as ew
from lazyten.operators.math import reductions, shapes
from lazyten.support.errors import ArgumentError, EmptyAxisError, ShapeError


def tile(x: Node, times: Shape, operation: str) -> Node:
    """x side by side, `times` along the last axes."""
    rank = max(len(times), len(x.shape))
    times = (1,) * (rank - len(times)) + times
    shape = (1,) * (rank - len(x.shape)) + x.shape
    whole = shapes.countable(tuple(r * n for r, n in zip(times, shape, strict=True)), operation)
    wide = reshape(x, tuple(m for n in shape for m in (1, n)))
    wide = expand(wide, tuple(m for r, n in zip(times, shape, strict=True) for m in (r, n)))
    return reshape(wide, whole)


def repeated(x: Node, axis: int, times: int) -> Node:
    """Each position of an axis `times` times."""
    if not x.shape:
        x = reshape(x, (1,))
    before, n, after = x.shape[:axis], x.shape[axis], x.shape[axis + 1:]
    wide = expand(reshape(x, (*before, n, 1, *after)), (*before, n, times, *after))
    return reshape(wide, (*before, n * times, *after))


def roll(x: Node, shifts: int | Sequence[int], dims: int | Sequence[int] | None) -> Node:
    """x moved along axes, round the ends."""
    if dims is None:
        return reshape(roll(reshape(x, (x.numel,)), shifts, 0), x.shape)
    places = list(dims) if isinstance(dims, Sequence) else [dims]
    steps = list(shifts) if isinstance(shifts, Sequence) else [shifts]
    if len(places) != len(steps):
        raise ArgumentError(f"roll: {len(steps)} shifts for {len(places)} axes; give one for each")
    if places and not x.shape:
        raise EmptyAxisError(f"roll of a zero-dim tensor along axis {places[0]}: it has none; "
                             f"check .ndim first")
    for step, place in zip(steps, places, strict=True):
        axis = shapes.axis(place, len(x.shape), "roll")
        x = _rolled(x, shapes.as_int(step, "roll", "the shift"), axis)
    return x


def _rolled(x: Node, shift: int, axis: int) -> Node:
    n = x.shape[axis]
    cut = n - shift % n if n else 0
    first, last = Chain(x.shape), Chain(x.shape)
    return joining.cat([apply(first.cut(axis, cut, n), x), apply(last.cut(axis, 0, cut), x)], axis)


def differences(x: Node, axis: int, times: int) -> Node:
    """Differences of neighbours along an axis, again and again."""
    for _ in range(times):
        n = x.shape[axis]
        if n == 0:
            return x
        right = apply(Chain(x.shape).cut(axis, 1, n), x)
        left = apply(Chain(x.shape).cut(axis, 0, n - 1), x)
        x = ew.not_equal(right, left) if x.dtype.kind == "b" else ew.sub(right, left)
    return x


def flip(x: Node, axes: tuple[int, ...]) -> Node:
    """Axes in reverse order."""
    return move(Op.FLIP, x, axes)


def turned(x: Node, turns: int, dims: Sequence[int]) -> Node:
    """The plane of two axes turned by quarters."""
    rank = len(x.shape)
    dims = shapes.listed(dims, "rot90", "dims")
    if len(dims) != 2 or rank < 2:
        raise ArgumentError(f"rot90 of shape {x.shape}: dims={tuple(dims)}; name two axes")
    first, second = (shapes.axis(a, rank, "rot90") for a in dims)
    if first == second:
        raise ArgumentError(f"rot90: both axes are {first}; name two")
    order = list(range(rank))
    order[first], order[second] = second, first
    if turns == 2:
        return flip(x, (first, second))
    if turns:
        return flip(move(Op.PERMUTE, x, tuple(order)), (first,) if turns == 1 else (second,))
    return x


def triangle(x: Node, diagonal: int, lower: bool) -> Node:
    """0 above (below) a diagonal of the last two axes."""
    name = "tril" if lower else "triu"
    if len(x.shape) < 2:
        raise ShapeError(f"{name} of shape {x.shape}: a matrix has at least 2 axes")
    rows, columns = x.shape[-2:]
    diagonal = shapes.as_int(diagonal, name, "the diagonal")
    row, column = reshape(iota(rows), (rows, 1)), reshape(iota(columns), (1, columns))
    limit = ew.add(row, diagonal)
    keep = ew.less_equal(column, limit) if lower else ew.greater_equal(column, limit)
    return ew.where(keep, x, const(0, x.dtype))


def without_nan(x: Node) -> Node:
    """0 for NaN."""
    return ew.where(ew.not_equal(x, x), const(0.0, x.dtype), x) if x.dtype.is_float else x


def nan_mean(x: Node, axes: tuple[int, ...], keepdim: bool) -> Node:
    """The mean of what is no NaN."""
    count = reductions.sum(cast(ew.equal(x, x), dt.INDEX), axes, keepdim)
    return ew.true_divide(reductions.sum(without_nan(x), axes, keepdim), cast(count, x.dtype))
