"""`DataLoader`: batches of a data set's examples, made here or by worker processes."""
from __future__ import annotations

import itertools
import warnings
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Generic, TypeVar

from lazyten.pytorch.modules import later as _later
from lazyten.pytorch.refusals import class_of_nothing
from lazyten.random import Generator
from lazyten.support.errors import ArgumentError, DTypeError
from lazyten.utils.data.collate import default_collate, default_convert
from lazyten.utils.data.dataset import IterableDataset
from lazyten.utils.data.fetching import Collate, Source
from lazyten.utils.data.pool import Pool, context_of
from lazyten.utils.data.sampler import (
    BatchSampler,
    RandomSampler,
    SequentialSampler,
    check_count,
    host_seed,
)
from lazyten.utils.data.worker import Order

__getattr__ = _later("lazyten.utils.data.dataloader")

T_co = TypeVar("T_co", covariant=True)
_FIXED = ("batch_size", "batch_sampler", "sampler", "drop_last", "dataset", "persistent_workers")


class DataLoader(Generic[T_co]):
    """Iterates over batches of a data set.

    batch_size, drop_last: how many examples a batch has, and whether a shorter last one is left
    out; None gives the examples themselves. shuffle: in a random order, each time another. sampler:
    gives the indices, batch_sampler lists of them. collate_fn: makes a batch of a list of examples
    (default_collate), or, without batches, of an example (default_convert).

    num_workers: processes that make batches, 0 for none. Each makes prefetch_factor batches ahead.
    worker_init_fn: called in each with its number, after it was seeded with a number of `generator`
    plus its own. timeout: seconds to wait for a batch, 0 for any time. persistent_workers: keep the
    processes for the next iteration. multiprocessing_context: how processes are started, 'fork',
    'spawn' or a context. in_order: False gives batches as they are ready. pin_memory is taken, and
    makes no difference.
    """

    __initialized = False

    def __init__(self, dataset: Any, batch_size: int | None = 1, shuffle: bool | None = None,
                 sampler: Iterable[Any] | None = None,
                 batch_sampler: Iterable[list[Any]] | None = None, num_workers: int = 0,
                 collate_fn: Collate | None = None, pin_memory: bool = False,
                 drop_last: bool = False, timeout: float = 0,
                 worker_init_fn: Callable[[int], Any] | None = None,
                 multiprocessing_context: Any = None, generator: Generator | None = None, *,
                 prefetch_factor: int | None = None, persistent_workers: bool = False,
                 pin_memory_device: str = "", in_order: bool = True) -> None:
        for name, function in (("collate_fn", collate_fn), ("worker_init_fn", worker_init_fn)):
            if function is not None and not callable(function):
                raise DTypeError(f"DataLoader: {name}={function!r:.60} cannot be called; give a "
                                 f"function")
        self.dataset, self.generator = dataset, generator
        self.pin_memory, self.pin_memory_device = pin_memory, pin_memory_device
        self.num_workers, self.timeout, self.in_order = num_workers, timeout, in_order
        self.worker_init_fn, self.persistent_workers = worker_init_fn, persistent_workers
        _check_workers(num_workers, timeout, prefetch_factor, persistent_workers,
                       multiprocessing_context)
        self.prefetch_factor = 2 if num_workers and prefetch_factor is None else prefetch_factor
        self.multiprocessing_context = multiprocessing_context
        self._iterable = isinstance(dataset, IterableDataset)
        if self._iterable:
            _check_iterable(shuffle, sampler, batch_sampler)
        _check_batches(batch_size, shuffle, sampler, batch_sampler, drop_last)
        if batch_sampler is not None:
            batch_size, drop_last = None, False
        self.sampler: Any = sampler if sampler is not None else self._own_sampler(bool(shuffle))
        if batch_size is not None and batch_sampler is None:
            batch_sampler = BatchSampler(self.sampler, batch_size, drop_last)
        self.batch_size, self.drop_last, self.batch_sampler = batch_size, drop_last, batch_sampler
        self.collate_fn: Collate = collate_fn if collate_fn is not None else (
            default_collate if self._auto_collation else default_convert)
        self._iterator: _Iterator | None = None
        self._said: int | None = None  # what len() gave for an IterableDataset
        self.__initialized = True

    def _own_sampler(self, shuffle: bool) -> Any:
        if self._iterable:
            return _Endless()
        if not shuffle:
            return SequentialSampler(self.dataset)
        return RandomSampler(self.dataset, generator=self.generator)

    def __setattr__(self, name: str, value: Any) -> None:
        if self.__initialized and name in _FIXED:
            raise ArgumentError(f"DataLoader: {name} is set once for all, as samplers depend on "
                                f"it; make another DataLoader")
        super().__setattr__(name, value)

    @property
    def multiprocessing_context(self) -> Any:
        """How workers are started; None for Python's own way."""
        return self.__context

    @multiprocessing_context.setter
    def multiprocessing_context(self, given: Any) -> None:
        if given is not None and not self.num_workers:
            raise ArgumentError("DataLoader: multiprocessing_context without workers; give "
                                "num_workers")
        try:
            self.__context = None if given is None else context_of(given)
        except ValueError as error:
            raise ArgumentError(f"DataLoader: multiprocessing_context={given!r}: {error}") from None

    @property
    def _auto_collation(self) -> bool:
        return self.batch_sampler is not None

    @property
    def _index_sampler(self) -> Any:
        return self.sampler if self.batch_sampler is None else self.batch_sampler

    def __iter__(self) -> Iterator[Any]:
        if not (self.persistent_workers and self.num_workers):
            return _Iterator(self)
        if self._iterator is None:
            self._iterator = _Iterator(self)
        else:
            self._iterator._begin(self)
        return self._iterator

    def __len__(self) -> int:
        """How many batches there are; of an IterableDataset as many as its own len() says."""
        if not self._iterable:
            return len(self._index_sampler)
        count, size = len(self.dataset), self.batch_size or 1
        self._said = count // size if self.drop_last else -(-count // size)
        return self._said


