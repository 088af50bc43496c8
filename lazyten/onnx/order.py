"""An order in which nodes can run."""
from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence

from lazyten.onnx.graph import Node
from lazyten.support.errors import ArgumentError


def in_order(nodes: Sequence[Node], known: Iterable[str]) -> tuple[Node, ...]:
    """Nodes so that each reads what stands before it or is `known`; as they are, if they are so.

    Raises ArgumentError for nodes that need each other, with their names.
    """
    there = {*known}
    maker = {name: node for node in nodes for name in node.outputs if name}
    waiting = {node: {name for name in node.reads if name not in there} for node in nodes}
    readers: dict[str, list[Node]] = {}
    for node, names in waiting.items():
        for name in names:
            readers.setdefault(name, []).append(node)
    if _is_ordered(nodes, there):
        return tuple(nodes)
    ready = deque(node for node in nodes if not waiting[node])
    done = []
    while ready:
        node = ready.popleft()
        done.append(node)
        for name in filter(None, node.outputs):
            for reader in readers.get(name, ()):
                waiting[reader].discard(name)
                if not waiting[reader]:
                    ready.append(reader)
    if len(done) < len(nodes):
        left = [node for node in nodes if waiting[node]]
        cycle = [node for node in left if any(name in maker for name in waiting[node])]
        raise ArgumentError(f"nodes that need each other's outputs: "
                            f"{', '.join(repr(n.name) for n in cycle[:5])}; a graph must not have "
                            f"a cycle")
    return tuple(done)


def _is_ordered(nodes: Sequence[Node], known: set[str]) -> bool:
    there = {*known}
    for node in nodes:
        if not there.issuperset(node.reads):
            return False
        there.update(node.outputs)
    return True
