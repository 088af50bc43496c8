"""Arithmetic on GRAPH nodes for derivative rules: equal shapes and dtypes, constants folded.

What is folded here never has to be scheduled: factors join into one, and a sum of zeros vanishes.
Folding may round once where the plain ops would round twice; derivatives promise no exact bits.
"""
from __future__ import annotations

import math
from collections.abc import Container, Iterator, Sequence, Set
from contextlib import contextmanager
from threading import local
from typing import Any

from lazyten.ir.movement import Shape, out_shape
from lazyten.ir.node import Node, const, elementwise, expand, is_alias, move, reduce, reshape
from lazyten.ir.ops import MOVEMENT, Op
from lazyten.symbolic.index_moves import axis_groups


class _Held(local):
    """Of each thread. nodes: those that derivatives are made of as they are, and not of what they
    are computed by."""

    nodes: Container[Node] = frozenset()


_held = _Held()


@contextmanager
def held(nodes: Container[Node]) -> Iterator[None]:
    """Within this block derivatives are made of these nodes as they are: users may ask for
    gradients of the derivatives for values that these are."""
    before, _held.nodes = _held.nodes, nodes
    try:
        yield
    finally:
        _held.nodes = before


def _form(x: Node) -> Op:
    """The op of a node that may be folded; LEAF for one that may not be looked through. (A move
    that users have a tensor of is an alias, one that changes nothing.)"""
    return Op.LEAF if x in _held.nodes and (x.op not in MOVEMENT or is_alias(x)) else x.op


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
    if _form(x) is Op.NEG:
        return x.src[0]
    factor = _form(x) is Op.MUL and x.src[1].op is Op.CONST
    return scale(x, -1.0) if factor or x.op is Op.CONST else elementwise(Op.NEG, x)


