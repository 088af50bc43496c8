"""Long sums of floats are cut into blocks that are summed up apart, so that errors grow slowly.

In: a SINK and how many elements one iteration of each loop takes. Out: the loops that each range of
a long sum becomes; optimize.py splits them so. An accumulator adds at most LONGEST numbers one
after the other, then what it has is one number of the next level: what rounding does to a sum of n
numbers grows with the number of levels, about log(n), not with n. The order of additions follows
from the kernel and the optimizer's decisions alone.
"""
from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence

from lazyten.ir import dtype as dt
from lazyten.ir.node import Node, toposort
from lazyten.ir.ops import Op
from lazyten.symbolic.bounds import bounds

LONGEST = 512
"""Additions in a row that are not cut."""
BLOCK, LEAST = 256, 64
"""Additions in a row, at most and at least, of what is cut: beside so many the one more that adds
a block is nothing."""
LEAST_LANES = 4
"""Lanes of which two vectors of 16-bit integers are one of 16 bytes."""

Loops = tuple[tuple[int, str], ...]
"""Extents and kinds, the outermost first: 'block' loops around a 'reduce' loop."""


def blocked_sums(sink: Node, step: Callable[[Node], int],
                 carried: Mapping[Node, int]) -> dict[Node, Loops]:
    """The loops that the ranges of long sums become, where that is more than one 'reduce' loop.

    step: how many elements of a range its loop takes at a time. carried: of how many elements the
    loops are where only so many are summed before the sum is stored. Loops may run past the end of
    their range, which must be masked.
    """
    found: dict[Node, Loops] = {}
    for node in toposort([sink]):
        if node.op is Op.ACCUMULATE and node.arg is Op.ADD and node.dtype.is_float:
            inside = 1
            for r in sorted(node.src[1:], key=lambda r: r.arg.order, reverse=True):
                loops, inside = _levels(carried.get(r, r.arg.extent), step(r), inside)
                if loops != ((loops[0][0], "reduce"),):
                    found[r] = loops
    return found


def run_of(own: Sequence[Node]) -> int:
    """How many elements of a sum's outermost range are summed up apart, where what is inside is so
    little that they are several, and no range has lanes or accumulators of its own; all of them
    where the sum is not cut there. own: its ranges, outermost first."""
    inside, extent = math.prod(r.arg.extent for r in own[1:]), int(own[0].arg.extent)
    return extent if len(own) == 1 or inside >= LEAST else _levels(extent, 1, inside)[0][-1][0]


def _levels(extent: int, step: int, inside: int) -> tuple[Loops, int]:
    """The loops over a range, and how many additions in a row one run through the outermost makes;
    `inside`: how many one iteration of the innermost makes."""
    count, kind = -(-extent // step), "reduce"
    loops: list[tuple[int, str]] = []
    while inside * count > LONGEST:
        run = _run(count, inside, extent % step == 0)
        if run > 1:
            loops.append((run, kind))
        count, inside, kind = -(-count // run), 1, "block"
    return ((count, kind), *reversed(loops)), inside * count


def _run(count: int, inside: int, whole: bool) -> int:
    """How many of `count` iterations to sum up apart. whole: nothing is past the end, and nothing
    should be."""
    room = max(BLOCK // inside, 1)
    if whole:
        fitting = [d for d in range(1, LONGEST // inside + 1)
                   if count % d == 0 and d * inside >= LEAST]
        if fitting:
            return max((d for d in fitting if d <= room), default=fitting[0])
    return -(-count // -(-count // room))


def adds_narrow_products(node: Node) -> bool:
    """Whether an ACCUMULATE adds, in int32, products of integers that fit 16 bits: in whatever
    order they are added, the sum is the same."""
    if node.arg is not Op.ADD or node.dtype is not dt.int32 or node.src[0].op is not Op.MUL:
        return False
    return all(map(_is_narrow, node.src[0].src))


def _is_narrow(factor: Node) -> bool:
    """Whether an integer is known to fit 16 bits, sign included."""
    found = bounds(factor)
    return found is not None and -1 << 15 <= found[0] and found[1] < 1 << 15


def is_widened(factor: Node) -> bool:
    """Whether a factor of such a product is there in a narrow type."""
    return factor.op is Op.CAST and factor.src[0].dtype in (dt.int8, dt.uint8, dt.int16)
