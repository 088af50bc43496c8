"""Methods that repeat, shift, cut and fill, and reductions to several values."""
from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from typing import Any, Self, TypeVar

import numpy as np

from lazyten.frontend.core.functions import combined
from lazyten.frontend.core.in_place import in_place
from lazyten.frontend.core.tensor_core import TensorCore
from lazyten.frontend.methods.views import ViewMethods
from lazyten.ir import dtype as dt
from lazyten.ir.dtype import Scalar
from lazyten.ir.node import Node, cast, iota, move, reshape
from lazyten.ir.ops import Op
from lazyten.operators.arrays import arrangements, index_arrays, joining, products, strided
from lazyten.operators.math import composites, reductions, scans, shapes
from lazyten.operators.math import elementwise as ew
from lazyten.support.errors import ArgumentError, DTypeError, IndexingError, ShapeError

Tensor = TypeVar("Tensor", bound="ArrangementMethods[Any]")


class ArrangementMethods(ViewMethods[Tensor]):
    """Repeating, shifting, cutting and filling."""

    __slots__ = ()

    def tile(self, *dims: Any) -> Tensor:
        """The tensor side by side, `dims` times along the last axes."""
        times = shapes.new_shape(dims, "tile")
        return self._unary(lambda x: arrangements.tile(x, times, "tile"))

    def repeat_interleave(self, repeats: Any = None, dim: int | None = None, *,
                          output_size: int | None = None) -> Tensor:
        """Each element (of an axis, or of all) repeated; by a number, or by one each, which is
        computed at once. output_size, the sum of the latter, is not needed. Without repeats these
        are the elements of x, a vector, and what is repeated are the positions 0, 1, .."""
        if repeats is None:
            positions = self._fresh(iota(self.numel()))
            found: Tensor = positions.repeat_interleave(self, 0, output_size=output_size)
            return found
        x = self._reshaped((self.numel(),)) if dim is None else self
        axis = 0 if dim is None else shapes.axis(dim, self.ndim, "repeat_interleave")
        if not x.shape:
            raise IndexingError("repeat_interleave along an axis of a number, which has none; "
                                "leave dim away")
        if not hasattr(repeats, "shape") or repeats.shape == ():
            times = shapes.as_int(repeats, "repeat_interleave", "repeats")
            if times < 0:
                raise ArgumentError(f"repeat_interleave: {times} times; give 0 or more")
            return x._unary(lambda node: arrangements.repeated(node, axis, times))
        counts = np.asarray(repeats.numpy())
        if counts.ndim != 1 or counts.dtype.kind not in "iu" or counts.size not in (
                1, x.shape[axis]) or (counts < 0).any():
            raise ArgumentError(f"repeat_interleave: repeats of shape {counts.shape} for axis "
                                f"{axis} of size {x.shape[axis]}; give a whole number of at least "
                                f"0 for each position")
        index = self._fresh(np.repeat(np.arange(x.shape[axis]), counts).astype(np.int64))
        chosen = index_arrays.select(x.shape, [index_arrays.Indexed(axis, axis, index.node)],
                                     "repeat_interleave")
        return x._given(chosen.read(x.node))

    def roll(self, shifts: int | Sequence[int], dims: int | Sequence[int] | None = None) -> Tensor:
        """The elements moved along axes; what leaves at one end comes in at the other. Without
        dims, along all elements in one axis."""
        return self._unary(lambda x: arrangements.roll(x, shifts, dims))

    def diff(self, n: int = 1, dim: int = -1, prepend: Tensor | None = None,
             append: Tensor | None = None) -> Tensor:
        """Differences of neighbours along an axis, n times, of `prepend`, this tensor and `append`
        one after the other."""
        axis = shapes.axis(dim, self.ndim, "diff")
        if shapes.as_int(n, "diff", "n") == 0:  # what would stand before and after does not count
            prepend = append = None
        if prepend is not None or append is not None:
            parts: list[Any] = [p for p in (prepend, self, append) if p is not None]
            kind = reduce(dt.promote, [p.dtype for p in parts])
            joined = combined(parts[0], "diff", lambda *nodes: joining.cat(
                [cast(x, kind) for x in nodes], axis), *parts[1:])
            differences: Tensor = joined.diff(n, dim)
            return differences
        times = shapes.as_int(n, "diff", "n")
        if not self.shape or times < 0:
            raise ShapeError(f"diff of shape {self.shape}, {times} times: it needs an axis and 0 "
                             f"times or more")
        return self._unary(lambda x: arrangements.differences(x, axis, times))

    def fliplr(self) -> Tensor:
        """Axis 1 in reverse order."""
        if self.ndim < 2:
            raise ShapeError(f"fliplr of shape {self.shape}: it needs at least 2 axes; use flip()")
        return self._unary(lambda x: arrangements.flip(x, (1,)))

    def flipud(self) -> Tensor:
        """Axis 0 in reverse order."""
        if not self.shape:
            raise ShapeError("flipud of a zero-dim tensor: it needs at least 1 axis")
        return self._unary(lambda x: arrangements.flip(x, (0,)))

    def rot90(self, k: int = 1, dims: Sequence[int] = (0, 1)) -> Tensor:
        """The plane of two axes turned by k quarters, from the first towards the second."""
        turns = shapes.as_int(k, "rot90", "the number of quarters") % 4
        return self._unary(lambda x: arrangements.turned(x, turns, dims))

    def tril(self, diagonal: int = 0) -> Tensor:
        """0 above a diagonal of the last two axes."""
        return self._unary(lambda x: arrangements.triangle(x, diagonal, lower=True))

    tril_ = in_place(tril)

    def triu(self, diagonal: int = 0) -> Tensor:
        """0 below a diagonal of the last two axes."""
        return self._unary(lambda x: arrangements.triangle(x, diagonal, lower=False))

    triu_ = in_place(triu)

    def argwhere(self) -> Tensor:
        """The indices of the elements that are not 0, a row each. Computed at once."""
        return self._fresh(np.argwhere(self.detach().numpy()).astype(np.int64))

    def diagflat(self, offset: int = 0) -> Tensor:
        """A matrix with all elements on a diagonal."""
        number = shapes.as_int(offset, "diagflat", "the offset")
        return self._unary(lambda x: products.diagonal_matrix(reshape(x, (x.numel,)), number))

    def diagonal_scatter(self, src: Tensor, offset: int = 0, dim1: int = 0,
                         dim2: int = 1) -> Tensor:
        """These elements, with those of a diagonal of two axes taken from `src`."""
        result = self._given(self.node)
        line = result.diagonal(offset, dim1, dim2)
        given = self._tensor(src, "diagonal_scatter")
        if given.shape != line.shape:
            raise ShapeError(f"diagonal_scatter: src of shape {given.shape}; it must be "
                             f"{line.shape}")
        line.copy_(given)
        return result

    def select_scatter(self, src: Tensor, dim: int, index: int) -> Tensor:
        """These elements, with position `index` of an axis taken from `src`."""
        axis = shapes.axis(dim, self.ndim, "select_scatter")
        place = shapes.as_int(index, "select_scatter", "the index")
        n = self.shape[axis] if self.shape else 0
        if not -n <= place < n:
            raise IndexingError(f"select_scatter: index {place} is outside axis {axis} of size {n}")
        given = self._tensor(src, "select_scatter")
        lines = tuple(s for a, s in enumerate(self.shape) if a != axis)
        if given.shape != lines:
            raise ShapeError(f"select_scatter: src of shape {given.shape}; it must be {lines}")
        wide: Tensor = given._reshaped(
            tuple(1 if a == axis else s for a, s in enumerate(self.shape)))
        return _replaced(self, wide, axis, range(place % n, place % n + 1))

    def slice_scatter(self, src: Tensor, dim: int = 0, start: int | None = None,
                      end: int | None = None, step: int = 1) -> Tensor:
        """These elements, with start:end:step of an axis taken from `src`."""
        axis = shapes.axis(dim, self.ndim, "slice_scatter")
        if shapes.as_int(step, "slice_scatter", "the step") < 1 or not self.shape:
            raise ArgumentError(f"slice_scatter of shape {self.shape}: step={step}; it needs an "
                                f"axis, and a step of 1 or more")
        first, last = (None if v is None else shapes.as_int(v, "slice_scatter", "start and end")
                       for v in (start, end))
        places = range(self.shape[axis])[first:last:step]
        given = self._tensor(src, "slice_scatter")
        lines = tuple(len(places) if a == axis else s for a, s in enumerate(self.shape))
        if given.shape != lines:
            raise ShapeError(f"slice_scatter: src of shape {given.shape}; it must be {lines}")
        return _replaced(self, given, axis, places)

    def masked_scatter(self, mask: Tensor, source: Tensor) -> Tensor:
        """The elements of `source`, in order, where the bool mask holds, else these."""
        chosen, given = self._tensor(mask, "masked_scatter"), self._tensor(source, "masked_scatter")
        if chosen.dtype is not dt.bool_ or given.dtype is not self.dtype:
            raise DTypeError(f"masked_scatter of {given.dtype.name} by a mask of "
                             f"{chosen.dtype.name} into {self.dtype.name}: the mask must be bool, "
                             f"and the others of one type")

        def placed(x: Node, where: Node, values: Node) -> Node:
            wide = ew.broadcast_to(where, shapes.broadcast([x.shape, where.shape],
                                                           "masked_scatter"))
            flat = reshape(wide, (wide.numel,))
            there = reshape(values, (values.numel,))
            if not values.numel:  # something at 0, so 1 is outside where the mask does hold
                there = move(Op.PAD, there, ((1, 0),))
            place = ew.sub(scans.cumulative_sum(flat, 0), min(values.numel, 1))
            place = ew.where(flat, place, 0)
            taken = index_arrays.along(there, 0, place)
            return ew.where(wide, reshape(taken, wide.shape), x)

        return combined(self, "masked_scatter", placed, chosen, given)

    masked_scatter_ = in_place(masked_scatter)

    def fill_diagonal_(self, fill_value: Scalar, wrap: bool = False) -> Self:
        """Set the elements whose positions on all axes are equal, in place. wrap: of a matrix with
        more rows than columns, the diagonal begins again after a row between."""
        if self.ndim < 2 or self.ndim > 2 and len(set(self.shape)) > 1:
            raise ShapeError(f"fill_diagonal_ of shape {self.shape}: it is for 2 axes, or more of "
                             f"one size; fill diagonal() of the axes you mean")
        number = shapes.as_element(fill_value, self.dtype, "fill_diagonal_")
        period = self.shape[1] + 1
        for first in range(0, self.shape[0] if wrap and self.ndim == 2 else 1, period):
            line = self._moved((Op.SHRINK, ((first, self.shape[0]), *((0, n)
                                                                     for n in self.shape[1:]))))
            while line.ndim > 1:
                line = line._moved(*strided.diagonal(line.shape, 0, 0, line.ndim - 1))
            line._update("fill_diagonal_", ew.as_node(number, self.dtype, line.shape),
                         replaces=True)
        return self

    def equal(self, other: Tensor) -> bool:
        """Whether shapes and all elements are equal. Computes both."""
        right = self._tensor(other, "equal")
        if self.shape != right.shape:
            return False
        same = combined(self, "equal", ew.equal, right)
        axes = tuple(range(same.ndim))
        return bool(same._unary(lambda x: reductions.all(x, axes)).item())

    def allclose(self, other: Tensor, rtol: float = 1e-5, atol: float = 1e-8,
                 equal_nan: bool = False) -> bool:
        """Whether isclose holds everywhere. Computes both."""
        close = combined(self, "allclose", lambda a, b: composites.isclose(
            a, b, rtol, atol, equal_nan), self._tensor(other, "allclose"))
        axes = tuple(range(close.ndim))
        return bool(close._unary(lambda x: reductions.all(x, axes)).item())


def _replaced(x: TensorCore[Tensor], lines: Tensor, axis: int, places: range) -> Tensor:
    """x with the elements at some positions of an axis taken from `lines`."""
    index = x._fresh(np.array(places, np.int64))

    def put(base: Node, source: Node, at: Node) -> Node:
        return index_arrays.added_lines(base, axis, at, cast(source, base.dtype), None, "scatter")
    return combined(x, "scatter", put, lines, index)
