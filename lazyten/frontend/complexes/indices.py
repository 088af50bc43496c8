"""Indices of complex tensors as indices of their pairs."""
from __future__ import annotations

from typing import Any

import numpy as np

from lazyten.frontend.methods.indexing import MASKS
from lazyten.frontend.tensor import Tensor
from lazyten.ir.node import Shape
from lazyten.operators.arrays import indexing
from lazyten.support.errors import ArgumentError, ShapeError


def index_of_pairs(index: Any, shape: Shape) -> tuple[Any, ...]:
    """An index of a tensor of this shape as one of its pairs, all axes but theirs named."""
    given = index if isinstance(index, tuple) else (index,)
    used = sum(_axes_of(e) for e in given)
    if used > len(shape):
        indexing.entries(given, shape)  # says so
        raise ShapeError(f"index {index!r:.60} has entries for {used} axes, but the tensor has "
                         f"shape {shape}")
    if any(e is Ellipsis for e in given):
        return _spelled_out(given, len(shape) - used)
    return (*given, *(slice(None),) * (len(shape) - used))


def _axes_of(entry: Any) -> int:
    """How many axes an entry of an index is for."""
    if entry is None or entry is Ellipsis or isinstance(entry, bool | np.bool_):
        return 0
    kind = getattr(entry, "dtype", None)
    if kind in (*MASKS, np.uint8) or isinstance(entry, list | tuple | np.ndarray) \
            and np.asarray(entry).dtype.kind == "b":
        return len(np.shape(entry)) if not isinstance(entry, Tensor) else entry.ndim
    return 1


def _spelled_out(given: tuple[Any, ...], missing: int) -> tuple[Any, ...]:
    """An index whose Ellipsis is the axes that it stands for."""
    place = next(n for n, e in enumerate(given) if e is Ellipsis)
    if any(e is Ellipsis for e in given[place + 1:]):
        raise ArgumentError(f"index {given!r:.60} has two ellipses; one stands for all axes that "
                            f"are left out")
    return (*given[:place], *(slice(None),) * missing, *given[place + 1:])
