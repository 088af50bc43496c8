"""Views: how an array of some shape lies in a flat buffer.

In: a shape and a chain of movement ops. Out: strides and an offset where that is enough, and always
an index expression with its validity, or a NumPy array. `Tensor` is a storage and a ShapeTracker:
what aliases what, `stride()`, `is_contiguous()` and in-place writes all follow from it.

A View is one set of strides. A ShapeTracker is a chain of them, merged to one wherever one can say
the same: a new View begins only where a reshape (or a shear of padding) does not fit the strides.
"""
from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from lazyten.ir import movement
from lazyten.ir.movement import Moves, Shape
from lazyten.ir.node import Node, elementwise, index
from lazyten.ir.ops import Op
from lazyten.symbolic.index_moves import every, inside, unflatten
from lazyten.symbolic.simplify import simplify, simplify_all
from lazyten.symbolic.strides import Box, coalesced, coordinates, narrowed, reach, row_major

Array = np.ndarray[Any, Any]


@dataclass(frozen=True, slots=True)
class View:
    """Element i, j, .. is buffer[offset + strides[0]*i + strides[1]*j + ..], or 0 outside the mask.

    Strides and offset count elements. mask: None, or (start, stop) an axis, the elements that a
    PAD did not add; never one that covers everything. Where it covers nothing, it is all (0, 0).
    The stride of an axis of size 1 means nothing.
    """

    shape: Shape
    strides: tuple[int, ...]
    offset: int = 0
    mask: Box | None = None

    @staticmethod
    def contiguous(shape: Shape) -> View:
        """All of a buffer in row-major order."""
        return View(tuple(shape), row_major(shape))

    @property
    def size(self) -> int:
        """How many elements it has."""
        return math.prod(self.shape)

    @property
    def box(self) -> Box:
        """The mask; where there is none, the whole of every axis."""
        return tuple((0, n) for n in self.shape) if self.mask is None else self.mask

    @property
    def is_contiguous(self) -> bool:
        """Whether its elements are neighbours in the buffer, in row-major order, at any offset."""
        return self.size == 0 or self.mask is None and all(
            n == 1 or s == r
            for n, s, r in zip(self.shape, self.strides, row_major(self.shape), strict=True))

    # ---- movement: each gives the moved view; arguments as in ops.py -----------------------------

    def moved(self, op: Op, arg: Any) -> View | None:
        """What movement `op` makes of it; None where that is not one view.

        Raises InternalError if `arg` does not fit the shape.
        """
        movement.out_shape(op, self.shape, arg)
        if op is Op.RESHAPE:
            return self.reshape(arg)
        if op is Op.PERMUTE:
            return self.permute(arg)
        if op is Op.EXPAND:
            return self.expand(arg)
        if op is Op.PAD:
            return self.pad(arg)
        if op is Op.SHRINK:
            return self.shrink(arg)
        return self.flip(arg) if op is Op.FLIP else self.shear(*arg)

    def reshape(self, shape: Shape) -> View | None:
        """The same elements in row-major order; None if no strides reach them so."""
        return composed(View.contiguous(shape), self)

    def permute(self, order: Sequence[int]) -> View:
        """Reorder axes: out.shape[i] == shape[order[i]]."""
        mask = None if self.mask is None else tuple(self.mask[a] for a in order)
        return View(tuple(self.shape[a] for a in order), tuple(self.strides[a] for a in order),
                    self.offset, mask)

    def expand(self, shape: Shape) -> View:
        """Repeat axes of size 1, with stride 0."""
        strides = tuple(s if n == new else 0
                        for n, new, s in zip(self.shape, shape, self.strides, strict=True))
        box = tuple((0, new) if span == (0, 1) and n == 1 else span
                    for n, new, span in zip(self.shape, shape, self.box, strict=True))
        return _masked(tuple(shape), strides, self.offset, box)

    def pad(self, widths: Sequence[tuple[int, int]]) -> View:
        """Put (before, after) zeros around each axis."""
        shape = tuple(n + b + a for n, (b, a) in zip(self.shape, widths, strict=True))
        offset = self.offset - sum(b * s for (b, _), s in zip(widths, self.strides, strict=True))
        box = tuple((start + b, stop + b)
                    for (start, stop), (b, _) in zip(self.box, widths, strict=True))
        return _masked(shape, self.strides, offset, box)

    def shrink(self, ranges: Sequence[tuple[int, int]]) -> View:
        """Keep start <= i < stop of each axis."""
        offset = self.offset + sum(a * s for (a, _), s in zip(ranges, self.strides, strict=True))
        box = tuple((max(start, a) - a, min(stop, b) - a)
                    for (start, stop), (a, b) in zip(self.box, ranges, strict=True))
        return _masked(tuple(b - a for a, b in ranges), self.strides, offset, box)

    def flip(self, axes: Sequence[int]) -> View:
        """Reverse axes."""
        strides, box = list(self.strides), list(self.box)
        offset = self.offset
        for a in set(axes):
            n, (start, stop) = self.shape[a], box[a]
            offset += strides[a] * (n - 1)
            strides[a], box[a] = -strides[a], (n - stop, n - start)
        return _masked(self.shape, tuple(strides), offset, tuple(box))

    def shear(self, axis: int, by: int, factor: int, offset: int, size: int) -> View | None:
        """Slide `axis` by `factor` an element of `by` (see movement.py).

        None where padding on `axis` would slide too: it is then no box any more.
        """
        shape = (*self.shape[:axis], size, *self.shape[axis + 1:])
        if 0 in shape:
            return View(shape, row_major(shape), self.offset)
        strides = list(self.strides)
        strides[by] += factor * strides[axis]
        steps = [1 if a == axis else factor if a == by else 0 for a in range(len(shape))]
        box = narrowed((*self.box[:axis], (0, size), *self.box[axis + 1:]), steps, offset,
                       self.box[axis])
        if box is None:
            return None
        return _masked(shape, tuple(strides), self.offset + offset * strides[axis], box)

    # ---- reading ---------------------------------------------------------------------------------

    def index(self, indices: Sequence[Node]) -> tuple[Node, list[Node]]:
        """(position in the buffer, conditions under which the element is not 0), not simplified."""
        flat = index(self.offset)
        for i, s in zip(indices, self.strides, strict=True):
            flat = elementwise(Op.ADD, flat, elementwise(Op.MUL, i, index(s)))
        spans = () if self.mask is None else self.mask
        return flat, [condition for i, span in zip(indices, spans, strict=False)
                      for condition in inside(i, *span)]

    def read(self, flat: Array) -> Array:
        """Its elements of a flat array: a read-only alias of it, or with a mask, a copy."""
        flat = np.ascontiguousarray(flat)
        box = self.box
        if self.size == 0 or (0, 0) in box:
            return np.zeros(self.shape, flat.dtype)
        corner = self.offset + sum(start * s
                                   for (start, _), s in zip(box, self.strides, strict=True))
        step = flat.strides[0]
        inner: Array = np.ndarray([stop - start for start, stop in box], flat.dtype, flat,
                                  corner * step, [s * step for s in self.strides])
        inner.flags.writeable = False
        if self.mask is None:
            return inner
        padded = np.zeros(self.shape, flat.dtype)
        padded[tuple(slice(*span) for span in box)] = inner
        return padded


