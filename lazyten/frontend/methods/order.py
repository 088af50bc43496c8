"""Sorting, and what is found by sorting, as methods.

Much is sorted at once, on the host, which is faster (ordering.is_for_host); in a jitted or
transformed function, and what is little, lazily.
"""
from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from lazyten.frontend.core.functions import RETURNED, ValuesAndIndices
from lazyten.frontend.core.handle import Handle
from lazyten.frontend.core.tensor_core import Tensor, TensorCore
from lazyten.ir import dtype as dt
from lazyten.ir.node import Node, cast, const, gather, reduce, reshape
from lazyten.ir.ops import Op
from lazyten.operators.arrays import index_arrays, joining, ordering
from lazyten.operators.arrays.indexing import Chain, apply
from lazyten.operators.math import elementwise as ew
from lazyten.operators.math import reductions, shapes, special
from lazyten.operators.math.gradients import with_gradient
from lazyten.storage import levels, tracing
from lazyten.storage.device import executor
from lazyten.support.errors import ArgumentError, DTypeError, EmptyAxisError

INTERPOLATIONS: dict[str, Callable[[float], float]] = {
    "linear": float, "lower": math.floor, "higher": math.ceil, "nearest": round,
    "midpoint": lambda place: (math.floor(place) + math.ceil(place)) / 2}
"""Where a quantile is taken, of a place between two elements in order."""
NODE_INTERPOLATIONS: dict[str, Callable[[Node], Node]] = {
    "linear": lambda place: place, "lower": special.floor, "higher": special.ceil,
    "nearest": special.round_half_even,
    "midpoint": lambda place: ew.mul(ew.add(special.floor(place), special.ceil(place)), 0.5)}
"""The same of a node."""


