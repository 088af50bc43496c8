"""Normalization of channels by a batch, with statistics that are kept for use."""
from __future__ import annotations

from typing import Any, ClassVar

from lazyten.frontend import functions
from lazyten.frontend.tensor import DTypeLike, Tensor
from lazyten.ir import dtype as dt
from lazyten.nn import functional as F
from lazyten.nn.modules.base import Layer, check_counts, set_constant
from lazyten.nn.parameter import Parameter
from lazyten.pytorch.modules import later as _later
from lazyten.support.errors import ShapeError
from lazyten.support.grad_mode import no_grad

__getattr__ = _later("lazyten.nn.modules.batchnorm")


class _NormBase(Layer):
    """Weight, bias and running statistics of channels, each None where an option leaves it out.

    The statistics are buffers, written in place: a jitted step updates them, too.
    """

    _version = 2  # from which on there is a count of batches, as in PyTorch

    weight: Parameter | None
    bias: Parameter | None
    running_mean: Tensor | None
    running_var: Tensor | None
    num_batches_tracked: Tensor | None

    def __init__(self, num_features: int, eps: float = 1e-5, momentum: float | None = 0.1,
                 affine: bool = True, track_running_stats: bool = True, device: str | None = None,
                 dtype: DTypeLike | None = None, *, bias: bool = True) -> None:
        super().__init__()
        check_counts(type(self).__name__, 0, num_features=num_features)
        self.num_features, self.eps, self.momentum = num_features, eps, momentum
        self.affine, self.track_running_stats = affine, track_running_stats
        shapes, kept = self._shapes(), track_running_stats
        self._parameter("weight", shapes["weight"], device, dtype, affine)
        self._parameter("bias", shapes["bias"], device, dtype, affine and bias)
        for name in ("running_mean", "running_var"):
            self.register_buffer(name, functions.zeros(shapes[name], device=device, dtype=dtype)
                                 if kept else None)
        self.register_buffer("num_batches_tracked", functions.zeros(
            (), device=device, dtype=dt.int64) if kept else None)
        self.reset_parameters()

    def _shapes(self) -> dict[str, tuple[int, ...]]:
        return dict.fromkeys(("weight", "bias", "running_mean", "running_var"),
                             (self.num_features,))

    def _before_load(self, state: dict[str, Any], prefix: str) -> None:
        """What was saved before there was a count of batches is loaded without it."""
        if self.num_batches_tracked is not None:
            state.setdefault(f"{prefix}num_batches_tracked", self.num_batches_tracked.detach())

    def reset_running_stats(self) -> None:
        """Running means of 0 and variances of 1, of no batch."""
        for buffer, value in ((self.running_mean, 0), (self.running_var, 1),
                              (self.num_batches_tracked, 0)):
            set_constant(buffer, value)

    def reset_parameters(self) -> None:
        """Statistics of no batch, a weight of ones and a bias of zeros."""
        self.reset_running_stats()
        set_constant(self.weight, 1.0)
        set_constant(self.bias, 0.0)

    def _check_input_dim(self, input: Tensor) -> None:
        """ShapeError for an input that the layer is not for."""

    def extra_repr(self) -> str:
        return (f"{self.num_features}, eps={self.eps}, momentum={self.momentum}, "
                f"affine={self.affine}, bias={self.bias is not None}, "
                f"track_running_stats={self.track_running_stats}")


class _BatchNorm(_NormBase):
    """functional.batch_norm; what it is given has one of the numbers of axes in `_ranks`."""

    _ranks: ClassVar[dict[int, str]] = {}

    def _check_input_dim(self, input: Tensor) -> None:
        if self._ranks and input.ndim not in self._ranks:
            raise ShapeError(f"{type(self).__name__}: the input has shape {input.shape}; it needs "
                             f"{' or '.join(self._ranks.values())}")

    def forward(self, input: Tensor) -> Tensor:
        self._check_input_dim(input)
        momentum: float | Tensor = 0.0 if self.momentum is None else self.momentum
        if self.training and self.track_running_stats and self.num_batches_tracked is not None:
            with no_grad():
                self.num_batches_tracked.add_(1)
                if self.momentum is None:  # the mean of all batches
                    momentum = 1.0 / self.num_batches_tracked.double()
        by_batch = self.training or (self.running_mean is None and self.running_var is None)
        kept = not self.training or self.track_running_stats
        return self._normalized(input, self.running_mean if kept else None,
                                self.running_var if kept else None, by_batch, momentum)

    def _normalized(self, input: Tensor, mean: Tensor | None, var: Tensor | None, by_batch: bool,
                    momentum: float | Tensor) -> Tensor:
        return F.batch_norm(input, mean, var, self.weight, self.bias, by_batch, momentum, self.eps)


class BatchNorm1d(_BatchNorm):
    """functional.batch_norm of (batch, channels) or (batch, channels, length).

    While training a share `momentum` (None: one over the number of batches) of a batch's mean and
    variance goes to running_mean and running_var, which are what counts in use. Without
    track_running_stats it is always the batch's. affine, bias: there is a weight, and a bias.
    """

    _ranks: ClassVar[dict[int, str]] = {2: "(batch, channels)", 3: "(batch, channels, length)"}


class BatchNorm2d(_BatchNorm):
    """BatchNorm1d of (batch, channels, height, width): by the mean and variance of a channel over
    batch, height and width while training, and by the running ones in use."""

    _ranks: ClassVar[dict[int, str]] = {4: "(batch, channels, height, width)"}


class BatchNorm3d(_BatchNorm):
    """BatchNorm1d of (batch, channels, depth, height, width)."""

    _ranks: ClassVar[dict[int, str]] = {5: "(batch, channels, depth, height, width)"}
