"""Axes joined, and taken apart."""
from __future__ import annotations

from collections.abc import Sequence

from lazyten.frontend.arguments import takes_tensors
from lazyten.frontend.tensor import Tensor
from lazyten.nn.modules.base import Layer
from lazyten.operators.math import shapes
from lazyten.support.errors import ArgumentError

_flatten = takes_tensors(Tensor.flatten)


class Flatten(Layer):
    """Axes start_dim to end_dim made one: by default all but the batch."""

    _shown = ("start_dim", "end_dim")

    def __init__(self, start_dim: int = 1, end_dim: int = -1) -> None:
        super().__init__()
        self.start_dim, self.end_dim = start_dim, end_dim

    def forward(self, input: Tensor) -> Tensor:
        return _flatten(input, self.start_dim, self.end_dim)


class Unflatten(Layer):
    """An axis in several of `unflattened_size`, of which one may be -1."""

    _shown = ("dim", "unflattened_size")

    def __init__(self, dim: int | str, unflattened_size: Sequence[int]) -> None:
        super().__init__()
        if isinstance(dim, str):
            raise ArgumentError(f"Unflatten: dim is the name {dim!r}, and axes have no names; give "
                                f"its number")
        if not isinstance(unflattened_size, tuple | list):
            raise ArgumentError(f"Unflatten: unflattened_size is {unflattened_size!r:.40}; give a "
                                f"tuple of sizes")
        self.dim = shapes.as_int(dim, "Unflatten", "dim")
        self.unflattened_size = unflattened_size

    def forward(self, input: Tensor) -> Tensor:
        return input.unflatten(self.dim, self.unflattened_size)
