"""Initial values of parameters, written in place; each function gives the tensor back.

fan_in and fan_out are a weight's inputs and outputs an output element: (out, in, *kernel).
`generator` draws the numbers, the default one unless given.
"""
from __future__ import annotations

import math

import numpy as np

from lazyten.frontend import functions
from lazyten.frontend.arguments import takes_tensors
from lazyten.frontend.tensor import Tensor
from lazyten.ir import dtype as dt
from lazyten.operators.math import shapes
from lazyten.random import Generator
from lazyten.storage.device import widest_float
from lazyten.support.errors import ArgumentError, ShapeError
from lazyten.support.grad_mode import no_grad

_GAINS = {**dict.fromkeys(["linear", "conv1d", "conv2d", "conv3d", "conv_transpose1d",
                           "conv_transpose2d", "conv_transpose3d", "sigmoid"], 1.0),
          "tanh": 5 / 3, "relu": math.sqrt(2), "selu": 3 / 4}


def calculate_gain(nonlinearity: str, param: float | None = None) -> float:
    """By how much a nonlinearity shrinks its input's standard deviation, as PyTorch tabulates."""
    if nonlinearity == "leaky_relu":
        if param is not None and (isinstance(param, bool) or not isinstance(param, int | float)):
            raise ArgumentError(f"calculate_gain: the slope of leaky_relu is {param!r:.40}; give a "
                                f"number")
        return math.sqrt(2 / (1 + (0.01 if param is None else param) ** 2))
    if nonlinearity not in _GAINS:
        raise ArgumentError(f"calculate_gain: {nonlinearity!r} is not one of "
                            f"{', '.join([*_GAINS, 'leaky_relu'])}")
    return _GAINS[nonlinearity]


def _calculate_fan_in_and_fan_out(
        tensor: Tensor, operation: str = "_calculate_fan_in_and_fan_out") -> tuple[int, int]:
    """(fan_in, fan_out), by PyTorch's name, as programs have initial values of their own.
    ShapeError for fewer than two axes."""
    if tensor.ndim < 2:
        raise ShapeError(f"{operation} of shape {tensor.shape}: a weight has at least 2 axes, "
                         f"(out, in, *kernel)")
    area = math.prod(tensor.shape[2:])
    return tensor.shape[1] * area, tensor.shape[0] * area


def _calculate_correct_fan(tensor: Tensor, mode: str,
                           operation: str = "_calculate_correct_fan") -> int:
    """fan_in or fan_out, as `mode` says, by PyTorch's name. ArgumentError for another mode."""
    if str(mode).lower() not in ("fan_in", "fan_out"):
        raise ArgumentError(f"{operation}: mode {mode!r} is neither 'fan_in' nor 'fan_out'")
    fans = _calculate_fan_in_and_fan_out(tensor, operation)
    return fans[mode.lower() == "fan_out"]


@takes_tensors
@no_grad()
def uniform_(tensor: Tensor, a: float = 0.0, b: float = 1.0,
             generator: Generator | None = None) -> Tensor:
    """Evenly spread over [a, b)."""
    return tensor.uniform_(a, b, generator=generator)


@takes_tensors
@no_grad()
def normal_(tensor: Tensor, mean: float = 0.0, std: float = 1.0,
            generator: Generator | None = None) -> Tensor:
    """Normally distributed."""
    return tensor.normal_(mean, std, generator=generator)


@takes_tensors
@no_grad()
def trunc_normal_(tensor: Tensor, mean: float = 0.0, std: float = 1.0, a: float = -2.0,
                  b: float = 2.0, generator: Generator | None = None) -> Tensor:
    """Normally distributed, but none outside [a, b]: the inverse distribution function of what is
    evenly spread between its values at a and b."""
    low, high = (math.erf((limit - mean) / (std * math.sqrt(2))) for limit in (a, b))
    drawn = functions.empty(tensor.shape, dtype=widest_float(tensor.device),
                            device=tensor.device)
    normal = drawn.uniform_(low, high, generator=generator).erfinv() * (std * math.sqrt(2)) + mean
    return tensor.copy_(normal.clamp(a, b).to(dtype=tensor.dtype))


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
@no_grad()
def eye_(tensor: Tensor) -> Tensor:
    """Ones on the diagonal of a matrix, zeros elsewhere."""
    if tensor.ndim != 2:
        raise ShapeError(f"eye_ of shape {tensor.shape}: it is for matrices, (out, in)")
    rows, columns = tensor.shape
    return tensor.copy_(functions.eye(rows, columns, dtype=tensor.dtype, device=tensor.device))


