"""Images of narrow types made larger: rounded once, when all axes are done."""
from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import onnx_if_there
import pytest

import lazyten as lt

onnx = onnx_if_there.needed()
from lazyten.onnx.operators.resizing import matrices  # noqa: E402

helper: Any = onnx.helper
NEAR, FAR = 0.75, 0.25
"""Shares of the two pixels that one of twice as many lies between."""


def resized(x: Any, kind: int) -> Any:
    node = helper.make_node("Resize", ["x", "", "scales"], ["y"], mode="linear")
    graph = helper.make_graph(
        [node], "g", [helper.make_tensor_value_info("x", kind, x.shape)],
        [helper.make_tensor_value_info("y", kind, None)],
        [onnx.numpy_helper.from_array(np.array([1, 1, 2, 2], np.float32), "scales")])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 19)])
    return lt.onnx.load(model)([x])[0]


def twice(x: Any, axis: int) -> Any:
    """Linear interpolation at halves of pixels, in float64."""
    x = np.moveaxis(np.asarray(x, np.float64), axis, 0)
    edges = np.concatenate([x[:1], x, x[-1:]])
    rows = np.stack([NEAR * x + FAR * edges[:-2], NEAR * x + FAR * edges[2:]], 1)
    return np.moveaxis(rows.reshape(-1, *x.shape[1:]), 0, axis)


@pytest.mark.parametrize(("dtype", "kind"), [
    (np.int8, "INT8"), (np.uint8, "UINT8"), (np.int32, "INT32"), (np.float16, "FLOAT16"),
    (ml_dtypes.bfloat16, "BFLOAT16"), (np.float64, "DOUBLE")])
def test_what_is_between_pixels_is_rounded_once(dtype: Any, kind: str) -> None:
    """Whole numbers lose their fraction, as in onnxruntime."""
    values = np.random.default_rng(0).integers(0 if kind == "UINT8" else -100, 100, (1, 2, 5, 6))
    x = (values if np.dtype(dtype).kind in "iu" else values / 8).astype(dtype)
    found = resized(x, getattr(onnx.TensorProto, kind))
    assert found.dtype == dtype
    np.testing.assert_array_equal(found, twice(twice(x, 2), 3).astype(dtype))


@pytest.mark.filterwarnings("error")
def test_places_that_are_near_nothing_have_no_weights() -> None:
    weights, outside = matrices(4, 7, 1.75, "cubic", "tf_crop_and_resize", "", -0.75, 1, 0, (-1, 2))
    assert weights is not None and outside.tolist() == [True, True, False, False, False, True, True]
    np.testing.assert_allclose(weights.sum(1), [0, 1, 1, 1, 1, 1, 0])
