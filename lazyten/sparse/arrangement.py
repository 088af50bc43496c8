"""Axes and parts of sparse tensors: transposed, chosen, joined."""
from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from lazyten.frontend import functions
from lazyten.frontend.core.forms import sparse_form
from lazyten.frontend.core.keywords import sparse_csc, sparse_csr
from lazyten.frontend.core.operands import tensors_given
from lazyten.frontend.tensor import Tensor
from lazyten.operators.math import shapes
from lazyten.sparse.compressed import CompressedTensor, compressed
from lazyten.sparse.coordinates import CooTensor, coo
from lazyten.sparse.making import to_dense
from lazyten.sparse.tensors import read, whole_numbers
from lazyten.support.errors import (
    IndexingError,
    NoAxisError,
    ShapeError,
    SparseLayoutError,
    not_sparse,
)

OTHER = {sparse_csr: sparse_csc, sparse_csc: sparse_csr}


def _coo(x: Any, operation: str) -> CooTensor:
    if isinstance(x, CompressedTensor):
        return x.in_coordinates().coalesce()
    if not isinstance(x, CooTensor):
        raise not_sparse(f"{operation} with a dense tensor among the operands")
    return x


@sparse_form("permute")
def permute(self: Any, *dims: Any) -> Any:
    """Axes in another order: sparse ones among themselves, dense ones among themselves."""
    given = dims[0] if len(dims) == 1 and isinstance(dims[0], list | tuple) else dims
    order = [shapes.axis(d, self.ndim, "permute") for d in given]
    if sorted(order) != list(range(self.ndim)):
        raise ShapeError(f"permute of shape {tuple(self.shape)} by {tuple(given)}: give each axis "
                         f"once")
    if order == list(range(self.ndim)):
        return self
    if isinstance(self, CompressedTensor):
        result = compressed(self._starts, self._others, self._elements, self._size[::-1],
                            OTHER[self._kind])
        result._lines = self._lines
        return result
    axes = self.sparse_dim()
    if sorted(order[:axes]) != list(range(axes)):
        raise SparseLayoutError(f"permute of shape {tuple(self.shape)} by {tuple(given)}: the "
                                f"first {axes} axes are sparse, and cannot change places with "
                                f"dense ones; use to_dense()")
    places = self._places[order[:axes]] if order[:axes] != list(range(axes)) else self._places
    values = self._elements
    if order[axes:] != list(range(axes, self.ndim)):
        values = values.permute(0, *[d - axes + 1 for d in order[axes:]])
    return coo(places, values, [self._size[d] for d in order],
               self._coalesced and places is self._places)


@sparse_form("transpose", "swapaxes", "swapdims")
def transpose(self: Any, dim0: int, dim1: int) -> Any:
    """Two axes exchanged."""
    one, two = (shapes.axis(d, self.ndim, "transpose") for d in (dim0, dim1))
    order = list(range(self.ndim))
    order[one], order[two] = two, one
    return permute(self, order)


@sparse_form("t")
def t(self: Any) -> Any:
    """A matrix transposed."""
    if self.ndim > 2:
        raise ShapeError(f"t of shape {tuple(self.shape)}: it is for matrices; use transpose()")
    return self if self.ndim < 2 else transpose(self, 0, 1)


@sparse_form("adjoint")
def adjoint(self: Any) -> Any:
    """The last two axes exchanged, conjugated."""
    return transpose(self, -2, -1).conj()


@sparse_form("unsqueeze")
def unsqueeze(self: Any, dim: int) -> Any:
    """With an axis of size 1 more."""
    x = _coo(self, "unsqueeze")
    place = shapes.axis(dim, x.ndim + 1, "unsqueeze")
    size = (*x.shape[:place], 1, *x.shape[place:])
    axes = x.sparse_dim()
    if place > axes:
        return coo(x._places, x._elements.unsqueeze(place - axes + 1), size, x._coalesced)
    row = functions.zeros(1, x._nnz(), dtype=x._places.dtype, device=x.device)
    places = functions.cat([x._places[:place], row, x._places[place:]])
    return coo(places, x._elements, size, x._coalesced)


# ---- parts ---------------------------------------------------------------------------------------