@takes_tensors
@no_grad()
def dirac_(tensor: Tensor, groups: int = 1) -> Tensor:
    """A convolution's weight (out, in/groups, *kernel) that gives as many channels of each group as
    there are inputs, unchanged: a 1 at the middle of the kernel."""
    if tensor.ndim not in (3, 4, 5):
        raise ShapeError(f"dirac_ of shape {tensor.shape}: it is for (out, in/groups, *kernel) of "
                         f"1 to 3 axes of a kernel")
    if shapes.as_int(groups, "dirac_", "groups") < 1 or tensor.shape[0] % groups:
        raise ArgumentError(f"dirac_ of shape {tensor.shape}: groups={groups} must divide axis 0")
    values = np.zeros(tensor.shape, np.float32)
    outputs = tensor.shape[0] // groups
    for group in range(groups):
        for i in range(min(outputs, tensor.shape[1])):
            values[(group * outputs + i, i, *(n // 2 for n in tensor.shape[2:]))] = 1
    return tensor.copy_(functions.tensor(values, dtype=tensor.dtype, device=tensor.device))


@takes_tensors
def xavier_uniform_(tensor: Tensor, gain: float = 1.0, generator: Generator | None = None
                    ) -> Tensor:
    """Uniform with variance 2 / (fan_in + fan_out) (X. Glorot and Y. Bengio, 2010)."""
    fans = max(sum(_calculate_fan_in_and_fan_out(tensor, "xavier_uniform_")), 1)
    bound = gain * math.sqrt(6 / fans)
    return uniform_(tensor, -bound, bound, generator)


@takes_tensors
def xavier_normal_(tensor: Tensor, gain: float = 1.0, generator: Generator | None = None
                   ) -> Tensor:
    """Normal with variance 2 / (fan_in + fan_out) (X. Glorot and Y. Bengio, 2010)."""
    fans = max(sum(_calculate_fan_in_and_fan_out(tensor, "xavier_normal_")), 1)
    return normal_(tensor, 0.0, gain * math.sqrt(2 / fans), generator)


def _kaiming_std(tensor: Tensor, a: float, mode: str, nonlinearity: str, operation: str) -> float:
    mode = mode.lower() if isinstance(mode, str) else mode
    fan = _calculate_correct_fan(tensor, mode, operation)
    return calculate_gain(nonlinearity, a) / math.sqrt(fan) if fan else 0.0


@takes_tensors
def kaiming_uniform_(tensor: Tensor, a: float = 0.0, mode: str = "fan_in",
                     nonlinearity: str = "leaky_relu", generator: Generator | None = None
                     ) -> Tensor:
    """Uniform with variance gain**2 / fan (K. He and others, 2015)."""
    bound = math.sqrt(3) * _kaiming_std(tensor, a, mode, nonlinearity, "kaiming_uniform_")
    return uniform_(tensor, -bound, bound, generator)


@takes_tensors
def kaiming_normal_(tensor: Tensor, a: float = 0.0, mode: str = "fan_in",
                    nonlinearity: str = "leaky_relu", generator: Generator | None = None
                    ) -> Tensor:
    """Normal with variance gain**2 / fan (K. He and others, 2015)."""
    return normal_(tensor, 0.0, _kaiming_std(tensor, a, mode, nonlinearity, "kaiming_normal_"),
                   generator)


@takes_tensors
@no_grad()
def orthogonal_(tensor: Tensor, gain: float = 1.0, generator: Generator | None = None) -> Tensor:
    """(out, *rest) as a matrix whose rows, or columns if it has more rows, are orthonormal, times
    `gain`, evenly distributed (A. Saxe and others, 2013): Q of normal numbers' QR, with the signs
    that make the diagonal of R positive. Worked out by NumPy."""
    if tensor.ndim < 2:
        raise ShapeError(f"orthogonal_ of shape {tensor.shape}: a weight has at least 2 axes, "
                         f"(out, in, *kernel)")
    if not tensor.numel() or tensor.is_meta:
        return tensor
    rows, columns = tensor.shape[0], tensor.numel() // tensor.shape[0]
    drawn = functions.empty((max(rows, columns), min(rows, columns)),
                            dtype=widest_float(tensor.device),
                            device=tensor.device).normal_(generator=generator)
    q, r = np.linalg.qr(drawn.numpy())
    q = q * np.where(np.diag(r) < 0, -1.0, 1.0) * gain
    values = np.ascontiguousarray(q if rows >= columns else q.T).reshape(tensor.shape)
    return tensor.copy_(functions.tensor(values, dtype=tensor.dtype, device=tensor.device))


@takes_tensors
@no_grad()
def sparse_(tensor: Tensor, sparsity: float, std: float = 0.01,
            generator: Generator | None = None) -> Tensor:
    """Normal, but a share `sparsity` of each column, rounded up, 0: of elements drawn for it
    (J. Martens, 2010)."""
    if tensor.ndim != 2:
        raise ShapeError(f"sparse_ of shape {tensor.shape}: it is for matrices, (out, in)")
    share = shapes.as_number(sparsity, "sparse_", "sparsity")
    if not 0 <= share <= 1:
        raise ArgumentError(f"sparse_: sparsity={sparsity} is a share, 0 to 1")
    zeros = math.ceil(share * tensor.shape[0])
    lots = functions.empty(tensor.shape, dtype=dt.float32, device=tensor.device).uniform_(
        generator=generator)
    tensor.normal_(0.0, std, generator=generator)
    return tensor.masked_fill_(lots.argsort(0).argsort(0) < zeros, 0.0)


uniform, normal, constant, eye, dirac = uniform_, normal_, constant_, eye_, dirac_
xavier_uniform, xavier_normal = xavier_uniform_, xavier_normal_
kaiming_uniform, kaiming_normal = kaiming_uniform_, kaiming_normal_
orthogonal, sparse = orthogonal_, sparse_
"""Older names of PyTorch's."""
