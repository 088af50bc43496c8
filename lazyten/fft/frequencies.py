"""What orders frequencies: shifts, and the frequencies themselves."""
from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from lazyten.frontend.arguments import takes_tensors
from lazyten.frontend.core.handle import DTypeLike
from lazyten.frontend.core.keywords import making
from lazyten.frontend.functions import tensor
from lazyten.frontend.tensor import Tensor
from lazyten.ir import dtype as dt
from lazyten.ir.dtype import DType, as_dtype
from lazyten.operators.math import shapes
from lazyten.support.errors import ArgumentError, DTypeError


@takes_tensors
def fftshift(input: Tensor, dim: int | Sequence[int] | None = None) -> Tensor:
    """The halves of axes (None: all) exchanged, so that the frequency 0 is in the middle."""
    axes = shapes.axes(dim, input.ndim, "fftshift")
    return input.roll([input.shape[a] // 2 for a in axes], axes) if input.shape else input


@takes_tensors
def ifftshift(input: Tensor, dim: int | Sequence[int] | None = None) -> Tensor:
    """What undoes fftshift."""
    axes = shapes.axes(dim, input.ndim, "ifftshift")
    return input.roll([(input.shape[a] + 1) // 2 for a in axes], axes) if input.shape else input


def _count(n: int, operation: str) -> int:
    count = shapes.as_int(n, operation, "n")
    if count < 1:
        raise ArgumentError(f"{operation}: n={count}; give 1 or more")
    shapes.allocatable(count, operation)
    return count


def _kind(dtype: DTypeLike | None, operation: str) -> DType:
    kind = dt.default_float if dtype is None else as_dtype(dtype)
    if dt.category(kind) < dt.category(dt.float32):
        raise DTypeError(f"{operation} of {kind.name}: frequencies are parts of a whole; give a "
                         f"float type")
    return kind


@making
def fftfreq(n: int, d: float = 1.0, dtype: DTypeLike | None = None, device: str | None = None,
            requires_grad: bool = False) -> Tensor:
    """The frequencies of a transform of n values that are d apart: 0, 1, .., -2, -1 over n d."""
    spacing = float(shapes.as_number(d, "fftfreq", "d"))
    return tensor(np.fft.fftfreq(_count(n, "fftfreq"), spacing), _kind(dtype, "fftfreq"), device,
                  requires_grad)


@making
def rfftfreq(n: int, d: float = 1.0, dtype: DTypeLike | None = None, device: str | None = None,
             requires_grad: bool = False) -> Tensor:
    """Those of them that are not below 0: 0, 1, .., n // 2 over n d."""
    spacing = float(shapes.as_number(d, "rfftfreq", "d"))
    return tensor(np.fft.rfftfreq(_count(n, "rfftfreq"), spacing), _kind(dtype, "rfftfreq"), device,
                  requires_grad)
