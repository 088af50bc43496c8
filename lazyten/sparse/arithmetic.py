"""Arithmetic of sparse tensors, and functions that give 0 for 0: of values, at the same places."""
from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from lazyten.frontend import functions
from lazyten.frontend.core.forms import is_sparse, sparse_form
from lazyten.frontend.core.operands import is_comparable
from lazyten.frontend.tensor import Tensor
from lazyten.ir import dtype as dt
from lazyten.sparse.compressed import CompressedTensor, compressing
from lazyten.sparse.coordinates import CooTensor, coo, flat
from lazyten.sparse.making import at, to_dense
from lazyten.sparse.tensors import SparseTensor, is_traced, read, whole_numbers
from lazyten.support.errors import ShapeError, SparseLayoutError, not_sparse

LINEAR = ("conj", "conj_physical", "deg2rad", "neg", "negative", "positive", "rad2deg",
          "resolve_conj", "resolve_neg")
"""Functions of sums that are the sums of those of the parts, so that places may come twice."""
OF_VALUES = (
    "abs", "absolute", "arcsin", "arcsinh", "arctan", "arctanh", "asin", "asinh", "atan", "atanh",
    "ceil", "erf", "erfinv", "expm1", "fix", "floor", "frac", "isinf", "isnan", "isneginf",
    "isposinf", "log1p", "nan_to_num", "relu", "round", "sgn", "sign", "signbit", "sin", "sinh",
    "sqrt", "square", "tan", "tanh", "trunc")
"""Functions that give 0 for 0."""


def each_once(x: Any) -> Any:
    """A sparse tensor whose values are of one place each."""
    return x.coalesce() if isinstance(x, CooTensor) else x


def coordinates(x: Any) -> CooTensor:
    """A sparse tensor in coordinates."""
    return x.in_coordinates() if isinstance(x, CompressedTensor) else x


def _function(name: str, is_linear: bool) -> Callable[..., Any]:
    def of_values(self: Any, *args: Any, **kwargs: Any) -> Any:
        x = self if is_linear else each_once(self)
        return x.with_values(getattr(x._elements, name)(*args, **kwargs))
    return of_values


for _name in (*LINEAR, *OF_VALUES):
    sparse_form(_name)(_function(_name, _name in LINEAR))
sparse_form("__neg__")(_function("neg", True))
sparse_form("__pos__")(_function("positive", True))
sparse_form("__abs__")(_function("abs", False))
sparse_form("nn.relu")(lambda input, inplace=False: _function("relu", False)(input))


def _is_number(x: Any) -> bool:
    return not isinstance(x, Tensor) or not x.ndim and not is_sparse(x)


def _scaled(x: Any, number: Any, operation: Callable[[Tensor, Any], Any]) -> Any:
    return x.with_values(operation(x._elements, number))


# ---- products ------------------------------------------------------------------------------------

@sparse_form("mul", "multiply", "__mul__", "__rmul__")
def mul(self: Any, other: Any) -> Any:
    """Of a sparse tensor and a number, a dense tensor, or another sparse one: sparse."""
    if not isinstance(self, SparseTensor):
        self, other = other, self
    if _is_number(other):
        return _scaled(self, other, lambda x, n: x * n)
    if is_sparse(other):
        return _in_layout(_of_both(coordinates(self), coordinates(other)), self)
    if len(other.shape) > self.ndim or functions.broadcast_tensors(
            other, other.new_zeros(1).expand(self.shape))[0].shape != self.shape:
        raise ShapeError(f"mul of a sparse tensor {tuple(self.shape)} and a dense one "
                         f"{tuple(other.shape)}: the sparse one is not expanded; expand() the "
                         f"dense one to its shape, or use to_dense()")
    x = coordinates(self)
    return self.with_values(x._elements * at(other.expand(self.shape), x._places))


def _of_both(x: CooTensor, y: CooTensor) -> CooTensor:
    """The product: at places that both have."""
    _check_same(x, y, "mul")
    if x._places is y._places and x._coalesced:
        return x.with_values(x._elements * y._elements)
    x, y = x.coalesce(), y.coalesce()
    places = read(x._places, "mul")
    _, first, second = np.intersect1d(_numbered(places, x), _numbered(read(y._places, "mul"), y),
                                      assume_unique=True, return_indices=True)
    one, two = (z._elements.index_select(0, whole_numbers(chosen, x.device))
                for z, chosen in ((x, first), (y, second)))
    return coo(whole_numbers(places[:, first], x.device), one * two, x.shape, True)


def _numbered(places: Any, x: CooTensor) -> Any:
    shape = x.shape[:x.sparse_dim()]
    return np.ravel_multi_index(tuple(places), shape) if shape else np.zeros(places.shape[1], int)


def _check_same(x: CooTensor, y: CooTensor, operation: str) -> None:
    if x.shape != y.shape:
        raise ShapeError(f"{operation} of sparse tensors {tuple(x.shape)} and {tuple(y.shape)}: "
                         f"both must have the same shape")
    if x.sparse_dim() != y.sparse_dim():
        raise SparseLayoutError(f"{operation} of tensors with {x.sparse_dim()} and "
                                f"{y.sparse_dim()} sparse axes; they must have as many")


def _in_layout(x: CooTensor, like: Any) -> Any:
    return compressing(x, like.layout) if isinstance(like, CompressedTensor) else x


