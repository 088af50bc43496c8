"""Data sets: examples by index or by iteration; and data sets of data sets."""
from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate
from typing import Any, Generic, TypeVar

import numpy as np

from lazyten.frontend.core.operands import tensors_given
from lazyten.frontend.tensor import Tensor
from lazyten.random import Generator
from lazyten.support.errors import (
    ArgumentError,
    DTypeError,
    IndexingError,
    NotDefinedError,
    ShapeError,
)
from lazyten.utils.data.sampler import host_permutation, size_of
from lazyten.utils.data.stored import Reader, tensor_of

T_co = TypeVar("T_co", covariant=True)
Array = np.ndarray[Any, Any]


class Dataset(Generic[T_co]):
    """Examples by index: a subclass defines __getitem__, and __len__ for most samplers. It may
    define __getitems__(indices), which gives a list of examples at once."""

    def __getitem__(self, index: Any) -> T_co:
        raise NotDefinedError(f"{type(self).__name__} does not define __getitem__()")

    def __add__(self, other: Dataset[Any]) -> Dataset[Any]:
        return ConcatDataset([self, other])


class IterableDataset(Dataset[T_co], Iterable[T_co]):
    """Examples by iteration: a subclass defines __iter__. Each worker has a copy and iterates by
    itself: get_worker_info() tells which part it shall give."""

    def __add__(self, other: Dataset[Any]) -> Dataset[Any]:
        return ChainDataset([self, other])


class TensorDataset(Dataset[tuple[Tensor, ...]]):
    """The rows of tensors: example i is a tuple of row i of each. ShapeError unless all have as
    many rows."""

    def __init__(self, *tensors: Tensor) -> None:
        tensors_given("TensorDataset", *tensors)
        if len({t.shape[:1] for t in tensors}) != 1 or not tensors[0].shape:
            raise ShapeError(f"TensorDataset of shapes {[tuple(t.shape) for t in tensors]}: all "
                             f"must have as many rows")
        self.tensors = tensors

    def __getitem__(self, index: Any) -> tuple[Tensor, ...]:
        return tuple([t[index] for t in self.tensors])

    def _collated(self, indices: Sequence[Any]) -> list[Tensor] | None:
        """What default_collate makes of these examples, all at once; None where it is to do it."""
        changed = type(self).__getitem__ is not TensorDataset.__getitem__
        if changed or any(t.requires_grad or t.dtype.is_complex for t in self.tensors):
            return None
        rows = np.asarray(indices)
        if rows.dtype.kind != "i" or rows.ndim != 1:
            return None
        self._check(rows)
        reader = Reader()
        return [tensor_of(reader.values(t).take(rows, 0), t.dtype, t.device) for t in self.tensors]

    def _check(self, rows: Array) -> None:
        """IndexingError if one is outside."""
        count = len(self)
        outside = rows[(rows < -count) | (rows >= count)]
        if outside.size:
            raise IndexingError(f"index {outside[0]} of a TensorDataset of {count} examples")

    def __len__(self) -> int:
        return self.tensors[0].shape[0]


