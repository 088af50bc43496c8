"""Every row of the VJP table against finite differences in float64, and what the walk does."""
from __future__ import annotations

import math

import numpy as np
import pytest
from gradient_cases import CASES, LOSSY, ROWS, SHAPE, Build, build, ordinary, reducing
from numeric_gradients import Inputs, check_gradients

from lazyten.autodiff.gradient import vjp
from lazyten.autodiff.vjp_rules import NO_GRADIENT, VJP
from lazyten.ir import dtype as dt
from lazyten.ir.node import (
    Node,
    cast,
    const,
    elementwise,
    expand,
    make,
    move,
    reduce,
    reshape,
    toposort,
)
from lazyten.ir.ops import LOOP_ONLY, Op
from lazyten.support.errors import GradientError, InternalError
from lazyten.support.location import Location, attribute_to


def test_every_graph_op_has_a_gradient_rule_or_is_named_as_having_none():
    named = set(VJP) | NO_GRADIENT | {Op.CUSTOM_GRADIENT, Op.SCAN}
    assert {op for op in Op if op not in LOOP_ONLY} == named
    assert not set(VJP) & NO_GRADIENT
    assert set(ROWS) == set(VJP), "every rule has a row of checks"


@pytest.mark.parametrize(("op", "number"), CASES)
def test_every_rule_agrees_with_central_differences(op, number):
    inputs, output = build(op, number)
    assert any(n.op is op for n in toposort([output]))
    if op in LOSSY:
        assert np.all(inputs.gradients(output, np.full(SHAPE, 0.5))[0] == 0.5)
    else:
        check_gradients(inputs, output)


@pytest.mark.parametrize("op", [op for op in VJP if op not in LOSSY], ids=lambda op: op.name)
def test_a_rule_that_is_off_by_a_thousandth_fails_its_check(op, monkeypatch):
    for position, rule in enumerate(VJP[op]):
        if rule is None:
            continue

        def wrong(g, n, rule=rule):
            right = rule(g, n)
            return elementwise(Op.MUL, right, const(1.001, right.dtype, right.shape))

        rules = VJP[op]
        inputs, output = build(op, 0)
        with monkeypatch.context() as patch:
            patch.setitem(VJP, op, (*rules[:position], wrong, *rules[position + 1:]))
            with pytest.raises(AssertionError):
                check_gradients(inputs, output)


SMOOTH = [Op.EXP, Op.EXP2, Op.LOG2, Op.SIN, Op.COS, Op.SQRT, Op.RECIPROCAL,
          Op.MUL, Op.DIV, Op.POW, Op.MULACC]


@pytest.mark.parametrize("op", SMOOTH, ids=lambda op: op.name)
def test_the_gradient_of_a_gradient_agrees_with_central_differences(op):
    inputs, output = build(op, 0)
    seed = inputs.array(np.random.default_rng(5).uniform(0.5, 1.5, SHAPE))
    for gradient in vjp(output, seed, inputs.leaves):
        check_gradients(inputs, gradient)


@pytest.mark.parametrize("axes", [(0,), (2,), (0, 1)])
def test_the_gradient_of_a_product_s_gradient_agrees_with_central_differences(axes):
    inputs = Inputs()
    x = inputs.leaf(np.random.default_rng(1).uniform(0.5, 2, SHAPE))
    product = reduce(x, Op.MUL, axes)
    gradient, = vjp(product, const(1.0, dt.float64, product.shape), [x])
    check_gradients(inputs, gradient)


# ---- values at ties and edges, as PyTorch has them -----------------------------------------------

def gradient_at(build: Build, *values: list[float]) -> list[list[float]]:
    inputs = Inputs()
    output = build(*(inputs.leaf(np.array(v, float)) for v in values))
    return [g.tolist() for g in inputs.gradients(output, np.ones(output.shape))]


def test_maximum_halves_the_cotangent_between_equal_operands():
    assert gradient_at(ordinary(Op.MAX), [1, 2, 3], [2, 2, 2]) == [[0, 0.5, 1], [1, 0.5, 0]]