def _chosen(x: CooTensor, which: np.ndarray[Any, Any], places: np.ndarray[Any, Any],
            size: Sequence[int]) -> CooTensor:
    """The values of these numbers, at new places."""
    values = x._elements.index_select(0, whole_numbers(which, x.device))
    return coo(whole_numbers(places, x.device), values, size, False)


@sparse_form("select")
def select(self: Any, dim: int, index: int) -> Any:
    """The part at one index of an axis, without it: dense once no sparse axis is left."""
    x = _coo(self, "select")
    axis = shapes.axis(dim, x.ndim, "select")
    n = x.shape[axis]
    number = shapes.as_int(index, "select", "index")
    if not -n <= number < n:
        raise IndexingError(f"select: index {number} is outside of axis {axis}, whose size is {n}")
    number %= n
    size, axes = (*x.shape[:axis], *x.shape[axis + 1:]), x.sparse_dim()
    if axis >= axes:
        return coo(x._places, x._elements.select(axis - axes + 1, number), size, x._coalesced)
    where = read(x._places, "select")
    which = np.nonzero(where[axis] == number)[0]
    found = _chosen(x, which, np.delete(where[:, which], axis, 0), size)
    return found.coalesce() if axes > 1 else to_dense(found)


@sparse_form("unbind")
def unbind(self: Any, dim: int = 0) -> Any:
    """The parts along an axis."""
    axis = shapes.axis(dim, self.ndim, "unbind")
    return tuple(select(self, axis, i) for i in range(self.shape[axis]))


@sparse_form("__iter__")
def _iterated(self: Any) -> Any:
    if not self.ndim:
        raise NoAxisError("iteration over a zero-dim tensor: it has no axes; use item()")
    return iter(unbind(self))


@sparse_form("index_select")
def index_select(self: Any, dim: int, index: Any) -> Any:
    """The parts at these indices of an axis, in their order."""
    tensors_given("index_select", index)
    x = _coo(self, "index_select")
    axis = shapes.axis(dim, x.ndim, "index_select")
    axes, n = x.sparse_dim(), x.shape[axis]
    size = (*x.shape[:axis], index.numel(), *x.shape[axis + 1:])
    if axis >= axes:
        return coo(x._places, x._elements.index_select(axis - axes + 1, index), size, x._coalesced)
    wanted = read(index, "index_select").reshape(-1)
    outside = wanted[(wanted < 0) | (wanted >= n)]
    if outside.size:
        raise IndexingError(f"index_select: index {outside[0]} is outside of axis {axis}, whose "
                            f"size is {n}")
    where = read(x._places, "index_select")
    order = np.argsort(where[axis], kind="stable")
    counts = np.bincount(where[axis], minlength=n)
    starts = np.cumsum(counts) - counts
    times = counts[wanted]
    new = np.repeat(np.arange(wanted.size), times)
    within = np.arange(new.size) - np.repeat(np.cumsum(times) - times, times)
    which = order[starts[wanted][new] + within]
    places = where[:, which]
    places[axis] = new
    return _chosen(x, which, places, size).coalesce()


@sparse_form("narrow", "narrow_copy")
def narrow(self: Any, dim: int, start: Any, length: int) -> Any:
    """The part of an axis that begins at `start`: a copy."""
    x = _coo(self, "narrow")
    axis = shapes.axis(dim, x.ndim, "narrow")
    n, first = x.shape[axis], shapes.as_int(start, "narrow", "start")
    length = shapes.as_int(length, "narrow", "length")
    first += n if first < 0 else 0
    if not (0 <= first and 0 <= length and first + length <= n):
        raise IndexingError(f"narrow: {length} from {start} on are not in axis {axis}, whose size "
                            f"is {n}")
    size, axes = (*x.shape[:axis], length, *x.shape[axis + 1:]), x.sparse_dim()
    if axis >= axes:
        values = x._elements.narrow(axis - axes + 1, first, length)
        return coo(x._places, values, size, x._coalesced)
    where = read(x._places, "narrow")
    which = np.nonzero((where[axis] >= first) & (where[axis] < first + length))[0]
    places = where[:, which]
    places[axis] -= first
    found = _chosen(x, which, places, size)
    found._coalesced = x._coalesced
    return found


