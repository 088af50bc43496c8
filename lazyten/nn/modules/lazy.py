"""Layers that learn the size of their input from the first one, and then are ordinary layers.

A lazy layer's parameters are UninitializedParameters, which moves and optimizers may hold; the
first call, or loading a state, gives them shapes, and the first call makes the layer one of the
class `cls_to_become`.
"""
from __future__ import annotations

from typing import Any, ClassVar

from lazyten.frontend import functions
from lazyten.frontend.tensor import DTypeLike, Tensor
from lazyten.nn.module import Module
from lazyten.nn.modules import batchnorm, conv, instancenorm, linear
from lazyten.nn.modules.base import Layer
from lazyten.nn.parameter import UninitializedParameter, is_lazy
from lazyten.operators.math.shapes import Sizes
from lazyten.support.errors import ShapeError, StateError


class LazyModuleMixin(Layer):
    """Stands before a layer's class: before the first call, initialize_parameters() is called with
    its arguments, which must leave no parameter without a shape."""

    cls_to_become: type[Module] | None = None

    def has_uninitialized_params(self) -> bool:
        """Whether a parameter or a buffer of this module still has no shape."""
        return any(map(is_lazy, (*self._parameters.values(), *self._buffers.values())))

    def initialize_parameters(self, *args: Any, **kwargs: Any) -> None:
        """Materialize all parameters for such a call; subclasses define it."""
        raise StateError(f"{type(self).__name__} must define initialize_parameters(self, input)")

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if self.cls_to_become is not None or self.has_uninitialized_params():
            self._about_to_change(f"the first call of {type(self).__name__}")
            self.initialize_parameters(*args, **kwargs)
            if self.has_uninitialized_params():
                raise StateError(f"{type(self).__name__}: initialize_parameters() left a parameter "
                                 f"without a shape; materialize() each")
            if self.cls_to_become is not None:
                self.__class__ = self.cls_to_become  # type: ignore[assignment]
                return self(*args, **kwargs)
        return super().__call__(*args, **kwargs)

    def _before_load(self, state: dict[str, Any], prefix: str) -> None:
        super()._before_load(state, prefix)
        held: dict[str, Any] = {**self._parameters, **self._buffers}
        for name, p in held.items():
            if is_lazy(p) and isinstance(state.get(prefix + name), Tensor):
                p.materialize(state[prefix + name].shape)


class _LazyLayer(LazyModuleMixin):
    """A layer whose attribute `_size` is unknown: it is 0 until there is an input."""

    _size: ClassVar[str]

    def _parameter(self, name: str, shape: Any, device: str | None, dtype: DTypeLike | None,
                   wanted: bool = True) -> None:
        self.register_parameter(name, UninitializedParameter(device=device, dtype=dtype)
                                if wanted else None)

    def reset_parameters(self) -> None:
        """Set values where there are shapes."""
        if not self.has_uninitialized_params():
            super().reset_parameters()  # type: ignore[misc]

    def _of_input(self, input: Tensor) -> int:
        """The size that an input tells."""
        return input.shape[1]

    def initialize_parameters(self, input: Tensor) -> None:
        """Take the size from an input; what was not loaded gets its shape and first values."""
        setattr(self, self._size, self._of_input(input))
        wanted = self._shapes()
        new = [self._sized(name, shape) for name, shape in wanted.items()]
        if any(new):
            self.reset_parameters()

    def _sized(self, name: str, shape: tuple[int, ...]) -> bool:
        """Give a parameter or a buffer its shape; whether it had none."""
        p, buffer = self._parameters.get(name), self._buffers.get(name)
        if isinstance(p, UninitializedParameter):
            p.materialize(shape)
            return True
        if buffer is None or buffer.shape != (0,):
            return False
        self._buffers[name] = functions.zeros(shape, device=buffer.device, dtype=buffer.dtype)
        return True

    def _before_load(self, state: dict[str, Any], prefix: str) -> None:
        super()._before_load(state, prefix)
        for name, buffer in self._buffers.items():
            if buffer is not None and isinstance(state.get(prefix + name), Tensor):
                self._sized(name, state[prefix + name].shape)


class LazyLinear(_LazyLayer, linear.Linear):
    """Linear, whose in_features are those of the first input."""

    _size = "in_features"
    cls_to_become = linear.Linear

    def __init__(self, out_features: int, bias: bool = True, device: str | None = None,
                 dtype: DTypeLike | None = None) -> None:
        super().__init__(0, out_features, bias, device, dtype)

    def _of_input(self, input: Tensor) -> int:
        return input.shape[-1]


