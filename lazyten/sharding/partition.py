"""The pass: a graph with SHARD, JOINED and OWN nodes to one without, a group of ranks after the
other.

To the second group, what each rank of the first computes is a graph like any other: the ranks of a
line of the mesh have the same parts of what another line's have shared out.
"""
from __future__ import annotations

from collections.abc import Sequence

from lazyten.ir.collective import Group, Sharding
from lazyten.ir.node import Node, const, move, rewrite, toposort
from lazyten.ir.ops import SHARING_OPS, Op
from lazyten.sharding.choosing import chosen
from lazyten.sharding.joining import joined
from lazyten.sharding.local import Local
from lazyten.sharding.spreading import possible
from lazyten.support.errors import ArgumentError


def partitioned(roots: Sequence[Node]) -> Sequence[Node]:
    """What this rank computes of a graph that all have: the same roots, whole, without SHARD,
    JOINED and OWN nodes."""
    annotations = [n.arg for n in toposort(roots) if n.op in SHARING_OPS]
    roots = rewrite(roots, _cut_before_padding) if annotations else roots
    by_group: dict[Group, Sharding] = {a.group: a for a in annotations}
    if len(by_group) > 1 and (None in (grids := {a.mesh for a in annotations}) or len(grids) > 1):
        raise ArgumentError("shard: values that are computed together are shared out by groups of "
                            "ranks that are no lines of one grid; take all of them from one mesh: "
                            "init_device_mesh(\"cpu\", (2, 2), mesh_dim_names=(\"a\", \"b\"))")
    for sharding in by_group.values():
        roots = _by_group(roots, sharding)
    return roots


def unannotated(roots: Sequence[Node]) -> Sequence[Node]:
    """The same graph for one process that computes all of it."""
    return rewrite(roots, lambda n: n.src[0] if n.op is Op.SHARD else None)


def _cut_before_padding(node: Node) -> Node | None:
    """What is cut of a padded value, as what is cut of it, and then padded: often all, or none."""
    if node.op is not Op.SHRINK or node.src[0].op is not Op.PAD:
        return None
    padded, = node.src
    x, = padded.src
    bounds, pads = [], []
    for (start, stop), (before, _), n in zip(node.arg, padded.arg, x.shape, strict=True):
        first, end = max(start, before), min(stop, before + n)
        if first >= end:
            return const(0, node.dtype, node.shape)
        bounds.append((first - before, end - before))
        pads.append((first - start, stop - end))
    cut = move(Op.SHRINK, x, tuple(bounds), node.place)
    return move(Op.PAD, cut, tuple(pads), node.place)


def _by_group(roots: Sequence[Node], sharding: Sharding) -> list[Node]:
    """The graph of this rank of one group."""
    order = toposort(roots)
    splits = chosen(order, roots, possible(order, sharding.group))
    first = 1 + max([n.arg.serial for n in order if n.op is Op.COLLECTIVE], default=-1)
    local = Local(sharding.group, splits, sharding.device, serial=first)
    for node in order:
        local.add(node)
    return joined([local.whole(r) for r in roots], first)
