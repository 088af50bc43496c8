"""What a detached tensor and its views share: the gradients written through them since.

`x.detach()` has x's storage and none of its gradients. What is then written through it, or through
a view of it, may require gradients of its own: those flow through what has the same `Lineage`, and
through nothing else that shares the storage. Tensor keeps one beside its moves.
"""
from __future__ import annotations

from lazyten.execution import background
from lazyten.ir.movement import Moves
from lazyten.ir.node import Node, make
from lazyten.ir.ops import Op
from lazyten.operators.arrays.indexing import apply
from lazyten.operators.math.gradients import forward_only, freed, written_over
from lazyten.storage import tracing
from lazyten.storage.storage import Storage
from lazyten.support.grad_mode import is_grad_enabled
from lazyten.support.location import user_location


class Lineage:
    """Where the gradients of handles that one detach() began go.

    carrier: a node shaped as the storage, with the gradients of all that was written; None as long
    as none of it required any. was_freed: backward() has used it up. follows: that of a view made
    inside no_grad() while tangents pass: those of what is written through it are the storage's.
    """

    __slots__ = ("_node", "_version", "carrier", "follows", "was_freed")

    def __init__(self, follows: bool = False) -> None:
        self.follows = follows
        self.carrier: Node | None = None
        self.was_freed = False
        self._node: Node | None = None
        self._version = -1
        if tracing.active is not None:
            tracing.made(self)

    @property
    def requires_grad(self) -> bool:
        """Whether something that requires gradients was written."""
        return self.carrier is not None or self.was_freed

    def read(self, storage: Storage, moves: Moves) -> Node:
        """A view of the storage's value, with the gradients of this lineage alone."""
        if self.follows:
            return forward_only(apply(moves, storage.node))
        if self.carrier is not None and (is_grad_enabled() or not self._is_from_outside):
            self._refuse_from_outside("reads")
            return apply(moves, self._carried(storage, self.carrier))
        if self.carrier is None and storage.keeps_graph:
            node = apply(moves, background.without_graph(storage))
        else:
            node = apply(moves, storage.node)
            if self.carrier is not None or storage.requires_grad:
                node = make(Op.DETACH, node.dtype, (node,))
        return freed(node) if self.was_freed else node

    def _carried(self, storage: Storage, carrier: Node) -> Node:
        """The storage's value with the carrier's gradients: the same node until the value changes,
        as hooks are for nodes."""
        value = storage.node
        if self._node is None or self._version != storage.version or storage.shared is not None:
            self._node, self._version = written_over(carrier, value), storage.version
        return self._node

    def write(self, value: Node) -> None:
        """Go on with the gradients of `value`, shaped as the storage."""
        self._refuse_from_outside("writes")
        self.carrier, self.was_freed, self._node = value, False, None

    def free(self) -> None:
        """Give up the gradients: backward() has used them."""
        self.was_freed = self.requires_grad
        self.carrier = self._node = None

    @property
    def _is_from_outside(self) -> bool:
        """Whether it was there before the trace under way."""
        observer = tracing.current()
        return observer is not None and not observer.is_new(self)

    def _refuse_from_outside(self, verb: str) -> None:
        """A trace leaves no gradients behind, and takes none from outside but those of leaves."""
        if self._is_from_outside:
            tracing.refused(f"a jitted function {verb} at {user_location()} a detached tensor from "
                            f"outside with gradients that are written into it; do it outside, "
                            f"detach() what is written, or write inside no_grad()")
