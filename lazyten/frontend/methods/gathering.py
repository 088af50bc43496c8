"""Methods that read and write at positions along one axis."""
from __future__ import annotations

import math
from typing import Any

from lazyten.frontend.core.functions import combined
from lazyten.frontend.core.in_place import in_place
from lazyten.frontend.core.tensor_core import Tensor, TensorCore
from lazyten.ir import dtype as dt
from lazyten.ir.dtype import DType, Scalar
from lazyten.ir.node import Node, cast, const, reshape
from lazyten.ir.ops import Op
from lazyten.operators.arrays import index_arrays
from lazyten.operators.math import elementwise as ew
from lazyten.operators.math import shapes
from lazyten.support.errors import ArgumentError, DTypeError, ShapeError

REDUCTIONS = ("sum", "prod", "mean", "amax", "amin")


_SHORT = {"max": "amax", "min": "amin"}


class GatherMethods(TensorCore[Tensor]):
    """Reading and writing at positions along one axis; zero-dim tensors count as of one axis."""

    __slots__ = ()

    def index_select(self, dim: int, index: Tensor) -> Tensor:
        """The positions `index` of an axis: (a, n, b), dim 1 and an index of k integers give
        (a, k, b). A position outside is an IndexingError once it is computed."""
        axis = shapes.axis(dim, self.ndim, "index_select")
        chosen = self._tensor(index, "index_select")
        if chosen.ndim > 1:
            raise ArgumentError(f"index_select: the index has shape {chosen.shape}; it must have "
                                f"one axis; use take() or brackets")
        x = self if self.shape else self._reshaped((1,))
        line = reshape(chosen.node, (chosen.numel(),))
        found = index_arrays.select(x.shape, [index_arrays.Indexed(axis, axis, line)],
                                    "index_select").read(x.node)
        return x._given(found if self.shape or found.numel != 1 else reshape(found, ()), chosen)

    def gather(self, dim: int, index: Tensor, *, sparse_grad: bool = False) -> Tensor:
        """out[i][j] = self[i][index[i][j]] for dim 1, in the shape of `index`, which has as many
        axes and is no longer than this in the others. A position outside is an IndexingError once
        it is computed. (sparse_grad changes nothing.)"""
        axis = shapes.axis(dim, self.ndim, "gather")
        chosen = self._tensor(index, "gather")
        return self._given(index_arrays.gathered(self.node, axis, chosen.node), chosen)

    def take_along_dim(self, indices: Tensor, dim: int | None = None) -> Tensor:
        """out[i][j] = self[i][indices[i][j]] for dim 1; the other axes broadcast. None: of all
        elements in one axis."""
        chosen = self._tensor(indices, "take_along_dim")
        x: TensorCore[Tensor] = self
        if dim is None:
            x, chosen = x._reshaped((x.numel(),)), chosen._reshaped((chosen.numel(),))
        axis = shapes.axis(dim or 0, x.ndim, "take_along_dim")
        return x._given(index_arrays.along(x.node, axis, chosen.node), chosen)

    def take(self, index: Tensor) -> Tensor:
        """The elements at these positions in row-major order, in the index' shape."""
        chosen = self._tensor(index, "take")
        flat = reshape(chosen.node, (chosen.numel(),))
        node = index_arrays.along(reshape(self.node, (self.numel(),)), 0, flat)
        return self._given(reshape(node, chosen.shape), chosen)

    # ---- writing ---------------------------------------------------------------------------------

    def scatter(self, dim: int, index: Tensor, src: Any = None, *, value: Scalar | None = None,
                reduce: str | None = None) -> Tensor:
        """These elements, with self[i][index[i][j]] = src[i][j] for dim 1, src a tensor or one
        number (which may be named value); of several for one place the last along dim stays. With
        reduce 'add' or 'multiply' they are combined with these."""
        given = src if value is None else value
        if given is None or reduce not in (None, "add", "multiply"):
            raise ArgumentError(f"scatter with src={src!r:.40}, reduce={reduce!r}: give a tensor "
                                f"or a number, and for reduce None, 'add' or 'multiply'")
        operation = {None: None, "add": "sum", "multiply": "prod"}[reduce]
        return _scattered(self, "scatter", dim, index, given, operation)

    scatter_ = in_place(scatter)

    def scatter_add(self, dim: int, index: Tensor, src: Tensor) -> Tensor:
        """These elements, with self[i][index[i][j]] += src[i][j] for dim 1, in the order of dim."""
        return _scattered(self, "scatter_add", dim, index, src, "sum")

    scatter_add_ = in_place(scatter_add)

    def scatter_reduce(self, dim: int, index: Tensor, src: Tensor, reduce: str,
                       include_self: bool = True) -> Tensor:
        """These elements combined with src[i][j] at [i][index[i][j]] for dim 1: reduce is 'sum',
        'prod', 'mean', 'amax' (or 'max') or 'amin' ('min'). Without include_self they are not
        combined where src has an element."""
        reduce = _SHORT.get(reduce, reduce) if isinstance(reduce, str) else reduce
        if not isinstance(reduce, str) or reduce not in REDUCTIONS:
            raise ArgumentError(f"scatter_reduce: reduce={reduce!r} is not one of "
                                f"{', '.join(REDUCTIONS)}")
        low, high = (-math.inf, math.inf) if self.dtype.is_float else (
            self.dtype.min, self.dtype.max)
        start = {"sum": 0, "mean": 0, "prod": 1, "amax": low, "amin": high}[reduce]
        base: Any = self
        if not include_self:
            base = _scattered(self, "scatter_reduce", dim, index, start, None)
        if reduce != "mean":
            combination: Tensor = _scattered(base, "scatter_reduce", dim, index, src, reduce)
            return combination
        total: TensorCore[Tensor] = _scattered(base, "scatter_reduce", dim, index, src, "sum")
        ones = self._fresh(const(int(include_self), dt.int64, self.shape))
        counts = _scattered(ones, "scatter_reduce", dim, index, 1, "sum").node
        return total._unary(lambda x: _quotient(x, ew.maximum(counts, 1)))

    scatter_reduce_ = in_place(scatter_reduce)

    def index_add(self, dim: int, index: Tensor, source: Tensor, alpha: Scalar = 1) -> Tensor:
        """These elements, with alpha * (line j of `source`) added to line index[j] of axis dim."""
        factor = shapes.as_number(alpha, "index_add", "alpha")
        return _lines(self, "index_add", dim, index, source, adder(self.dtype), factor)

    index_add_ = in_place(index_add)

    def index_copy(self, dim: int, index: Tensor, source: Tensor) -> Tensor:
        """These elements, with line index[j] of axis dim set to line j of `source`."""
        return _lines(self, "index_copy", dim, index, source, None)

    index_copy_ = in_place(index_copy)

    def index_fill(self, dim: int, index: Tensor, value: Any) -> Tensor:
        """These elements, with lines index[j] of an axis set to a number, or to a zero-dim tensor's
        value."""
        axis = shapes.axis(dim, self.ndim, "index_fill")
        chosen = self._tensor(index, "index_fill")
        number = self._element(value, "index_fill")
        line, lines = ([n if a == axis else 1 for a in range(max(self.ndim, 1))]
                       for n in ((*self.shape, 1)[axis], chosen.numel()))

        def filled(x: Node, at: Node, element: Scalar | Node) -> Node:
            hit = index_arrays.added_lines(const(False, dt.bool_, tuple(line)), axis, at, const(
                True, dt.bool_, tuple(lines)), None, "index_fill")
            hit = hit if x.shape else reshape(hit, ())
            fits = ew.fitting(element, x.dtype, "index_fill")
            return ew.where(hit, ew.as_node(fits, x.dtype, ()), x)
        return combined(self, "index_fill", filled, chosen, number)

    index_fill_ = in_place(index_fill)

    def index_reduce(self, dim: int, index: Tensor, source: Tensor, reduce: str, *,
                     include_self: bool = True) -> Tensor:
        """These elements, with line j of `source` combined with line index[j] of axis dim: reduce
        is 'prod', 'mean', 'amax' or 'amin'. Without include_self lines with an index count only as
        what they are combined with."""
        if reduce not in REDUCTIONS[1:]:
            raise ArgumentError(f"index_reduce: reduce={reduce!r} is not one of "
                                f"{', '.join(REDUCTIONS[1:])}")
        axis = shapes.axis(dim, self.ndim, "index_reduce")
        given, at = self._tensor(source, "index_reduce"), self._tensor(index, "index_reduce")
        if not self.ndim:
            line = given if given.ndim else given.reshape(1)
            own: Any = self.reshape(1)
            found: Tensor = own.index_reduce(
                0, at, line, reduce, include_self=include_self).reshape(())
            return found
        wanted = tuple(at.numel() if a == axis else n for a, n in enumerate(self.shape))
        if at.ndim > 1 or given.shape != wanted:
            raise ShapeError(f"index_reduce: the source has shape {given.shape}; for indices of "
                             f"shape {at.shape} on axis {axis} of {self.shape} it must be {wanted}")
        column = tuple(at.numel() if a == axis else 1 for a in range(self.ndim))
        wide = at._given(ew.broadcast_to(reshape(at.node, column), given.shape))
        return self.scatter_reduce(axis, wide, given, reduce, include_self)

    index_reduce_ = in_place(index_reduce)

    def put(self, index: Tensor, source: Tensor, accumulate: bool = False) -> Tensor:
        """These elements, with those at positions in row-major order set to, or increased by, what
        `source` has in order."""
        chosen, given = self._tensor(index, "put"), self._tensor(source, "put")
        if chosen.numel() != given.numel() or given.dtype is not self.dtype:
            raise ShapeError(f"put of {given.numel()} elements of {given.dtype.name} at "
                             f"{chosen.numel()} positions of {self.dtype.name}: give one of this "
                             f"type for each")
        combiner = adder(self.dtype) if accumulate else None

        def placed(x: Node, at: Node, values: Node) -> Node:
            line, count = reshape(x, (x.numel,)), values.numel
            return reshape(index_arrays.added_lines(line, 0, reshape(at, (count,)), reshape(
                values, (count,)), combiner, "put"), x.shape)
        return combined(self, "put", placed, chosen, given)

    put_ = in_place(put)


