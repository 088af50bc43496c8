"""Weights in the order in which kernels read them: the same results, and held once."""
from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import onnx_if_there
import pytest

import lazyten as lt
from lazyten.codegen.targets.dialect import dialect_of
from lazyten.codegen.targets.target import AVX2, Target
from lazyten.runtimes.cpu.cpu import CpuRuntime
from lazyten.storage import device

onnx = onnx_if_there.needed()

helper: Any = onnx.helper
FLOAT = onnx.TensorProto.FLOAT
WIDE = replace(AVX2, name="wide", vector_bytes=64, vector_registers=32)
RNG = np.random.default_rng(0)


def whole(*shape: int) -> Any:
    """Whole numbers, whose sums nothing rounds."""
    return RNG.integers(-3, 4, shape).astype(np.float32)


def loaded(monkeypatch: pytest.MonkeyPatch, target: Target | None, nodes: list[Any],
           shape: tuple[int, ...], weights: dict[str, Any], outputs: str = "y") -> Any:
    monkeypatch.setattr("lazyten.onnx.program._target", lambda device: target)
    graph = helper.make_graph(
        nodes, "g", [helper.make_tensor_value_info("x", FLOAT, shape)],
        [helper.make_tensor_value_info(n, FLOAT, None) for n in outputs.split()],
        initializer=[onnx.numpy_helper.from_array(w, name) for name, w in weights.items()])
    return lt.onnx.load(helper.make_model(graph, ir_version=8, opset_imports=[
        helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]))


def node(kind: str, inputs: str, output: str, domain: str = "", **attributes: Any) -> Any:
    return helper.make_node(kind, inputs.split(), [output], domain=domain, **attributes)


MS = "com.microsoft"
CASES: dict[str, tuple[Any, tuple[int, ...], tuple[int, ...], tuple[int, int]]] = {
    "two vectors of channels": (node("Conv", "x w b", "y", pads=[1] * 4),
                                (2, 16, 7, 7), (32, 16, 3, 3), (0, 32)),
    "one vector of channels": (node("Conv", "x w", "y", strides=[2, 2]),
                               (1, 32, 9, 5), (48, 32, 3, 1), (0, 16)),
    "points": (node("Conv", "x w b", "y"), (1, 64, 5, 3), (64, 64, 1, 1), (0, 32)),
    "blocks in three axes": (node("Conv", "x w", "y", auto_pad="SAME_UPPER"),
                             (1, 16, 3, 4, 5), (32, 16, 2, 2, 2), (0, 32)),
    "a convolution and what follows": (node("FusedConv", "x w b", "y", MS, activation="Relu"),
                                       (1, 16, 5, 5), (32, 16, 3, 3), (0, 32)),
    "a matrix": (node("MatMul", "x w", "y"), (2, 3, 64), (64, 80), (1, 16)),
    "a vector and a matrix": (node("MatMul", "x w", "y"), (64,), (64, 80), (1, 16)),
    "a matrix, transposed": (node("Gemm", "x w b", "y", transB=1, alpha=2.0, beta=0.5),
                             (3, 64), (80, 64), (0, 16)),
    "windows of vectors of pixels": (node("Conv", "x w", "y", pads=[1] * 4), (1, 64, 5, 32),
                                     (32, 64, 3, 3), (0, 32)),
    "both transposed": (node("Gemm", "x w", "y", transB=1, transA=1), (64, 3), (80, 64), (0, 16)),
    "an older bias": (node("FusedGemm", "x w b", "y", MS, activation="Relu"), (3, 64), (64, 80),
                      (1, 16)),
    "scaled": (node("FusedMatMul", "x w", "y", MS, alpha=4.0, transB=1), (3, 64), (80, 64),
               (0, 16))}


@pytest.mark.parametrize("case", CASES)
def test_blocks_of_weights_change_no_result(case: str, monkeypatch: pytest.MonkeyPatch) -> None:
    call, shape, weights, blocks = CASES[case]
    given = {"w": whole(*weights)}
    if len(call.input) > 2:
        given["b"] = whole(80 if len(weights) == 2 else weights[0])
    x = whole(*shape)
    wanted, = loaded(monkeypatch, None, [call], shape, given)([x])
    model = loaded(monkeypatch, WIDE, [call], shape, given)
    np.testing.assert_array_equal(model([x])[0], wanted)
    held = model._graph.constants["w"]
    assert [*held._blocks] == [blocks]
    assert held._tensor is None
    assert held._array is None
    np.testing.assert_array_equal(held.array, given["w"])


@pytest.mark.parametrize(("call", "shape", "weights"), [
    (node("Conv", "x w", "y", group=2), (1, 64, 5, 5), (32, 32, 3, 3)),
    (node("Conv", "x w", "y"), (1, 64, 5, 5), (30, 64, 3, 3)),
    (node("Conv", "x w", "y"), (1, 64, 4, 32), (96, 64, 1, 1)),
    (node("Conv", "x w", "y"), (1, 64, 90), (32, 64, 3)),
    (node("Gemm", "x w", "y", transB=1), (3, 64), (81, 64)),
    (node("MatMul", "x w", "y"), (3, 64), (2, 64, 80)),
    (node("MatMul", "x w", "y"), (3, 16), (16, 16))],
    ids=("groups", "no blocks", "vectors of pixels", "a line", "rows", "several", "few"))
