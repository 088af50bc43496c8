"""Convolutions as layers."""
from __future__ import annotations

import math
from collections.abc import Sequence
from typing import ClassVar

from lazyten.frontend.tensor import DTypeLike, Tensor
from lazyten.nn import functional as F
from lazyten.nn.modules.base import Layer, check_counts, set_uniform
from lazyten.nn.parameter import Parameter
from lazyten.operators.math import shapes
from lazyten.operators.math.shapes import Sizes
from lazyten.pytorch.modules import later as _later
from lazyten.support.errors import ArgumentError, ShapeError

__getattr__ = _later("lazyten.nn.modules.conv")

PADDING_MODES = {"zeros": "constant", "reflect": "reflect", "replicate": "replicate",
                 "circular": "circular"}
"""What functional.pad calls them."""


class _ConvNd(Layer):
    """What all of them share; `_spatial` is how many axes a window has."""

    _spatial: ClassVar[int]
    _least_in: ClassVar[int] = 1
    transposed = False
    weight: Parameter
    bias: Parameter | None

    def __init__(self, in_channels: int, out_channels: int, kernel_size: Sizes, stride: Sizes,
                 padding: Sizes | str, dilation: Sizes, groups: int, bias: bool, padding_mode: str,
                 device: str | None, dtype: DTypeLike | None) -> None:
        super().__init__()
        layer, count = type(self).__name__, self._spatial
        check_counts(layer, 1, out_channels=out_channels, groups=groups)
        check_counts(layer, self._least_in, in_channels=in_channels)
        _check_padding(padding, padding_mode, self.transposed, layer)
        if in_channels % groups or out_channels % groups:
            raise ArgumentError(f"{layer}({in_channels}, {out_channels}): groups={groups} must "
                                f"divide both numbers of channels")
        self.in_channels, self.out_channels = in_channels, out_channels
        self.kernel_size = shapes.pair(kernel_size, count, layer, "kernel_size")
        self.stride = shapes.pair(stride, count, layer, "stride")
        self.padding: Sizes | str = padding if isinstance(padding, str) else shapes.pair(
            padding, count, layer, "padding", least=0)
        self.dilation = shapes.pair(dilation, count, layer, "dilation")
        self.output_padding = (0,) * count
        self.groups, self.padding_mode = groups, padding_mode
        wanted = self._shapes()
        self._parameter("weight", wanted["weight"], device, dtype)
        self._parameter("bias", wanted["bias"], device, dtype, bias)
        self.reset_parameters()

    def _shapes(self) -> dict[str, tuple[int, ...]]:
        first, second = ((self.in_channels, self.out_channels) if self.transposed
                         else (self.out_channels, self.in_channels))
        return {"weight": (first, second // self.groups, *self.kernel_size),
                "bias": (self.out_channels,)}

    def reset_parameters(self) -> None:
        """Draw weight and bias anew: uniform up to 1 / sqrt(the inputs of an output)."""
        fan_in = math.prod(self.weight.shape[1:])
        set_uniform(self.weight, fan_in)
        if self.bias is not None:
            set_uniform(self.bias, fan_in)

    def extra_repr(self) -> str:
        none, one = (0,) * self._spatial, (1,) * self._spatial
        options = [("padding", self.padding, none), ("dilation", self.dilation, one),
                   ("output_padding", self.output_padding, none), ("groups", self.groups, 1),
                   ("bias", self.bias is not None, True),
                   ("padding_mode", self.padding_mode, "zeros")]
        shown = "".join(f", {name}={value}" for name, value, usual in options if value != usual)
        return (f"{self.in_channels}, {self.out_channels}, kernel_size={self.kernel_size}, "
                f"stride={self.stride}{shown}")


def _check_padding(padding: Sizes | str, mode: str, transposed: bool, layer: str) -> None:
    if isinstance(padding, str) and (padding not in ("valid", "same") or transposed):
        known = "a number" if transposed else "a number, 'valid' or 'same'"
        raise ArgumentError(f"{layer}: padding {padding!r} must be {known}")
    known_modes = ["zeros"] if transposed else [*PADDING_MODES]
    if mode not in known_modes:
        raise ArgumentError(f"{layer}: padding_mode {mode!r} is not one of "
                            f"{', '.join(known_modes)}")


class _Forward(_ConvNd):
    def __init__(self, in_channels: int, out_channels: int, kernel_size: Sizes, stride: Sizes = 1,
                 padding: Sizes | str = 0, dilation: Sizes = 1, groups: int = 1, bias: bool = True,
                 padding_mode: str = "zeros", device: str | None = None,
                 dtype: DTypeLike | None = None) -> None:
        super().__init__(in_channels, out_channels, kernel_size, stride, padding, dilation, groups,
                         bias, padding_mode, device, dtype)
        if padding == "same" and any(s != 1 for s in self.stride):
            raise ArgumentError(f"{type(self).__name__}: padding 'same' with stride {stride}; it "
                                f"needs a stride of 1")

    def forward(self, input: Tensor) -> Tensor:
        return self._conv_forward(input, self.weight, self.bias)

    def _conv_forward(self, input: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        """The convolution by any weight and bias; PyTorch's programs call it by this name."""
        convolve = (F.conv1d, F.conv2d, F.conv3d)[self._spatial - 1]
        padding: Sizes | str = self.padding
        if self.padding_mode != "zeros":
            input = F.pad(input, self._sides(), PADDING_MODES[self.padding_mode])
            padding = 0
        return convolve(input, weight, bias, self.stride, padding, self.dilation, self.groups)

    def _sides(self) -> list[int]:
        """How much stands before and after each axis, the last one first."""
        if isinstance(self.padding, str):
            totals = [d * (k - 1) * (self.padding == "same") for d, k in zip(
                self.dilation, self.kernel_size, strict=True)]
            return [side for t in reversed(totals) for side in (t // 2, t - t // 2)]
        around = shapes.pair(self.padding, self._spatial, type(self).__name__, "padding", least=0)
        return [side for n in reversed(around) for side in (n, n)]


class Conv1d(_Forward):
    """functional.conv1d with a weight (out, in/groups, taps) and a bias (out,)."""

    _spatial = 1


class Conv2d(_Forward):
    """functional.conv2d with a weight (out, in/groups, height, width) and a bias (out,):
    (batch, in, height, width) to (batch, out, rows, columns), or both without batch.

    rows are (height + 2 padding - dilation (kernel - 1) - 1) // stride + 1, and columns alike;
    padding 'same' keeps the sizes, with stride 1. Both are uniform up to the root of groups over
    (in times the kernel's elements) at first.
    """

    _spatial = 2


class Conv3d(_Forward):
    """functional.conv3d with a weight (out, in/groups, depth, height, width) and a bias (out,)."""

    _spatial = 3


class _ConvTransposeNd(_ConvNd):
    transposed = True
    padding: Sizes

    def __init__(self, in_channels: int, out_channels: int, kernel_size: Sizes, stride: Sizes = 1,
                 padding: Sizes = 0, output_padding: Sizes = 0, groups: int = 1, bias: bool = True,
                 dilation: Sizes = 1, padding_mode: str = "zeros", device: str | None = None,
                 dtype: DTypeLike | None = None) -> None:
        super().__init__(in_channels, out_channels, kernel_size, stride, padding, dilation, groups,
                         bias, padding_mode, device, dtype)
        self.output_padding = shapes.pair(output_padding, self._spatial, type(self).__name__,
                                          "output_padding", least=0)

    def forward(self, input: Tensor, output_size: Sequence[int] | None = None) -> Tensor:
        """output_size: that of the result, one of those that a convolution would bring to the
        input's; it takes the place of output_padding."""
        convolve = (F.conv_transpose1d, F.conv_transpose2d, F.conv_transpose3d)[self._spatial - 1]
        more = self.output_padding if output_size is None else \
            self._output_padding(input, output_size)
        return convolve(input, self.weight, self.bias, self.stride, self.padding, more,
                        self.groups, self.dilation)

    def _output_padding(self, input: Tensor, output_size: Sequence[int]) -> tuple[int, ...]:
        """What is missing to the wanted size. ShapeError if it is not 0 to stride - 1."""
        name, n = type(self).__name__, self._spatial
        wanted = shapes.sizes([output_size], name)
        around = shapes.pair(self.padding, n, name, "padding", least=0)
        least = [(size - 1) * s - 2 * p + d * (k - 1) + 1 for size, s, p, d, k in zip(
            input.shape[-n:], self.stride, around, self.dilation, self.kernel_size, strict=True)]
        most = [m + s - 1 for m, s in zip(least, self.stride, strict=True)]
        if len(wanted) not in (n, input.ndim) or any(
                not low <= w <= high for low, w, high in zip(least, wanted[-n:], most,
                                                             strict=True)):
            raise ShapeError(f"{name}: output_size {wanted} of an input {input.shape}: the "
                             f"{n} spatial sizes must be {least} to {most}")
        return tuple(w - m for w, m in zip(wanted[-n:], least, strict=True))


class ConvTranspose1d(_ConvTransposeNd):
    """functional.conv_transpose1d with a weight (in, out/groups, taps) and a bias (out,)."""

    _spatial = 1


class ConvTranspose2d(_ConvTransposeNd):
    """functional.conv_transpose2d with a weight (in, out/groups, height, width) and a bias (out,):
    (batch, in, height, width) to (batch, out, rows, columns).

    rows are (height - 1) stride - 2 padding + dilation (kernel - 1) + output_padding + 1, and
    columns alike.
    """

    _spatial = 2


class ConvTranspose3d(_ConvTransposeNd):
    """functional.conv_transpose3d with a weight (in, out/groups, depth, height, width) and a bias
    (out,)."""

    _spatial = 3
