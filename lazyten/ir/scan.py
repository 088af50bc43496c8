"""Scans: a body of nodes that runs once for each position of the first axis, and hands a state on.

A SCAN node stands for all steps, so a graph with it is as small as the body, whatever the length;
schedule/scans.py makes kernels of the body once, which are launched for each step. `unrolled` is
what it means, as other nodes.
"""
from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import accumulate

from lazyten.ir.dtype import DType
from lazyten.ir.kernel import Slot
from lazyten.ir.node import (
    Node,
    Shape,
    const,
    elementwise,
    expand,
    iota,
    make,
    move,
    reshape,
    rewrite,
)
from lazyten.ir.ops import IDENTITY_OPS, Op

ALIGNED = 64
"""Bytes: each part of a state starts at a multiple of them, so that a step's kernels may write
whole vectors."""


@dataclass(frozen=True, slots=True)
class Body:
    """What a step of a scan computes: parts of the state after it, `outputs`, all of one dtype.

    They are expressions over BUFFER(Slot(i)) of flat arrays: first of `xs` that each step reads its
    own row of, then of the first `carried` outputs of the step before, then of arrays that are the
    same for all steps. length: how many steps; reverse: from the last row to the first.
    """

    outputs: tuple[Node, ...]
    xs: int
    carried: int
    length: int
    reverse: bool

    @property
    def sizes(self) -> list[int]:
        """Elements that each part takes in a row: with what pads it to ALIGNED bytes."""
        unit = ALIGNED // self.outputs[0].dtype.itemsize
        return [-(-n.numel // unit) * unit for n in self.outputs]

    @property
    def starts(self) -> list[int]:
        """Where each part of a row starts."""
        return [0, *accumulate(self.sizes)][:-1]

    @property
    def shape(self) -> Shape:
        """Of all rows."""
        return self.length, sum(self.sizes)

    @property
    def steps(self) -> Sequence[int]:
        """The rows, in the order that they are computed in."""
        return range(self.length)[::-1] if self.reverse else range(self.length)


def leaf(slot: int, shape: Shape, dtype: DType) -> Node:
    """What a body reads as its argument `slot`."""
    size = 1
    for n in shape:
        size *= n
    return reshape(make(Op.BUFFER, dtype, (), Slot(slot, size)), shape)


def scan(body: Body, xs: Sequence[Node], first: Sequence[Node], same: Sequence[Node]) -> Node:
    """All states, (length, elements of a row): see `part`. xs: (length, ..) each; first: the parts
    of the state before all; same: what each step reads whole. (A single step, and steps of nothing,
    are the nodes that they are made of.)"""
    rows = [reshape(x, (body.length, x.numel // body.length)) for x in xs]
    flat = [reshape(x, (x.numel,)) for x in (*first, *same)]
    node = make(Op.SCAN, body.outputs[0].dtype, (*rows, *flat), body)
    return node if body.length > 1 and all(n.numel for n in body.outputs) else unrolled(node)


def part(rows: Node, body: Body, number: int, shape: Shape) -> Node:
    """One part of the states of all steps, (length, *shape)."""
    start, size = body.starts[number], body.outputs[number].numel
    return reshape(move(Op.SHRINK, rows, ((0, body.length), (start, start + size))),
                   (body.length, *shape))


def packed(parts: Sequence[Node], body: Body) -> Node:
    """Rows of parts, (.., elements of a row), from (.., elements) of each: what `part` takes."""
    return side_by_side([
        move(Op.PAD, x, (*[(0, 0)] * (len(x.shape) - 1), (0, size - x.shape[-1])))
        for x, size in zip(parts, body.sizes, strict=True)])


def plain(body: Body) -> Body:
    """The same steps without nodes that only steer gradients."""
    return replace(body, outputs=tuple(rewrite(
        body.outputs, lambda n: n.src[0] if n.op in IDENTITY_OPS else None)))


def unrolled(node: Node) -> Node:
    """The same values as a SCAN, from the nodes of each step."""
    body: Body = node.arg
    xs, rest = node.src[:body.xs], node.src[body.xs:]
    states, same = list(rest[:body.carried]), rest[body.carried:]
    rows: dict[int, Node] = {}
    for t in body.steps:
        own = [reshape(move(Op.SHRINK, x, ((t, t + 1), (0, x.shape[1]))), x.shape[1:]) for x in xs]
        given = {make(Op.BUFFER, x.dtype, (), Slot(i, x.numel)): x
                 for i, x in enumerate((*own, *states, *same))}
        outputs = rewrite(body.outputs, lambda n: None, given)
        flat = [reshape(n, (n.numel,)) for n in outputs]
        rows[t] = packed(flat, body)
        states = flat[:body.carried]
    return reshape(side_by_side([rows[t] for t in range(body.length)]), node.shape)


def side_by_side(parts: Sequence[Node]) -> Node:
    """Arrays of equal shapes but for the last axis, joined along it."""
    *outer, total = (*parts[0].shape[:-1], sum(p.shape[-1] for p in parts))
    shape = (*outer, total)
    column = expand(reshape(iota(total), (*[1] * len(outer), total)), shape)
    result, end = None, total
    for x in reversed(parts):
        start = end - x.shape[-1]
        wide = move(Op.PAD, x, (*[(0, 0)] * len(outer), (start, total - end)))
        before = elementwise(Op.CMPLT, column, const(end, column.dtype, shape))
        result = wide if result is None else elementwise(Op.WHERE, before, wide, result)
        end = start
    assert result is not None
    return result
