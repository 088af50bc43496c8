"""A model as frozen records: graphs of nodes, each with its operator and decoded attributes."""
from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from lazyten.onnx.table import Operator
from lazyten.onnx.values import Constant


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
    """An input of a model: its type's name ("" if the file does not say), its shape, where None is
    any size and a string a size by name, or None, and whether it is a tensor."""

    name: str
    dtype: str
    shape: tuple[int | str | None, ...] | None
    is_tensor: bool = True


@dataclass(frozen=True, eq=False)
class Graph:
    """Nodes in an order in which they can run. free: names it reads that the graph around it
    has."""

    name: str
    inputs: tuple[Input, ...]
    outputs: tuple[str, ...]
    nodes: tuple[Node, ...]
    constants: Mapping[str, Constant]
    free: tuple[str, ...] = ()
