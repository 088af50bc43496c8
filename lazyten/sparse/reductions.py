"""Sums and softmax of sparse tensors."""
from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from lazyten.frontend import functions
from lazyten.frontend.core.forms import sparse_form
from lazyten.frontend.tensor import DTypeLike, Tensor
from lazyten.ir import dtype as dt
from lazyten.operators.math import shapes
from lazyten.sparse.arithmetic import coordinates, each_once
from lazyten.sparse.compressed import CompressedTensor, compressing
from lazyten.sparse.coordinates import CooTensor, added_up, coo, flat
from lazyten.sparse.tensors import SparseTensor, is_traced
from lazyten.support.errors import SparseLayoutError

Dims = int | Sequence[int] | None


def sparse_sum(input: Any, dim: Dims = None, dtype: DTypeLike | None = None) -> Any:
    """The sum over axes, or of all elements: dense once no sparse axis is left, sparse else."""
    if not isinstance(input, SparseTensor):
        raise SparseLayoutError("sparse.sum of a dense tensor; use sum()")
    x = coordinates(input)
    values = x._elements if dtype is None else x._elements.to(dtype=dtype)
    if dim is None:
        return values.sum()
    if isinstance(dim, list | tuple) and not dim:
        return input.with_values(values)
    axes, over = x.sparse_dim(), shapes.axes(dim, x.ndim, "sum")
    dense = [d - axes + 1 for d in over if d >= axes]
    values = values.sum(dense) if dense else values
    kept = [d for d in range(axes) if d not in over]
    if not kept:
        return values.sum(0)
    if values.dtype is dt.bool_:
        values = values.to(dtype=dt.int64)
    size = [n for d, n in enumerate(x.shape) if d not in over]
    if len(kept) == axes:
        return coo(x._places, values, size, x._coalesced)
    made = coo(functions.stack([x._places[d] for d in kept]), values, size, False)
    return made if is_traced() else made.coalesce()


@sparse_form("sum")
def _sum(self: Any, dim: Dims = None, keepdim: bool = False,
         dtype: DTypeLike | None = None) -> Any:
    if dim is None:
        return sparse_sum(self, None, dtype)
    if isinstance(self, CompressedTensor) and not keepdim:
        raise SparseLayoutError(f"sum over axes of a tensor of {self.layout}: give keepdim=True, "
                                f"or convert it with to_sparse()")
    result = sparse_sum(self, dim, dtype)
    if keepdim:
        for axis in shapes.axes(dim, self.ndim, "sum"):
            result = result.unsqueeze(axis)
        if isinstance(self, CompressedTensor) and isinstance(result, CooTensor):
            result = compressing(result, self.layout)
    return result


@sparse_form("norm")
def _norm(self: Any, p: Any = "fro", dim: Any = None, keepdim: bool = False,
          dtype: DTypeLike | None = None) -> Any:
    if dim is not None or keepdim:
        raise SparseLayoutError("norm of a sparse tensor over axes is not there; use to_dense()")
    return each_once(self)._elements.norm(p, dtype=dtype)


@sparse_form("any")
def _any(self: Any, dim: Any = None, keepdim: bool = False) -> Any:
    if dim is not None or keepdim:
        raise SparseLayoutError("any of a sparse tensor over axes is not there; use to_dense()")
    return each_once(self)._elements.any()


# ---- softmax -------------------------------------------------------------------------------------

def softmax(input: Any, dim: int, *, dtype: DTypeLike | None = None) -> Any:
    """exp(x) / its sum along an axis, over the elements that are held: those that are not count as
    -infinity, and stay away."""
    return _normalized(input, dim, dtype, False)


def log_softmax(input: Any, dim: int, *, dtype: DTypeLike | None = None) -> Any:
    """The logarithm of softmax."""
    return _normalized(input, dim, dtype, True)


def _normalized(input: Any, dim: int, dtype: DTypeLike | None, is_log: bool) -> Any:
    name = "log_softmax" if is_log else "softmax"
    if not isinstance(input, CooTensor):
        raise SparseLayoutError(f"sparse.{name} is of tensors in coordinates; convert with "
                                f"to_sparse()")
    x: Any = input.coalesce() if dtype is None else \
        input.coalesce().to(dtype=dt.as_floating(dtype, f"sparse.{name}"))
    axis, axes = shapes.axis(dim, x.ndim, name), x.sparse_dim()
    values = x._elements
    if axis >= axes:
        return x.with_values(getattr(values, name)(axis - axes + 1))
    kept = [d for d in range(axes) if d != axis]
    sizes = [x.shape[d] for d in kept]
    count = 1
    for n in sizes:
        count *= n
    groups = functions.zeros(x._nnz(), dtype=dt.int64, device=x.device) if not kept else \
        flat(functions.stack([x._places[d] for d in kept]), sizes)
    return x.with_values(_of_groups(values, groups, count, is_log))


def _of_groups(values: Tensor, groups: Tensor, count: int, is_log: bool) -> Tensor:
    """(nnz, dense axes..): the softmax of the values of each group."""
    wide = groups.reshape(-1, *[1] * (values.ndim - 1)).expand(values.shape)
    start = functions.zeros(count, *values.shape[1:], dtype=values.dtype, device=values.device)
    greatest = start.scatter_reduce(0, wide, values.detach(), "amax", include_self=False)
    moved = values - greatest.index_select(0, groups)
    powers = moved.exp()
    total = added_up(powers, groups, count).index_select(0, groups)
    return moved - total.log() if is_log else powers / total
