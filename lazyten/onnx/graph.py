"""A model as frozen records: graphs of nodes, each with its operator and decoded attributes; and an
order in which nodes can run."""
from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from lazyten.onnx.table import Operator
from lazyten.onnx.values import Constant
from lazyten.support.errors import ArgumentError


@dataclass(frozen=True, eq=False)
class Expansion:
    """What stands for an operator that has no row: a function, of the model or the standard.

    body: its nodes; None for a function of the standard that depends on its inputs' types, which
    is made once they are known, from `proto`, a serialized NodeProto, with the opsets of
    the model.
    """

    body: Graph | None
    proto: bytes = b""
    opsets: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, eq=False)
class Node:
    """One operation. inputs: names, "" for one that is left out. captured: names of the graph
    around it that its subgraphs read."""

    name: str
    domain: str
    kind: str
    opset: int
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    meaning: Operator | Expansion
    attributes: Mapping[str, Any] = field(default_factory=dict)
    captured: tuple[str, ...] = ()

    @property
    def title(self) -> str:
        """The node in words, for errors."""
        domain = self.domain or "ai.onnx"
        return f"node {self.name!r} ({self.kind} of {domain}, opset {self.opset})"

    @property
    def reads(self) -> tuple[str, ...]:
        """Names of all values it needs."""
        return tuple(name for name in self.inputs if name) + self.captured


@dataclass(frozen=True, eq=False)
class Input:
    """An input of a model: the name of its type, or of its values' if it is a map ("" if the file
    does not say), its shape, where None is any size and a string a size by name, or None, and
    whether it is a tensor."""

    name: str
    dtype: str
    shape: tuple[int | str | None, ...] | None
    is_tensor: bool = True


@dataclass(frozen=True, eq=False)
class Graph:
    """Nodes in an order in which they can run. free: names it reads that the graph around it
    has. declared: what the file says of the outputs."""

    name: str
    inputs: tuple[Input, ...]
    outputs: tuple[str, ...]
    nodes: tuple[Node, ...]
    constants: Mapping[str, Constant]
    free: tuple[str, ...] = ()
    declared: tuple[Input, ...] = ()


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
