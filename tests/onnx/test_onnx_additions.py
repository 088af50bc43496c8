"""Operators that onnxruntime has for GPUs alone, beside what they stand for."""
from __future__ import annotations

import math
from typing import Any

import numpy as np
import onnx_if_there
import pytest

import lazyten as lt
from lazyten.nn import functional as F

onnx = onnx_if_there.needed()
helper: Any = onnx.helper


def floats(*shape: int) -> Any:
    return np.random.default_rng(len(shape)).standard_normal(shape).astype(np.float32)


def called(kind: str, attributes: dict[str, Any], *inputs: Any, outputs: int = 1) -> list[Any]:
    names = [f"i{k}" for k in range(len(inputs))]
    given = [helper.make_tensor_value_info(n, helper.np_dtype_to_tensor_dtype(x.dtype), x.shape)
             for n, x in zip(names, inputs, strict=True)]
    found = [f"o{k}" for k in range(outputs)]
    graph = helper.make_graph(
        [helper.make_node(kind, names, found, domain="com.microsoft", **attributes)], "g", given,
        [helper.make_value_info(n, onnx.TypeProto()) for n in found])
    model = lt.onnx.load(helper.make_model(graph, opset_imports=[
        helper.make_opsetid("com.microsoft", 1), helper.make_opsetid("", 17)]))
    return model(list(inputs))  # type: ignore[no-any-return]


def close(found: Any, wanted: lt.Tensor) -> None:
    np.testing.assert_allclose(found, wanted.numpy(), 1e-4, 1e-5)


@pytest.mark.parametrize("last", [0, 1])
def test_groups_of_channels_are_normalized_and_so_are_sums(last: int) -> None:
    x, skip, scale, shift = floats(2, 4, 5, 8), floats(2, 8), floats(8), floats(8) + 1
    channels = lt.tensor(x if last else x.transpose(0, 3, 1, 2))
    plain = F.silu(F.group_norm(channels.movedim(-1, 1) if last else channels, 2,
                                lt.tensor(scale), lt.tensor(shift), 1e-3))
    options = {"groups": 2, "activation": 1, "epsilon": 1e-3, "channels_last": last}
    close(called("GroupNorm", options, channels.numpy(), scale, shift)[0],
          plain.movedim(1, -1) if last else plain)
    total = channels + lt.tensor(skip + scale).reshape((2, 1, 1, 8) if last else (2, 8, 1, 1))
    found, sums = called("SkipGroupNorm", options, channels.numpy(), scale, shift, skip, scale,
                         outputs=2)
    close(sums, total)
    close(found, lt.tensor(called("GroupNorm", options, total.numpy(), scale, shift)[0]))


def test_halves_gate_each_other_and_biases_are_added() -> None:
    x, bias = floats(2, 3, 8), floats(8)
    value, gate = lt.tensor(x + bias).chunk(2, -1)
    close(called("BiasSplitGelu", {}, x, bias)[0], value * F.gelu(gate))
    close(called("BiasAdd", {}, x, bias, x)[0], lt.tensor(x + bias + x))


def test_convolutions_take_channels_in_the_last_axis() -> None:
    x, w, b = floats(1, 6, 5, 4), floats(8, 4, 3, 3), floats(8)
    wanted = F.conv2d(lt.tensor(x).movedim(-1, 1), lt.tensor(w), lt.tensor(b), padding=1)
    options = {"pads": [1, 1, 1, 1]}
    close(called("NhwcConv", options, x, w.transpose(0, 2, 3, 1), b)[0], wanted.movedim(1, -1))
    more = floats(1, 6, 5, 8)
    close(called("NhwcFusedConv", {**options, "activation": "Relu"}, x, w, b, more)[0],
          F.relu(wanted.movedim(1, -1) + lt.tensor(more)))


def test_means_of_quantized_numbers_are_quantized() -> None:
    x = np.arange(24, dtype=np.uint8).reshape(2, 3, 4)
    found, = called("QLinearReduceMean", {"axes": [1], "keepdims": 0}, x, np.float32([0.5])[0:1],
                    np.uint8([4]), np.float32([0.25]), np.uint8([9]))
    np.testing.assert_array_equal(found, ((x.mean(1) - 4) * 2 + 9).clip(0, 255).astype(np.uint8))


@pytest.mark.parametrize("both", [0, 1])
def test_distances_have_buckets_as_in_t5(both: int) -> None:
    table = np.arange(16, dtype=np.float32).reshape(8, 2)  # of 2 heads, in memory as [2, 8]
    found, = called("RelativePositionBias", {"max_distance": 20, "is_bidirectional": both}, table,
                    np.int64([30]), np.int64([30]))
    assert found.shape == (1, 2, 30, 30)
    count = 4 if both else 8

    def bucket(ahead: int) -> int:
        side = count if both and ahead > 0 else 0
        n, near = abs(ahead) if both else max(-ahead, 0), count // 2
        if n < near:
            return side + n
        share = math.log(n / near) / math.log(20 / near)
        return side + min(near + int(share * near), count - 1)
    wanted = [[bucket(t - s) for t in range(30)] for s in range(30)]
    np.testing.assert_array_equal(found[0, 0], wanted)
    np.testing.assert_array_equal(found[0, 1], np.array(wanted) + 8)


