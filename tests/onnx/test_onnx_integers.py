"""Products with weights of integers: laid out beforehand, whatever their zero points."""
from __future__ import annotations

from typing import Any

import numpy as np
import onnx_if_there
import pytest

import lazyten as lt

onnx = onnx_if_there.needed()

helper: Any = onnx.helper
FLOAT, UINT8 = onnx.TensorProto.FLOAT, onnx.TensorProto.UINT8
N, K, M = 24, 40, 6
RNG = np.random.default_rng(0)
X = RNG.integers(0, 256, (M, K)).astype(np.uint8)
WEIGHTS = {"signed": RNG.integers(-128, 128, (K, N)).astype(np.int8),
           "unsigned": RNG.integers(0, 256, (K, N)).astype(np.uint8)}
ZEROS: dict[str, Any] = {"none": None, "of zero": np.int8(0), "one": np.int8(7),
                         "one a column": np.arange(N, dtype=np.int8)}


def model(kind: str, inputs: str, initializers: dict[str, Any], domain: str = "",
          **attributes: Any) -> Any:
    """One node of x and constants."""
    node = helper.make_node(kind, [n if n != "-" else "" for n in inputs.split()], ["y"],
                            domain=domain, **attributes)
    graph = helper.make_graph(
        [node], "g", [helper.make_tensor_value_info("x", UINT8, ["m", K])],
        [helper.make_tensor_value_info("y", FLOAT, None)],
        initializer=[onnx.numpy_helper.from_array(np.asarray(v), name)
                     for name, v in initializers.items()])
    opsets = [helper.make_opsetid("", 20), helper.make_opsetid("com.microsoft", 1)]
    return lt.onnx.load(helper.make_model(graph, opset_imports=opsets))


@pytest.mark.parametrize("zero", ZEROS)
@pytest.mark.parametrize("kind", WEIGHTS)
def test_products_are_those_of_what_is_less_its_zero_point(kind: str, zero: str) -> None:
    weight = WEIGHTS[kind]
    given = {} if ZEROS[zero] is None else {"wz": np.asarray(ZEROS[zero]).astype(weight.dtype)}
    found, = model("MatMulInteger", "x w xz wz" if given else "x w xz",
                   {"w": weight, "xz": np.uint8(131), **given})([X])
    wide = weight.astype(np.int32) - np.asarray(given.get("wz", 0), np.int32)
    assert found.dtype == np.int32
    np.testing.assert_array_equal(found, (X.astype(np.int32) - 131) @ wide)


@pytest.mark.parametrize("turned", [0, 1])
@pytest.mark.parametrize("zero", ["of zero", "one", "one a column"])
def test_a_quantized_linear_layer_is_that_of_floats(zero: str, turned: int) -> None:
    w, wz = WEIGHTS["signed"], ZEROS[zero]
    c = RNG.integers(-99, 99, N).astype(np.int32)
    found, = model("QGemm", "x xs xz w ws wz c", {
        "xs": np.float32(0.5), "xz": np.uint8(3), "w": w.T if turned else w, "c": c,
        "ws": np.float32(0.25), "wz": wz}, "com.microsoft", transB=turned)([X])
    whole = (X.astype(np.int32) - 3) @ (w.astype(np.int32) - np.asarray(wz, np.int32)) + c
    np.testing.assert_array_equal(found, whole.astype(np.float32) * np.float32(0.125))


@pytest.mark.parametrize(("zero", "dtype"), [("of zero", np.int8), ("one", np.int16)])
def test_weights_lie_as_they_are_read_and_their_zero_points_are_taken_off_beforehand(
        zero: str, dtype: Any) -> None:
    """Neighbours are multiplied and added at once: those of a column."""
    w, wz = WEIGHTS["signed"], ZEROS[zero]
    loaded = model("MatMulInteger", "x w xz wz", {"w": w, "xz": np.uint8(9), "wz": wz})
    held, = [x.array for x in loaded._program.constants.values() if x.array.size == w.size]
    assert held.dtype == dtype
    np.testing.assert_array_equal(held, w.astype(int).T - wz)


