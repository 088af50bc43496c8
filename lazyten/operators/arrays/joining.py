"""Joining tensors: cat and stack. In and out: GRAPH nodes of one dtype."""
from __future__ import annotations

from collections.abc import Sequence

from lazyten.ir import dtype as dt
from lazyten.ir.node import Node, const, elementwise, move, reshape, with_gradients_of_none
from lazyten.ir.ops import Op
from lazyten.operators.math import reductions
from lazyten.support.errors import ShapeError


def cat(parts: Sequence[Node], axis: int) -> Node:
    """The parts one after another along `axis`; the other axes must be equal."""
    first = parts[0]
    for number, part in enumerate(parts):
        wrong = [a for a in range(len(first.shape)) if a != axis and len(part.shape) > a
                 and part.shape[a] != first.shape[a]]
        if len(part.shape) != len(first.shape) or wrong:
            at = f"axis {wrong[0]}" if wrong else "the number of axes"
            raise ShapeError(f"cat along axis {axis}: tensor {number} has shape {part.shape} and "
                             f"tensor 0 {first.shape}; {at} must be equal")
    without = [p for p in parts if not p.shape[axis]]
    parts = [p for p in parts if p.shape[axis]] or [without.pop(0)]
    total = sum(p.shape[axis] for p in parts)
    end = total
    shape = tuple(total if a == axis else n for a, n in enumerate(first.shape))
    place = reductions.positions(shape, axis, dt.int64)
    result: Node | None = None
    for part in reversed(parts):
        start = end - part.shape[axis]
        around = tuple((start, total - end) if a == axis else (0, 0) for a in range(len(shape)))
        wide = move(Op.PAD, part, around)
        before = elementwise(Op.CMPLT, place, const(end, dt.int64, shape))
        result = wide if result is None else elementwise(Op.WHERE, before, wide, result)
        end = start
    assert result is not None
    return with_gradients_of_none(result, without)


def stack(parts: Sequence[Node], axis: int) -> Node:
    """The parts along a new axis; all shapes must be equal."""
    for number, part in enumerate(parts):
        if part.shape != parts[0].shape:
            raise ShapeError(f"stack: tensor {number} has shape {part.shape} and tensor 0 "
                             f"{parts[0].shape}; they must be equal")
    shape = parts[0].shape
    wide = (*shape[:axis], 1, *shape[axis:])
    return cat([reshape(p, wide) for p in parts], axis)
