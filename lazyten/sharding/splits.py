"""How ranks compute a node apart: a rule an op, of the axes that its sources are cut along."""
from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from lazyten.ir import dtype as dt
from lazyten.ir.collective import Group
from lazyten.ir.movement import Shape
from lazyten.ir.node import (
    Node,
    cast,
    const,
    elementwise,
    gather,
    moved_or_made,
    reduce,
    scatter,
)
from lazyten.ir.ops import ELEMENTWISE, IDENTITY_OPS, SPECS, Op

Axes = Sequence[int | None]
Local = Callable[[Sequence[Node]], Node]


@dataclass(frozen=True, slots=True)
class Split:
    """How ranks compute a node apart.

    axis: of the result, of which each rank has a part; None if each has a summand of all of it.
    takes: for each source the axis of which a rank takes its part; None where it takes all. local:
    what this rank computes of these. combiner: joins summands. base: of the node's sources one
    that is combined with their sum.
    """

    axis: int | None
    takes: tuple[int | None, ...]
    local: Local
    combiner: Op | None = None
    base: int | None = None


def split_of(node: Node, axes: Axes, group: Group) -> Split | None:
    """How the ranks of a group compute a node apart whose sources they have parts of; None where
    they do not. axes: of each source, the axis that is cut; None for a whole one."""
    if not node.numel:
        return None
    if node.op is Op.SHARD and node.arg.group == group:
        return _begun(node, group)
    rule = _RULES.get(node.op)
    return None if rule is None or all(a is None for a in axes) else rule(node, axes, group)


def _begun(node: Node, group: Group) -> Split | None:
    """A value that a rank takes its part of; whole if ranks cannot share it out evenly, as another
    group's ranks have shared out the axis before."""
    axis: int = node.arg.axis
    return None if node.shape[axis] % group.size else Split(axis, (axis,), lambda src: src[0])


def _made(node: Node, arg: Any = None) -> Local:
    """The same op on parts."""
    return lambda src: moved_or_made(node.op, node.dtype, tuple(src),
                                     node.arg if arg is None else arg, node.place)


def _elementwise(node: Node, axes: Axes, group: Group) -> Split:
    """Of sources that are cut along different axes, the axis of the largest."""
    sizes = {i: _unexpanded(s).numel for i, s in enumerate(node.src) if axes[i] is not None}
    axis = axes[max(sizes, key=sizes.__getitem__)]
    return Split(axis, (axis,) * len(node.src), _made(node))


def _unexpanded(node: Node) -> Node:
    while node.op is Op.EXPAND:
        node = node.src[0]
    return node


def _reduce(node: Node, axes: Axes, group: Group) -> Split | None:
    combiner, reduced = node.arg
    if axes[0] not in reduced:
        return Split(axes[0], (axes[0],), _made(node))
    if combiner is Op.MUL:
        return None
    wide = dt.float32 if node.dtype.is_half else node.dtype  # rounded once, when it is whole

    def summand(src: Sequence[Node]) -> Node:
        return reduce(cast(src[0], wide), combiner, reduced)
    return Split(None, (axes[0],), summand, combiner)


def _move(node: Node, axes: Axes, group: Group) -> Split | None:
    axis = axes[0]
    assert axis is not None
    found = _MOVES[node.op](node.src[0].shape, node.arg, axis, group.size)
    return None if found is None else Split(found[0], (axis,), _made(node, found[1]))


def _gather(node: Node, axes: Axes, group: Group) -> Split | None:
    """Rows that ranks have parts of: each finds 0 for those of others. So a sum finds them."""
    at: int = node.arg
    x, where = axes
    if where == at:
        return Split(at, (None, at), _made(node))
    if x == at:
        return None if node.dtype.is_stored else Split(
            None, (at, None), lambda src: gather(src[0], at, _own(src[1], src[0].shape[at], group)),
            Op.MAX if node.dtype is dt.bool_ else Op.ADD)
    axis = x if where is None else where
    return Split(axis, (axis, axis), _made(node))


def _own(positions: Node, length: int, group: Group) -> Node:
    """Positions in this rank's part of an axis: those of others are outside of it."""
    wide = cast(positions, dt.INDEX)
    first = const(group.rank * length, dt.INDEX, wide.shape)
    return elementwise(Op.SUB, wide, first)


def _scatter(node: Node, axes: Axes, group: Group) -> Split | None:
    at, combiner = node.arg
    beside = [a for a in axes if a is not None and a != at]
    if beside:
        return Split(beside[0], (beside[0],) * 3, _made(node))
    if axes[0] == at:
        return Split(at, (at, None, None), lambda src: scatter(
            src[0], at, _own(src[1], src[0].shape[at], group), src[2], combiner))
    if combiner not in (Op.ADD, Op.MAX):
        return None  # the last of several values stays: they must be in order
    identity = SPECS[combiner].identity
    assert identity is not None
    nothing = const(identity(node.dtype), node.dtype, node.shape)
    return Split(None, (None, at, at), lambda src: scatter(nothing, at, src[1], src[2], combiner),
                 combiner, base=0)


# ---- movements: (shape, argument, axis that is cut, ranks) -> the axis after it, and the argument
# for parts; None where a part is not made of one part

Moved = tuple[int, Any] | None


def _divided(shape: Shape, axis: int, ranks: int) -> Shape:
    return tuple(n // ranks if i == axis else n for i, n in enumerate(shape))


def _reshape(shape: Shape, arg: Shape, axis: int, ranks: int) -> Moved:
    """Parts are whole intervals of what stands behind the axes before: an axis with the same ones
    before it has these intervals, too, if ranks share it out evenly."""
    before = math.prod(shape[:axis])
    for i, n in enumerate(arg):
        if math.prod(arg[:i]) == before and n % ranks == 0:
            return i, _divided(arg, i, ranks)
    return None


def _permute(shape: Shape, arg: Shape, axis: int, ranks: int) -> Moved:
    return arg.index(axis), arg


def _expand(shape: Shape, arg: Shape, axis: int, ranks: int) -> Moved:
    return axis, _divided(arg, axis, ranks)


def _pad(shape: Shape, arg: Any, axis: int, ranks: int) -> Moved:
    return (axis, arg) if arg[axis] == (0, 0) else None


def _shrink(shape: Shape, arg: Any, axis: int, ranks: int) -> Moved:
    if arg[axis] != (0, shape[axis]):
        return None
    own = (0, shape[axis] // ranks)
    return axis, tuple(own if i == axis else bounds for i, bounds in enumerate(arg))


def _flip(shape: Shape, arg: Any, axis: int, ranks: int) -> Moved:
    return None if axis in arg else (axis, arg)


def _shear(shape: Shape, arg: Any, axis: int, ranks: int) -> Moved:
    return None if axis in arg[:2] else (axis, arg)


_MOVES: Mapping[Op, Callable[[Shape, Any, int, int], Moved]] = {
    Op.RESHAPE: _reshape, Op.PERMUTE: _permute, Op.EXPAND: _expand, Op.PAD: _pad,
    Op.SHRINK: _shrink, Op.FLIP: _flip, Op.SHEAR: _shear}

_RULES: Mapping[Op, Callable[[Node, Axes, Group], Split | None]] = {
    **dict.fromkeys((*ELEMENTWISE, *IDENTITY_OPS, Op.CONTIGUOUS), _elementwise),
    **dict.fromkeys(_MOVES, _move),
    Op.REDUCE: _reduce,
    Op.GATHER: _gather,
    Op.SCATTER: _scatter,
}
