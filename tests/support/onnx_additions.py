"""Operators that onnxruntime adds to the standard, as single calls: each form of their inputs; and
trees and linear models.
"""
from __future__ import annotations

from typing import Any

import numpy as np
from onnx_calls import Row, floats, places

_generator = np.random.default_rng(4)
MICROSOFT = "com.microsoft", 1
NONE = np.zeros(0, np.float32)


def numbers(low: int, high: int, *shape: int, dtype: type = np.int32) -> Any:
    """Integers from low to high, less one."""
    return _generator.integers(low, high, shape).astype(dtype)


def ones(*values: int) -> Any:
    """Integers of 32 bits."""
    return np.array(values, np.int32)


def scale(value: float) -> Any:
    """One float."""
    return np.array(value, np.float32)


def byte(value: int) -> Any:
    """One number of 8 bits."""
    return np.array(value, np.uint8)


def small(*shape: int) -> Any:
    """Numbers of 8 bits with a sign."""
    return numbers(-90, 90, *shape, dtype=np.int8)


def big(*shape: int) -> Any:
    """Numbers of 8 bits without a sign."""
    return numbers(0, 200, *shape, dtype=np.uint8)


def grouped(length: int, past: int, counts: list[int], total: int, packed: bool = False,
            rotary: bool = False, extra: tuple[Any, ...] = (), **attributes: Any) -> Row:
    """Attention of 4 heads of 16 numbers that share 2 of keys and values."""
    batch = len(counts)
    parts = [floats(batch, length, 64), floats(batch, length, 32), floats(batch, length, 32)]
    given = [np.concatenate(parts, -1), NONE, NONE] if packed else parts
    given += [floats(batch, 2, past, 16) for _ in range(2)] if past else [NONE, NONE]
    given += [ones(*counts) - 1, ones(total)]
    if rotary or extra:
        given += [floats(16, 8), floats(16, 8)] if rotary else [NONE, NONE]
    return Row("GroupQueryAttention", MICROSOFT, {
        "num_heads": 4, "kv_num_heads": 2, **attributes, **({"do_rotary": 1} if rotary else {})},
        [*given, *extra], 3)


