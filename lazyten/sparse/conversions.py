"""Sparse tensors of another element type, on another device; writes to them; reading parts of
dense ones that only sparse ones have."""
from __future__ import annotations

from typing import Any

from lazyten.frontend.core.forms import is_sparse, sparse_form
from lazyten.frontend.functions import zeros_like
from lazyten.frontend.methods.conversion import where_to
from lazyten.frontend.tensor import KINDS, DTypeLike
from lazyten.ir import dtype as dt
from lazyten.sparse import arithmetic
from lazyten.sparse.making import to_dense
from lazyten.sparse.tensors import SparseTensor
from lazyten.storage.placement import gpu
from lazyten.support.errors import ShapeError, SparseLayoutError

TYPES = {"float": dt.float32, "double": dt.float64, "half": dt.float16, "bfloat16": dt.bfloat16,
         "int": dt.int32, "long": dt.int64, "short": dt.int16, "char": dt.int8, "byte": dt.uint8,
         "bool": dt.bool_, "cfloat": dt.complex64, "cdouble": dt.complex128}


@sparse_form("to")
def to(self: Any, *args: Any, dtype: DTypeLike | None = None, device: Any = None,
       non_blocking: bool = False, copy: bool = False, memory_format: Any = None,
       layout: Any = None) -> Any:
    """In another element type, on another device, or both; itself if nothing changes."""
    if not isinstance(self, SparseTensor):  # x.to(sparse)
        if not (args and isinstance(args[0], SparseTensor)):
            raise SparseLayoutError("to of a dense tensor with a sparse one for a dtype or a "
                                    "device: give its dtype and its device")
        return self.to(args[0].device, args[0].dtype)
    dtype, device, copy = where_to(args, dtype, device, copy)
    values = self._elements.to(dtype=dtype, device=device)
    if values is self._elements:
        return self.clone() if copy else self
    parts, rest = self.taken_apart()
    return self.put_together([*[x.to(device=device) for x in parts[:-1]], values], rest)


def _conversion(name: str, kind: Any) -> Any:
    def converted(self: Any, memory_format: Any = None) -> Any:
        return to(self, dtype=kind)
    return sparse_form(name)(converted)


for _name, _kind in TYPES.items():
    _conversion(_name, _kind)


@sparse_form("cpu")
def _cpu(self: Any, memory_format: Any = None) -> Any:
    return to(self, device="cpu")


@sparse_form("cuda")
def _cuda(self: Any, device: Any = None, non_blocking: bool = False,
          memory_format: Any = None) -> Any:
    return to(self, device=gpu(device))


@sparse_form("type")
def _type(self: Any, dtype: Any = None, non_blocking: bool = False) -> Any:
    if dtype is not None:
        return to(self, dtype=dtype)
    names = [name for name, kind in KINDS.items() if kind is self.dtype]
    return f"lazyten.sparse.{(names or [self.dtype.name.capitalize()])[0]}Tensor"


@sparse_form("type_as")
def _type_as(self: Any, other: Any) -> Any:
    return self.to(dtype=other.dtype, device=other.device)


# ---- writes --------------------------------------------------------------------------------------

@sparse_form("copy_")
def _copy(self: Any, src: Any, non_blocking: bool = False) -> Any:
    if not (is_sparse(self) and is_sparse(src)):
        raise SparseLayoutError("copy_ between a dense and a sparse tensor; use to_dense() or "
                                "to_sparse() of what is copied")
    if self.shape != src.shape:
        raise ShapeError(f"copy_ of a sparse tensor {tuple(src.shape)} to one of "
                         f"{tuple(self.shape)}: both must have the same shape")
    self._become(src.detach().clone().to(dtype=self.dtype, device=self.device))
    return self


@sparse_form("zero_")
def _zero(self: Any) -> Any:
    self._become(zeros_like(self))
    return self


def _writing(function: Any) -> Any:
    """The twin of a function, which writes what it gives."""
    def in_place(self: Any, *args: Any, **kwargs: Any) -> Any:
        result = function(self, *args, **kwargs)
        if not isinstance(self, SparseTensor):
            return self.copy_(to_dense(result) if is_sparse(result) else result)
        self._become(result.to(dtype=self.dtype))
        return self
    return in_place


for _name in ("add", "sub", "mul", "div", "floor_divide", "pow", *arithmetic.LINEAR,
              *arithmetic.OF_VALUES):
    from_form = {"add": arithmetic.add, "sub": arithmetic.sub, "mul": arithmetic.mul,
                 "div": arithmetic.div, "floor_divide": arithmetic.floor_divide,
                 "pow": arithmetic.power}.get(_name) or arithmetic._function(
                     _name, _name in arithmetic.LINEAR)
    sparse_form(f"{_name}_")(_writing(from_form))
for _name, _form in (("add", arithmetic.add), ("sub", arithmetic.sub), ("mul", arithmetic.mul),
                     ("truediv", arithmetic.div)):
    sparse_form(f"__i{_name}__")(_writing(_form))


# ---- what only sparse tensors have ---------------------------------------------------------------

def _of_sparse_ones(name: str) -> Any:
    def refused(self: Any) -> Any:
        if not isinstance(self, SparseTensor):
            raise SparseLayoutError(f"{name}() of a dense tensor: it is of sparse ones; use "
                                    f"to_sparse() first")
        raise SparseLayoutError(f"{name}() of a tensor of layout {self.layout}: it is of another; "
                                f"convert with to_sparse(layout=...)")
    refused.__name__ = name
    return refused


coalesce, is_coalesced, indices, values, _indices, _values, _nnz, crow_indices, col_indices, \
    ccol_indices, row_indices = map(_of_sparse_ones, (
        "coalesce", "is_coalesced", "indices", "values", "_indices", "_values", "_nnz",
        "crow_indices", "col_indices", "ccol_indices", "row_indices"))


def sparse_dim(self: Any) -> int:
    """0: it is dense."""
    return 0


def dense_dim(self: Any) -> int:
    """All axes: it is dense."""
    return int(self.ndim)

