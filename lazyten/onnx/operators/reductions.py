"""Operators that make one element of many: sums, extremes, cumulative sums."""
from __future__ import annotations

from collections.abc import Callable
from typing import Any

import lazyten as lt
from lazyten.onnx.table import operator
from lazyten.onnx.values import Array

T = lt.Tensor
Reduction = Callable[[T, list[int], bool], T]


def _extreme(x: T, axes: list[int], keep: bool, name: str) -> T:
    """amax or amin; of nothing, the least or greatest value there is."""
    sizes = [x.shape[axis] for axis in axes]
    if 0 in sizes:
        limit = x.dtype.min if name == "amax" else x.dtype.max
        gone = {axis % x.ndim for axis in axes}
        shape = [1 if i in gone else n for i, n in enumerate(x.shape) if keep or i not in gone]
        return lt.full(shape, limit, dtype=x.dtype, device=x.device)
    if x.dtype is lt.bool_:
        return getattr(x.to(lt.uint8), name)(tuple(axes), keepdim=keep).to(lt.bool_)  # type: ignore[no-any-return]
    return getattr(x, name)(tuple(axes), keepdim=keep)  # type: ignore[no-any-return]


def _sum(x: T, axes: list[int], keep: bool) -> T:
    return x.sum(tuple(axes), keepdim=keep, dtype=x.dtype)


def _product(x: T, axes: list[int], keep: bool) -> T:
    for axis in sorted((axis % x.ndim for axis in axes), reverse=True):
        x = x.prod(axis, keepdim=keep, dtype=x.dtype)
    return x


def _mean(x: T, axes: list[int], keep: bool) -> T:
    if x.is_floating_point():
        return x.mean(tuple(axes), keepdim=keep)
    count = 1
    for axis in axes:
        count *= x.shape[axis]
    return lt.div(_sum(x, axes, keep), count, rounding_mode="trunc").to(x.dtype)


def _floating(function: Callable[[T, list[int], bool], T]) -> Reduction:
    """A reduction that is computed in floats, and gives the type of its input."""
    def reduce(x: T, axes: list[int], keep: bool) -> T:
        wide = x if x.is_floating_point() else x.to(lt.float64)
        return function(wide, axes, keep).to(x.dtype)
    return reduce


REDUCTIONS: dict[str, Reduction] = {
    "ReduceSum": _sum,
    "ReduceMean": _mean,
    "ReduceProd": _product,
    "ReduceMax": lambda x, axes, keep: _extreme(x, axes, keep, "amax"),
    "ReduceMin": lambda x, axes, keep: _extreme(x, axes, keep, "amin"),
    "ReduceL1": lambda x, axes, keep: _sum(x.abs(), axes, keep),
    "ReduceL2": _floating(lambda x, axes, keep: _sum(x * x, axes, keep).sqrt()),
    "ReduceSumSquare": lambda x, axes, keep: _sum(x * x, axes, keep),
    "ReduceLogSum": _floating(lambda x, axes, keep: _sum(x, axes, keep).log()),
    "ReduceLogSumExp": _floating(lambda x, axes, keep: x.logsumexp(tuple(axes), keepdim=keep)),
}


def _reduce(function: Reduction, x: T, axes: Any, keepdims: int, nothing: int) -> T:
    chosen = [] if axes is None else [int(axis) for axis in axes]
    if not chosen and nothing:  # no axis is reduced; what is done with each element is done
        return function(x.unsqueeze(0), [0], False)
    chosen = chosen or list(range(x.ndim))
    return function(x, chosen, bool(keepdims)) if chosen else function(x.reshape(1), [0], False)


def _rows(name: str, function: Reduction) -> None:
    @operator(name, since=13 if name == "ReduceSum" else 18, host="axes")
    def reduce(data: T, axes: Array | None = None, *, keepdims: int = 1,
               noop_with_empty_axes: int = 0) -> T:
        return _reduce(function, data, axes, keepdims, noop_with_empty_axes)

    @operator(name)
    def reduce_1(data: T, *, axes: list[int] | None = None, keepdims: int = 1) -> T:
        return _reduce(function, data, axes, keepdims, 0)


for _name, _function in REDUCTIONS.items():
    _rows(_name, _function)


def _position(name: str) -> None:
    @operator(name)
    def arg(data: T, *, axis: int = 0, keepdims: int = 1, select_last_index: int = 0) -> T:
        function = lt.argmax if name == "ArgMax" else lt.argmin
        shape = [n if i != axis % data.ndim else 1 for i, n in enumerate(data.shape)]
        if 0 in shape:  # no result, which has no place either
            data = data.new_zeros(shape)
        if not select_last_index:
            return function(data, axis, keepdim=bool(keepdims))
        return data.shape[axis] - 1 - function(data.flip(axis), axis, keepdim=bool(keepdims))


for _name in ("ArgMax", "ArgMin"):
    _position(_name)


def _cumulative(x: T, axis: Array, exclusive: int, reverse: int, start: int,
                function: Callable[..., T]) -> T:
    along = int(axis.item())
    x = x.flip(along) if reverse else x
    if exclusive and x.shape[along]:
        first = lt.full_like(x.narrow(along, 0, 1), start)
        x = lt.cat([first, x.narrow(along, 0, x.shape[along] - 1)], along)
    found = function(x, along).to(x.dtype)
    return found.flip(along) if reverse else found


@operator("CumSum", host="axis")
def cumulative_sum(x: T, axis: Array, *, exclusive: int = 0, reverse: int = 0) -> T:
    """Sums of the elements up to each one, or before it, or from it on."""
    return _cumulative(x, axis, exclusive, reverse, 0, lt.cumsum)


@operator("CumProd", host="axis")
def cumulative_product(x: T, axis: Array, *, exclusive: int = 0, reverse: int = 0) -> T:
    """Products of the elements up to each one, or before it, or from it on."""
    return _cumulative(x, axis, exclusive, reverse, 1, lt.cumprod)
