"""Memory that is reused: what the cpu runtime allocates from, and aligned host memory.

A training step allocates the same sizes again and again, and memory fresh from the system costs a
page fault every 4 KiB. Freed blocks are therefore kept, sorted by size, up to a limit.
"""
from __future__ import annotations

import ctypes
import mmap
import os
from collections import OrderedDict, deque
from collections.abc import Callable, Hashable
from contextlib import suppress
from dataclasses import dataclass
from typing import Generic, TypeVar

from lazyten.devices.executor import MemoryStats
from lazyten.runtimes.host.host import total_memory, usable_memory
from lazyten.support import forking
from lazyten.support.errors import ArgumentError, OutOfMemoryError

ALIGNMENT = 64
"""Every block starts at a multiple of this: a cache line, and the widest vector register."""
HUGE = 2 << 20
"""Blocks of this size or more are mapped on their own, aligned to huge pages."""
LARGE, IDLE_BYTES, IDLE_SHARE = 256 << 10, 16 << 20, 16
"""When a block of LARGE bytes or more is new, so much may be kept for reuse beside it: IDLE_BYTES,
or such a part of what was in use at most."""
CLOSE = 4
"""It is looked at how much memory others have once this part of it is to be in use."""
STEPS = 8
"""Sizes between a power of two and the next: a block is at most 1/8 larger than asked."""


H = TypeVar("H", bound=Hashable)
"""What a runtime knows memory by: an address, or a buffer object."""


@dataclass(frozen=True, slots=True)
class Block(Generic[H]):
    """`size` bytes at `address`; the memory is given back to the system with `memory`."""

    address: H
    size: int
    memory: object


@dataclass(frozen=True, slots=True)
class Source(Generic[H]):
    """Where a pool's memory comes from.

    device, machine: as messages name them. total: bytes there are, where it is given how many are
    to be in use; None if unknown. reserve: a block of new memory; it may raise MemoryError,
    OSError, OverflowError or ValueError.
    """

    device: str
    machine: str
    total: Callable[[int], int | None]
    reserve: Callable[[int], Block[H]]


