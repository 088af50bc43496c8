"""Sorting by comparisons, and looking up in what is sorted.

In: GRAPH nodes. Out: GRAPH nodes of positions (int64). An element's rank is how many others come
before it: that is n * n comparisons an axis of n, which fuse and vectorize, so it is for axes of up
to SHORT elements. Longer ones are sorted on the host (`host_order`), where values are at hand.
NaN counts as the greatest, and equal elements stay in their order.
"""
from __future__ import annotations

from typing import Any

import numpy as np

from lazyten import dtype as dt
from lazyten import elementwise as ew
from lazyten import reductions
from lazyten.node import Node, cast, const, expand, make, move, reduce, reshape, scatter
from lazyten.ops import Op

SHORT = 1024
"""The longest axis that is sorted by ranks."""

Array = np.ndarray[Any, Any]


def order(x: Node, axis: int, descending: bool) -> Node:
    """Where along `axis` the first, second, .. element in order is, by ranks."""
    rank = make(Op.CONTIGUOUS, dt.INDEX, (_rank(x, axis, descending),))
    base = const(0, dt.INDEX, x.shape)
    return scatter(base, axis, rank, reductions.positions(x.shape, axis, dt.INDEX), None)


def _rank(x: Node, axis: int, descending: bool) -> Node:
    """How many elements along `axis` come before each."""
    n = x.shape[axis]
    lead, rest = x.shape[:axis], x.shape[axis + 1:]
    wide = (*lead, n, n, *rest)
    this = expand(reshape(x, (*lead, n, 1, *rest)), wide)
    other = expand(reshape(x, (*lead, 1, n, *rest)), wide)
    first, second = (this, other) if descending else (other, this)
    before = ew.less(first, second)
    equal = ew.equal(first, second)
    if x.dtype.is_float:
        no_number, as_well = (ew.not_equal(v, v) for v in (second, first))
        before = ew.bitwise_or(before, ew.bitwise_and(no_number, ew.invert(as_well)))
        equal = ew.bitwise_or(equal, ew.bitwise_and(no_number, as_well))
    earlier = ew.less(reductions.positions(wide, axis + 1, dt.INDEX),
                      reductions.positions(wide, axis, dt.INDEX))
    before = ew.bitwise_or(before, ew.bitwise_and(equal, earlier))
    return reshape(reduce(cast(before, dt.INDEX), Op.ADD, (axis + 1,)), x.shape)


def host_order(values: Array, axis: int, descending: bool) -> Array:
    """The same by NumPy, of values at hand."""
    if not descending:
        return np.argsort(values, axis, kind="stable").astype(np.int64)
    backwards = np.argsort(np.flip(values, axis), axis, kind="stable")
    result: Array = (values.shape[axis] - 1 - np.flip(backwards, axis)).astype(np.int64)
    return result


def found_places(line: Node, x: Node, right: bool) -> Node:
    """Where each element of x goes in a sorted vector to keep it sorted: before equal elements, or
    after them (`right`). A binary search, in as many steps as the length has bits."""
    n = line.shape[0]
    flat = reshape(x, (x.numel,))
    kind = ew.result_type([line, x])
    low = const(0, dt.INDEX, flat.shape)
    high = const(n, dt.INDEX, flat.shape)
    wanted = cast(flat, kind)
    for _ in range(n.bit_length()):
        middle = ew.shift_right(ew.add(low, high), 1)
        at = ew.minimum(middle, n - 1)
        there = cast(make(Op.GATHER, line.dtype, (line, at), 0), kind)
        after = ew.less_equal(there, wanted) if right else ew.less(there, wanted)
        if kind.is_float:  # NaN is the greatest
            after = ew.bitwise_or(after, ew.not_equal(wanted, wanted) if right else
                                  ew.bitwise_and(ew.not_equal(wanted, wanted),
                                                 ew.equal(there, there)))
        after = ew.bitwise_and(after, ew.less(low, high))
        low, high = ew.where(after, ew.add(middle, 1), low), ew.where(after, high,
                                                                      ew.minimum(middle, high))
    return reshape(low, x.shape)


def first_of(x: Node, axis: int, count: int) -> Node:
    """The first `count` elements along an axis."""
    return move(Op.SHRINK, x, tuple((0, count if a == axis else n) for a, n in enumerate(x.shape)))
