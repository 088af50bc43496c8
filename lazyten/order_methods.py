"""Sorting, and what is found by sorting or counting, as methods.

An axis of up to ordering.SHORT elements is sorted lazily. A longer one is sorted at once, on the
host, which is faster; in a jitted or transformed function, lazily. What has as many elements as
there are different values is computed at once, which in a jitted function is a JitError.
"""
from __future__ import annotations

from typing import Any

import numpy as np

from lazyten import dtype as dt
from lazyten import elementwise as ew
from lazyten import index_arrays, joining, levels, ordering, reductions, shapes, tracing
from lazyten.errors import ArgumentError, DTypeError, ShapeError
from lazyten.indexing import Chain, apply
from lazyten.node import Node, const, gather, reshape
from lazyten.tensor_like import T, ValuesAndIndices


class OrderMethods:
    """Sorting, counting and looking up."""

    __slots__ = ()

    def argsort(self: T, dim: int = -1, descending: bool = False, stable: bool = True) -> T:
        """Where the first, second, .. element along an axis is; equal ones keep their order, and
        NaN is the greatest."""
        return order_along(self, shapes.axis(dim, self.ndim, "argsort"), descending)

    def sort(self: T, dim: int = -1, descending: bool = False,
             stable: bool = True) -> ValuesAndIndices[T]:
        """The elements along an axis in order, and where they were."""
        axis = shapes.axis(dim, self.ndim, "sort")
        return _taken(self, axis, order_along(self, axis, descending))

    def msort(self: T) -> T:
        """The elements along axis 0 in order."""
        return _taken(self, 0, order_along(self, 0, False)).values

    def topk(self: T, k: int, dim: int = -1, largest: bool = True,
             sorted: bool = True) -> ValuesAndIndices[T]:
        """The k greatest (or least) along an axis, in order, and where they are."""
        axis = shapes.axis(dim, self.ndim, "topk")
        count = shapes.as_int(k, "topk", "k")
        n = self.shape[axis] if self.shape else 1
        if not 0 <= count <= n:
            raise ArgumentError(f"topk: k={count} of axis {axis} of size {n}; give 0 to {n}")
        return _taken(self, axis, order_along(self, axis, largest, count))

    def kthvalue(self: T, k: int, dim: int = -1, keepdim: bool = False) -> ValuesAndIndices[T]:
        """The k-th least along an axis, counted from 1, and where it is."""
        axis = shapes.axis(dim, self.ndim, "kthvalue")
        place = shapes.as_int(k, "kthvalue", "k")
        n = self.shape[axis] if self.shape else 1
        if not 1 <= place <= n:
            raise ArgumentError(f"kthvalue: k={place} of axis {axis} of size {n}; give 1 to {n}")
        return _at(self, axis, order_along(self, axis, False, place), place - 1, keepdim)

    def median(self: T, dim: int | None = None, keepdim: bool = False) -> Any:
        """The middle element in order, the lower of two; NaN if there is one. Along an axis
        (values, indices)."""
        x = self._reshaped((self.numel(),)) if dim is None else self
        axis = 0 if dim is None else shapes.axis(dim, self.ndim, "median")
        n = x.shape[axis] if x.shape else 1
        if not n:
            raise ShapeError(f"median of shape {self.shape}: there are no elements along axis "
                             f"{axis}; check the size first")
        sorted_ = order_along(x, axis, False)
        if x.dtype.is_float and x.shape:
            sorted_ = _last_if_nan(x, axis, sorted_, (n - 1) // 2)
            found = _at(x, axis, sorted_, 0, keepdim)
        else:
            found = _at(x, axis, sorted_, (n - 1) // 2, keepdim)
        return found.values if dim is None else found

    def quantile(self: T, q: Any, dim: int | None = None, keepdim: bool = False) -> T:
        """The element that a share q of all is below, between neighbours by interpolation; q is a
        number or a list of them, which becomes axis 0. NaN if there is one."""
        if not self.dtype.is_float or self.dtype.is_half:
            raise DTypeError(f"quantile of {self.dtype.name}: it is for float32 and float64; "
                             f"convert with .float()")
        shares = np.asarray(q.numpy() if hasattr(q, "numpy") else q, np.float64)
        if shares.ndim > 1 or not ((shares >= 0) & (shares <= 1)).all():
            raise ArgumentError(f"quantile: q={q!r:.60}; give a number between 0 and 1, or a list "
                                f"of them")
        x = self._reshaped((self.numel(),)) if dim is None else self
        axis = 0 if dim is None else shapes.axis(dim, self.ndim, "quantile")
        if not x.shape or not x.shape[axis]:
            x = x._reshaped((1,)) if x.numel() else x
        reductions.need_elements(x.node, (axis,), "quantile")
        index = order_along(x, axis, False)
        values = x._given(index_arrays.along(x.node, axis, index.node), index)
        node = _interpolated(values.node, x.node, axis, shares)
        kept = dim is None and keepdim
        shape = list(x.shape)
        shape[axis:axis + 1] = [1] if keepdim else []
        if kept:
            shape = [1] * self.ndim
        return x._given(reshape(node, (*shares.shape, *shape)))

    def unique(self: T, sorted: bool = True, return_inverse: bool = False,
               return_counts: bool = False) -> Any:
        """The different elements, sorted; with where each element is among them, and how often
        each occurs. Computed at once."""
        values, inverse, counts = np.unique(self.detach().numpy(), return_inverse=True,
                                            return_counts=True)
        result = [self._fresh(values)]
        result += [self._fresh(inverse.reshape(self.shape).astype(np.int64))] * return_inverse
        result += [self._fresh(counts.astype(np.int64))] * return_counts
        return result[0] if len(result) == 1 else tuple(result)

    def unique_consecutive(self: T, return_inverse: bool = False,
                           return_counts: bool = False) -> Any:
        """The elements in row-major order without repetitions of the one before."""
        flat = self.detach().numpy().reshape(-1)
        new = np.ones(flat.shape, bool)
        new[1:] = flat[1:] != flat[:-1]
        starts = np.flatnonzero(new)
        result = [self._fresh(flat[new])]
        place = (np.cumsum(new) - 1).reshape(self.shape).astype(np.int64)
        result += [self._fresh(place)] * return_inverse
        result += [self._fresh(np.diff(starts, append=flat.size).astype(np.int64))] * return_counts
        return result[0] if len(result) == 1 else tuple(result)

    def bincount(self: T, weights: T | None = None, minlength: int = 0) -> T:
        """How often each whole number from 0 occurs in a vector, or the sums of its weights.
        Computed at once, as the greatest number decides the length."""
        if self.ndim != 1 or not self.dtype.is_int:
            raise DTypeError(f"bincount of {self.dtype.name} {self.shape}: it is for a vector of "
                             f"integers")
        numbers = self.numpy()
        if numbers.size and int(numbers.min()) < 0:
            raise ArgumentError(f"bincount: {int(numbers.min())} is below 0; all must be 0 or more")
        if weights is None:
            return self._fresh(np.bincount(numbers, minlength=minlength).astype(np.int64))
        given = self._tensor(weights, "bincount")
        if given.shape != self.shape:
            raise ShapeError(f"bincount: weights of shape {given.shape} for {self.shape}; they "
                             f"must be equal")
        sums = np.bincount(numbers, given.detach().numpy(), minlength)
        single = given.dtype is dt.float32
        return self._fresh(sums.astype(np.float32) if single else sums)

    def count_nonzero(self: T, dim: shapes.Axes = None) -> T:
        """How many elements are not 0, over some axes or all."""
        axes = shapes.axes(dim, self.ndim, "count_nonzero")
        return self._unary(lambda x: reductions.sum(ew.as_bool(x), axes))


def order_along(x: T, axis: int, descending: bool, count: int | None = None) -> T:
    """The order of the elements along an axis, or of the first `count`, as positions."""
    if not x.shape:
        return x._fresh(const(0, dt.INDEX))
    first = x.shape[axis] if count is None else count
    given = x.detach()
    if x.shape[axis] <= ordering.SHORT or tracing.current() is not None or levels.under_way():
        return given._unary(lambda node: ordering.order(node, axis, descending, first))
    packed = given._unary(lambda node: ordering.packed_keys(node, axis, descending)).numpy()
    return x._fresh(ordering.host_order(packed, axis, x.dtype.bits, first))


def _taken(x: T, axis: int, index: T) -> ValuesAndIndices[T]:
    """The elements at these positions along an axis."""
    if not x.shape:
        values = x._given(reshape(gather(reshape(x.node, (1,)), 0, reshape(
            index.node, (1,))), ())) if index.numel() else x
        return ValuesAndIndices(values, index)
    return ValuesAndIndices(x._given(gather(x.node, axis, index.node), index), index)


def _at(x: T, axis: int, index: T, place: int, keepdim: bool) -> ValuesAndIndices[T]:
    """The element whose position is number `place` of `index`."""
    if not x.shape:
        return _taken(x, axis, index)
    one = index._moved(*Chain(index.shape).cut(axis, place, place + 1))
    values, indices = _taken(x, axis, one)
    shape = tuple(n for a, n in enumerate(one.shape) if keepdim or a != axis)
    return ValuesAndIndices(values._reshaped(shape), indices._reshaped(shape))


def _last_if_nan(x: T, axis: int, index: T, place: int) -> T:
    """Position `place` of `index`, or the last, which is that of a NaN if there is one."""
    def chosen(order: Node) -> Node:
        n = order.shape[axis]
        has_nan = reductions.any(ew.not_equal(x.node, x.node), (axis,), True)
        ends = [apply(Chain(order.shape).cut(axis, i, i + 1), order)
                for i in (place, n - 1)]
        return ew.where(has_nan, ends[1], ends[0])
    return index._unary(chosen)


def _interpolated(values: Node, x: Node, axis: int, shares: np.ndarray[Any, Any]) -> Node:
    """Quantiles of sorted values: the shares (if they are a list) as axis 0, then the other axes,
    `axis` of size 1."""
    n = values.shape[axis]
    has_nan = reductions.any(ew.not_equal(x, x), (axis,), True)
    rows = []
    for share in shares.reshape(-1):
        place = float(share) * (n - 1)
        low = int(place)
        ends = [apply(Chain(values.shape).cut(axis, i, i + 1), values)
                for i in (low, min(low + 1, n - 1))]
        step = ew.mul(ew.sub(ends[1], ends[0]), place - low)
        middle = ew.add(ends[0], step) if place > low else ends[0]
        rows.append(ew.where(has_nan, const(float("nan"), values.dtype), middle))
    if not shares.ndim:
        return rows[0]
    return joining.stack(rows, 0)
