"""Arithmetic on GRAPH nodes for derivative rules: equal shapes and dtypes, constants folded.

What is folded here never has to be scheduled: factors join into one, and a sum of zeros vanishes.
Folding may round once where the plain ops would round twice; derivatives promise no exact bits.
"""
from __future__ import annotations

import math

from lazyten.movement import Shape
from lazyten.node import Node, const, elementwise, move, reduce, reshape
from lazyten.ops import Op


def is_zero(x: Node) -> bool:
    """Whether x is a constant array of zeros, of either sign."""
    return x.op is Op.CONST and x.value == 0


def add(a: Node, b: Node) -> Node:
    """a + b; the other one if either is a constant zero."""
    if is_zero(b):
        return a
    if is_zero(a):
        return b
    return elementwise(Op.ADD, a, b)


def neg(x: Node) -> Node:
    """-x; the sign of a constant factor that x has already is turned instead."""
    if x.op is Op.NEG:
        return x.src[0]
    factor = x.op is Op.MUL and x.src[1].op is Op.CONST
    return scale(x, -1.0) if factor or x.op is Op.CONST else elementwise(Op.NEG, x)


def scale(x: Node, factor: float) -> Node:
    """x * factor, joined with a constant factor that x already has; x itself if they cancel."""
    if x.op is Op.CONST:
        return const(x.value * factor, x.dtype, x.shape)
    if x.op is Op.MUL and x.src[1].op is Op.CONST:
        factor *= x.src[1].value
        x = x.src[0]
    return x if factor == 1 else elementwise(Op.MUL, x, const(factor, x.dtype, x.shape))


def mul(a: Node, b: Node) -> Node:
    """a * b, where a constant operand is a scale."""
    if b.op is Op.CONST:
        return scale(a, b.value)
    return scale(b, a.value) if a.op is Op.CONST else elementwise(Op.MUL, a, b)


def div(a: Node, b: Node) -> Node:
    """a / b; a constant if both are."""
    if a.op is b.op is Op.CONST and b.value != 0:
        return const(a.value / b.value, a.dtype, a.shape)
    return elementwise(Op.DIV, a, b)


def like(x: Node, value: float) -> Node:
    """The constant array of x's shape and dtype."""
    return const(value, x.dtype, x.shape)


def equal(a: Node, b: Node) -> Node:
    """Where a == b, as bool."""
    return elementwise(Op.NOT, elementwise(Op.CMPNE, a, b))


def sum_over(x: Node, axes: tuple[int, ...]) -> Node:
    """The sum over `axes`, which keep size 1; one sum where x is a slid sum already.

    A convolution's gradient for its input is a sum over output channels, slid (PAD and SHEAR), then
    summed over the taps. Sliding passes the channels by, so one sum over both at the end gives the
    same, and spares an array that is larger than the result by the number of taps.
    """
    if x.op is Op.CONST:
        count = math.prod(x.shape[a] for a in axes)
        shape = tuple(1 if a in axes else n for a, n in enumerate(x.shape))
        return const(x.value * count, x.dtype, shape)
    moves: list[Node] = []
    inner = x
    while inner.op in _PASSABLE:
        moves.append(inner)
        inner = inner.src[0]
    slid = any(m.op is Op.SHEAR for m in moves)
    if slid and inner.op is Op.REDUCE and inner.arg[0] is Op.ADD:
        return _joined_sum(inner, moves[::-1], axes)
    return reduce(x, Op.ADD, axes)


_PASSABLE = frozenset({Op.RESHAPE, Op.PERMUTE, Op.PAD, Op.SHRINK, Op.SHEAR})


def _joined_sum(inner: Node, moves: list[Node], axes: tuple[int, ...]) -> Node:
    """The sum over `axes` of `moves` of `inner`, which is a sum: the moves are made on what inner
    sums, with inner's summed axes in front of all others, and everything is summed at the end."""
    wide, summed = inner.src[0], inner.arg[1]
    front = tuple(wide.shape[a] for a in summed)
    kept = [a for a in range(len(wide.shape)) if a not in summed]
    wide = reshape(move(Op.PERMUTE, wide, (*summed, *kept)), front + inner.shape)
    for m in moves:
        wide = move(m.op, wide, _behind(front, m))
    total = reduce(wide, Op.ADD, (*range(len(front)), *(a + len(front) for a in axes)))
    return reshape(total, total.shape[len(front):])


def _behind(front: Shape, moved: Node) -> tuple[object, ...]:
    """The argument of the same move on an array with the axes `front` before all others."""
    count, arg = len(front), moved.arg
    if moved.op is Op.RESHAPE:
        return (*front, *arg)
    if moved.op is Op.PERMUTE:
        return (*range(count), *(a + count for a in arg))
    if moved.op is Op.SHEAR:
        axis, by, *rest = arg
        return (axis + count, by + count, *rest)
    keep = [(0, 0) if moved.op is Op.PAD else (0, n) for n in front]
    return (*keep, *arg)
