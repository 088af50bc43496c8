"""Segments of an axis, of lengths that differ, each reduced to one line."""
from __future__ import annotations

import math

from lazyten.frontend.arguments import takes_tensors
from lazyten.frontend.functions import arange, cat, searchsorted, where, zeros
from lazyten.frontend.tensor import Tensor
from lazyten.ir import dtype as dt
from lazyten.ir.dtype import Scalar
from lazyten.operators.math import shapes
from lazyten.support.errors import ArgumentError, DTypeError, ShapeError

REDUCTIONS = {"sum": "sum", "mean": "sum", "prod": "prod", "max": "amax", "min": "amin"}
EMPTY = {"sum": 0.0, "mean": 0.0, "prod": 1.0, "max": -math.inf, "min": math.inf}
"""What there is before the first element."""


@takes_tensors
def segment_reduce(data: Tensor, reduce: str, *, lengths: Tensor | None = None,
                   indices: Tensor | None = None, offsets: Tensor | None = None, axis: int = 0,
                   unsafe: bool = False, initial: Scalar | None = None) -> Tensor:
    """The sum, mean, max, min or prod of each segment of an axis: of segments of these lengths one
    behind the other, or of those from each offset to the next. Axes before it are rows, of which
    each has lengths of its own. A segment of nothing is `initial`, or what there is before the
    first element: 0, NaN of a mean, 1, and the infinities.

    unsafe: lengths and offsets are not looked at before, and what they leave out, or have too much,
    is left out.
    """
    start = _check(data, reduce, indices, offsets if offsets is not None else lengths, axis,
                   initial)
    ends = _offsets(lengths, offsets)
    axis = ends.ndim - 1
    count = ends.shape[-1] - 1
    if not unsafe:
        _check_offsets(ends, data.shape[axis], "lengths" if offsets is None else "offsets")
    row = arange(data.shape[axis], device=data.device)
    places = row.expand(*data.shape[:axis + 1]).contiguous()
    number = searchsorted(ends[..., 1:].contiguous(), places, right=True)
    number = where(places < ends[..., :1], count, number)  # the line behind them is of the rest
    wide = (...,) + (None,) * (data.ndim - axis - 1)
    base = data.new_full((*data.shape[:axis], count + 1, *data.shape[axis + 1:]), EMPTY[reduce])
    found = base.scatter_reduce(axis, number[wide].expand(data.shape), data, REDUCTIONS[reduce],
                                include_self=False).narrow(axis, 0, count)
    sizes = ends.diff(dim=-1)[wide]
    return _finished(found, sizes, reduce, start)


def _finished(found: Tensor, sizes: Tensor, reduce: str, start: float | None) -> Tensor:
    """With `start`, and of a mean over the sizes."""
    if start is not None:
        if reduce in ("max", "min"):
            found = where(found < start if reduce == "max" else found > start, start, found)
        else:
            found = found * start if reduce == "prod" else found + start
    if reduce != "mean":
        return found
    mean: Tensor = where(sizes == 0, math.nan if start is None else start,
                         found / sizes.clamp(min=1).to(found.dtype))
    return mean


def _offsets(lengths: Tensor | None, offsets: Tensor | None) -> Tensor:
    if offsets is not None:
        return offsets.long()
    assert lengths is not None
    first = zeros(*lengths.shape[:-1], 1, dtype=dt.int64, device=lengths.device)
    return cat([first, lengths.long().cumsum(-1)], -1)


def _check(data: Tensor, reduce: str, indices: Tensor | None, given: Tensor | None, axis: int,
           initial: Scalar | None) -> float | None:
    """The number to begin with."""
    name = "segment_reduce"
    if not isinstance(reduce, str) or reduce not in REDUCTIONS:
        raise ArgumentError(f"{name}: reduce={reduce!r} is not one of {', '.join(REDUCTIONS)}")
    if indices is not None:
        raise ArgumentError(f"{name}: segments by indices are not there, in PyTorch neither; use "
                            f"scatter_reduce")
    if given is None:
        raise ArgumentError(f"{name}: give lengths or offsets")
    if not data.dtype.is_float:
        raise DTypeError(f"{name} of {data.dtype.name}: it is for floats; convert with .float()")
    if not given.dtype.is_int:
        raise DTypeError(f"{name}: lengths or offsets are {given.dtype.name}; they must be "
                         f"integers")
    at = shapes.axis(axis, data.ndim, name)
    if not 0 < given.ndim <= data.ndim or given.shape[:-1] != data.shape[:given.ndim - 1]:
        raise ShapeError(f"{name}: lengths or offsets of shape {given.shape} for data of shape "
                         f"{data.shape}: the axes before their last must be those of the data")
    if at != given.ndim - 1:
        raise ShapeError(f"{name}: axis={axis}, and lengths or offsets of shape {given.shape} are "
                         f"of axis {given.ndim - 1}")
    return None if initial is None else float(shapes.as_number(initial, name, "initial"))


def _check_offsets(ends: Tensor, size: int, what: str) -> None:
    """ArgumentError unless each row of offsets goes up, within the axis; lengths fill it."""
    steps = ends.numpy()
    falls = (steps[..., 1:] < steps[..., :-1]).any() or (steps[..., :1] < 0).any()
    last = steps[..., -1:]
    if falls or (last > size).any() or what == "lengths" and (last != size).any():
        rule = f"none below 0, and their sum {size}" if what == "lengths" else \
            f"from 0 to {size}, none below the one before"
        raise ArgumentError(f"segment_reduce: the {what} of an axis of size {size} must be {rule}")
