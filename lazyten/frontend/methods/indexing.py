"""Indexing, and parts along an axis."""
from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple, Self, SupportsIndex, TypeVar

import numpy as np

from lazyten.frontend.core.handle import Handle
from lazyten.frontend.core.keywords import also_named
from lazyten.frontend.core.tensor_core import TensorCore
from lazyten.frontend.core.writing import without_leading_ones
from lazyten.frontend.methods.gathering import adder
from lazyten.ir import dtype as dt
from lazyten.ir.dtype import Scalar
from lazyten.ir.node import Node, cast, const, iota, reshape, scatter
from lazyten.operators.arrays import indexing, joining
from lazyten.operators.arrays.index_arrays import Indexed, Selection, select
from lazyten.operators.math import elementwise as ew
from lazyten.operators.math import scans, shapes
from lazyten.storage import levels, tracing
from lazyten.support.errors import (
    ArgumentError,
    DTypeError,
    EmptyAxisError,
    IndexingError,
    NoAxisError,
    ShapeError,
)
from lazyten.support.location import user_location

Tensor = TypeVar("Tensor", bound="IndexingMethods[Any]")


MASKS = (dt.bool_, dt.uint8)
"""The types of masks; PyTorch's were of uint8 once."""


class _Array(NamedTuple):
    """Where index array `number` stands among the entries of an index."""

    number: int

    def __repr__(self) -> str:
        return "array"


