"""What containers hold, compared by identity: lists, dicts and the like that hold the same objects,
as most do from call to call, mean the same without a look at what these are."""
from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from functools import partial
from itertools import chain
from operator import is_
from typing import Any

from lazyten.capture.state.places import Same, held_by, snapshot

_ITERATED = (list, tuple, deque, set, frozenset)
_FIXED = (bool, int, float, str, bytes)


class Contents:
    """Containers, those in them among them, and what each holds. is_known: whether that is all that
    they mean; not where one is of a class that shows other items, or holds something that changes
    within itself, such as an array."""

    def __init__(self, values: Iterable[object]) -> None:
        self._holders: list[Any] = []
        self._partials: list[partial[Any]] = []
        self._seen: dict[int, object] = {}  # which are kept, so that no other gets the id of one
        self.is_known = all(map(self._walk, values))
        self._sizes = self._lengths()
        self._items = self._held()

    def _walk(self, value: Any) -> bool:
        """Note a value, and what is in it; gives whether that is all that it means."""
        if value is None or type(value) in _FIXED or id(value) in self._seen:
            return True
        self._seen[id(value)] = value
        if type(value) is partial:
            self._partials.append(value)
            return all(map(self._walk, (value.func, value.args, value.keywords)))
        if isinstance(value, dict):
            self._holders += [dict.keys(value), dict.values(value)]
            return _is_shown_by(value, dict, "items") \
                and all(map(self._walk, held_by(value)))
        for kind in _ITERATED:
            if isinstance(value, kind):
                if kind not in (tuple, frozenset):  # which hold what they held
                    self._holders.append(value)
                return _is_shown_by(value, kind, "__iter__") \
                    and all(map(self._walk, held_by(value)))
        return isinstance(snapshot(value), Same)

    def _lengths(self) -> list[int]:
        return [*map(len, self._holders)]

    def _held(self) -> list[Any]:
        found = [*chain.from_iterable(self._holders)]
        for one in self._partials:
            found += one.func, one.args, one.keywords
        return found

    def still_hold(self) -> bool:
        """Whether each holds the very same objects, in the same order."""
        if self._lengths() != self._sizes:
            return False
        found = self._held()
        return len(found) == len(self._items) and all(map(is_, found, self._items))


def _is_shown_by(value: object, kind: type, method: str) -> bool:
    """Whether an object's class shows its items as one of Python's does."""
    return getattr(type(value), method) is getattr(kind, method)