def test_other_weights_stay_as_they_are(call: Any, shape: tuple[int, ...],
                                        weights: tuple[int, ...],
                                        monkeypatch: pytest.MonkeyPatch) -> None:
    w, x = whole(*weights), whole(*shape)
    wanted, = loaded(monkeypatch, None, [call], shape, {"w": w})([x])
    model = loaded(monkeypatch, WIDE, [call], shape, {"w": w})
    np.testing.assert_array_equal(model([x])[0], wanted)
    assert model._graph.constants["w"]._blocks == {}


def test_weights_that_others_read_or_that_calls_replace_stay_as_they_are(
        monkeypatch: pytest.MonkeyPatch) -> None:
    w, x = whole(64, 64), whole(64, 64)
    nodes = [node("MatMul", "x w", "h"), node("Gemm", "h w", "y", transB=1),
             node("Add", "x w", "z")]
    for last, outputs in ((2, "y"), (3, "y z"), (1, "h w")):
        model = loaded(monkeypatch, WIDE, nodes[:last], (64, 64), {"w": w}, outputs)
        found = dict(zip(outputs.split(), model([x]), strict=True))
        assert last == 2 or model._graph.constants["w"]._blocks == {}
        for name, wanted in {"h": x @ w, "y": x @ w @ w.T, "z": x + w, "w": w}.items():
            np.testing.assert_array_equal(found.get(name, wanted), wanted)


def test_a_default_of_an_input_can_be_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    w, x = whole(64, 64), whole(3, 64)
    file = helper.make_model(helper.make_graph(
        [node("MatMul", "x w", "y")], "g",
        [helper.make_tensor_value_info("x", FLOAT, (3, 64)),
         helper.make_tensor_value_info("w", FLOAT, (64, 64))],
        [helper.make_tensor_value_info("y", FLOAT, None)],
        initializer=[onnx.numpy_helper.from_array(w, "w")]), ir_version=8, opset_imports=[
            helper.make_opsetid("", 17)])
    monkeypatch.setattr("lazyten.onnx.program._target", lambda device: WIDE)
    model = lt.onnx.load(file)
    np.testing.assert_array_equal(model([x])[0], x @ w)
    np.testing.assert_array_equal(model({"x": x, "w": w + 1})[0], x @ (w + 1))


def test_blocks_of_narrower_vectors_are_lines_of_caches(monkeypatch: pytest.MonkeyPatch) -> None:
    x = whole(3, 64)
    for columns, blocks in ((80, [(1, 16)]), (72, [])):
        w = whole(64, columns)
        model = loaded(monkeypatch, AVX2, [node("MatMul", "x w", "y")], (3, 64), {"w": w})
        np.testing.assert_array_equal(model([x])[0], x @ w)
        assert [*model._graph.constants["w"]._blocks] == blocks


def test_vectors_of_opencl_are_blocks_each(monkeypatch: pytest.MonkeyPatch) -> None:
    target = replace(WIDE, language=dialect_of("clang-opencl"))
    model = loaded(monkeypatch, target, [node("Conv", "x w", "y", pads=[1] * 4)], (2, 16, 7, 7),
                   {"w": whole(32, 16, 3, 3)})
    model([whole(2, 16, 7, 7)])
    assert [*model._graph.constants["w"]._blocks] == [(0, 16)]


class Other(CpuRuntime):
    """A device beside the model's own."""


def test_weights_are_where_the_model_is(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever a call before had its inputs on."""
    monkeypatch.setitem(device.BUILT_IN, "other", f"{__name__}:Other")
    w, x = whole(64, 64), whole(3, 64)
    model = loaded(monkeypatch, WIDE, [node("MatMul", "x w", "y")], (3, 64), {"w": w})
    with pytest.raises(lt.DeviceError, match="matmul of tensors on 'other' and 'cpu'"):
        model([lt.tensor(x, device="other")])
    np.testing.assert_array_equal(model([lt.tensor(x, device="cpu")])[0].numpy(), x @ w)


@pytest.mark.parametrize(("shape", "strides"), [((), [1, 1]), ((32, 9), [2, 2]),
                                                ((1, 32, 9, 9), [0, 0])])
def test_what_is_wrong_with_a_convolution_is_said_as_without_blocks(
        shape: tuple[int, ...], strides: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    told = []
    for target in (None, WIDE):
        model = loaded(monkeypatch, target, [node("Conv", "x w", "y", strides=strides)], shape,
                       {"w": whole(32, 32, 3, 3)})
        with pytest.raises(lt.LazytenError) as error:
            model([whole(*shape)])
        told.append(str(error.value))
    assert told[0] == told[1]
