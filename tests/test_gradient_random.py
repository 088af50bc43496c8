"""Gradients of random movements, reductions and graphs, against transposes and differences."""
from __future__ import annotations

import functools
from typing import Any

import numpy as np
import pytest
from example_counts import examples
from graphs import moves
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from numeric_gradients import Array, Inputs

from lazyten.gradient import vjp
from lazyten.node import Node, const, elementwise, expand, make, move, reduce, reshape
from lazyten.ops import Op
from lazyten.vjp_rules import VJP

Draw = st.DrawFn
shapes = st.lists(st.integers(0, 4), min_size=0, max_size=4).map(tuple)
full_shapes = st.lists(st.integers(1, 3), min_size=0, max_size=3).map(tuple)


# ---- random movements ----------------------------------------------------------------------------

@st.composite
def shears(draw: Draw) -> tuple[tuple[int, ...], tuple[int, int, int, int, int]]:
    """A shape, empty ones too, and any SHEAR of it: a factor, offset and size that stay inside."""
    shape = tuple(draw(st.lists(st.integers(0, 5), min_size=2, max_size=3)))
    axis, by = draw(st.permutations(range(len(shape))))[:2]
    length, taps = shape[axis], shape[by]
    if length == 0 or taps == 0:
        size = draw(st.integers(0, 3)) if taps == 0 else 0
        return shape, (axis, by, draw(st.integers(-2, 2)), draw(st.integers(-3, 3)), size)
    limit = 3 if taps == 1 else (length - 1) // (taps - 1)
    factor = draw(st.integers(-limit, limit))
    room = length - abs(factor) * (taps - 1)
    size = draw(st.integers(0, room))
    offset = draw(st.integers(0, room - size)) + max(0, -factor * (taps - 1))
    return shape, (axis, by, factor, offset, size)


def move_of(x: Node, chosen: tuple[Op, Any]) -> Node:
    return move(chosen[0], x, chosen[1])


def whole_numbers(shape: tuple[int, ...], seed: int) -> Array:
    return np.random.default_rng(seed).integers(-9, 10, shape).astype(float)


def assert_transposed(inputs: Inputs, output: Node) -> None:
    """<A x, g> == <x, A' g>, exactly, for a linear output of one leaf with whole values."""
    cotangent = whole_numbers(output.shape, 1)
    found, = inputs.gradients(output, cotangent)
    value, = inputs.evaluate([output])
    assert np.sum(value * cotangent) == np.sum(inputs.values[0] * found)


@examples(200)
@given(shears())
def test_the_gradient_of_a_shear_is_its_transpose(case):
    shape, arg = case
    inputs = Inputs()
    x = inputs.leaf(whole_numbers(shape, 0))
    assert_transposed(inputs, move(Op.SHEAR, x, arg))


@examples(100)
@given(data=st.data(), shape=shapes)
def test_the_gradient_of_a_chain_of_movements_and_sums_is_its_transpose(data, shape):
    inputs = Inputs()
    x = inputs.leaf(whole_numbers(shape, 0))
    for _ in range(data.draw(st.integers(1, 5))):
        if data.draw(st.booleans()):
            x = move_of(x, data.draw(moves(x.shape)))
        else:
            x = reduce(x, Op.ADD, {a for a in range(len(x.shape)) if data.draw(st.booleans())})
        assume(x.numel < 5000)
    assert_transposed(inputs, x)


# ---- random graphs -------------------------------------------------------------------------------

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


def slopes(inputs: Inputs, output: Node) -> tuple[float, float]:
    """The slope along a random direction: vjp's and the numeric one. Skips graphs beside a kink."""
    rng = np.random.default_rng(3)
    cotangent = rng.uniform(0.5, 1.5, output.shape)
    steps = {inputs.slot(leaf): rng.uniform(-1, 1, leaf.shape) for leaf in inputs.leaves}
    coarse, fine = (along(inputs, output, cotangent, steps, h) for h in (2e-6, 1e-6))
    assume(abs(coarse - fine) <= 1e-6 * (1 + abs(fine)))
    found = inputs.gradients(output, cotangent)
    by_vjp = sum(float(np.sum(g * steps[inputs.slot(leaf)]))
                 for leaf, g in zip(inputs.leaves, found, strict=True))
    return by_vjp, fine


def agree(a: float, b: float) -> bool:
    return abs(a - b) <= 1e-5 * (1 + abs(a) + abs(b))


@examples(100)
@given(graphs_of_leaves())
def test_gradients_of_random_graphs_agree_with_directional_differences(graph):
    by_vjp, numeric = slopes(*graph)
    assert agree(by_vjp, numeric)


@given(graphs_of_leaves())
def test_recording_a_gradient_twice_gives_the_very_same_nodes(graph):
    inputs, output = graph
    seed = const(1.0, output.dtype, output.shape)
    first, second = (vjp(output, seed, inputs.leaves) for _ in range(2))
    assert all(a is b for a, b in zip(first, second, strict=True))


@pytest.mark.parametrize("op", [Op.SIN, Op.MUL, Op.EXPAND, Op.MAX], ids=lambda op: op.name)
def test_a_wrong_rule_is_found_on_random_graphs(op, monkeypatch):
    found_out = []

    @settings(max_examples=150, derandomize=True)
    @given(graphs_of_leaves())
    def compare(graph):
        by_vjp, numeric = slopes(*graph)
        if not agree(by_vjp, numeric):
            found_out.append(graph)

    right = VJP[op][-1]
    assert right is not None
    doubled = lambda g, n: elementwise(Op.ADD, right(g, n), right(g, n))  # noqa: E731
    monkeypatch.setitem(VJP, op, (*VJP[op][:-1], doubled))
    compare()
    assert found_out
