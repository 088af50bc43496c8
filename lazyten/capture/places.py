"""Where Python keeps what a name means: an object's dict, a module's globals, a cell; and when that
means the same again."""
from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from hashlib import blake2b
from types import CellType
from typing import Any, NamedTuple

import numpy as np

from lazyten.support.trees import flatten

MISSING = object()
"""What a name means that is not there."""
_LARGE = 1 << 16
"""Arrays of more bytes are compared by identity."""


@dataclass(frozen=True, slots=True, eq=False)
class Place:
    """Where a name is looked up, and assigned. Equal for the same name in the same holder."""

    holder: Any  # a dict, or a cell
    name: str

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Place) and self.holder is other.holder and self.name == other.name

    def __hash__(self) -> int:
        return hash((id(self.holder), self.name))

    def look(self) -> Any:
        """What the name means now; MISSING if nothing."""
        if not isinstance(self.holder, CellType):
            return self.holder.get(self.name, MISSING)
        try:
            return self.holder.cell_contents
        except ValueError:  # not assigned yet
            return MISSING

    @property
    def is_assignable(self) -> bool:
        """Whether `assign` can be called: not for the attributes of a class."""
        return isinstance(self.holder, CellType | dict)

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


def snapshot(value: Any) -> Hashable:
    """Equal as long as `value` means the same to a trace: numbers, strings and containers by
    value, anything else by identity."""
    if value is None or type(value) in (bool, int, str, bytes):
        return type(value), value
    if type(value) is float:
        return float, value.hex()
    if type(value) in (list, tuple):
        return type(value), tuple(map(snapshot, value))
    if isinstance(value, dict):
        return type(value), tuple((snapshot(k), snapshot(v)) for k, v in value.items())
    if type(value) in (set, frozenset):
        return type(value), frozenset(map(snapshot, value))
    if isinstance(value, np.ndarray) and value.nbytes <= _LARGE:
        return np.ndarray, value.shape, value.dtype, value.tobytes()
    return Same(value)


def contents(value: Any) -> Hashable:
    """The same with all arrays by value; of large ones a digest."""
    leaves, structure = flatten(value)
    return structure, tuple([
        (x.shape, x.dtype, blake2b(np.ascontiguousarray(x).data.cast("B")).digest())
        if isinstance(x, np.ndarray) and not x.dtype.hasobject and x.size else snapshot(x)
        for x in leaves])
