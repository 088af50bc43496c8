"""Initial values of parameters, written in place; each function gives the tensor back.

fan_in and fan_out are a weight's inputs and outputs an output element: (out, in, *kernel).
"""
from __future__ import annotations

import math

from lazyten.frontend.arguments import takes_tensors
from lazyten.frontend.tensor import Tensor
from lazyten.support.errors import ArgumentError, ShapeError
from lazyten.support.grad_mode import no_grad

_GAINS = {"linear": 1.0, "conv1d": 1.0, "conv2d": 1.0, "conv3d": 1.0, "sigmoid": 1.0,
          "tanh": 5 / 3, "relu": math.sqrt(2), "selu": 3 / 4}


def calculate_gain(nonlinearity: str, param: float | None = None) -> float:
    """By how much a nonlinearity shrinks its input's standard deviation, as PyTorch tabulates."""
    if nonlinearity == "leaky_relu":
        return math.sqrt(2 / (1 + (0.01 if param is None else param) ** 2))
    if nonlinearity not in _GAINS:
        raise ArgumentError(f"calculate_gain: {nonlinearity!r} is not one of "
                            f"{', '.join([*_GAINS, 'leaky_relu'])}")
    return _GAINS[nonlinearity]


def _fans(tensor: Tensor, operation: str) -> tuple[int, int]:
    """(fan_in, fan_out). ShapeError for fewer than two axes."""
    if tensor.ndim < 2:
        raise ShapeError(f"{operation} of shape {tensor.shape}: a weight has at least 2 axes, "
                         f"(out, in, *kernel)")
    area = math.prod(tensor.shape[2:])
    return tensor.shape[1] * area, tensor.shape[0] * area


@takes_tensors
@no_grad()
def uniform_(tensor: Tensor, a: float = 0.0, b: float = 1.0) -> Tensor:
    """Evenly spread over [a, b)."""
    return tensor.uniform_(a, b)


@takes_tensors
@no_grad()
def normal_(tensor: Tensor, mean: float = 0.0, std: float = 1.0) -> Tensor:
    """Normally distributed."""
    return tensor.normal_(mean, std)


@takes_tensors
@no_grad()
def constant_(tensor: Tensor, val: float) -> Tensor:
    """One value everywhere."""
    return tensor.fill_(val)


@takes_tensors
def zeros_(tensor: Tensor) -> Tensor:
    """0 everywhere."""
    return constant_(tensor, 0.0)


@takes_tensors
def ones_(tensor: Tensor) -> Tensor:
    """1 everywhere."""
    return constant_(tensor, 1.0)


@takes_tensors
def xavier_uniform_(tensor: Tensor, gain: float = 1.0) -> Tensor:
    """Uniform with variance 2 / (fan_in + fan_out) (X. Glorot and Y. Bengio, 2010)."""
    bound = gain * math.sqrt(6 / max(sum(_fans(tensor, "xavier_uniform_")), 1))
    return uniform_(tensor, -bound, bound)


@takes_tensors
def xavier_normal_(tensor: Tensor, gain: float = 1.0) -> Tensor:
    """Normal with variance 2 / (fan_in + fan_out) (X. Glorot and Y. Bengio, 2010)."""
    fans = max(sum(_fans(tensor, "xavier_normal_")), 1)
    return normal_(tensor, 0.0, gain * math.sqrt(2 / fans))


def _kaiming_std(tensor: Tensor, a: float, mode: str, nonlinearity: str, operation: str) -> float:
    if mode not in ("fan_in", "fan_out"):
        raise ArgumentError(f"{operation}: mode {mode!r} is neither 'fan_in' nor 'fan_out'")
    fan = _fans(tensor, operation)[mode == "fan_out"]
    return calculate_gain(nonlinearity, a) / math.sqrt(fan) if fan else 0.0


@takes_tensors
def kaiming_uniform_(tensor: Tensor, a: float = 0.0, mode: str = "fan_in",
                     nonlinearity: str = "leaky_relu") -> Tensor:
    """Uniform with variance gain**2 / fan (K. He and others, 2015)."""
    bound = math.sqrt(3) * _kaiming_std(tensor, a, mode, nonlinearity, "kaiming_uniform_")
    return uniform_(tensor, -bound, bound)


@takes_tensors
def kaiming_normal_(tensor: Tensor, a: float = 0.0, mode: str = "fan_in",
                    nonlinearity: str = "leaky_relu") -> Tensor:
    """Normal with variance gain**2 / fan (K. He and others, 2015)."""
    return normal_(tensor, 0.0, _kaiming_std(tensor, a, mode, nonlinearity, "kaiming_normal_"))
