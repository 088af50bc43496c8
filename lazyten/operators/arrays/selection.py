"""What comes first in order along an axis, without sorting the rest.

In: a GRAPH node of unsigned integers. Out: a GRAPH node of positions (int64). The key of the last
element that is wanted is found by its bits, two at a time from the highest: how many keys are below
the three numbers that they could make says which it is. Each of these steps goes through the axis
once, by the same kernels. Counts of what is below that key, and of what is equal to it, up to each
element then say where the first, second, .. of these are; equal ones are taken in their order.
"""
from __future__ import annotations

from lazyten.ir import dtype as dt
from lazyten.ir.movement import inverse_order
from lazyten.ir.node import Node, cast, const, expand, gather, move, reduce, reshape
from lazyten.ir.ops import Op
from lazyten.operators.arrays.searching import found_places
from lazyten.operators.math import elementwise as ew
from lazyten.operators.math.reductions import positions
from lazyten.operators.math.scans import scan, stored

OTHERS = 12
"""Steps' worth of what follows the search: counts up to each element, and places in them."""
LEAST_LEFT = 8
"""Of so many elements one at most is wanted: each is looked up in the counts, and then sorted."""


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