def test_a_gate_of_each_query_scales_what_positions_add() -> None:
    q, bias, weight, more, scale = (
        floats(2, 5, 12), floats(12), floats(4, 6), floats(6), floats(1, 3, 1, 1))
    positions = floats(1, 3, 5, 5)
    found, = called("GatedRelativePositionBias", {"num_heads": 3}, q, bias, positions, weight, more,
                    scale)
    sums = ((q + bias).reshape(2, 5, 3, 4).transpose(0, 2, 1, 3) @ weight + more).reshape(
        2, 3, 5, 2, 3).sum(-1)
    u, r = np.split(1 / (1 + np.exp(-sums)), 2, -1)
    np.testing.assert_allclose(found, (u * (r * scale - 1) + 2) * positions, 1e-5, 1e-5)


def test_onnxruntimes_domain_need_not_be_imported() -> None:
    """Its optimizer for transformers leaves that out, and onnxruntime loads what it wrote."""
    value = helper.make_tensor_value_info
    graph = helper.make_graph(
        [helper.make_node("BiasGelu", ["x", "b"], ["y"], domain="com.microsoft")], "g",
        [value(name, onnx.TensorProto.FLOAT, [4]) for name in "xb"],
        [value("y", onnx.TensorProto.FLOAT, [4])])
    model = lt.onnx.load(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]))
    x, b = floats(4), floats(4) + 1
    close(model([x, b])[0], F.gelu(lt.tensor(x + b)))


def test_arrays_that_lie_as_one_processor_likes_them_are_refused() -> None:
    graph = helper.make_graph(
        [helper.make_node("ReorderInput", ["x"], ["y"], domain="com.microsoft.nchwc")], "g",
        [helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, [1, 8, 2, 2])],
        [helper.make_value_info("y", onnx.TypeProto())])
    proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("com.microsoft.nchwc", 1)])
    with pytest.raises(lt.ArgumentError, match="ORT_ENABLE_EXTENDED"):
        lt.onnx.load(proto)


def test_spectra_are_pairs_and_have_an_inverse() -> None:
    x, other = floats(2, 3, 8), floats(2, 5, 2)
    spectrum, = called("Rfft", {"signal_ndim": 1}, x)
    wanted = np.fft.rfft(x)
    close(spectrum, lt.tensor(np.stack([wanted.real, wanted.imag], -1).astype(np.float32)))
    close(called("Irfft", {"signal_ndim": 1}, spectrum)[0], lt.tensor(x))
    for kind, factor in (("ComplexMul", other), ("ComplexMulConj", other * [1, -1])):
        product = (spectrum @ [1, 1j])[:, 0] * (factor @ [1, 1j])
        close(called(kind, {}, np.ascontiguousarray(spectrum[:, 0]), other)[0],
              lt.tensor(np.stack([product.real, product.imag], -1).astype(np.float32)))


def test_products_and_sums_have_their_activation() -> None:
    x, w, b = floats(2, 3, 4), floats(4, 5), floats(5)
    close(called("GemmFastGelu", {}, x, w, b)[0],
          F.gelu(lt.tensor(x @ w + b), approximate="tanh"))
    close(called("FusedMatMulActivation", {"activation": "LeakyRelu", "activation_alpha": 0.3,
                                           "transA": 1, "alpha": 2.0}, x, x)[0],
          F.leaky_relu(lt.tensor(2 * x.swapaxes(1, 2) @ x), 0.3))
    gate = lt.tensor(x @ w[:, :1]).sigmoid()
    close(called("GatedAdd", {}, x, 2 * x, x, w[:, :1])[0], lt.tensor(x) * (1 + 2 * gate))
    bias = floats(2, 1, 4)
    close(called("BiasSoftmax", {"axis": 2, "is_inner_broadcast": 1}, x, bias)[0],
          lt.tensor(x + bias).softmax(-1))
    close(called("BiasSoftmax", {"axis": 1, "is_inner_broadcast": 0}, x, bias[:1])[0],
          lt.tensor(x + bias[:1]).flatten(1).softmax(-1).reshape(2, 3, 4))


def test_a_table_is_read_and_what_is_not_finite_is_found() -> None:
    table = floats(5, 3)
    close(called("TorchEmbedding", {}, table, np.array([[4, 0]]))[0], lt.tensor(table[[[4, 0]]]))
    odd = np.array([1, np.inf], np.float32)
    assert called("IsAllFinite", {}, table, table)[0]
    assert not called("IsAllFinite", {}, table, odd)[0]
    assert called("IsAllFinite", {"isnan_only": 1}, table, odd)[0]
    assert not called("IsAllFinite", {"isinf_only": 1}, odd)[0]
    assert called("IsAllFinite", {"isinf_only": 1}, np.array([np.nan], np.float32))[0]
