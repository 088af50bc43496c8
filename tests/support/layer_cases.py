"""Layers and losses, as PyTorch's programs write them, with inputs: what test_torch_layers.py runs
beside PyTorch, and test_layers.py in jitted functions.

A row is a text such as "BatchNorm2d(3, affine=False)", in which T is the package, and its inputs.
"""
from __future__ import annotations

from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]


def normal(*shape: int, seed: int = 0) -> Array:
    return np.random.default_rng((*shape, seed)).normal(size=shape) * 1.5


def chance(*shape: int) -> Array:
    return np.random.default_rng(shape).uniform(0.05, 0.95, shape)


def labels(classes: int, *shape: int) -> Array:
    return np.random.default_rng(shape).integers(0, classes, shape)


def signs(*shape: int) -> Array:
    return np.random.default_rng(shape).integers(0, 2, shape) * 2.0 - 1


def distinct(*shape: int) -> Array:
    """No two elements equal, so that the greatest is one."""
    return np.random.default_rng(4).permutation(int(np.prod(shape))).reshape(shape) / 8.0 - 3


def scores(*shape: int) -> Array:
    """Logarithms of probabilities along the last axis."""
    x = normal(*shape)
    return x - np.log(np.exp(x).sum(-1, keepdims=True))


LINE, IMAGE, BLOCK = normal(2, 4, 9), normal(2, 4, 6, 7), normal(2, 4, 3, 5, 4)
PAIR = normal(5, 4), normal(5, 4, seed=1)
TRIPLE = (*PAIR, normal(5, 4, seed=2))

AFFINE: dict[str, tuple[Array, ...]] = {
    "Linear(4, 3)": (normal(5, 4),), "Linear(4, 3, bias=False)": (normal(2, 3, 4),),
    "Bilinear(4, 3, 2)": (normal(5, 4), normal(5, 3)),
    "Bilinear(4, 3, 2, bias=False)": (normal(2, 5, 4), normal(2, 5, 3)),
    "Identity(3, bias=False)": (LINE,),
}

ACTIVATIONS: dict[str, tuple[Array, ...]] = {
    **{text: (normal(3, 4),) for text in [
        "ReLU()", "ReLU6()", "LeakyReLU()", "LeakyReLU(0.3)", "PReLU()", "PReLU(4, init=0.1)",
        "RReLU(0.1, 0.4)", "ELU()", "ELU(0.5)", "CELU()", "CELU(1.5)", "SELU()", "SiLU()", "Mish()",
        "Softplus()", "Softplus(2, threshold=1)", "Sigmoid()", "LogSigmoid()", "Tanh()",
        "Tanhshrink()", "Softsign()", "GELU()", "GELU(approximate='tanh')", "GLU()", "GLU(1)",
        "Hardtanh()", "Hardtanh(-0.5, 2.0)", "Hardtanh(min_value=-2, max_value=0.5)", "Hardswish()",
        "Hardsigmoid()", "Hardshrink()", "Hardshrink(0.8)", "Softshrink()", "Softshrink(0.2)",
        "Threshold(0.1, 20)", "Softmax(1)", "Softmax(dim=0)", "Softmin(1)", "LogSoftmax(-1)"]},
    "Softmax2d()": (IMAGE,), "PReLU(4)": (IMAGE,),
}

CONVOLUTIONS: dict[str, tuple[Array, ...]] = {
    "Conv1d(4, 6, 3, padding=1, groups=2)": (LINE,),
    "Conv1d(4, 2, 3, padding=2, padding_mode='reflect')": (LINE,),
    "Conv2d(4, 6, (3, 2), 2, (1, 0), bias=False)": (IMAGE,),
    "Conv2d(4, 2, 3, padding='same', dilation=2)": (IMAGE,),
    "Conv2d(4, 2, 3, padding='valid', padding_mode='circular')": (IMAGE,),
    "Conv2d(4, 2, (3, 2), padding='same', padding_mode='replicate')": (IMAGE,),
    "Conv2d(4, 2, 3, 2, (2, 1), padding_mode='circular')": (IMAGE[0],),
    "Conv3d(4, 2, 2, padding=(1, 2, 0), padding_mode='replicate')": (BLOCK,),
    "ConvTranspose1d(4, 6, 3, 2, 1, 1, 2)": (LINE,),
    "ConvTranspose2d(4, 2, (3, 2), stride=2, bias=False)": (IMAGE,),
    "ConvTranspose3d(4, 2, 2, dilation=2)": (BLOCK,),
}