def block_size(nbytes: int) -> int:
    """The size of the block that serves `nbytes`: never 0, so even no element has an address."""
    if nbytes <= ALIGNMENT * STEPS:
        return max(-(-nbytes // ALIGNMENT), 1) * ALIGNMENT
    step = (1 << (nbytes - 1).bit_length() - 1) // STEPS
    return -(-nbytes // step) * step


def default_limit(otherwise: int | None = None) -> int:
    """Bytes to keep: LAZYTEN_POOL_BYTES, or else what is given, or else an eighth of the machine's
    memory."""
    text = os.environ.get("LAZYTEN_POOL_BYTES")
    if text is None:
        return (total_memory() or 16 << 30) // 8 if otherwise is None else otherwise
    if not text.isdigit():
        raise ArgumentError(f"LAZYTEN_POOL_BYTES={text!r}: give a number of bytes, or 0 to keep "
                            "no freed memory")
    return int(text)


class MemoryPool(Generic[H]):
    """Blocks of a source's memory by address. All methods may be called from several threads.

    `free` is also called by finalizers, so at any point of a garbage collection, in a thread that
    may hold any lock: it must not wait. It notes the address, and who holds the lock next sorts it
    in. The lock is reentrant because a finalizer may also allocate, inside another allocation; that
    is harmless as each step below leaves the tables whole.
    """

    def __init__(self, source: Source[H], limit: int | None = None) -> None:
        self.source = source
        self.limit = default_limit() if limit is None else limit
        self._lock = forking.lock()
        self._freed: deque[H] = deque()
        self._used: dict[H, Block[H]] = {}
        self._spare: dict[int, dict[H, Block[H]]] = {}
        self._oldest: OrderedDict[H, Block[H]] = OrderedDict()  # all that is spare, by age
        self._in_use = self._pooled = self._peak = 0

    def alloc(self, nbytes: int) -> H:
        """The address of at least `nbytes` bytes, uninitialized.

        Raises OutOfMemoryError, with the numbers, if there is no such memory.
        """
        size = self._rounded(nbytes)
        with self._lock:
            self._sort_freed()
            block = self._take(size) or self._reserve(size, nbytes)
            self._used[block.address] = block
            self._in_use += block.size
            self._peak = max(self._peak, self._in_use)
        return block.address

    def free(self, address: H) -> None:
        """Take a block back; never waits."""
        self._freed.append(address)
        if self._lock.acquire(blocking=False):
            try:
                self._sort_freed()
            finally:
                self._lock.release()

    def stats(self) -> MemoryStats:
        """How much memory is handed out and kept, in whole blocks."""
        with self._lock:
            self._sort_freed()
            return MemoryStats(self._in_use, self._pooled, self._peak)

    def reset_peak(self, at_least: int = 0) -> None:
        """Let the peak be what is in use now, or `at_least` if that is more."""
        with self._lock:
            self._sort_freed()
            self._peak = max(self._in_use, at_least)

    def release(self) -> None:
        """Give all memory that is kept for reuse back to the system."""
        with self._lock:
            self._sort_freed()
            self._evict(0)

    def _rounded(self, nbytes: int) -> int:
        return block_size(nbytes)

    def _take(self, size: int) -> Block[H] | None:
        """The spare block of this size that was freed last, as it may still be in cache."""
        try:
            address, block = self._spare[size].popitem()
        except KeyError:
            return None
        del self._oldest[address]
        self._pooled -= size
        return block

    def _sort_freed(self) -> None:
        """Keep what `free` noted; beyond the limit the blocks that lay idle longest go."""
        while self._freed:
            block = self._used.pop(self._freed.popleft())
            self._in_use -= block.size
            self._keep(block)
        self._evict(self.limit)

    def _keep(self, block: Block[H]) -> None:
        """Let a block that is free serve again."""
        self._spare.setdefault(block.size, {})[block.address] = block
        self._oldest[block.address] = block
        self._pooled += block.size

    def _evict(self, limit: int) -> None:
        while self._pooled > limit:
            address, block = self._oldest.popitem(last=False)
            del self._spare[block.size][address]
            self._pooled -= block.size

    def _reserve(self, size: int, nbytes: int) -> Block[H]:
        """New memory from the system. What is kept for reuse, and was not of the size that is asked
        for, makes room: at need, and for large blocks if it is much."""
        if size >= LARGE:
            self._evict(max(IDLE_BYTES, self._peak // IDLE_SHARE))
        total = self.source.total(self._in_use + size)
        if total is not None:
            self._evict(max(total - self._in_use - size, 0))
        if total is None or self._in_use + size <= total:
            for _ in range(2):
                try:
                    return self.source.reserve(size)
                except (MemoryError, OSError, OverflowError, ValueError):
                    self._evict(0)
        there = "an unknown amount of memory" if total is None else f"{total:,} bytes of memory"
        source = self.source
        raise OutOfMemoryError(
            f"{source.device}: cannot allocate {nbytes:,} bytes: {source.machine} has {there}, and "
            f"tensors hold {self._in_use:,} bytes of it; free some tensors, or work on smaller "
            f"pieces")


def reserve(size: int) -> Block[int]:
    """A block of new host memory at a multiple of ALIGNMENT: large ones mapped on their own, in
    huge pages, but for an end that would not fill one."""
    alignment = ALIGNMENT if size < HUGE else HUGE
    memory = bytearray(size + alignment) if size < HUGE else _map(size + alignment)
    base = ctypes.addressof(ctypes.c_char.from_buffer(memory))
    start = -base % alignment
    if isinstance(memory, mmap.mmap) and hasattr(mmap, "MADV_HUGEPAGE"):
        whole = size // HUGE * HUGE
        with suppress(OSError):  # a kernel built without huge pages
            memory.madvise(mmap.MADV_HUGEPAGE, start, whole)
            memory.madvise(mmap.MADV_NOHUGEPAGE, start + whole)
    return Block(base + start, size, memory)


def _map(size: int) -> mmap.mmap:
    if not hasattr(mmap, "MAP_PRIVATE"):  # Windows
        return mmap.mmap(-1, size)
    return mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)


def _total(wanted: int) -> int | None:
    """Bytes that this process can have. (To look at what others leave takes time.)"""
    total = total_memory()
    return total if total is None or wanted < total // CLOSE else usable_memory()


HOST = Source("cpu", "this process", _total, reserve)
