"""Normalization of each example, without running statistics."""
from __future__ import annotations

from lazyten.frontend.tensor import DTypeLike, Tensor
from lazyten.nn import functional as F
from lazyten.nn.modules.base import Layer, check_counts, set_constant
from lazyten.nn.parameter import Parameter
from lazyten.operators.math import shapes
from lazyten.operators.math.shapes import Sizes
from lazyten.support.errors import ArgumentError, NotDefinedError


class _Affine(Layer):
    """A weight of ones and a bias of zeros at first, where the options ask for them."""

    weight: Parameter | None
    bias: Parameter | None

    def reset_parameters(self) -> None:
        """A weight of ones and a bias of zeros."""
        set_constant(self.weight, 1.0)
        set_constant(self._parameters.get("bias"), 0.0)


def _inner_shape(normalized_shape: Sizes, name: str) -> tuple[int, ...]:
    given = [normalized_shape] if isinstance(normalized_shape, int) else normalized_shape
    return shapes.new_shape([given], name)


class LayerNorm(_Affine):
    """functional.layer_norm of the last axes, `normalized_shape`, with a weight (ones at first) and
    a bias (zeros) of their shape: (x - mean) / sqrt(variance + eps) * weight + bias."""

    _shown = ("eps", "elementwise_affine")

    def __init__(self, normalized_shape: Sizes, eps: float = 1e-5, elementwise_affine: bool = True,
                 bias: bool = True, device: str | None = None, dtype: DTypeLike | None = None
                 ) -> None:
        super().__init__()
        self.normalized_shape = _inner_shape(normalized_shape, "LayerNorm")
        self.eps, self.elementwise_affine = eps, elementwise_affine
        self._parameter("weight", self.normalized_shape, device, dtype, elementwise_affine)
        self._parameter("bias", self.normalized_shape, device, dtype, elementwise_affine and bias)
        self.reset_parameters()

    def forward(self, input: Tensor) -> Tensor:
        return F.layer_norm(input, self.normalized_shape, self.weight, self.bias, self.eps)

    def extra_repr(self) -> str:
        return (f"{self.normalized_shape}, {super().extra_repr()}, "
                f"bias={self.bias is not None}")


class RMSNorm(_Affine):
    """functional.rms_norm of the last axes, with a weight of their shape."""

    _shown = ("eps", "elementwise_affine")

    def __init__(self, normalized_shape: Sizes, eps: float | None = None,
                 elementwise_affine: bool = True, device: str | None = None,
                 dtype: DTypeLike | None = None) -> None:
        super().__init__()
        self.normalized_shape = _inner_shape(normalized_shape, "RMSNorm")
        self.eps, self.elementwise_affine = eps, elementwise_affine
        self._parameter("weight", self.normalized_shape, device, dtype, elementwise_affine)
        self.reset_parameters()

    def forward(self, x: Tensor) -> Tensor:
        return F.rms_norm(x, self.normalized_shape, self.weight, self.eps)

    def extra_repr(self) -> str:
        return f"{self.normalized_shape}, {super().extra_repr()}"


class GroupNorm(_Affine):
    """functional.group_norm of (batch, channels, ..): each of num_groups groups of neighbouring
    channels to mean 0 and variance 1, then a weight and a bias a channel."""

    _shown = ("eps", "affine")

    def __init__(self, num_groups: int, num_channels: int, eps: float = 1e-5, affine: bool = True,
                 device: str | None = None, dtype: DTypeLike | None = None, *, bias: bool = True
                 ) -> None:
        super().__init__()
        check_counts("GroupNorm", 1, num_groups=num_groups, num_channels=num_channels)
        if num_channels % num_groups:
            raise ArgumentError(f"GroupNorm: num_groups={num_groups} must divide "
                                f"num_channels={num_channels}")
        self.num_groups, self.num_channels = num_groups, num_channels
        self.eps, self.affine = eps, affine
        self._parameter("weight", (num_channels,), device, dtype, affine)
        self._parameter("bias", (num_channels,), device, dtype, affine and bias)
        self.reset_parameters()

    def forward(self, input: Tensor) -> Tensor:
        return F.group_norm(input, self.num_groups, self.weight, self.bias, self.eps)

    def extra_repr(self) -> str:
        return (f"{self.num_groups}, {self.num_channels}, {super().extra_repr()}, "
                f"bias={self.bias is not None}")


class LocalResponseNorm(Layer):
    """functional.local_response_norm."""

    _shown = ("alpha", "beta", "k")

    def __init__(self, size: int, alpha: float = 1e-4, beta: float = 0.75, k: float = 1.0) -> None:
        super().__init__()
        self.size, self.alpha, self.beta, self.k = size, alpha, beta, k

    def forward(self, input: Tensor) -> Tensor:
        return F.local_response_norm(input, self.size, self.alpha, self.beta, self.k)

    def extra_repr(self) -> str:
        return f"{self.size}, {super().extra_repr()}"


class CrossMapLRN2d(Layer):
    """Refused: PyTorch's sums and gradients are wrong. Use LocalResponseNorm."""

    def __init__(self, size: int, alpha: float = 1e-4, beta: float = 0.75, k: float = 1) -> None:
        raise NotDefinedError(
            "nn.CrossMapLRN2d: PyTorch's keeps channel 0 in every sum after it has left, its "
            "gradients are of other sums, and it fails for even sizes; use nn.LocalResponseNorm, "
            "which is what it is meant to be")

    forward = LocalResponseNorm.forward
