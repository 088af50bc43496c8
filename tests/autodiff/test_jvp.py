"""Every row of the JVP table against finite differences and against VJP, also on random graphs."""
from __future__ import annotations

import numpy as np
import pytest
from example_counts import examples
from gradient_cases import CASES, LOSSY, build
from hypothesis import assume, given
from numeric_gradients import Array, Inputs
from random_graphs import agree, along, graphs_of_leaves

from lazyten.autodiff.forward_mode import jvp
from lazyten.autodiff.jvp_rules import JVP
from lazyten.autodiff.vjp_rules import VJP
from lazyten.ir import dtype as dt
from lazyten.ir.inspection import verify
from lazyten.ir.node import (
    Node,
    const,
    elementwise,
    expand,
    iota,
    make,
    move,
    reduce,
    reshape,
    scatter,
)
from lazyten.ir.ops import Op
from lazyten.operators.math import elementwise as ew
from lazyten.operators.math import scans, special
from lazyten.operators.math.gradients import with_gradient


def slope(inputs: Inputs, output: Node, steps: dict[int, Array]) -> Array:
    """The tangent of `output` as the leaves move along `steps`, by slot."""
    tangents = {leaf: inputs.array(steps[inputs.slot(leaf)]) for leaf in inputs.leaves}
    found, = jvp([output], tangents)
    if found is None:
        return np.zeros(output.shape)
    verify([found], "graph")
    assert (found.shape, found.dtype) == (output.shape, output.dtype)
    return inputs.evaluate([found])[0]


def directions(inputs: Inputs, seed: int = 5) -> dict[int, Array]:
    rng = np.random.default_rng(seed)
    return {inputs.slot(leaf): rng.uniform(-1, 1, leaf.shape) for leaf in inputs.leaves}


def differences(inputs: Inputs, output: Node, steps: dict[int, Array], h: float = 1e-6) -> Array:
    def value(scale: float) -> Array:
        moved = [v + scale * steps[i] if i in steps else v for i, v in enumerate(inputs.values)]
        return inputs.evaluate([output], moved)[0]
    return np.asarray((value(h) - value(-h)) / (2 * h))


def check_tangent(inputs: Inputs, output: Node) -> None:
    """jvp's tangent agrees with central differences, and with vjp: <J v, w> == <v, J' w>."""
    steps = directions(inputs)
    expected = differences(inputs, output, steps)
    found = slope(inputs, output, steps)
    np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-8)
    check_transposed(inputs, output)


def check_transposed(inputs: Inputs, output: Node) -> None:
    steps = directions(inputs, 6)
    cotangent = np.random.default_rng(7).uniform(0.5, 1.5, output.shape)
    found = slope(inputs, output, steps)
    pulled = inputs.gradients(output, cotangent)
    back = sum(float(np.sum(g * steps[inputs.slot(leaf)]))
               for leaf, g in zip(inputs.leaves, pulled, strict=True))
    assert abs(float(np.sum(found * cotangent)) - back) <= 1e-9 * (1 + abs(back))


def test_jvp_has_a_row_for_each_of_vjps_and_the_same_sources() -> None:
    assert {op: [r is None for r in rules] for op, rules in JVP.items()} == {
        op: [r is None for r in rules] for op, rules in VJP.items()}


@pytest.mark.parametrize(("op", "number"), CASES)
def test_every_row_agrees_with_differences_and_with_vjp(op: Op, number: int) -> None:
    inputs, output = build(op, number)
    if op in LOSSY:  # 0.5 survives the rounding on the way
        steps = {inputs.slot(leaf): np.full(leaf.shape, 0.5) for leaf in inputs.leaves}
        assert np.all(slope(inputs, output, steps) == 0.5)
    else:
        check_tangent(inputs, output)


@pytest.mark.parametrize("op", [op for op in VJP if op not in LOSSY], ids=lambda op: op.name)
def test_a_row_that_is_off_by_a_thousandth_fails_its_check(
        op: Op, monkeypatch: pytest.MonkeyPatch) -> None:
    for position, rule in enumerate(JVP[op]):
        if rule is None:
            continue

        def wrong(t, n, rule=rule):
            right = rule(t, n)
            return elementwise(Op.MUL, right, const(1.001, right.dtype, right.shape))

        monkeypatch.setitem(JVP, op, (*JVP[op][:position], wrong, *JVP[op][position + 1:]))
        failed = 0
        for case in CASES:
            case_op, number = case.values
            if case_op is op:
                try:
                    check_tangent(*build(op, number))
                except AssertionError:
                    failed += 1
        assert failed
        monkeypatch.undo()


