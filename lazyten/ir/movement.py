"""Movement ops: what they do to shapes, and where each element of the result comes from.

A leaf module. `out_shape` checks an op's argument and gives the shape it makes; `is_noop` says when
it changes nothing. Where an element comes from is told by `view.py`, in strides and index
expressions.

Seven ops suffice. RESHAPE, PERMUTE, EXPAND, PAD, SHRINK and FLIP are the usual ones; SHEAR slides:

    SHEAR(axis, by, factor, offset, size):
        out[.., i, .., k, ..] = in[.., i + factor*k + offset, .., k, ..]

with i on `axis` (0 <= i < size) and k on `by`; every index read must be inside. It makes sliding
windows (EXPAND a new axis of taps, then SHEAR by it), diagonals and their gradients plain strides:
the gradient of a SHEAR is a PAD and a SHEAR by -factor, so convolutions and their gradients keep
affine indices.
"""
from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from lazyten.ir.ops import Op
from lazyten.support.errors import InternalError

Shape = tuple[int, ...]
Moves = tuple[tuple[Op, Any], ...]
"""Movement ops with their arguments, one after the other."""


def out_shape(op: Op, shape: Shape, arg: Any) -> Shape:
    """The shape that movement `op` with `arg` makes of `shape`; InternalError if it cannot."""
    rank = len(shape)
    if op is Op.RESHAPE:
        if math.prod(arg) == math.prod(shape):
            return tuple(arg)
    elif op is Op.PERMUTE:
        if sorted(arg) == list(range(rank)):
            return tuple([shape[i] for i in arg])
    elif op is Op.EXPAND:
        if len(arg) == rank and all(map(_grows, shape, arg)):
            return tuple(arg)
    elif op is Op.PAD:
        if len(arg) == rank and all(b >= 0 and a >= 0 for b, a in arg):
            return tuple(n + b + a for n, (b, a) in zip(shape, arg, strict=True))
    elif op is Op.SHRINK:
        if len(arg) == rank and all(0 <= s <= e <= n for n, (s, e) in zip(shape, arg, strict=True)):
            return tuple(e - s for s, e in arg)
    elif op is Op.FLIP:
        if all(0 <= a < rank for a in arg):
            return shape
    elif op is Op.SHEAR:
        axis, by, factor, offset, size = arg
        if axis != by and _shear_inside(shape, axis, by, factor, offset, size):
            return tuple(size if i == axis else n for i, n in enumerate(shape))
    raise InternalError(f"{op.name} {arg} does not fit shape {shape}")


def plain(op: Op, arg: Any) -> Any:
    """The argument in Python's own tuples and integers. A Size, or a number that is recorded, is
    equal to them but of another kind, and whoever makes an equal node is given the first one's."""
    if op is Op.PAD or op is Op.SHRINK:
        return tuple([(int(b), int(a)) for b, a in arg])
    return tuple([int(n) for n in arg])


def _grows(size: int, wanted: int) -> bool:
    return size == wanted or size == 1


def _shear_inside(shape: Shape, axis: int, by: int, factor: int, offset: int, size: int) -> bool:
    if size == 0 or shape[by] == 0:
        return size >= 0
    reach = factor * (shape[by] - 1)
    return 0 <= offset + min(reach, 0) and offset + max(reach, 0) + size - 1 < shape[axis]


def inverse_order(order: Sequence[int]) -> tuple[int, ...]:
    """The PERMUTE that undoes a PERMUTE by `order`."""
    return tuple(sorted(range(len(order)), key=order.__getitem__))


def inverse(op: Op, shape: Shape, arg: Any) -> tuple[Op, Any] | None:
    """The movement that takes every element back to where `op` with `arg` moved it from in `shape`.

    What was cut off comes back as 0. It is `op`'s transpose, too. None for EXPAND, which shows
    elements more than once, and for SHEAR, which may.
    """
    if op is Op.RESHAPE:
        return op, shape
    if op is Op.PERMUTE:
        return op, inverse_order(arg)
    if op is Op.FLIP:
        return op, arg
    if op is Op.PAD:
        return Op.SHRINK, tuple((b, b + n) for (b, _), n in zip(arg, shape, strict=True))
    if op is Op.SHRINK:
        return Op.PAD, tuple((s, n - e) for (s, e), n in zip(arg, shape, strict=True))
    return None


def is_noop(op: Op, shape: Shape, arg: Any) -> bool:
    """Whether the movement gives back exactly its input."""
    if op in (Op.RESHAPE, Op.EXPAND):
        return tuple(arg) == shape
    if op is Op.PERMUTE:
        return tuple(arg) == tuple(range(len(shape)))
    if op is Op.PAD:
        return all(b == a == 0 for b, a in arg)
    if op is Op.SHRINK:
        return all(s == 0 and e == n for n, (s, e) in zip(shape, arg, strict=True))
    if op is Op.FLIP:
        return all(shape[a] <= 1 for a in arg)
    axis, by, factor, offset, size = arg
    return bool(offset == 0 and size == shape[axis] and (factor == 0 or shape[by] == 1))


def followed(op: Op, shape: Shape, arg: Any, then: Any) -> Any:
    """The argument of the one movement that does what `op` with `arg` and then `op` with `then`
    make of `shape`; None if it takes two."""
    if op in (Op.RESHAPE, Op.EXPAND):
        return tuple(then)
    if op is Op.PERMUTE:
        return tuple(arg[i] for i in then)
    if op is Op.FLIP:
        return tuple(a for a in range(len(shape)) if (a in arg) != (a in then))
    if op is Op.SHRINK:
        return tuple((s + b, s + e) for (s, _), (b, e) in zip(arg, then, strict=True))
    return None


def chained(moves: Moves, shape: Shape, op: Op, arg: Any, joins: bool = True) -> Moves:
    """Moves of `shape` with one more, as few as it takes: a move that changes nothing is left out,
    and one of the last move's kind is joined with it (if it `joins`). So a view of a view has a
    short chain."""
    before, now = shape, shape
    for move in moves:
        before, now = now, out_shape(move[0], now, move[1])
    if is_noop(op, now, arg):
        return moves
    if joins and moves and moves[-1][0] is op:
        joined = followed(op, before, moves[-1][1], arg)
        if joined is not None:
            out_shape(op, now, arg)  # is it one?
            return moves[:-1] if is_noop(op, before, joined) else (*moves[:-1], (op, joined))
    return (*moves, (op, arg))


def in_a_row(shape: Shape, moves: Moves) -> tuple[int, int] | None:
    """Where the elements begin that an index of numbers and slices shows, and how many they are, if
    they are in a row in memory; None for other moves, too."""
    if not moves or moves[0][0] is not Op.SHRINK or len(moves) > 2 \
            or moves[-1][0] is not (Op.SHRINK, Op.RESHAPE)[len(moves) - 1]:
        return None
    first, size, stride, is_part = 0, 1, 1, False
    for (start, stop), n in zip(reversed(moves[0][1]), reversed(shape), strict=True):
        count = stop - start
        if is_part and count != 1:
            return None
        is_part = is_part or count != n
        first, size, stride = first + start * stride, size * count, stride * n
    return first, size
