"""Every row of the VMAP table, and random graphs, against a loop over the examples."""
from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
from example_counts import examples
from gradient_cases import CASES, build
from graphs import Array, arrays, expressions
from hypothesis import given
from hypothesis import strategies as st
from numeric_gradients import Inputs
from random_graphs import graphs_of_leaves

from lazyten.autodiff.batching import batch
from lazyten.autodiff.gradient import vjp
from lazyten.autodiff.vmap_rules import SAME_FOR_ALL, VMAP
from lazyten.ir import dtype as dt
from lazyten.ir.arguments import IndexBound
from lazyten.ir.collective import Sharding
from lazyten.ir.evaluation import evaluate
from lazyten.ir.inspection import verify
from lazyten.ir.kernel import Slot
from lazyten.ir.node import Node, const, make, reshape, toposort, unshaped
from lazyten.ir.ops import LOOP_ONLY, Op
from lazyten.operators.math import elementwise as ew
from lazyten.operators.math import scans, special

SIZE = 3


def buffers(outputs: Sequence[Node]) -> dict[int, Node]:
    """The flat arrays that a graph reads, by slot."""
    return {n.arg.slot: n for n in toposort(outputs) if n.op is Op.BUFFER}


def check_batch(outputs: Sequence[Node], values: dict[int, Array], mapped: set[int],
                seed: int = 0, rtol: float = 0.0) -> None:
    """batch() gives what a loop gives in which the `mapped` slots have other values each time."""
    rng = np.random.default_rng(seed)
    many = {slot: np.stack([np.ravel(v)] + [rng.permutation(np.ravel(v)) for _ in range(SIZE - 1)])
            for slot, v in values.items() if slot in mapped}
    flat = {slot: np.ravel(v) for slot, v in values.items()}
    loop = [evaluate(outputs, flat | {s: v[i] for s, v in many.items()}) for i in range(SIZE)]
    used = buffers(outputs)
    examples = {used[s]: reshape(make(Op.BUFFER, used[s].dtype, (), Slot(100 + s, v.size)), v.shape)
                for s, v in many.items() if s in used}
    found = batch(outputs, examples, SIZE)
    verify([n for n in found if n is not None], "graph")
    given = flat | {100 + s: v.reshape(-1) for s, v in many.items()}
    for number, (node, output) in enumerate(zip(found, outputs, strict=True)):
        depends = not set(examples).isdisjoint(toposort([output]))
        assert (node is not None) == depends
        if node is not None:
            assert node.shape == (SIZE, *output.shape)
            assert node.dtype is output.dtype
            whole, = evaluate([node], given)
            expected = np.stack([one[number] for one in loop])
            np.testing.assert_allclose(whole, expected, rtol=rtol, atol=rtol)


def test_every_graph_op_has_a_row_or_is_the_same_for_all() -> None:
    assert set(VMAP) | SAME_FOR_ALL | {Op.CUSTOM_GRADIENT, Op.SCAN} == {
        op for op in Op if op not in LOOP_ONLY}
    assert not set(VMAP) & SAME_FOR_ALL


@pytest.mark.parametrize(("op", "number"), CASES)
def test_every_differentiable_row_is_what_a_loop_gives(op: Op, number: int) -> None:
    inputs, output = build(op, number)
    slots = [inputs.slot(leaf) for leaf in inputs.leaves]
    values = dict(enumerate(inputs.values))
    for mapped in [{s} for s in slots] + [set(slots)]:
        check_batch([output], values, mapped, rtol=1e-13)


def array_node(slot: int, values: Array, dtype: dt.DType) -> Node:
    return reshape(make(Op.BUFFER, dtype, (), Slot(slot, values.size)), values.shape)


@pytest.mark.slow
@examples(150)
@given(st.data())
def test_random_expressions_are_what_a_loop_gives(data) -> None:
    """Integers and bools too: all ops without gradients, and empty arrays."""
    dtype = data.draw(st.sampled_from([dt.int32, dt.uint8, dt.bool_, dt.float32, dt.bfloat16]))
    shapes = st.lists(st.integers(0, 4), max_size=3).map(tuple)
    values = {i: data.draw(arrays(dtype, data.draw(shapes))) for i in range(2)}
    leaves = [array_node(i, v, dtype) for i, v in values.items()]
    outputs = [data.draw(expressions(dtype, leaves, 8)) for _ in range(2)]
    mapped = data.draw(st.sets(st.sampled_from([0, 1])))
    check_batch(outputs, values, mapped)


