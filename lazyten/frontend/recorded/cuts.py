"""Views that plain indices cut out of memory, such as a row of the data: not looked up.

In: a tensor that gradients do not flow through and no frame changes, and an index of whole numbers
and slices. Out: the view, which costs a twentieth of recording it. Most are only read by the host,
as a loader's examples are, each another; those that an operation asks for are regions (regions.py)
where the numbers vary.
"""
from __future__ import annotations

from collections.abc import Hashable
from typing import Any

import numpy as np

from lazyten.frontend.core import handle
from lazyten.frontend.core.handle import Handle
from lazyten.frontend.recorded.courses import family_at
from lazyten.frontend.recorded.masks import is_mask_of
from lazyten.frontend.recorded.regions import Region, is_of_memory, is_plain
from lazyten.ir.movement import Moves
from lazyten.operators.arrays.indexing import simple
from lazyten.storage.frames import here
from lazyten.support.location import user_place


class Cut:
    """In a view's place for what it is in a frame, until an operation asks for that: its index."""

    __slots__ = ("index",)
    template = None

    def __init__(self, index: Any) -> None:
        self.index = index

    def of_view(self) -> Cut:
        """The same of a view of the view."""
        return self

    def met(self, x: Handle[Any]) -> Region | None:
        """What the view is to operations: a region, if what is asked for at this line of the user's
        begins at another place from turn to turn, or to read all of the memory would be to compare
        all that others may have written there."""
        if x._storage.shared is not None:
            return Region()
        family = family_at((Cut, user_place()))
        if family.varies:
            return Region()
        numbers: list[int] = []
        key = x._storage.shape, x._storage.dtype, _kind(self.index, numbers)
        return Region() if family.meet(here.turn, here.cut, key, tuple(numbers)) else None


def _kind(index: Any, numbers: list[int]) -> Hashable:
    """What an index is but for its numbers, which are added to a list."""
    if index.__class__ is tuple:
        return tuple([_kind(entry, numbers) for entry in index])
    if index.__class__ is slice:
        return slice, *[_kind(x, numbers) for x in (index.start, index.stop, index.step)]
    if index is not None:
        numbers.append(index)
    kind: Hashable = index.__class__
    return kind


def cut(x: Any, index: Any) -> Any:
    """The view of a tensor that an index shows; None where that takes more than moves."""
    if x.__class__ is not handle.results:
        return None
    if not is_of_memory(x):
        return None
    storage = x._storage
    own = x._moves
    moves = simple(index, x.shape if own else storage._node.shape)
    if moves is None:
        return None
    view: Any = x._moved(*moves) if own else Handle._view(storage, moves, None)
    before = x._value
    if before.__class__ is Region:
        view._value = Region()
    else:
        view._value = Cut((before.index, index) if before.__class__ is Cut else index)
    return view


def is_itself(view: Any, x: Any, index: Any) -> bool:
    """Whether a view, which is no more than its value, is what a plain index shows of a tensor."""
    if view.__class__ is not handle.results or x.__class__ is not handle.results \
            or view._storage is not x._storage or not (is_plain(view) and is_plain(x)):
        return False
    moves = simple(index, x.shape)
    if moves is None:
        return False
    shown: Moves = x._moved(*moves)._moves if x._moves else moves
    return bool(shown == view._moves)


def with_places(x: Any, index: Any) -> Any:
    """The places that a mask shows, in its place where it fits the first axes of a tensor: the mask
    is read now, and what is looked up holds for any places of so many."""
    if not is_mask_of(index, x):
        return index
    found = tuple([x._copy_of(places, device=x._storage.device)
                   for places in np.nonzero(index._as_array())])
    return found if len(found) > 1 else found[0]


def with_tensors(x: Any, index: Any) -> Any:
    """An index with tensors in the place of arrays, lists and ranges of whole numbers, as indexing
    makes them anyway: what is looked up holds for any numbers in them. Those that are not inside
    are an error of indexing's, which has them as they are."""
    if x.__class__ is not handle.results:
        return index
    if index.__class__ is not tuple:
        return _as_tensor(x, index, 0)
    if not all(map(_is_of_one_axis, index)):
        return index
    return tuple([_as_tensor(x, entry, axis) for axis, entry in enumerate(index)])


def _is_of_one_axis(entry: Any) -> bool:
    return entry.__class__ in (int, slice) or _is_list(entry) \
        or isinstance(entry, np.ndarray | handle.Handle) and entry.dtype.kind != "b"


def _is_list(entry: Any) -> bool:
    """Whether an entry is a list or a range of whole numbers."""
    return entry.__class__ is list and {*map(type, entry)} == {int} \
        or entry.__class__ is range and len(entry) > 0


def _as_tensor(x: Any, entry: Any, axis: int) -> Any:
    is_array = entry.__class__ is np.ndarray and entry.dtype.kind == "i" and entry.ndim
    if not (is_array or _is_list(entry)) or axis >= len(x.shape):
        return entry
    positions, n = np.asarray(entry), x.shape[axis]
    if positions.size and not -n <= positions.min() <= positions.max() < n:
        return entry
    return x._copy_of(positions, device=x._storage.device)
