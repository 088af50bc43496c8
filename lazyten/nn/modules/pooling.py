"""Pooling as layers, over one to three spatial axes."""
from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

from lazyten.frontend.tensor import Tensor
from lazyten.nn import functional as F
from lazyten.nn.functions.spatial.adaptive_pooling import OutputSize
from lazyten.nn.functions.spatial.fractional_pooling import Ratios
from lazyten.nn.modules.base import Layer
from lazyten.operators.math import shapes
from lazyten.operators.math.shapes import Sizes
from lazyten.support.errors import ArgumentError

# ---- the greatest --------------------------------------------------------------------------------

class _MaxPoolNd(Layer):
    """The options of max_pool1d to max_pool3d; stride None: the kernel's size."""

    _shown = ("kernel_size", "stride", "padding", "dilation", "ceil_mode")

    def __init__(self, kernel_size: Sizes, stride: Sizes | None = None, padding: Sizes = 0,
                 dilation: Sizes = 1, return_indices: bool = False, ceil_mode: bool = False
                 ) -> None:
        super().__init__()
        self.kernel_size, self.stride = kernel_size, kernel_size if stride is None else stride
        self.padding, self.dilation = padding, dilation
        self.return_indices, self.ceil_mode = return_indices, ceil_mode


class MaxPool1d(_MaxPoolNd):
    """functional.max_pool1d."""

    def forward(self, input: Tensor) -> Any:
        return F.max_pool1d(input, self.kernel_size, self.stride, self.padding, self.dilation,
                            self.ceil_mode, self.return_indices)


class MaxPool2d(_MaxPoolNd):
    """functional.max_pool2d: the greatest of each window of (batch, channels, height, width); rows
    are (height + 2 padding - dilation (kernel - 1) - 1) // stride + 1, and columns alike."""

    def forward(self, input: Tensor) -> Any:
        return F.max_pool2d(input, self.kernel_size, self.stride, self.padding, self.dilation,
                            self.ceil_mode, self.return_indices)


class MaxPool3d(_MaxPoolNd):
    """functional.max_pool3d."""

    def forward(self, input: Tensor) -> Any:
        return F.max_pool3d(input, self.kernel_size, self.stride, self.padding, self.dilation,
                            self.ceil_mode, self.return_indices)


class _MaxUnpoolNd(Layer):
    """The options of max_unpool1d to max_unpool3d, each as one number for each spatial axis."""

    _shown = ("kernel_size", "stride", "padding")
    _spatial: ClassVar[int]

    def __init__(self, kernel_size: Sizes, stride: Sizes | None = None, padding: Sizes = 0) -> None:
        super().__init__()
        name, n = type(self).__name__, self._spatial
        self.kernel_size = shapes.pair(kernel_size, n, name, "kernel_size")
        self.stride = self.kernel_size if stride is None else shapes.pair(stride, n, name, "stride")
        self.padding = shapes.pair(padding, n, name, "padding", least=0)

    def forward(self, input: Tensor, indices: Tensor, output_size: Sequence[int] | None = None
                ) -> Tensor:
        unpool = (F.max_unpool1d, F.max_unpool2d, F.max_unpool3d)[self._spatial - 1]
        return unpool(input, indices, self.kernel_size, self.stride, self.padding, output_size)


class MaxUnpool1d(_MaxUnpoolNd):
    """functional.max_unpool1d."""

    _spatial = 1


class MaxUnpool2d(_MaxUnpoolNd):
    """functional.max_unpool2d."""

    _spatial = 2


class MaxUnpool3d(_MaxUnpoolNd):
    """functional.max_unpool3d."""

    _spatial = 3


class _FractionalMaxPoolNd(Layer):
    """The options of fractional_max_pool2d and fractional_max_pool3d."""

    _spatial: ClassVar[int]
    _random_samples: Tensor | None

    def __init__(self, kernel_size: Sizes, output_size: Sizes | None = None,
                 output_ratio: Ratios | None = None, return_indices: bool = False,
                 _random_samples: Tensor | None = None) -> None:
        super().__init__()
        name, n = type(self).__name__, self._spatial
        if (output_size is None) == (output_ratio is None):
            raise ArgumentError(f"{name}: give either output_size or output_ratio")
        self.kernel_size = shapes.pair(kernel_size, n, name, "kernel_size")
        self.output_size = None if output_size is None else shapes.pair(output_size, n, name,
                                                                        "output_size")
        self.output_ratio = output_ratio if output_ratio is None or isinstance(
            output_ratio, Sequence) else (output_ratio,) * n
        for ratio in self.output_ratio or ():
            if not 0 < ratio < 1:
                raise ArgumentError(f"{name}: output_ratio={output_ratio!r}; a ratio is between 0 "
                                    f"and 1")
        self.return_indices = return_indices
        self.register_buffer("_random_samples", _random_samples)

    def forward(self, input: Tensor) -> Any:
        pool = (F.fractional_max_pool2d, F.fractional_max_pool3d)[self._spatial - 2]
        return pool(input, self.kernel_size, self.output_size, self.output_ratio,
                    self.return_indices, self._random_samples)


class FractionalMaxPool2d(_FractionalMaxPoolNd):
    """functional.fractional_max_pool2d."""

    _spatial = 2


class FractionalMaxPool3d(_FractionalMaxPoolNd):
    """functional.fractional_max_pool3d."""

    _spatial = 3


# ---- the mean ------------------------------------------------------------------------------------

