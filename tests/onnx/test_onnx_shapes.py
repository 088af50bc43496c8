"""Models that are called with many sizes: what comes once is not compiled."""
from __future__ import annotations

from typing import Any

import numpy as np
import onnx_if_there
import pytest
from tensor_values import counted_plans

import lazyten as lt

onnx = onnx_if_there.needed()

from lazyten.onnx.values import Constant  # noqa: E402

helper: Any = onnx.helper
FLOAT, INT64, BOOL = onnx.TensorProto.FLOAT, onnx.TensorProto.INT64, onnx.TensorProto.BOOL


pytestmark = pytest.mark.usefixtures("interpreting_as_users_do")


def loaded(nodes: list[Any], shape: list[Any], initializers: dict[str, Any]) -> Any:
    graph = helper.make_graph(
        nodes, "g", [helper.make_tensor_value_info("x", FLOAT, shape)],
        [helper.make_tensor_value_info("y", FLOAT, None)],
        [onnx.numpy_helper.from_array(v, k) for k, v in initializers.items()])
    return lt.onnx.load(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)]))


def texts() -> Any:
    weights = np.random.default_rng(0).standard_normal((8, 5)).astype(np.float32)
    model = loaded([helper.make_node("MatMul", ["x", "w"], ["h"]),
                    helper.make_node("Softmax", ["h"], ["y"], axis=-1)],
                   ["batch", "length", 8], {"w": weights})
    return model, weights


def text(*shape: int) -> Any:
    return np.random.default_rng(sum(shape)).standard_normal(shape).astype(np.float32)


def expected(x: Any, weights: Any) -> Any:
    h = np.exp(x.astype(np.float64) @ weights)
    return h / h.sum(-1, keepdims=True)


def check(model: Any, weights: Any, x: Any) -> None:
    np.testing.assert_allclose(model([x])[0], expected(x, weights), rtol=1e-5, atol=1e-6)


def test_the_first_sizes_are_compiled_and_others_when_they_come_in_turn() -> None:
    model, weights = texts()
    with counted_plans() as made:
        check(model, weights, text(2, 7, 8))
    assert len(made) == 1
    with counted_plans() as made:
        for length in (1, 5, 9, 12, 0):
            check(model, weights, text(2, length, 8))
    assert not made
    counts = []
    for _ in range(6):
        with counted_plans() as made:
            check(model, weights, text(2, 9, 8))
        counts.append(len(made))
    assert counts == [0, 0, 1, 0, 0, 0]


def test_sizes_that_come_now_and_then_are_compiled_once_that_would_have_been_quicker() -> None:
    model, weights = texts()
    check(model, weights, text(2, 7, 8))
    lengths = [10, 13, 11, 17, 12, 18]  # too few for a look at all, and they do not grow
    with counted_plans() as made:
        for length in lengths * 3:
            check(model, weights, text(2, length, 8))
    assert not made
    with counted_plans() as made:
        for length in lengths * 400:
            model([text(2, length, 8)])
            if made:
                break
    assert made


def test_tensors_that_carry_gradients_are_not_interpreted() -> None:
    model, weights = texts()
    model([text(1, 3, 8)])
    x = lt.tensor(text(1, 4, 8), requires_grad=True)
    y, = model([x])
    (y[..., 0].sum()).backward()
    h = expected(x.detach().numpy(), weights)
    w = np.float64(weights)
    slope = h[..., :1] * (w[:, 0] - h @ w.T)
    np.testing.assert_allclose(x.grad.numpy(), slope, rtol=1e-4, atol=1e-5)


def test_what_would_take_long_is_compiled() -> None:
    model, weights = texts()
    model([text(1, 3, 8)])
    with counted_plans() as made:
        check(model, weights, text(1, 2_000_000, 8))
    assert len(made) == 1


def test_steps_that_grow_and_values_that_sizes_depend_on() -> None:
    """A past that grows by one, and rows that are chosen by their values."""
    model = loaded([helper.make_node("Greater", ["x", "zero"], ["mask"]),
                    helper.make_node("Compress", ["x", "mask"], ["rows"]),
                    helper.make_node("Mul", ["rows", "rows"], ["y"])],
                   ["n"], {"zero": np.zeros((), np.float32)})
    for n in range(1, 9):
        x = text(n)
        np.testing.assert_allclose(model([x])[0], x[x > 0] ** 2, rtol=1e-6)
        np.testing.assert_allclose(model([-x])[0], x[x < 0] ** 2, rtol=1e-6)


def test_a_weight_that_a_jitted_call_needs_first_is_not_its_own() -> None:
    weight = Constant(np.array([1, 2, 3], np.float32))
    jitted = lt.jit(lambda x: x * weight.tensor(None))
    for _ in range(2):
        np.testing.assert_array_equal(jitted(lt.ones(3)).numpy(), [1, 2, 3])