KEPT_VIEWS = 4096
"""Compositions that are kept: what a program gives are views, the same ones at each call."""


def _masked(shape: Shape, strides: Sequence[int], offset: int, box: Box) -> View:
    """The view that is 0 outside `box`, with its mask in the form that View promises."""
    if 0 in shape or all(span == (0, n) for span, n in zip(box, shape, strict=True)):
        return View(shape, tuple(strides), offset)
    if any(start >= stop for start, stop in box):
        return View(shape, (0,) * len(shape), 0, ((0, 0),) * len(shape))
    return View(shape, tuple(strides), offset, box)


@lru_cache(KEPT_VIEWS)
def composed(outer: View, inner: View) -> View | None:
    """The view `outer` of the elements of `inner` in row-major order; None if it is not one view.

    Where the first element of `outer` and its neighbour on each axis are in `inner` tells what step
    each axis of `outer` takes on each axis of `inner`. It is one view if no steps together leave an
    axis of `inner` (they would carry over to the axis before), and if what the mask of `inner` lets
    through is a box of `outer`.
    """
    shape, box = outer.shape, outer.box
    if 0 in shape:
        return View(shape, row_major(shape), inner.offset)
    if (0, 0) in box:
        return outer
    if (0, 0) in inner.box:
        return _masked(shape, outer.strides, 0, ((0, 0),) * len(shape)) if shape else None
    axes = coalesced(inner.shape, inner.strides, inner.box)
    sizes = [axis.size for axis in axes]
    first = outer.offset + sum(a * s for (a, _), s in zip(box, outer.strides, strict=True))
    corner = coordinates(first, sizes)
    neighbours = [coordinates(first + s, sizes) if b - a > 1 else corner
                  for (a, b), s in zip(box, outer.strides, strict=True)]
    strides, offset = [0] * len(shape), inner.offset
    for k, axis in enumerate(axes):
        steps = [n[k] - corner[k] for n in neighbours]
        base = corner[k] - sum(a * step for (a, _), step in zip(outer.box, steps, strict=True))
        low, high = reach(outer.box, steps, base)
        if low < 0 or high >= axis.size:
            return None
        inside_mask = narrowed(box, steps, base, axis.span)
        if inside_mask is None:
            return None
        box = inside_mask
        offset += base * axis.stride
        strides = [s + step * axis.stride for s, step in zip(strides, steps, strict=True)]
    view = _masked(shape, strides, offset, box)
    return View(shape, row_major(shape), offset) if view.is_contiguous else view


