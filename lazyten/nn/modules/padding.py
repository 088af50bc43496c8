"""Padding as layers: a mode, for one to three spatial axes."""
from __future__ import annotations

from typing import ClassVar

from lazyten.frontend.tensor import Tensor
from lazyten.nn import functional as F
from lazyten.nn.modules.base import Layer
from lazyten.operators.math import shapes
from lazyten.operators.math.shapes import Sizes


class _Pad(Layer):
    """functional.pad of `_spatial` axes. padding: one number for all sides, or (before, after) of
    the last axis, then of the one before, and so on; negative numbers cut."""

    _spatial: ClassVar[int]
    _mode: ClassVar[str]
    padding: tuple[int, ...]

    def __init__(self, padding: Sizes) -> None:
        super().__init__()
        self.padding = shapes.pair(padding, 2 * self._spatial, type(self).__name__, "padding",
                                   least=-shapes.LARGEST)

    def forward(self, input: Tensor) -> Tensor:
        return F.pad(input, self.padding, self._mode)

    def extra_repr(self) -> str:
        return str(self.padding)


class _ConstantPadNd(_Pad):
    """`value` around the input."""

    _shown = ("padding", "value")
    _mode = "constant"

    def __init__(self, padding: Sizes, value: float) -> None:
        super().__init__(padding)
        self.value = value

    def forward(self, input: Tensor) -> Tensor:
        return F.pad(input, self.padding, self._mode, self.value)

    def extra_repr(self) -> str:
        return Layer.extra_repr(self)


class _ReflectionPadNd(_Pad):
    """The input mirrored at its edges, which are not repeated."""

    _mode = "reflect"


class _ReplicationPadNd(_Pad):
    """The edges of the input, again and again."""

    _mode = "replicate"


class _CircularPadNd(_Pad):
    """The other end of the input."""

    _mode = "circular"


class ConstantPad1d(_ConstantPadNd):
    """`value`, before and after the last axis."""

    _spatial = 1


class ConstantPad2d(_ConstantPadNd):
    """`value`, around the last two axes."""

    _spatial = 2


class ConstantPad3d(_ConstantPadNd):
    """`value`, around the last three axes."""

    _spatial = 3


class ReflectionPad1d(_ReflectionPadNd):
    """The input mirrored at its edges, before and after the last axis."""

    _spatial = 1


class ReflectionPad2d(_ReflectionPadNd):
    """The input mirrored at its edges, around the last two axes."""

    _spatial = 2


class ReflectionPad3d(_ReflectionPadNd):
    """The input mirrored at its edges, around the last three axes."""

    _spatial = 3


class ReplicationPad1d(_ReplicationPadNd):
    """The edges again and again, before and after the last axis."""

    _spatial = 1


class ReplicationPad2d(_ReplicationPadNd):
    """The edges again and again, around the last two axes."""

    _spatial = 2


class ReplicationPad3d(_ReplicationPadNd):
    """The edges again and again, around the last three axes."""

    _spatial = 3


class CircularPad1d(_CircularPadNd):
    """The input's other end, before and after the last axis."""

    _spatial = 1


class CircularPad2d(_CircularPadNd):
    """The input's other end, around the last two axes."""

    _spatial = 2


class CircularPad3d(_CircularPadNd):
    """The input's other end, around the last three axes."""

    _spatial = 3


class _ZeroPadNd(_ConstantPadNd):
    """Zeros around the input."""

    def __init__(self, padding: Sizes) -> None:
        super().__init__(padding, 0.0)

    def extra_repr(self) -> str:
        return str(self.padding)


class ZeroPad1d(_ZeroPadNd, ConstantPad1d):
    """Zeros before and after the last axis."""


class ZeroPad2d(_ZeroPadNd, ConstantPad2d):
    """Zeros around the last two axes."""


class ZeroPad3d(_ZeroPadNd, ConstantPad3d):
    """Zeros around the last three axes."""
