"""`SyncBatchNorm`: normalization by the batches of all processes."""
from __future__ import annotations

import math

from lazyten.distributed import state
from lazyten.distributed.functional import all_reduce
from lazyten.distributed.group import Group
from lazyten.frontend.tensor import DTypeLike, Tensor
from lazyten.ir import dtype as dt
from lazyten.nn import functional as F
from lazyten.nn.functions.normalization import by_moments
from lazyten.nn.module import Module
from lazyten.nn.modules.batchnorm import _BatchNorm
from lazyten.support.errors import ShapeError


class SyncBatchNorm(_BatchNorm):
    """BatchNorm of (batch, channels, ..), whose batch is that of all ranks of a group, or of all
    there are; ranks may have batches of different sizes. One process alone has its own."""

    def __init__(self, num_features: int, eps: float = 1e-5, momentum: float | None = 0.1,
                 affine: bool = True, track_running_stats: bool = True,
                 process_group: Group | None = None, device: str | None = None,
                 dtype: DTypeLike | None = None, *, bias: bool = True) -> None:
        super().__init__(num_features, eps, momentum, affine, track_running_stats, device, dtype,
                         bias=bias)
        self.process_group = process_group

    def _check_input_dim(self, input: Tensor) -> None:
        if input.ndim < 2:
            raise ShapeError(f"SyncBatchNorm: the input has shape {input.shape}; it needs (batch, "
                             f"channels, ..)")

    def _normalized(self, input: Tensor, mean: Tensor | None, var: Tensor | None, by_batch: bool,
                    momentum: float | Tensor) -> Tensor:
        group = self.process_group
        if group is None and state.is_initialized():
            group = state.world()
        if not by_batch or group is None or group.size == 1:
            return super()._normalized(input, mean, var, by_batch, momentum)
        if input.shape[1] != self.num_features:  # what all ranks see, before any waits
            return F.batch_norm(input, mean, var, self.weight, self.bias, True, momentum, self.eps)
        moments, count = _moments_of_all(input, group)
        return by_moments(input, mean, var, self.weight, self.bias, momentum, self.eps, moments,
                          count / (count - 1))

    @classmethod
    def convert_sync_batchnorm(cls, module: Module, process_group: Group | None = None) -> Module:
        """The module with each batch normalization made one of this class, with the same
        parameters and buffers."""
        made = module
        if isinstance(module, _BatchNorm):
            made = cls(module.num_features, module.eps, module.momentum, module.affine,
                       module.track_running_stats, process_group, bias=module.bias is not None)
            made._parameters.update(module._parameters)
            made._buffers.update(module._buffers)
            made.training = module.training
        for name, child in module.named_children():
            made.add_module(name, cls.convert_sync_batchnorm(child, process_group))
        return made


def _moments_of_all(input: Tensor, group: Group) -> tuple[tuple[Tensor, Tensor, Tensor], Tensor]:
    """The mean of each channel over all ranks, the input without it, the variance, and how many
    values a channel has. Two sums: of the values, then of the squares of what is left."""
    x = input.float() if input.dtype.is_half else input
    axes = (0, *range(2, input.ndim))
    own = math.prod(input.shape) // input.shape[1]
    count = all_reduce(x.new_full((1,), own, dtype=dt.float64), group=group).to(dtype=x.dtype)
    mean = all_reduce(x.sum(axes, keepdim=True), group=group) / count
    centred = x - mean
    variance = all_reduce(centred.square().sum(axes, keepdim=True), group=group) / count
    return (mean, centred, variance), count
