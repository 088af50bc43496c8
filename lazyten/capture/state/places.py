"""Where Python keeps what a name means: an object's dict, a module's globals, a cell; and when that
means the same again."""
from __future__ import annotations

from array import array
from collections import deque
from collections.abc import Hashable
from dataclasses import dataclass
from functools import lru_cache, partial
from hashlib import blake2b
from itertools import chain
from logging import Logger
from types import CellType, FunctionType
from typing import Any, NamedTuple

import numpy as np

from lazyten.capture.state.opaque import Slots

MISSING = object()
"""What a name means that is not there."""
_Caching = type(lru_cache(len))
_LARGE = 1 << 23
"""Of arrays of more bytes a digest is kept, to spare memory: to compare copies takes a tenth of the
time."""


@dataclass(frozen=True, slots=True, eq=False)
class Place:
    """Where a name is looked up, and assigned. Equal for the same name in the same holder."""

    holder: Any  # a dict, a cell, or a function, for its code and defaults
    name: str

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Place) and self.holder is other.holder and self.name == other.name

    def __hash__(self) -> int:
        return hash((id(self.holder), self.name))

    def look(self) -> Any:
        """What the name means now; MISSING if nothing."""
        if isinstance(self.holder, FunctionType):
            return getattr(self.holder, self.name)
        if not isinstance(self.holder, CellType):
            return self.holder.get(self.name, MISSING)
        try:
            return self.holder.cell_contents
        except ValueError:  # not assigned yet
            return MISSING

    @property
    def is_assignable(self) -> bool:
        """Whether `assign` can be called: not for the attributes of a class, or for a function."""
        return isinstance(self.holder, CellType | dict | Slots)

    def assign(self, value: object) -> None:
        """Let the name mean this, or nothing."""
        if isinstance(self.holder, CellType):
            self.holder.cell_contents = value
            if value is MISSING:
                del self.holder.cell_contents
        elif value is MISSING:
            self.holder.pop(self.name, None)
        else:
            self.holder[self.name] = value


class Change(NamedTuple):
    """A name that was assigned to: what it meant before, and means now."""

    place: Place
    user: str
    before: object
    after: object


@dataclass(frozen=True, slots=True, eq=False)
class Same:
    """Equal for the same object only; keeps it alive, so that no other gets its place."""

    thing: object

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Same) and other.thing is self.thing

    def __hash__(self) -> int:
        return id(self.thing)


def snapshot(value: Any, within: tuple[int, ...] = ()) -> Hashable:
    """Equal as long as `value` means the same to a trace: numbers, strings and containers by
    value, anything else by identity. within: the containers that it is in, which it may be one of.
    """
    if value is None or type(value) in (bool, int, str, bytes):
        return type(value), value
    if type(value) is float:
        return float, value.hex()
    if isinstance(value, list | tuple | deque | dict):
        if id(value) in within:
            return type(value), within.index(id(value))
        within = (*within, id(value))
        return type(value), tuple([snapshot(x, within) for x in held_by(value)])
    if type(value) in (set, frozenset):
        return type(value), frozenset(map(snapshot, held_by(value)))
    if isinstance(value, np.ndarray) and not value.dtype.hasobject:
        return np.ndarray, value.shape, value.dtype, _digest(value)
    if isinstance(value, bytearray | array):
        return type(value), bytes(value)
    if type(value) is partial:
        return partial, snapshot([value.func, value.args, value.keywords], within)
    if isinstance(value, Logger):
        return Same(value), value.getEffectiveLevel(), value.disabled, value.manager.disable
    if isinstance(value, _Caching):
        return Same(value), value.cache_info().currsize
    return Same(value)


def held_by(container: Any) -> list[Any]:
    """What a container shows, a dict its keys and values by turns. Taken at once: another thread
    may change it while this one looks at what is in it."""
    if isinstance(container, dict):
        return [*chain.from_iterable([*container.items()])]
    return [*container]


def _digest(values: np.ndarray[Any, Any]) -> bytes:
    """Equal for the same numbers."""
    if values.nbytes <= _LARGE:
        return values.tobytes()
    return blake2b(np.ascontiguousarray(values).data.cast("B")).digest()

