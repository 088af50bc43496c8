"""Affine layers, and the one that changes nothing."""
from __future__ import annotations

from typing import Any

from lazyten.frontend.tensor import DTypeLike, Tensor
from lazyten.nn import functional as F
from lazyten.nn.module import Module
from lazyten.nn.modules.base import Layer, check_counts, set_uniform
from lazyten.nn.parameter import Parameter


class Identity(Module):
    """What comes in; takes any arguments."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__()

    def forward(self, input: Tensor) -> Tensor:
        return input


class Linear(Layer):
    """y = x W^T + b: (.., in_features) to (.., out_features)."""

    weight: Parameter
    bias: Parameter | None

    def __init__(self, in_features: int, out_features: int, bias: bool = True,
                 device: str | None = None, dtype: DTypeLike | None = None) -> None:
        super().__init__()
        check_counts("Linear", 0, in_features=in_features, out_features=out_features)
        self.in_features, self.out_features = in_features, out_features
        shapes = self._shapes()
        self._parameter("weight", shapes["weight"], device, dtype)
        self._parameter("bias", shapes["bias"], device, dtype, bias)
        self.reset_parameters()

    def _shapes(self) -> dict[str, tuple[int, ...]]:
        return {"weight": (self.out_features, self.in_features), "bias": (self.out_features,)}

    def reset_parameters(self) -> None:
        """Draw weight and bias anew: uniform up to 1 / sqrt(in_features)."""
        set_uniform(self.weight, self.in_features)
        if self.bias is not None:
            set_uniform(self.bias, self.in_features)

    def forward(self, input: Tensor) -> Tensor:
        return F.linear(input, self.weight, self.bias)

    def extra_repr(self) -> str:
        return (f"in_features={self.in_features}, out_features={self.out_features}, "
                f"bias={self.bias is not None}")


class Bilinear(Layer):
    """functional.bilinear: (.., in1_features) and (.., in2_features) to (.., out_features)."""

    weight: Parameter
    bias: Parameter | None

    def __init__(self, in1_features: int, in2_features: int, out_features: int, bias: bool = True,
                 device: str | None = None, dtype: DTypeLike | None = None) -> None:
        super().__init__()
        check_counts("Bilinear", 1, in1_features=in1_features)
        check_counts("Bilinear", 0, in2_features=in2_features, out_features=out_features)
        self.in1_features, self.in2_features = in1_features, in2_features
        self.out_features = out_features
        self._parameter("weight", (out_features, in1_features, in2_features), device, dtype)
        self._parameter("bias", (out_features,), device, dtype, bias)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw weight and bias anew: uniform up to 1 / sqrt(in1_features)."""
        set_uniform(self.weight, self.in1_features)
        if self.bias is not None:
            set_uniform(self.bias, self.in1_features)

    def forward(self, input1: Tensor, input2: Tensor) -> Tensor:
        return F.bilinear(input1, input2, self.weight, self.bias)

    def extra_repr(self) -> str:
        return (f"in1_features={self.in1_features}, in2_features={self.in2_features}, "
                f"out_features={self.out_features}, bias={self.bias is not None}")
