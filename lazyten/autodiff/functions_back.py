"""`GradFn`: the operations that a gradient flows back through, one by one, for who looks at them.

In: a node of a tensor that requires gradients. Out: its operation's name and line, and the
operations that it passes gradients on to. They are those of the graph, more and smaller ones than a
user wrote.
"""
from __future__ import annotations

from collections.abc import Callable
from typing import Any

from lazyten.autodiff.gradient import differentiable_sources, operation_name, reaching_leaves
from lazyten.ir.node import Node
from lazyten.ir.ops import Op
from lazyten.support.location import Location


class GradFn:
    """The operation that a tensor's gradient flows back through first. Those of one node are equal.

    owner: gives the tensor that collects the gradient of a leaf, by the leaf's number.
    """

    def __init__(self, node: Node, owner: Callable[[Any], Any],
                 reaching: set[Node] | None = None) -> None:
        self._node, self._owner, self._reaching = node, owner, reaching

    def name(self) -> str:
        """For example 'MulBackward'; 'AccumulateGrad' where a leaf collects the gradient."""
        return "AccumulateGrad" if self._node.op is Op.LEAF else operation_name(self._node)

    @property
    def where(self) -> Location | None:
        """The line of the program that made it."""
        return self._node.where

    @property
    def next_functions(self) -> tuple[tuple[GradFn | None, int], ...]:
        """The operations that made the operands, each with 0, as an operation has one result; None
        for an operand that no gradient flows to."""
        if self._node.op is Op.LEAF:
            return ()
        if self._reaching is None:
            self._reaching = reaching_leaves([self._node])
        flows = self._reaching.intersection(differentiable_sources(self._node))
        operands = self._node.src[1:] if self._node.op is Op.CUSTOM_GRADIENT else self._node.src
        return tuple((GradFn(source, self._owner, self._reaching) if source in flows else None, 0)
                     for source in operands)

    @property
    def variable(self) -> Any:
        """The leaf that collects the gradient. AttributeError for another operation."""
        if self._node.op is not Op.LEAF:
            raise AttributeError(f"{self.name()} has no 'variable': it is no leaf that collects a "
                                 f"gradient; follow next_functions to one")
        return self._owner(self._node.arg)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, GradFn) and other._node is self._node

    def __hash__(self) -> int:
        return hash(self._node)

    def __repr__(self) -> str:
        return f"<{self.name()} of {self.where}>" if self.where else f"<{self.name()}>"
