"""Activations that write to their input, and give it back."""
from __future__ import annotations

from lazyten.frontend.arguments import takes_tensors
from lazyten.frontend.tensor import Tensor
from lazyten.nn.functions import activations


@takes_tensors
def relu_(input: Tensor) -> Tensor:
    """relu() written to the input."""
    return activations.relu(input, True)


@takes_tensors
def leaky_relu_(input: Tensor, negative_slope: float = 0.01) -> Tensor:
    """leaky_relu() written to the input."""
    return activations.leaky_relu(input, negative_slope, True)


@takes_tensors
def rrelu_(input: Tensor, lower: float = 1 / 8, upper: float = 1 / 3, training: bool = False
           ) -> Tensor:
    """rrelu() written to the input."""
    return activations.rrelu(input, lower, upper, training, True)


@takes_tensors
def threshold_(input: Tensor, threshold: float, value: float) -> Tensor:
    """threshold() written to the input."""
    return activations.threshold(input, threshold, value, True)


@takes_tensors
def elu_(input: Tensor, alpha: float = 1.0) -> Tensor:
    """elu() written to the input."""
    return activations.elu(input, alpha, True)


@takes_tensors
def celu_(input: Tensor, alpha: float = 1.0) -> Tensor:
    """celu() written to the input."""
    return activations.celu(input, alpha, True)


@takes_tensors
def selu_(input: Tensor) -> Tensor:
    """selu() written to the input."""
    return activations.selu(input, True)


@takes_tensors
def hardtanh_(input: Tensor, min_val: float = -1.0, max_val: float = 1.0) -> Tensor:
    """hardtanh() written to the input."""
    return activations.hardtanh(input, min_val, max_val, True)
