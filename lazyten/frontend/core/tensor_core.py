"""The core of Tensor as a whole, with what moves elements: reshape, permute, expand and so on."""
from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from lazyten.execution.lineage import Lineage
from lazyten.frontend.core.gradients import Gradients, become_apart
from lazyten.frontend.core.handle import DTypeLike, shape_after
from lazyten.frontend.core.in_place import shown_as
from lazyten.frontend.core.keywords import (
    MemoryFormat,
    also_named,
    contiguous_format,
    order_of,
    preserve_format,
)
from lazyten.frontend.core.overriding import overridable
from lazyten.frontend.core.values import shown_as_type
from lazyten.ir.dtype import DType, Scalar, as_dtype, as_floating
from lazyten.ir.movement import Moves, chained, inverse_order, out_shape
from lazyten.ir.node import Shape, make, move
from lazyten.ir.ops import Op
from lazyten.operators.arrays import indexing
from lazyten.operators.arrays.arrangements import tile
from lazyten.operators.math import elementwise as ew
from lazyten.operators.math import shapes
from lazyten.storage import levels, tracing
from lazyten.storage.frames import refuse_values
from lazyten.storage.stand_ins import layout_of
from lazyten.support.errors import ArgumentError, IndexingError, ShapeError
from lazyten.support.grad_mode import is_grad_enabled

Tensor = TypeVar("Tensor", bound="TensorCore[Any]")
"""What operations give, for groups that need no more of it than the core."""


