"""Tensors in coordinates: indices (sparse axes, nnz), and values (nnz, dense axes..)."""
from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any

import numpy as np

from lazyten.frontend import functions
from lazyten.frontend.core.keywords import Layout, sparse_coo
from lazyten.frontend.tensor import Tensor
from lazyten.ir import dtype as dt
from lazyten.operators.math import losses
from lazyten.sparse.tensors import Array, SparseTensor, is_traced, read, whole_numbers
from lazyten.support.errors import SparseLayoutError


class CooTensor(SparseTensor):
    """x[indices[0, k], .., indices[n, k]] += values[k], for each k. If it is coalesced, the indices
    are in order, and none comes twice."""

    __slots__ = ("_coalesced", "_places")
    is_sparse = True
    _places: Tensor
    _coalesced: bool

    def with_values(self, values: Tensor) -> CooTensor:
        """Other values at the same places, perhaps with other dense axes."""
        size = (*self._size[:self.sparse_dim()], *values.shape[1:])
        return coo(self._places, values, size, self._coalesced)

    @property
    def held_places(self) -> tuple[Tensor, ...]:
        """The indices."""
        return (self._places,)

    def _about(self) -> tuple[Hashable, ...]:
        return (self._coalesced,)

    @classmethod
    def put_together(cls, parts: Sequence[Any], rest: Any) -> Any:
        """The tensor with these indices and values."""
        return coo(*parts, *rest)

    def _take_places(self, value: Any) -> None:
        self._places, self._coalesced = value._places, value._coalesced

    @property
    def layout(self) -> Layout:
        """lazyten.sparse_coo."""
        return sparse_coo

    def sparse_dim(self) -> int:
        """The number of axes that indices are for."""
        return int(self._places.shape[0])

    def dense_dim(self) -> int:
        """The number of axes of a value."""
        return self._elements.ndim - 1

    def is_coalesced(self) -> bool:
        """Whether indices are in order, and none comes twice, as far as anybody has looked."""
        return self._coalesced

    def _indices(self) -> Tensor:
        """The indices as they are held."""
        return self._places

    def indices(self) -> Tensor:
        """int64 (sparse axes, nnz): where the values are. Of a coalesced tensor only."""
        self._check_coalesced("indices")
        return self._places

    def values(self) -> Tensor:
        """(nnz, dense axes..): the values. Of a coalesced tensor only."""
        self._check_coalesced("values")
        return self._elements._moved()

    def _check_coalesced(self, what: str) -> None:
        if not self._coalesced:
            raise SparseLayoutError(f"{what}() of a tensor that is not coalesced: a place may have "
                                    f"several values; call coalesce() first, or _{what}() for "
                                    f"those that are held")

    def coalesce(self) -> CooTensor:
        """The same tensor with indices in order, none twice: values of one place are added up.
        Itself if it is coalesced."""
        if self._coalesced:
            return self
        where, numbers, _ = _sorted(read(self._places, "coalesce"), self._size)
        count = where.shape[1]
        if numbers is None:
            return coo(self._places, self._elements, self._size, True)
        places, device = whole_numbers(where, self.device), self.device
        groups = whole_numbers(numbers, device)
        return coo(places, added_up(self._elements, groups, count), self._size, True)

    def _coalesced_(self, is_coalesced: bool) -> CooTensor:
        """Say whether it is coalesced."""
        self._coalesced = is_coalesced
        return self

    def _gradient_of(self, values: Tensor) -> CooTensor:
        """The gradient, of each place once: values of one place have the same."""
        if self._coalesced:
            return self.with_values(values)
        where, numbers, first = _sorted(read(self._places, "grad"), self._size)
        if numbers is None:
            return coo(self._places, values, self._size, True)
        chosen = values.index_select(0, whole_numbers(first, self.device))
        return coo(whole_numbers(where, self.device), chosen, self._size, True)


def coo(places: Tensor, values: Tensor, size: Sequence[int], is_coalesced: bool) -> CooTensor:
    """The tensor with these parts, which fit each other."""
    result: CooTensor = object.__new__(CooTensor)
    result._begin(values, size)
    result._places, result._coalesced = places, is_coalesced or places.shape[1] < 2
    return result


def flat(places: Tensor, size: Sequence[int]) -> Tensor:
    """Indices (axes, nnz) as numbers in row-major order. While a function is recorded nobody has
    looked at them, so that what is outside is an error when they are computed."""
    total = functions.zeros(places.shape[1], dtype=dt.int64, device=places.device)
    for axis, n in enumerate(size[:places.shape[0]]):
        each = places[axis]
        if is_traced():
            each = checked(each, n)
        total = total * n + each
    return total


def checked(index: Tensor, n: int) -> Tensor:
    """Indices of an axis of n elements, which are checked when they are computed."""
    return index._unary(lambda x: losses.checked_labels(x, "sparse", 0, n))


def added_up(values: Tensor, groups: Tensor, count: int) -> Tensor:
    """(count, dense axes..): the sum of the values of each group; of bools, whether there is one.
    """
    if values.dtype is dt.bool_:
        return added_up(values.to(dtype=dt.uint8), groups, count) > 0
    start = functions.zeros(count, *values.shape[1:], dtype=values.dtype, device=values.device)
    return start.index_add(0, groups, values)


def _sorted(where: Array, size: Sequence[int]) -> tuple[Array, Array | None, Array]:
    """Indices in order, each once; the number among these of each that was given, None if they
    were so already; and for each the first that was given."""
    axes, count = where.shape
    if not axes:
        return where[:, :1], None if count == 1 else np.zeros(count, np.int64), np.arange(count)[:1]
    try:
        numbers = np.ravel_multi_index(tuple(where), tuple(size[:axes]))
    except ValueError:  # so large that they cannot be numbered
        _, numbers = np.unique(where, axis=1, return_inverse=True)
        numbers = numbers.reshape(-1)
    if bool((numbers[1:] > numbers[:-1]).all()):
        return where, None, np.arange(count)
    _, first, inverse = np.unique(numbers, return_index=True, return_inverse=True)
    return where[:, first], inverse.reshape(-1), first
