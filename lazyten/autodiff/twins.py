"""Values of their own for tensors that are computed alike, each of which has a gradient of its own.

In: a node that is a tensor's, or that hooks are registered for. Out: a node of the same value that
is another, so that what flows to one does not to the other; its gradient goes to the same sources.
"""
from __future__ import annotations

from collections.abc import Callable

from lazyten.autodiff.gradient import differentiable_sources
from lazyten.ir.node import Node, copied


def apart(node: Node, is_taken: Callable[[Node], bool]) -> Node:
    """The node itself, or its first twin that is not taken."""
    while is_taken(node):
        sources = differentiable_sources(node)
        if not sources:
            break
        last = max(i for i, s in enumerate(node.src) if s is sources[-1])
        node = copied(node, last)
    return node
