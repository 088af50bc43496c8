"""Cumulative sums along an axis, in a few passes over memory.

In: a GRAPH node and an axis. Out: a GRAPH node of the same shape. The axis is cut into blocks of
BLOCK elements: sums within blocks, plus the cumulative sum of the blocks' totals, which is a
shorter problem of the same kind. An element is the result of at most BLOCK additions a level, one
after the other, so errors grow with log(n), as those of pairwise sums do.
"""
from __future__ import annotations

from dataclasses import dataclass

from lazyten import dtype as dt
from lazyten import elementwise as ew
from lazyten.elementwise import with_gradient
from lazyten.node import Node, cast, expand, make, move, reduce, reshape
from lazyten.ops import Op
from lazyten.reductions import sum_type

BLOCK = 8
"""Elements that one kernel sums directly; a power of two."""


def cumulative_sum(x: Node, axis: int) -> Node:
    """Sums of the elements up to each one, along `axis`; 16-bit floats are summed in float32."""
    x = cast(x, sum_type(x.dtype))
    if not x.shape or x.shape[axis] <= 1:
        return x
    wide = cast(x, dt.float32) if x.dtype.is_half else x
    total = cast(_scan(wide, axis), x.dtype)
    return with_gradient(total, (x,), _ReversedSums(axis)) if x.dtype.is_float else total


@dataclass(frozen=True, slots=True)
class _ReversedSums:
    """The gradient: an element counts in all later sums."""

    axis: int

    def __call__(self, g: Node, node: Node) -> tuple[Node]:
        backwards = move(Op.FLIP, g, (self.axis,))
        return (move(Op.FLIP, cumulative_sum(backwards, self.axis), (self.axis,)),)


def _scan(x: Node, axis: int) -> Node:
    n = x.shape[axis]
    blocks = -(-n // BLOCK)
    padded = _padded(x, axis, 0, blocks * BLOCK - n)
    split = reshape(padded, (*x.shape[:axis], blocks, BLOCK, *x.shape[axis + 1:]))
    sums = _sums_within(split, axis + 1)
    if blocks > 1:
        totals = _stored(reduce(_part(split, axis, blocks - 1), Op.ADD, (axis + 1,)))
        before = _stored(_scan(totals, axis))
        sums = ew.add(sums, expand(_padded(before, axis, 1, 0), split.shape))
    return _part(reshape(sums, padded.shape), axis, n)


def _sums_within(x: Node, axis: int) -> Node:
    """Sums up to each element of a short axis: a tree of shifted copies, for one kernel."""
    n = x.shape[axis]
    terms = [_padded(_part(x, axis, n - step), axis, step, 0) for step in range(n)]
    while len(terms) > 1:
        pairs = [ew.add(a, b) for a, b in zip(terms[::2], terms[1::2], strict=False)]
        terms = pairs + terms[len(pairs) * 2:]
    return terms[0]


def _part(x: Node, axis: int, stop: int) -> Node:
    """The first `stop` elements along `axis`."""
    return move(Op.SHRINK, x, tuple((0, stop if a == axis else n) for a, n in enumerate(x.shape)))


def _padded(x: Node, axis: int, before: int, after: int) -> Node:
    """`x` with zeros before and after it along `axis`."""
    return move(Op.PAD, x, tuple((before, after) if a == axis else (0, 0)
                                 for a in range(len(x.shape))))


def _stored(x: Node) -> Node:
    return make(Op.CONTIGUOUS, x.dtype, (x,))
