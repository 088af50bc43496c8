"""How far annotations spread: how each node of a graph can be computed apart, bodies of scans, too.

A scan is computed apart where its steps need nothing of other ranks: of a recurrent layer, a batch.
Its rows hold several values behind each other, all of which are cut; PACKED is the cut of that.
"""
from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace

from lazyten.ir.collective import Group
from lazyten.ir.kernel import Slot
from lazyten.ir.node import Node, make, toposort
from lazyten.ir.ops import Op
from lazyten.ir.scan import Body
from lazyten.sharding.choosing import Splits
from lazyten.sharding.local import Local
from lazyten.sharding.splits import PACKED, Cut, Cuts, Split, split_of

Leaf = Callable[[Node], Split | None]


def possible(order: Sequence[Node], group: Group, leaf: Leaf = lambda n: None) -> Splits:
    """How nodes can be computed apart, if those before them are. order: sources first; leaf: how a
    BUFFER is."""
    splits: dict[Node, Split] = {}
    for node in order:
        cuts = [splits[s].cut if s in splits else None for s in node.src]
        rule = _scan if node.op is Op.SCAN else split_of
        split = leaf(node) if node.op is Op.BUFFER else rule(node, cuts, group)
        if split is not None:
            splits[node] = split
    return splits


def _scan(node: Node, cuts: Cuts, group: Group) -> Split | None:
    """States of a rank's own, from its parts of rows and of what all steps read."""
    body: Body = node.arg
    takes: list[Cut | None] = []
    for i, cut in enumerate(cuts):
        carried = 0 <= i - body.xs < body.carried
        own = 1 if i < body.xs else 0
        takes.append(Cut(own) if carried else cut if cut and cut.axis == own else None)
    if all(c is None or c == PACKED for c in cuts) or not all(
            c is None or c.divides(s.shape, group.size)
            for s, c in zip(node.src, takes, strict=True)):
        return None
    own_body = _own_steps(body, takes, group)
    return None if own_body is None else Split(
        PACKED, tuple(takes), lambda src: make(Op.SCAN, node.dtype, tuple(src), own_body,
                                               node.place))


def _own_steps(body: Body, takes: Cuts, group: Group) -> Body | None:
    """What a rank's steps compute of parts of the arguments that are cut, if these are parts of all
    that steps give, and nobody waits for another rank."""
    def leaf(node: Node) -> Split | None:
        slot: Slot = node.arg
        cut = takes[slot.slot]
        if cut is None:
            return None
        own = make(Op.BUFFER, node.dtype, (), Slot(slot.slot, slot.size // group.size))
        return Split(Cut(0, cut.before), (), lambda src: own)

    order = toposort(body.outputs)
    splits = possible(order, group, leaf)
    local = Local(group, splits, "", serial=0)
    for node in order:
        local.add(node)
    cuts = [splits[n].cut if n in splits else None for n in body.outputs]
    if any(cut is None or math.prod(n.shape[:cut.axis]) * cut.before > 1
           for n, cut in zip(body.outputs, cuts, strict=True)):
        return None
    outputs = tuple(local.parts[n] for n in body.outputs)
    if any(n.op is Op.COLLECTIVE for n in toposort(outputs)):
        return None
    return replace(body, outputs=outputs)
