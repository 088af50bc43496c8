"""Gradients of several values by one rule, which sees those of all of them at once.

The values hang on one node that nobody reads, whose gradient has theirs side by side.
"""
from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise
from math import prod

from lazyten.autodiff.arithmetic import add
from lazyten.ir.dtype import DType, promote
from lazyten.ir.movement import Shape
from lazyten.ir.node import Node, cast, const, make, move, reshape
from lazyten.ir.ops import Op

Kind = tuple[Shape, DType]


def jointly(values: Sequence[Node], inputs: Sequence[Node], rule: Hashable, name: str
            ) -> list[Node]:
    """The values, whose gradients for the inputs are given by `rule(cotangent, node)`, called once:
    `apart` makes theirs of the cotangent. name: what they are called for who looks at gradients.

    rule: as for `with_gradient`, or a slot that stands for one.
    """
    if len(values) == 1:
        return [make(Op.CUSTOM_GRADIENT, values[0].dtype, (values[0], *inputs), rule)]
    dtype, starts = _laid_out([(v.shape, v.dtype) for v in values])
    sides = make(Op.CUSTOM_GRADIENT, dtype, (const(0, dtype, (starts[-1] + 1,)), *inputs), rule)
    return [make(Op.CUSTOM_GRADIENT, v.dtype, (v, sides), _Side(name, start))
            for v, start in zip(values, starts, strict=False)]


def apart(cotangent: Node, kinds: Sequence[Kind]) -> list[Node | None]:
    """The cotangents of values of these kinds; None for one that got none, as far as one can see:
    in a graph of other unknowns (vmap, forward mode) it is zeros."""
    if len(kinds) == 1:
        return [cotangent]
    _, starts = _laid_out(kinds)
    found = _pieces(cotangent, starts)
    if found is None:
        found = [move(Op.SHRINK, cotangent, (ends,)) for ends in pairwise(starts)]
    return [None if x is None else cast(reshape(x, shape), dtype)
            for x, (shape, dtype) in zip(found, kinds, strict=True)]


def together(tangents: Sequence[Node | None], kinds: Sequence[Kind], node: Node) -> Node:
    """The tangent of the node that values of these kinds hang on (of the value itself, if it is
    one), from theirs: side by side, with zeros for None."""
    total = const(0, node.dtype, node.shape)
    if len(kinds) == 1:
        return total if tangents[0] is None else tangents[0]
    for tangent, start in zip(tangents, _laid_out(kinds)[1], strict=False):
        if tangent is not None:
            total = add(total, _beside(tangent, node, start))
    return total


def _beside(part: Node, sides: Node, start: int) -> Node:
    """A value among zeros, as `sides` has all of them."""
    flat = cast(reshape(part, (part.numel,)), sides.dtype)
    return move(Op.PAD, flat, ((start, sides.numel - start - part.numel),))


def _laid_out(kinds: Sequence[Kind]) -> tuple[DType, list[int]]:
    """The type of what has all cotangents side by side, where each starts, and the end. One element
    more follows there, so that each of them is padded, and is known by that."""
    dtype = kinds[0][1]
    for _, other in kinds[1:]:
        dtype = promote(dtype, other)
    return dtype, list(accumulate([prod(shape) for shape, _ in kinds], initial=0))


@dataclass(frozen=True, slots=True)
class _Side:
    """The gradient of one value, among zeros for the others."""

    name: str
    start: int

    @property
    def __name__(self) -> str:
        return self.name

    def __call__(self, g: Node, node: Node) -> tuple[Node]:
        return (_beside(g, node.src[1], self.start),)


def _pieces(cotangent: Node, starts: Sequence[int]) -> list[Node | None] | None:
    """What stands at each place of a sum of padded pieces, None where nothing does; None for
    another graph."""
    found: list[Node | None] = [None] * (len(starts) - 1)
    pending = [cotangent]
    while pending:
        node = pending.pop()
        if node.op is Op.ADD:
            pending += reversed(node.src)
        elif node.op is Op.PAD:
            (before, after), = node.arg
            end = cotangent.numel - after
            place = next((i for i, start in enumerate(starts[:-1])
                          if start <= before < end <= starts[i + 1]), None)
            if place is None or found[place] is not None:
                return None
            around = before - starts[place], starts[place + 1] - end
            found[place] = move(Op.PAD, node.src[0], (around,))
        elif not (node.op is Op.CONST and node.value == 0):
            return None
    return found
