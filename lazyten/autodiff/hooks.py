"""Functions that are told of gradients on their way back: by the value they are the gradient of.

A leaf's value is known by its id; any other by its node: twins.py keeps those of tensors that are
computed alike apart.
"""
from __future__ import annotations

from collections import ChainMap
from collections.abc import Callable, Iterator, Mapping, MutableMapping
from contextlib import AbstractContextManager, contextmanager
from itertools import count
from threading import local
from typing import Any
from weakref import WeakKeyDictionary

from lazyten.autodiff.watching import watched
from lazyten.ir.node import Node
from lazyten.ir.ops import Op

Hook = Callable[[Node], Node | None]
_of_values: WeakKeyDictionary[Node, MutableMapping[int, Hook]] = WeakKeyDictionary()
_VALUES: dict[Any, Any] = vars(_of_values)["data"]
"""The same as references, whose number Python tells without a call."""
_of_leaves: dict[int, MutableMapping[int, Hook]] = {}
_after: dict[int, MutableMapping[int, Callable[[Any], None]]] = {}
_same: dict[Any, int] = {}
"""Other ids that a leaf is read by, and its own, which the tables have."""
_numbers = count()
_LAST = 1 << 62


class _Walk(local):
    """The walk under way in a thread. passed: gives a gradient after its hooks, where these are not
    those of this module, as in a walk over templates. originals: nodes that others are copies of,
    whose hooks are told. is_users: whether users have tensors of what it goes through.
    is_differentiable: whether gradients may flow through what it gives.
    at_end: what is called once all leaves have their gradients, by its owner."""

    is_inner = is_users = False
    is_differentiable = True
    passed: Callable[[Node, Node], Node] | None = None
    originals: Mapping[Node, Node] = {}

    def __init__(self) -> None:
        self.at_end: dict[object, Callable[[], None]] = {}


walk = _Walk()


@contextmanager
def inner_walk(originals: Mapping[Node, Node]) -> Iterator[None]:
    """Within this block a part of a walk is walked on its own, through copies of nodes: its leaves'
    gradients are parts of sums, which hooks are told of at the end of the whole."""
    outer = walk.originals
    with _walking(True, {copy: outer.get(node, node) for copy, node in originals.items()},
                  walk.is_differentiable, walk.is_users):
        yield


def users_walk(is_differentiable: bool = True) -> AbstractContextManager[None]:
    """Within this block walks are a user's."""
    return _walking(False, {}, is_differentiable, True)


@contextmanager
def _walking(is_inner: bool, originals: Mapping[Node, Node],
             is_differentiable: bool, is_users: bool) -> Iterator[None]:
    before = walk.is_inner, walk.originals, walk.is_differentiable, walk.is_users
    walk.is_inner, walk.originals = is_inner, originals
    walk.is_differentiable, walk.is_users = is_differentiable, is_users
    try:
        yield
    finally:
        walk.is_inner, walk.originals, walk.is_differentiable, walk.is_users = before


_changes = [0]


def changes() -> int:
    """How often a hook was registered or removed."""
    return _changes[0]


def _changed() -> None:
    _changes[0] += 1


class RemovableHandle:
    """What registering a hook gives: remove() takes it away again.

    hooks: the table that it is in, by the handle's `id`: a new number if none is given. extra_dict:
    a table, or a list of them, out of which it is taken as well.
    """

    def __init__(self, hooks: MutableMapping[int, Any], number: int | None = None, *,
                 extra_dict: Any = None) -> None:
        self._hooks, self._number = hooks, next(_numbers) if number is None else number
        self._others = extra_dict if isinstance(extra_dict, list) else \
            [] if extra_dict is None else [extra_dict]

    def remove(self) -> None:
        """Call the hook no more."""
        _changed()
        for table in (self._hooks, *self._others):
            table.pop(self._number, None)

    @property
    def id(self) -> int:
        """A number of its own."""
        return self._number

    def __enter__(self) -> RemovableHandle:
        return self

    def __exit__(self, *error: object) -> None:
        self.remove()


def register(node: Node, hook: Hook, last: bool = False) -> RemovableHandle:
    """Have `hook` called with each gradient of `node`; what it gives, if not None, replaces it.
    last: after all others, which are called in the order in which they were registered."""
    of_node = (_of_leaves.setdefault(one_leaf(node.arg), {}) if node.op is Op.LEAF
               else _of_values.setdefault(node, {}))
    return add(of_node, hook, _LAST if last else 0)


def register_after(leaf_id: int, hook: Callable[[Any], None]) -> RemovableHandle:
    """Have `hook` called with the leaf after each time that its `.grad` was added to."""
    return add(_after.setdefault(one_leaf(leaf_id), {}), hook)


