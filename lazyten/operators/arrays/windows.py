"""Sliding windows over any number of axes; matrix products. See also convolutions.py, pooling.py.

A window axis is a plain stride: EXPAND a new axis of taps, then SHEAR the input along it (see
movement.py), so gradients are sums over shifted arrays and nothing is ever copied.
"""
from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from lazyten.ir import dtype as dt
from lazyten.ir.node import Node, cast, expand, move, reduce, reshape
from lazyten.ir.ops import Op
from lazyten.operators.arrays.indexing import Chain, apply
from lazyten.operators.math import elementwise as ew
from lazyten.operators.math import shapes
from lazyten.operators.math.elementwise import broadcast_to
from lazyten.support.errors import DTypeError, ShapeError


@dataclass(frozen=True, slots=True)
class Geometry:
    """One number a spatial axis: how windows are laid out."""

    kernel: tuple[int, ...]
    stride: tuple[int, ...]
    padding: tuple[int, ...]
    dilation: tuple[int, ...]

    def check(self, size: Sequence[int], operation: str) -> None:
        """ShapeError if a window is larger than the padded input."""
        for a, n in enumerate(size):
            reach = self.dilation[a] * (self.kernel[a] - 1) + 1
            if reach > n + 2 * self.padding[a]:
                raise ShapeError(
                    f"{operation}: a kernel of {self.kernel[a]} with dilation {self.dilation[a]} "
                    f"covers {reach} elements, but spatial axis {a} has {n} and padding "
                    f"{self.padding[a]} on each side; use a smaller kernel or more padding")


def windows(x: Node, axis: int, kernel: int, stride: int, dilation: int) -> Node:
    """Windows along `axis`, which becomes two axes: windows, and taps within one.

    Element w * stride + d * dilation is tap d of window w, or tap w of window d. What becomes a
    sum in a gradient is the expanded axis, and so that is the shorter one.
    """
    n = x.shape[axis]
    before, after = x.shape[:axis], x.shape[axis + 1:]
    count = (n - dilation * (kernel - 1) - 1) // stride + 1
    if count < kernel:
        cut = (count - 1) * stride + (kernel - 1) * dilation + 1
        x = move(Op.SHRINK, x, tuple((0, cut if i == axis else m) for i, m in enumerate(x.shape)))
        order = list(range(len(x.shape) + 1))
        order[axis:axis + 2] = axis + 1, axis
        return move(Op.PERMUTE, windows(x, axis, count, dilation, stride), tuple(order))
    x = expand(reshape(x, (*before, n, 1, *after)), (*before, n, kernel, *after))
    x = move(Op.SHEAR, x, (axis, axis + 1, dilation, 0, (count - 1) * stride + 1))
    chain = Chain(x.shape)
    chain.every(axis, stride)
    return apply(chain.moves, x)


