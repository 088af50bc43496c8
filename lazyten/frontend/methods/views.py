"""Views of tensors beyond indexing and transposing, as methods: diagonals, windows, strides, parts.

A view shares its tensor's storage: what is written through one is seen through all.
"""
from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Self

from lazyten.frontend.core.in_place import shown_as
from lazyten.frontend.core.keywords import MemoryFormat, also_named, contiguous_format, order_of
from lazyten.frontend.core.tensor_core import Tensor, TensorCore
from lazyten.ir.node import move
from lazyten.ir.ops import Op
from lazyten.operators.arrays import strided
from lazyten.operators.math import shapes
from lazyten.operators.math.shapes import Sizes
from lazyten.support.errors import ArgumentError, GradientError, ShapeError


class ViewMethods(TensorCore[Tensor]):
    """Methods that give views."""

    __slots__ = ()

    def diagonal(self, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Tensor:
        """The elements [.., i, .., i + offset, ..] of two axes, as the last axis; a view."""
        first, second = _two_axes(dim1, dim2, self.ndim, "diagonal")
        offset = shapes.as_int(offset, "diagonal", "the offset")
        return self._moved(*strided.diagonal(self.shape, offset, first, second))

    def unfold(self, dimension: int, size: int, step: int) -> Tensor:
        """Windows of `size` elements along an axis, one every `step`, as a new last axis; a view,
        in which windows overlap if step < size."""
        axis = shapes.axis(dimension, self.ndim, "unfold")
        size, step = [shapes.as_int(v, "unfold", "size and step") for v in (size, step)]
        n = self.shape[axis] if self.shape else 1
        if not 0 <= size <= n or step < 1:
            raise ArgumentError(f"unfold of axis {axis}, of size {n}: size={size}, step={step}; a "
                                f"window has 0 to {n} elements, and a step is 1 or more")
        if not self.shape:
            line: TensorCore[Tensor] = self._reshaped((1,))
            windows: TensorCore[Tensor] = line._moved(*strided.unfold((1,), 0, size, step))
            return windows._reshaped((size,))
        return self._moved(*strided.unfold(self.shape, axis, size, step))

    def as_strided(self, size: Sequence[int], stride: Sequence[int],
                   storage_offset: int | None = None) -> Tensor:
        """A view of the storage: element (i, j, ..) is at storage_offset + i * stride[0] + ..

        ArgumentError if an element would be outside the storage, or a stride is negative.
        """
        wanted = shapes.new_shape([size], "as_strided")
        steps = shapes.sizes([stride], "as_strided")
        start = self.storage_offset() if storage_offset is None else shapes.as_int(
            storage_offset, "as_strided", "the storage offset")
        return self._restrided(
            lambda storage: strided.as_strided(storage, wanted, steps, start))

    @also_named(size="sizes")
    def resize_(self, *sizes: Any, memory_format: MemoryFormat = contiguous_format) -> Self:
        """Make this tensor one of another shape: of the elements of its storage from its first one
        on, in row-major order; and if there are too few, one of new memory, with 0 behind them.
        ShapeError for a view of which there are too few: others would read the old memory."""
        shape = shapes.new_shape(sizes, "resize_")
        order_of(memory_format, len(shape), "resize_")
        if self.requires_grad:
            raise GradientError("resize_ of a tensor that requires gradients: use reshape(), or "
                                "call it on detach()")
        whole, start = self._storage.value.numel, self.storage_offset()
        line: Any = self.as_strided((whole - start,), (1,), start)
        count = math.prod(shape)
        if start + count > whole:
            if self._moves:
                raise ShapeError(f"resize_ of a view from {self.shape} to {shape}: its storage has "
                                 f"{whole - start} elements from its first one on, and {count} are "
                                 f"needed; use a tensor of its own, such as clone() gives")
            line = line._given(move(Op.PAD, line.node, ((0, start + count - whole),)))
        return self._shown_as(line.as_strided(shape, _row_major(shape)), "resize_")

    def resize_as_(self, the_template: Tensor,
                   memory_format: MemoryFormat = contiguous_format) -> Self:
        """resize_ to another tensor's shape."""
        return self.resize_(self._tensor(the_template, "resize_as_").shape,
                            memory_format=memory_format)

    as_strided_ = shown_as(as_strided)

    def movedim(self, source: Sizes, destination: Sizes) -> Tensor:
        """Axes moved to other places, the others in their order; a view."""
        given = [shapes.sizes([v], "movedim") for v in (source, destination)]
        old, new = [[shapes.axis(a, self.ndim, "movedim") for a in axes] for axes in given]
        if len(old) != len(new) or len(set(old)) != len(old) or len(set(new)) != len(new):
            raise ArgumentError(f"movedim from {source} to {destination}: name as many axes as "
                                f"places, each once")
        if not self.shape:
            return self._moved()
        order = [a for a in range(self.ndim) if a not in old]
        for place, axis in sorted(zip(new, old, strict=True)):
            order.insert(place, axis)
        return self._moved((Op.PERMUTE, tuple(order)))

    moveaxis = movedim

    @also_named(dim0="axis0", dim1="axis1")
    def swapaxes(self, axis0: int, axis1: int) -> Tensor:
        """Two axes exchanged; a view."""
        first, second = [shapes.axis(a, self.ndim, "swapaxes") for a in (axis0, axis1)]
        order = list(range(self.ndim))
        if order:
            order[first], order[second] = second, first
        return self._moved((Op.PERMUTE, tuple(order)))

    swapdims = swapaxes

    swapaxes_ = swapdims_ = shown_as(swapaxes)

    def ravel(self) -> Tensor:
        """All elements in one axis, in row-major order; a view if they lie so in memory."""
        rows: TensorCore[Tensor] = self.contiguous()
        return rows._reshaped((self.numel(),))

    @also_named(sections="indices_or_sections", indices="indices_or_sections",
                tensor_indices_or_sections="indices_or_sections")
    def tensor_split(self, indices_or_sections: Any, dim: int = 0) -> tuple[Tensor, ...]:
        """Parts along an axis, of sizes that differ by at most 1, or cut at the places given (also
        as a tensor, which is computed at once), where slices would cut; views."""
        if hasattr(indices_or_sections, "tolist"):
            indices_or_sections = indices_or_sections.tolist()
        axis = _splittable(self.shape, dim, "tensor_split")
        return tuple(self._moved(*moves)
                     for moves in strided.parts(self.shape, axis, indices_or_sections))

    @also_named(sections="indices_or_sections", indices="indices_or_sections")
    def hsplit(self, indices_or_sections: Sizes) -> tuple[Tensor, ...]:
        """tensor_split into equal parts along axis 1, of a vector along axis 0."""
        return _equal_parts(self, indices_or_sections, min(self.ndim - 1, 1), 1, "hsplit")

    @also_named(sections="indices_or_sections", indices="indices_or_sections")
    def vsplit(self, indices_or_sections: Sizes) -> tuple[Tensor, ...]:
        """tensor_split into equal parts along axis 0 of at least 2."""
        return _equal_parts(self, indices_or_sections, 0, 2, "vsplit")

    @also_named(sections="indices_or_sections", indices="indices_or_sections")
    def dsplit(self, indices_or_sections: Sizes) -> tuple[Tensor, ...]:
        """tensor_split into equal parts along axis 2 of at least 3."""
        return _equal_parts(self, indices_or_sections, 2, 3, "dsplit")


def _row_major(shape: Sequence[int]) -> tuple[int, ...]:
    """The strides of elements in row-major order."""
    return tuple(math.prod(shape[a + 1:]) for a in range(len(shape)))


def _two_axes(dim1: int, dim2: int, rank: int, operation: str) -> tuple[int, int]:
    if rank < 2:
        raise ShapeError(f"{operation} of a tensor of {rank} axes: it needs at least 2")
    first, second = (shapes.axis(a, rank, operation) for a in (dim1, dim2))
    if first == second:
        raise ArgumentError(f"{operation}: both axes are {first}; name two")
    return first, second


def _splittable(shape: tuple[int, ...], dim: int, operation: str) -> int:
    if not shape:
        raise ShapeError(f"{operation} of a zero-dim tensor: it has no axis to cut")
    return shapes.axis(dim, len(shape), operation)


def _equal_parts(x: TensorCore[Tensor], given: Sizes, axis: int, least: int,
                 operation: str) -> tuple[Tensor, ...]:
    if x.ndim < least:
        raise ShapeError(f"{operation} of shape {x.shape}: it needs at least {least} axes")
    if isinstance(given, int) and (given < 1 or x.shape[axis] % given):
        raise ArgumentError(f"{operation} into {given} parts: axis {axis} has size "
                            f"{x.shape[axis]}; give a number that divides it, or use "
                            f"tensor_split()")
    return tuple(x._moved(*moves) for moves in strided.parts(x.shape, axis, given))
