"""Views that begin at another place each time, such as a batch's rows of the data.

In: a view of a tensor in memory, marked by a `Region`. Out: a source with its elements alone, so
that what reads it is the same wherever the view begins. Such a source is a piece of the memory, or
a copy of few elements; an operation does with them what it does with the view. What it writes to
them is put back where they are, at a place that is a source, too.
"""
from __future__ import annotations

from threading import get_ident
from typing import Any

import numpy as np

from lazyten.execution import frame_runs, realization
from lazyten.frontend.core.handle import Handle
from lazyten.ir.dtype import int64
from lazyten.ir.movement import in_a_row
from lazyten.ir.node import Node, iota, reshape, scatter, unshaped
from lazyten.ir.ops import Op
from lazyten.operators.math import elementwise as ew
from lazyten.storage.deferred import Deferred, defer, known_template
from lazyten.storage.device import executor
from lazyten.storage.frames import Frame, looked, memory_of
from lazyten.storage.shared_memory import SharedMemory, have_same_bits
from lazyten.storage.storage import Buffer, Piece, Storage
from lazyten.symbolic.view import moved_array

FEW_BYTES = 1 << 16
"""Elements of so many bytes are copied in less time than an operation is recorded anew."""


EACH_ONCE = frozenset({Op.SHRINK, Op.RESHAPE, Op.PERMUTE, Op.FLIP})
"""Moves that show no element twice."""


class Region:
    """In a view's place for what it is in a frame: what it was read from, and its elements.

    twin: its elements in memory, if they are to be a source of their own in its frame, whatever
    else has the same memory.
    """

    __slots__ = ("own", "part", "twin", "whole")
    template = None

    def __init__(self, twin: Buffer | None = None) -> None:
        self.whole: Buffer | SharedMemory | None = None
        self.part: Buffer | None = None
        self.twin = twin
        self.own: tuple[Any, Node] | None = None

    def of_view(self) -> Region:
        """What a view of the view is marked by."""
        return Region()

    def source_in(self, frame: Frame, x: Handle[Any]) -> Node | None:
        """The template of the view's elements; None where they are not simply in memory."""
        if self.twin is not None:
            return self._own_source(frame, x, self.twin)
        storage = x._storage
        shared = storage.shared
        if shared is not None and shared.is_private:
            storage.refresh()
            shared = storage.shared
        if shared is not None:
            part = self._copied(x, shared) if is_of_memory(x) else None
            return None if part is None else frame.source_in_graph(part, x.shape)
        whole = in_memory(x)
        if whole is None or whole.device != frame.device:
            return None
        if self.whole is not whole:
            self.whole, self.part = whole, elements(x, whole)
        return None if self.part is None else frame.source_in_graph(self.part, x.shape)

    def _own_source(self, frame: Frame, x: Handle[Any], twin: Buffer) -> Node:
        """The template of a source that is no other's, once in a frame."""
        if self.own is None or self.own[0] is not frame.mark:
            self.own = frame.mark, frame.source(twin, x.shape)
        return self.own[1]

    def _copied(self, x: Handle[Any], shared: SharedMemory) -> Buffer:
        """What others have written to the view's elements until now, and not to all the rest."""
        stored, part = moved_array(shared.array, x._moves), self.part
        known = None if part is None or self.whole is not shared else part.view()
        if part is None or known is None or not have_same_bits(stored, known.reshape(stored.shape)):
            storage = x._storage
            part = Buffer.from_numpy(stored, storage.dtype, storage.device)
            self.whole, self.part = shared, part
        return part


def is_of_memory(x: Handle[Any]) -> bool:
    """Whether a tensor is no more to gradients than what is in its memory, or will be."""
    return x._storage.__class__ is Storage and is_plain(x)


def is_plain(x: Handle[Any]) -> bool:
    """Whether a tensor is no more to gradients than its value."""
    storage = x._storage
    return x._lineage is None and not storage.keeps_graph \
        and storage.leaf_id is None and not storage.retaining and not storage.was_freed


