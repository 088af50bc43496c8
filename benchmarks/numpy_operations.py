"""The benchmarks' operations in NumPy: a peer, and in float64 what all must agree with.

frameworks.py puts them into the records NUMPY and REFERENCE; lenet_numpy.py uses the convolutions.
Images are [N, C, H, W], convolution weights [O, C, height, width].
"""
from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

Array: TypeAlias = npt.NDArray[Any]


def softmax(x: Array) -> Array:
    """Softmax over the last axis, each row shifted by its maximum."""
    exponentials = np.exp(x - x.max(axis=-1, keepdims=True))
    result: Array = exponentials / exponentials.sum(axis=-1, keepdims=True)
    return result


def layer_norm(x: Array, weight: Array, bias: Array) -> Array:
    """Layer norm over the last axis with torch's epsilon, 1e-5."""
    centred = x - x.mean(axis=-1, keepdims=True)
    variance = np.square(centred).mean(axis=-1, keepdims=True)
    normalized: Array = centred / np.sqrt(variance + 1e-5)
    return normalized * weight + bias


def cross_entropy(scores: Array, labels: Array) -> Array:
    """The mean of -log softmax at the labels, as an array without axes."""
    shifted = scores - scores.max(axis=1, keepdims=True)
    logarithms = shifted - np.log(np.exp(shifted).sum(axis=1, keepdims=True))
    return np.asarray(-logarithms[np.arange(len(labels)), labels].mean())


def padded(x: Array, padding: int) -> Array:
    """Zeros around each image."""
    return np.pad(x, ((0, 0), (0, 0), (padding, padding), (padding, padding))) if padding else x


def columns(x: Array, height: int, width: int, stride: int = 1) -> Array:
    """The windows of x [N, C, H, W] as rows: [N, OH, OW, C * height * width]."""
    windows = np.lib.stride_tricks.sliding_window_view(x, (height, width), axis=(2, 3))
    windows = windows[:, :, ::stride, ::stride]
    n, _, out_height, out_width = windows.shape[:4]
    return windows.transpose(0, 2, 3, 1, 4, 5).reshape(n, out_height, out_width, -1)


def conv2d(x: Array, weight: Array, stride: int = 1, padding: int = 0) -> Array:
    """Convolution as one matrix product over gathered windows."""
    rows = columns(padded(x, padding), weight.shape[2], weight.shape[3], stride)
    return np.moveaxis(rows @ weight.reshape(len(weight), -1).T, 3, 1)


def conv2d_input_gradient(cotangent: Array, x: Array, weight: Array, stride: int = 1,
                          padding: int = 0) -> Array:
    """The gradient of conv2d with respect to x: one addition for each place in the window."""
    channels, _, height, width = weight.shape
    flat = np.moveaxis(cotangent, 1, 3)  # [N, OH, OW, O]
    windows = (flat @ weight.reshape(channels, -1)).reshape(*flat.shape[:3], -1, height, width)
    result = np.zeros_like(padded(x, padding))
    rows, across = stride * flat.shape[1], stride * flat.shape[2]
    for i in range(height):
        for j in range(width):
            result[:, :, i:i + rows:stride, j:j + across:stride] += np.moveaxis(
                windows[..., i, j], 3, 1)
    return result[:, :, padding:padding + x.shape[2], padding:padding + x.shape[3]]


def conv2d_weight_gradient(cotangent: Array, x: Array, weight: Array, stride: int = 1,
                           padding: int = 0) -> Array:
    """The gradient of conv2d with respect to the weight, as one matrix product."""
    rows = columns(padded(x, padding), weight.shape[2], weight.shape[3], stride)
    flat = np.moveaxis(cotangent, 1, 3)
    product = flat.reshape(-1, flat.shape[-1]).T @ rows.reshape(-1, rows.shape[-1])
    return product.reshape(weight.shape)


def attention(q: Array, k: Array, v: Array) -> Array:
    """softmax(q k' / sqrt(D)) v for [B, H, T, D]."""
    result: Array = softmax(q @ k.swapaxes(-1, -2) / q.shape[-1] ** 0.5) @ v
    return result


def attention_gradients(q: Array, k: Array, v: Array, cotangent: Array) -> tuple[Array, ...]:
    """Forward and backward: the gradients of attention for q, k and v."""
    scale = q.shape[-1] ** -0.5
    weights = softmax(q @ k.swapaxes(-1, -2) * scale)
    of_weights = cotangent @ v.swapaxes(-1, -2)
    of_scores = weights * (of_weights - (of_weights * weights).sum(axis=-1, keepdims=True)) * scale
    return (of_scores @ k, of_scores.swapaxes(-1, -2) @ q,
            weights.swapaxes(-1, -2) @ cotangent)