NORMALIZATION: dict[str, tuple[Array, ...]] = {
    "BatchNorm1d(4)": (normal(5, 4),), "BatchNorm1d(4, eps=0.1, momentum=0.3)": (LINE,),
    "BatchNorm1d(4, momentum=None)": (LINE,), "BatchNorm1d(4, affine=False)": (LINE,),
    "BatchNorm1d(4, track_running_stats=False)": (LINE,), "BatchNorm1d(4, bias=False)": (LINE,),
    "BatchNorm2d(4)": (IMAGE,), "BatchNorm2d(4, 1e-3, None, False)": (IMAGE,),
    "SyncBatchNorm(4, momentum=0.3)": (IMAGE,), "BatchNorm3d(4)": (BLOCK,),
    "BatchNorm3d(4, momentum=0.0)": (BLOCK,),
    "InstanceNorm1d(4)": (LINE,), "InstanceNorm1d(4, affine=True)": (LINE[0],),
    "InstanceNorm2d(4, affine=True, track_running_stats=True)": (IMAGE,),
    "InstanceNorm2d(4, 1e-3, 0.4, track_running_stats=True)": (IMAGE,),
    "InstanceNorm3d(4, affine=True, bias=False)": (BLOCK,),
    "LayerNorm(4)": (normal(5, 4),), "LayerNorm((6, 7), 1e-3)": (IMAGE,),
    "LayerNorm([7], elementwise_affine=False)": (IMAGE,), "LayerNorm(9, bias=False)": (LINE,),
    "RMSNorm(4)": (normal(5, 4),), "RMSNorm((6, 7), 1e-3, False)": (IMAGE,),
    "GroupNorm(2, 4)": (IMAGE,), "GroupNorm(4, 4, 0.1, affine=False)": (LINE,),
    "GroupNorm(1, 4, bias=False)": (normal(5, 4),),
    "LocalResponseNorm(2)": (IMAGE,), "LocalResponseNorm(3, 0.1, 0.5, 2.0)": (LINE,),
}

POOLING: dict[str, tuple[Array, ...]] = {
    "MaxPool1d(3)": (distinct(2, 4, 9),), "MaxPool1d(3, 2, 1, 2, ceil_mode=True)": (
        distinct(2, 4, 9),),
    "MaxPool2d((2, 3), stride=1, padding=1)": (distinct(2, 4, 6, 7),),
    "MaxPool2d(3, 2, 1, return_indices=True)": (distinct(4, 6, 7),),
    "MaxPool3d(2, 1, ceil_mode=True)": (distinct(2, 4, 3, 5, 4),),
    "AvgPool1d(3, 2, 1, True)": (LINE,), "AvgPool2d(2)": (IMAGE,),
    "AvgPool2d(3, (2, 1), 1, count_include_pad=False)": (IMAGE,),
    "AvgPool2d(2, divisor_override=3)": (IMAGE,), "AvgPool3d(2, 1, (0, 1, 1))": (BLOCK,),
    "AdaptiveAvgPool1d(4)": (LINE,), "AdaptiveAvgPool2d((3, None))": (IMAGE,),
    "AdaptiveAvgPool2d(1)": (IMAGE,), "AdaptiveAvgPool3d((2, 3, 1))": (BLOCK,),
    "AdaptiveMaxPool1d(4)": (distinct(2, 4, 9),),
    "AdaptiveMaxPool2d((3, 2), return_indices=True)": (distinct(2, 4, 6, 7),),
    "AdaptiveMaxPool3d((None, 2, 3))": (distinct(2, 4, 3, 5, 4),),
}

POOLING |= {
    "LPPool1d(2, 3)": (LINE,), "LPPool2d(1.5, (2, 3), 2, True)": (chance(2, 4, 6, 7),),
    "LPPool2d(2.0, 2)": (IMAGE[0],), "LPPool3d(3, 2, 1)": (chance(2, 4, 3, 5, 4),),
}