@sparse_form("__getitem__")
def getitem(self: Any, index: Any) -> Any:
    """x[i], x[:, j], x[2:5], x[None]: numbers, slices of step 1, None and an Ellipsis."""
    given = list(index) if isinstance(index, tuple) else [index]
    used = sum(e is not None and e is not Ellipsis for e in given)
    if used > self.ndim or sum(e is Ellipsis for e in given) > 1:
        raise IndexingError(f"index {index!r:.60} has entries for {used} axes, but the tensor has "
                            f"shape {tuple(self.shape)}")
    places = [at for at, e in enumerate(given) if e is Ellipsis]
    if places:
        place = places[0]
        given[place:place + 1] = [slice(None)] * (self.ndim - used)
    result, axis = self, 0
    for entry in given:
        if isinstance(entry, int | np.integer) and not isinstance(entry, bool):
            result = result.select(axis, entry)
            continue
        if entry is None:
            result = result.unsqueeze(axis)
        elif isinstance(entry, slice) and entry.step in (None, 1):
            start, stop, _ = entry.indices(result.shape[axis])
            if (start, stop) != (0, result.shape[axis]):
                result = result.narrow(axis, start, max(stop - start, 0))
        else:
            raise not_sparse(f"an index by {type(entry).__name__} {entry!r:.40}")
        axis += 1
    return result


# ---- joined --------------------------------------------------------------------------------------

@sparse_form("cat", "concat", "concatenate")
def cat(tensors: Sequence[Any], dim: int = 0) -> Any:
    """Sparse tensors one after the other along an axis."""
    each = [_coo(x, "cat") for x in tensors]
    axis = shapes.axis(dim, each[0].ndim, "cat")
    first, axes = each[0], each[0].sparse_dim()
    for x in each[1:]:
        others = [(*y.shape[:axis], *y.shape[axis + 1:]) for y in (first, x)]
        if x.ndim != first.ndim or others[0] != others[1] or x.sparse_dim() != axes:
            raise ShapeError(f"cat of sparse tensors {tuple(first.shape)} with {axes} sparse axes "
                             f"and {tuple(x.shape)} with {x.sparse_dim()}: all but axis {axis} "
                             f"must be equal")
    size = (*first.shape[:axis], sum(x.shape[axis] for x in each), *first.shape[axis + 1:])
    return _joined_values(each, axis - axes, size) if axis >= axes else \
        _joined_places(each, axis, size)


def _joined_places(each: Sequence[CooTensor], axis: int, size: Sequence[int]) -> CooTensor:
    places, before = [], 0
    for x in each:
        rows = [x._places[a] + before if a == axis else x._places[a] for a in range(x.sparse_dim())]
        places.append(functions.stack(rows))
        before += x.shape[axis]
    in_order = axis == 0 and all(x._coalesced for x in each)
    return coo(functions.cat(places, 1), functions.cat([x._elements for x in each]), size, in_order)


def _joined_values(each: Sequence[CooTensor], axis: int, size: Sequence[int]) -> CooTensor:
    """Along a dense axis: the values of each, with zeros where the others are."""
    values, before = [], 0
    for x in each:
        shape = list(x._elements.shape)
        parts: list[Tensor] = []
        for n in (before, size[x.sparse_dim() + axis] - before - shape[axis + 1]):
            shape_of_zeros = [*shape[:axis + 1], n, *shape[axis + 2:]]
            parts.append(functions.zeros(shape_of_zeros, dtype=x.dtype, device=x.device))
        values.append(functions.cat([parts[0], x._elements, parts[1]], axis + 1))
        before += shape[axis + 1]
    places = functions.cat([x._places for x in each], 1)
    return coo(places, functions.cat(values), size, False)


@sparse_form("stack")
def stack(tensors: Sequence[Any], dim: int = 0) -> Any:
    """Sparse tensors of one shape side by side on a new axis."""
    return cat([unsqueeze(x, dim) for x in tensors], dim)


@sparse_form("is_same_size")
def _is_same_size(self: Any, other: Any) -> bool:
    return bool(self.shape == other.shape)

