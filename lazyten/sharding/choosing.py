"""Which nodes ranks do compute apart: not those whose results cost more to send than to compute.

What is worth sharing out are reductions, gathers, scatters and scans, and what leads to one: the
elements of a product are many, its results few. Behind the last of them, ranks compute elementwise
what all want whole; they send either what comes in there or what goes out, whichever is less.
"""
from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from lazyten.ir.node import Node, unexpanded
from lazyten.ir.ops import Op
from lazyten.sharding.splits import Cut, Split

Splits = Mapping[Node, Split]
WORK = frozenset({Op.REDUCE, Op.GATHER, Op.SCATTER, Op.SCAN})


def chosen(order: Sequence[Node], roots: Sequence[Node], splits: Splits) -> Splits:
    """The splits that are worth their collectives. order: of all nodes, sources first; splits: of
    all that can be computed apart."""
    rest = _behind_the_work(order, splits)
    whole = {s for n in order for s in _taken_whole(n, splits)} | set(roots)
    dropped: set[Node] = set()
    for part in _connected(order, splits, rest):
        entering = {unexpanded(s) for n in part for s in _taken_apart(n, splits) if s not in rest}
        if _elements(entering) <= _elements({unexpanded(n) for n in part if n in whole}):
            dropped |= part
    return {n: s for n, s in splits.items() if n not in dropped}


def _behind_the_work(order: Sequence[Node], splits: Splits) -> Collection[Node]:
    """Nodes of which no part leads to work."""
    useful: set[Node] = set()
    for node in reversed(order):
        if node.op is Op.OWN or node in splits and (node.op in WORK or node in useful):
            useful.update(_taken_apart(node, splits))
    return {n for n in splits if n.op not in WORK and n not in useful}


def _taken_apart(node: Node, splits: Splits) -> list[Node]:
    """The sources that ranks have the parts of that a node takes."""
    split = splits.get(node)
    if split is None:
        axis = node.arg.axis if node.op is Op.OWN else None
        return [s for s in node.src if axis is not None and s in splits
                and splits[s].cut == Cut(axis)]
    return [s for s, cut in zip(node.src, split.takes, strict=True)
            if cut is not None and s in splits and splits[s].cut == cut]


def _taken_whole(node: Node, splits: Splits) -> list[Node]:
    """The sources that ranks have parts of, and a node takes otherwise."""
    apart = _taken_apart(node, splits)
    return [s for s in node.src if s in splits and s not in apart]


def _connected(order: Sequence[Node], splits: Splits, rest: Collection[Node]) -> list[set[Node]]:
    """Nodes of the rest in sets of those that read each other or the same parts."""
    leader: dict[Node, Node] = {}

    def first(node: Node) -> Node:
        while leader.setdefault(node, node) is not node:
            leader[node] = node = leader[leader[node]]
        return node

    for node in (n for n in order if n in rest):
        for source in _taken_apart(node, splits):
            leader[first(source)] = first(node)
    parts: dict[Node, set[Node]] = {}
    for node in (n for n in order if n in rest):
        parts.setdefault(first(node), set()).add(node)
    return list(parts.values())


def _elements(nodes: Collection[Node]) -> int:
    """How many ranks send for nodes to be whole."""
    return sum(n.numel for n in nodes)
