"""Dropout as layers: what is left out is drawn anew at each call while training."""
from __future__ import annotations

from lazyten.frontend.tensor import Tensor
from lazyten.nn import functional as F
from lazyten.nn.functions.dropout import check_probability
from lazyten.nn.modules.base import Layer


class _DropoutNd(Layer):
    """What all of them share. p: the probability to leave something out."""

    _shown = ("p", "inplace")

    def __init__(self, p: float = 0.5, inplace: bool = False) -> None:
        super().__init__()
        check_probability(p, type(self).__name__)
        self.p, self.inplace = p, inplace


class Dropout(_DropoutNd):
    """functional.dropout while training: each element 0 with probability p, the others over 1 - p;
    in use the input as it is."""

    def forward(self, input: Tensor) -> Tensor:
        return F.dropout(input, self.p, self.training, self.inplace)


class Dropout1d(_DropoutNd):
    """functional.dropout1d, of whole channels, while training."""

    def forward(self, input: Tensor) -> Tensor:
        return F.dropout1d(input, self.p, self.training, self.inplace)


class Dropout2d(_DropoutNd):
    """functional.dropout2d, of whole channels, while training."""

    def forward(self, input: Tensor) -> Tensor:
        return F.dropout2d(input, self.p, self.training, self.inplace)


class Dropout3d(_DropoutNd):
    """functional.dropout3d, of whole channels, while training."""

    def forward(self, input: Tensor) -> Tensor:
        return F.dropout3d(input, self.p, self.training, self.inplace)


class AlphaDropout(_DropoutNd):
    """functional.alpha_dropout while training."""

    def forward(self, input: Tensor) -> Tensor:
        return F.alpha_dropout(input, self.p, self.training)


class FeatureAlphaDropout(_DropoutNd):
    """functional.feature_alpha_dropout, of whole channels, while training."""

    def forward(self, input: Tensor) -> Tensor:
        return F.feature_alpha_dropout(input, self.p, self.training)