class OrderMethods(TensorCore[Tensor]):
    """Sorting, and what is at some place in order."""

    __slots__ = ()

    def argsort(self, dim: int = -1, descending: bool = False, stable: bool = True) -> Tensor:
        """Where the first, second, .. element along an axis is; equal ones keep their order, and
        NaN is the greatest."""
        return order_along(self, shapes.axis(dim, self.ndim, "argsort"), descending)

    def sort(self, dim: int = -1, descending: bool = False,
             stable: bool = True) -> ValuesAndIndices[Tensor]:
        """(values, indices): the elements along an axis from the least, or the greatest if
        descending, and where they were, int64; equal ones stay in order. NaN is the greatest."""
        axis = shapes.axis(dim, self.ndim, "sort")
        return _given_by("sort", _taken(self, axis, order_along(self, axis, descending)))

    def msort(self) -> Tensor:
        """The elements along axis 0 in order."""
        return _taken(self, 0, order_along(self, 0, False)).values

    def topk(self, k: int, dim: int = -1, largest: bool = True,
             sorted: bool = True) -> ValuesAndIndices[Tensor]:
        """(values, indices): the k greatest (or least) along an axis, which has then size k, in
        order, and where they are, int64. NaN is the greatest. ArgumentError for a k above the size.
        """
        axis = shapes.axis(dim, self.ndim, "topk")
        count = shapes.as_int(k, "topk", "k")
        n = self.shape[axis] if self.shape else 1
        if not 0 <= count <= n:
            raise ArgumentError(f"topk: k={count} of axis {axis} of size {n}; give 0 to {n}")
        return _given_by("topk", _taken(self, axis, order_along(self, axis, largest, count)))

    def kthvalue(self, k: int, dim: int = -1, keepdim: bool = False) -> ValuesAndIndices[Tensor]:
        """The k-th least along an axis, counted from 1, and where it is."""
        axis = shapes.axis(dim, self.ndim, "kthvalue")
        place = shapes.as_int(k, "kthvalue", "k")
        n = self.shape[axis] if self.shape else 1
        if not 1 <= place <= n:
            raise ArgumentError(f"kthvalue: k={place} of axis {axis} of size {n}; give 1 to {n}")
        return _given_by("kthvalue", _only(self, axis, _at_place(self, axis, place - 1), keepdim))

    def median(self, dim: int | None = None, keepdim: bool = False) -> Any:
        """The middle element in order, the lower of two; NaN if there is one. Along an axis
        (values, indices)."""
        x = self._reshaped((self.numel(),)) if dim is None else self
        axis = 0 if dim is None else shapes.axis(dim, self.ndim, "median")
        n = x.shape[axis] if x.shape else 1
        if not n:
            raise EmptyAxisError(f"median of shape {self.shape}: there are no elements along axis "
                                 f"{axis}; check the size first")
        middle = _at_place(x, axis, (n - 1) // 2)
        if x.dtype.is_float and x.shape:
            middle = middle._unary(lambda place: _last_nan(x.node, axis, place))
        found = _only(x, axis, middle, keepdim)
        return found.values if dim is None else _given_by("median", found)

    def quantile(self, q: Any, dim: int | None = None, keepdim: bool = False, *,
                 interpolation: str = "linear") -> Tensor:
        """The element that a share q of all is below, between neighbours by interpolation: linear,
        lower, higher, nearest or midpoint. q is a number or a list of them, which becomes axis 0.
        NaN if there is one."""
        _check_interpolation(interpolation, "quantile")
        shares = _shares(self, q, "quantile")
        x = self._reshaped((self.numel(),)) if dim is None else self
        axis = 0 if dim is None else shapes.axis(dim, self.ndim, "quantile")
        if not x.shape or not x.shape[axis]:
            x = x._reshaped((1,)) if x.numel() else x
        reductions.need_elements(x.node, (axis,), "quantile")
        index = order_along(x, axis, False)
        values = x._given(index_arrays.along(x.node, axis, index.node), index)
        node = _interpolated(values.node, x.node, axis, shares, interpolation, _place(q))
        return x._given(reshape(node, (*shares.shape, *_kept(self, dim, axis, keepdim))),
                        *([q] if isinstance(q, Handle) else []))

    def nanmedian(self, dim: int | None = None, keepdim: bool = False) -> Any:
        """The median of what is not NaN; NaN where all is."""
        x = self._reshaped((self.numel(),)) if dim is None else self
        axis = 0 if dim is None else shapes.axis(dim, self.ndim, "nanmedian")
        if not x.shape or not x.dtype.is_float:
            found = OrderMethods.median(self, dim, keepdim)
            return found if dim is None else _given_by("nanmedian", found)
        reductions.need_elements(x.node, (axis,), "nanmedian")
        order = order_along(x, axis, False)
        last = _last_number(x.detach().node, axis)
        place = ew.shift_right(ew.maximum(last, 0), 1)
        found = _taken(x, axis, order._unary(lambda node: gather(node, axis, place)))
        shape = tuple(n for a, n in enumerate(found.values.shape) if keepdim or a != axis)
        values, indices = found.values._reshaped(shape), found.indices._reshaped(shape)
        return values if dim is None else RETURNED["nanmedian"](values, indices)

    def nanquantile(self, q: Any, dim: int | None = None, keepdim: bool = False, *,
                    interpolation: str = "linear") -> Tensor:
        """The quantile of what is not NaN; NaN where all is."""
        _check_interpolation(interpolation, "nanquantile")
        shares = _shares(self, q, "nanquantile")
        x = self._reshaped((self.numel(),)) if dim is None or not self.shape else self
        axis = 0 if dim is None else shapes.axis(dim, self.ndim, "nanquantile")
        reductions.need_elements(x.node, (axis,), "nanquantile")
        index = order_along(x, axis, False)
        values = x._given(gather(x.node, axis, index.node), index)
        node = _quantiles_of_numbers(values.node, _last_number(x.detach().node, axis), axis, shares,
                                     interpolation, _place(q))
        return x._given(reshape(node, (*shares.shape, *_kept(self, dim, axis, keepdim))),
                        *([q] if isinstance(q, Handle) else []))


def order_along(x: TensorCore[Tensor], axis: int, descending: bool,
                count: int | None = None) -> Tensor:
    """The order of the elements along an axis, or of the first `count`, as positions."""
    if not x.shape:
        return x._fresh(const(0, dt.INDEX))
    first = x.shape[axis] if count is None else count
    given: TensorCore[Tensor] = x.detach()
    if not _is_for_host(x, axis, first):
        return given._unary(lambda node: ordering.order(node, axis, descending, first,
                                                        _by_ranks(x, axis)))
    packed = given._unary(lambda node: ordering.packed_keys(node, axis, descending)).numpy()
    return x._fresh(ordering.host_order(packed, axis, x.dtype.bits, first))


def _at_place(x: TensorCore[Tensor], axis: int, place: int) -> Tensor:
    """The position of element number `place` in order along an axis, which stays with size 1."""
    if not x.shape:
        return x._fresh(const(0, dt.INDEX))
    if _is_for_host(x, axis, place + 1):
        order = order_along(x, axis, False, place + 1)
        cut: Tensor = order._moved(*Chain(order.shape).cut(axis, place, place + 1))
        return cut
    given: TensorCore[Tensor] = x.detach()
    return given._unary(lambda node: ordering.at_place(node, axis, place, _by_ranks(x, axis)))


def _is_for_host(x: TensorCore[Tensor], axis: int, count: int) -> bool:
    return ordering.is_for_host(x.node, axis, count) and tracing.current() is None \
        and not levels.under_way()


def _by_ranks(x: TensorCore[Tensor], axis: int) -> bool:
    observer = tracing.current()
    return observer is not None and observer.without_bits or ordering.suits_ranks(
        x.shape, axis, executor(x.device).items)


def _given_by(name: str, found: ValuesAndIndices[Tensor]) -> ValuesAndIndices[Tensor]:
    """What the function of this name gives."""
    result: ValuesAndIndices[Tensor] = RETURNED[name](*found)
    return result


def _taken(x: TensorCore[Tensor], axis: int, index: Tensor) -> ValuesAndIndices[Tensor]:
    """The elements at these positions along an axis."""
    if not x.shape:
        values = x._given(reshape(gather(reshape(x.node, (1,)), 0, reshape(
            index.node, (1,))), ())) if index.numel() else x._same()
        return ValuesAndIndices(values, index)
    return ValuesAndIndices(x._given(gather(x.node, axis, index.node), index), index)


def _only(x: TensorCore[Tensor], axis: int, index: Tensor,
          keepdim: bool) -> ValuesAndIndices[Tensor]:
    """The element at one position along an axis."""
    if not x.shape:
        return _taken(x, axis, index)
    values, indices = _taken(x, axis, index)
    shape = tuple(n for a, n in enumerate(index.shape) if keepdim or a != axis)
    return ValuesAndIndices(values._reshaped(shape), indices._reshaped(shape))


def _last_nan(x: Node, axis: int, place: Node) -> Node:
    """Where along `axis` the last NaN is; `place` if there is none."""
    is_nan = ew.not_equal(x, x)
    numbers = reductions.positions(x.shape, axis, dt.INDEX)
    last = reduce(ew.where(is_nan, numbers, -1), Op.MAX, (axis,))
    return ew.where(ew.less(last, 0), place, last)


def _check_interpolation(given: str, operation: str) -> None:
    if not isinstance(given, str) or given not in INTERPOLATIONS:
        raise ArgumentError(f"{operation}: interpolation={given!r} is not one of "
                            f"{', '.join(INTERPOLATIONS)}")


def _interpolated(values: Node, x: Node, axis: int, shares: np.ndarray[Any, Any],
                  interpolation: str, given: Node | None) -> Node:
    """Quantiles of sorted values: the shares (if they are a list) as axis 0, then the other axes,
    `axis` of size 1. given: the shares as a node, for their gradient."""
    n = values.shape[axis]
    has_nan = reductions.any(ew.not_equal(x, x), (axis,), True)
    rows = []
    for number, share in enumerate(shares.reshape(-1)):
        place = INTERPOLATIONS[interpolation](float(share) * (n - 1))
        low = int(place)
        first, second = [apply(Chain(values.shape).cut(axis, i, i + 1), values)
                         for i in (low, min(low + 1, n - 1))]
        middle = _between(first, second, const(place - low, values.dtype)) if place > low else first
        if given is not None and interpolation == "linear" and place > low:
            steps = ew.mul(_gap(first, second), float(n - 1))
            middle = _moving(middle, steps, apply(Chain(given.shape).cut(
                0, number, number + 1), given))
        rows.append(ew.where(has_nan, const(float("nan"), values.dtype), middle))
    if not shares.ndim:
        return rows[0]
    return joining.stack(rows, 0)


def _gap(first: Node, second: Node) -> Node:
    """second - first, and 0 of equal infinities."""
    same = ew.bitwise_and(ew.equal(first, second), ew.equal(ew.absolute(first), math.inf))
    return ew.sub(ew.where(same, 0.0, second), ew.where(same, 0.0, first))


def _between(first: Node, second: Node, part: Node) -> Node:
    """first + part * (second - first), from the nearer of the two."""
    gap = _gap(first, second)
    return ew.where(ew.less(part, 0.5), ew.add(first, ew.mul(gap, part)),
                    ew.sub(second, ew.mul(gap, ew.sub(1.0, part))))


def _moving(value: Node, slope: Node, share: Node) -> Node:
    """A quantile whose gradient for its share, of shape (1,), is `slope`; at an element it is
    none, as in PyTorch."""
    return with_gradient(value, (value, slope, share), _moving_gradient)


def _moving_gradient(g: Node, node: Node) -> tuple[Node, None, Node]:
    _, _, slope, share = node.src
    total = reductions.sum(ew.mul(g, slope), tuple(range(len(g.shape))))
    return g, None, cast(reshape(total, share.shape), share.dtype)


def _place(q: Any) -> Node | None:
    """The shares as a vector, if they are a tensor."""
    if not hasattr(q, "node"):
        return None
    node: Node = q.node
    return reshape(node, (node.numel,)) if node.dtype.is_float else None


def _shares(x: TensorCore[Tensor], q: Any, operation: str) -> np.ndarray[Any, Any]:
    """q as an array of float64 of 0 or 1 axes."""
    if not x.dtype.is_float or x.dtype.is_half:
        raise DTypeError(f"{operation} of {x.dtype.name}: it is for float32 and float64; convert "
                         f"with .float()")
    if isinstance(q, Handle):
        ew.of_one_type(operation, x.node, q.node)
    try:
        shares = np.asarray(q.numpy() if hasattr(q, "numpy") else q, np.float64)
    except (TypeError, ValueError, OverflowError):
        shares = np.full(1, np.nan)
    if shares.ndim > 1 or not shares.size or not ((shares >= 0) & (shares <= 1)).all():
        raise ArgumentError(f"{operation}: q={q!r:.60}; give a number between 0 and 1, or a list "
                            f"of them")
    return shares


def _kept(x: TensorCore[Tensor], dim: int | None, axis: int, keepdim: bool) -> tuple[int, ...]:
    """The shape of what reducing x over `axis` gives, or over all axes where `dim` is None."""
    if dim is None:
        return (1,) * (x.ndim * bool(keepdim))
    return tuple(1 if a == axis else n for a, n in enumerate(x.shape) if keepdim or a != axis)


def _last_number(x: Node, axis: int) -> Node:
    """Where along `axis` (kept) the last that is no NaN is, once it is sorted; -1 if none."""
    return ew.sub(reductions.sum(ew.equal(x, x), (axis,), True), 1)


def _quantiles_of_numbers(values: Node, last: Node, axis: int, shares: np.ndarray[Any, Any],
                          interpolation: str, given: Node | None) -> Node:
    """As `_interpolated`, of sorted values up to position `last`."""
    rows = []
    held = ew.maximum(last, 0)
    for number, share in enumerate(shares.reshape(-1)):
        place = NODE_INTERPOLATIONS[interpolation](ew.mul(cast(held, dt.float64), float(share)))
        low = cast(place, dt.INDEX)
        first, second = [gather(values, axis, ew.minimum(ew.add(low, i), held)) for i in (0, 1)]
        part = cast(ew.sub(place, cast(low, dt.float64)), values.dtype)
        row = ew.where(ew.equal(part, 0.0), first, _between(first, second, part))
        if given is not None and interpolation == "linear":
            steps = ew.mul(_gap(first, second), cast(held, values.dtype))
            steps = ew.where(ew.equal(part, 0.0), 0.0, steps)
            row = _moving(row, steps, apply(Chain(given.shape).cut(0, number, number + 1), given))
        rows.append(row)
    return joining.stack(rows, 0) if shares.ndim else rows[0]
