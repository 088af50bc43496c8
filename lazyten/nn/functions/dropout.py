"""Dropout: elements or whole channels that are left out by chance while a network trains."""
from __future__ import annotations

import math

from lazyten import random
from lazyten.frontend.arguments import takes_tensors
from lazyten.frontend.core.forms import made_of_others
from lazyten.frontend.tensor import Tensor
from lazyten.ir.node import Node, reshape
from lazyten.nn.functions.options import placed
from lazyten.operators.math import elementwise as ew
from lazyten.operators.math import shapes
from lazyten.support.errors import ArgumentError, DTypeError, ShapeError

SELU_LIMIT = -1.7580993408473766
"""What selu tends to for small x: what alpha_dropout puts in place of an element."""


def check_probability(p: float, operation: str) -> None:
    """ArgumentError unless 0 <= p <= 1."""
    if not 0 <= shapes.as_number(p, operation, "p") <= 1:
        raise ArgumentError(f"{operation}: p={p} must be a probability, 0 to 1")


def _kept(input: Tensor, p: float, axes: int) -> Node:
    """Where an element is kept: one draw for each place of the first `axes` axes."""
    shape = input.shape[:axes]
    chance = random.uniform(shape, input.dtype, input.device)
    wide = reshape(ew.greater_equal(chance, p), (*shape, *(1,) * (input.ndim - axes)))
    return ew.broadcast_to(wide, input.shape)


def _dropout(input: Tensor, p: float, training: bool, inplace: bool, axes: int, name: str,
             fill: float = 0.0) -> Tensor:
    """`fill` with probability p in places of the first `axes` axes, and then scaled and shifted to
    keep mean 0 and variance 1; of a fill of 0 only scaled, to keep the mean."""
    check_probability(p, name)
    if not training or p == 0:
        return input
    if not input.dtype.is_float:
        raise DTypeError(f"{name} of {input.dtype.name}: it is for floats; convert with .float()")
    if p == 1:
        return placed(input, input * 0.0, inplace)
    kept = _kept(input, p, axes)
    if not fill:
        return placed(input, input._unary(
            lambda x: ew.where(kept, ew.mul(x, 1 / (1 - p)), 0.0)), inplace)
    scale = 1 / math.sqrt((1 - p) * (1 + p * fill ** 2))
    return placed(input, input._special(lambda x: ew.add(
        ew.mul(ew.where(kept, x, fill), scale), -scale * fill * p)), inplace)


@takes_tensors
@made_of_others
def dropout(input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor:
    """Each element 0 with probability p, the rest over 1 - p; everything unless `training`."""
    return _dropout(input, p, training, inplace, input.ndim, "dropout")


def _channel_axes(input: Tensor, ranks: tuple[int, int], name: str) -> int:
    """How many axes come before the spatial ones; `ranks`: without and with a batch."""
    if input.ndim not in ranks:
        raise ShapeError(f"{name}: the input has shape {input.shape}; it needs {ranks[1]} axes: "
                         f"batch, channels, {ranks[1] - 2} spatial, or the same without a batch")
    return 1 if input.ndim == ranks[0] else 2


@takes_tensors
def dropout1d(input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False
              ) -> Tensor:
    """Each channel of (batch, channels, length), or of (channels, length), 0 with probability p."""
    axes = _channel_axes(input, (2, 3), "dropout1d")
    return _dropout(input, p, training, inplace, axes, "dropout1d")


@takes_tensors
def dropout2d(input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False
              ) -> Tensor:
    """Each channel of (batch, channels, height, width) 0 with probability p; three axes are (batch,
    channels, length), as in PyTorch."""
    _channel_axes(input, (3, 4), "dropout2d")
    return _dropout(input, p, training, inplace, 2, "dropout2d")


@takes_tensors
def dropout3d(input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False
              ) -> Tensor:
    """Each channel of (batch, channels, depth, height, width), or of the same without a batch, 0
    with probability p."""
    axes = _channel_axes(input, (4, 5), "dropout3d")
    return _dropout(input, p, training, inplace, axes, "dropout3d")


@takes_tensors
def alpha_dropout(input: Tensor, p: float = 0.5, training: bool = False, inplace: bool = False
                  ) -> Tensor:
    """dropout to selu's limit for small x, not to 0, that keeps mean 0 and variance 1."""
    return _dropout(input, p, training, inplace, input.ndim, "alpha_dropout", SELU_LIMIT)


@takes_tensors
def feature_alpha_dropout(input: Tensor, p: float = 0.5, training: bool = False,
                          inplace: bool = False) -> Tensor:
    """alpha_dropout of whole channels of (batch, channels, ..)."""
    if input.ndim < 2 and training:
        raise ShapeError(f"feature_alpha_dropout: the input has shape {input.shape}; it needs "
                         f"(batch, channels, ..)")
    return _dropout(input, p, training, inplace, 2, "feature_alpha_dropout", SELU_LIMIT)
