"""Sums in blocks: all of the output with a part of the reduction, then all of it with the next.

What the loops read of their operands for one block stays in the caches. In: a SINK whose sum is
over blocks and what is in one, as ranges.block_reduction makes it. Out: a SINK with one STORE
more, before the others: it sums all blocks but the last in a scratch array, to which the kernel's
own stores add the last one. The order of the additions depends on nothing but the block's size.
"""
from __future__ import annotations

from lazyten.codegen.loops.packing import position, reading_order
from lazyten.codegen.loops.ranges import CARRIED, free_ranges
from lazyten.ir import dtype as dt
from lazyten.ir.arguments import Param, Range
from lazyten.ir.node import Node, elementwise, index, make, ranges_of, rewrite, toposort
from lazyten.ir.ops import Op
from lazyten.symbolic.simplify import simplify_all

FRESH = 1 << 20
"""What the orders of the partial sums' loops end with: they are not the stores' loops."""


def is_carried(sink: Node, r: Node) -> bool:
    """Whether the kernel is about one sum, over `r`, which every block can add to."""
    reductions = [n for n in toposort([sink]) if n.op is Op.ACCUMULATE]
    if len(reductions) != 1 or r not in reductions[0].src[1:]:
        return False
    total, free = reductions[0], free_ranges(sink)
    return (total.arg is Op.ADD and not total.dtype.is_half
            and all(store.arg is None and free[store] == free[total] for store in sink.src)
            and all(f.arg.kind == "loop" for f in free[total]))


def carry(sink: Node, slot: int) -> Node:
    """Add up the blocks one after the other, in the scratch array that is argument `slot`."""
    total = next(n for n in toposort([sink]) if n.op is Op.ACCUMULATE)
    blocks = next(r for r in total.src[1:] if r.arg.order[0] == CARRIED)
    outer = sorted(free_ranges(sink)[total], key=reading_order)
    last = index(blocks.arg.extent - 1)
    size = 1
    for r in outer:
        size *= r.arg.extent
    scratch = make(Op.PARAM, total.dtype, (), Param(slot, size))

    block = make(Op.RANGE, dt.INDEX, (), Range(blocks.arg.order, blocks.arg.extent - 1, "serial"))
    again = {r: make(Op.RANGE, dt.INDEX, (), r.arg._replace(order=(*r.arg.order, FRESH)))
             for r in ranges_of([total]) if r is not blocks}
    part = _summed(total, blocks, block, again)
    place = position([again[r] for r in outer])
    before = make(Op.LOAD, total.dtype, (scratch, place, elementwise(Op.CMPLT, index(0), block)))
    stored = make(Op.STORE, dt.bool_, (scratch, place, elementwise(Op.ADD, part, before)))

    before = make(Op.LOAD, total.dtype, (scratch, position(outer)))
    whole = elementwise(Op.ADD, _summed(total, blocks, last, {}), before)
    stores = rewrite([sink], lambda n: None, {total: whole})[0].src
    return make(Op.SINK, dt.bool_, tuple(simplify_all([stored, *stores])))


def _summed(total: Node, blocks: Node, block: Node, again: dict[Node, Node]) -> Node:
    """The sum of one block, with other ranges."""
    value, = rewrite([total.src[0]], lambda n: None, {blocks: block, **again})
    ranges = (again.get(r, r) for r in total.src[1:] if r is not blocks)
    return make(Op.ACCUMULATE, total.dtype, (value, *ranges), total.arg)