POOLING |= {
    "MaxUnpool1d(2)": (normal(2, 4, 3), np.array([[[0, 3, 4], [1, 2, 5]] * 2] * 2)),
    "MaxUnpool2d((2, 1), 2, padding=0)": (
        normal(4, 2, 2), np.array([[[0, 2], [4, 6]], [[1, 3], [8, 11]]] * 2)),
    "MaxUnpool3d(2, (2, 1, 2))": (
        normal(1, 1, 2, 1, 2), np.array([[[[[0, 3]], [[20, 31]]]]])),
    "FractionalMaxPool2d(2, 3, return_indices=True, _random_samples=T.tensor("
    "[[[0.1, 0.6], [0.9, 0.3]]] * 2, dtype=T.float64))": (distinct(2, 2, 6, 7),),
    "FractionalMaxPool2d((1, 2), output_ratio=(0.5, 0.8), _random_samples=T.tensor("
    "[[[0.1, 0.6], [0.9, 0.3]]], dtype=T.float64))": (distinct(2, 6, 7),),
    "FractionalMaxPool3d(2, (1, 3, 2), _random_samples=T.tensor("
    "[[[0.1, 0.6, 0.3], [0.9, 0.3, 0.7]]] * 2, dtype=T.float64))": (distinct(2, 2, 3, 5, 4),),
}

PADDING: dict[str, tuple[Array, ...]] = {
    **{f"{kind}Pad1d({args})": (LINE,) for kind in ("Reflection", "Replication", "Circular", "Zero")
       for args in ("2", "(3, 1)")},
    **{f"{kind}Pad2d({args})": (IMAGE,) for kind in (
        "Reflection", "Replication", "Circular", "Zero") for args in ("2", "(3, 1, 0, 2)")},
    **{f"{kind}Pad3d({args})": (BLOCK,) for kind in (
        "Reflection", "Replication", "Circular", "Zero") for args in ("1", "(2, 1, 0, 3, 1, 2)")},
    "ConstantPad1d((1, -2), 3.5)": (LINE,), "ConstantPad2d(1, -1)": (IMAGE,),
    "ConstantPad3d((1, 2, 0, 1, -1, 1), 0.5)": (BLOCK,), "ZeroPad2d((-1, 2, 1, -2))": (IMAGE,),
}

OTHERS: dict[str, tuple[Array, ...]] = {
    "Dropout(0.3)": (LINE,), "Dropout1d()": (LINE,), "Dropout2d(0.2)": (IMAGE,),
    "Dropout3d(p=0.0)": (BLOCK,), "AlphaDropout(0.1)": (LINE,), "FeatureAlphaDropout()": (IMAGE,),
    "Dropout(1.0)": (LINE,),
    "Embedding(6, 3)": (labels(6, 2, 5),), "Embedding(6, 3, padding_idx=-2)": (labels(6, 9),),
    "Embedding(6, 3, max_norm=1.0, norm_type=1.0)": (labels(6, 9),),
    "Embedding(6, 3, scale_grad_by_freq=True)": (labels(6, 9),),
    "Embedding.from_pretrained(T.ones(6, 3), padding_idx=1)": (labels(6, 9),),
    "Embedding.from_pretrained(T.ones(6, 3), freeze=False)": (labels(6, 9),),
    "PairwiseDistance()": PAIR, "PairwiseDistance(1, 0.1, keepdim=True)": PAIR,
    "CosineSimilarity()": PAIR, "CosineSimilarity(0, 0.5)": PAIR,
    "Flatten()": (IMAGE,), "Flatten(0, 1)": (IMAGE,), "Unflatten(1, (2, -1))": (IMAGE,),
    "Unfold(2)": (IMAGE,), "Unfold((2, 3), 2, 1, (1, 2))": (IMAGE,),
    "Fold((4, 5), 2)": (normal(2, 8, 12),), "Fold(4, (2, 2), 1, 1, 2)": (normal(2, 8, 9),),
    "PixelShuffle(2)": (IMAGE,), "PixelUnshuffle(3)": (normal(2, 2, 6, 3),),
    "ChannelShuffle(2)": (IMAGE,),
    "Upsample((3, 8))": (IMAGE,), "Upsample(scale_factor=2, mode='bilinear')": (IMAGE,),
    "Upsample(None, (1.5, 2), 'bicubic', True)": (IMAGE,),
    "UpsamplingNearest2d(scale_factor=2)": (IMAGE,), "UpsamplingBilinear2d((9, 3))": (IMAGE,),
}