def compute_pending(x: Handle[Any], frame: Frame) -> bool:
    """Compute what a region is a part of, if that is pending in a frame of this thread: where it
    begins is then a matter of memory. Gives whether this frame has ended with that."""
    storage = x._storage
    if storage.__class__ is not Deferred or not is_plain(x):
        return False
    own = storage._frame
    if own is None or own.thread != get_ident():
        return False
    looked()
    frame_runs.compute(own, [storage])
    return own is frame


# ---- writing -------------------------------------------------------------------------------------

def can_be_put(x: Handle[Any]) -> bool:
    """Whether the elements of a region may be written where they are: each once, in a tensor that
    is simply in memory, and in a row, or few."""
    if in_memory(x) is None:
        return False
    if in_a_row(x._storage.shape, x._moves) is not None:
        return True
    view = x._tracker.single
    return view is not None and view.mask is None and EACH_ONCE.issuperset(
        [op for op, _ in x._moves]) and x.numel() * int64.itemsize <= FEW_BYTES


def put(frame: Frame, x: Handle[Any], template: Node) -> None:
    """Write these elements to a region that can be."""
    storage = x._storage
    whole = known_template(storage, frame)
    if whole is None:  # another thread has changed it meanwhile
        stored = realization.computed(storage.node, storage.device, keeps_graph=False)
        whole = frame.source(memory_of(stored), stored.shape)
    values = reshape(template, (template.numel,))
    flat = scatter(reshape(whole, (whole.numel,)), 0, _places(frame, x), values, None)
    defer(storage, frame, reshape(flat, whole.shape), False)


def _places(frame: Frame, x: Handle[Any]) -> Node:
    """Where the elements of a region are in memory, which is a source: the first, if they are in a
    row, or all."""
    row = in_a_row(x._storage.shape, x._moves)
    if row is not None:
        first, size = row
        place = frame.source(Buffer.from_numpy(np.asarray([first]), int64, frame.device), (1,))
        return place if size == 1 else ew.add(iota(size), place)
    view = x._tracker.single
    assert view is not None, "can_be_put"
    at = np.asarray(view.offset)
    for n, stride in zip(view.shape, view.strides, strict=True):
        at = np.add.outer(at, stride * np.arange(n))
    return frame.source(Buffer.from_numpy(at.reshape(-1), int64, frame.device), (at.size,))


# ---- memory --------------------------------------------------------------------------------------


def in_memory(x: Handle[Any]) -> Buffer | None:
    """The memory that a tensor is read from; None where it is more than that to gradients, is not
    computed yet, or others see the memory."""
    storage = x._storage
    if storage.shared is not None or not is_of_memory(x):
        return None
    flat = unshaped(storage._node)
    return flat.arg if flat.op is Op.BUFFER and isinstance(flat.arg, Buffer) else None


def elements(x: Handle[Any], whole: Buffer) -> Buffer | None:
    """The part of memory that has the elements of a view, or a copy where they are few, but not in
    a row, or where no kernel may begin; None where it takes a kernel to copy them."""
    row = in_a_row(x._storage.shape, x._moves)
    piece = None if row is None else _piece(whole, *row)
    if piece is not None:
        return piece
    flat = whole.view()
    if flat is None:
        offset = x.storage_offset() if x._tracker.is_contiguous else None
        return _piece(whole, offset, x.numel())
    if row is not None:
        shown = flat[row[0]:sum(row)]
    else:
        shown = moved_array(flat.reshape(x._storage.shape), x._moves)
        distance = _address(shown) - _address(flat)
        is_inside = shown.flags.c_contiguous and 0 <= distance < flat.nbytes
        piece = _piece(whole, distance // flat.itemsize if is_inside else None, shown.size)
        if piece is not None:
            return piece
    return Buffer.from_numpy(shown, whole.dtype, whole.device) \
        if 0 < shown.nbytes <= FEW_BYTES else None


def _address(array: np.ndarray[Any, Any]) -> int:
    address: int = array.__array_interface__["data"][0]
    return address


def _piece(whole: Buffer, first: int | None, size: int) -> Piece | None:
    """So many elements from `first` on, if a kernel may begin there."""
    runtime = executor(whole.device)
    if first is None or not size or not runtime.has_offsets \
            or first * whole.dtype.itemsize % runtime.alignment:
        return None
    return Piece(whole, first, size)
