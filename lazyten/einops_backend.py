"""einops for lazyten's tensors: `import lazyten.einops_backend`, once, after installing einops.

einops finds the backend of a tensor among the subclasses of its AbstractBackend, by the name of a
module that is imported; so defining one is registering it.
"""
from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from einops._backends import AbstractBackend

from lazyten.frontend.functions import arange, cat, einsum, stack, tensor
from lazyten.frontend.tensor import Tensor
from lazyten.support.errors import ArgumentError


class LazytenBackend(AbstractBackend):
    """What einops asks of a library."""

    framework_name = "lazyten"

    def is_appropriate_type(self, tensor: object) -> bool:
        """Whether it is a lazyten tensor."""
        return isinstance(tensor, Tensor)

    def from_numpy(self, x: np.ndarray[Any, Any]) -> Tensor:
        """A tensor of an array."""
        return tensor(x)

    def to_numpy(self, x: Tensor) -> np.ndarray[Any, Any]:
        """An array of a tensor."""
        return x.detach().numpy()

    def arange(self, start: int, stop: int) -> Tensor:
        """start, start + 1, .. below stop."""
        return arange(start, stop)

    def transpose(self, x: Tensor, axes: Sequence[int]) -> Tensor:
        """The axes in this order."""
        return x.permute(*axes)

    def reduce(self, x: Tensor, operation: str, axes: Sequence[int]) -> Tensor:
        """min, max, sum, mean, prod, any or all over axes."""
        name = {"min": "amin", "max": "amax"}.get(operation, operation)
        if name not in ("amin", "amax", "sum", "mean", "prod", "any", "all"):
            raise ArgumentError(f"einops.reduce by {operation!r}: use min, max, sum, mean, prod, "
                                f"any or all")
        return getattr(x, name)(tuple(axes)) if len(axes) else x

    def stack_on_zeroth_dimension(self, tensors: list[Tensor]) -> Tensor:
        """The tensors along a new first axis."""
        return stack(tensors)

    def add_axis(self, x: Tensor, new_position: int) -> Tensor:
        """A new axis of size 1."""
        return x.unsqueeze(new_position)

    def tile(self, x: Tensor, repeats: Sequence[int]) -> Tensor:
        """The tensor side by side."""
        return x.repeat(*repeats)

    def add_axes(self, x: Tensor, n_axes: int, pos2len: dict[int, int]) -> Tensor:
        """New axes of given sizes, without copies."""
        sizes = [-1] * n_axes
        for place, size in pos2len.items():
            x = x.unsqueeze(place)
            sizes[place] = size
        return x.expand(*sizes)

    def concat(self, tensors: Sequence[Tensor], axis: int) -> Tensor:
        """The tensors one after another."""
        return cat(list(tensors), axis)

    def is_float_type(self, x: Tensor) -> bool:
        """Whether means exist."""
        return x.is_floating_point()

    def einsum(self, pattern: str, *x: Tensor) -> Tensor:
        """A sum of products."""
        return einsum(pattern, *x)
