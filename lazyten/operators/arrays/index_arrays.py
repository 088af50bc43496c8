"""Index arrays: reading and writing where integers, known only when they are computed, say.

In: GRAPH nodes of a tensor and of integer positions. Out: a GATHER or SCATTER and the moves around
it. Methods of tensors call this; what else may stand between the brackets is in `indexing.py`.

Every index passes a CHECKED node: realizing looks at its values before anybody sees the result, and
raises IndexingError for one that is outside. The kernels read and write inside in any case.
"""
from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from lazyten.ir import dtype as dt
from lazyten.ir.arguments import IndexBound
from lazyten.ir.movement import Shape, inverse_order
from lazyten.ir.node import (
    Node,
    cast,
    const,
    elementwise,
    expand,
    gather,
    make,
    move,
    reshape,
    scatter,
)
from lazyten.ir.ops import Op
from lazyten.ir.shapes import fits_beside
from lazyten.operators.arrays.indexing import Chain, apply
from lazyten.operators.math import elementwise as ew
from lazyten.operators.math import shapes
from lazyten.support.errors import IndexDTypeError, IndexShapeError, ShapeError


def positions(index: Node, operation: str, axis: int, size: int) -> Node:
    """int64 positions 0 .. size - 1 from an index that may count from the end; checked later."""
    if not index.dtype.is_int:
        raise IndexDTypeError(f"{operation}: the index is {index.dtype.name}; indices are integers "
                              f"or bools; convert with .long()")
    checked = make(Op.CHECKED, index.dtype, (index,), IndexBound(operation, axis, size))
    if index.dtype.kind == "u":
        return checked
    whole = cast(checked, dt.int64)
    return ew.where(ew.less(whole, 0), ew.add(whole, size), whole)


# ---- several index arrays ------------------------------------------------------------------------

@dataclass(frozen=True, slots=True)
class Selection:
    """What index arrays on some axes of an array of `shape` point at.

    axes: theirs. common: the shape that they broadcast to. lines: int64 positions (count,) in the
    indexed axes taken as one. first: which axis of the result is the first of `common`.
    """

    shape: Shape
    axes: tuple[int, ...]
    common: Shape
    lines: Node
    first: int

    @property
    def others(self) -> tuple[int, ...]:
        """The axes without an index array."""
        return tuple(a for a in range(len(self.shape)) if a not in self.axes)

    @property
    def rest(self) -> Shape:
        """The sizes of those."""
        return tuple(self.shape[a] for a in self.others)

    @property
    def result(self) -> Shape:
        """The shape of what is read."""
        return self.rest[:self.first] + self.common + self.rest[self.first:]

    def _order(self) -> tuple[int, ...]:
        """The axes of the result when those of `common` come first."""
        count = len(self.common)
        others = [a if a < self.first else a + count for a in range(len(self.rest))]
        return (*range(self.first, self.first + count), *others)

    def _wide_lines(self) -> Node:
        count = self.lines.numel
        return expand(reshape(self.lines, (count, *(1,) * len(self.rest))), (count, *self.rest))

    def _as_lines(self, x: Node) -> Node:
        """x with the indexed axes first, as one."""
        front = move(Op.PERMUTE, x, (*self.axes, *self.others))
        return reshape(front, (math.prod(self.shape[a] for a in self.axes), *self.rest))

    def read(self, x: Node) -> Node:
        """The elements of x that are pointed at."""
        found = reshape(gather(self._as_lines(x), 0, self._wide_lines()), self.common + self.rest)
        return move(Op.PERMUTE, found, inverse_order(self._order()))

    def write(self, x: Node, values: Node, combiner: Op | None) -> Node:
        """x with `values`, of the result's shape, put or combined where they point."""
        front = move(Op.PERMUTE, values, self._order())
        flat = reshape(front, (self.lines.numel, *self.rest))
        wide = scatter(self._as_lines(x), 0, self._wide_lines(), flat, combiner)
        order = (*self.axes, *self.others)
        placed = reshape(wide, tuple(self.shape[a] for a in order))
        return move(Op.PERMUTE, placed, inverse_order(order))


class Indexed(NamedTuple):
    """An axis with an index array, and what the user knows the axis as. is_inside: whether it has
    int64 positions that are known to be there, as a mask's are."""

    axis: int
    named: int
    array: Node
    is_inside: bool = False


def select(shape: Shape, arrays: Sequence[Indexed], operation: str) -> Selection:
    """The selection of integer arrays in the order of their axes.

    As NumPy and PyTorch place them: the axes of the broadcast arrays stand where the arrays stood
    if those are next to each other, else in front.
    """
    axes = tuple(a.axis for a in arrays)
    common = _common_shape(arrays, operation)
    lines: Node | None = None
    for axis, named, index, is_inside in arrays:
        places = index if is_inside else positions(index, operation, named, shape[axis])
        at = ew.broadcast_to(places, common)
        if len(arrays) > 1:
            at = cast(at, dt.int64)
        lines = at if lines is None else ew.add(ew.mul(lines, shape[axis]), at)
    assert lines is not None
    together = axes == tuple(range(axes[0], axes[0] + len(axes)))
    return Selection(shape, axes, common, reshape(lines, (math.prod(common),)),
                     axes[0] if together else 0)


def _common_shape(arrays: Sequence[Indexed], operation: str) -> Shape:
    """The shape that index arrays broadcast to."""
    try:
        return shapes.broadcast([a.array.shape for a in arrays], operation)
    except ShapeError as error:
        raise IndexShapeError(str(error)) from None


# ---- one index along an axis ---------------------------------------------------------------------

