"""Layers that multiply integers: inputs in 8 bits, by a scale found beforehand, and weights in 8.

    integers = round(input / input scale), held to their limits
    output   = (integers times the weight's integers, in int32) * input scale * weight scale + bias

The sums are exact; what an output loses it loses where inputs and weights were rounded.
"""
from __future__ import annotations

from typing import Any

from lazyten.frontend import functions
from lazyten.frontend.tensor import Tensor
from lazyten.ir import dtype as dt
from lazyten.nn import functional as F
from lazyten.nn.module import Module
from lazyten.nn.modules.conv import _Forward
from lazyten.nn.modules.linear import Linear
from lazyten.quantization.affine import to_integers
from lazyten.quantization.layers import IntegerWeight, keep_as_integers
from lazyten.quantization.observers import Limits
from lazyten.quantization.weights import Scheme
from lazyten.support.errors import ArgumentError, DTypeError, GradientError
from lazyten.support.grad_mode import is_grad_enabled

MOST_PRODUCTS = (2**31 - 1) // (255 * 127)
"""Products of an input and a weight that an int32 holds the sum of, whatever they are."""


class QuantizedInput(Module):
    """Floats to integers of 8 bits: uint8 from 0 to 255, or, if `signed`, int8 from -127 to 127.

    Buffers, of no axes: scale, and signed, which a state that is loaded decides anew.
    """

    scale: Tensor
    signed: Tensor

    def __init__(self, limits: Limits) -> None:
        super().__init__()
        self.is_signed = limits.low.item() < 0
        self.register_buffer("scale", limits.scale.detach().clone().realize())
        self.register_buffer("signed", functions.tensor(self.is_signed, device=self.scale.device))

    def _before_load(self, state: dict[str, Any], prefix: str) -> None:
        given = state.get(f"{prefix}signed")
        if isinstance(given, Tensor) and given.numel() == 1:
            self.is_signed = bool(given.item())

    def forward(self, x: Tensor) -> Tensor:
        """The integers, int8 or uint8."""
        low, high, kind = (-127, 127, dt.int8) if self.is_signed else (0, 255, dt.uint8)
        return to_integers(x, self.scale.to(x.dtype), 0.0, low, high).to(kind)

    def extra_repr(self) -> str:
        return f"{'int8' if self.is_signed else 'uint8'}, scale={self.scale.item():.4g}"


class IntegerProducts(IntegerWeight):
    """In front of the class of a linear layer or a convolution: its products are of integers."""

    quantized_input: QuantizedInput
    bias: Tensor | None

    def forward(self, input: Tensor) -> Tensor:
        """What the layer gives for floats, which become integers first."""
        name = type(self).__name__
        if not input.dtype.is_float:
            raise DTypeError(f"{name}: the input is {input.dtype.name}; it takes floats, and makes "
                             f"integers of them itself")
        if self.training and input.requires_grad and is_grad_enabled():
            raise GradientError(f"{name}: no gradient flows through integers; call eval(), or "
                                f"train with lazyten.quantization.prepare(model) instead")
        total = self._integer_products(self.quantized_input(input).to(dt.int32),
                                       self.integers.shaped(self.integers.whole()).to(dt.int32))
        after = [1] * (len(self.integers.shape) - 2)  # a convolution's channels are on axis -3, ..
        scale = self.quantized_input.scale * self.integers.scale.float().reshape(-1, *after)
        found = total.float() * scale
        if self.bias is not None:
            found = found + self.bias.reshape(-1, *after)
        return found.to(input.dtype)

    def _integer_products(self, whole: Tensor, weight: Tensor) -> Tensor:
        layer: Any = self
        if isinstance(layer, _Forward):
            return layer._conv_forward(whole, weight, None)
        return F.linear(whole, weight)

    def __repr__(self) -> str:
        return f"{super().__repr__()[:-1]}, input={self.quantized_input.extra_repr()})"


def has_integer_products(layer: Module) -> bool:
    """Whether a layer is one whose products can be of integers: a linear layer or a convolution,
    computed as these classes do it."""
    return type(layer).forward in (Linear.forward, _Forward.forward)


def multiply_integers(layer: Module, scheme: Scheme, limits: Limits, where: str) -> None:
    """Have a layer multiply integers, in place. where: how errors name the layer."""
    if not limits.scale.isfinite().item():
        raise ArgumentError(f"{where}: an input in the examples is infinite or no number")
    keep_as_integers(layer, scheme, where, IntegerProducts)
    integers: Any = layer.integers
    if integers.columns > MOST_PRODUCTS:
        raise ArgumentError(f"{where}: an output is a sum of {integers.columns:,} products, and an "
                            f"int32 holds that of {MOST_PRODUCTS:,}; leave the layer out with "
                            f"skip=[...], or quantize without examples")
    layer.quantized_input = QuantizedInput(limits).train(layer.training)
    layer.requires_grad_(False)
