"""Searching: for places in what is sorted, and for what comes first in order, without sorting the
rest.

In: GRAPH nodes. Out: GRAPH nodes of positions (int64). Of keys, which are unsigned integers, that
of the last element that is wanted is found by its bits, two at a time from the highest: how many
keys are below the three numbers that they could make says which it is. Each of these steps goes
through the axis once, by the same kernels. Counts of what is below that key, and of what is equal
to it, up to each element then say where the first, second, .. of these are; equal ones are taken in
their order.
"""
from __future__ import annotations

from lazyten.ir import dtype as dt
from lazyten.ir.movement import inverse_order
from lazyten.ir.node import Node, cast, const, expand, gather, move, reduce, reshape
from lazyten.ir.ops import Op
from lazyten.operators.math import elementwise as ew
from lazyten.operators.math.reductions import positions
from lazyten.operators.math.scans import scan, stored

OTHERS = 12
"""Steps' worth of what follows the search: counts up to each element, and places in them."""
LEAST_LEFT = 8
"""Of so many elements one at most is wanted: each is looked up in the counts, and then sorted."""


def found_places(line: Node, x: Node, right: bool, in_pairs: bool = False) -> Node:
    """Where each element of x goes along the last axis of `line`, which is sorted, to keep it so:
    before equal elements, or after them (`right`). x has any shape if `line` is a vector, else the
    axes of `line` but for the last. Integers of two types are compared as they are. A binary
    search, in as many steps as the length has bits; or `in_pairs` all comparisons, which are the
    same operations for any length."""
    axis = len(line.shape) - 1
    n = line.shape[axis]
    flat = x if axis else reshape(x, (x.numel,))
    kind = ew.result_type([line, x])
    low = const(0, dt.INDEX, flat.shape)
    high = const(n, dt.INDEX, flat.shape)
    line_kind, wanted = (line.dtype, flat) if kind.is_int else (kind, cast(flat, kind))
    if in_pairs:
        both = (*line.shape[:axis], flat.shape[axis], n)
        there = cast(expand(reshape(line, (*line.shape[:axis], 1, n)), both), line_kind)
        before = _goes_before(there, expand(reshape(wanted, (*flat.shape, 1)), both), right)
        return reshape(reduce(cast(before, dt.INDEX), Op.ADD, (axis + 1,)), x.shape)
    for _ in range(n.bit_length()):
        middle = ew.shift_right(ew.add(low, high), 1)
        there = cast(gather(line, axis, ew.minimum(middle, n - 1)), line_kind)
        after = ew.bitwise_and(_goes_before(there, wanted, right), ew.less(low, high))
        low, high = ew.where(after, ew.add(middle, 1), low), ew.where(after, high,
                                                                      ew.minimum(middle, high))
    return reshape(low, x.shape)


def _goes_before(there: Node, wanted: Node, right: bool) -> Node:
    """Whether an element of a sorted line stays before a new one; NaN is the greatest."""
    before = ew.less_equal(there, wanted) if right else ew.less(there, wanted)
    if not there.dtype.is_float:
        return before
    return ew.bitwise_or(before, ew.not_equal(wanted, wanted) if right else ew.bitwise_and(
        ew.not_equal(wanted, wanted), ew.equal(there, there)))


def is_shorter(stages: int, bits: int) -> bool:
    """Whether selecting goes through an axis less often than sorting in so many stages does."""
    return bits // 2 + OTHERS < stages


def kth(keys: Node, axis: int, place: int) -> Node:
    """Where along `axis`, of size 1 in the result, element number `place` in order is."""
    lines, order = _lines(keys, axis)
    return _along(_places(lines, place + 1, place, 1), keys, order)


def first(keys: Node, axis: int, count: int) -> tuple[Node, Node]:
    """Where the `count` first elements are, in the order of their positions, and their keys, in
    which equal ones stay in order."""
    lines, order = _lines(keys, axis)
    places = stored(_places(lines, count, 0, count))
    return _along(places, keys, order), _along(gather(lines, 1, places), keys, order)


def _lines(keys: Node, axis: int) -> tuple[Node, tuple[int, ...]]:
    """The keys as (lines, elements along `axis`), and the order of axes that it took."""
    order = (*(a for a in range(len(keys.shape)) if a != axis), axis)
    n = keys.shape[axis]
    return reshape(move(Op.PERMUTE, stored(keys), order), (keys.numel // n, n)), order


def _along(x: Node, keys: Node, order: tuple[int, ...]) -> Node:
    """(lines, elements) with the axes that the keys have."""
    shape = (*(keys.shape[a] for a in order[:-1]), x.shape[1])
    return move(Op.PERMUTE, reshape(x, shape), inverse_order(order))


def _places(lines: Node, count: int, start: int, wanted: int) -> Node:
    """Of each line the positions of `wanted` elements from number `start` on, of the `count` least:
    first those below the greatest of these, then those equal to it."""
    rows, n = lines.shape
    last = expand(_key(lines, count), lines.shape)
    half, kind = (16, dt.uint32) if n < 1 << 16 else (32, dt.uint64)
    below, equal = (cast(x, kind) for x in (ew.less(lines, last), ew.equal(lines, last)))
    counts = stored(scan(ew.bitwise_or(ew.shift_left(below, half), equal), 1, Op.ADD))
    high, low = ew.shift_right(counts, half), ew.bitwise_and(counts, (1 << half) - 1)
    number = ew.add(positions((rows, wanted), 1, dt.INDEX), start)
    total = move(Op.SHRINK, high, ((0, rows), (n - 1, n)))
    rest = ew.sub(number, cast(expand(total, number.shape), dt.INDEX))
    places = [found_places(line, cast(ew.maximum(x, 0), kind), True)
              for line, x in ((high, number), (low, rest))]
    return ew.where(ew.less(rest, 0), *places)


def _key(lines: Node, count: int) -> Node:
    """(lines, 1): the key of element number `count` in order, counted from 1."""
    shape = (lines.shape[0], 1)
    least = stored(const(0, lines.dtype, shape))
    step = stored(const(1 << lines.dtype.bits - 2, lines.dtype, shape))
    for _ in range(lines.dtype.bits // 2):
        found = least
        for quarter in (1, 2, 3):
            bound = ew.add(least, ew.mul(step, quarter))
            below = ew.less(lines, expand(bound, lines.shape))
            fewer = ew.less(reduce(cast(below, dt.int32), Op.ADD, (1,)), count)
            found = ew.add(found, ew.where(fewer, step, 0))
        least, step = stored(found), stored(ew.shift_right(step, 2))
    return least