def test_a_maximum_over_an_axis_shares_the_cotangent_evenly_among_ties():
    assert gradient_at(reducing(Op.MAX, 1), [[3, 1, 3, 3], [0, 5, 4, 5]]) == [
        [[1 / 3, 0, 1 / 3, 1 / 3], [0, 0.5, 0, 0.5]]]


def test_the_gradient_of_a_product_is_right_with_zeros():
    assert gradient_at(reducing(Op.MUL, 1), [[2, 3, 4], [2, 0, 4], [0, 0, 4], [0, 0, 0]]) == [
        [[12, 8, 6], [0, 8, 0], [0, 0, 0], [0, 0, 0]]]


@pytest.mark.torch
def test_power_at_base_zero_and_exponent_zero_has_the_gradients_of_pytorch():
    base, exponent = gradient_at(ordinary(Op.POW), [0, 0, 0, 0], [0, 1, 2, 0.5])
    assert (base, exponent) == ([0, 1, 0, np.inf], [0, 0, 0, 0])
    torch = pytest.importorskip("torch")
    a = torch.tensor([0.0, 0, 0, 0], requires_grad=True)
    b = torch.tensor([0.0, 1, 2, 0.5], requires_grad=True)
    torch.pow(a, b).sum().backward()
    assert (a.grad.tolist(), b.grad.tolist()) == (base, exponent)


def test_the_gradient_of_sine_keeps_its_accuracy_at_large_arguments():
    x = np.linspace(-1e4, 1e4, 1001)
    found, = gradient_at(ordinary(Op.SIN), x)
    np.testing.assert_allclose(found, np.cos(x), atol=1e-15)


@pytest.mark.parametrize("dtype", [dt.float16, dt.bfloat16, dt.float32], ids=lambda d: d.name)
def test_a_gradient_through_a_cast_comes_back_in_the_source_s_dtype(dtype):
    x = make(Op.LEAF, dtype, (const(1.0, dtype, (3,)),), 0)
    wide = elementwise(Op.SIN, cast(x, dt.float64))
    gradient, = vjp(wide, const(1.0, dt.float64, (3,)), [x])
    assert gradient.dtype is dtype


def test_a_copy_s_cotangent_goes_back_to_the_device_it_came_from():
    inputs = Inputs()
    x = inputs.leaf(np.ones(3))
    there = make(Op.COPY, x.dtype, (x,), ("cpu", "interpreter"))
    gradient, = vjp(elementwise(Op.MUL, there, there), const(1.0, dt.float64, (3,)), [x])
    assert (gradient.op, gradient.arg) == (Op.COPY, ("interpreter", "cpu"))


@pytest.mark.parametrize("shape", [(0,), (0, 3), (2, 0)])
def test_gradients_of_empty_arrays_are_empty(shape):
    inputs = Inputs()
    x = inputs.leaf(np.zeros(shape))
    for op in (Op.ADD, Op.MUL):
        found, = inputs.gradients(elementwise(Op.SIN, reduce(x, op, range(len(shape)))),
                                  np.ones([1] * len(shape)))
        assert found.shape == shape


# ---- what the walk visits ------------------------------------------------------------------------

def leaf(*values: float) -> tuple[Inputs, Node]:
    inputs = Inputs()
    return inputs, inputs.leaf(np.array(values))


def ones(node: Node) -> Node:
    return const(1.0, node.dtype, node.shape)


def test_cotangents_of_all_uses_of_a_node_are_added():
    inputs, x = leaf(0.3, 0.7)
    s = elementwise(Op.SIN, x)
    output = elementwise(Op.ADD, elementwise(Op.MUL, s, s), elementwise(Op.MUL, s, x))
    check_gradients(inputs, output)