@sparse_form("__eq__", "__ne__")
def _equal(self: Any, other: Any) -> Any:
    """Python's answer for what is no tensor nor number; elements are not compared."""
    if is_comparable(other):
        raise not_sparse("==")
    return NotImplemented


@sparse_form("div", "divide", "true_divide", "__truediv__")
def div(self: Any, other: Any, rounding_mode: str | None = None) -> Any:
    """Of a sparse tensor by a number."""
    x = _by_number(self, other, "div")
    if rounding_mode is not None:
        x = each_once(x)
    return _scaled(x, other, lambda v, n: v.div(n, rounding_mode=rounding_mode))


@sparse_form("floor_divide", "__floordiv__")
def floor_divide(self: Any, other: Any) -> Any:
    """Of a sparse tensor by a number."""
    return _scaled(each_once(_by_number(self, other, "floor_divide")), other,
                   lambda v, n: v.floor_divide(n))


def _by_number(x: Any, other: Any, operation: str) -> Any:
    if not isinstance(x, SparseTensor) or not _is_number(other):
        shape = "" if not isinstance(other, Tensor) else f", of shape {tuple(other.shape)},"
        raise SparseLayoutError(f"{operation} of a {_kind(x)} tensor by a {_kind(other)} one{shape}"
                                f" is not there, as 0/0 is no 0; divide by a number, or use "
                                f"to_dense()")
    return x


def _kind(x: Any) -> str:
    return "sparse" if is_sparse(x) else "dense"


@sparse_form("pow", "__pow__")
def power(self: Any, exponent: Any) -> Any:
    """Of a sparse tensor to the power of a number that is not 0."""
    if not isinstance(self, SparseTensor) or isinstance(exponent, Tensor):
        raise not_sparse("pow with an exponent that is a tensor")
    if exponent == 0:
        raise SparseLayoutError("pow of a sparse tensor with exponent 0: each 0 would become 1; "
                                "use to_dense()")
    return _scaled(each_once(self), exponent, lambda x, n: x ** n)


# ---- sums ----------------------------------------------------------------------------------------

@sparse_form("add", "__add__")
def add(self: Any, other: Any, *, alpha: Any = 1) -> Any:
    """Of two sparse tensors: sparse; of a dense one and a sparse one, in this order: dense."""
    if not isinstance(self, SparseTensor):
        return _to_dense_one(self, other, alpha)
    if not is_sparse(other):
        if isinstance(self, CompressedTensor) and isinstance(other, Tensor):
            return _to_dense_one(other * alpha if alpha != 1 else other, self, 1)
        raise SparseLayoutError("add(sparse, dense) is not there, as the sum is dense; use "
                                "dense + sparse, or to_dense()")
    if self.layout is not other.layout:
        raise SparseLayoutError(f"add of layouts {self.layout} and {other.layout}; convert one "
                                f"with to_sparse(layout=...)")
    return _in_layout(_sum(coordinates(self), coordinates(other), alpha), self)


def _sum(x: CooTensor, y: CooTensor, alpha: Any) -> CooTensor:
    _check_same(x, y, "add")
    kind = dt.promote(x.dtype, y.dtype)
    one, two = x._elements.to(dtype=kind), y._elements.to(dtype=kind)
    if alpha != 1:
        two = two * alpha
    if x._places is y._places:
        return coo(x._places, one + two, x.shape, x._coalesced)
    made = joined(x, y, one, two)
    return made if is_traced() else made.coalesce()


def joined(x: CooTensor, y: CooTensor, one: Tensor, two: Tensor) -> CooTensor:
    """The sum as it comes: the values of both, one after the other."""
    places = functions.cat([x._places, y._places], 1)
    return coo(places, functions.cat([one, two]), x.shape, False)


def _to_dense_one(dense: Any, x: Any, alpha: Any) -> Tensor:
    if not isinstance(dense, Tensor):
        raise SparseLayoutError(f"add of {dense!r:.40} and a sparse tensor: the sum is dense; use "
                                f"to_dense()")
    if dense.shape != x.shape:
        raise ShapeError(f"add of a dense tensor {tuple(dense.shape)} and a sparse one "
                         f"{tuple(x.shape)}: both must have the same shape")
    x = coordinates(x)
    kind = dt.promote(dense.dtype, x.dtype)
    values = x._elements.to(dtype=kind)
    if alpha != 1:
        values = values * alpha
    axes = x.sparse_dim()
    count = math.prod(dense.shape[:axes])
    rows = dense.to(dtype=kind).reshape(count, *dense.shape[axes:])
    total: Tensor
    if kind is dt.bool_ or not rows.numel():
        total = dense.to(dtype=kind) + to_dense(x.with_values(values))
        return total
    total = rows.index_add(0, flat(x._places, x.shape), values).reshape(dense.shape)
    return total


@sparse_form("__radd__")
def _radd(self: Any, other: Any) -> Any:
    return add(other, self)


@sparse_form("sub", "subtract", "__sub__")
def sub(self: Any, other: Any, *, alpha: Any = 1) -> Any:
    """As add, with the second taken away."""
    return add(self, other, alpha=-alpha)


@sparse_form("__rsub__")
def _rsub(self: Any, other: Any) -> Any:
    return sub(other, self)
