"""Whether indices and values fit each other: errors that name what does not."""
from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

import numpy as np

from lazyten.frontend.core.keywords import Layout
from lazyten.frontend.tensor import Tensor
from lazyten.ir.node import Shape
from lazyten.operators.math import shapes
from lazyten.sparse.compressed import AXIS
from lazyten.sparse.coordinates import CooTensor, _sorted
from lazyten.sparse.tensors import is_traced, read
from lazyten.storage.placement import has_values
from lazyten.support.errors import ArgumentError, IndexingError, ShapeError

_are_on = False


class check_sparse_tensor_invariants:
    """PyTorch's switch of the checks of sparse tensors: enable(), disable(), is_enabled(), and a
    block or a decorator. Indices outside the shape are errors in any case; this adds whether what
    is said to be coalesced is."""

    def __init__(self, enable: bool = True) -> None:
        self._wanted = enable
        self._before: list[bool] = []

    @staticmethod
    def is_enabled() -> bool:
        """Whether the checks are on."""
        return _are_on

    @staticmethod
    def enable() -> None:
        """Check from now on."""
        _set(True)

    @staticmethod
    def disable() -> None:
        """Check no more."""
        _set(False)

    def __enter__(self) -> None:
        self._before.append(_are_on)
        _set(self._wanted)

    def __exit__(self, *exc: object) -> None:
        _set(self._before.pop())

    def __call__(self, function: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(function)
        def checking(*args: Any, **kwargs: Any) -> Any:
            with type(self)(self._wanted):
                return function(*args, **kwargs)
        return checking


def _set(wanted: bool) -> None:
    global _are_on
    _are_on = wanted


def are_checked(wanted: bool | None) -> bool:
    """Whether what costs a look at all indices is checked."""
    return _are_on if wanted is None else wanted


def coo_shape(places: Tensor, values: Tensor, size: Any, name: str) -> Shape:
    """The shape of a tensor in coordinates, given or inferred; its indices are inside of it."""
    axes, dense = places.shape[0], tuple(values.shape[1:])
    if size is not None:
        shape = shapes.new_shape([size], name)
        if len(shape) != axes + len(dense) or shape[axes:] != dense:
            raise ShapeError(f"{name}: the size is {shape}, but indices are for {axes} axes, and "
                             f"values have {dense} besides; together they must be the size")
    if not _can_look(places, size, name):
        return shape
    where = read(places, name)
    if size is None:
        greatest = where.max(1) + 1 if where.size else np.zeros(axes, np.int64)
        shape = (*map(int, greatest), *dense)
    for axis in range(axes):
        _check_axis(where[axis], shape[axis], axis, name)
    return shape


def _can_look(x: Tensor, size: Any, name: str) -> bool:
    """Whether there are values to look at. ArgumentError if not, and the size is to be inferred."""
    found = has_values(x.device) and not is_traced()
    if not found and size is None:
        raise ArgumentError(f"{name}: the size is inferred from the greatest indices, which cannot "
                            f"be looked at here; give the size")
    return found


def _check_axis(index: Any, n: int, axis: int, name: str) -> None:
    if not index.size:
        return
    least, greatest = int(index.min()), int(index.max())
    if least < 0:
        raise IndexingError(f"{name}: found negative index {least} for axis {axis}; count from the "
                            f"front")
    if greatest >= n:
        raise IndexingError(f"{name}: found index {greatest} for axis {axis}, whose size is {n}")


def check_coalesced(x: CooTensor) -> None:
    """ArgumentError unless indices are in order, and none comes twice."""
    if _sorted(read(x._places, "is_coalesced"), x.shape)[1] is not None:
        raise ArgumentError("sparse_coo_tensor: is_coalesced=True, but indices are not in order, "
                            "or one comes twice; leave it out, or call coalesce()")


def compressed_shape(starts: Tensor, others: Tensor, values: Tensor, size: Any,
                     layout: Layout) -> Shape:
    """The shape of a compressed matrix, given or inferred, whose parts fit each other."""
    name, axis = f"{layout.name}_tensor", AXIS[layout]
    for what, x in (("compressed", starts), ("plain", others), ("values", values)):
        if x.ndim != 1 or what == "compressed" and not x.shape[0]:
            raise ShapeError(f"{name}: {what} has shape {tuple(x.shape)}; it has one axis: batches "
                             f"of matrices, and dense axes, are not there")
    if others.shape != values.shape:
        raise ShapeError(f"{name}: there are {others.shape[0]} indices and {values.shape[0]} "
                         f"values; both must be as many")
    lines = starts.shape[0] - 1
    if size is not None:
        shape = shapes.new_shape([size], name)
        if len(shape) != 2 or shape[axis] != lines:
            raise ShapeError(f"{name}: the size is {shape}, but compressed indices "
                             f"({starts.shape[0]},) are for {lines} on axis {axis}")
    if not _can_look(values, size, name):
        return shape
    _check_starts(read(starts, name), others.shape[0], name)
    plain = read(others, name)
    if size is None:
        n = int(plain.max()) + 1 if plain.size else 0
        shape = (lines, n) if axis == 0 else (n, lines)
    _check_axis(plain, shape[1 - axis], 1 - axis, name)
    return shape


def _check_starts(starts: Any, count: int, name: str) -> None:
    if starts[0] != 0 or starts[-1] != count:
        raise ArgumentError(f"{name}: compressed indices go from {starts[0]} to {starts[-1]}; they "
                            f"go from 0 to the number of values, {count}")
    falls = np.nonzero(np.diff(starts) < 0)[0]
    if falls.size:
        at = int(falls[0])
        raise ArgumentError(f"{name}: compressed indices fall from {starts[at]} to "
                            f"{starts[at + 1]}, at {at}; they never do")