FUSED = [
    Row("Gelu", MICROSOFT, {}, [floats(3, 4)]),
    Row("BiasGelu", MICROSOFT, {}, [floats(3, 4), floats(4)]),
    Row("FastGelu", MICROSOFT, {}, [floats(3, 4), floats(4)]),
    Row("FastGelu", MICROSOFT, {}, [floats(3, 4)]),
    Row("QuickGelu", MICROSOFT, {"alpha": 1.5}, [floats(3, 4)]),
    Row("Trilu", MICROSOFT, {"upper": 0}, [floats(3, 4), np.array(1)]),
    Row("FusedMatMul", MICROSOFT, {"alpha": 0.5, "transB": 1}, [floats(2, 3, 4), floats(2, 5, 4)]),
    Row("FusedMatMul", MICROSOFT, {"transA": 1, "transBatchA": 1},
        [floats(4, 2, 3), floats(2, 4, 5)]),
    Row("FusedMatMul", MICROSOFT, {"transBatchB": 1}, [floats(2, 3, 4), floats(4, 2, 5)]),
    *[Row("FusedConv", MICROSOFT, {"activation": name, "pads": [1] * 4,
                                   **({"activation_params": parameters} if parameters else {})},
          [floats(1, 2, 5, 5), floats(3, 2, 3, 3)])
      for name, parameters in (("LeakyRelu", [0.1]), ("Clip", [-0.5, 0.7]), ("Relu", []),
                               ("HardSigmoid", [0.3, 0.4]))],
    Row("FusedConv", MICROSOFT, {"activation": "Relu"},
        [floats(1, 2, 5, 5), floats(3, 2, 3, 3), floats(3), floats(1, 3, 3, 3)]),
    Row("FusedGemm", MICROSOFT, {"activation": "LeakyRelu", "activation_alpha": 0.2, "transB": 1},
        [floats(3, 4), floats(5, 4), floats(5)]),
    Row("ScaledSiLU", MICROSOFT, {"alpha": 1.5}, [floats(3, 4)]),
    Row("ScaledSiLU", MICROSOFT, {}, [floats(3, 4), scale(0.7)]),
    Row("GatedAdd", MICROSOFT, {}, [floats(2, 3, 4), floats(2, 3, 4), floats(2, 3, 1)]),
    *[Row("GatedRMSNorm", MICROSOFT, options, [floats(2, 3, 8), floats(4), floats(2, 3, 8)])
      for options in ({}, {"activation": "sigmoid", "epsilon": 0.1})],
    Row("ConvTransposeWithDynamicPads", MICROSOFT, {"strides": [2, 2], "output_padding": [1, 0]},
        [floats(1, 2, 3, 4), floats(2, 3, 3, 3), places(1, 0, 0, 1), floats(3)]),
    Row("UnfoldTensor", MICROSOFT, {"dim": 1, "size": 3, "step": 2}, [floats(2, 8, 3)]),
    *[Row("CropAndResize", MICROSOFT, options, [floats(2, 3, 6, 5), np.array(
        [[0, 0, 1, 1], [0.1, 0.9, 0.8, 0.2], [-0.2, 0.3, 1.1, 0.7]], np.float32), ones(0, 1, 1),
        ones(*sizes)])
      for options, sizes in (({}, (4, 3)), ({}, (1, 5)), ({
          "mode": "nearest", "extrapolation_value": 2.0}, (3, 7)))],
    Row("LinearAttention", MICROSOFT, {"q_num_heads": 4, "kv_num_heads": 2}, [
        floats(2, 5, 12), floats(2, 5, 6), floats(2, 5, 8), floats(2, 2, 3, 4),
        -np.abs(floats(2, 5, 6)), np.abs(floats(2, 5, 2))], 2),
    Row("LinearAttention", MICROSOFT, {"q_num_heads": 2, "kv_num_heads": 4, "scale": 0.4,
        "update_rule": "delta"}, [floats(1, 3, 6), floats(1, 3, 12), floats(1, 3, 8), NONE, NONE,
        np.abs(floats(1, 3, 1))], 2),
    Row("LinearAttention", MICROSOFT, {"q_num_heads": 2, "kv_num_heads": 2,
        "update_rule": "gated"}, [floats(2, 1, 6), floats(2, 1, 6), floats(2, 1, 8),
        floats(2, 2, 3, 4), -np.abs(floats(2, 1, 2))], 2),
    Row("LinearAttention", MICROSOFT, {"q_num_heads": 2, "kv_num_heads": 2,
        "update_rule": "linear"}, [floats(2, 4, 6), floats(2, 4, 6), floats(2, 4, 4)], 2),
    Row("CausalConvWithState", MICROSOFT, {"activation": "silu", "dilation": 2}, [
        floats(2, 3, 5), floats(3, 1, 4), floats(3), floats(2, 3, 6)], 2),
    Row("CausalConvWithState", MICROSOFT, {"channels_last": 1}, [floats(2, 1, 2, 3),
        floats(6, 1, 3), NONE, floats(2, 2, 2, 3)], 2),
    Row("CausalConvWithState", MICROSOFT, {}, [floats(2, 3, 4), floats(3, 1, 1)], 2),
    Row("ThresholdedRelu", 8, {"alpha": 0.3}, [floats(3, 4)]),
    Row("ImageScaler", 8, {"scale": 0.5, "bias": [1.0, -2.0]}, [floats(2, 2, 3, 4)]),
    Row("Crop", 8, {"border": [1, 2, 0, 1]}, [floats(1, 2, 6, 7)]),
    Row("Crop", 8, {"border": [1, 2, 0, 1], "scale": [2, 3]}, [floats(1, 2, 6, 7)]),
    Row("ParametricSoftplus", 8, {"alpha": 1.5, "beta": 0.5}, [floats(5)]),
    Row("ScaledTanh", 8, {"alpha": 1.5, "beta": 0.5}, [floats(5)]),
    Row("Affine", 8, {"alpha": 1.5, "beta": 0.5}, [floats(5)]),
    Row("Scale", 8, {"scale": 1.5}, [floats(5)]),
    Row("MeanVarianceNormalization", 8, {}, [floats(2, 2, 3, 4)]),
    Row("MeanVarianceNormalization", 8, {"across_channels": 1, "normalize_variance": 0}, [
        floats(2, 2, 3, 4)]),
    Row("SimplifiedLayerNormalization", 13, {"epsilon": 1e-3}, [floats(2, 3, 4), floats(4)]),
    Row("LayerNormalization", 13, {"axis": 1}, [floats(2, 3, 4), floats(3, 4), floats(3, 4)]),
    Row("SkipLayerNormalization", MICROSOFT, {"epsilon": 1e-3},
        [floats(2, 3, 4), floats(2, 3, 4), floats(4), floats(4), floats(4)]),
    Row("SkipLayerNormalization", MICROSOFT, {}, [floats(2, 3, 4), floats(1, 3, 4), floats(4)]),
    Row("SkipSimplifiedLayerNormalization", MICROSOFT, {},
        [floats(2, 3, 4), floats(2, 3, 4), floats(4), floats(4)]),
    Row("EmbedLayerNormalization", MICROSOFT, {},
        [numbers(0, 7, 2, 3), numbers(0, 2, 2, 3), floats(7, 4), floats(5, 4), floats(2, 4),
         floats(4), floats(4), ones(1, 1, 0, 1, 1, 1).reshape(2, 3), numbers(0, 5, 2, 3)], 3),
    Row("EmbedLayerNormalization", MICROSOFT, {},
        [numbers(0, 7, 2, 3), NONE, floats(7, 4), floats(5, 4), NONE, floats(4), floats(4)], 2),
]
ATTENTIONS = [
    Row("Attention", MICROSOFT, {"num_heads": 2}, [floats(2, 3, 5), floats(5, 12), floats(12)]),
    Row("Attention", MICROSOFT, {"num_heads": 2, "scale": 0.7, "unidirectional": 1},
        [floats(2, 3, 5), floats(5, 12), floats(12), ones(1, 1, 1, 1, 0, 1, 1, 1, 1, 1).reshape(
            2, 5), floats(2, 2, 2, 2, 2)], 2),
    Row("Attention", MICROSOFT, {"num_heads": 2, "mask_filter_value": -9.0},
        [floats(2, 3, 5), floats(5, 12), floats(12), ones(2, 3)], 2),
    Row("Attention", MICROSOFT, {"num_heads": 2},
        [floats(2, 3, 5), floats(5, 12), floats(12), ones(3, 3, 1, 0)]),
    Row("Attention", MICROSOFT, {"num_heads": 2},
        [floats(2, 3, 5), floats(5, 12), floats(12), numbers(0, 2, 2, 3, 3)]),
    Row("Attention", MICROSOFT, {"num_heads": 2, "qkv_hidden_sizes": [4, 4, 6]},
        [floats(2, 3, 5), floats(5, 14), floats(14), NONE, NONE, floats(1, 2, 3, 3)]),
    Row("MultiHeadAttention", MICROSOFT, {"num_heads": 2},
        [floats(2, 3, 4), floats(2, 5, 4), floats(2, 5, 6), floats(14), ones(4, 2)]),
    Row("MultiHeadAttention", MICROSOFT, {"num_heads": 2},
        [floats(2, 3, 4), floats(2, 2, 5, 2), floats(2, 2, 5, 2), NONE, NONE,
         floats(1, 2, 3, 5)]),
    Row("MultiHeadAttention", MICROSOFT, {"num_heads": 2, "unidirectional": 1},
        [floats(2, 3, 4), floats(2, 3, 4), floats(2, 3, 4), NONE, NONE, NONE,
         floats(2, 2, 2, 2), floats(2, 2, 2, 2)], 3),
    Row("MultiHeadAttention", MICROSOFT, {"num_heads": 2, "unidirectional": 1},
        [floats(2, 3, 4), floats(2, 5, 4), floats(2, 5, 4), floats(12)]),
    grouped(3, 0, [3], 3), grouped(3, 0, [3], 3, packed=True, rotary=True),
    grouped(1, 5, [6, 6], 6, rotary=True, rotary_interleaved=1),
    grouped(1, 3, [4, 4], 4, local_window_size=2, softcap=5.0),
    grouped(2, 4, [6], 6, smooth_softmax=1, scale=0.3),
    grouped(1, 5, [6], 6, extra=(NONE, NONE, floats(4))),
    Row("RotaryEmbedding", MICROSOFT, {},
        [floats(2, 3, 16), places(1), floats(9, 4), floats(9, 4)]),
    Row("RotaryEmbedding", MICROSOFT, {"interleaved": 1},
        [floats(2, 2, 3, 8), numbers(0, 9, 2, 3, dtype=np.int64), floats(9, 4), floats(9, 4)]),
    Row("RotaryEmbedding", MICROSOFT, {"num_heads": 2, "rotary_embedding_dim": 4},
        [floats(2, 3, 16), places(0), floats(9, 2), floats(9, 2)]),
]
QUANTIZED = [
    Row("QuantizeLinear", MICROSOFT, {}, [floats(3, 4), scale(0.02), byte(100)]),
    Row("DequantizeLinear", MICROSOFT, {}, [big(3, 4), scale(0.02), byte(100)]),
    *[Row(name, MICROSOFT, {}, [big(3, 4), scale(0.1), byte(100), big(4), scale(0.2), byte(90),
                                scale(0.3), byte(9)]) for name in ("QLinearAdd", "QLinearMul")],
    Row("QLinearSigmoid", MICROSOFT, {}, [small(3, 4), scale(0.05), small(), scale(0.004),
                                          np.array(-128, np.int8)]),
    Row("QLinearLeakyRelu", MICROSOFT, {"alpha": 0.3}, [
        big(3, 4), scale(0.05), byte(90), scale(0.06), byte(80)]),
    *[Row("QLinearSoftmax", MICROSOFT, {"opset": opset, "axis": axis}, [
        big(2, 3, 4), scale(0.05), byte(90), scale(1 / 256), byte(0)])
      for opset, axis in ((13, 1), (13, -1), (12, 1))],
    Row("QLinearGlobalAveragePool", MICROSOFT, {"channels_last": 1}, [
        big(1, 3, 4, 2), scale(0.05), byte(90), scale(0.06), byte(80)]),
    Row("QLinearAveragePool", MICROSOFT, {"kernel_shape": [2, 2], "pads": [1, 0, 0, 0]}, [
        big(1, 2, 5, 5), scale(0.05), byte(90), scale(0.073), byte(80)]),
    Row("QLinearAveragePool", MICROSOFT, {"kernel_shape": [2, 3], "strides": [2, 2], "ceil_mode": 1,
                                          "count_include_pad": 1},
        [big(1, 2, 5, 6), scale(0.05), byte(90), scale(0.073), byte(80)]),
    Row("QLinearConcat", MICROSOFT, {"axis": 1}, [
        scale(0.05), byte(90), big(2, 3), scale(0.06), byte(80), big(2, 1), scale(0.1), byte(0)]),
    Row("MatMulIntegerToFloat", MICROSOFT, {}, [
        big(2, 3, 4), small(4, 5), scale(0.1), np.abs(floats(5)), byte(90), small(5), floats(5)]),
    Row("DynamicQuantizeMatMul", MICROSOFT, {}, [
        floats(3, 4), small(4, 5), scale(0.1), small(), floats(5)]),
    Row("QGemm", MICROSOFT, {"transB": 1}, [
        big(3, 4), scale(0.1), byte(90), small(5, 4), np.abs(floats(5)), small(5) // 30,
        numbers(-99, 99, 5)]),
    Row("QGemm", MICROSOFT, {}, [big(3, 4), scale(0.1), byte(90), small(4, 5), scale(0.2), small(),
                                 NONE, scale(4.0), byte(100)]),
    Row("QAttention", MICROSOFT, {"num_heads": 2, "unidirectional": 1}, [
        big(2, 3, 5), small(5, 12), floats(12), scale(0.02), scale(0.02), NONE, byte(100), small(),
        floats(2, 2, 2, 2, 2)], 2),
    Row("MatMulNBits", MICROSOFT, {"K": 40, "N": 3, "block_size": 16}, [
        floats(2, 40), big(3, 3, 8), np.abs(floats(3, 3)), big(3, 2), NONE, floats(3)]),
    Row("MatMulNBits", MICROSOFT, {"K": 32, "N": 3, "block_size": 16, "bits": 8}, [
        floats(2, 32), big(3, 2, 16), np.abs(floats(3, 2))]),
    Row("MatMulNBits", MICROSOFT, {"K": 32, "N": 3, "block_size": 16}, [
        floats(2, 32), big(3, 2, 8), np.abs(floats(3, 2)), floats(3, 2)]),
    Row("MatMulNBits", MICROSOFT, {"K": 32, "N": 3, "block_size": 16}, [
        floats(2, 32), big(3, 2, 8), np.abs(floats(3, 2)), NONE, np.repeat(ones(1, 0), 16)]),
]
OLDER = [
    Row("GatherND", MICROSOFT, {}, [floats(2, 3, 4), np.array([[0, 1], [1, 2]])]),
    Row("GridSample", MICROSOFT, {"padding_mode": "border"}, [floats(1, 2, 4, 5),
                                                              floats(1, 3, 2, 2)]),
    Row("Pad", MICROSOFT, {}, [floats(3, 4), np.array([[1, 0, 0, 2]]), scale(2.5)]),
    Row("Pad", MICROSOFT, {"mode": "reflect"}, [floats(3, 4), np.array([1, 0, 0, 2])]),
    Row("Range", MICROSOFT, {}, [np.array([3]), np.array([9])]),
    Row("Range", MICROSOFT, {}, [scale(3.0), scale(1.0), scale(-0.5)]),
    Row("ExpandDims", MICROSOFT, {}, [floats(2, 3), np.array(-1, np.int32)]),
    Row("Unique", MICROSOFT, {}, [np.array([2, 1, 1, 3, 4, 3], np.float32)], 3),
    Row("Inverse", MICROSOFT, {}, [floats(2, 3, 3)]),
    Row("CDist", MICROSOFT, {}, [floats(4, 3), floats(5, 3)]),
    Row("CDist", MICROSOFT, {"metric": "euclidean"}, [floats(4, 3), floats(5, 3)]),
    Row("NGramRepeatBlock", MICROSOFT, {"ngram_size": 2}, [
        np.array([[1, 2, 3, 1], [4, 4, 4, 4]]), floats(2, 6)]),
    Row("NGramRepeatBlock", MICROSOFT, {"ngram_size": 5}, [np.array([[1, 2]]), floats(1, 6)]),
    Row("MurmurHash3", MICROSOFT, {"seed": 7}, [np.array([[1, -2], [300, 4]])]),
    Row("MurmurHash3", MICROSOFT, {"positive": 0}, [floats(5)]),
    Row("MatMulInteger16", MICROSOFT, {}, [numbers(-300, 300, 2, 3, dtype=np.int16),
                                           numbers(-300, 300, 3, 4, dtype=np.int16)]),
    Row("QLinearConv", MICROSOFT, {"channels_last": 1, "pads": [1] * 4, "strides": [2, 1]}, [
        big(1, 5, 6, 4), scale(0.02), byte(99), small(3, 4, 3, 3), scale(0.01),
        np.array(0, np.int8), scale(0.7), byte(100), numbers(-99, 99, 3)]),
    Row("NhwcMaxPool", MICROSOFT, {"kernel_shape": [2, 3], "strides": [2, 2]}, [big(1, 5, 6, 3)]),
    Row("QEmbedLayerNormalization", MICROSOFT, {}, [
        numbers(0, 7, 2, 3), numbers(0, 2, 2, 3), big(7, 8), big(5, 8), big(2, 8), big(8), big(8),
        ones(1, 1, 0, 1, 1, 1).reshape(2, 3), scale(0.02), scale(0.03), scale(0.05), scale(0.01),
        scale(0.02), *(byte(n) for n in (99, 80, 70, 60, 50))], 2),
    *[Row("MatMulBnb4", MICROSOFT, {"K": 32, "N": 3, "block_size": 16, "quant_type": kind}, [
        floats(2, 32), big(48), np.abs(floats(6))]) for kind in (0, 1)],
    Row("GatherBlockQuantized", MICROSOFT, {"block_size": 16}, [
        big(5, 16), np.array([[0, 3], [-1, 2]]), np.abs(floats(5, 2)), big(5, 1)]),
    Row("GatherBlockQuantized", MICROSOFT, {"block_size": 16, "bits": 8}, [
        big(5, 40), np.array([4, 1], np.int32), np.abs(floats(5, 3))]),
]