@examples(60)
@given(graphs_of_leaves(), st.data())
def test_gradients_of_random_graphs_are_what_a_loop_gives(graph, data) -> None:
    inputs, output = graph
    nodes = vjp(output, const(1.0, output.dtype, output.shape), inputs.leaves)
    slots = [inputs.slot(leaf) for leaf in inputs.leaves]
    mapped = set(data.draw(st.lists(st.sampled_from(slots), min_size=1)))
    check_batch([n for n in nodes if n is not None], dict(enumerate(inputs.values)), mapped,
                rtol=1e-9)


@pytest.mark.parametrize("op", [op for op in Op if op in VMAP], ids=lambda op: op.name)
def test_each_row_is_used_by_an_op_of_its_name(op: Op) -> None:
    """What the rows above do not build: identities, bit operations, comparisons."""
    values = {0: np.arange(1, 7).reshape(2, 3), 1: np.arange(3, 9).reshape(2, 3)}
    a, b = (array_node(i, v, dt.int64) for i, v in values.items())
    built = {
        Op.NOT: lambda: make(Op.NOT, a.dtype, (a,)),
        Op.BITCAST: lambda: make(Op.BITCAST, dt.float64, (a,)),
        Op.DETACH: lambda: make(Op.DETACH, a.dtype, (a,)),
        Op.CHECKED: lambda: make(Op.CHECKED, a.dtype, (a,), IndexBound("gather", 0, 9)),
        **{o: lambda o=o: make(o, a.dtype, (a, b)) for o in (
            Op.IDIV, Op.AND, Op.OR, Op.XOR, Op.SHL, Op.SHR)},
        **{o: lambda o=o: make(o, dt.bool_, (a, b)) for o in (Op.CMPLT, Op.CMPNE)},
    }.get(op)
    if built is None:
        assert op in {case.values[0] for case in CASES}
        return
    for mapped in ({0}, {1}, {0, 1}):
        check_batch([built()], values, mapped)


@pytest.mark.parametrize("function", [
    special.relu, special.tanh, special.erf, special.floor, ew.absolute,
    lambda x: scans.cumulative_sum(x, 1)])
def test_the_gradient_rule_of_a_composite_is_batched(function) -> None:
    """Here the vjp is of the batched graph, so it calls the batched rule."""
    inputs = Inputs()
    x = inputs.leaf(np.zeros((2, 9)))
    values = np.random.default_rng(0).uniform(-1, 1, (SIZE, 2, 9))
    whole = inputs.leaf(values)
    node, = batch([function(x)], {unshaped(x.src[0]): reshape(whole, (SIZE, 18))}, SIZE)
    assert node is not None
    assert any(n.op is Op.CUSTOM_GRADIENT for n in toposort([node]))
    cotangent = np.random.default_rng(1).uniform(-1, 1, node.shape)
    found = inputs.gradients(node, cotangent)[1]
    for i in range(SIZE):
        one = Inputs()
        leaf = one.leaf(values[i])
        expected, = one.gradients(function(leaf), cotangent[i])
        np.testing.assert_allclose(found[i], expected, rtol=1e-13, atol=1e-15)


class Pair:
    """A group of two ranks."""

    rank, size = 0, 2


@pytest.mark.parametrize(("op", "axis"), [
    *((op, axis) for op in (Op.SHARD, Op.JOINED, Op.OWN) for axis in (0, 1)),
    (Op.JOINED, None), (Op.OWN, None)], ids=str)
def test_ranks_share_out_the_same_axis_of_all_examples(op: Op, axis: int | None) -> None:
    among = Sharding(Pair(), axis, "cpu", number=3)  # type: ignore[arg-type]
    x = array_node(0, np.zeros((2, 6)), dt.float64)
    node = make(op, x.dtype, (x,), among)
    examples = reshape(make(Op.BUFFER, dt.float64, (), Slot(1, SIZE * x.numel)), (SIZE, x.numel))
    found, = batch([node], {unshaped(x): examples}, SIZE)
    assert found is not None and (found.op, found.shape) == (op, (SIZE, *node.shape))
    assert found.arg == replace(among, axis=None if axis is None else axis + 1)


def test_nothing_is_made_of_what_is_the_same_for_all() -> None:
    shared = make(Op.BUFFER, dt.float32, (), Slot(0, 4))
    assert batch([ew.mul(shared, 2.0), const(1.0, dt.float32)], {}, SIZE) == [None, None]
