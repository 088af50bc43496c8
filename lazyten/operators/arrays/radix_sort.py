"""Sorting long axes by their digits, in linear time (LSD radix sort).

In: a GRAPH node of unsigned integers. Out: a GRAPH node of positions (int64). One kernel cuts the
keys into digits. Each pass then puts the positions in the order of one digit, and leaves those of
equal ones in theirs: it looks up the digits in the order so far, counts, in blocks of BLOCK
elements, how often each occurs; sums over the counts say where the first such element of a block
goes; and comparisons within a block, where the others go. Everything but the last step, a SCATTER
of positions, is shared by threads.
"""
from __future__ import annotations

from lazyten.ir import dtype as dt
from lazyten.ir.dtype import DType
from lazyten.ir.movement import inverse_order
from lazyten.ir.node import Node, cast, const, expand, gather, move, reduce, reshape, scatter
from lazyten.ir.ops import Op
from lazyten.operators.math import elementwise as ew
from lazyten.operators.math.reductions import positions
from lazyten.operators.math.scans import scan, stored

DIGIT = 8
"""Bits of a digit."""
BLOCK = 128
"""Elements of a block: a count of them fits in uint8."""


def order(keys: Node, axis: int) -> Node:
    """Where along `axis` the least key is, the second, and so on; equal ones stay in order."""
    last = (*(a for a in range(len(keys.shape)) if a != axis), axis)
    lines = move(Op.PERMUTE, keys, last)
    n = keys.shape[axis]
    flat = reshape(lines, (keys.numel // n, n))
    sorted_ = cast(reshape(_order(flat), lines.shape), dt.INDEX)
    return move(Op.PERMUTE, sorted_, inverse_order(last))


def _order(keys: Node) -> Node:
    """The order of each row; what fills up the last block comes last, as it came last."""
    rows, n = keys.shape
    size = -(-n // BLOCK) * BLOCK
    place = dt.int32 if size << DIGIT < 1 << 31 else dt.INDEX
    wide = ew.padded(keys, ((0, 0), (0, size - n)), keys.dtype.max)
    found = positions(wide.shape, 1, place)
    for done in range(0, keys.dtype.bits, DIGIT):
        digit = stored(cast(ew.shift_right(wide, done), dt.uint8))
        to = _destinations(gather(digit, 1, found) if done else digit, place)
        found = scatter(const(0, place, found.shape), 1, to, found, None)
    return move(Op.SHRINK, found, ((0, rows), (0, n)))


def _destinations(digit: Node, place: DType) -> Node:
    """Where in its row each element goes: after all that are less, and equal ones before it."""
    rows, size = digit.shape
    blocks = size // BLOCK
    columns = stored(move(Op.PERMUTE, reshape(digit, (rows, blocks, BLOCK)), (0, 2, 1)))
    starts = _starts(columns, place)
    cell = ew.add(ew.mul(cast(columns, place), blocks), positions(columns.shape, 2, place))
    start = reshape(gather(starts, 1, reshape(cell, (rows, size))), columns.shape)
    to = ew.add(start, cast(_rank(columns), place))
    return stored(reshape(move(Op.PERMUTE, to, (0, 2, 1)), (rows, size)))


def _starts(columns: Node, place: DType) -> Node:
    """Where the first element of each digit and block goes, (rows, digits * blocks), of digits
    (rows, BLOCK, blocks)."""
    rows, _, blocks = columns.shape
    digits = 1 << DIGIT
    wide = (rows, digits, BLOCK, blocks)
    here = ew.equal(expand(reshape(columns, (rows, 1, BLOCK, blocks)), wide),
                    positions(wide, 1, dt.uint8))
    counts = stored(reduce(cast(here, dt.uint8), Op.ADD, (2,)))
    flat = cast(reshape(counts, (rows, digits * blocks)), place)
    return stored(ew.sub(scan(flat, 1, Op.ADD), flat))


def _rank(columns: Node) -> Node:
    """How many equal digits come before each in its block."""
    rows, _, blocks = columns.shape
    wide = (rows, BLOCK, BLOCK, blocks)
    this = expand(reshape(columns, (rows, BLOCK, 1, blocks)), wide)
    other = expand(reshape(columns, (rows, 1, BLOCK, blocks)), wide)
    earlier = ew.less(positions(wide, 2, dt.uint8), positions(wide, 1, dt.uint8))
    found = ew.bitwise_and(ew.equal(this, other), earlier)
    return stored(reshape(reduce(cast(found, dt.uint8), Op.ADD, (2,)), columns.shape))