def add(hooks: MutableMapping[int, Any], hook: Any, start: int = 0) -> RemovableHandle:
    """Register a hook in a table, which may be kept elsewhere; after those of a lower start."""
    number = start + next(_numbers)
    hooks[number] = hook
    _changed()
    return RemovableHandle(hooks, number)


def forget(leaf_id: int) -> None:
    """The leaf is gone."""
    _of_leaves.pop(leaf_id, None)
    _after.pop(leaf_id, None)
    _same.pop(leaf_id, None)


def is_also(leaf_id: int, another: int) -> None:
    """A leaf was read by another id, too, in graphs that are kept: gradients of both are its, and
    what is registered for either is called with the sum."""
    _same[another] = leaf_id
    tables: tuple[dict[int, MutableMapping[int, Any]], ...] = _of_leaves, _after
    for table in tables:
        if another in table:  # out of which handles remove hooks
            theirs = table.pop(another)
            table[leaf_id] = ChainMap(table[leaf_id], theirs) if leaf_id in table else theirs


def one_leaf(leaf_id: Any) -> Any:
    """The id of the leaf that is read by this id."""
    return _same.get(leaf_id, leaf_id) if _same else leaf_id


def are_registered() -> bool:
    """Whether there is any hook. (Those that were removed leave an empty table.)"""
    return any(any(table.values()) for table in (_of_leaves, _after)) or bool(of_values())


def were_registered() -> bool:
    """Whether there is, or was, any hook of what is still there: a quick look."""
    return bool(_of_leaves or _after or _VALUES)


def of_values() -> list[tuple[Node, Mapping[int, Hook]]]:
    """Those of values' gradients, by the values."""
    return [(node, table) for r in _of_values.keyrefs()
            if (node := r()) is not None and (table := _of_values.get(node))]


def is_of_value(node: Node) -> bool:
    """Whether something is called with gradients of this value."""
    return bool(_of_values.get(node))


def is_of_leaf(leaf_id: int) -> bool:
    """Whether something is called with gradients of this leaf."""
    return bool(_of_leaves.get(one_leaf(leaf_id)))


def numbers_of(leaf_id: int) -> tuple[tuple[int, ...], ...]:
    """The numbers of what is called with gradients of a leaf, and of what waits for its `.grad`."""
    own = one_leaf(leaf_id)
    return tuple(_of_leaves.get(own, ())), tuple(_after.get(own, ()))


def is_told(leaf_id: int) -> bool:
    """Whether something is, or was, called with gradients of this leaf, or when it has them."""
    return leaf_id in _of_leaves or leaf_id in _after


def after_leaves() -> list[int]:
    """The leaves whose `.grad` something waits for."""
    return [leaf_id for leaf_id in list(_after) if _after.get(leaf_id)]


def of_leaves() -> dict[int, MutableMapping[int, Hook]]:
    """Those of leaves' gradients, by the leaves' ids."""
    return {leaf_id: table for leaf_id in list(_of_leaves)
            if (table := _of_leaves.get(leaf_id))}


def of_leaf(leaf_id: int) -> Mapping[int, Hook]:
    """Those of one leaf's gradients, by their numbers."""
    return _of_leaves.get(one_leaf(leaf_id), {})


def watch(node: Node, table: dict[int, Any]) -> None:
    """Have the hooks of a table that is kept elsewhere called with each gradient of `node`, too."""
    before = _of_values.get(node)
    if before is not table:
        _of_values[node] = table if before is None else ChainMap(before, table)


def passed(node: Node, gradient: Node) -> Node:
    """A gradient of `node` after its hooks."""
    if walk.is_inner and node.op is Op.LEAF:
        return gradient
    node = walk.originals.get(node, node)
    if walk.passed is not None:
        return walk.passed(node, gradient)
    if not _of_leaves and not _of_values:
        return gradient
    found = _of_leaves.get(one_leaf(node.arg)) if node.op is Op.LEAF else _of_values.get(node)
    for _, hook in sorted((found or {}).items()):
        gradient = watched(hook, gradient) or gradient
    return gradient


def accumulated(leaf_id: int, leaf: Any) -> None:
    """Call what waits for this leaf's `.grad`."""
    for hook in list(_after.get(one_leaf(leaf_id), {}).values()):
        watched(hook, leaf)


def at_end(owner: object, run: Callable[[], None]) -> None:
    """Call this once when backward() has added to all leaves; for hooks that are told of one."""
    walk.at_end.setdefault(owner, run)


def finished() -> None:
    """backward() has added to all leaves."""
    if not walk.at_end:
        return
    waiting, walk.at_end = walk.at_end, {}
    for run in waiting.values():
        watched(run)
