"""Sorting, and what is at some place in order.

In: GRAPH nodes. Out: GRAPH nodes of positions (int64). Up to SHORT elements, an element's rank is
how many others come before it: n * n comparisons of an axis of n, which fuse with what is around
them. Up to LONG, a network of comparisons sorts them (sorting_network.py), and beyond that
radix_sort.py; the first few are found one after the other, and more of many by searching.py. Where
values are at hand and many, the host sorts them, by `host_order`. NaN counts as the greatest, and
equal elements stay in their order.
"""
from __future__ import annotations

import math
from typing import Any

import numpy as np

from lazyten.ir import dtype as dt
from lazyten.ir.node import Node, cast, const, expand, gather, make, move, reduce, reshape, scatter
from lazyten.ir.ops import Op
from lazyten.operators.arrays import joining, radix_sort, searching, sorting_network
from lazyten.operators.math import elementwise as ew
from lazyten.operators.math import reductions
from lazyten.operators.math.scans import stored

SHORT = 8
"""The longest axis that is sorted by ranks."""
SHORT_SELECTED = 64
"""The same of what was selected of many, which is little beside those."""
LONG = 1 << 17
"""The longest axis that is sorted by a network."""
FEW = 8
"""So many of an axis are found one by one, by going through it each time."""
MOST_RANKS = 1024
"""The longest axis that is sorted by ranks on devices that do much at once."""
A_LAUNCH = 4096
"""Comparisons that an item does while one more kernel is launched, some microseconds."""
HOST_WORK = 12_000_000
"""Comparisons of a network from which on the host is faster: 4 ms."""

Array = np.ndarray[Any, Any]

_UNSIGNED = {8: dt.uint8, 16: dt.uint16, 32: dt.uint32, 64: dt.uint64}
_LOW_BITS = 32


def order(x: Node, axis: int, descending: bool, count: int, by_ranks: bool = False) -> Node:
    """Where along `axis` the first `count` elements in order are. by_ranks: however many there are,
    which looks at no bits and is one kernel."""
    n = x.shape[axis]
    if n <= SHORT or by_ranks:
        found = _sorted_by_ranks(x, axis, descending)
    elif _is_few(count, n):
        return _first(keys(x, not descending), axis, count)
    elif _is_selected(x, axis, count):
        places, values = searching.first(keys(x, descending), axis, count)
        order = _sorted_by_ranks(values, axis, False) if count <= SHORT_SELECTED else \
            _sorted(values, axis)
        return gather(places, axis, order)
    else:
        found = _sorted(keys(x, descending), axis)
    return move(Op.SHRINK, found, tuple((0, count if a == axis else n)
                                        for a, n in enumerate(x.shape)))


def at_place(x: Node, axis: int, place: int, by_ranks: bool = False) -> Node:
    """Where along `axis`, of size 1 in the result, element number `place` in order is."""
    if not by_ranks and _may_be_selected(x, axis):
        return searching.kth(keys(x, False), axis, place)
    found = order(x, axis, False, place + 1, by_ranks)
    return move(Op.SHRINK, found, tuple((place, place + 1) if a == axis else (0, n)
                                        for a, n in enumerate(found.shape)))


def _may_be_selected(x: Node, axis: int) -> bool:
    """Whether one element is found faster by searching.py than by sorting all."""
    n = x.shape[axis]
    return n > SHORT and searching.is_shorter(sorting_network.stages(n), max(x.dtype.bits, 8))


def is_for_host(x: Node, axis: int, count: int) -> bool:
    """Whether NumPy sorts faster than kernels do, or finds what it looks for before the kernels of
    a new size are compiled."""
    n = x.shape[axis]
    work = x.numel * sorting_network.stages(n)
    return work > HOST_WORK and n > SHORT and not _is_few(count, n)


def suits_ranks(shape: tuple[int, ...], axis: int, items: int) -> bool:
    """Whether a device that runs so many items at once counts ranks faster than it launches the
    stages of a network."""
    n = shape[axis]
    return n <= MOST_RANKS and math.prod(shape) * n < sorting_network.stages(n) * items * A_LAUNCH


def _is_few(count: int, n: int) -> bool:
    """Whether to look for the first `count` of n one by one."""
    return 0 < count <= FEW and 2 * count <= sorting_network.stages(n)


def _is_selected(x: Node, axis: int, count: int) -> bool:
    """Whether to select the first `count`, and sort these alone."""
    return _may_be_selected(x, axis) and 0 < count * searching.LEAST_LEFT <= x.shape[axis]


