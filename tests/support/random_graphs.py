"""Random graphs of leaves, and what derivatives are compared by."""
from __future__ import annotations

import functools
from typing import Any

import numpy as np
from graphs import moves
from hypothesis import assume
from hypothesis import strategies as st
from numeric_gradients import Array, Inputs

from lazyten.ir.node import Node, const, elementwise, expand, make, move, reduce, reshape
from lazyten.ir.ops import Op

Draw = st.DrawFn
full_shapes = st.lists(st.integers(1, 3), min_size=0, max_size=3).map(tuple)


def move_of(x: Node, chosen: tuple[Op, Any]) -> Node:
    return move(chosen[0], x, chosen[1])


def whole_numbers(shape: tuple[int, ...], seed: int) -> Array:
    return np.random.default_rng(seed).integers(-9, 10, shape).astype(float)


class GraphBuilder:
    """Grows a random graph from a few leaves, keeping values where derivatives are tame."""

    def __init__(self, draw: Draw) -> None:
        self.draw, self.inputs = draw, Inputs()
        rng = np.random.default_rng(draw(st.integers(0, 2**32)))
        self.nodes: list[Node] = []
        for _ in range(draw(st.integers(1, 3))):
            self.nodes.append(self.inputs.leaf(rng.uniform(-2, 2, draw(full_shapes))))

    def grow(self) -> None:
        """Add one node made from earlier ones, with its values brought back into -4 .. 4."""
        kind = self.draw(st.sampled_from([self.unary, self.binary, self.binary, self.choice,
                                          self.reduction, self.movement]))
        node = kind()
        assume(0 < node.numel <= 400)
        value, = self.inputs.evaluate([node])
        self.nodes.append(node if np.abs(value).max() <= 4 else elementwise(Op.SIN, node))

    def pick(self) -> Node:
        return self.draw(st.sampled_from(self.nodes))

    def pair(self) -> tuple[Node, Node]:
        """Two nodes broadcast to one shape; the second is reduced first where it does not fit."""
        a, b = self.pick(), self.pick()
        rank = max(len(a.shape), len(b.shape))
        a, b = (reshape(x, (1,) * (rank - len(x.shape)) + x.shape) for x in (a, b))
        b = reduce(b, Op.ADD, [i for i in range(rank) if 1 != a.shape[i] != b.shape[i]])
        shape = tuple(max(n, m) for n, m in zip(a.shape, b.shape, strict=True))
        return expand(a, shape), expand(b, shape)

    def positive(self, x: Node) -> Node:
        return elementwise(Op.MULACC, x, x, const(0.5, x.dtype, x.shape))

    def unary(self) -> Node:
        x = self.pick()
        op = self.draw(st.sampled_from([Op.NEG, Op.EXP2, Op.LOG2, Op.SIN, Op.SQRT, Op.RECIPROCAL,
                                        Op.CONTIGUOUS]))
        if op is Op.CONTIGUOUS:
            return make(op, x.dtype, (x,))
        return elementwise(op, self.positive(x) if op in (Op.LOG2, Op.SQRT, Op.RECIPROCAL) else x)

    def binary(self) -> Node:
        op = self.draw(st.sampled_from([Op.ADD, Op.SUB, Op.MUL, Op.DIV, Op.POW, Op.MAX]))
        a, b = self.pair()
        if op is Op.DIV:
            b = self.positive(b)
        return elementwise(op, self.positive(a) if op is Op.POW else a, b)

    def choice(self) -> Node:
        a, b = self.pair()
        mask = self.inputs.array(whole_numbers(a.shape, len(self.nodes)))
        condition = elementwise(Op.CMPLT, mask, const(0.0, a.dtype, a.shape))
        return elementwise(Op.WHERE, condition, a, b)

    def reduction(self) -> Node:
        x = self.pick()
        axes = {a for a in range(len(x.shape)) if self.draw(st.booleans())}
        return reduce(x, self.draw(st.sampled_from([Op.ADD, Op.MAX, Op.MUL])), axes)

    def movement(self) -> Node:
        x = self.pick()
        return move_of(x, self.draw(moves(x.shape)))


@st.composite
def graphs_of_leaves(draw: Draw) -> tuple[Inputs, Node]:
    """Leaves, and the sum of all values of a graph in which nodes are used several times."""
    builder = GraphBuilder(draw)
    for _ in range(draw(st.integers(1, 8))):
        builder.grow()
    sums = [reshape(reduce(n, Op.ADD, range(len(n.shape))), ()) for n in builder.nodes]
    return builder.inputs, functools.reduce(lambda a, b: elementwise(Op.ADD, a, b), sums)


def along(inputs: Inputs, output: Node, cotangent: Array, steps: dict[int, Array],
          h: float) -> float:
    """Slope of sum(cotangent * output) as every leaf moves along its step: central differences."""
    def value(scale: float) -> Array:
        moved = [v + scale * steps[i] if i in steps else v for i, v in enumerate(inputs.values)]
        return inputs.evaluate([output], moved)[0]
    return float(np.sum(cotangent * (value(h) - value(-h))) / (2 * h))


def agree(a: float, b: float) -> bool:
    return abs(a - b) <= 1e-5 * (1 + abs(a) + abs(b))