def along(x: Node, axis: int, index: Node) -> Node:
    """take_along_dim: out[i][j] = x[i][index[i][j]] for axis 1, the other axes broadcast."""
    if len(index.shape) != len(x.shape):
        raise ShapeError(f"take_along_dim: index {index.shape} and input {x.shape} need the same "
                         f"number of axes")
    n, m = x.shape[axis], index.shape[axis]
    at = positions(index, "take_along_dim", axis, n)
    line_shapes = [tuple(1 if a == axis else s for a, s in enumerate(t.shape)) for t in (x, index)]
    common = shapes.broadcast(line_shapes, "take_along_dim")
    x = ew.broadcast_to(x, _with(common, axis, n))
    return gather(x, axis, ew.broadcast_to(at, _with(common, axis, m)))


def gathered(x: Node, axis: int, index: Node) -> Node:
    """out[i][j][k] = x[i][index[i][j][k]][k] for axis 1: index has x's rank, and on the other axes
    no more elements than x. A zero-dim tensor, of both, is taken as one of 1 element, and an index
    without elements may have any shape."""
    if not index.numel and len(index.shape) != len(x.shape):
        return _nothing_at(index, x.dtype, "gather")
    if not x.shape or not index.shape:
        return reshape(gathered(_line(x), axis, _line(index)), index.shape)
    at = _own_positions(x, axis, index, "gather")
    chain = Chain(x.shape)
    for a, m in enumerate(index.shape):
        if a != axis:
            chain.shrink(a, 0, m)
    return gather(apply(chain.moves, x), axis, at)


def scattered(base: Node, axis: int, index: Node, values: Node, combiner: Op | None,
              operation: str) -> Node:
    """base with base[i][index[i][j][k]][k] set to, or combined with, values[i][j][k] for axis 1.

    index has base's rank, and on each axis no more elements than `values`, on the others than
    `axis` no more than `base`. A zero-dim tensor is taken as one of 1 element, and an index without
    elements may have any shape.
    """
    if not index.numel and len(index.shape) != len(base.shape):
        _nothing_at(index, base.dtype, operation)
        return base
    if not (base.shape and index.shape and values.shape):
        return reshape(scattered(_line(base), axis, _line(index), _line(values), combiner,
                                 operation), base.shape)
    at = _own_positions(base, axis, index, operation)
    if len(values.shape) != len(index.shape) or any(
            m > n for m, n in zip(index.shape, values.shape, strict=True)):
        raise ShapeError(f"{operation}: index {index.shape} needs values of at least its shape, "
                         f"not {values.shape}")
    chain = Chain(values.shape)
    for a, m in enumerate(index.shape):
        chain.shrink(a, 0, m)
    around = tuple((0, 0 if a == axis else n - m)
                   for a, (m, n) in enumerate(zip(index.shape, base.shape, strict=True)))
    if any(after for _, after in around):  # lines of base that the index leaves out
        inside = move(Op.PAD, const(True, dt.bool_, at.shape), around)
        at = ew.where(inside, move(Op.PAD, cast(at, dt.int64), around), -1)
    values = move(Op.PAD, apply(chain.moves, values), around)
    return scatter(base, axis, at, values, combiner)


def added_lines(base: Node, axis: int, index: Node, source: Node, combiner: Op | None,
                operation: str) -> Node:
    """base with line index[j] of `axis` set to, or combined with, line j of `source`. A zero-dim
    tensor is taken as one of 1 element."""
    if not base.shape:
        return reshape(added_lines(_line(base), axis, _line(index), _line(source), combiner,
                                   operation), ())
    if len(index.shape) != 1:
        raise ShapeError(f"{operation}: the index has shape {index.shape}; it must have one axis")
    if not fits_beside(source.shape, base.shape, axis) or source.shape[axis] != index.shape[0]:
        raise ShapeError(f"{operation}: the source has shape {source.shape}; for {index.shape[0]} "
                         f"indices on axis {axis} of {base.shape} it must be "
                         f"{_with(base.shape, axis, index.shape[0])}")
    at = positions(index, operation, axis, base.shape[axis])
    column = reshape(at, _with((1,) * len(base.shape), axis, index.shape[0]))
    return scatter(base, axis, expand(column, source.shape), source, combiner)


def lowest(base: Node, axis: int, index: Node, values: Node, operation: str) -> Node:
    """`scattered` with the least: the greatest of the opposites."""
    turn = Op.NEG if base.dtype.is_float else Op.NOT
    opposite, turned = elementwise(turn, base), elementwise(turn, values)
    return elementwise(turn, scattered(opposite, axis, index, turned, Op.MAX, operation))


def _nothing_at(index: Node, dtype: dt.DType, operation: str) -> Node:
    """What an index without elements finds. DTypeError unless it is one of integers."""
    positions(index, operation, 0, 0)
    return const(0, dtype, index.shape)


def _line(x: Node) -> Node:
    return x if x.shape else reshape(x, (1,))


def _own_positions(x: Node, axis: int, index: Node, operation: str) -> Node:
    if len(index.shape) != len(x.shape):
        raise ShapeError(f"{operation}: index {index.shape} and input {x.shape} need the same "
                         f"number of axes")
    for a, (m, n) in enumerate(zip(index.shape, x.shape, strict=True)):
        if a != axis and m > n:
            raise ShapeError(f"{operation}: index {index.shape} is larger than the input {x.shape} "
                             f"on axis {a}; it may only be larger on axis {axis}")
    return positions(index, operation, axis, x.shape[axis])


def _with(shape: Shape, axis: int, size: int) -> Shape:
    return (*shape[:axis], size, *shape[axis + 1:])
