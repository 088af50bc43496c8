"""TopK beside NumPy: of any axis, of equal elements, and without sorting what is not asked for."""
from __future__ import annotations

from typing import Any

import numpy as np
import onnx_if_there
import pytest

import lazyten as lt

onnx = onnx_if_there.needed()

helper: Any = onnx.helper
FLOAT, INT64 = onnx.TensorProto.FLOAT, onnx.TensorProto.INT64


def top_k(shape: tuple[int, ...], count: int, **attributes: Any) -> Any:
    graph = helper.make_graph(
        [helper.make_node("TopK", ["x", "k"], ["values", "places"], **attributes)], "g",
        [helper.make_tensor_value_info("x", FLOAT, shape)],
        [helper.make_tensor_value_info("values", FLOAT, None),
         helper.make_tensor_value_info("places", INT64, None)],
        initializer=[onnx.numpy_helper.from_array(np.array([count]), "k")])
    return lt.onnx.load(helper.make_model(graph, ir_version=8, opset_imports=[
        helper.make_opsetid("", 17)]))


@pytest.mark.parametrize("largest", [0, 1])
@pytest.mark.parametrize(("shape", "count", "axis"), [
    ((3000, 2), 3, 0), ((3000, 2), 40, -2), ((2, 5), 5, 1), ((2, 7), 0, 1), ((0, 9), 2, 1),
    ((1,), 1, 0), ((3, 20, 2), 9, 1)])
def test_the_first_of_equal_ones_comes_first(shape: tuple[int, ...], count: int, axis: int,
                                             largest: int) -> None:
    x = np.random.default_rng(0).integers(-400, 400, shape).astype(np.float32)
    order = np.argsort(-x if largest else x, axis, kind="stable").take(range(count), axis)
    values, places = top_k(shape, count, axis=axis, largest=largest)([x])
    np.testing.assert_array_equal(places, order)
    np.testing.assert_array_equal(values, np.take_along_axis(x, order, axis))


@pytest.mark.parametrize(("count", "kernels"), [(3, 10), (40, 50)])
def test_what_is_not_asked_for_is_not_sorted(count: int, kernels: int) -> None:
    model, x = top_k((3000,), count), np.arange(3000, dtype=np.float32)
    assert lt.testing.count_kernels(lambda: model([x])) < kernels  # a sort has 78 stages
