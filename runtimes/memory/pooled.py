"""A runtime whose memory comes from a pool."""
from __future__ import annotations

from typing import Generic, TypeVar

from lazyten.devices.executor import MemoryStats
from lazyten.runtimes.contract import Runtime
from lazyten.runtimes.memory.memory_pool import MemoryPool

H = TypeVar("H")


class PooledRuntime(Runtime, Generic[H]):
    """The methods about memory of a runtime that sets `pool`, whose addresses are its handles."""

    pool: MemoryPool[H]

    def alloc(self, nbytes: int) -> H:
        return self.pool.alloc(nbytes)

    def free(self, handle: H) -> None:
        self.pool.free(handle)

    def memory_stats(self) -> MemoryStats:
        return self.pool.stats()

    def reset_peak(self, at_least: int = 0) -> None:
        self.pool.reset_peak(at_least)

    def empty_cache(self) -> None:
        self.pool.release()
