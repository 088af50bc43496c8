"""Sequences that are worked out once somebody looks at them."""
from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar, overload

T = TypeVar("T")


class Later(Sequence[T]):
    """What `make` gives, which is called at the first look. Two threads may both call it."""

    __slots__ = ("_found", "_make")

    def __init__(self, make: Callable[[], Sequence[T]]) -> None:
        self._make: Callable[[], Sequence[T]] | None = make
        self._found: Sequence[T] = ()

    def _looked(self) -> Sequence[T]:
        make = self._make
        if make is not None:
            self._found, self._make = make(), None
        return self._found

    @overload
    def __getitem__(self, index: int) -> T: ...

    @overload
    def __getitem__(self, index: slice) -> Sequence[T]: ...

    def __getitem__(self, index: int | slice) -> T | Sequence[T]:
        return self._looked()[index]

    def __len__(self) -> int:
        return len(self._looked())
