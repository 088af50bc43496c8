"""Views by strides, as movement ops: diagonals, sliding windows, any strides over a storage; and
writing through them.

In: shapes and what the user asked for, checked. Out: moves, which view.py makes strides of again.
"""
from __future__ import annotations

import math
from collections.abc import Sequence

from lazyten.ir import dtype as dt
from lazyten.ir.movement import Moves, inverse, out_shape
from lazyten.ir.node import Node, Shape, const, elementwise, iota, move, reshape, scatter
from lazyten.ir.ops import Op
from lazyten.operators.arrays.indexing import Chain
from lazyten.operators.math import elementwise as ew
from lazyten.operators.math import shapes
from lazyten.support.errors import ArgumentError, ShapeError
from lazyten.symbolic.view import ShapeTracker, View

MOST_EMPTY = 1 << 20
"""How many parts without elements an axis is cut in."""


def diagonal(shape: Shape, offset: int, first: int, second: int) -> Moves:
    """The diagonal of two axes becomes the last axis. Every move can be undone, for writing: after
    padding, the diagonal of a square is the first column of rows that are longer by 1."""
    rest = [a for a in range(len(shape)) if a not in (first, second)]
    chain = Chain(shape)
    chain.move(Op.PERMUTE, (*rest, first, second))
    batch = chain.shape[:-2]
    rows, columns = chain.shape[-2:]
    top, left = max(-offset, 0), max(offset, 0)
    n = max(min(rows - top, columns - left), 0)
    top, left = (top, left) if n else (0, 0)
    chain.shrink(len(batch), top, top + n)
    chain.shrink(len(batch) + 1, left, left + n)
    chain.move(Op.RESHAPE, (*batch, n * n))
    chain.on_axis(Op.PAD, len(batch), (0, n), lambda _: (0, 0))
    chain.move(Op.RESHAPE, (*batch, n, n + 1))
    chain.shrink(len(batch) + 1, 0, 1)
    chain.move(Op.RESHAPE, (*batch, n))
    return tuple(chain.moves)


def unfold(shape: Shape, axis: int, size: int, step: int) -> Moves:
    """Windows along `axis`; their elements become the last axis."""
    n = shape[axis]
    count = (n - size) // step + 1
    chain = Chain(shape)
    if not size:  # windows there may be, but no elements
        chain.shrink(axis, 0, 0)
        chain.move(Op.RESHAPE, (*shape[:axis], count, *shape[axis + 1:], 0))
        return tuple(chain.moves)
    chain.move(Op.RESHAPE, (*shape, 1))
    chain.move(Op.EXPAND, (*shape, size))
    chain.move(Op.SHEAR, (axis, len(shape), 1, 0, n - size + 1))
    chain.shrink(axis, 0, (count - 1) * step + 1)
    chain.every(axis, step)
    return tuple(chain.moves)


def as_strided(storage: Shape, size: Shape, stride: Shape, offset: int) -> Moves:
    """The moves from a storage to elements at offset + i * stride[0] + j * stride[1] ..

    ArgumentError if one is outside the storage, or if a stride or the offset is negative.
    """
    total = math.prod(storage)
    if len(size) != len(stride) or offset < 0 or any(s < 0 for s in stride):
        raise ArgumentError(f"as_strided: size {size}, stride {stride}, storage_offset {offset}: "
                            f"give a stride for each size, and nothing negative (flip() reverses)")
    last = offset + sum((n - 1) * s for n, s in zip(size, stride, strict=True))
    if 0 not in size and last >= total:
        raise ArgumentError(f"as_strided: size {size}, stride {stride}, storage_offset {offset} "
                            f"reach element {last} of a storage of {total}; reduce them")
    chain = Chain(storage)
    chain.move(Op.RESHAPE, (total,))
    if 0 in size:
        chain.shrink(0, 0, 0)
        chain.move(Op.RESHAPE, size)
        return tuple(chain.moves)
    chain.shrink(0, offset, total)
    axes = sorted((k for k, n in enumerate(size) if n > 1 and stride[k]),
                  key=lambda k: -stride[k])
    if _are_nested([(size[k], stride[k]) for k in axes]):
        _nested(chain, size, stride, axes)
        return tuple(chain.moves)
    for k, (n, s) in enumerate(zip(size, stride, strict=True)):
        seen, left = chain.shape[:k], chain.shape[k]
        chain.move(Op.RESHAPE, (*seen, 1, left))
        chain.move(Op.EXPAND, (*seen, n, left))
        chain.move(Op.SHEAR, (k + 1, k, s, 0, left - s * (n - 1)))
    chain.shrink(len(size), 0, 1)
    chain.move(Op.RESHAPE, size)
    return tuple(chain.moves)


