"""Losses as modules."""
from __future__ import annotations

from lazyten.frontend.tensor import Tensor
from lazyten.nn import functional as F
from lazyten.nn.functions.options import reduction_of
from lazyten.nn.module import Module


class CrossEntropyLoss(Module):
    """functional.cross_entropy with its options kept."""

    def __init__(self, weight: Tensor | None = None, size_average: bool | None = None,
                 ignore_index: int = -100, reduce: bool | None = None, reduction: str = "mean",
                 label_smoothing: float = 0.0) -> None:
        super().__init__()
        self.weight: Tensor | None
        self.register_buffer("weight", weight)
        self.ignore_index = ignore_index
        self.reduction = reduction_of(size_average, reduce, reduction)
        self.label_smoothing = label_smoothing

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return F.cross_entropy(input, target, self.weight, ignore_index=self.ignore_index,
                               reduction=self.reduction, label_smoothing=self.label_smoothing)


class MSELoss(Module):
    """functional.mse_loss."""

    def __init__(self, size_average: bool | None = None, reduce: bool | None = None,
                 reduction: str = "mean") -> None:
        super().__init__()
        self.reduction = reduction_of(size_average, reduce, reduction)

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return F.mse_loss(input, target, reduction=self.reduction)
