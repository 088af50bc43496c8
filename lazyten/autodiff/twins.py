"""Values of their own for tensors that are computed alike, each of which has a gradient of its own.

In: a node that is a tensor's, or that hooks are registered for. Out: a node of the same value that
is another, so that what flows to one does not to the other; its gradient goes to the same sources.
"""
from __future__ import annotations

from collections.abc import Callable
from typing import Any
from weakref import ReferenceType, WeakKeyDictionary, ref

from lazyten.autodiff import hooks
from lazyten.autodiff.gradient import differentiable_sources
from lazyten.ir.node import Node, copied

_owners: WeakKeyDictionary[Node, ReferenceType[Any]] = WeakKeyDictionary()
"""The tensor's storage that has a value, by the value's node."""


def owned_by(owner: Any, node: Node) -> None:
    """A storage has this value, and no other is to have it by this node."""
    _owners[node] = ref(owner)


def is_taken(node: Node) -> bool:
    """Whether a storage has this value, or something is called with its gradient."""
    owner = _owners.get(node)
    return owner is not None and owner() is not None or hooks.is_of_value(node)


def apart(node: Node, is_taken: Callable[[Node], bool]) -> Node:
    """The node itself, or its first twin that is not taken."""
    while is_taken(node):
        sources = differentiable_sources(node)
        if not sources:
            break
        last = max(i for i, s in enumerate(node.src) if s is sources[-1])
        node = copied(node, last)
    return node