BAGS: dict[str, tuple[Array, ...]] = {
    "EmbeddingBag(6, 3)": (labels(6, 4, 5),),
    "EmbeddingBag(6, 3, mode='max')": (np.array([[0, 1, 5], [2, 4, 3]]),),
    "EmbeddingBag(6, 3, mode='sum', padding_idx=1)": (labels(6, 9), np.array([0, 2, 2, 7])),
    "EmbeddingBag(6, 3, padding_idx=-2)": (labels(6, 9), np.array([0, 2, 2, 7, 9])),
    "EmbeddingBag(6, 3, mode='max', padding_idx=2)": (
        np.array([0, 1, 5, 2, 2, 4, 3]), np.array([0, 3, 5])),
    "EmbeddingBag(6, 3, mode='sum', include_last_offset=True)": (
        labels(6, 9), np.array([0, 4, 9])),
    "EmbeddingBag(6, 3, 1.0, 1.0, False, 'sum')": (labels(6, 4, 5),),
    "EmbeddingBag.from_pretrained(T.ones(6, 3), mode='sum')": (labels(6, 4, 5),),
}
LAZY: dict[str, tuple[Array, ...]] = {
    "LazyLinear(3)": (normal(5, 4),), "LazyLinear(3, bias=False)": (normal(5, 4),),
    "LazyConv1d(6, 3, groups=2)": (LINE,), "LazyConv2d(6, 3, bias=False)": (IMAGE[0],),
    "LazyConv3d(2, 2)": (BLOCK,), "LazyConvTranspose1d(4, 3, 2)": (LINE,),
    "LazyConvTranspose2d(4, 3, 2, bias=False)": (IMAGE,), "LazyConvTranspose3d(2, 2)": (BLOCK,),
    "LazyBatchNorm1d()": (LINE,), "LazyBatchNorm2d(affine=False)": (IMAGE,),
    "LazyBatchNorm3d(track_running_stats=False)": (BLOCK,), "LazyInstanceNorm1d()": (LINE,),
    "LazyInstanceNorm2d(bias=False)": (IMAGE,),
    "LazyInstanceNorm3d(affine=False)": (BLOCK,),
}