class TensorCore(Gradients[Tensor]):
    """What the groups of methods are made of: a tensor that can be computed, written to,
    differentiated and moved."""

    __slots__ = ()

    def _moved(self, *moves: tuple[Op, Any]) -> Tensor:
        """A view through more moves. Those of one that gradients flow through end with one that
        changes nothing, as nothing within an operation does: users may ask for its gradient, and
        for that of a view that it is of."""
        lineage = self._lineage
        if lineage is None and self._storage.requires_grad and not is_grad_enabled():
            lineage = Lineage(follows=levels.tangents_pass())
        shape, all_moves = self._storage.shape, self._moves
        joins = lineage is not None or not self._storage.requires_grad
        for op, arg in moves:
            all_moves = chained(all_moves, shape, op, arg, joins)
        if not joins:
            all_moves = (*all_moves, (Op.RESHAPE, shape_after(shape, all_moves)))
        view: Tensor = self._view(self._storage, all_moves, lineage)
        if not joins:
            become_apart(view, self)
        value = self._value
        if value is not None and value.template is None:  # it begins at another place each time
            view._value = value.of_view()
        return view

    def _restrided(self, moves_of: Callable[[Shape], Moves]) -> Tensor:
        """Another view of the storage, which an operation that is looked up need not know whole.
        moves_of: the moves from a storage of a shape."""
        refuse_values()
        tracing.placed(self._storage)
        layout = layout_of(self._storage)
        memory = self._storage if layout is None else layout.storage(self._storage)
        whole: TensorCore[Tensor] = self._view(memory, (), self._lineage)
        return whole._moved(*moves_of(memory.shape))

    def _as(self, dtype: DTypeLike | None) -> TensorCore[Tensor]:
        """The elements in a type, or as they are if that is None."""
        return self if dtype is None else self._cast(as_dtype(dtype))

    def _as_floats(self, dtype: DTypeLike | None, operation: str) -> TensorCore[Tensor]:
        """The same, of an operation that gives floats. DTypeError for a type of whole numbers."""
        return self if dtype is None else self._cast(as_floating(dtype, operation))

    def reshape(self, *shape: Any) -> Tensor:
        """The same elements in row-major order in another shape; one size may be -1. A view where
        strides allow it, otherwise a new tensor."""
        new = shapes.reshaped(self.shape, shape)
        return self._reshaped(new)

    def _reshaped(self, new: Shape) -> Tensor:
        if new == self.shape:
            return self._moved()
        if self._shows_as(new):
            return self._moved((Op.RESHAPE, new))
        return self._result(move(Op.RESHAPE, self.node, new), self)

    def _shows_as(self, new: Shape) -> bool:
        """Whether a view can have this shape."""
        layout = self._layout if self._moves or levels.under_way() else None
        return layout is None or layout.moved(Op.RESHAPE, new).single is not None

    @also_named(size="shape", dtype="shape")
    def view(self, *shape: Any) -> Tensor:
        """reshape() that is a view or a ShapeError. Of a type: the same memory in it, the last axis
        longer or shorter if the widths differ; DTypeError if a device's memory is not the host's.
        """
        if len(shape) == 1 and isinstance(shape[0], DType):
            return self._moved() if shape[0] is self.dtype else shown_as_type(self, shape[0])
        new = shapes.reshaped(self.shape, shape, "view")
        if not self._shows_as(new):
            raise ShapeError(f"view {self.shape} -> {new}: the elements' strides do not allow it "
                             f"without a copy; use reshape()")
        return self._moved((Op.RESHAPE, new))

    def view_as(self, other: Tensor) -> Tensor:
        """view() in another tensor's shape."""
        return self.view(self._tensor(other, "view_as").shape)

    def reshape_as(self, other: Tensor) -> Tensor:
        """reshape() in another tensor's shape."""
        return self.reshape(self._tensor(other, "reshape_as").shape)

    def flatten(self, start_dim: int = 0, end_dim: int = -1) -> Tensor:
        """Axes start_dim to end_dim made one."""
        rank = self.ndim
        if rank == 0:
            return self.reshape(1)
        first = shapes.axis(start_dim, rank, "flatten")
        last = shapes.axis(end_dim, rank, "flatten")
        if first > last:
            raise ArgumentError(f"flatten of shape {self.shape}: start_dim {start_dim} comes after "
                                f"end_dim {end_dim}")
        if first == last:
            return self._same()
        size = 1
        for n in self.shape[first:last + 1]:
            size *= n
        return self._reshaped((*self.shape[:first], size, *self.shape[last + 1:]))

    def unflatten(self, dim: int, sizes: Sequence[int]) -> Tensor:
        """One axis split in several; one size may be -1."""
        axis, n = shapes.sized_axis(dim, self.shape, "unflatten")
        inner = shapes.reshaped((n,), [sizes], "unflatten")
        return self._reshaped((*self.shape[:axis], *inner, *self.shape[axis + 1:]))

    def squeeze(self, dim: int | Sequence[int] | None = None) -> Tensor:
        """Without the axes of size 1, or without those named if they are of size 1."""
        named = dim is None or not isinstance(dim, list | tuple) or dim
        axes = shapes.axes(dim, self.ndim, "squeeze") if named else ()
        gone = {a for a in axes if a < self.ndim and self.shape[a] == 1}
        return self._reshaped(tuple(n for a, n in enumerate(self.shape) if a not in gone))

    squeeze_ = shown_as(squeeze)

    def unsqueeze(self, dim: int) -> Tensor:
        """With a new axis of size 1 before axis `dim`."""
        axis = shapes.axis(dim, self.ndim + 1, "unsqueeze")
        return self._reshaped((*self.shape[:axis], 1, *self.shape[axis:]))

    unsqueeze_ = shown_as(unsqueeze)

    def permute(self, *dims: Any) -> Tensor:
        """The axes in another order: axis i of the result is axis dims[i]; a view. IndexingError
        unless each is named once."""
        given = shapes.sizes(dims, "permute")
        axes = tuple(shapes.axis(a, self.ndim, "permute") for a in given)
        if len(axes) != self.ndim or len(set(axes)) != len(axes):
            raise IndexingError(f"permute {given} of shape {self.shape}: name each of the "
                                f"{self.ndim} axes once")
        return self._moved((Op.PERMUTE, axes))

    def transpose(self, dim0: int, dim1: int) -> Tensor:
        """Two axes exchanged; a view."""
        a = shapes.axis(dim0, self.ndim, "transpose")
        b = shapes.axis(dim1, self.ndim, "transpose")
        if not self.shape:
            return self._moved()
        order = list(range(self.ndim))
        order[a], order[b] = order[b], order[a]
        return self._moved((Op.PERMUTE, tuple(order)))

    transpose_ = shown_as(transpose)

    def t(self) -> Tensor:
        """A matrix transposed; vectors and zero-dim tensors as they are."""
        if self.ndim > 2:
            raise ShapeError(f"t of shape {self.shape}: it is for at most 2 axes; use transpose()")
        return self.transpose(0, -1)

    t_ = shown_as(t)

    @property
    @overridable
    def T(self) -> Tensor:
        """All axes in reverse order; a view."""
        return self._moved((Op.PERMUTE, tuple(reversed(range(self.ndim)))))

    @property
    @overridable
    def mT(self) -> Tensor:
        """The last two axes exchanged; a view. A zero-dim tensor is itself."""
        if not self.shape:
            return self._same()
        if self.ndim < 2:
            raise ShapeError(f"mT of shape {self.shape}: a matrix has at least 2 axes")
        return self.transpose(-2, -1)

    @also_named(shape="size")
    def expand(self, *size: Any) -> Tensor:
        """Axes of size 1 repeated to these sizes (-1: as it is), and new ones in front; a view,
        nothing is copied. ShapeError for an axis of another size."""
        new = shapes.expanded(self.shape, size)
        return self._moved((Op.RESHAPE, (1,) * (len(new) - self.ndim) + self.shape),
                           (Op.EXPAND, new))

    broadcast_to = expand

    def expand_as(self, other: Tensor) -> Tensor:
        """expand() to another tensor's shape."""
        return self.expand(self._tensor(other, "expand_as").shape)

    def repeat(self, *repeats: Any) -> Tensor:
        """The tensor copied side by side, `repeats` times along each axis."""
        times = shapes.new_shape(repeats, "repeat")
        if len(times) < self.ndim:
            raise ShapeError(f"repeat {times} of shape {self.shape}: give a number for each of the "
                             f"{self.ndim} axes")
        return self._unary(lambda x: tile(x, times, "repeat"))

    def flip(self, *dims: Any) -> Tensor:
        """The elements of some axes in reverse order; x[::-1] is a view of them."""
        given = shapes.sizes(dims, "flip")
        axes = shapes.axes(given, self.ndim, "flip") if given else ()
        return self._result(move(Op.FLIP, self.node, axes), self)

    def pad(self, padding: Sequence[int], value: Scalar = 0) -> Tensor:
        """`value` around the last axes: (before, after) of the last axis, then of the one before,
        and so on, as torch.nn.functional.pad; negative numbers cut."""
        given = shapes.sizes([padding], "pad")
        value = shapes.as_element(value, self.dtype, "pad", wraps=False) if max(
            given, default=0) > 0 else shapes.as_number(value, "pad", "the value")
        if len(given) % 2 or len(given) > 2 * self.ndim:
            raise ShapeError(f"pad {given} of shape {self.shape}: give (before, after) for the "
                             f"last axis, then for the one before, at most {self.ndim} pairs")
        pairs = [(0, 0)] * (self.ndim - len(given) // 2) + [
            (given[i], given[i + 1]) for i in range(len(given) - 2, -1, -2)]
        chain = indexing.Chain(self.shape)
        for axis, (before, after) in enumerate(pairs):
            n = self.shape[axis]
            if n + min(before, 0) + min(after, 0) < 0:
                raise ShapeError(f"pad {given} of shape {self.shape}: axis {axis} has size {n}, "
                                 f"and {-min(before, 0) - min(after, 0)} elements cannot be cut")
            chain.shrink(axis, max(-before, 0), n - max(-after, 0))
        around = tuple((max(b, 0), max(a, 0)) for b, a in pairs)
        shapes.countable(out_shape(Op.PAD, chain.shape, around), "pad")
        inner = indexing.apply(chain.moves, self.node)
        return self._result(ew.padded(inner, around, value), self)

    def is_contiguous(self, memory_format: MemoryFormat = contiguous_format) -> bool:
        """Whether the elements are in memory in row-major order, or another, without gaps."""
        order = order_of(memory_format, self.ndim, "is_contiguous")
        if order is None:
            return self._layout.is_contiguous
        return self.permute(order)._layout.is_contiguous

    def contiguous(self, memory_format: MemoryFormat = contiguous_format) -> Tensor:
        """Itself if its elements are in row-major order, or another, else a copy that is."""
        if self.is_contiguous(memory_format):
            return self._same()
        if memory_format.order is not None:
            return self.clone(memory_format)
        return self._result(make(Op.CONTIGUOUS, self.dtype, (self.node,)), self)

    def clone(self, memory_format: MemoryFormat = preserve_format) -> Tensor:
        """A tensor of its own with the same value, in row-major order or another."""
        order = order_of(memory_format, self.ndim, "clone")
        if order is None:
            return self._result(self.node, self)
        stored: TensorCore[Tensor] = self._result(self.permute(order).node, self)
        return stored.permute(inverse_order(order))
