"""A cache for what is likely to come again, and mostly does not the first time."""
from __future__ import annotations

from collections.abc import Hashable
from typing import Generic, TypeVar

V = TypeVar("V")


class Remembered(Generic[V]):
    """Values by key. What came again is kept, up to `limit`; of what has not, the last that weigh
    `fresh`. The older half goes where there is more. Threads share one: between two lines of it,
    and wherever memory is collected, others add and drop keys."""

    __slots__ = ("_once", "_weight", "again", "fresh", "limit")

    def __init__(self, limit: int, fresh: int) -> None:
        self.limit, self.fresh = limit, fresh
        self.again: dict[Hashable, V] = {}
        self._once: dict[Hashable, tuple[V, int]] = {}
        self._weight = 0

    def get(self, key: Hashable) -> V | None:
        """The value of a key, or None."""
        found = self.again.get(key)
        if found is None:
            once = self._once.pop(key, None)
            if once is not None:
                found, weight = once
                self._weight -= weight
                self.again[key] = found
                if len(self.again) > self.limit:
                    for old in [*self.again][:self.limit // 2]:
                        self.again.pop(old, None)
        return found

    def add(self, key: Hashable, value: V, weight: int = 1) -> V:
        """Remember a value; gives it."""
        self._forget_once(key)
        self._once[key] = value, weight
        self._weight += weight
        if self._weight > self.fresh:
            for old in [*self._once]:
                if self._weight <= self.fresh // 2:
                    break
                self._forget_once(old)
        return value

    def drop(self, key: Hashable) -> None:
        """Forget a value, if there is one."""
        self.again.pop(key, None)
        self._forget_once(key)

    def _forget_once(self, key: Hashable) -> None:
        _, weight = self._once.pop(key, (None, 0))
        self._weight -= weight

    def clear(self) -> None:
        """Forget everything."""
        self.again.clear()
        self._once.clear()
        self._weight = 0

    def __len__(self) -> int:
        return len(self.again) + len(self._once)
