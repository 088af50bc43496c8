"""Cumulative sums, products and maxima along an axis, in a few passes over memory.

In: a GRAPH node and an axis. Out: a GRAPH node of the same shape. The axis is cut into blocks of
BLOCK elements: sums within blocks, plus the cumulative sum of the blocks' totals, which is a
shorter problem of the same kind. An element is the result of at most BLOCK additions a level, one
after the other, so errors grow with log(n), as those of pairwise sums do.
"""
from __future__ import annotations

import math
from dataclasses import dataclass

from lazyten.ir import dtype as dt
from lazyten.ir.dtype import DType, Scalar
from lazyten.ir.node import Node, cast, elementwise, expand, make, move, reduce, reshape
from lazyten.ir.ops import SPECS, Op
from lazyten.operators.math import elementwise as ew
from lazyten.operators.math import special
from lazyten.operators.math.gradients import with_gradient
from lazyten.operators.math.inverse_functions import logaddexp
from lazyten.operators.math.reductions import logsumexp, positions, sum_type

BLOCK = 8
"""Elements that one kernel sums directly; a power of two."""


def cumulative_sum(x: Node, axis: int, in_pairs: bool = False) -> Node:
    """Sums of the elements up to each one, along `axis`; 16-bit floats are summed in float32."""
    x = cast(x, sum_type(x.dtype))
    if not x.shape or x.shape[axis] <= 1 and not in_pairs:
        return x
    wide = ew.wide(x)
    total = cast(scan(wide, axis, Op.ADD, in_pairs), x.dtype)
    known = x.dtype.is_float or in_pairs
    return with_gradient(total, (x,), ReversedSums(axis)) if known else total


def cumulative_product(x: Node, axis: int, in_pairs: bool = False) -> Node:
    """Products of the elements up to each one; 16-bit floats are multiplied in float32."""
    x = cast(x, sum_type(x.dtype))
    if not x.shape:
        return x
    wide = ew.wide(x)
    return cast(scan(wide, axis, Op.MUL, in_pairs), x.dtype)


def cumulative_logsumexp(x: Node, axis: int, in_pairs: bool = False) -> Node:
    """log of the sums of e ** x up to each element: each step doubles how many are summed."""
    x = ew.as_float(x)
    if in_pairs and x.shape:
        return reshape(logsumexp(_up_to_each(x, axis, -math.inf), (axis + 1,)), x.shape)
    step, n = 1, x.shape[axis] if x.shape else 1
    while step < n:
        around = tuple((step, 0) if a == axis else (0, 0) for a in range(len(x.shape)))
        before = ew.padded(_part(x, axis, n - step), around, -math.inf)
        x = stored(_with_weights(logaddexp(x, before), x, before))
        step *= 2
    return x


def _with_weights(total: Node, x: Node, before: Node) -> Node:
    """logaddexp, whose gradient goes to x alone where there is nothing before it."""
    return with_gradient(total, (x, before), _shares)


def _shares(g: Node, node: Node) -> tuple[Node, Node]:
    _, x, before = node.src
    none = ew.equal(before, -math.inf)
    endless = ew.bitwise_and(ew.equal(before, x), ew.equal(ew.absolute(x), math.inf))
    same = ew.bitwise_or(none, endless)  # their difference is NaN
    gap = ew.sub(ew.where(same, 0.0, x), ew.where(same, 0.0, before))
    own = ew.where(none, 1.0, special.logistic(gap))
    return ew.mul(g, own), ew.mul(g, ew.where(none, 0.0, special.logistic(ew.negative(gap))))


def cumulative_argmax(x: Node, axis: int, least: bool, in_pairs: bool = False) -> Node:
    """The position along `axis` of the greatest (least) element up to each one: of the last of
    equal ones, and of the last NaN from the first NaN on."""
    ordered = ew.inverted(x) if least else x
    top = scan(ordered, axis, Op.MAX, in_pairs)
    here = ew.bitwise_or(ew.equal(ordered, top), ew.not_equal(x, x))
    narrow = dt.int32 if x.shape[axis] <= dt.int32.max else dt.INDEX
    place = ew.where(here, positions(x.shape, axis, narrow), -1)
    return cast(scan(place, axis, Op.MAX, in_pairs), dt.INDEX)


@dataclass(frozen=True, slots=True)
class ReversedSums:
    """The gradient: an element counts in all later sums."""

    axis: int

    def __call__(self, g: Node, node: Node) -> tuple[Node]:
        backwards = move(Op.FLIP, g, (self.axis,))
        return (move(Op.FLIP, cumulative_sum(backwards, self.axis), (self.axis,)),)


def scan(x: Node, axis: int, op: Op, in_pairs: bool = False) -> Node:
    """The elements up to each one along `axis`, combined by `op` in x's own dtype."""
    n = x.shape[axis]
    if in_pairs:
        pairs = _up_to_each(x, axis, _identity(op, x.dtype))
        return reshape(reduce(pairs, op, (axis + 1,)), x.shape)
    if n <= 1:
        return x
    blocks = -(-n // BLOCK)
    padded = _padded(x, axis, 0, blocks * BLOCK - n, op)
    split = reshape(padded, (*x.shape[:axis], blocks, BLOCK, *x.shape[axis + 1:]))
    sums = _sums_within(split, axis + 1, op)
    if blocks > 1:
        totals = stored(reduce(_part(split, axis, blocks - 1), op, (axis + 1,)))
        before = stored(scan(totals, axis, op))
        sums = elementwise(op, sums, expand(_padded(before, axis, 1, 0, op), split.shape))
    return _part(reshape(sums, padded.shape), axis, n)


def _up_to_each(x: Node, axis: int, behind: Scalar) -> Node:
    """For each place along `axis` all elements up to it, along a new axis after it; those behind it
    are `behind`."""
    n, apart = x.shape[axis], (*x.shape[:axis], 1, *x.shape[axis:])
    pairs = expand(reshape(x, apart), (*x.shape[:axis], n, *x.shape[axis:]))
    to, of = (positions(pairs.shape, a, dt.INDEX) for a in (axis, axis + 1))
    return ew.where(ew.less(to, of), behind, pairs)


def _sums_within(x: Node, axis: int, op: Op) -> Node:
    """Sums up to each element of a short axis: a tree of shifted copies, for one kernel."""
    n = x.shape[axis]
    terms = [_padded(_part(x, axis, n - step), axis, step, 0, op) for step in range(n)]
    while len(terms) > 1:
        pairs = [elementwise(op, a, b) for a, b in zip(terms[::2], terms[1::2], strict=False)]
        terms = pairs + terms[len(pairs) * 2:]
    return terms[0]


def _part(x: Node, axis: int, stop: int) -> Node:
    """The first `stop` elements along `axis`."""
    return move(Op.SHRINK, x, tuple((0, stop if a == axis else n) for a, n in enumerate(x.shape)))


def _padded(x: Node, axis: int, before: int, after: int, op: Op) -> Node:
    """`x` with elements that `op` does nothing with before and after it along `axis`."""
    around = tuple((before, after) if a == axis else (0, 0) for a in range(len(x.shape)))
    return ew.padded(x, around, _identity(op, x.dtype))


def _identity(op: Op, dtype: DType) -> Scalar:
    """What `op` does nothing with."""
    identity = SPECS[op].identity
    assert identity is not None
    return identity(dtype)


def stored(x: Node) -> Node:
    """The same values, computed once and kept in memory."""
    return make(Op.CONTIGUOUS, x.dtype, (x,))