def trees(kind: str, count: int, ids: list[int], weights: list[float], outputs: int = 1,
          modes: str = "LEQ", **attributes: Any) -> Row:
    """Two trees over three features: one of three leaves, one of two; a row each of missing and of
    split values is among the inputs."""
    prefix = "class" if "Classifier" in kind else "target"
    leaf, first, second = "LEAF", *(f"BRANCH_{mode}" for mode in (modes.split() * 2)[:2])
    places = [(0, 1), (0, 3), (0, 4), (1, 1), (1, 2)] * (len(ids) // 5)
    rows = floats(6, 3).round(1)
    rows[0, 0], rows[1, 0], rows[2, 2] = np.nan, 0.2, -0.3
    return Row(kind, ("ai.onnx.ml", 3), {
        "nodes_treeids": [0] * 5 + [1] * 3, "nodes_nodeids": [0, 1, 2, 3, 4, 0, 1, 2],
        "nodes_modes": [first, leaf, second, leaf, leaf, first, leaf, leaf],
        "nodes_featureids": [0, 0, 1, 0, 0, 2, 0, 0],
        "nodes_values": [0.2, 0, 0.5, 0, 0, -0.3, 0, 0],
        "nodes_truenodeids": [1, 0, 3, 0, 0, 1, 0, 0],
        "nodes_falsenodeids": [2, 0, 4, 0, 0, 2, 0, 0],
        "nodes_missing_value_tracks_true": [1, 0, 0, 0, 0, 0, 0, 0],
        f"{prefix}_treeids": [tree for tree, _ in places],
        f"{prefix}_nodeids": [node for _, node in places], f"{prefix}_ids": ids,
        f"{prefix}_weights": weights,
        **({"classlabels_int64s": [7, 3, 5][:count]} if outputs > 1 else {"n_targets": count}),
        **attributes}, [rows], outputs)


SHARES, SIGNED = [0.1, 0.4, 0.2, 0.3, 0.25], [1.5, -2.0, 0.5, -0.3, 0.25]
LEARNED = [
    trees("TreeEnsembleRegressor", 1, [0] * 5, SIGNED),
    trees("TreeEnsembleRegressor", 2, [0] * 5 + [1] * 5, SIGNED + SHARES, modes="LT GTE",
          aggregate_function="AVERAGE", base_values=[0.5, 2.0]),
    trees("TreeEnsembleRegressor", 2, [0] * 5 + [1] * 5, SIGNED + SHARES, modes="EQ NEQ",
          post_transform="SOFTMAX"),
    trees("TreeEnsembleClassifier", 2, [0] * 5, SHARES, 2),
    trees("TreeEnsembleClassifier", 2, [0] * 5, SIGNED, 2, modes="GT", base_values=[0.4]),
    trees("TreeEnsembleClassifier", 2, [0] * 5, SIGNED, 2, post_transform="LOGISTIC"),
    trees("TreeEnsembleClassifier", 2, [0] * 5, SHARES, 2, post_transform="LOGISTIC"),
    trees("TreeEnsembleClassifier", 3, [0] * 5 + [1] * 5 + [2] * 5, SIGNED + SHARES + SIGNED[::-1],
          2, post_transform="SOFTMAX", base_values=[0.5, 0.1, 0.2]),
    *[Row("LinearClassifier", ("ai.onnx.ml", 1), {
        "coefficients": [0.5, -1.0, 2.0] * rows, "intercepts": [0.1, -0.2, 0.3][:rows],
        "classlabels_ints": [7, 3, 5][:max(rows, 2)], "post_transform": transform},
        [floats(4, 3)], 2) for rows, transform in (
            (1, "NONE"), (1, "LOGISTIC"), (3, "SOFTMAX"), (2, "LOGISTIC"), (3, "NONE"))],
]
SWIGLU: dict[str, Any] = {"activation_type": "swiglu", "swiglu_fusion": 1, "k": 2,
                          "activation_alpha": 1.702, "activation_beta": 1.0, "swiglu_limit": 0.7}


def mixture(tokens: int, wide: int = 1, **attributes: Any) -> Row:
    """Four experts of 16 numbers, 24 inside."""
    return Row("MoE", MICROSOFT, attributes, [
        floats(1, tokens, 16), floats(tokens, 4), floats(4, 24 * wide, 16), floats(4, 24 * wide),
        floats(4, 16, 24), floats(4, 16)])


def quantized_mixture(tokens: int, bits: int, block: int, zero: bool, **attributes: Any) -> Row:
    """The same of 32 numbers and 32 inside, of few bits; its scores are given twice."""
    wide, parts = (2 if "swiglu_fusion" in attributes else 1), [32 // block] if block else []

    def layer(out: int) -> list[Any]:
        return [numbers(0, 256, 4, out, 4 * bits, dtype=np.uint8),
                numbers(1, 9, 4, out, *parts, dtype=np.float32) / np.float32(99), floats(4, out)]

    def low(out: int) -> Any:
        shape = (4, out, max(parts[0] * bits // 8, 1)) if parts else (4, out * bits // 8)
        return numbers(0, 256, *shape, dtype=np.uint8)
    given = [floats(tokens, 32), floats(tokens, 4), *layer(32 * wide), *layer(32)]
    if zero:
        given += [NONE, NONE, NONE, low(32 * wide), low(32), NONE, np.abs(floats(tokens, 4))]
    return Row("QMoE", MICROSOFT, {"expert_weight_bits": bits, **attributes,
                                   **({"block_size": block} if block else {})}, given)


EXPERTS = [
    mixture(5), mixture(1, k=2, activation_type="silu", normalize_routing_weights=1),
    mixture(5, k=2, activation_type="gelu"), mixture(2, k=3, activation_type="identity"),
    mixture(5, 2, **SWIGLU), mixture(1, 2, activation_type="swiglu", swiglu_fusion=1),
    quantized_mixture(5, 8, 0, False, k=2, activation_type="silu", normalize_routing_weights=1),
    quantized_mixture(5, 4, 16, True, **SWIGLU), quantized_mixture(1, 4, 0, True, **SWIGLU),
    quantized_mixture(1, 8, 16, False, normalize_routing_weights=1),
]
ADDITIONS = [*EXPERTS, *FUSED, *ATTENTIONS, *QUANTIZED, *OLDER, *LEARNED]
