"""Tensors in compressed rows or columns: matrices as (where rows begin, columns, values)."""
from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any

import numpy as np

from lazyten.frontend import functions
from lazyten.frontend.core.keywords import Layout, sparse_csc, sparse_csr
from lazyten.frontend.tensor import Tensor
from lazyten.sparse.coordinates import CooTensor, coo
from lazyten.sparse.tensors import SparseTensor, is_traced, read, whole_numbers
from lazyten.support.errors import SparseLayoutError

AXIS = {sparse_csr: 0, sparse_csc: 1}
"""The axis that is compressed."""


class CompressedTensor(SparseTensor):
    """Row i has values[starts[i]:starts[i + 1]] in the columns of the same range of others; by
    columns, columns and rows have changed places."""

    __slots__ = ("_kind", "_lines", "_others", "_starts")
    _starts: Tensor
    _others: Tensor
    _lines: Tensor | None
    _kind: Layout

    def with_values(self, values: Tensor) -> CompressedTensor:
        """Other values at the same places."""
        result = compressed(self._starts, self._others, values, self._size, self._kind)
        result._lines = self._lines
        return result

    @property
    def held_places(self) -> tuple[Tensor, ...]:
        """Where rows begin, and the columns."""
        return self._starts, self._others

    def _about(self) -> tuple[Hashable, ...]:
        return (self._kind,)

    @classmethod
    def put_together(cls, parts: Sequence[Any], rest: Any) -> Any:
        """The tensor with these parts."""
        return compressed(*parts, *rest)

    def _take_places(self, value: Any) -> None:
        self._starts, self._others = value._starts, value._others
        self._lines, self._kind = value._lines, value._kind

    @property
    def layout(self) -> Layout:
        """lazyten.sparse_csr or sparse_csc."""
        return self._kind

    @property
    def is_sparse_csr(self) -> bool:  # type: ignore[override]  # of other tensors it is fixed
        """Whether it is by rows."""
        return self._kind is sparse_csr

    @property
    def axis(self) -> int:
        """The axis that is compressed."""
        return AXIS[self._kind]

    def sparse_dim(self) -> int:
        """2: it is a matrix."""
        return 2

    def dense_dim(self) -> int:
        """The number of axes of a value."""
        return self._elements.ndim - 1

    def crow_indices(self) -> Tensor:
        """(rows + 1,): where the values of each row begin, and where the last end."""
        return self._part("crow_indices", self._starts, sparse_csr)

    def col_indices(self) -> Tensor:
        """(nnz,): the column of each value."""
        return self._part("col_indices", self._others, sparse_csr)

    def ccol_indices(self) -> Tensor:
        """(columns + 1,): where the values of each column begin, and where the last end."""
        return self._part("ccol_indices", self._starts, sparse_csc)

    def row_indices(self) -> Tensor:
        """(nnz,): the row of each value."""
        return self._part("row_indices", self._others, sparse_csc)

    def _part(self, name: str, what: Tensor, kind: Layout) -> Tensor:
        if self._kind is not kind:
            raise SparseLayoutError(f"{name}() of a tensor of layout {self._kind}: it is of those "
                                    f"of {kind}")
        return what

    def values(self) -> Tensor:
        """(nnz,): the values."""
        return self._elements._moved()

    def lines(self) -> Tensor:
        """(nnz,): the row of each value; by columns, its column."""
        if self._lines is None:
            if is_traced():
                places = functions.arange(self._nnz(), device=self.device)
                return functions.searchsorted(self._starts.long(), places, right=True) - 1
            counts = np.diff(read(self._starts, "rows"))
            self._lines = whole_numbers(np.repeat(np.arange(len(counts)), counts), self.device)
        return self._lines

    def in_coordinates(self) -> CooTensor:
        """The same with indices (2, nnz), in the same order."""
        both = [self.lines(), self._others.long()]
        places = functions.stack(both if self.axis == 0 else both[::-1])
        return coo(places, self._elements, self._size, False)


def compressed(starts: Tensor, others: Tensor, values: Tensor, size: Sequence[int],
               kind: Layout) -> CompressedTensor:
    """The matrix with these parts, which fit each other."""
    result: CompressedTensor = object.__new__(CompressedTensor)
    result._begin(values, size)
    result._starts, result._others, result._lines, result._kind = starts, others, None, kind
    return result


def compressing(x: CooTensor, kind: Layout) -> CompressedTensor:
    """A matrix in coordinates, by rows or by columns."""
    if x.sparse_dim() != 2:
        raise SparseLayoutError(f"to_{kind.name} of shape {tuple(x.shape)} with {x.sparse_dim()} "
                                f"sparse axes: it is for matrices")
    x = x.coalesce()
    where, axis = read(x._places, f"to_{kind.name}"), AXIS[kind]
    values, lines, others = x._elements, where[axis], where[1 - axis]
    if axis == 1:
        order = np.argsort(lines, kind="stable")
        values = values.index_select(0, whole_numbers(order, x.device))
        lines, others = lines[order], others[order]
    starts = np.concatenate([[0], np.cumsum(np.bincount(lines, minlength=x.shape[axis]))])
    result = compressed(whole_numbers(starts, x.device), whole_numbers(others, x.device), values,
                        x.shape, kind)
    result._lines = whole_numbers(lines, x.device)
    return result