def _are_nested(steps: Sequence[tuple[int, int]]) -> bool:
    """Whether each step is over all that those after it reach: sizes and strides, the largest
    stride first."""
    reached = 1
    for n, stride in reversed(steps):
        if stride < reached:
            return False
        reached += (n - 1) * stride
    return True


def _nested(chain: Chain, size: Shape, stride: Shape, axes: Sequence[int]) -> None:
    """Moves that show no element twice, as strides are nested, but for those that are 0."""
    for k, axis in enumerate(axes):
        n, step, left = size[axis], stride[axis], chain.shape[k]
        chain.shrink(k, 0, min(n * step, left))
        chain.on_axis(Op.PAD, k, (0, max(n * step - left, 0)), lambda _: (0, 0))
        chain.move(Op.RESHAPE, (*chain.shape[:k], n, step))
    chain.shrink(len(axes), 0, 1)
    chain.move(Op.RESHAPE, tuple(size[axis] for axis in axes))
    chain.move(Op.PERMUTE, tuple(sorted(range(len(axes)), key=lambda k: axes[k])))
    chain.move(Op.RESHAPE, tuple(n if stride[k] else 1 for k, n in enumerate(size)))
    chain.move(Op.EXPAND, size)


def parts(shape: Shape, axis: int, given: int | Sequence[int]) -> list[Moves]:
    """The moves to each part that an axis is cut in: a number of parts, or places to cut at."""
    n = shape[axis]
    if isinstance(given, int):
        if given < 1:
            raise ArgumentError(f"tensor_split into {given} parts; give 1 or more")
        if given > n + MOST_EMPTY:
            raise ArgumentError(f"tensor_split of axis {axis}, of size {n}, into {given} parts: "
                                f"nearly all would be empty; give {n + MOST_EMPTY} or less")
        cuts = [part * (n // given) + min(part, n % given) for part in range(1, given)]
    else:
        cuts = [shapes.as_int(c, "tensor_split", "a place to cut")
                for c in shapes.listed(given, "tensor_split", "places to cut")]
    starts = [slice(c, None).indices(n)[0] for c in [0, *cuts]]
    stops = [slice(None, c).indices(n)[1] for c in [*cuts, n]]
    result = []
    for start, stop in zip(starts, stops, strict=True):
        chain = Chain(shape)
        chain.shrink(axis, start, max(start, stop))
        result.append(tuple(chain.moves))
    return result


# ---- writing through views -----------------------------------------------------------------------

def written_through(moves: Moves, base: Node, value: Node) -> Node:
    """The value of `base` after `value` is written through a view of it.

    The moves are undone on `value`, and on a mask of where it lands; where a move cannot be undone,
    but the view shows no element twice, values are put at their places one by one. A view of no
    elements writes none. Raises ShapeError for a view that shows an element more than once.
    """
    steps, shape = [], base.shape
    for op, arg in moves:
        steps.append((op, arg, shape))
        shape = out_shape(op, shape, arg)
    if any(inverse(op, before, arg) is None for op, arg, before in steps):
        return _placed(moves, base, value)
    mask = const(True, dt.bool_, value.shape)
    for op, arg, before in reversed(steps):
        back = inverse(op, before, arg)
        assert back is not None
        value, mask = (move(back[0], x, back[1]) for x in (value, mask))
    return value if mask.op is Op.CONST and mask.value else elementwise(Op.WHERE, mask, value, base)


def _placed(moves: Moves, base: Node, value: Node) -> Node:
    if 0 in value.shape:
        return base
    tracker = ShapeTracker.of(base.shape)
    for op, arg in moves:
        tracker = tracker.moved(op, arg)
    view = tracker.single
    if view is None or view.mask is not None or not _apart(view):
        raise ShapeError(f"writing to a view of shape {value.shape} that shows elements more "
                         f"than once (made by expand, unfold or as_strided); clone() it first")
    place = const(view.offset, dt.INDEX, view.shape)
    for axis, (n, s) in enumerate(zip(view.shape, view.strides, strict=True)):
        along = reshape(iota(n), tuple(n if a == axis else 1 for a in range(len(view.shape))))
        place = ew.add(place, ew.mul(along, s))
    flat = scatter(reshape(base, (base.numel,)), 0, reshape(place, (value.numel,)),
                   reshape(value, (value.numel,)), None)
    return reshape(flat, base.shape)


def _apart(view: View) -> bool:
    """Whether no two elements are at one place: each step is longer than all shorter ones reach."""
    reach = 0
    for s, n in sorted((abs(s), n) for s, n in zip(view.strides, view.shape, strict=True)):
        if n > 1:
            if s <= reach:
                return False
            reach += s * (n - 1)
    return True
