"""Making sparse tensors: of indices and values, of dense tensors, and of each other."""
from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from lazyten.frontend import functions
from lazyten.frontend.core.forms import is_sparse, sparse_form
from lazyten.frontend.core.keywords import Layout, sparse_coo, sparse_csc, sparse_csr, strided
from lazyten.frontend.tensor import DTypeLike, Tensor
from lazyten.ir import dtype as dt
from lazyten.operators.math import shapes
from lazyten.sparse import invariants
from lazyten.sparse.compressed import AXIS, CompressedTensor, compressed, compressing
from lazyten.sparse.coordinates import CooTensor, added_up, coo, flat
from lazyten.sparse.tensors import SparseTensor, read, whole_numbers
from lazyten.storage.placement import placed
from lazyten.support.errors import ArgumentError, DTypeError, ShapeError, SparseLayoutError


def sparse_coo_tensor(indices: Any = None, values: Any = None, size: Any = None, *,
                      dtype: DTypeLike | None = None, device: str | None = None,
                      pin_memory: bool = False, requires_grad: bool = False,
                      check_invariants: bool | None = None,
                      is_coalesced: bool | None = None) -> CooTensor:
    """The tensor with values[k] at indices[:, k], and 0 elsewhere; values of one place are added.

    indices: (sparse axes, nnz), whole numbers; values: (nnz, dense axes..); size: the shape, which
    is inferred from the greatest indices if it is left out. sparse_coo_tensor(size) is a tensor of
    zeros. Gradients flow to the values, unless `requires_grad` makes the result a leaf.
    IndexingError for indices outside of the shape, which are always looked at; ShapeError for parts
    that do not fit.
    """
    name = "sparse_coo_tensor"
    if values is None:
        made = _zeros(indices if size is None else size, dtype, device)
        return made.requires_grad_() if requires_grad else made
    elements = _values(values, dtype, device)
    places = _whole(indices, elements.device, name)
    if places.ndim == 1 and not places.shape[0]:
        places = places.reshape(0, elements.shape[0])
    if places.ndim != 2:
        raise ShapeError(f"{name}: indices have shape {tuple(places.shape)}; they are (sparse "
                         f"axes, nnz): a row for each axis")
    if elements.ndim == 0:
        elements = elements.expand(places.shape[1])
    if elements.shape[0] != places.shape[1]:
        raise ShapeError(f"{name}: indices {tuple(places.shape)} are for {places.shape[1]} values, "
                         f"but values have shape {tuple(elements.shape)}; both must have the same "
                         f"number")
    shape = invariants.coo_shape(places, elements, size, name)
    made = coo(places, elements, shape, bool(is_coalesced))
    if is_coalesced and invariants.are_checked(check_invariants):
        invariants.check_coalesced(made)
    return made.requires_grad_() if requires_grad else made


def _zeros(size: Any, dtype: DTypeLike | None, device: str | None,
           axes: int | None = None) -> CooTensor:
    shape = shapes.new_shape([size], "sparse_coo_tensor")
    where, axes = placed(device), len(shape) if axes is None else axes
    return coo(functions.zeros(axes, 0, dtype=dt.int64, device=where),
               functions.zeros(0, *shape[axes:], dtype=dtype, device=where), shape, True)


def _values(values: Any, dtype: DTypeLike | None, device: str | None) -> Tensor:
    if isinstance(values, Tensor):
        if is_sparse(values):
            raise SparseLayoutError("values of a sparse tensor are a dense one; use values() of it")
        return values.to(dtype=dtype, device=device)
    return functions.tensor(values, dtype=dtype, device=device)


def _whole(indices: Any, device: Any, name: str) -> Tensor:
    """Indices as int64, on the device of the values."""
    if isinstance(indices, Tensor):
        if indices.dtype.is_complex or indices.dtype is dt.bool_:
            raise DTypeError(f"{name}: indices are {indices.dtype.name}; they are whole numbers")
        return indices.detach().to(dtype=dt.int64, device=device)
    if isinstance(indices, list | tuple) and any(isinstance(x, Tensor) for x in indices):
        return functions.stack([_whole(x, device, name) for x in indices])
    return _whole(functions.tensor(indices), device, name)