@dataclass(frozen=True, slots=True)
class _Axis:
    """Windows along an axis of `size` elements as windows of whole tiles.

    A tile is as long as the stride (1 where windows are dilated), and windows begin where tiles do.
    So a gradient with respect to the elements is a sum over tiles: an element gets only products
    that it has a part in, where a sum over elements would add a zero for each that the stride
    passes by. So that the elements themselves begin with a tile, windows have `lead` more taps in
    front, which are cut off again; but not if they would reach over one more tile for it.
    """

    size: int
    kernel: int
    stride: int
    padding: int
    dilation: int

    @property
    def tile(self) -> int:
        return self.stride if self.dilation == 1 else 1

    @property
    def lead(self) -> int:
        lead = -self.padding % self.tile
        return lead if lead <= -self.kernel % self.tile else 0

    @property
    def reach(self) -> int:
        """Tiles in a window."""
        return -(-(self.lead + self.kernel) // self.tile)

    @property
    def tiles(self) -> int:
        """Tiles in the padded axis."""
        if self.tile == 1:
            return self.size + 2 * self.padding
        return (self.size + 2 * self.padding - self.kernel) // self.stride + self.reach

    @property
    def around(self) -> tuple[int, int]:
        """How many elements to pad the axis with so that it has all tiles."""
        before = self.lead + self.padding
        return before, max(self.tiles * self.tile - self.size - before, 0)


def all_windows(x: Node, geometry: Geometry, value: float = 0.0) -> Node:
    """(..., *spatial), padded with `value`, to (..., *(windows, taps) for each spatial axis)."""
    first = len(x.shape) - len(geometry.kernel)
    axes = [_Axis(*a) for a in zip(x.shape[first:], geometry.kernel, geometry.stride,
                                   geometry.padding, geometry.dilation, strict=True)]
    rest = x.shape[:first]
    none, whole = [(0, 0)] * first, [(0, n) for n in rest]
    x = ew.padded(x, (*none, *(a.around for a in axes)), value)
    x = move(Op.SHRINK, x, (*whole, *((0, a.tiles * a.tile) for a in axes)))
    x = reshape(x, (*rest, *(n for a in axes for n in (a.tiles, a.tile))))
    for i, a in reversed(list(enumerate(axes))):
        x = windows(x, first + 2 * i, a.reach, a.stride // a.tile, a.dilation)
    counts = x.shape[first::3]
    x = reshape(x, (*rest, *(n for count, a in zip(counts, axes, strict=True)
                             for n in (count, a.reach * a.tile))))
    return move(Op.SHRINK, x, (*whole, *(cut for count, a in zip(counts, axes, strict=True)
                                         for cut in ((0, count), (a.lead, a.lead + a.kernel)))))


# ---- matrix products -----------------------------------------------------------------------------

def matmul(a: Node, b: Node) -> Node:
    """The matrix product of the last two axes, the others broadcast; vectors as in NumPy.

    (.., m, k) @ (.., k, n) -> (.., m, n). 16-bit floats are multiplied and summed in float32, and
    rounded once. Raises ShapeError if k differs, or for a zero-dim
    operand; DTypeError for different types.
    """
    if not a.shape or not b.shape:
        raise ShapeError(f"matmul of shapes {a.shape} and {b.shape}: a zero-dim tensor has no rows "
                         f"or columns; multiply with * instead")
    if a.dtype is not b.dtype:
        raise DTypeError(f"matmul of {a.dtype.name} and {b.dtype.name}: both must be of one type; "
                         f"convert one with .to(...)")
    if a.dtype is dt.bool_:
        raise DTypeError("matmul of bool: there is no product of bools; convert with .float() or "
                         ".int()")
    left = reshape(a, (1, *a.shape)) if len(a.shape) == 1 else a
    right = reshape(b, (*b.shape, 1)) if len(b.shape) == 1 else b
    if left.shape[-1] != right.shape[-2]:
        inner = len(b.shape) - 2 if len(b.shape) > 1 else 0
        raise ShapeError(f"matmul of shapes {a.shape} and {b.shape}: axis {len(a.shape) - 1} of "
                         f"the first has size {a.shape[-1]} and axis {inner} of the second "
                         f"{b.shape[inner]}; they must be equal (transpose one?)")
    try:
        batch = shapes.broadcast([left.shape[:-2], right.shape[:-2]], "matmul")
    except ShapeError as error:
        raise ShapeError(f"matmul of shapes {a.shape} and {b.shape}: the batch axes do not "
                         f"broadcast: {error}") from None
    m, k, n = left.shape[-2], left.shape[-1], right.shape[-1]
    rows = broadcast_to(reshape(ew.wide(left), (*left.shape[:-1], 1, k)), (*batch, m, n, k))
    columns = transposed(ew.wide(right))
    columns = reshape(columns, (*columns.shape[:-2], 1, n, k))
    product = ew.mul(rows, broadcast_to(columns, (*batch, m, n, k)))
    total = reduce(product, Op.ADD, (len(batch) + 2,))
    shape = batch + (m,) * (len(a.shape) > 1) + (n,) * (len(b.shape) > 1)
    return cast(reshape(total, shape), a.dtype)


def transposed(x: Node) -> Node:
    """The last two axes exchanged."""
    rank = len(x.shape)
    return move(Op.PERMUTE, x, (*range(rank - 2), rank - 1, rank - 2))
