"""The allocator of devices: blocks that are split and merged, in segments."""
from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from types import FrameType
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lazyten.devices.executor import MemoryStats
from lazyten.runtimes.memory.allocator import GRAIN, SEGMENT, SMALL, CachingAllocator
from lazyten.runtimes.memory.memory_pool import Block, Source
from lazyten.support.errors import DeviceError

MIB = 1 << 20


class Memory:
    """A machine's memory as numbers; `segments` are start and size of what is taken from it."""

    def __init__(self, total: int = 1 << 40) -> None:
        self.total, self.starts = total, count(1 << 30, 1 << 41)
        self.segments: dict[int, int] = {}
        self.hook = lambda: None

    def reserve(self, size: int) -> Block[int]:
        self.hook()
        if sum(self.segments.values()) + size > self.total:
            raise MemoryError
        start = next(self.starts)
        self.segments[start] = size
        return Block(start, size, Segment(self, start))


class Segment:
    """Gives a segment back when it is dropped."""

    def __init__(self, memory: Memory, start: int) -> None:
        self.memory, self.start = memory, start

    def __del__(self) -> None:
        del self.memory.segments[self.start]


def allocator(memory: Memory, limit: int = 1 << 50) -> CachingAllocator[int]:
    source = Source("toy", "this toy", lambda _: memory.total, memory.reserve)
    return CachingAllocator(source, lambda segment, offset, size: segment.address + offset, limit)


SIZES = st.one_of(st.integers(0, 5000), st.integers(0, 3 * MIB),
                  st.sampled_from([GRAIN, SMALL, SMALL + 1, SEGMENT, SEGMENT - 1, 30 * MIB]))
ACTIONS = st.lists(st.tuples(st.sampled_from(["alloc", "alloc", "free", "release"]), SIZES,
                             st.integers(0, 1000)), max_size=60)


@given(actions=ACTIONS, limit=st.sampled_from([0, MIB, 5 * MIB, 1 << 50]))
@settings(max_examples=60)
def test_blocks_lie_apart_in_segments_and_every_byte_is_counted(
        actions: list[tuple[str, int, int]], limit: int) -> None:
    memory = Memory()
    pool = allocator(memory, limit)
    blocks: dict[int, int] = {}
    for action, nbytes, number in actions:
        if action == "alloc":
            address = pool.alloc(nbytes)
            assert address % GRAIN == 0
            assert address not in blocks
            blocks[address] = pool._used[address].size
            assert blocks[address] >= max(nbytes, 1)
        elif action == "free" and blocks:
            address = sorted(blocks)[number % len(blocks)]
            pool.free(address)
            del blocks[address]
        elif action == "release":
            pool.release()
        check(memory, pool, blocks)
    for address in list(blocks):
        pool.free(address)
    stats = pool.stats()
    assert stats.in_use == 0
    assert stats.pooled == sum(memory.segments.values()) <= limit
    assert len(pool._whole) == len(memory.segments)  # all that is free has merged
    pool.release()
    assert (pool.stats().pooled, memory.segments) == (0, {})


def check(memory: Memory, pool: CachingAllocator[int], blocks: dict[int, int]) -> None:
    """Blocks lie inside segments and apart, and the counts are those of what is there."""
    end = 0
    for address, size in sorted(blocks.items()):
        assert address >= end
        end = address + size
        assert any(s <= address and end <= s + n for s, n in memory.segments.items())
    stats = pool.stats()
    assert stats.in_use == sum(blocks.values())
    assert stats.in_use + stats.pooled == sum(memory.segments.values())
    assert stats.peak >= stats.in_use


def test_a_free_block_serves_smaller_ones_and_merges_again() -> None:
    memory = Memory()
    pool = allocator(memory)
    whole = pool.alloc(12 * MIB)
    pool.free(whole)
    parts = [pool.alloc(3 * MIB) for _ in range(4)]
    assert parts == [whole + i * 3 * MIB for i in range(4)]
    for part in (parts[1], parts[3], parts[0], parts[2]):
        pool.free(part)
    assert pool.alloc(12 * MIB) == whole
    assert list(memory.segments.values()) == [12 * MIB]


def test_the_block_that_fits_best_is_taken() -> None:
    pool = allocator(Memory())
    large, small = pool.alloc(10 * MIB), pool.alloc(4 * MIB)
    pool.free(large)
    pool.free(small)
    assert pool.alloc(4 * MIB) == small


def test_small_blocks_do_not_break_up_large_segments() -> None:
    pool = allocator(Memory())
    large = pool.alloc(10 * MIB)
    pool.free(large)
    pool.alloc(100)
    assert pool.alloc(10 * MIB) == large


def test_a_block_may_keep_what_would_be_too_little_for_another() -> None:
    pool = allocator(Memory())
    first = pool.alloc(4 * MIB)
    pool.free(first)
    assert pool.alloc(3 * MIB + 4096) == first
    assert pool.stats() == MemoryStats(4 * MIB, 0, 4 * MIB)


