"""Shapes as users get them."""
from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any, SupportsIndex, overload

from lazyten.ir.dtype import package


class Size(tuple[int, ...]):
    """The sizes of a tensor's axes: a tuple, whose parts and sums are sizes, too."""

    __slots__ = ()

    def __repr__(self) -> str:
        """A tuple's, but where lazyten stands in for PyTorch, whose programs print it."""
        return tuple.__repr__(self) if package() == "lazyten" else f"torch.Size({[*self]})"

    def numel(self) -> int:
        """The number of elements that a tensor of these sizes has."""
        return math.prod(self)

    @overload
    def __getitem__(self, index: SupportsIndex) -> int: ...
    @overload
    def __getitem__(self, index: slice[Any, Any, Any]) -> Size: ...

    def __getitem__(self, index: SupportsIndex | slice[Any, Any, Any]) -> int | Size:
        found = tuple.__getitem__(self, index)
        return Size(found) if isinstance(found, tuple) else found

    def __add__(self, other: Iterable[int]) -> Size:  # type: ignore[override]
        return Size((*self, *other)) if isinstance(other, tuple) else NotImplemented

    def __radd__(self, other: tuple[int, ...]) -> Size:
        return Size((*other, *self)) if isinstance(other, tuple) else NotImplemented

    def __mul__(self, times: SupportsIndex) -> Size:
        return Size(tuple.__mul__(self, times))