def test_a_leaf_that_the_output_does_not_use_has_no_gradient():
    inputs, x = leaf(1, 2)
    other = inputs.leaf(np.ones(2))
    output = elementwise(Op.SIN, x)
    assert vjp(output, ones(output), [other, x])[0] is None
    assert vjp(output, ones(output), [other, x])[1] is not None


def test_two_leaves_with_equal_values_have_gradients_of_their_own():
    inputs = Inputs()
    values = inputs.array(np.ones(2))
    a, b = (make(Op.LEAF, values.dtype, (values,), i) for i in (1, 2))
    output = elementwise(Op.MUL, a, const(3.0, a.dtype, a.shape))
    assert vjp(output, ones(output), [b]) == [None]
    assert inputs.evaluate(vjp(output, ones(output), [a]))[0].tolist() == [3, 3]


def test_the_gradient_of_the_output_itself_is_the_cotangent():
    _, x = leaf(1, 2)
    seed = const(2.0, x.dtype, x.shape)
    assert vjp(x, seed, [x, x]) == [seed, seed]


def test_a_value_between_leaf_and_output_can_be_asked_for_too():
    inputs, x = leaf(0.5, 1.5)
    middle = elementwise(Op.MUL, x, x)
    output = elementwise(Op.SIN, middle)
    at_middle, at_leaf = inputs.evaluate(vjp(output, ones(output), [middle, x]))
    np.testing.assert_allclose(at_middle, np.cos([0.25, 2.25]))
    np.testing.assert_allclose(at_leaf, np.cos([0.25, 2.25]) * [1, 3])


def test_gradients_stop_at_detach():
    inputs, x = leaf(2, 3)
    stopped = make(Op.DETACH, x.dtype, (elementwise(Op.MUL, x, x),))
    assert vjp(elementwise(Op.SIN, stopped), ones(x), [x]) == [None]
    found, = inputs.gradients(elementwise(Op.MUL, stopped, x), np.ones(2))
    assert found.tolist() == [4, 9]


STEPS: dict[str, Build] = {
    "comparison": lambda x: elementwise(Op.CMPLT, x, elementwise(Op.SIN, x)),
    "cast to int": lambda x: cast(x, dt.int32),
    "cast to int and back": lambda x: cast(cast(x, dt.int32), dt.float64),
    "floor division": lambda x: elementwise(Op.IDIV, x, ones(x)),
    "bitcast": lambda x: make(Op.BITCAST, dt.int64, (x,)),
    "condition": lambda x: elementwise(Op.WHERE, elementwise(Op.CMPNE, x, ones(x)), ones(x),
                                       const(2.0, x.dtype, x.shape)),
}


@pytest.mark.parametrize("name", STEPS)
def test_nothing_flows_through_what_does_not_vary_smoothly(name):
    _, x = leaf(1, 2)
    output = STEPS[name](x)
    assert vjp(output, ones(output), [x]) == [None]


def test_a_custom_gradient_replaces_the_gradient_of_its_value_s_expression():
    def tripled(cotangent, node):
        assert node.op is Op.CUSTOM_GRADIENT
        return elementwise(Op.MUL, cotangent, const(3.0, cotangent.dtype, cotangent.shape)), None

    inputs, x = leaf(0.5, 1.5)
    y = inputs.leaf(np.ones(2))
    value = elementwise(Op.MUL, elementwise(Op.SIN, x), y)
    output = make(Op.CUSTOM_GRADIENT, x.dtype, (value, x, y), tripled)
    assert inputs.evaluate(vjp(output, ones(x), [x]))[0].tolist() == [3, 3]
    assert vjp(output, ones(x), [y]) == [None]


def test_a_custom_gradient_that_does_not_fit_its_inputs_names_the_rule_and_the_input():
    def short(cotangent, node):
        return ()

    def misshapen(cotangent, node):
        return (reduce(cotangent, Op.ADD, (0,)),)

    _, x = leaf(1, 2)
    for rule, message in [(short, "short gave 0 cotangents for 1 inputs"),
                          (misshapen, "misshapen gave .* for input 0")]:
        output = make(Op.CUSTOM_GRADIENT, x.dtype, (x, x), rule)
        with pytest.raises(GradientError, match=message):
            vjp(output, ones(x), [x])