def scale(x: Node, factor: float) -> Node:
    """x * factor, joined with a constant factor that x already has; x itself if they cancel."""
    if x.op is Op.CONST:
        return const(x.value * factor, x.dtype, x.shape)
    if _form(x) is Op.MUL and x.src[1].op is Op.CONST:
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
    """The sum over `axes`, which keep size 1; one sum where x is a slid sum already, and a sum of
    slid factors where it is a slid product.

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
    while _form(inner) in _PASSABLE:
        moves.append(inner)
        inner = inner.src[0]
    slid = any(m.op is Op.SHEAR for m in moves)
    if slid and _form(inner) is Op.REDUCE and inner.arg[0] is Op.ADD:
        return _joined_sum(inner.src[0], inner.arg[1], inner.shape, moves[::-1], axes)
    if slid and _form(inner) is Op.MUL:
        return _joined_sum(inner, (), inner.shape, moves[::-1], axes)
    return reduce(x, Op.ADD, axes)


_PASSABLE = frozenset({Op.RESHAPE, Op.PERMUTE, Op.PAD, Op.SHRINK, Op.SHEAR})


def _joined_sum(wide: Node, summed: tuple[int, ...], shape: Shape, moves: list[Node],
                axes: tuple[int, ...]) -> Node:
    """The sum over `axes` of `moves` of the sum of `wide` over `summed`, which has `shape`: the
    moves are made on `wide`, with its summed axes in front of all others, and everything is summed
    at the end."""
    front = tuple(wide.shape[a] for a in summed)
    kept = [a for a in range(len(wide.shape)) if a not in summed]
    wide = _moved_product(Op.PERMUTE, wide, (*summed, *kept))
    wide = _moved_product(Op.RESHAPE, wide, front + shape)
    for m in moves:
        wide = _moved_product(m.op, wide, behind(front, m))
    total = reduce(wide, Op.ADD, (*range(len(front)), *(a + len(front) for a in axes)))
    return reshape(total, total.shape[len(front):])


def behind(front: Shape, moved: Node) -> tuple[object, ...]:
    """The argument of the same move on an array with the axes `front` before all others."""
    count, arg = len(front), moved.arg
    if moved.op in (Op.RESHAPE, Op.EXPAND):
        return (*front, *arg)
    if moved.op is Op.PERMUTE:
        return (*range(count), *(a + count for a in arg))
    if moved.op is Op.FLIP:
        return tuple(a + count for a in arg)
    if moved.op is Op.SHEAR:
        axis, by, *rest = arg
        return (axis + count, by + count, *rest)
    keep = [(0, 0) if moved.op is Op.PAD else (0, n) for n in front]
    return (*keep, *arg)


# ---- moving products -----------------------------------------------------------------------------

def _moved_product(op: Op, x: Node, arg: Any) -> Node:
    """A move of a product as a product of moves.

    A factor that is the same all along an axis need not be padded or sheared there, only made as
    long as the other; so a convolution's gradient pads the output's cotangent, not each of its
    products with a weight. One of no elements has no factor that could be made longer.
    """
    if _form(x) is not Op.MUL or 0 in x.shape:
        return move(op, x, arg)
    a, b = x.src
    if op is Op.PAD:
        padded = {axis for axis, around in enumerate(arg) if any(around)}
        if padded & constant_axes(a) and not padded & constant_axes(b):
            a, b = b, a  # pads where the padding must be 0: in a
        return mul(_padded(a, arg), _follow(op, b, arg))
    return mul(_follow(op, a, arg), _follow(op, b, arg))


def _follow(op: Op, x: Node, arg: Any) -> Node:
    """The move of a factor, with axes that it is constant along made longer or shorter instead."""
    same = constant_axes(x)
    if op is Op.PAD:
        sizes = [n + sum(around) for n, around in zip(x.shape, arg, strict=True)]
        rest = tuple((0, 0) if a in same else around for a, around in enumerate(arg))
        return _stretched(_padded(x, rest), same, sizes)
    if op is Op.SHEAR and arg[0] in same:
        return _stretched(x, {arg[0]}, [arg[4] if a == arg[0] else n
                                        for a, n in enumerate(x.shape)])
    return _below_expand(op, x, arg)


def _stretched(x: Node, axes: Set[int], sizes: Sequence[int]) -> Node:
    """x, which is constant along `axes`, in other sizes there."""
    axes = {a for a in axes if sizes[a] != x.shape[a]}
    if _form(x) is Op.EXPAND and axes <= _grown(x):
        return expand(x.src[0], tuple(sizes))
    one = move(Op.SHRINK, x, tuple((0, 1 if a in axes else n) for a, n in enumerate(x.shape)))
    return move(Op.EXPAND, one, tuple(sizes))


def _padded(x: Node, around: Sequence[tuple[int, int]]) -> Node:
    """PAD, below what does not touch the padded axes: what is padded is then the smallest array
    that can be, and is stored once, with its border, where that pays."""
    padded = {a for a, width in enumerate(around) if width != (0, 0)}
    form = _form(x)
    if form is Op.PERMUTE:
        below = tuple(around[x.arg.index(a)] for a in range(len(x.arg)))
        return move(Op.PERMUTE, _padded(x.src[0], below), x.arg)
    if form is Op.SHEAR and not padded & set(x.arg[:2]):
        return move(Op.SHEAR, _padded(x.src[0], around), x.arg)
    if form is Op.RESHAPE and x.numel:
        alone = {new[0]: old[0] for old, new in axis_groups(x.src[0].shape, x.shape)
                 if len(old) == len(new) == 1}
        if padded <= set(alone):
            widths = {alone[a]: around[a] for a in padded}
            inner = _padded(x.src[0], [widths.get(a, (0, 0)) for a in range(len(x.src[0].shape))])
            return move(Op.RESHAPE, inner, out_shape(Op.PAD, x.shape, tuple(around)))
    if form is Op.EXPAND and not padded & _grown(x):
        inner = _padded(x.src[0], around)
        return expand(inner, out_shape(Op.PAD, x.shape, tuple(around)))
    return move(Op.PAD, x, tuple(around))


def _grown(x: Node) -> Set[int]:
    """The axes that an EXPAND repeats."""
    return {a for a, (n, m) in enumerate(zip(x.src[0].shape, x.shape, strict=True)) if n != m}


def _below_expand(op: Op, x: Node, arg: Any) -> Node:
    """A PERMUTE, RESHAPE or SHEAR of x, below the EXPAND that x may be, so that later moves meet
    the smaller array."""
    if _form(x) is not Op.EXPAND or op not in (Op.PERMUTE, Op.RESHAPE, Op.SHEAR):
        return move(op, x, arg)
    inner, shape, below = x.src[0], out_shape(op, x.shape, arg), arg
    if op is Op.SHEAR and _grown(x) & set(arg[:2]):
        return move(op, x, arg)
    if op is Op.RESHAPE:
        groups = axis_groups(x.shape, shape) if x.numel else []
        alone = {old[0]: new[0] for old, new in groups if len(old) == len(new) == 1}
        if not _grown(x) <= set(alone):
            return move(op, x, arg)
        ones = {alone[a] for a in _grown(x)}
        below = tuple(1 if a in ones else n for a, n in enumerate(shape))
    return expand(_below_expand(op, inner, below), shape)


def constant_axes(x: Node) -> Set[int]:
    """Axes that x is known to be the same along, of size above 1."""
    if x.op is Op.CONST:
        return frozenset(range(len(x.shape)))
    if x.op is Op.EXPAND:
        grown = {a for a, (n, m) in enumerate(zip(x.src[0].shape, x.shape, strict=True)) if n != m}
        return grown | constant_axes(x.src[0])
    if x.op is Op.PERMUTE:
        below = constant_axes(x.src[0])
        return {a for a, source in enumerate(x.arg) if source in below}
    if x.op in (Op.SHRINK, Op.FLIP):
        return constant_axes(x.src[0])
    if x.op is Op.PAD:
        return {a for a in constant_axes(x.src[0]) if x.arg[a] == (0, 0)}
    if x.op is Op.SHEAR:
        below = constant_axes(x.src[0])
        return below if x.arg[0] in below else below - {x.arg[1]}
    if x.op is Op.RESHAPE:
        return _through_reshape(x)
    return frozenset()


def _through_reshape(x: Node) -> Set[int]:
    """Constant axes of a reshape: those made of constant axes alone."""
    same = constant_axes(x.src[0])
    if not same or x.numel == 0:
        return frozenset()
    return {axis for old, new in axis_groups(x.src[0].shape, x.shape)
            if same >= set(old) for axis in new}
