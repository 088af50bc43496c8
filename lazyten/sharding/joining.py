"""Small sums over ranks that need nothing of each other are one, as each costs a message.

A collective takes a time of its own, and some for each byte; where both are alike one pays as much
again for being alone. docs/distributed.md has the measured points: 23 microseconds that a
collective costs between two processes, and 8.3 GB/s. Larger ones begin as soon as what they read
is there, while kernels run, so they stay alone.
"""
from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate

from lazyten.ir.node import Node, make, move, rebuild, reshape, toposort
from lazyten.ir.ops import Op

SECONDS, BYTES_PER_SECOND = 23e-6, 8.3e9
SMALL = int(SECONDS * BYTES_PER_SECOND)
"""Bytes that take as long as a collective costs besides."""

Kind = tuple[object, ...]


def joined(roots: Sequence[Node], first: int) -> list[Node]:
    """The graph with one all_reduce for small ones of a kind that are as many others away from the
    start: none of these waits for another. first: the serial number from which on they count."""
    order, depth = toposort(roots), _depths(roots)
    together: dict[Kind, list[Node]] = {}
    for node in order:
        if _is_small_sum(node, first):
            together.setdefault(_kind(node, depth[node]), []).append(node)
    done: dict[Node, Node] = {}
    for node in sorted(order, key=lambda n: (depth[n], n.op is not Op.COLLECTIVE)):
        members = together.get(_kind(node, depth[node]), []) if _is_small_sum(node, first) else []
        if len(members) < 2:
            done[node] = rebuild(node, tuple([done[s] for s in node.src]))
        elif node not in done:
            done |= _one(members, [done[m.src[0]] for m in members])
    return [done[r] for r in roots]


def _depths(roots: Sequence[Node]) -> dict[Node, int]:
    """How many collectives there are one after the other up to each node, itself included."""
    depth: dict[Node, int] = {}
    for node in toposort(roots):
        depth[node] = max([depth[s] for s in node.src], default=0) + (node.op is Op.COLLECTIVE)
    return depth


def _is_small_sum(node: Node, first: int) -> bool:
    return node.op is Op.COLLECTIVE and node.arg.kind == "all_reduce" \
        and node.arg.serial >= first and node.numel * node.dtype.itemsize <= SMALL


def _kind(node: Node, depth: int) -> Kind:
    return depth, node.dtype, node.arg.group, node.arg.reduction, node.arg.device


def _one(members: Sequence[Node], sources: Sequence[Node]) -> dict[Node, Node]:
    """Each member as what it is of one all_reduce."""
    first = members[0]
    flat = make(Op.COLLECTIVE, first.dtype, tuple(sources), first.arg, first.place)
    ends = accumulate(m.numel for m in members)
    return {m: reshape(move(Op.SHRINK, flat, ((end - m.numel, end),)), m.shape)
            for m, end in zip(members, ends, strict=True)}
