"""Data sets and functions for worker processes, which a spawned one must be able to import."""
from __future__ import annotations

import os
import time
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

import lazyten as lt
from lazyten.utils.data import Dataset, IterableDataset, get_worker_info


class Pair(NamedTuple):
    """An example with names."""

    x: Any
    y: Any


class Squares(Dataset[Any]):
    """Tensors that are computed where they are asked for."""

    def __init__(self, count: int) -> None:
        self.count, self.base = count, lt.arange(3.0)

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, i: int) -> Any:
        return {"x": self.base * i, "y": (i * i, np.float32(i) / 2), "name": str(i)}


class Who(Dataset[Any]):
    """Tells where each example is made."""

    def __init__(self, count: int = 8) -> None:
        self.count = count

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, i: int) -> Any:
        info = get_worker_info()
        assert info is not None and info.dataset is self
        return (i, os.getpid(), info.id, info.seed, lt.initial_seed(), lt.rand(2),
                float(np.random.rand()))


class Lingering:
    """Takes its time to be forgotten."""

    def __del__(self) -> None:
        time.sleep(0.1)


class Finalizing(Who):
    """Is nearly always within a finalizer."""

    def __getitem__(self, i: int) -> Any:
        Lingering()
        return super().__getitem__(i)


class Broken(Who):
    """Fails at one example, in a way."""

    def __init__(self, how: str) -> None:
        super().__init__()
        self.how = how

    def __getitem__(self, i: int) -> Any:
        if i == 5:
            if self.how == "key":
                raise KeyError("no such example")
            if self.how == "own":
                raise OwnError("a", "b")
            if self.how == "exit":
                os._exit(3)
            if self.how == "unpicklable":
                return lambda: None
            time.sleep(60)
        return i


class OwnError(Exception):
    """Cannot be made of one text."""

    def __init__(self, a: str, b: str) -> None:
        super().__init__(a + b)


class Parts(IterableDataset[int]):
    """0 to count - 1, each worker its part."""

    def __init__(self, count: int, shared: bool = True) -> None:
        self.count, self.shared = count, shared

    def __iter__(self) -> Iterator[int]:
        info = get_worker_info()
        if info is None or not self.shared:
            return iter(range(self.count))
        return iter(range(info.id, self.count, info.num_workers))

    def __len__(self) -> int:
        return self.count


def begin(number: int) -> None:
    """A worker_init_fn."""
    os.environ["WORKER"] = f"number {number}"


def begun(batch: Any) -> Any:
    """A collate_fn that tells what `begin` has left."""
    return batch, os.environ.get("WORKER")


def large(batch: Any) -> Any:
    """A collate_fn of what fills any pipe."""
    return lt.full((300_000,), float(batch[0]))
