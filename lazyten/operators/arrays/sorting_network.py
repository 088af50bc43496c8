"""Sorting by a network of comparisons: Batcher's bitonic sort, of many short rows at once.

In: a GRAPH node of unsigned integers. Out: a GRAPH node of positions (int64). Sorted runs of 1, 2,
4, .. elements are merged in pairs: first each element of a run is compared with its mirror image in
the other one, then with the one a quarter of both away, an eighth, and so on to its neighbour. All
comparisons of a stage are one elementwise kernel, in vectors across rows, and a stage that occurs
again is the same kernel: log2(n) * (log2(n) + 1) / 2 stages of an axis of n. Positions are compared
where keys are equal, so that equal ones stay in order.
"""
from __future__ import annotations

from lazyten.ir import dtype as dt
from lazyten.ir.movement import inverse_order
from lazyten.ir.node import Node, cast, move, reshape
from lazyten.ir.ops import Op
from lazyten.operators.math import elementwise as ew
from lazyten.operators.math.reductions import positions
from lazyten.operators.math.scans import stored

Values = tuple[Node, ...]
"""What is in order: numbers of keys and positions at once, or keys and positions apart."""


def stages(n: int) -> int:
    """How many times each element of an axis of n is compared."""
    bits = (n - 1).bit_length()
    return bits * (bits + 1) // 2


def order(keys: Node, axis: int) -> Node:
    """Where along `axis` the least key is, the second, and so on; equal ones stay in order."""
    first = (axis, *(a for a in range(len(keys.shape)) if a != axis))
    moved = move(Op.PERMUTE, keys, first)
    n = keys.shape[axis]
    places = _positions_in_order(reshape(moved, (n, keys.numel // n)))
    return move(Op.PERMUTE, reshape(places, moved.shape), inverse_order(first))


def _positions_in_order(keys: Node) -> Node:
    """Of each column of (n, columns)."""
    n, columns = keys.shape
    size = 1 << (n - 1).bit_length()
    wide = ew.padded(keys, ((0, size - n), (0, 0)), int(keys.dtype.max))
    values = _with_positions(wide)
    run = 2
    while run <= size:
        values = _compared(values, (size // run, run, columns))
        apart = run // 4
        while apart:
            values = _compared(values, (size // (2 * apart), 2, apart * columns))
            apart //= 2
        run *= 2
    places = cast(values[-1] if len(values) > 1 else _low_half(values[0]), dt.INDEX)
    return move(Op.SHRINK, reshape(places, (size, columns)), ((0, n), (0, columns)))


def _with_positions(keys: Node) -> Values:
    """Numbers with the key in the high half and the position in the low one, where they fit."""
    if keys.dtype.bits == 64:
        return keys, positions(keys.shape, 0, dt.int32)
    kind, half = (dt.uint64, 32) if keys.dtype.bits == 32 or keys.shape[0] > 1 << 16 \
        else (dt.uint32, 16)
    return (stored(ew.bitwise_or(ew.shift_left(cast(keys, kind), half),
                                  positions(keys.shape, 0, kind))),)


def _low_half(packed: Node) -> Node:
    return ew.bitwise_and(packed, (1 << packed.dtype.bits // 2) - 1)


def _compared(values: Values, shape: tuple[int, int, int]) -> Values:
    """Each element and its mirror image along axis 1 in order, in this shape."""
    own = tuple(reshape(v, shape) for v in values)
    other = tuple(move(Op.FLIP, v, (1,)) for v in own)
    comes_first = ew.less(positions(shape, 1, dt.INDEX), shape[1] // 2)
    keeps = ew.equal(_before(own, other), comes_first)
    return tuple(stored(ew.where(keeps, a, b)) for a, b in zip(own, other, strict=True))


def _before(a: Values, b: Values) -> Node:
    """Whether a comes before b in order: no two are equal."""
    before = ew.less(a[-1], b[-1])
    for mine, others in zip(a[-2::-1], b[-2::-1], strict=True):
        before = ew.bitwise_or(ew.less(mine, others), ew.bitwise_and(ew.equal(mine, others),
                                                                    before))
    return before