@pytest.mark.parametrize("dtype", [np.uint8, np.int8, np.uint16, np.int16])
@pytest.mark.parametrize("kind", [np.float32, np.float16])
def test_what_is_beyond_a_narrow_type_is_its_end_however_far_it_is(dtype: Any, kind: Any) -> None:
    """Halves are rounded to the even number."""
    ends = np.iinfo(dtype)
    x = np.concatenate([np.arange(-300, 300, 0.25), [6e4, -6e4, np.inf, -np.inf],
                        *([[3e9, -3e9, 2.0 ** 31, 1e38]] if kind is np.float32 else [])])
    for zero in (ends.min, ends.max, (ends.min + ends.max) // 2 + 7):
        graph = helper.make_graph(
            [helper.make_node("QuantizeLinear", ["x", "scale", "zero"], ["y"])], "g",
            [helper.make_tensor_value_info("x", helper.np_dtype_to_tensor_dtype(np.dtype(kind)),
                                           ["n"])],
            [helper.make_tensor_value_info("y", UINT8, None)],
            initializer=[onnx.numpy_helper.from_array(v, name) for name, v in (
                ("scale", np.array(0.5, kind)), ("zero", np.array(zero, dtype)))])
        found, = lt.onnx.load(helper.make_model(graph, opset_imports=[
            helper.make_opsetid("", 21)]))([x.astype(kind)])
        with np.errstate(over="ignore"):
            ratio = (x.astype(kind) / kind(0.5)).astype(np.float64)
        np.testing.assert_array_equal(found, np.clip(np.rint(ratio) + zero, ends.min, ends.max))


DEQUANTIZED: dict[str, Any] = {
    "a product": ("MatMul", {}, {}), "a layer": ("Gemm", {"transB": 1}, {}),
    "columns of their own": ("MatMul", {}, {"axis": 1}),
    "rows of their own": ("Gemm", {"transB": 1}, {"axis": 0}),
    "scales of the other axis": ("MatMul", {}, {"axis": 0}),
    "a share": ("Gemm", {"transB": 1, "alpha": 0.5}, {})}


def dequantized(case: str, depth: int) -> tuple[Any, Any]:
    """A product of x, quantized and dequantized, and a matrix of integers; and what it gives."""
    kind, options, axis = DEQUANTIZED[case]
    rng = np.random.default_rng(depth)
    turned = bool(options.get("transB"))
    w = rng.integers(-128, 128, (9, depth) if turned else (depth, 9)).astype(np.int8)
    shape = (w.shape[axis["axis"]],) if axis else ()
    scale = (2.0 ** rng.integers(-6, -3, shape)).astype(np.float32)
    wide = w * scale.reshape([-1 if i == axis.get("axis") else 1 for i in range(2)])
    c = rng.integers(-9, 9, 9).astype(np.float32)
    nodes = [helper.make_node("QuantizeLinear", ["x", "s", "z"], ["q"]),
             helper.make_node("DequantizeLinear", ["q", "s", "z"], ["d"]),
             helper.make_node("DequantizeLinear", ["w", "ws"], ["dw"], **axis),
             helper.make_node(kind, ["d", "dw", *(["c"] if kind == "Gemm" else [])], ["y"],
                              **options)]
    graph = helper.make_graph(
        nodes, "g", [helper.make_tensor_value_info("x", FLOAT, ["m", depth])],
        [helper.make_tensor_value_info("y", FLOAT, None)],
        initializer=[onnx.numpy_helper.from_array(np.asarray(v), name) for name, v in (
            ("s", np.float32(0.25)), ("z", np.uint8(5)), ("w", w), ("ws", scale), ("c", c))])

    def wanted(x: Any) -> Any:
        seen = (np.clip(np.rint(x * 4) + 5, 0, 255) - 5) * 0.25
        found = seen @ (wide.T if turned else wide) * options.get("alpha", 1.0)
        return found + c if kind == "Gemm" else found
    return lt.onnx.load(helper.make_model(graph, opset_imports=[
        helper.make_opsetid("", 20)])), wanted


@pytest.mark.parametrize("depth", [40, 300])
@pytest.mark.parametrize("case", DEQUANTIZED)
def test_long_sums_of_dequantized_products_are_those_of_integers(case: str, depth: int) -> None:
    """Where all scales stand outside of the sums."""
    loaded, wanted = dequantized(case, depth)
    x = np.random.default_rng(2).integers(-120, 200, (6, depth)).astype(np.float32) / 4
    np.testing.assert_array_equal(loaded([x])[0], wanted(x))
    held = {c.dtype for c in loaded._program.constants.values() if c.array.size == 9 * depth}
    outside = case not in ("scales of the other axis", "a share")
    assert held == {np.dtype(np.int8 if outside and depth == 300 else np.float32)}