class _LazyConvolution(_LazyLayer):
    _size = "in_channels"
    _least_in = 0
    _spatial: ClassVar[int]

    def _of_input(self, input: Tensor) -> int:
        if input.ndim not in (self._spatial + 1, self._spatial + 2):
            raise ShapeError(f"{type(self).__name__} of shape {input.shape}: it is for "
                             f"(channels, *space) of {self._spatial} axes of space, or a batch of "
                             f"these")
        return input.shape[-self._spatial - 1]


class _LazyConv(_LazyConvolution, conv._Forward):
    """A convolution, whose in_channels are those of the first input."""

    def __init__(self, out_channels: int, kernel_size: Sizes, stride: Sizes = 1,
                 padding: Sizes | str = 0, dilation: Sizes = 1, groups: int = 1, bias: bool = True,
                 padding_mode: str = "zeros", device: str | None = None,
                 dtype: DTypeLike | None = None) -> None:
        super().__init__(0, out_channels, kernel_size, stride, padding, dilation, groups, bias,
                         padding_mode, device, dtype)


class _LazyConvTranspose(_LazyConvolution, conv._ConvTransposeNd):
    """A transposed convolution, whose in_channels are those of the first input."""

    def __init__(self, out_channels: int, kernel_size: Sizes, stride: Sizes = 1,
                 padding: Sizes = 0, output_padding: Sizes = 0, groups: int = 1, bias: bool = True,
                 dilation: Sizes = 1, padding_mode: str = "zeros", device: str | None = None,
                 dtype: DTypeLike | None = None) -> None:
        super().__init__(0, out_channels, kernel_size, stride, padding, output_padding, groups,
                         bias, dilation, padding_mode, device, dtype)


class _LazyNorm(_LazyLayer, batchnorm._NormBase):
    """A normalization, whose num_features are those of the first input."""

    _size = "num_features"

    def __init__(self, eps: float = 1e-5, momentum: float = 0.1, affine: bool = True,
                 track_running_stats: bool = True, device: str | None = None,
                 dtype: DTypeLike | None = None, *, bias: bool = True) -> None:
        super().__init__(0, eps, momentum, affine, track_running_stats, device, dtype, bias=bias)


class LazyConv1d(_LazyConv, conv.Conv1d):
    """Conv1d, whose in_channels are those of the first input."""

    cls_to_become = conv.Conv1d


class LazyConv2d(_LazyConv, conv.Conv2d):
    """Conv2d, whose in_channels are those of the first input."""

    cls_to_become = conv.Conv2d


class LazyConv3d(_LazyConv, conv.Conv3d):
    """Conv3d, whose in_channels are those of the first input."""

    cls_to_become = conv.Conv3d


class LazyConvTranspose1d(_LazyConvTranspose, conv.ConvTranspose1d):
    """ConvTranspose1d, whose in_channels are those of the first input."""

    cls_to_become = conv.ConvTranspose1d


class LazyConvTranspose2d(_LazyConvTranspose, conv.ConvTranspose2d):
    """ConvTranspose2d, whose in_channels are those of the first input."""

    cls_to_become = conv.ConvTranspose2d


class LazyConvTranspose3d(_LazyConvTranspose, conv.ConvTranspose3d):
    """ConvTranspose3d, whose in_channels are those of the first input."""

    cls_to_become = conv.ConvTranspose3d


class LazyBatchNorm1d(_LazyNorm, batchnorm._BatchNorm):
    """BatchNorm1d, whose num_features are those of the first input."""

    cls_to_become = batchnorm.BatchNorm1d


class LazyBatchNorm2d(_LazyNorm, batchnorm._BatchNorm):
    """BatchNorm2d, whose num_features are those of the first input."""

    cls_to_become = batchnorm.BatchNorm2d


class LazyBatchNorm3d(_LazyNorm, batchnorm._BatchNorm):
    """BatchNorm3d, whose num_features are those of the first input."""

    cls_to_become = batchnorm.BatchNorm3d


class LazyInstanceNorm1d(_LazyNorm, instancenorm._InstanceNorm):
    """InstanceNorm1d, whose num_features are those of the first input."""

    cls_to_become = instancenorm.InstanceNorm1d


class LazyInstanceNorm2d(_LazyNorm, instancenorm._InstanceNorm):
    """InstanceNorm2d, whose num_features are those of the first input."""

    cls_to_become = instancenorm.InstanceNorm2d


class LazyInstanceNorm3d(_LazyNorm, instancenorm._InstanceNorm):
    """InstanceNorm3d, whose num_features are those of the first input."""

    cls_to_become = instancenorm.InstanceNorm3d