class IndexingMethods(TensorCore[Tensor]):
    """x[..], x[..] = y, and what is written in terms of these."""

    __slots__ = ()

    def __getitem__(self, index: Any) -> Tensor:
        if index.__class__ is list:
            index = _by_axes(index)
        if _has_flags(index):
            view, masks = self._with_axes_of_flags(index)
            chosen: Tensor = view[masks]
            return chosen
        if _has_arrays(index) or _is_unread(index):
            return self._taken(index)
        if _has_places(index):
            return self[_read_now(index)]
        return self._moved(*indexing.basic(index, self.shape))

    def __setitem__(self, index: Any, value: Any) -> None:
        if index.__class__ is list:
            index = _by_axes(index)
        if _has_flags(index):
            view, masks = self._with_axes_of_flags(index)
            view[masks] = value
        elif _has_arrays(index) or _is_unread(index):
            self._set_where(index, value)
        elif _has_places(index):
            self[_read_now(index)] = value
        elif (places := indexing.places(index, self.shape)) is not None and self._takes(value):
            self._set_where(tuple([self._fresh(p) if isinstance(p, Node) else p for p in places]),
                            value)
        else:
            self[index]._copy_from(value, "assignment")

    def __iter__(self) -> Iterator[Tensor]:
        if not self.shape:
            raise NoAxisError("iteration over a zero-dim tensor: it has no axes; use item()")
        return (self[i] for i in range(self.shape[0]))

    def __reversed__(self) -> Tensor:
        """The tensor with the elements of axis 0 in reverse order; itself without axes."""
        return self.flip(0) if self.shape else self._same()

    def __delitem__(self, index: Any) -> None:
        raise DTypeError(f"del x[{index!r:.60}]: a tensor's elements cannot be taken out; index "
                         f"what is to stay")

    def _takes(self, value: Any) -> bool:
        """Whether it is a number, or a tensor of no higher category."""
        if isinstance(value, Handle):
            return dt.category(value.dtype) <= dt.category(self.dtype)
        return isinstance(value, int | float)

    def _taken(self, index: Any) -> Tensor:
        """Indexing with index arrays."""
        view, selection, arrays = self._selected(index, "index")
        return self._result(selection.read(view.node), self, *arrays)

    def _index_tensor(self, given: Any) -> Tensor:
        if isinstance(given, list | tuple | range) and not given:
            given = np.zeros(0, np.int64)
        if isinstance(given, Handle) and given.device != self.device and given.device.type == "cpu":
            given = given._copied_to(self.device)
        found = self._tensor(given if isinstance(given, Handle) else
                             self._copy_of(given, device=self.device), "index")
        if found.dtype is not dt.uint8:
            return found
        warnings.warn(f"index at {user_location()}: a tensor of uint8 is taken as a mask, as "
                      f"PyTorch does; write x[mask.bool()], or x[index.long()] for positions",
                      stacklevel=4)
        return self._result(cast(found.node, dt.bool_), found)

    def _with_axes_of_flags(self, index: Any) -> tuple[Tensor, tuple[Any, ...]]:
        """A view with an axis of size 1 for each bool without axes in an index, and the index of
        that view, in which these are masks of 1 element."""
        axes: list[Any] = []
        masks: list[Any] = []
        for entry in index if isinstance(index, tuple) else (index,):
            if _is_flag(entry):
                axes.append(None)
                masks.append(self._index_tensor(entry).reshape(1))
                continue
            masks.append(entry)
            if entry is Ellipsis:
                axes.append(entry)
            elif entry is not None:
                array = self._index_tensor(entry) if _is_array(entry) else None
                is_mask = array is not None and array.dtype is dt.bool_
                axes += [slice(None)] * (array.ndim if array is not None and is_mask else 1)
        return self[tuple(axes)], tuple(masks)

    def _selected(self, index: Any, operation: str) -> tuple[Tensor, Selection, list[Tensor]]:
        """A view by what is basic in the index, what the arrays select in it, and the arrays. A
        mask is read now: how many elements it selects is a shape."""
        given = list(index) if isinstance(index, tuple) else [index]
        unread = not _has_arrays(index)
        arrays = [self._index_tensor(e) if _is_array(e) or unread and _is_place(e) else None
                  for e in given]
        marked: list[Any] = []
        for number, (entry, array) in enumerate(zip(given, arrays, strict=True)):
            mask = array is not None and array.dtype is dt.bool_
            axes = array.ndim if array is not None and mask else 1
            marked += [entry] if array is None else [_Array(number)] * axes
        found: list[Indexed] = []
        used: list[Tensor] = []
        masks: dict[int, list[Tensor]] = {}
        basic: list[Any] = []
        axis = 0
        for entry in indexing.entries(tuple(marked), self.shape):
            array = arrays[entry.number] if isinstance(entry, _Array) else None
            if array is not None:
                is_mask = array.dtype is dt.bool_
                if is_mask:
                    if entry.number not in masks:
                        self._check_mask(array, axis)
                        masks[entry.number] = list(array.nonzero(as_tuple=True))
                    array = masks[entry.number].pop(0)
                else:
                    self._check_on_host(given[entry.number], array, axis)
                at = sum(b is None or isinstance(b, slice) for b in basic)
                found.append(Indexed(at, axis, array.node, is_mask))
                used.append(array)
            basic.append(entry if array is None else slice(None))
            axis += entry is not None
        view = self._moved(*indexing.basic(tuple(basic), self.shape))
        return view, select(view.shape, found, operation), used

    def _check_mask(self, mask: Tensor, axis: int) -> None:
        there = self.shape[axis:axis + mask.ndim]
        if mask.shape != there:
            raise IndexingError(f"a bool mask of shape {mask.shape} as an index from axis {axis} "
                                f"on of a tensor of shape {self.shape}: it must have the shape of "
                                f"those axes, {there}")

    def _check_on_host(self, given: Any, array: Tensor, axis: int) -> None:
        """What is known now is checked now."""
        if not isinstance(given, Handle) and array.dtype.is_int and array.numel():
            for extreme in (np.min(given), np.max(given)):
                indexing.position(int(extreme), axis, self.shape)

    def _set_where(self, index: Any, value: Any) -> None:
        """Assignment through index arrays."""
        other = self._operand_here(value, "assignment")
        one = not isinstance(other, Handle) or other.numel() == 1
        alone = not isinstance(index, tuple) and _is_array(index)
        if one and alone:  # of a mask the elements need not be counted
            mask = self._index_tensor(index)
            if mask.dtype is dt.bool_:
                self._check_mask(mask, 0)
                chosen = reshape(mask.node, mask.shape + (1,) * (self.ndim - mask.ndim))
                if isinstance(other, Handle):
                    number = ew.fitting(reshape(other.node, ()), self.dtype, "assignment")
                else:
                    number = shapes.as_element(other, self.dtype, "assignment")
                wide = ew.where(ew.broadcast_to(chosen, self.shape),
                                ew.as_node(number, self.dtype, ()), self.node)
                self._update("assignment", wide, *([other] if isinstance(other, Handle) else []))
                return
        view, selection, arrays = self._selected(index, "assignment")
        view._put(selection, other, arrays, False, "assignment")

    def _put(self, selection: Selection, value: Tensor | Scalar, arrays: Sequence[Tensor],
             accumulate: bool, operation: str) -> None:
        node = value.node if isinstance(value, Handle) else ew.as_node(
            shapes.as_element(value, self.dtype, operation), self.dtype, ())
        if operation == "assignment":
            node = without_leading_ones(node, len(selection.result))
        if shapes.broadcast([node.shape, selection.result], operation) != selection.result:
            raise ShapeError(f"{operation} of shape {node.shape} to indexed elements of shape "
                             f"{selection.result}: it does not broadcast to it; reshape it")
        if dt.category(node.dtype) > dt.category(self.dtype):
            raise DTypeError(f"{operation} of {node.dtype.name} into {self.dtype.name}: it does "
                             f"not fit; convert it first")
        wide = ew.broadcast_to(cast(node, self.dtype), selection.result)
        new = selection.write(self.node, wide, adder(self.dtype) if accumulate else None)
        others = [value, *arrays] if isinstance(value, Handle) else arrays
        self._update(operation, new, *others)

    def index_put_(self, indices: Sequence[Tensor], values: Any,
                   accumulate: bool = False) -> Self:
        """self[indices] = values, in place, where the last of several for one place stays; or
        accumulate: self[indices] += values, where all are added."""
        if not isinstance(indices, list | tuple) or not any(
                _is_array(i) or _is_place(i) for i in indices):
            raise DTypeError(f"index_put_: the indices are {indices!r:.60}; give a list of tensors "
                             f"of integers or bools, one for each axis")
        view, selection, arrays = self._selected(tuple(indices), "index_put_")
        given = self._operand_here(values, "index_put_")
        view._put(selection, given, arrays, accumulate, "index_put_")
        return self

    def index_put(self, indices: Sequence[Tensor], values: Any,
                  accumulate: bool = False) -> Tensor:
        """A copy with index_put_."""
        copied: Tensor = self.clone()
        copied.index_put_(indices, values, accumulate)
        return copied

    # ---- places ----------------------------------------------------------------------------------

    def nonzero(self, as_tuple: bool = False) -> Any:
        """Where the elements are not 0: int64 (count, ndim), or as_tuple a tensor an axis.

        Computes this tensor: how many there are is a shape. A jitted function runs in Python.
        """
        if as_tuple and not self.shape:
            return self.reshape(1).nonzero(as_tuple=True)
        places = np.argwhere(self.detach()._as_array()).astype(np.int64)
        found = self._copy_of(places.T if as_tuple else places, device=self.device)
        return found.unbind() if as_tuple else found

    def nonzero_static(self, *, size: int, fill_value: int = -1) -> Tensor:
        """The first `size` rows of nonzero(), and rows of fill_value if there are fewer."""
        count = shapes.as_int(size, "nonzero_static", "size")
        if count < 0:
            raise ArgumentError(f"nonzero_static: size={count}; give 0 or more")
        flat = ew.as_bool(reshape(self.detach().node, (self.numel(),)))
        rank = ew.sub(scans.cumulative_sum(flat, 0), 1)
        at = ew.where(ew.bitwise_and(flat, ew.less(rank, count)), rank, -1)
        number = shapes.as_element(fill_value, dt.int64, "nonzero_static")
        columns, rest = [], iota(self.numel())
        for n in reversed(self.shape):
            base = const(number, dt.int64, (count,))
            columns.append(scatter(base, 0, at, ew.remainder(rest, max(n, 1)), None))
            rest = ew.floor_divide(rest, max(n, 1))
        rows = [reshape(c, (count, 1)) for c in reversed(columns)]
        return self._fresh(joining.cat(rows, 1) if rows else const(0, dt.int64, (count, 0)))

    def masked_select(self, mask: Tensor) -> Tensor:
        """The elements where the bool mask holds, in one axis; the two broadcast. Computes the
        mask, as how many there are is a shape."""
        chosen = self._tensor(mask, "masked_select")
        if chosen.dtype is not dt.bool_:
            raise DTypeError(f"masked_select: the mask is {chosen.dtype.name}; make it bool first, "
                             f"for example with `mask != 0`")
        common = shapes.broadcast([self.shape, chosen.shape], "masked_select")
        wide = self.expand(common or (1,))
        found: Tensor = wide[chosen.expand(common or (1,))]
        return found

    def select(self, dim: int, index: SupportsIndex) -> Tensor:
        """One position of an axis, which goes away; a view."""
        axis = shapes.axis(dim, self.ndim, "select")
        return self[(*(slice(None),) * axis, shapes.as_int(index, "select", "an index"))]

    def narrow(self, dim: int, start: SupportsIndex, length: int) -> Tensor:
        """`length` positions of an axis from `start`, which counts from the end if negative; a
        view."""
        axis, n = shapes.sized_axis(dim, self.shape, "narrow")
        if isinstance(start, Handle) and start.ndim or isinstance(start, bool) \
                or isinstance(length, bool):
            raise DTypeError(f"narrow: start={start!r:.40} and length={length!r:.40} are whole "
                             f"numbers; start may be a zero-dim tensor of one")
        given = shapes.as_int(start, "narrow", "the start")
        length = shapes.as_int(length, "narrow", "the length")
        start = given + n if given < 0 else given
        if not 0 <= start <= start + length <= n:
            raise IndexingError(f"narrow: {length} elements from {given} are outside axis {axis} "
                                f"of size {n}; start at {-n} or more and end at {n} or less")
        return self[(*(slice(None),) * axis, slice(start, start + length))]

    @also_named(tensor="self")
    def split(self, split_size: int | Sequence[int],
              dim: int = 0) -> tuple[Tensor, ...]:
        """Parts of a size (the last may be smaller), or of given sizes, along an axis; views."""
        axis, n = shapes.sized_axis(dim, self.shape, "split")
        if isinstance(split_size, Sequence):
            lengths = [shapes.as_int(s, "split", "a size") for s in split_size]
            if any(m < 0 for m in lengths) or sum(lengths) != n:
                raise ShapeError(f"split {lengths} of axis {axis}: the sizes must be 0 or more and "
                                 f"add up to {n}")
        else:
            size = shapes.as_int(split_size, "split", "a size")
            if size < 1:
                raise ArgumentError(f"split: a size of {size}; give 1 or more")
            lengths = [min(size, n - i) for i in range(0, n, size)] or [0]
        starts = [sum(lengths[:i]) for i in range(len(lengths))]
        return tuple(self.narrow(axis, s, m) for s, m in zip(starts, lengths, strict=True))

    def split_with_sizes(self, split_sizes: Sequence[int], dim: int = 0) -> tuple[Tensor, ...]:
        """Parts of given sizes along an axis; views."""
        return self.split(shapes.sizes([split_sizes], "split_with_sizes"), dim)

    def chunk(self, chunks: int, dim: int = 0) -> tuple[Tensor, ...]:
        """At most `chunks` parts of one size (the last may be smaller) along an axis, or as many of
        no elements; views."""
        chunks = shapes.as_int(chunks, "chunk", "the number of parts")
        if chunks < 1:
            raise ArgumentError(f"chunk: {chunks} parts; give 1 or more")
        _, n = shapes.sized_axis(dim, self.shape, "chunk")
        if not n:
            return self.split([0] * chunks, dim)
        return self.split(max(-(-n // chunks), 1), dim)

    unsafe_split, unsafe_split_with_sizes, unsafe_chunk = split, split_with_sizes, chunk

    def unbind(self, dim: int = 0) -> tuple[Tensor, ...]:
        """Each position of an axis; views."""
        axis = shapes.axis(dim, self.ndim, "unbind")
        if not self.shape:
            raise EmptyAxisError("unbind of a zero-dim tensor: it has no axis to take apart; use "
                                 "item()")
        return tuple(self.select(axis, i) for i in range(self.shape[axis]))


# ---- kinds of entries ----------------------------------------------------------------------------

def _by_axes(index: list[Any]) -> Any:
    """A list as an index: of arrays, slices and the like one entry an axis, as if it were a tuple
    (PyTorch's rule, for lists of fewer than 32); else it is one index array."""
    if len(index) >= 32 or not any(
            isinstance(e, Handle | Sequence | np.ndarray | slice) or e is None or e is Ellipsis
            for e in index):
        return index
    warnings.warn(f"index at {user_location()}: a list of index arrays is taken as a tuple, one "
                  f"for each axis, as PyTorch does; write x[a, b] in place of x[[a, b]], or "
                  f"x[tensor([a, b])] for one index array", stacklevel=3)
    return tuple(index)


def _is_array(entry: Any) -> bool:
    return isinstance(entry, list | tuple | range | np.ndarray) or isinstance(
        entry, Handle) and bool(entry.shape or entry.dtype in MASKS)


def _is_place(entry: Any) -> bool:
    return isinstance(entry, Handle) and not entry.shape and entry.dtype.is_int


def _is_unread(index: Any) -> bool:
    """Whether an index has tensors for integers where no value can be read, as they are recorded
    for other values, too: it selects as index arrays do."""
    traced = tracing.current() is not None or bool(levels.under_way())
    return traced and _has_places(index)


def _has_places(index: Any) -> bool:
    """Whether an index has tensors for integers, outside of slices."""
    return any(map(_is_place, index if isinstance(index, tuple) else (index,)))


def _read_now(index: Any) -> Any:
    """An index with the values of tensors for integers."""
    if isinstance(index, tuple):
        return tuple(map(_read_now, index))
    return int(index) if _is_place(index) else index


def _is_flag(index: Any) -> bool:
    """Whether an index is a bool without axes, which is a mask of a new axis in front."""
    return isinstance(index, bool | np.bool_) or (
        isinstance(index, Handle) and index.dtype in MASKS and not index.shape)


def _has_flags(index: Any) -> bool:
    return any(map(_is_flag, index)) if isinstance(index, tuple) else _is_flag(index)


def _has_arrays(index: Any) -> bool:
    return any(_is_array(e) for e in index) if isinstance(index, tuple) else _is_array(index)