def test_a_cotangent_of_another_shape_is_refused():
    _, x = leaf(1, 2)
    with pytest.raises(InternalError, match="does not fit"):
        vjp(x, const(1.0, x.dtype, (3,)), [x])


def test_no_rule_is_applied_where_no_gradient_is_wanted(monkeypatch):
    _, x = leaf(1, 2)
    other = elementwise(Op.SIN, const(2.0, x.dtype, x.shape))
    output = elementwise(Op.MUL, x, other)
    monkeypatch.setitem(VJP, Op.SIN, (lambda g, n: pytest.fail("sin's rule was applied"),))
    rules = (VJP[Op.MUL][0], lambda g, n: pytest.fail("the constant's rule was applied"))
    monkeypatch.setitem(VJP, Op.MUL, rules)
    assert vjp(output, ones(output), [x]) == [other]


def test_a_chain_of_twenty_thousand_ops_is_differentiated():
    inputs, x = leaf(0.5)
    node = x
    for _ in range(20_000):
        node = elementwise(Op.ADD, elementwise(Op.NEG, node), x)
    assert [g.tolist() for g in inputs.gradients(node, np.ones(1))] == [[1]]


def test_gradient_nodes_belong_to_the_line_of_the_forward_op():
    _, x = leaf(1.25, 2, 3, 4, 5, 6, 7)  # as many as no other test has, whose nodes may be there
    line = Location("model.py", 12)
    with attribute_to(line):
        output = elementwise(Op.SIN, x)
    gradient, = vjp(output, const(7.5, x.dtype, x.shape), [x])
    assert gradient.where == line


def test_constant_factors_of_exp_and_log_cancel():
    _, x = leaf(1, 2)
    log2_e, ln_2 = (const(v, x.dtype, x.shape) for v in (np.log2(np.e), np.log(2)))
    exp = elementwise(Op.EXP2, elementwise(Op.MUL, x, log2_e))
    assert vjp(exp, ones(x), [x]) == [exp]
    log = elementwise(Op.MUL, elementwise(Op.LOG2, x), ln_2)
    assert vjp(log, ones(x), [x]) == [elementwise(Op.DIV, ones(x), x)]


def convolution(x: Node, weight: Node, step: int, reshaped: bool) -> Node:
    """out[o, i] = sum of weight[o, c, t] * x[i + step*t, c] over c and t, as EXPAND and SHEAR."""
    (n, channels), (outputs, _, taps) = x.shape, weight.shape
    front = () if reshaped else (1,)
    wide = expand(reshape(x, (*front, n, channels, 1)), (*front, n, channels, taps))
    rank, count = len(front), n - step * (taps - 1)
    windows = move(Op.SHEAR, wide, (rank, rank + 2, step, 0, count))
    full = (outputs, count, channels, taps)
    product = elementwise(Op.MUL, expand(reshape(windows, (1, *full[1:])), full),
                          expand(reshape(weight, (outputs, 1, channels, taps)), full))
    return reduce(product, Op.ADD, (2, 3))


@pytest.mark.parametrize("step", [1, 2])
@pytest.mark.parametrize("reshaped", [False, True])
def test_a_convolution_s_gradient_for_its_input_is_one_sum(step, reshaped):
    rng = np.random.default_rng(0)
    inputs = Inputs()
    x, weight = inputs.leaf(rng.uniform(-1, 1, (9, 2))), inputs.leaf(rng.uniform(-1, 1, (4, 2, 3)))
    output = convolution(x, weight, step, reshaped)
    check_gradients(inputs, output)
    gradient, _ = vjp(output, ones(output), [x, weight])
    reduces = [n for n in toposort([gradient]) if n.op is Op.REDUCE]
    assert [math.prod(n.src[0].shape) // n.numel for n in reduces] == [4 * 3]
