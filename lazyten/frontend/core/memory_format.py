"""The order in memory of a tensor's elements, as PyTorch names it.

A layout is that of a copy: the elements are stored with the axes in another order, and seen through
a view that puts them back. What is computed of it is in row-major order again.
"""
from __future__ import annotations

from dataclasses import dataclass

from lazyten.support.errors import ArgumentError, ShapeError


@dataclass(frozen=True, slots=True)
class MemoryFormat:
    """A layout. order: the axes as they follow each other in memory; None: row-major, of any number
    of axes, or for 'preserve_format' whatever it was."""

    name: str
    order: tuple[int, ...] | None = None

    def __repr__(self) -> str:
        return f"lazyten.{self.name}"

    def __reduce__(self) -> str:
        return self.name  # in a pickle, and for copies: the object of this name, below


contiguous_format = MemoryFormat("contiguous_format")
preserve_format = MemoryFormat("preserve_format")
channels_last = MemoryFormat("channels_last", (0, 2, 3, 1))
channels_last_3d = MemoryFormat("channels_last_3d", (0, 2, 3, 4, 1))


def order_of(given: object, rank: int, operation: str) -> tuple[int, ...] | None:
    """The order of the axes in memory; None for row-major. ArgumentError for what is no layout,
    ShapeError if it is for another number of axes."""
    if not isinstance(given, MemoryFormat):
        raise ArgumentError(f"{operation}: memory_format={given!r:.60} is not one of "
                            f"lazyten.contiguous_format, preserve_format, channels_last, "
                            f"channels_last_3d")
    if given.order is not None and len(given.order) != rank:
        raise ShapeError(f"{operation}: {given.name} is for {len(given.order)} axes; this tensor "
                         f"has {rank}")
    return given.order
