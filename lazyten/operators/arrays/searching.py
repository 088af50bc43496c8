"""Looking up in what is sorted.

In: GRAPH nodes, of which one is sorted along its last axis. Out: GRAPH nodes of positions (int64).
NaN counts as the greatest.
"""
from __future__ import annotations

from lazyten.ir import dtype as dt
from lazyten.ir.node import Node, cast, const, expand, gather, reduce, reshape
from lazyten.ir.ops import Op
from lazyten.operators.math import elementwise as ew


def found_places(line: Node, x: Node, right: bool, in_pairs: bool = False) -> Node:
    """Where each element of x goes along the last axis of `line`, which is sorted, to keep it so:
    before equal elements, or after them (`right`). x has any shape if `line` is a vector, else the
    axes of `line` but for the last. A binary search, in as many steps as the length has bits; or
    `in_pairs` all comparisons, which are the same operations for any length."""
    axis = len(line.shape) - 1
    n = line.shape[axis]
    flat = x if axis else reshape(x, (x.numel,))
    kind = ew.result_type([line, x])
    low = const(0, dt.INDEX, flat.shape)
    high = const(n, dt.INDEX, flat.shape)
    wanted = cast(flat, kind)
    if in_pairs:
        both = (*line.shape[:axis], flat.shape[axis], n)
        there = cast(expand(reshape(line, (*line.shape[:axis], 1, n)), both), kind)
        before = _goes_before(there, expand(reshape(wanted, (*flat.shape, 1)), both), right)
        return reshape(reduce(cast(before, dt.INDEX), Op.ADD, (axis + 1,)), x.shape)
    for _ in range(n.bit_length()):
        middle = ew.shift_right(ew.add(low, high), 1)
        there = cast(gather(line, axis, ew.minimum(middle, n - 1)), kind)
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