class _Endless:
    """The indices of what has none."""

    def __iter__(self) -> Iterator[None]:
        return itertools.repeat(None)


class _Iterator:
    """One iteration of a loader, or, with workers that persist, one after the other. (It does not
    hold the loader, which may hold it: workers end as soon as nobody wants them.)"""

    def __init__(self, loader: DataLoader[Any]) -> None:
        self.source = Source(loader.dataset, loader._iterable, loader._auto_collation,
                             loader.collate_fn, loader.drop_last)
        self.pool: Pool | None = None
        self._begin(loader)

    def _begin(self, loader: DataLoader[Any]) -> None:
        seed = host_seed(loader.generator)  # with and without workers
        tasks = iter(loader._index_sampler)
        self.given, self.expected = 0, loader._said
        self.persists = loader.persistent_workers
        if not loader.num_workers:
            self.rest = map(self.source.fetcher(), tasks)
            return
        if self.pool is None or not self.pool.is_open:
            order = Order(self.source, 0, loader.num_workers, seed, loader.worker_init_fn)
            self.pool = Pool(order, loader.prefetch_factor or 2, loader.timeout,
                             context_of(loader.multiprocessing_context), loader.in_order)
        self.pool.begin(tasks)

    def __iter__(self) -> _Iterator:
        return self

    def __next__(self) -> Any:
        if self.pool is None:
            made = next(self.rest)
        else:
            try:
                made = self.pool.next_batch()
            except StopIteration:
                if not self.persists:
                    self.pool.close()
                raise
        self.given += 1
        if self.expected is not None and self.given == self.expected + 1:
            warnings.warn(f"len() of this DataLoader was {self.expected}, by that of its "
                          f"IterableDataset, and there are more batches; with workers each must "
                          f"give its own part (get_worker_info)", UserWarning, stacklevel=2)
        return made


class _DatasetKind:
    """What PyTorch's loaders call the two kinds of data sets."""

    Map, Iterable = 0, 1


_collate_fn_t = Callable[[list[Any]], Any]
_BaseDataLoaderIter = _Iterator
_SingleProcessDataLoaderIter = _MultiProcessingDataLoaderIter = class_of_nothing(
    "_MultiProcessingDataLoaderIter", "one class iterates, with workers and without")


def _check_workers(workers: Any, timeout: Any, prefetch: Any, persistent: bool,
                   context: Any) -> None:
    if not isinstance(workers, int) or isinstance(workers, bool) or workers < 0:
        raise ArgumentError(f"DataLoader: num_workers={workers!r} must be a whole number, 0 or "
                            f"more")
    if timeout < 0:
        raise ArgumentError(f"DataLoader: timeout={timeout!r} must be seconds, 0 or more")
    if prefetch is not None:
        check_count("DataLoader", "prefetch_factor", prefetch)
        if not workers:
            raise ArgumentError("DataLoader: prefetch_factor without workers; give num_workers")
    if persistent and not workers:
        raise ArgumentError("DataLoader: persistent_workers without workers; give num_workers")


def _check_iterable(shuffle: Any, sampler: Any, batch_sampler: Any) -> None:
    for name, value in (("shuffle", shuffle or None), ("sampler", sampler),
                        ("batch_sampler", batch_sampler)):
        if value is not None:
            raise ArgumentError(f"DataLoader: {name} with an IterableDataset, which has no "
                                f"indices; it must come in the right order by itself")


def _check_batches(batch_size: int | None, shuffle: Any, sampler: Any, batch_sampler: Any,
                   drop_last: bool) -> None:
    if sampler is not None and shuffle:
        raise ArgumentError("DataLoader: sampler and shuffle; give one of them")
    for name, value in (("sampler", sampler), ("batch_sampler", batch_sampler)):
        if value is not None and not isinstance(value, Iterable):
            raise DTypeError(f"DataLoader: {name}={value!r:.60} gives no indices")
    if batch_sampler is not None:
        if batch_size != 1 or shuffle or sampler is not None or drop_last:
            raise ArgumentError("DataLoader: batch_sampler says which batches there are; leave out "
                                "batch_size, shuffle, sampler and drop_last")
    elif batch_size is None:
        if drop_last:
            raise ArgumentError("DataLoader: drop_last without batches (batch_size=None)")
    else:
        check_count("DataLoader", "batch_size", batch_size)


__all__ = ["DataLoader", "default_collate", "default_convert"]
