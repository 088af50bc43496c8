"""Products of sparse matrices: rows of the other operand, gathered, scaled and added up."""
from __future__ import annotations

from typing import Any

import numpy as np

from lazyten.frontend import functions
from lazyten.frontend.core.forms import is_sparse, sparse_form
from lazyten.frontend.core.operands import tensors_given
from lazyten.frontend.tensor import Tensor
from lazyten.operators.math import shapes
from lazyten.sparse.arithmetic import coordinates
from lazyten.sparse.arrangement import transpose
from lazyten.sparse.compressed import CompressedTensor, compressing
from lazyten.sparse.coordinates import CooTensor, added_up, checked, coo, flat
from lazyten.sparse.making import to_sparse
from lazyten.sparse.tensors import SparseTensor, is_traced, read, whole_numbers
from lazyten.support.errors import ArgumentError, DTypeError, ShapeError, SparseLayoutError

REDUCTIONS = "sum", "mean", "amax", "amin"


def _check(x: Any, y: Any, operation: str) -> None:
    tensors_given(operation, x, y)
    axis = max(y.ndim - 2, 0)
    if x.ndim not in (1, 2, 3) or y.ndim not in (1, 2, 3) or x.shape[-1] != y.shape[axis]:
        raise ShapeError(f"{operation} of shapes {tuple(x.shape)} and {tuple(y.shape)}: the last "
                         f"axis of the first and axis {axis} of the second must be equal, of "
                         f"matrices or vectors")
    if x.dtype is not y.dtype:
        raise DTypeError(f"{operation} of {x.dtype.name} and {y.dtype.name}: both must be of one "
                         f"type; convert one with .to()")
    for z in (x, y):
        if isinstance(z, CooTensor) and z.dense_dim():
            raise SparseLayoutError(f"{operation} of a sparse tensor with dense axes "
                                    f"{tuple(z.shape[z.sparse_dim():])}: matrices of numbers are "
                                    f"multiplied")


@sparse_form("mm")
def mm(self: Any, mat2: Any) -> Any:
    """Of matrices, one of which is sparse: dense; of two sparse ones: sparse."""
    tensors_given("mm", self, mat2)
    if self.ndim != 2 or mat2.ndim != 2:
        raise ShapeError(f"mm of shapes {tuple(self.shape)} and {tuple(mat2.shape)}: it is for "
                         f"matrices; use matmul")
    return matmul(self, mat2)


@sparse_form("matmul", "__matmul__")
def matmul(self: Any, other: Any) -> Any:
    """mm, and products with vectors and of batches."""
    _check(self, other, "matmul")
    if self.ndim == 3 or other.ndim == 3:
        return bmm(self, other)
    if not is_sparse(self):
        rows = self.reshape(1, -1) if self.ndim == 1 else self
        result = _times(coordinates(transpose(other, 0, 1)), rows.transpose(0, 1)).transpose(0, 1)
        return result.squeeze(0) if self.ndim == 1 else result
    if self.ndim == 1:
        raise SparseLayoutError("matmul of a sparse vector; use to_dense() of it")
    if is_sparse(other):
        if other.ndim == 1:
            raise SparseLayoutError("matmul with a sparse vector; use to_dense() of it")
        made = _of_both(coordinates(self), coordinates(other))
        return compressing(made, self.layout) if isinstance(self, CompressedTensor) else made
    columns = other.unsqueeze(1) if other.ndim == 1 else other
    result = _times(coordinates(self), columns)
    return result.squeeze(1) if other.ndim == 1 else result


@sparse_form("__rmatmul__")
def _rmatmul(self: Any, other: Any) -> Any:
    return matmul(other, self)


def _times(x: CooTensor, dense: Tensor) -> Tensor:
    rows, columns = x._places[0], x._places[1]
    if is_traced():
        rows, columns = checked(rows, x.shape[0]), checked(columns, x.shape[1])
    each = x._elements.unsqueeze(1) * dense.index_select(0, columns)
    return added_up(each, rows, x.shape[0])


def _of_both(x: CooTensor, y: CooTensor) -> CooTensor:
    """The product of sparse matrices: each value of x meets those in the row of y that its column
    is."""
    x, y = x.coalesce(), y.coalesce()
    one, two = read(x._places, "mm"), read(y._places, "mm")
    counts = np.bincount(two[0], minlength=y.shape[0])
    starts = np.concatenate([[0], np.cumsum(counts)])
    times = counts[one[1]]
    left = np.repeat(np.arange(one.shape[1]), times)
    within = np.arange(left.size) - np.repeat(np.cumsum(times) - times, times)
    right = starts[one[1][left]] + within
    where = whole_numbers(np.stack([one[0][left], two[1][right]]), x.device)
    values = x._elements.index_select(0, whole_numbers(left, x.device)) \
        * y._elements.index_select(0, whole_numbers(right, x.device))
    return coo(where, values, (x.shape[0], y.shape[1]), False).coalesce()


@sparse_form("mv")
def mv(self: Any, vec: Any) -> Any:
    """Of a matrix and a vector."""
    tensors_given("mv", self, vec)
    if self.ndim != 2 or vec.ndim != 1:
        raise ShapeError(f"mv of shapes {tuple(self.shape)} and {tuple(vec.shape)}: it is for a "
                         f"matrix and a vector")
    return matmul(self, vec)


