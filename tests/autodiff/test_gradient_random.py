"""Gradients of random movements, reductions and graphs, against transposes and differences."""
from __future__ import annotations

import numpy as np
import pytest
from example_counts import examples
from graphs import moves
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from numeric_gradients import Inputs
from random_graphs import Draw, agree, along, graphs_of_leaves, move_of, whole_numbers

from lazyten.autodiff.gradient import vjp
from lazyten.autodiff.vjp_rules import VJP
from lazyten.ir.node import Node, const, elementwise, move, reduce
from lazyten.ir.ops import Op

shapes = st.lists(st.integers(0, 4), min_size=0, max_size=4).map(tuple)


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


@pytest.mark.few(1)
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