class _AvgPoolNd(Layer):
    """The options of avg_pool1d to avg_pool3d."""

    _shown = ("kernel_size", "stride", "padding")

    def __init__(self, kernel_size: Sizes, stride: Sizes | None = None, padding: Sizes = 0,
                 ceil_mode: bool = False, count_include_pad: bool = True,
                 divisor_override: int | None = None) -> None:
        super().__init__()
        self.kernel_size, self.stride = kernel_size, kernel_size if stride is None else stride
        self.padding, self.ceil_mode = padding, ceil_mode
        self.count_include_pad, self.divisor_override = count_include_pad, divisor_override


class AvgPool1d(_AvgPoolNd):
    """functional.avg_pool1d."""

    def __init__(self, kernel_size: Sizes, stride: Sizes | None = None, padding: Sizes = 0,
                 ceil_mode: bool = False, count_include_pad: bool = True) -> None:
        taps = shapes.pair(kernel_size, 1, "AvgPool1d", "kernel_size")
        steps = taps if stride is None else shapes.pair(stride, 1, "AvgPool1d", "stride")
        around = shapes.pair(padding, 1, "AvgPool1d", "padding", least=0)
        super().__init__(taps, steps, around, ceil_mode, count_include_pad)

    def forward(self, input: Tensor) -> Tensor:
        return F.avg_pool1d(input, self.kernel_size, self.stride, self.padding, self.ceil_mode,
                            self.count_include_pad)


class AvgPool2d(_AvgPoolNd):
    """functional.avg_pool2d."""

    def forward(self, input: Tensor) -> Tensor:
        return F.avg_pool2d(input, self.kernel_size, self.stride, self.padding, self.ceil_mode,
                            self.count_include_pad, self.divisor_override)


class AvgPool3d(_AvgPoolNd):
    """functional.avg_pool3d."""

    def forward(self, input: Tensor) -> Tensor:
        return F.avg_pool3d(input, self.kernel_size, self.stride, self.padding, self.ceil_mode,
                            self.count_include_pad, self.divisor_override)


# ---- to a given size -----------------------------------------------------------------------------

class _AdaptiveAvgPoolNd(Layer):
    """The option of adaptive_avg_pool1d to adaptive_avg_pool3d."""

    _shown = ("output_size",)

    def __init__(self, output_size: OutputSize) -> None:
        super().__init__()
        self.output_size = output_size


class AdaptiveAvgPool1d(_AdaptiveAvgPoolNd):
    """functional.adaptive_avg_pool1d."""

    def forward(self, input: Tensor) -> Tensor:
        return F.adaptive_avg_pool1d(input, self.output_size)


class AdaptiveAvgPool2d(_AdaptiveAvgPoolNd):
    """functional.adaptive_avg_pool2d."""

    def forward(self, input: Tensor) -> Tensor:
        return F.adaptive_avg_pool2d(input, self.output_size)


class AdaptiveAvgPool3d(_AdaptiveAvgPoolNd):
    """functional.adaptive_avg_pool3d."""

    def forward(self, input: Tensor) -> Tensor:
        return F.adaptive_avg_pool3d(input, self.output_size)


class _AdaptiveMaxPoolNd(Layer):
    """The options of adaptive_max_pool1d to adaptive_max_pool3d."""

    _shown = ("output_size",)

    def __init__(self, output_size: OutputSize, return_indices: bool = False) -> None:
        super().__init__()
        self.output_size, self.return_indices = output_size, return_indices


class AdaptiveMaxPool1d(_AdaptiveMaxPoolNd):
    """functional.adaptive_max_pool1d."""

    def forward(self, input: Tensor) -> Any:
        return F.adaptive_max_pool1d(input, self.output_size, self.return_indices)


class AdaptiveMaxPool2d(_AdaptiveMaxPoolNd):
    """functional.adaptive_max_pool2d."""

    def forward(self, input: Tensor) -> Any:
        return F.adaptive_max_pool2d(input, self.output_size, self.return_indices)


class AdaptiveMaxPool3d(_AdaptiveMaxPoolNd):
    """functional.adaptive_max_pool3d."""

    def forward(self, input: Tensor) -> Any:
        return F.adaptive_max_pool3d(input, self.output_size, self.return_indices)


# ---- the norm ------------------------------------------------------------------------------------

class _LPPoolNd(Layer):
    """The options of lp_pool1d to lp_pool3d."""

    _shown = ("norm_type", "kernel_size", "stride", "ceil_mode")

    def __init__(self, norm_type: float, kernel_size: Sizes, stride: Sizes | None = None,
                 ceil_mode: bool = False) -> None:
        super().__init__()
        self.norm_type, self.kernel_size = norm_type, kernel_size
        self.stride, self.ceil_mode = stride, ceil_mode


class LPPool1d(_LPPoolNd):
    """functional.lp_pool1d."""

    def forward(self, input: Tensor) -> Tensor:
        return F.lp_pool1d(input, float(self.norm_type), self.kernel_size, self.stride,
                           self.ceil_mode)


class LPPool2d(_LPPoolNd):
    """functional.lp_pool2d."""

    def forward(self, input: Tensor) -> Tensor:
        return F.lp_pool2d(input, float(self.norm_type), self.kernel_size, self.stride,
                           self.ceil_mode)


class LPPool3d(_LPPoolNd):
    """functional.lp_pool3d."""

    def forward(self, input: Tensor) -> Tensor:
        return F.lp_pool3d(input, float(self.norm_type), self.kernel_size, self.stride,
                           self.ceil_mode)