@sparse_form("bmm")
def bmm(self: Any, mat2: Any) -> Any:
    """Of a sparse and a dense batch of matrices."""
    if not isinstance(self, CooTensor) or is_sparse(mat2) or self.ndim != 3 or mat2.ndim != 3:
        raise SparseLayoutError(f"bmm of shapes {tuple(self.shape)} and {tuple(mat2.shape)}: it is "
                                f"for (batch, n, m) in coordinates and a dense (batch, m, k)")
    _check(self, mat2, "bmm")
    (batch, n, m), k = self.shape, mat2.shape[2]
    if mat2.shape[0] != batch:
        raise ShapeError(f"bmm of shapes {tuple(self.shape)} and {tuple(mat2.shape)}: axis 0 of "
                         f"both must be equal")
    which = self._places
    rows = flat(which[:2], (batch, n))
    columns = flat(functions.stack([which[0], which[2]]), (batch, m))
    each = self._elements.unsqueeze(1) * mat2.reshape(batch * m, k).index_select(0, columns)
    return added_up(each, rows, batch * n).reshape(batch, n, k)


@sparse_form("addmm", "sspaddmm")
def addmm(self: Any, mat1: Any, mat2: Any, *, beta: Any = 1, alpha: Any = 1) -> Any:
    """beta * self + alpha * mat1 @ mat2."""
    tensors_given("sparse.addmm", self, mat1, mat2)
    product = mm(mat1, mat2) if is_sparse((mat1, mat2)) else mat1.mm(mat2)
    product = product if alpha == 1 else product * alpha
    if is_sparse(self) is not is_sparse(product):
        raise SparseLayoutError("addmm: the product and what it is added to must both be sparse or "
                                "both dense; use to_dense() of one")
    if beta == 0:
        return product
    return (self if beta == 1 else self * beta) + product


@sparse_form("nn.linear")
def linear(input: Any, weight: Any, bias: Any = None) -> Any:
    """input @ weight.T + bias."""
    product = matmul(input, transpose(weight, 0, 1) if is_sparse(weight) else weight.transpose(0, 1)
                     )
    return product if bias is None else product + bias


def sampled_addmm(input: Any, mat1: Any, mat2: Any, *, beta: Any = 1.0, alpha: Any = 1.0) -> Any:
    """beta * input + alpha * mat1 @ mat2 at the places of a sparse matrix: nothing else of the
    product is computed."""
    tensors_given("sparse.sampled_addmm", mat1, mat2)
    if not isinstance(input, SparseTensor) or input.ndim != 2:
        raise SparseLayoutError("sampled_addmm: the input is no sparse matrix, whose places say "
                                "what is computed")
    shape = (mat1.shape[0], mat2.shape[-1])
    if mat1.ndim != 2 or mat2.ndim != 2 or mat1.shape[1] != mat2.shape[0] or shape != input.shape:
        raise ShapeError(f"sampled_addmm of shapes {tuple(input.shape)}, {tuple(mat1.shape)} and "
                         f"{tuple(mat2.shape)}: they must be (n, m), (n, k) and (k, m)")
    rows, columns = coordinates(input)._places
    dots = (mat1.index_select(0, rows) * mat2.index_select(1, columns).transpose(0, 1)).sum(1)
    return input.with_values(input._elements * beta + dots * alpha)


def sparse_mm(mat1: Any, mat2: Any, reduce: str = "sum") -> Any:
    """The product of matrices, one of which may be sparse, or both. reduce: what becomes of the
    terms of an element, of a sparse matrix and a dense one: 'sum', 'mean', 'amax' or 'amin'."""
    if reduce not in REDUCTIONS:
        raise ArgumentError(f"sparse.mm: reduce={reduce!r} is not one of {', '.join(REDUCTIONS)}")
    tensors_given("sparse.mm", mat1, mat2)
    if not is_sparse((mat1, mat2)):
        return mat1.mm(mat2)
    if reduce == "sum":
        return mm(mat1, mat2)
    if not is_sparse(mat1) or is_sparse(mat2):
        raise SparseLayoutError(f"sparse.mm with reduce={reduce!r}: it is for a sparse matrix and "
                                f"a dense one")
    _check(mat1, mat2, "sparse.mm")
    x = coordinates(mat1)
    rows, columns = x._places
    each = x._elements.unsqueeze(1) * mat2.index_select(0, columns)
    start = functions.zeros(x.shape[0], mat2.shape[1], dtype=x.dtype, device=x.device)
    wide = rows.unsqueeze(1).expand(each.shape)
    return start.scatter_reduce(0, wide, each, reduce, include_self=False)


def spdiags(diagonals: Any, offsets: Any, shape: Any, layout: Any = None) -> Any:
    """The sparse matrix whose diagonals are the rows of `diagonals` (n, length): element j of row i
    is in column j, offsets[i] columns right of the main diagonal."""
    tensors_given("sparse.spdiags", diagonals, offsets)
    rows = diagonals.unsqueeze(0) if diagonals.ndim == 1 else diagonals
    size = shapes.new_shape([shape], "spdiags")
    steps = read(offsets, "spdiags").reshape(-1)
    if rows.ndim != 2 or len(size) != 2 or len(steps) != rows.shape[0]:
        raise ShapeError(f"spdiags: {tuple(diagonals.shape)} diagonals, {tuple(offsets.shape)} "
                         f"offsets and shape {size}: they are (n, length), (n,) and a matrix's")
    if len(set(steps.tolist())) < len(steps):
        raise ArgumentError(f"spdiags: offsets {steps.tolist()} name a diagonal twice")
    which, column = np.meshgrid(np.arange(len(steps)), np.arange(min(rows.shape[1], size[1])),
                                indexing="ij")
    row = column - steps[:, None]
    inside = (row >= 0) & (row < size[0])
    which, column, row = which[inside], column[inside], row[inside]
    values = rows[whole_numbers(which, rows.device), whole_numbers(column, rows.device)]
    made = coo(whole_numbers(np.stack([row, column]), rows.device), values, size, False)
    return made if layout is None else to_sparse(made, layout=layout)

