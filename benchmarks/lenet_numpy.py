"""LeNet-5 and its gradients written out in NumPy: the reference of every LeNet row (lenet.py)."""
from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from benchmarks.numpy_operations import (
    Array,
    conv2d,
    conv2d_input_gradient,
    conv2d_weight_gradient,
    padded,
)


def max_pool(x: Array) -> Array:
    """The maximum of each 2x2 block of [N, C, H, W]."""
    n, c, height, width = x.shape
    pooled: Array = x.reshape(n, c, height // 2, 2, width // 2, 2).max(axis=(3, 5))
    return pooled


def max_pool_gradient(x: Array, pooled: Array, cotangent: Array) -> Array:
    """The cotangent where x is its block's maximum. Ties share it: after ReLU they are at 0."""
    grown = pooled.repeat(2, axis=2).repeat(2, axis=3)
    return np.where(x == grown, cotangent.repeat(2, axis=2).repeat(2, axis=3), 0)


def cross_entropy(scores: Array, labels: Array) -> tuple[float, Array]:
    """The mean cross entropy, and its gradient with respect to the scores."""
    shifted = scores - scores.max(axis=1, keepdims=True)
    logarithms = shifted - np.log(np.exp(shifted).sum(axis=1, keepdims=True))
    rows = np.arange(len(labels))
    gradient = np.exp(logarithms)
    gradient[rows, labels] -= 1
    return -float(logarithms[rows, labels].mean()), gradient / len(labels)


@dataclass
class NumpyLenet:
    """The network's weights, [weight, bias] for each of five layers, and their velocities."""

    weights: list[Array]
    rate: float
    momentum: float
    velocities: list[Array] = field(init=False)

    def __post_init__(self) -> None:
        self.velocities = [np.zeros_like(w) for w in self.weights]

    def step(self, images: Array, labels: Array) -> float:
        """One step of SGD with momentum; the loss before it."""
        loss, gradients = self.loss_and_gradients(images, labels)
        for weight, velocity, gradient in zip(self.weights, self.velocities, gradients,
                                              strict=True):
            velocity *= self.momentum
            velocity += gradient
            weight -= self.rate * velocity
        return loss

    def loss_and_gradients(self, images: Array, labels: Array) -> tuple[float, list[Array]]:
        """The mean cross entropy, and its gradient for each of `weights`."""
        w = self.weights
        framed = padded(images, 2)
        conv1 = np.maximum(conv2d(framed, w[0]) + w[1][:, None, None], 0)
        pool1 = max_pool(conv1)
        conv2 = np.maximum(conv2d(pool1, w[2]) + w[3][:, None, None], 0)
        pool2 = max_pool(conv2)
        dense = [pool2.reshape(len(images), -1)]
        for layer in (4, 6):
            dense.append(np.maximum(dense[-1] @ w[layer].T + w[layer + 1], 0))
        loss, cotangent = cross_entropy(dense[-1] @ w[8].T + w[9], labels)

        gradients: list[Array] = []
        for layer, x in zip((8, 6, 4), reversed(dense), strict=True):
            gradients = [cotangent.T @ x, cotangent.sum(axis=0), *gradients]
            cotangent = cotangent @ w[layer] * (x > 0)
        cotangent = max_pool_gradient(conv2, pool2, cotangent.reshape(pool2.shape)) * (conv2 > 0)
        of_conv2 = conv2d_weight_gradient(cotangent, pool1, w[2]), cotangent.sum(axis=(0, 2, 3))
        cotangent = conv2d_input_gradient(cotangent, pool1, w[2])
        cotangent = max_pool_gradient(conv1, pool1, cotangent) * (conv1 > 0)
        of_conv1 = conv2d_weight_gradient(cotangent, framed, w[0]), cotangent.sum(axis=(0, 2, 3))
        return loss, [*of_conv1, *of_conv2, *gradients]
