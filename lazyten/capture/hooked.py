"""What is called with gradients of tensors that a jitted function has from outside.

A trace reads arguments as stand-ins, and views of what it finds as moves: their hooks would not be
called, and a replay knows of none that were registered since. So gradients that reach such a tensor
are those of Python (`Capture.differentiated`), and other hooks mean another trace.
"""
from __future__ import annotations

from collections.abc import Hashable, Iterable
from typing import Any

from lazyten.autodiff import hooks
from lazyten.storage.storage import Storage


def is_hooked(storage: Storage) -> bool:
    """Whether something is called with the gradients of a leaf, or of a view of one."""
    return any(_of_leaf(storage.leaf_id)) or bool(_hooked_views(storage))


def has_hooked_views(storage: Storage) -> bool:
    """Whether something is called with the gradients of a view of a leaf."""
    return bool(_hooked_views(storage))


class HooksOf:
    """Tells by a value whether other hooks are called with gradients of leaves, and of views of
    them, than before."""

    def __init__(self, storages: Iterable[Storage]) -> None:
        self.storages = [*storages]
        self._seen = -1
        self._found: Hashable = ()

    def __call__(self) -> Hashable:
        if self._seen != hooks.changes():
            self._seen = hooks.changes()
            self._found = tuple([(_of_leaf(s.leaf_id), _hooked_views(s)) for s in self.storages])
        return self._found


def _of_leaf(leaf_id: int | None) -> tuple[tuple[int, ...], ...]:
    """The numbers of hooks of a leaf's gradient, and of those that wait for its `.grad`."""
    return () if leaf_id is None else hooks.numbers_of(leaf_id)


def _hooked_views(storage: Storage) -> tuple[Any, ...]:
    """Of each view that had hooks, how many."""
    if storage.views is None:
        return ()
    views: list[Any] = [reference() for reference in list(storage.views.values())]
    return tuple([(id(view), len(view._hooked)) for view in views if hasattr(view, "_hooked")])