@pytest.mark.parametrize("function", [
    special.relu, special.sigmoid, special.tanh, special.erf, special.cos, special.expm1,
    special.log1p, special.floor, special.gelu, ew.absolute,
    lambda x: scans.cumulative_sum(x, 1)])
def test_a_rule_of_a_composite_is_transposed(function) -> None:
    inputs = Inputs()
    x = inputs.leaf(np.random.default_rng(0).uniform(0.1, 0.9, (2, 20)))
    check_tangent(inputs, function(x))


@pytest.mark.parametrize("function", [
    lambda x, y: elementwise(Op.MAX, move(Op.SHRINK, x, ((0, 4), (0, 2))), y),
    lambda x, y: reduce(x, Op.MAX, (1,)),
    lambda x, y: reduce(x, Op.MUL, (0, 1)),
    *(lambda x, y, c=c: scatter(x, 1, expand(reshape(iota(2), (1, 2)), (4, 2)), y, c)
      for c in (None, Op.ADD, Op.MAX, Op.MUL)),
    *(lambda x, y, c=c: scatter(x, 1, const(1, dt.int64, (4, 2)), y, c)
      for c in (Op.ADD, Op.MAX, Op.MUL))])
@pytest.mark.parametrize("seed", range(4))
def test_tangents_and_cotangents_share_ties_and_zeros_alike(function, seed: int) -> None:
    inputs, rng = Inputs(), np.random.default_rng(seed)
    x, y = (inputs.leaf(rng.integers(0, 2, (4, n)).astype(np.float64)) for n in (3, 2))
    check_transposed(inputs, function(x, y))


def test_a_rule_with_several_inputs_and_a_none_is_transposed() -> None:
    def rule(g: Node, node: Node) -> list[Node | None]:
        _, a, b, _ = node.src
        return [ew.mul(g, b), ew.mul(reshape(g, g.shape), a), None]

    inputs = Inputs()
    a, b = (inputs.leaf(np.random.default_rng(i).uniform(1, 2, (3,))) for i in range(2))
    unused = inputs.array(np.ones(3))
    check_tangent(inputs, with_gradient(ew.mul(a, b), (a, b, unused), rule))


def test_what_does_not_vary_has_no_tangent() -> None:
    inputs = Inputs()
    x = inputs.leaf(np.ones(3))
    tangent = const(1.0, dt.float64, (3,))
    stopped = make(Op.DETACH, x.dtype, (x,))
    compared = elementwise(Op.CMPLT, x, x)
    other = inputs.leaf(np.ones(3))
    found = jvp([stopped, compared, other, x], {x: tangent})
    assert found == [None, None, None, tangent]


@examples(100)
@given(graphs_of_leaves())
def test_tangents_of_random_graphs_agree_with_differences(graph) -> None:
    inputs, output = graph
    steps = directions(inputs)
    one = np.ones(())
    coarse, fine = (along(inputs, output, one, steps, h) for h in (2e-6, 1e-6))
    assume(abs(coarse - fine) <= 1e-6 * (1 + abs(fine)))
    assert agree(float(slope(inputs, output, steps)), fine)


@examples(100)
@given(graphs_of_leaves())
def test_jvp_is_the_transpose_of_vjp_on_random_graphs(graph) -> None:
    """Beside kinks too: there the two take the same side."""
    inputs, output = graph
    steps = directions(inputs)
    found = float(slope(inputs, output, steps))
    pulled = inputs.gradients(output, np.ones(()))
    parts = [g * steps[inputs.slot(leaf)] for leaf, g in zip(inputs.leaves, pulled, strict=True)]
    back = sum(float(np.sum(p)) for p in parts)
    size = sum(float(np.sum(np.abs(p))) for p in parts)
    assert np.isclose(found, back, rtol=1e-7, atol=1e-7 * (1 + size), equal_nan=True)


@given(graphs_of_leaves())
def test_a_tangent_taken_twice_is_the_very_same_node(graph) -> None:
    inputs, output = graph
    tangents = {leaf: const(1.0, leaf.dtype, leaf.shape) for leaf in inputs.leaves}
    assert jvp([output], tangents)[0] is jvp([output], tangents)[0]
