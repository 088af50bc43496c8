"""Layers: modules with PyTorch's names, arguments and initial values."""
from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from lazyten import random
from lazyten.frontend import functions
from lazyten.frontend.arguments import takes_tensors
from lazyten.frontend.tensor import DTypeLike, Tensor
from lazyten.ir import dtype as dt
from lazyten.nn import functional as F
from lazyten.nn import init
from lazyten.nn.functions.dropout import check_probability
from lazyten.nn.functions.pooling import Sizes
from lazyten.nn.module import Module
from lazyten.nn.parameter import Parameter, parameter_of
from lazyten.operators.math import shapes
from lazyten.support.errors import ArgumentError

MOST_ON_HOST = 1 << 16
"""Elements of a parameter up to which its initial values take less time to work out than to compile
a kernel for."""

_flatten = takes_tensors(Tensor.flatten)


def uniform_parameter(shape: Sequence[int], fan_in: int, device: str | None,
                      dtype: DTypeLike | None) -> Parameter:
    """PyTorch's default for weights and biases: uniform up to 1 / sqrt(fan_in)."""
    return uniform_within(shape, 1 / math.sqrt(fan_in) if fan_in else 0.0, device, dtype)


def uniform_within(shape: Sequence[int], bound: float, device: str | None,
                   dtype: DTypeLike | None) -> Parameter:
    """A parameter whose values are uniform from -bound to bound."""
    value = functions.empty(shape, device=device, dtype=dtype)
    if value.numel() <= MOST_ON_HOST and value.dtype is dt.float32:
        unit = random.host_uniform(value.numel()).reshape(value.shape)
        on_host = unit * np.float32(2 * bound) + np.float32(-bound)
        return parameter_of(functions.tensor(on_host, device=device))
    return parameter_of(init.uniform_(value, -bound, bound).realize())


class Linear(Module):
    """y = x W^T + b: (.., in_features) to (.., out_features)."""

    def __init__(self, in_features: int, out_features: int, bias: bool = True,
                 device: str | None = None, dtype: DTypeLike | None = None) -> None:
        super().__init__()
        for features in (in_features, out_features):
            if shapes.as_int(features, "Linear", "a number of features") < 0:
                raise ArgumentError(f"Linear({in_features}, {out_features}): features must be 0 or "
                                    f"more")
        self.in_features, self.out_features = in_features, out_features
        self.weight = uniform_parameter((out_features, in_features), in_features, device, dtype)
        self.bias: Parameter | None
        self.register_parameter("bias", uniform_parameter(
            (out_features,), in_features, device, dtype) if bias else None)

    def forward(self, input: Tensor) -> Tensor:
        return F.linear(input, self.weight, self.bias)

    def extra_repr(self) -> str:
        return (f"in_features={self.in_features}, out_features={self.out_features}, "
                f"bias={self.bias is not None}")


class Embedding(Module):
    """functional.embedding of a weight (num_embeddings, embedding_dim): (..) to (..,
    embedding_dim). `padding_idx` is a row of zeros at first and gets no gradient."""

    def __init__(self, num_embeddings: int, embedding_dim: int, padding_idx: int | None = None,
                 max_norm: float | None = None, norm_type: float = 2.0,
                 scale_grad_by_freq: bool = False, device: str | None = None,
                 dtype: DTypeLike | None = None) -> None:
        super().__init__()
        name = f"Embedding({num_embeddings}, {embedding_dim})"
        for number in (num_embeddings, embedding_dim):
            if shapes.as_int(number, name, "a number of rows or features") < 1:
                raise ArgumentError(f"{name}: rows and features must be 1 or more")
        if padding_idx is not None and not -num_embeddings <= padding_idx < num_embeddings:
            raise ArgumentError(f"{name}: padding_idx={padding_idx} is not one of its rows")
        self.num_embeddings, self.embedding_dim = num_embeddings, embedding_dim
        self.padding_idx, self.max_norm, self.norm_type = padding_idx, max_norm, norm_type
        self.scale_grad_by_freq = scale_grad_by_freq
        weight = functions.empty((num_embeddings, embedding_dim), device=device, dtype=dtype)
        init.normal_(weight)
        if padding_idx is not None:
            weight[padding_idx] = 0
        self.weight = parameter_of(weight.realize())

    def forward(self, input: Tensor) -> Tensor:
        return F.embedding(input, self.weight, self.padding_idx, self.max_norm, self.norm_type,
                           self.scale_grad_by_freq)

    def extra_repr(self) -> str:
        options = [("padding_idx", self.padding_idx, None), ("max_norm", self.max_norm, None),
                   ("norm_type", self.norm_type, 2.0),
                   ("scale_grad_by_freq", self.scale_grad_by_freq, False)]
        shown = "".join(f", {name}={value}" for name, value, usual in options if value != usual)
        return f"{self.num_embeddings}, {self.embedding_dim}{shown}"


class MaxPool2d(Module):
    """functional.max_pool2d."""

    def __init__(self, kernel_size: Sizes, stride: Sizes | None = None, padding: Sizes = 0,
                 dilation: Sizes = 1, return_indices: bool = False, ceil_mode: bool = False
                 ) -> None:
        super().__init__()
        self.kernel_size, self.stride = kernel_size, stride
        self.padding, self.dilation = padding, dilation
        self.return_indices, self.ceil_mode = return_indices, ceil_mode

    def forward(self, input: Tensor) -> Any:
        return F.max_pool2d(input, self.kernel_size, self.stride, self.padding, self.dilation,
                            self.ceil_mode, self.return_indices)

    def extra_repr(self) -> str:
        return (f"kernel_size={self.kernel_size}, stride={self.stride or self.kernel_size}, "
                f"padding={self.padding}, dilation={self.dilation}, ceil_mode={self.ceil_mode}")