def _sorted(keys: Node, axis: int) -> Node:
    """Where along `axis` the least key is, the second, and so on; equal ones stay in order."""
    if keys.shape[axis] <= LONG:
        return sorting_network.order(keys, axis)
    return radix_sort.order(keys, axis)


def _sorted_by_ranks(x: Node, axis: int, descending: bool) -> Node:
    """Where along `axis` the first, the second, .. element in order is."""
    rank = stored(_rank(x, axis, descending))
    base = const(0, dt.INDEX, x.shape)
    return scatter(base, axis, rank, reductions.positions(x.shape, axis, dt.INDEX), None)


def _first(keys: Node, axis: int, count: int) -> Node:
    """Where the `count` greatest keys are, the greatest first: of equal ones, the first."""
    keys = stored(keys)
    back = ew.invert(reductions.positions(keys.shape, axis, dt.uint32))  # greatest for the first
    left: Node = const(True, dt.bool_, keys.shape)
    found = []
    for _ in range(count):
        key, place = _greatest(keys, back, left, axis)
        found.append(cast(ew.invert(place), dt.INDEX))
        wide = expand(key, keys.shape), expand(place, keys.shape)
        left = ew.bitwise_or(ew.less(keys, wide[0]), ew.bitwise_and(ew.equal(keys, wide[0]),
                                                                   ew.less(back, wide[1])))
    return joining.cat(found, axis)


def _greatest(keys: Node, places: Node, left: Node, axis: int) -> tuple[Node, Node]:
    """The greatest (key, place) along an axis of those that are left."""
    if keys.dtype.bits == 64:
        key = reduce(ew.where(left, keys, 0), Op.MAX, (axis,))
        same = ew.bitwise_and(left, ew.equal(keys, expand(key, keys.shape)))
        return key, reduce(ew.where(same, places, 0), Op.MAX, (axis,))
    both = ew.bitwise_or(ew.shift_left(cast(keys, dt.uint64), _LOW_BITS), cast(places, dt.uint64))
    most = reduce(ew.where(left, both, 0), Op.MAX, (axis,))
    return cast(ew.shift_right(most, _LOW_BITS), keys.dtype), cast(most, places.dtype)


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


def keys(x: Node, descending: bool) -> Node:
    """Unsigned integers of as many bits, in the order of x; equal for equal elements."""
    unsigned = _UNSIGNED[x.dtype.bits] if x.dtype is not dt.bool_ else dt.uint8
    if x.dtype.kind == "f":
        x = ew.where(ew.equal(x, 0.0), const(0.0, x.dtype), x)
        bits = make(Op.BITCAST, unsigned, (x,))
        sign = const(1 << x.dtype.bits - 1, unsigned, x.shape)
        negative = ew.not_equal(ew.bitwise_and(bits, sign), 0)
        bits = ew.where(negative, ew.invert(bits), ew.bitwise_or(bits, sign))
        found = ew.where(ew.not_equal(x, x), const(int(unsigned.max), unsigned), bits)
    elif x.dtype.kind == "i":
        sign = const(1 << x.dtype.bits - 1, unsigned, x.shape)
        found = ew.bitwise_xor(make(Op.BITCAST, unsigned, (x,)), sign)
    else:
        found = cast(x, unsigned)
    return ew.invert(found) if descending else found


def packed_keys(x: Node, axis: int, descending: bool) -> Node:
    """`keys` to be sorted on the host by `host_order`: with the positions in the low half of
    uint64, where both fit."""
    high = keys(x, descending)
    if high.dtype.bits == 64:
        return high
    low = reductions.positions(x.shape, axis, dt.uint64)
    return ew.bitwise_or(ew.shift_left(cast(high, dt.uint64), _LOW_BITS), low)


def host_order(packed: Array, axis: int, key_bits: int, count: int) -> Array:
    """The first `count` positions in order along an axis, by what `packed_keys` gave for elements
    of `key_bits` bits: plain numbers are sorted much faster than positions."""
    if key_bits == 64:
        order = np.argsort(packed, axis, kind="stable").astype(np.int64)
        return order.take(range(count), axis)
    if 0 < count < packed.shape[axis]:
        packed = np.partition(packed, count - 1, axis)
    result: Array = np.sort(packed.take(range(count), axis), axis)
    return (result & ((1 << _LOW_BITS) - 1)).view(np.int64)
