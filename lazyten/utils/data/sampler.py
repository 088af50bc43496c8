"""Which examples come when: samplers give their indices, samplers of batches lists of them."""
from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence, Sized
from itertools import islice
from typing import Any, Generic, TypeVar

import numpy as np

from lazyten.frontend.tensor import Tensor
from lazyten.random import Generator, host_words
from lazyten.support.errors import ArgumentError, DTypeError, NotDefinedError, ShapeError

T_co = TypeVar("T_co", covariant=True)
Array = np.ndarray[Any, Any]


def host_keys(count: int, generator: Generator | None) -> Array:
    """Random numbers of 64 bits."""
    first, second = host_words(count, generator)
    return first.astype(np.uint64) << np.uint64(32) | second


def host_permutation(count: int, generator: Generator | None) -> list[int]:
    """0 to count - 1 in a random order."""
    order: list[int] = host_keys(count, generator).argsort(kind="stable").tolist()
    return order


def host_seed(generator: Generator | None) -> int:
    """A seed for something else: a random number of 63 bits."""
    return int(host_keys(1, generator)[0] >> np.uint64(1))


def _unit(count: int, generator: Generator | None) -> Array:
    """Numbers evenly spread over (0, 1)."""
    return ((host_keys(count, generator) >> np.uint64(11)) + 0.5) * 2.0**-53


def check_count(name: str, what: str, value: Any) -> int:
    """A whole number above 0. ArgumentError for anything else."""
    if not isinstance(value, int) or isinstance(value, bool) or value <= 0:
        raise ArgumentError(f"{name}: {what}={value!r} must be a whole number, 1 or more")
    return value


def size_of(name: str, data: Any) -> int:
    """How many examples a data set has. DTypeError for what has no length."""
    if not hasattr(data, "__len__"):
        raise DTypeError(f"{name}: {type(data).__name__} {data!r:.60} has no length; a data set "
                         f"has __len__() and __getitem__(), or is an IterableDataset")
    return len(data)


def check_flag(name: str, what: str, value: Any) -> bool:
    """True or False. ArgumentError for anything else."""
    if not isinstance(value, bool):
        raise ArgumentError(f"{name}: {what}={value!r} must be True or False")
    return value


class Sampler(Generic[T_co]):
    """Iterates over indices; a subclass defines __iter__, and __len__ if it can."""

    def __init__(self, data_source: Any = None) -> None:
        pass

    def __iter__(self) -> Iterator[T_co]:
        raise NotDefinedError(f"{type(self).__name__} does not define __iter__()")


class SequentialSampler(Sampler[int]):
    """All indices in order."""

    def __init__(self, data_source: Sized) -> None:
        self.data_source = data_source

    def __iter__(self) -> Iterator[int]:
        return iter(range(len(self)))

    def __len__(self) -> int:
        return size_of("SequentialSampler", self.data_source)


class RandomSampler(Sampler[int]):
    """All indices in a random order, each time another; or num_samples of them: again from the
    beginning once all have come, or, with replacement, each at any time."""

    def __init__(self, data_source: Sized, replacement: bool = False,
                 num_samples: int | None = None, generator: Generator | None = None) -> None:
        self.data_source, self.generator = data_source, generator
        self.replacement = check_flag("RandomSampler", "replacement", replacement)
        self._num_samples = num_samples
        check_count("RandomSampler", "num_samples", self.num_samples)

    @property
    def num_samples(self) -> int:
        """How many indices come: the size of the data now, if nothing else was said."""
        return size_of("RandomSampler", self.data_source) if self._num_samples is None \
            else self._num_samples

    def __iter__(self) -> Iterator[int]:
        count, left = size_of("RandomSampler", self.data_source), self.num_samples
        if left and not count:
            raise ArgumentError(f"RandomSampler: num_samples={left} of no examples; give a data "
                                f"set that has some")
        generator = self.generator or Generator(host_seed(None))
        if self.replacement:
            yield from (_unit(left, generator) * count).astype(np.int64).tolist()
            return
        while left > 0:
            yield from host_permutation(count, generator)[:left]
            left -= count

    def __len__(self) -> int:
        return self.num_samples


class SubsetRandomSampler(Sampler[int]):
    """Some indices in a random order."""

    def __init__(self, indices: Sequence[int], generator: Generator | None = None) -> None:
        self.indices, self.generator = indices, generator

    def __iter__(self) -> Iterator[int]:
        for place in host_permutation(len(self.indices), self.generator):
            yield self.indices[place]

    def __len__(self) -> int:
        return len(self.indices)


class WeightedRandomSampler(Sampler[int]):
    """num_samples random indices, each as likely as its weight says (of the sum of all); without
    replacement each comes once at most."""

    def __init__(self, weights: Any, num_samples: int, replacement: bool = True,
                 generator: Generator | None = None) -> None:
        self.num_samples = check_count("WeightedRandomSampler", "num_samples", num_samples)
        self.replacement = check_flag("WeightedRandomSampler", "replacement", replacement)
        given = weights.tolist() if isinstance(weights, Tensor) else weights
        values = np.asarray(given, np.float64)
        self.weights, self._values = Tensor._copy_of(values), values
        self.generator = generator
        if values.ndim != 1:
            raise ShapeError(f"WeightedRandomSampler: weights have shape {values.shape}; give one "
                             f"weight an example")
        if not (np.isfinite(values).all() and (values >= 0).all() and values.any()):
            raise ArgumentError("WeightedRandomSampler: weights must be finite, 0 or more, and not "
                                "all 0")
        likely = np.count_nonzero(values)
        if not replacement and num_samples > likely:
            raise ArgumentError(f"WeightedRandomSampler: num_samples={num_samples} without "
                                f"replacement, of {likely} examples with a weight above 0")

    def __iter__(self) -> Iterator[int]:
        if self.replacement:
            sums = self._values.cumsum()
            drawn = _unit(self.num_samples, self.generator) * sums[-1]
            found = np.minimum(sums.searchsorted(drawn, "right"), self._last)
        else:  # the first of waiting times that are as long as weights are small
            waits = -np.log(_unit(len(self._values), self.generator))
            with np.errstate(divide="ignore"):
                found = (waits / self._values).argsort(kind="stable")[:self.num_samples]
        yield from found.tolist()

    @property
    def _last(self) -> int:
        return int(np.flatnonzero(self._values)[-1])

    def __len__(self) -> int:
        return self.num_samples


class BatchSampler(Sampler[list[int]]):
    """Lists of batch_size indices of another sampler; the last is shorter, or dropped."""

    def __init__(self, sampler: Iterable[int], batch_size: int, drop_last: bool) -> None:
        if not isinstance(sampler, Iterable):
            raise DTypeError(f"BatchSampler: {type(sampler).__name__} {sampler!r:.60} gives no "
                             f"indices; give a sampler")
        self.sampler = sampler
        self.batch_size = check_count("BatchSampler", "batch_size", batch_size)
        self.drop_last = check_flag("BatchSampler", "drop_last", drop_last)

    def __iter__(self) -> Iterator[list[int]]:
        rest = iter(self.sampler)
        while batch := [*islice(rest, self.batch_size)]:
            if len(batch) < self.batch_size and self.drop_last:
                return
            yield batch

    def __len__(self) -> int:
        count = len(self.sampler)  # type: ignore[arg-type]  # has none: a TypeError
        return count // self.batch_size if self.drop_last else -(-count // self.batch_size)
