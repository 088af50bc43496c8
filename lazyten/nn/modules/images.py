"""Windows of images, their pixels moved, and their sizes changed, as layers."""
from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from lazyten.frontend.tensor import Tensor
from lazyten.nn import functional as F
from lazyten.nn.modules.base import Layer
from lazyten.operators.math import shapes
from lazyten.operators.math.shapes import Sizes


class _Windows(Layer):
    """Where windows of an image are."""

    _shown: ClassVar[tuple[str, ...]] = ("kernel_size", "dilation", "padding", "stride")

    def __init__(self, kernel_size: Sizes, dilation: Sizes = 1, padding: Sizes = 0,
                 stride: Sizes = 1) -> None:
        super().__init__()
        self.kernel_size, self.dilation = kernel_size, dilation
        self.padding, self.stride = padding, stride


class Unfold(_Windows):
    """functional.unfold: windows to columns."""

    def forward(self, input: Tensor) -> Tensor:
        return F.unfold(input, self.kernel_size, self.dilation, self.padding, self.stride)


class Fold(_Windows):
    """functional.fold: columns back to where windows are, summed."""

    _shown = ("output_size", *_Windows._shown)

    def __init__(self, output_size: Sizes, kernel_size: Sizes, dilation: Sizes = 1,
                 padding: Sizes = 0, stride: Sizes = 1) -> None:
        super().__init__(kernel_size, dilation, padding, stride)
        self.output_size = output_size

    def forward(self, input: Tensor) -> Tensor:
        return F.fold(input, self.output_size, self.kernel_size, self.dilation, self.padding,
                      self.stride)


class PixelShuffle(Layer):
    """functional.pixel_shuffle."""

    _shown = ("upscale_factor",)

    def __init__(self, upscale_factor: int) -> None:
        super().__init__()
        self.upscale_factor = upscale_factor

    def forward(self, input: Tensor) -> Tensor:
        return F.pixel_shuffle(input, self.upscale_factor)


class PixelUnshuffle(Layer):
    """functional.pixel_unshuffle."""

    _shown = ("downscale_factor",)

    def __init__(self, downscale_factor: int) -> None:
        super().__init__()
        self.downscale_factor = downscale_factor

    def forward(self, input: Tensor) -> Tensor:
        return F.pixel_unshuffle(input, self.downscale_factor)


class ChannelShuffle(Layer):
    """functional.channel_shuffle."""

    _shown = ("groups",)

    def __init__(self, groups: int) -> None:
        super().__init__()
        self.groups = groups

    def forward(self, input: Tensor) -> Tensor:
        return F.channel_shuffle(input, self.groups)


def _factor(value: float) -> float:
    """One of the factors of Upsample."""
    return float(shapes.as_number(value, "Upsample", "scale_factor"))


class Upsample(Layer):
    """functional.interpolate, which makes images smaller, too."""

    size: int | tuple[int, ...] | None
    scale_factor: float | tuple[float, ...] | None

    def __init__(self, size: int | Sequence[int] | None = None,
                 scale_factor: float | Sequence[float] | None = None, mode: str = "nearest",
                 align_corners: bool | None = None, recompute_scale_factor: bool | None = None
                 ) -> None:
        super().__init__()
        self.size = tuple(size) if isinstance(size, Sequence) else size
        self.scale_factor = tuple(map(_factor, scale_factor)) if isinstance(
            scale_factor, Sequence) else _factor(scale_factor) if scale_factor else None
        self.mode, self.align_corners = mode, align_corners
        self.recompute_scale_factor = recompute_scale_factor

    def forward(self, input: Tensor) -> Tensor:
        return F.interpolate(input, self.size, self.scale_factor, self.mode, self.align_corners,
                             self.recompute_scale_factor)

    def extra_repr(self) -> str:
        what = "size" if self.scale_factor is None else "scale_factor"
        return f"{what}={getattr(self, what)}, mode={self.mode!r}"


class UpsamplingNearest2d(Upsample):
    """Upsample in mode 'nearest', of images."""

    def __init__(self, size: int | Sequence[int] | None = None,
                 scale_factor: float | Sequence[float] | None = None) -> None:
        super().__init__(size, scale_factor, "nearest")


class UpsamplingBilinear2d(Upsample):
    """Upsample in mode 'bilinear' between corners."""

    def __init__(self, size: int | Sequence[int] | None = None,
                 scale_factor: float | Sequence[float] | None = None) -> None:
        super().__init__(size, scale_factor, "bilinear", align_corners=True)