def test_beyond_the_limit_what_was_whole_for_longest_goes_first() -> None:
    memory = Memory()
    pool = allocator(memory, 6 * MIB)
    old, new = pool.alloc(4 * MIB), pool.alloc(6 * MIB)
    pool.free(old)
    pool.free(new)
    pool.stats()
    assert list(memory.segments) == [new]


def test_when_memory_is_out_what_is_kept_is_given_back_first() -> None:
    memory = Memory(10 * MIB)
    pool = allocator(memory)
    pool.free(pool.alloc(6 * MIB))
    pool.alloc(8 * MIB)
    assert pool.stats() == MemoryStats(8 * MIB, 0, 8 * MIB)


def test_an_absurd_size_says_what_was_asked_and_what_is_there() -> None:
    pool = allocator(Memory(8 * MIB))
    pool.alloc(3 * MIB)
    with pytest.raises(DeviceError, match=r"toy: cannot allocate 1,152,921,504,606,846,976 bytes: "
                                          r"this toy has 8,388,608 bytes of memory, and tensors "
                                          r"hold 4,194,304 bytes"):
        pool.alloc(1 << 60)


def test_a_finalizer_inside_an_allocation_may_free_and_allocate() -> None:
    memory = Memory()
    pool = allocator(memory)
    garbage = [pool.alloc(3 * MIB), pool.alloc(100)]

    def collecting() -> None:
        while garbage:
            pool.free(garbage.pop())
            garbage_made.append(pool.alloc(700))
    garbage_made: list[int] = []
    memory.hook = collecting
    blocks = [pool.alloc(5 * MIB), *garbage_made]
    check(memory, pool, {address: pool._used[address].size for address in blocks})
    assert len(set(blocks)) == 3


@pytest.mark.parametrize("action", ["alloc", "free", "release"])
def test_a_finalizer_may_free_and_allocate_at_any_line_of_a_call(action: str) -> None:
    for number in count(1):
        memory = Memory()
        pool = allocator(memory, 5 * MIB)
        blocks = [pool.alloc(n) for n in (700, 800, 3 * MIB, 100, 900, 2 * MIB)]
        for freed in (blocks.pop(1), blocks.pop(1)):
            pool.free(freed)

        def finalize(pool: CachingAllocator[int] = pool, blocks: list[int] = blocks) -> None:
            pool.free(blocks.pop(0))
            blocks.append(pool.alloc(800))
            blocks.append(pool.alloc(3 * MIB))
        last = blocks.pop() if action == "free" else 0
        with interrupted(number, finalize) as reached:
            if action == "alloc":
                blocks.append(pool.alloc(750))
            elif action == "free":
                pool.free(last)
            else:
                pool.release()
        check(memory, pool, {address: pool._used[address].size for address in blocks})
        assert len(set(blocks)) == len(blocks)
        for address in blocks:
            pool.free(address)
        assert pool.stats().pooled == sum(memory.segments.values())
        assert len(pool._whole) == len(memory.segments)
        if not reached:
            break
    assert number > 10


@contextmanager
def interrupted(number: int, act: Callable[[], None]) -> Iterator[list[int]]:
    """Call `act` before the line of the pool's code that comes as `number`th; gives whether one
    did."""
    reached: list[int] = []
    lines = count(1)

    def trace(frame: FrameType, event: str, argument: object) -> Any:
        ours = Path(frame.f_code.co_filename).name in ("allocator.py", "memory_pool.py")
        if ours and event == "line":
            line = next(lines)
            if line == number:
                reached.append(line)
                sys.settrace(None)
                act()
                sys.settrace(trace)
        return trace
    before = sys.gettrace()
    sys.settrace(trace)
    try:
        yield reached
    finally:
        sys.settrace(before)


def test_freeing_never_waits_for_an_allocation() -> None:
    memory = Memory()
    pool = allocator(memory)
    address = pool.alloc(100)
    inside, go_on = threading.Event(), threading.Event()

    def slow() -> None:
        inside.set()
        assert go_on.wait(10)
    memory.hook = slow
    allocating = threading.Thread(target=pool.alloc, args=(5 * MIB,))
    freeing = threading.Thread(target=pool.free, args=(address,))
    allocating.start()
    assert inside.wait(10)
    freeing.start()
    freeing.join(5)
    assert not freeing.is_alive()
    go_on.set()
    allocating.join()
    assert pool.stats().in_use == pool._rounded(5 * MIB) + MIB  # what is left of 6 is too little


def test_threads_never_share_a_block() -> None:
    pool = allocator(Memory())
    held: set[int] = set()
    wrong: list[int] = []

    def work(mark: int) -> None:
        for number in range(300):
            address = pool.alloc(number * mark * 37 % 9000)
            if address in held:
                wrong.append(address)
            held.add(address)
            held.discard(address)
            pool.free(address)
    threads = [threading.Thread(target=work, args=(i,)) for i in range(1, 9)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []
    assert pool.stats().in_use == 0