REDUCTIONS = ("mean", "sum", "none")
LOSSES: dict[str, tuple[Array, ...]] = {
    **{f"{name}(reduction={how!r})": PAIR for name in (
        "L1Loss", "MSELoss", "SmoothL1Loss", "HuberLoss") for how in REDUCTIONS},
    "L1Loss(size_average=False)": PAIR, "MSELoss(reduce=False)": PAIR,
    "SmoothL1Loss(beta=0.3)": PAIR, "HuberLoss(delta=0.3)": PAIR,
    **{f"KLDivLoss(reduction={how!r})": (normal(5, 4), chance(5, 4)) for how in (
        *REDUCTIONS, "batchmean")},
    "KLDivLoss(log_target=True, reduction='sum')": PAIR,
    "PoissonNLLLoss(full=True)": (normal(5, 4), labels(6, 5, 4) + 0.5),
    "PoissonNLLLoss(False, eps=0.1, reduction='sum')": (chance(5, 4), labels(6, 5, 4) + 0.5),
    "GaussianNLLLoss()": (*PAIR, chance(5, 4)),
    "GaussianNLLLoss(full=True, eps=0.3, reduction='none')": (*PAIR, chance(5, 1)),
    **{f"NLLLoss(reduction={how!r})": (normal(5, 4), labels(4, 5)) for how in REDUCTIONS},
    "NLLLoss(T.tensor([1.0, 2.0, 0.5, 3.0], dtype=T.float64), ignore_index=1)": (
        normal(5, 4), labels(4, 5)),
    "NLLLoss2d()": (IMAGE, labels(4, 2, 6, 7)),
    "CrossEntropyLoss(label_smoothing=0.1)": (normal(5, 4), labels(4, 5)),
    "CrossEntropyLoss(T.tensor([1.0, 2.0, 0.5, 3.0], dtype=T.float64))": (
        IMAGE, labels(4, 2, 6, 7)),
    "CrossEntropyLoss()": (normal(5, 4), chance(5, 4)),
    "LinearCrossEntropyLoss(4, 3)": (normal(5, 4), labels(3, 5)),
    "LinearCrossEntropyLoss(4, 3, bias=True, ignore_index=1, reduction='sum')": (
        normal(5, 4), labels(3, 5)),
    "LinearCrossEntropyLoss(4, 3, weight=T.tensor([1.0, 2.0, 0.5], dtype=T.float64))": (
        normal(4), np.array(2)),
    "LinearCrossEntropyLoss(4, 3, out_features=(2, 3), bias=True, label_smoothing=0.1)": (
        normal(5, 4), labels(3, 5, 2, 3)),
    "LinearCrossEntropyLoss(4, 3, out_features=(2,), reduction='none')": (
        normal(5, 4), chance(5, 3, 2)),
    **{f"CTCLoss(reduction={how!r})": (
        scores(8, 3, 5), 1 + labels(4, 3, 4), np.array([8, 7, 6]), np.array([4, 2, 0]))
       for how in REDUCTIONS},
    "CTCLoss(blank=4, zero_infinity=True)": (
        scores(5, 3, 5), np.array([1, 1, 1, 0, 2]), np.array([4, 5, 3]), np.array([3, 1, 1])),
    "CTCLoss()": (scores(8, 5), 1 + labels(4, 3), np.array(8), np.array(3)),
    "AdaptiveLogSoftmaxWithLoss(8, 10, [3, 6], div_value=2.0)": (
        normal(7, 8), labels(10, 7)),
    "AdaptiveLogSoftmaxWithLoss(9, 10, [2], 1.5, head_bias=True)": (
        normal(9), np.array(8)),
    "BCELoss()": (chance(5, 4), chance(4, 5).T.copy()),
    "BCELoss(T.tensor([1.0, 2.0, 0.5, 3.0], dtype=T.float64), reduction='sum')": (
        chance(5, 4), chance(4, 5).T.copy()),
    "BCEWithLogitsLoss()": (normal(5, 4), chance(5, 4)),
    "BCEWithLogitsLoss(pos_weight=T.tensor([1.0, 2.0, 0.5, 3.0], dtype=T.float64))": (
        normal(5, 4), chance(5, 4)),
    "MultiMarginLoss()": (normal(5, 4), labels(4, 5)),
    "MultiMarginLoss(2, 0.5, T.tensor([1.0, 2.0, 0.5, 3.0], dtype=T.float64), reduction='none')": (
        normal(5, 4), labels(4, 5)),
    "MultiLabelMarginLoss()": (normal(2, 4), np.array([[2, 0, -1, 1], [1, -1, 0, 0]])),
    "MultiLabelSoftMarginLoss()": (normal(5, 4), labels(2, 5, 4) * 1.0),
    "SoftMarginLoss()": (normal(5, 4), signs(5, 4)),
    "HingeEmbeddingLoss(0.7)": (normal(5, 4), signs(5, 4)),
    "MarginRankingLoss(0.3, reduction='sum')": (*PAIR, signs(5, 4)),
    "CosineEmbeddingLoss(0.1)": (*PAIR, signs(5)),
    "TripletMarginLoss()": TRIPLE, "TripletMarginLoss(0.5, 1.0, swap=True)": TRIPLE,
    "TripletMarginWithDistanceLoss(margin=2.0)": TRIPLE,
    "TripletMarginWithDistanceLoss(distance_function=T.nn.CosineSimilarity(), swap=True)": TRIPLE,
}

ALL: dict[str, tuple[Array, ...]] = {
    **AFFINE, **ACTIVATIONS, **CONVOLUTIONS, **NORMALIZATION, **POOLING, **PADDING, **OTHERS,
    **BAGS, **LOSSES}
BY_CHANCE = ("Dropout", "AlphaDropout", "FeatureAlphaDropout", "RReLU", "FractionalMaxPool")
"""Layers whose results while training are drawn, unless their p is 0 or 1."""


READS = ("CTCLoss(blank=4",)
"""Layers that read a value of an input for its shape, so that no jitted function may call them."""


def is_drawn(text: str) -> bool:
    return text.startswith(BY_CHANCE) and "1.0" not in text and "0.0" not in text


def made(T: Any, text: str) -> Any:
    """The layer of one package, in float64."""
    return eval(f"T.nn.{text}", {"T": T}).double()
