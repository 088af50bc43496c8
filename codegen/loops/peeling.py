"""Peeling: the last iteration of a reduction's loop stands behind it, where only that is masked.

In: a SINK whose ranges are split. Out: a SINK in which such an ACCUMULATE is two, over all
iterations but the last, without a mask, and over what is inside of the last, combined: linearize
combines their accumulators before their lanes. Of several loops over one range the outermost is
peeled first, and what is left of its last iteration is a loop to be peeled again; instances that
are written out are peeled like the iterations of a loop.
"""
from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from lazyten.codegen.loops.coverage import grid, values
from lazyten.codegen.loops.ranges import free_ranges
from lazyten.ir import dtype as dt
from lazyten.ir.inspection import dump
from lazyten.ir.node import (
    Node,
    cast,
    const,
    elementwise,
    index,
    make,
    rewrite,
    substitute,
    toposort,
)
from lazyten.ir.ops import SPECS, Op
from lazyten.support.errors import InternalError
from lazyten.support.passes import is_verifying
from lazyten.symbolic.affine import affine
from lazyten.symbolic.simplify import simplify, simplify_all

LOOPS = frozenset({"reduce", "block", "unroll"})
REST = 9
"""What the orders of the last iteration's ranges end with, or what follows it where another one was
peeled before; no range is split in so many parts."""


def peel_reductions(sink: Node) -> Node:
    """The SINK with the same elements combined, and masks where some are past the end alone."""
    number = REST
    while (found := next(_masked_loops(sink), None)) is not None:
        sink = _peeled(sink, number, *found)
        number += 1
    return sink


def has_masks(sink: Node) -> bool:
    """Whether there is anything to look for."""
    return any(True for _ in _masks([sink]))


def _masks(roots: Sequence[Node]) -> Iterator[tuple[Node, list[Node]]]:
    """Comparisons of a sum of ranges with a constant, and the loops of reductions in it, the
    outermost first."""
    for node in toposort(roots):
        if node.op is Op.CMPLT and node.src[0].dtype is dt.INDEX and node.src[1].op is Op.CONST:
            terms = affine(node.src[0])[0]
            if all(t.op is Op.RANGE and factor > 0 for t, factor in terms.items()):
                loops = [t for t in terms if t.arg.kind in LOOPS]
                if loops:
                    yield node, sorted(loops, key=lambda r: r.arg.order)


def _masked_loops(sink: Node) -> Iterator[tuple[Node, Node, list[Node]]]:
    """Loops to be peeled, the mask of each, and the ACCUMULATEs that run them alone."""
    free: dict[Node, frozenset[Node]] = {}
    for mask, loops in _masks([sink]):
        free = free or free_ranges(sink)
        reductions = [n for n in free if n.op is Op.ACCUMULATE]
        r = loops[0]
        owners = [n for n in reductions if r in n.src[1:]]
        if owners and not any(r in free[n] for n in reductions) \
                and all(free[mask].issubset(n.src[1:]) for n in owners) \
                and all(set(loops).issuperset(_looped(n)) for n in owners) \
                and _last_alone(r, mask) and all(_is_identity(n, mask) for n in owners):
            yield r, mask, owners


def _looped(node: Node) -> list[Node]:
    """The loops that an ACCUMULATE runs: those of another range would stand there twice."""
    return [own for own in node.src[1:] if own.arg.kind in ("reduce", "block")]


def _last_alone(r: Node, mask: Node) -> bool:
    """Whether a mask has all of every iteration but the last, and some of that."""
    before, last = substitute([mask], {r: _of_extent(r, r.arg.extent - 1)})[0], _at_last(r, mask)
    return simplify(before) is const(True, dt.bool_) and last.op is not Op.CONST


def _at_last(r: Node, node: Node) -> Node:
    return simplify(substitute([node], {r: index(r.arg.extent - 1)})[0])


def _is_identity(node: Node, mask: Node) -> bool:
    """Whether what is masked changes nothing of what an ACCUMULATE combines."""
    identity = SPECS[node.arg].identity
    assert identity is not None
    value, = substitute([node.src[0]], {mask: const(False, dt.bool_)})
    return simplify(value) is const(identity(node.dtype), node.dtype)


def _peeled(sink: Node, number: int, r: Node, mask: Node, owners: Sequence[Node]) -> Node:
    """The SINK with the last iteration of `r` behind the others, over ranges of this number."""
    before = {r: _of_extent(r, r.arg.extent - 1)}
    last = _rest(number, r, mask, {own for n in owners for own in n.src[1:]})

    def apart(node: Node) -> Node | None:
        if node.op is not Op.ACCUMULATE or r not in node.src[1:]:
            return None
        parts = (_with_ranges(node, ranges) for ranges in (before, last))
        return cast(elementwise(node.arg, *parts), node.dtype)
    made, = rewrite([sink], apart)
    return make(Op.SINK, sink.dtype, tuple(simplify_all(made.src)))


def _with_ranges(node: Node, new: dict[Node, Node]) -> Node:
    """An ACCUMULATE over other ranges, or what they are where that is known; of 16-bit floats the
    sum before it is rounded."""
    value, *ranges = substitute(node.src, new)
    if node.dtype.is_half and node.arg is not Op.MAX:
        value = cast(value, dt.float32)
    return make(node.op, value.dtype, (value, *(r for r in ranges if r.op is Op.RANGE)), node.arg)


def _rest(number: int, r: Node, mask: Node, ranges: set[Node]) -> dict[Node, Node]:
    """What the ranges of ACCUMULATEs are in the last iteration of `r`: new ones of this number, no
    longer than the mask says, so that lanes alone are masked."""
    last = _at_last(r, mask)
    (terms, constant), end = affine(last.src[0]), int(last.src[1].value)
    new = {r: index(r.arg.extent - 1)}
    for own in ranges - {r}:
        most = own.arg.extent
        if own in terms and own.arg.kind != "vector":
            most = min(most, -((constant - end) // terms[own]))
        arg = own.arg._replace(order=(*own.arg.order, number), extent=most)
        new[own] = index(0) if most == 1 else make(Op.RANGE, own.dtype, (), arg)
    if is_verifying():
        _verify(last, new)
    return new


def _of_extent(r: Node, extent: int) -> Node:
    """The loop with so many iterations; what it counts if that is one."""
    return index(0) if extent == 1 else make(r.op, r.dtype, (), r.arg._replace(extent=extent))


def _verify(last: Node, new: dict[Node, Node]) -> None:
    """InternalError unless the new ranges go through all that the last iteration's mask has."""
    old = [own for own in new if own in affine(last.src[0])[0]]
    shorter, = substitute([last], new)
    ranges = [new[own] for own in old if new[own].op is Op.RANGE]
    inside = [np.count_nonzero(values(m, grid(own))) for m, own in ((last, old), (shorter, ranges))]
    if inside[0] != inside[1]:
        raise InternalError(f"of {inside[0]} elements of a last iteration {inside[1]} are left:\n"
                            f"{dump([last])}")
