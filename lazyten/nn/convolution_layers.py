"""Convolution layers, with PyTorch's names, arguments and initial values."""
from __future__ import annotations

import math

from lazyten.frontend.tensor import DTypeLike, Tensor
from lazyten.nn import functional as F
from lazyten.nn.functions.convolution import Sizes
from lazyten.nn.layers import uniform_parameter
from lazyten.nn.module import Module
from lazyten.nn.parameter import Parameter
from lazyten.operators.math import shapes
from lazyten.support.errors import ArgumentError


class _Convolution(Module):
    """What all of them share; `spatial` is how many axes a window has."""

    spatial: int
    transposed = False

    def __init__(self, in_channels: int, out_channels: int, kernel_size: Sizes, stride: Sizes,
                 padding: Sizes | str, dilation: Sizes, groups: int, bias: bool,
                 device: str | None, dtype: DTypeLike | None) -> None:
        super().__init__()
        layer, count = type(self).__name__, self.spatial
        name = f"{layer}({in_channels}, {out_channels})"
        for number in (in_channels, out_channels, groups):
            if shapes.as_int(number, name, "a number of channels or groups") < 1:
                raise ArgumentError(f"{name}: channels and groups={groups} must be 1 or more")
        if isinstance(padding, str) and (padding not in ("valid", "same") or self.transposed):
            known = "a number" if self.transposed else "a number, 'valid' or 'same'"
            raise ArgumentError(f"{name}: padding {padding!r} must be {known}")
        if not isinstance(padding, str):
            padding = shapes.pair(padding, count, layer, "padding", least=0)
        if in_channels % groups or out_channels % groups:
            raise ArgumentError(f"{name}: groups={groups} must divide both numbers of channels")
        self.in_channels, self.out_channels = in_channels, out_channels
        self.kernel_size = shapes.pair(kernel_size, count, layer, "kernel_size")
        self.stride = shapes.pair(stride, count, layer, "stride")
        self.dilation = shapes.pair(dilation, count, layer, "dilation")
        self.padding: Sizes | str = padding
        self.groups = groups
        first, second = ((in_channels, out_channels) if self.transposed
                         else (out_channels, in_channels))
        shape = (first, second // groups, *self.kernel_size)
        fan_in = math.prod(shape[1:])
        self.weight = uniform_parameter(shape, fan_in, device, dtype)
        self.bias: Parameter | None
        self.register_parameter("bias", uniform_parameter((out_channels,), fan_in, device, dtype)
                                if bias else None)

    def extra_repr(self) -> str:
        none, one = (0,) * self.spatial, (1,) * self.spatial
        more = getattr(self, "output_padding", none)
        options = [("padding", self.padding, none), ("dilation", self.dilation, one),
                   ("output_padding", more, none), ("groups", self.groups, 1),
                   ("bias", self.bias is not None, True)]
        shown = "".join(f", {name}={value}" for name, value, usual in options if value != usual)
        return (f"{self.in_channels}, {self.out_channels}, kernel_size={self.kernel_size}, "
                f"stride={self.stride}{shown}")


class _Forward(_Convolution):
    def __init__(self, in_channels: int, out_channels: int, kernel_size: Sizes, stride: Sizes = 1,
                 padding: Sizes | str = 0, dilation: Sizes = 1, groups: int = 1, bias: bool = True,
                 device: str | None = None, dtype: DTypeLike | None = None) -> None:
        super().__init__(in_channels, out_channels, kernel_size, stride, padding, dilation, groups,
                         bias, device, dtype)

    def forward(self, input: Tensor) -> Tensor:
        convolve = (F.conv1d, F.conv2d, F.conv3d)[self.spatial - 1]
        return convolve(input, self.weight, self.bias, self.stride, self.padding, self.dilation,
                        self.groups)


class Conv1d(_Forward):
    """functional.conv1d with a weight (out, in/groups, taps) and a bias (out,)."""

    spatial = 1


class Conv2d(_Forward):
    """functional.conv2d with a weight (out, in/groups, height, width) and a bias (out,)."""

    spatial = 2


class Conv3d(_Forward):
    """functional.conv3d with a weight (out, in/groups, depth, height, width) and a bias (out,)."""

    spatial = 3


class _Transposed(_Convolution):
    transposed = True
    padding: Sizes

    def __init__(self, in_channels: int, out_channels: int, kernel_size: Sizes, stride: Sizes = 1,
                 padding: Sizes = 0, output_padding: Sizes = 0, groups: int = 1, bias: bool = True,
                 dilation: Sizes = 1, device: str | None = None,
                 dtype: DTypeLike | None = None) -> None:
        super().__init__(in_channels, out_channels, kernel_size, stride, padding, dilation, groups,
                         bias, device, dtype)
        self.output_padding = shapes.pair(output_padding, self.spatial, type(self).__name__,
                                          "output_padding", least=0)

    def forward(self, input: Tensor) -> Tensor:
        convolve = (F.conv_transpose1d, F.conv_transpose2d, F.conv_transpose3d)[self.spatial - 1]
        return convolve(input, self.weight, self.bias, self.stride, self.padding,
                        self.output_padding, self.groups, self.dilation)


class ConvTranspose1d(_Transposed):
    """functional.conv_transpose1d with a weight (in, out/groups, taps) and a bias (out,)."""

    spatial = 1


class ConvTranspose2d(_Transposed):
    """functional.conv_transpose2d with a weight (in, out/groups, height, width) and a bias (out,).
    """

    spatial = 2


class ConvTranspose3d(_Transposed):
    """functional.conv_transpose3d with a weight (in, out/groups, depth, height, width) and a bias
    (out,)."""

    spatial = 3
