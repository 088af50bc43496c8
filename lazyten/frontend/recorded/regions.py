"""Views that begin at another place each time, such as a batch's rows of the data.

In: a view of a tensor in memory, marked by a `Region`. Out: a source with its elements alone, so
that what reads it is the same wherever the view begins. Such a source is a piece of the memory; so
only elements in a row are regions, and an operation does with them what it does with the view.
"""
from __future__ import annotations

from typing import Any

from lazyten.frontend.core.handle import Handle
from lazyten.ir.movement import Moves
from lazyten.ir.node import Node, unshaped
from lazyten.ir.ops import Op
from lazyten.storage.device import executor
from lazyten.storage.frames import Frame
from lazyten.storage.storage import Buffer, Piece, Storage


class Region:
    """In a view's place for what it is in a frame: what it was read from, and its elements."""

    __slots__ = ("part", "whole")
    template = None

    def __init__(self) -> None:
        self.whole: Buffer | None = None
        self.part: Piece | None = None

    def source_in(self, frame: Frame, x: Handle[Any]) -> Node | None:
        """The template of the view's elements; None where they are not simply in memory."""
        whole = in_memory(x)
        if whole is None or whole.device != frame.device:
            return None
        if self.whole is not whole:
            self.whole, self.part = whole, elements(x, whole)
        return None if self.part is None else frame.source_in_graph(self.part, x.shape)


def in_memory(x: Handle[Any]) -> Buffer | None:
    """The memory that a tensor is read from; None where it is more than that to gradients, is not
    computed yet, or others see the memory."""
    storage = x._storage
    if storage.__class__ is not Storage or x._lineage is not None or storage.keeps_graph \
            or storage.leaf_id is not None or storage.shared is not None or storage.retaining:
        return None
    flat = unshaped(storage._node)
    return flat.arg if flat.op is Op.BUFFER and isinstance(flat.arg, Buffer) else None


def within(x: Any, moves: Moves) -> Any:
    """A view of a region, which is one itself."""
    result = x._moved(*moves)
    result._value = Region()
    return result


def elements(x: Handle[Any], whole: Buffer) -> Piece | None:
    """The part of memory that has the elements of a view; None where they are not in a row."""
    runtime = executor(whole.device)
    first = x.storage_offset()
    if not runtime.has_offsets or not x._tracker.is_contiguous or not x.numel() \
            or first * whole.dtype.itemsize % runtime.alignment:
        return None
    return Piece(whole, first, x.numel())
