"""Normalization of the channels of each example."""
from __future__ import annotations

from typing import ClassVar

from lazyten.frontend.tensor import DTypeLike, Tensor
from lazyten.nn import functional as F
from lazyten.nn.modules.batchnorm import _NormBase
from lazyten.pytorch.modules import later as _later
from lazyten.support.errors import ShapeError

__getattr__ = _later("lazyten.nn.modules.instancenorm")


class _InstanceNorm(_NormBase):
    """functional.instance_norm; `_rank`: how many axes a batch has."""

    _rank: ClassVar[int]

    def __init__(self, num_features: int, eps: float = 1e-5, momentum: float = 0.1,
                 affine: bool = False, track_running_stats: bool = False,
                 device: str | None = None, dtype: DTypeLike | None = None,
                 *, bias: bool = True) -> None:
        super().__init__(num_features, eps, momentum, affine, track_running_stats, device, dtype,
                         bias=bias)

    def _check_input_dim(self, input: Tensor) -> None:
        if input.ndim not in (self._rank - 1, self._rank):
            raise ShapeError(f"{type(self).__name__}: the input has shape {input.shape}; it needs "
                             f"{self._rank} axes: batch, channels, {self._rank - 2} spatial, or "
                             f"the same without a batch")
        channels = input.shape[1 - self._rank]
        if channels != self.num_features and self.affine:
            raise ShapeError(f"{type(self).__name__}: the input {input.shape} has {channels} "
                             f"channels; it needs num_features={self.num_features}")

    def forward(self, input: Tensor) -> Tensor:
        self._check_input_dim(input)
        if input.ndim < self._rank:
            return self._normalized(input.unsqueeze(0)).squeeze(0)
        return self._normalized(input)

    def _normalized(self, input: Tensor) -> Tensor:
        return F.instance_norm(input, self.running_mean, self.running_var, self.weight, self.bias,
                               self.training or not self.track_running_stats,
                               self.momentum or 0.0, self.eps)


class InstanceNorm1d(_InstanceNorm):
    """functional.instance_norm of (batch, channels, length), or of the same without a batch.

    track_running_stats: the means of its statistics are kept, and count in use. affine, bias: there
    is a weight, and a bias.
    """

    _rank = 3


class InstanceNorm2d(_InstanceNorm):
    """InstanceNorm1d with two spatial axes."""

    _rank = 4


class InstanceNorm3d(_InstanceNorm):
    """InstanceNorm1d with three spatial axes."""

    _rank = 5
