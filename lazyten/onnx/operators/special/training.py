"""Steps of optimizers, ai.onnx.preview.training: of tensors, their gradients and states."""
from __future__ import annotations

from collections.abc import Callable

import lazyten as lt
from lazyten.onnx.table import operator
from lazyten.support.errors import ArgumentError

T = lt.Tensor
DOMAIN = "ai.onnx.preview.training"


def _each(inputs: tuple[T, ...], states: int, step: Callable[..., tuple[T, ...]]) -> tuple[T, ...]:
    """A step for each tensor; inputs and outputs are grouped by what they are."""
    count = len(inputs) // (2 + states)
    columns = [inputs[i * count:(i + 1) * count] for i in range(2 + states)]
    rows = [step(*row) for row in zip(*columns, strict=True)]
    return tuple(x for column in zip(*rows, strict=True) for x in column)


@operator("Momentum", domain=DOMAIN)
def momentum(r: T, t: T, *inputs: T, alpha: float, beta: float, mode: str,
             norm_coefficient: float) -> tuple[T, ...]:
    """Gradients with those of earlier steps; mode: standard or nesterov."""
    if mode not in ("standard", "nesterov"):
        raise ArgumentError(f"mode {mode!r}: standard and nesterov are the ones there are")
    factor = lt.where(t > 0, beta, 1.0)

    def step(x: T, g: T, v: T) -> tuple[T, ...]:
        g = g + x * norm_coefficient
        v = v * alpha + g * factor
        return x - r * (v if mode == "standard" else g + v * alpha), v
    return _each(inputs, 1, step)


@operator("Adagrad", domain=DOMAIN)
def adagrad(r: T, t: T, *inputs: T, decay_factor: float = 0.0, epsilon: float = 1e-6,
            norm_coefficient: float = 0.0) -> tuple[T, ...]:
    """Gradients divided by the root of the sum of all squares."""
    rate = r / (t * decay_factor + 1)

    def step(x: T, g: T, h: T) -> tuple[T, ...]:
        g = g + x * norm_coefficient
        h = h + g * g
        return x - rate * g / (h.sqrt() + epsilon), h
    return _each(inputs, 1, step)


@operator("Adam", domain=DOMAIN)
def adam(r: T, t: T, *inputs: T, alpha: float = 0.9, beta: float = 0.999, epsilon: float = 1e-6,
         norm_coefficient: float = 0.0, norm_coefficient_post: float = 0.0) -> tuple[T, ...]:
    """Means of gradients, divided by the roots of means of their squares."""
    count = t.to(lt.float32)
    corrected = (1 - beta ** count).sqrt() / (1 - alpha ** count)
    rate = r * lt.where(t > 0, corrected, 1.0)

    def step(x: T, g: T, v: T, h: T) -> tuple[T, ...]:
        g = g + x * norm_coefficient
        v, h = v * alpha + g * (1 - alpha), h * beta + g * g * (1 - beta)
        new = x - rate * v / (h.sqrt() + epsilon)
        return new * (1 - norm_coefficient_post), v, h
    return _each(inputs, 2, step)