def _scattered(x: TensorCore[Tensor], operation: str, dim: int, index: Tensor, src: Any,
               reduce: str | None) -> Tensor:
    """x combined with `src`, or with None overwritten by it, at positions `index` of an axis."""
    axis = shapes.axis(dim, x.ndim, operation)
    chosen, given = x._tensor(index, operation), x._operand(src, operation)
    if isinstance(given, bool | int | float):
        number = shapes.as_element(given, x.dtype, operation)
        source = ew.as_node(number, x.dtype, chosen.shape)
        tensors = [chosen]
    else:
        source, tensors = _own_type(x, given, operation), [chosen, given]
    least = reduce == "amin" or reduce == "prod" and x.dtype is dt.bool_
    if least:
        node = index_arrays.lowest(x.node, axis, chosen.node, source, operation)
    else:
        combiner = None if reduce is None else {
            "sum": adder(x.dtype), "prod": Op.MUL, "amax": Op.MAX}[reduce]
        node = index_arrays.scattered(x.node, axis, chosen.node, source, combiner, operation)
    return x._given(node, *tensors)


def _lines(x: TensorCore[Tensor], operation: str, dim: int, index: Tensor, source: Tensor,
           combiner: Op | None, factor: Scalar = 1) -> Tensor:
    axis = shapes.axis(dim, x.ndim, operation)
    chosen, given = x._tensor(index, operation), x._tensor(source, operation)
    node = _own_type(x, given, operation)
    node = node if factor == 1 else cast(ew.mul(node, factor), x.dtype)
    node = index_arrays.added_lines(x.node, axis, chosen.node, node, combiner, operation)
    return x._given(node, chosen, given)


def _own_type(x: TensorCore[Tensor], given: Tensor, operation: str) -> Node:
    if given.dtype is not x.dtype:
        raise DTypeError(f"{operation} of {given.dtype.name} into {x.dtype.name}: both must have "
                         f"one dtype; convert one")
    return given.node


def _quotient(x: Node, counts: Node) -> Node:
    """Over the counts; of integers rounded down."""
    if x.dtype.is_float:
        return cast(ew.true_divide(ew.wide(x), cast(counts, ew.wide(x).dtype)), x.dtype)
    return ew.floor_divide(x, cast(counts, x.dtype))


def adder(dtype: DType) -> Op:
    """What += does to elements: of bools it is `or`."""
    return Op.MAX if dtype is dt.bool_ else Op.ADD
