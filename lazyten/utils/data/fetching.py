"""What a loader's step gives: of a data set by index or by iteration, in batches or one by one."""
from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Any

from lazyten.utils.data.collate import default_collate
from lazyten.utils.data.dataset import collated, fetched

Collate = Callable[[Any], Any]


@dataclass(frozen=True, slots=True)
class Source:
    """What a loader fetches from. batched: a task is a list of indices, and not one."""

    dataset: Any
    iterable: bool
    batched: bool
    collate: Collate
    drop_last: bool

    def fetcher(self) -> Callable[[Any], Any]:
        """A function of a task that gives a batch; StopIteration at the end of an iteration."""
        return _Following(self) if self.iterable else self._at

    def _at(self, task: Any) -> Any:
        if not self.batched:
            return self.collate(self.dataset[task])
        if self.collate is default_collate:
            made = collated(self.dataset, task)
            if made is not None:
                return made
        return self.collate(fetched(self.dataset, task))


class _Following:
    """The next examples of a data set that is iterated over. Only the size of a task counts."""

    def __init__(self, source: Source) -> None:
        self.source = source
        self.rest: Iterator[Any] = iter(source.dataset)

    def __call__(self, task: Any) -> Any:
        source = self.source
        if not source.batched:
            return source.collate(next(self.rest))
        found = [*islice(self.rest, len(task))]
        if not found or source.drop_last and len(found) < len(task):
            raise StopIteration
        return source.collate(found)
