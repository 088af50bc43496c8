"""Values of their own for tensors that are computed alike, each of which has a gradient of its own.

In: a node that is a tensor's, or that hooks are registered for. Out: a node of the same value that
is another, so that what flows to one does not to the other; its gradient goes to the same sources.
"""
from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import chain
from typing import Any, TypeVar
from weakref import ReferenceType, WeakKeyDictionary, ref

from lazyten.autodiff import hooks
from lazyten.autodiff.gradient import differentiable_sources
from lazyten.ir.node import Node, alias, copied
from lazyten.ir.ops import Op

D = TypeVar("D")

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
    """The node itself, or a twin that is not taken; that of a LEAF is an alias: there is one."""
    if not is_taken(node):
        return node
    if node.op is Op.LEAF:
        return apart(alias(node), is_taken)
    sources = differentiable_sources(node)
    if not sources:
        return node
    last = max(i for i, s in enumerate(node.src) if s is sources[-1])

    def twin(number: int) -> Node:
        return copied(node, last, chain.from_iterable(said(number, _DIGITS)))

    return twin(free_number(lambda number: is_taken(twin(number))))


_DIGITS = (Op.PERMUTE,), (Op.PERMUTE, Op.FLIP)
"""No user's view ends with such a PERMUTE, and no operation has a user's value `within` by one."""


def said(number: int, digits: Sequence[D]) -> list[D]:
    """A number in two digits that mean 1 and 2, the lowest first: none begins with one that says
    nothing."""
    found = []
    while number:
        number, digit = divmod(number - 1, 2)
        found.append(digits[digit])
    return found


def free_number(is_taken: Callable[[int], bool]) -> int:
    """A number from 1 that is not taken where the one below it is: mostly the first. It is halved
    for, as thousands may be taken."""
    taken, free = 0, 1
    while is_taken(free):
        taken, free = free, 2 * free
    while free - taken > 1:
        middle = (taken + free) // 2
        taken, free = (middle, free) if is_taken(middle) else (taken, middle)
    return free