def sparse_compressed_tensor(compressed_indices: Any, plain_indices: Any, values: Any,
                             size: Any = None, *, dtype: DTypeLike | None = None,
                             layout: Layout | None = None, device: str | None = None,
                             pin_memory: bool = False, requires_grad: bool = False,
                             check_invariants: bool | None = None) -> CompressedTensor:
    """The matrix whose line i (a row, or of sparse_csc a column) has values from
    compressed_indices[i] to compressed_indices[i + 1], at the places of the same range of
    plain_indices. Errors: as of sparse_coo_tensor."""
    if not isinstance(layout, Layout) or layout not in AXIS:
        raise SparseLayoutError(f"sparse_compressed_tensor: layout={layout!r} is not one that is "
                                f"there; use sparse_csr or sparse_csc")
    elements = _values(values, dtype, device)
    kind = "int32" if all(getattr(x, "dtype", None) is dt.int32
                          for x in (compressed_indices, plain_indices)) else "int64"
    starts, others = [_whole(x, elements.device, "sparse_compressed_tensor").to(dtype=kind)
                      for x in (compressed_indices, plain_indices)]
    shape = invariants.compressed_shape(starts, others, elements, size, layout)
    made = compressed(starts, others, elements, shape, layout)
    return made.requires_grad_() if requires_grad else made


def sparse_csr_tensor(crow_indices: Any, col_indices: Any, values: Any, size: Any = None,
                      **options: Any) -> CompressedTensor:
    """sparse_compressed_tensor by rows."""
    return sparse_compressed_tensor(crow_indices, col_indices, values, size, layout=sparse_csr,
                                    **options)


def sparse_csc_tensor(ccol_indices: Any, row_indices: Any, values: Any, size: Any = None,
                      **options: Any) -> CompressedTensor:
    """sparse_compressed_tensor by columns."""
    return sparse_compressed_tensor(ccol_indices, row_indices, values, size, layout=sparse_csc,
                                    **options)


# ---- dense tensors as sparse ones, and back ------------------------------------------------------

def to_sparse(self: Any, sparse_dim: int | None = None, *, layout: Layout | None = None,
              blocksize: Any = None, dense_dim: int | None = None) -> Any:
    """This tensor with what is not 0 alone: in coordinates, or of another layout. sparse_dim: so
    many axes have indices, the others belong to values. Looks at the values of a dense tensor."""
    if blocksize is not None or dense_dim:
        raise SparseLayoutError("to_sparse: blocks, and dense axes of compressed matrices, are not "
                                "there; leave blocksize and dense_dim out")
    if layout is not None and layout is not sparse_coo:
        if not isinstance(layout, Layout) or layout not in AXIS:
            raise SparseLayoutError(f"to_sparse: layout={layout!r} is not one that is there; use "
                                    f"sparse_coo, sparse_csr or sparse_csc")
        return _compressed(self, layout)
    if isinstance(self, CooTensor):
        if sparse_dim not in (None, self.sparse_dim()):
            raise SparseLayoutError(f"to_sparse({sparse_dim}) of a tensor that has "
                                    f"{self.sparse_dim()} sparse axes; use to_dense() first")
        return self
    if isinstance(self, CompressedTensor):
        return self.in_coordinates().coalesce()
    axes = self.ndim if sparse_dim is None else shapes.as_int(sparse_dim, "to_sparse", "sparse_dim")
    return _of_dense(self, axes)


def _of_dense(x: Tensor, axes: int) -> CooTensor:
    if not (0 < axes <= x.ndim or axes == x.ndim):
        raise ArgumentError(f"to_sparse({axes}) of shape {tuple(x.shape)}: give the number of axes "
                            f"that have indices, 1 to {x.ndim}")
    from_values = x.detach().reshape(*x.shape[:axes], math.prod(x.shape[axes:]))
    filled = np.array(read_mask(from_values), bool)
    if not axes:
        return coo(functions.zeros(0, 1, dtype=dt.int64, device=x.device), x.reshape(1), (), True)
    places = whole_numbers(np.stack(np.nonzero(filled)), x.device)
    return coo(places, at(x, places), x.shape, True)


def read_mask(x: Tensor) -> Any:
    """Where rows along the last axis have something that is not 0."""
    return (read((x != 0).any(-1), "to_sparse")).astype(bool)


def at(x: Tensor, places: Tensor) -> Tensor:
    """(nnz, ..): the elements of a dense tensor at these indices of its first axes."""
    if not places.shape[0]:
        return x.unsqueeze(0).expand(places.shape[1], *x.shape)
    return x[tuple(places[axis] for axis in range(places.shape[0]))]


def _compressed(x: Any, layout: Layout) -> CompressedTensor:
    if isinstance(x, CompressedTensor) and x.layout is layout:
        return x
    if x.ndim != 2:
        raise SparseLayoutError(f"to_{layout.name} of shape {tuple(x.shape)}: it is for matrices; "
                                f"batches of them are not there")
    return compressing(to_sparse(x), layout)


def to_sparse_csr(self: Any, dense_dim: int | None = None) -> CompressedTensor:
    """This matrix by rows, with what is not 0 alone."""
    made: CompressedTensor = to_sparse(self, layout=sparse_csr, dense_dim=dense_dim)
    return made


