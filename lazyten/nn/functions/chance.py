"""Dropout under the names that PyTorch has beside `nn.functional`: what trains is said, not left
out, and each has a twin that writes to its input.
"""
from __future__ import annotations

from lazyten.frontend.arguments import takes_tensors
from lazyten.frontend.tensor import Tensor
from lazyten.nn.functions import dropout as functional
from lazyten.support.errors import ShapeError


@takes_tensors
def dropout(input: Tensor, p: float, train: bool) -> Tensor:
    """Each element 0 with probability p, the rest over 1 - p; everything unless `train`."""
    return functional.dropout(input, p, train)


@takes_tensors
def dropout_(input: Tensor, p: float, train: bool) -> Tensor:
    """dropout() written to the input."""
    return functional.dropout(input, p, train, True)


@takes_tensors
def alpha_dropout(input: Tensor, p: float, train: bool) -> Tensor:
    """dropout to selu's limit for small x, not to 0, that keeps mean 0 and variance 1."""
    return functional.alpha_dropout(input, p, train)


@takes_tensors
def alpha_dropout_(input: Tensor, p: float, train: bool) -> Tensor:
    """alpha_dropout() written to the input."""
    return functional.alpha_dropout(input, p, train, True)


@takes_tensors
def feature_dropout(input: Tensor, p: float, train: bool) -> Tensor:
    """Each channel of (batch, channels, ..) 0 with probability p, the rest over 1 - p."""
    return _of_channels(input, p, train, False)


@takes_tensors
def feature_dropout_(input: Tensor, p: float, train: bool) -> Tensor:
    """feature_dropout() written to the input."""
    return _of_channels(input, p, train, True)


@takes_tensors
def feature_alpha_dropout(input: Tensor, p: float, train: bool) -> Tensor:
    """alpha_dropout() of whole channels of (batch, channels, ..)."""
    return functional.feature_alpha_dropout(input, p, train)


@takes_tensors
def feature_alpha_dropout_(input: Tensor, p: float, train: bool) -> Tensor:
    """feature_alpha_dropout() written to the input."""
    return functional.feature_alpha_dropout(input, p, train, True)


def _of_channels(input: Tensor, p: float, train: bool, inplace: bool) -> Tensor:
    if input.ndim < 2 and train:
        raise ShapeError(f"feature_dropout: the input has shape {input.shape}; it needs (batch, "
                         f"channels, ..)")
    return functional._dropout(input, p, train, inplace, 2, "feature_dropout")