@dataclass(frozen=True, slots=True)
class ShapeTracker:
    """A chain of views, the one into the buffer first: each is of the row-major elements of the
    one before it. Movement ops give new trackers, of one view whenever one can express it.
    """

    views: tuple[View, ...]

    @staticmethod
    def of(shape: Shape) -> ShapeTracker:
        """All of a buffer, in row-major order."""
        return ShapeTracker((View.contiguous(shape),))

    @property
    def shape(self) -> Shape:
        """The shape of the array that is seen."""
        return self.views[-1].shape

    @property
    def single(self) -> View | None:
        """The only view; None if there are more."""
        return self.views[0] if len(self.views) == 1 else None

    @property
    def strides(self) -> tuple[int, ...] | None:
        """Elements between neighbours on each axis; None if there is more than one view."""
        return self.views[0].strides if len(self.views) == 1 else None

    @property
    def offset(self) -> int | None:
        """Position in the buffer of element 0, 0, ..; None if there is more than one view."""
        return self.views[0].offset if len(self.views) == 1 else None

    @property
    def is_contiguous(self) -> bool:
        """Whether its elements are neighbours in the buffer, in row-major order, at any offset."""
        return len(self.views) == 1 and self.views[0].is_contiguous

    def moved(self, op: Op, arg: Any) -> ShapeTracker:
        """What movement `op` makes of it. Raises InternalError if `arg` does not fit the shape."""
        *below, last = self.views
        view = last.moved(op, arg)
        if view is None:
            view = View.contiguous(last.shape).moved(op, arg)
            below.append(last)
        assert view is not None, "a contiguous view takes every movement"
        while below:
            merged = composed(view, below[-1])
            if merged is None:
                break
            view = merged
            below.pop()
        return ShapeTracker((*below, view))

    def index(self, indices: Sequence[Node]) -> tuple[Node, Node | None]:
        """(position in the buffer, validity) of the element at `indices`, simplified.

        Validity is None where that always holds; else where it is false, the element is 0 and the
        position may be outside the buffer. Without elements there is no index to ask for.
        """
        flat, conditions = self.views[-1].index(indices)
        for view in reversed(self.views[:-1]):
            flat, more = view.index(simplify_all(unflatten(flat, view.shape)))
            conditions += more
        return simplify(flat), every(conditions)

    def numpy_view(self, flat: Array) -> Array:
        """Its elements of a flat array: a read-only alias of it if it is one view without a mask,
        else a copy.
        """
        for view in self.views:
            flat = view.read(flat.reshape(-1))
        return flat


# ---- arrays --------------------------------------------------------------------------------------

def _shrunk(values: Array, spans: Sequence[tuple[int, int]]) -> Array:
    return values[tuple([slice(*span) for span in spans])]


_OF_ARRAYS: dict[Op, Callable[[Array, Any], Array]] = {
    Op.RESHAPE: np.ndarray.reshape, Op.PERMUTE: np.ndarray.transpose, Op.EXPAND: np.broadcast_to,
    Op.FLIP: np.flip, Op.SHRINK: _shrunk}


def moved_array(values: Array, moves: Moves) -> Array:
    """What moves make of an array, an alias of it where NumPy can make one: what a tracker would
    read, for moves that do not come again."""
    for op, arg in moves:
        of = _OF_ARRAYS.get(op)
        values = np.asarray(of(values, arg)) if of is not None else \
            ShapeTracker.of(values.shape).moved(op, arg).numpy_view(values)
    return values