def to_sparse_csc(self: Any, dense_dim: int | None = None) -> CompressedTensor:
    """This matrix by columns, with what is not 0 alone."""
    made: CompressedTensor = to_sparse(self, layout=sparse_csc, dense_dim=dense_dim)
    return made


def to_sparse_coo(self: Any) -> CooTensor:
    """This tensor in coordinates, with what is not 0 alone."""
    made: CooTensor = to_sparse(self)
    return made


@sparse_form("to_dense")
def to_dense(self: Any, dtype: DTypeLike | None = None, *, masked_grad: bool | None = None) -> Any:
    """This tensor with its zeros. The gradient of a sparse tensor is that of its values, so
    masked_grad=False, a gradient for the zeros too, is refused where there is one."""
    if not isinstance(self, SparseTensor):
        return self.to(dtype=dtype)
    if masked_grad is False and self.requires_grad:
        raise SparseLayoutError("to_dense(masked_grad=False): the gradient of a sparse tensor is "
                                "that of its values; leave it out")
    x: Any = self.in_coordinates() if isinstance(self, CompressedTensor) else self
    axes = x.sparse_dim()
    shape, count = x.shape, 1
    for n in shape[:axes]:
        count *= n
    whole: Tensor = added_up(x._elements, flat(x._places, shape), count).reshape(shape)
    return whole.to(dtype=dtype)


def sparse_mask(self: Any, mask: Any) -> Any:
    """The elements at the places of a sparse tensor: a sparse tensor of these."""
    if not isinstance(mask, SparseTensor):
        raise SparseLayoutError("sparse_mask: the mask is no sparse tensor; give one, or multiply")
    if self.shape != mask.shape:
        raise ShapeError(f"sparse_mask of shapes {tuple(self.shape)} and {tuple(mask.shape)}: both "
                         f"must be equal")
    x = to_dense(self)
    where: Any = mask.in_coordinates() if isinstance(mask, CompressedTensor) else mask
    return mask.with_values(at(x, where._places))


def _of_saved_parts(parts: Sequence[Tensor], layout: str, size: Sequence[int],
                    is_coalesced: bool) -> Any:
    """A tensor that was saved as these, which are looked at again."""
    if layout == sparse_coo.name:
        return sparse_coo_tensor(parts[0], parts[1], size, is_coalesced=is_coalesced)
    kind = next(k for k in AXIS if k.name == layout)
    return sparse_compressed_tensor(parts[0], parts[1], parts[2], size, layout=kind)


# ---- functions that make others ------------------------------------------------------------------

@sparse_form("zeros_like", "empty_like")
def _zeros_like(input: Any, dtype: DTypeLike | None = None, device: str | None = None,
                requires_grad: bool = False, layout: Layout | None = None, **_: Any) -> Any:
    if layout is strided:
        return functions.zeros(input.shape, dtype=dtype or input.dtype,
                               device=device or input.device, requires_grad=requires_grad)
    made = _none_of(input.shape, layout or input.layout, dtype or input.dtype,
                    device or input.device, input.sparse_dim())
    return made.requires_grad_() if requires_grad else made


@sparse_form("new_zeros", "new_empty")
def _new_zeros(self: Any, *size: Any, dtype: DTypeLike | None = None, device: str | None = None,
               requires_grad: bool = False) -> Any:
    made = _none_of(shapes.new_shape(size, "new_zeros"), self.layout, dtype or self.dtype,
                    device or self.device)
    return made.requires_grad_() if requires_grad else made


def _none_of(shape: Sequence[int], layout: Layout, dtype: DTypeLike | None,
             device: str | None, axes: int | None = None) -> Any:
    """Zeros in a layout, none of them held. axes: so many are sparse."""
    made = _zeros(shape, dtype, device, axes)
    return made if layout is sparse_coo else compressing(made, layout)


@sparse_form("new_tensor")
def _new_tensor(self: Any, data: Any, dtype: DTypeLike | None = None, device: str | None = None,
                requires_grad: bool = False) -> Any:
    return functions.tensor(data, dtype or self.dtype, device or self.device, requires_grad)


@sparse_form("tensor")
def _tensor(data: Any, dtype: DTypeLike | None = None, device: str | None = None,
            requires_grad: bool = False) -> Any:
    if isinstance(data, list | tuple):
        raise SparseLayoutError("tensor of a list of sparse tensors; use stack(), or to_dense() of "
                                "each")
    made = data.detach().clone().to(dtype=dtype, device=device)
    return made.requires_grad_() if requires_grad else made


@sparse_form("as_tensor")
def _as_tensor(data: Any, dtype: DTypeLike | None = None, device: str | None = None) -> Any:
    return data.to(dtype=dtype, device=device)