class StackDataset(Dataset[Any]):
    """Examples of several data sets side by side: in a tuple, or, if they are given by name, in a
    dict."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        if bool(args) == bool(kwargs):
            raise ArgumentError("StackDataset: give data sets, either all by name or none")
        self.datasets: Any = args or kwargs
        sizes = [len(one) for one in (args or kwargs.values())]
        if len(set(sizes)) != 1:
            raise ShapeError(f"StackDataset of data sets of {sizes} examples: all must have as "
                             f"many")
        self._length = sizes[0]

    def __getitem__(self, index: Any) -> Any:
        if isinstance(self.datasets, dict):
            return {name: one[index] for name, one in self.datasets.items()}
        return tuple([one[index] for one in self.datasets])

    def __getitems__(self, indices: Sequence[Any]) -> list[Any]:
        """Several examples at once."""
        if isinstance(self.datasets, dict):
            columns = [items_of(one, indices) for one in self.datasets.values()]
            return [dict(zip(self.datasets, row, strict=True))
                    for row in zip(*columns, strict=True)]
        return list(zip(*[items_of(one, indices) for one in self.datasets], strict=True))

    def __len__(self) -> int:
        return self._length


def items_of(dataset: Any, indices: Sequence[Any]) -> list[Any]:
    """Several examples of a data set, all at once if it can. ShapeError if those are not as many.
    """
    found: list[Any] = fetched(dataset, indices)
    if len(found) != len(indices):
        raise ShapeError(f"{type(dataset).__name__}.__getitems__ gives {len(found)} examples for "
                         f"{len(indices)} indices")
    return found


def fetched(dataset: Any, indices: Sequence[Any]) -> Any:
    """What a loader collates: a list of examples, or whatever else a data set's `__getitems__`
    gives, such as a batch that is made already."""
    several = getattr(dataset, "__getitems__", None)
    return several(indices) if callable(several) else [dataset[i] for i in indices]


class ConcatDataset(Dataset[T_co]):
    """The examples of one data set after those of another."""

    def __init__(self, datasets: Iterable[Dataset[T_co]]) -> None:
        self.datasets = list(datasets)
        if not self.datasets:
            raise ArgumentError("ConcatDataset got no data sets; give one or more")
        for one in self.datasets:
            if isinstance(one, IterableDataset):
                raise DTypeError("ConcatDataset: an IterableDataset has no indices; use "
                                 "ChainDataset")
        self.cumulative_sizes = list(accumulate(size_of("ConcatDataset", x)
                                                for x in self.datasets))

    def __getitem__(self, index: Any) -> T_co:
        count = len(self)
        place = index + count if index < 0 else index
        if not 0 <= place < count:
            raise IndexingError(f"index {index} of a ConcatDataset of {count} examples")
        number = bisect_right(self.cumulative_sizes, place)
        return self.datasets[number][place - (self.cumulative_sizes[number - 1] if number else 0)]

    def __len__(self) -> int:
        return self.cumulative_sizes[-1]


class ChainDataset(IterableDataset[Any]):
    """One data set after the other, by iteration."""

    def __init__(self, datasets: Iterable[Dataset[Any]]) -> None:
        super().__init__()
        self.datasets = datasets

    def _checked(self) -> Iterator[IterableDataset[Any]]:
        for one in self.datasets:
            if not isinstance(one, IterableDataset):
                raise DTypeError(f"ChainDataset: {type(one).__name__} is not an IterableDataset; "
                                 f"use ConcatDataset")
            yield one

    def __iter__(self) -> Iterator[Any]:
        for one in self._checked():
            yield from one

    def __len__(self) -> int:
        return sum(size_of("ChainDataset", x) for x in self._checked())


class Subset(Dataset[T_co]):
    """The examples of a data set at these indices."""

    def __init__(self, dataset: Dataset[T_co], indices: Sequence[int]) -> None:
        self.dataset, self.indices = dataset, indices

    def __getitem__(self, index: Any) -> T_co:
        if isinstance(index, list):
            return self.dataset[[self.indices[i] for i in index]]
        return self.dataset[self.indices[index]]

    def __getitems__(self, indices: Sequence[Any]) -> list[T_co]:
        """Several examples at once."""
        return items_of(self.dataset, [self.indices[i] for i in indices])

    def _collated(self, indices: Sequence[Any]) -> Any:
        """See TensorDataset."""
        if type(self).__getitem__ is not Subset.__getitem__ \
                or type(self).__getitems__ is not Subset.__getitems__:
            return None
        return collated(self.dataset, [self.indices[i] for i in indices])

    def __len__(self) -> int:
        return len(self.indices)


def collated(dataset: Any, indices: Sequence[Any]) -> Any:
    """What default_collate makes of these examples, if the data set can make that at once."""
    return dataset._collated(indices) if isinstance(dataset, TensorDataset | Subset) else None


def random_split(dataset: Dataset[T_co], lengths: Sequence[int | float],
                 generator: Generator | None = None) -> list[Subset[T_co]]:
    """Subsets of these lengths, of all examples in a random order. Fractions that add up to 1 are
    of the data set's size, rounded down; what is left goes to the first ones, one each."""
    count = size_of("random_split", dataset)
    sizes = list(lengths)
    if math.isclose(sum(sizes), 1) and sum(sizes) <= 1:
        for fraction in sizes:
            if not 0 <= fraction <= 1:
                raise ArgumentError(f"random_split: lengths={sizes} must be between 0 and 1")
        sizes = [math.floor(count * fraction) for fraction in sizes]
        for i in range(count - int(sum(sizes))):
            sizes[i % len(sizes)] += 1
    if sum(sizes) != count:
        raise ArgumentError(f"random_split: lengths={sizes} add up to {sum(sizes)}, and there are "
                            f"{count} examples")
    order = host_permutation(count, generator)
    ends = accumulate(int(size) for size in sizes)
    return [Subset(dataset, order[end - int(size):end])
            for size, end in zip(sizes, ends, strict=True)]