class AvgPool2d(Module):
    """functional.avg_pool2d."""

    def __init__(self, kernel_size: Sizes, stride: Sizes | None = None, padding: Sizes = 0,
                 ceil_mode: bool = False, count_include_pad: bool = True,
                 divisor_override: int | None = None) -> None:
        super().__init__()
        self.kernel_size, self.stride = kernel_size, stride
        self.padding, self.count_include_pad = padding, count_include_pad
        self.ceil_mode, self.divisor_override = ceil_mode, divisor_override

    def forward(self, input: Tensor) -> Tensor:
        return F.avg_pool2d(input, self.kernel_size, self.stride, self.padding, self.ceil_mode,
                            self.count_include_pad, self.divisor_override)

    def extra_repr(self) -> str:
        return (f"kernel_size={self.kernel_size}, stride={self.stride or self.kernel_size}, "
                f"padding={self.padding}")


class LayerNorm(Module):
    """functional.layer_norm with a weight of ones and a bias of zeros at first."""

    def __init__(self, normalized_shape: Sizes, eps: float = 1e-5, bias: bool = True,
                 device: str | None = None, dtype: DTypeLike | None = None) -> None:
        super().__init__()
        self.normalized_shape = shapes.new_shape([[normalized_shape] if isinstance(
            normalized_shape, int) else normalized_shape], "LayerNorm")
        self.eps = eps
        self.weight = parameter_of(functions.ones(self.normalized_shape, device=device,
                                                  dtype=dtype))
        self.bias: Parameter | None
        self.register_parameter("bias", parameter_of(functions.zeros(
            self.normalized_shape, device=device, dtype=dtype)) if bias else None)

    def forward(self, input: Tensor) -> Tensor:
        return F.layer_norm(input, self.normalized_shape, self.weight, self.bias, self.eps)

    def extra_repr(self) -> str:
        return (f"{self.normalized_shape}, eps={self.eps}, elementwise_affine=True, "
                f"bias={self.bias is not None}")


class Dropout(Module):
    """functional.dropout while training."""

    def __init__(self, p: float = 0.5, inplace: bool = False) -> None:
        super().__init__()
        check_probability(p, "Dropout")
        self.p, self.inplace = p, inplace

    def forward(self, input: Tensor) -> Tensor:
        return F.dropout(input, self.p, self.training, self.inplace)

    def extra_repr(self) -> str:
        return f"p={self.p}, inplace={self.inplace}"


class Flatten(Module):
    """Axes start_dim to end_dim made one: by default all but the batch."""

    def __init__(self, start_dim: int = 1, end_dim: int = -1) -> None:
        super().__init__()
        self.start_dim, self.end_dim = start_dim, end_dim

    def forward(self, input: Tensor) -> Tensor:
        return _flatten(input, self.start_dim, self.end_dim)

    def extra_repr(self) -> str:
        return f"start_dim={self.start_dim}, end_dim={self.end_dim}"


class Identity(Module):
    """What comes in."""

    def forward(self, input: Tensor) -> Tensor:
        return input


class ReLU(Module):
    """max(x, 0)."""

    def __init__(self, inplace: bool = False) -> None:
        super().__init__()
        self.inplace = inplace

    def forward(self, input: Tensor) -> Tensor:
        return F.relu(input, self.inplace)

    def extra_repr(self) -> str:
        return "inplace=True" if self.inplace else ""


class Sigmoid(Module):
    """1 / (1 + e ** -x)."""

    def forward(self, input: Tensor) -> Tensor:
        return F.sigmoid(input)


class Tanh(Module):
    """The hyperbolic tangent."""

    def forward(self, input: Tensor) -> Tensor:
        return F.tanh(input)


class GELU(Module):
    """x times the normal distribution function at x."""

    def __init__(self, approximate: str = "none") -> None:
        super().__init__()
        self.approximate = approximate

    def forward(self, input: Tensor) -> Tensor:
        return F.gelu(input, self.approximate)

    def extra_repr(self) -> str:
        return f"approximate={self.approximate!r}"


class SiLU(Module):
    """x * sigmoid(x)."""

    def __init__(self, inplace: bool = False) -> None:
        super().__init__()
        self.inplace = inplace

    def forward(self, input: Tensor) -> Tensor:
        return F.silu(input, self.inplace)

    def extra_repr(self) -> str:
        return "inplace=True" if self.inplace else ""


class Softmax(Module):
    """Softmax along an axis."""

    def __init__(self, dim: int | None = None) -> None:
        super().__init__()
        self.dim = dim

    def forward(self, input: Tensor) -> Tensor:
        return F.softmax(input, self.dim)

    def extra_repr(self) -> str:
        return f"dim={self.dim}"


class LogSoftmax(Module):
    """The logarithm of softmax along an axis."""

    def __init__(self, dim: int | None = None) -> None:
        super().__init__()
        self.dim = dim

    def forward(self, input: Tensor) -> Tensor:
        return F.log_softmax(input, self.dim)

    def extra_repr(self) -> str:
        return f"dim={self.dim}"
