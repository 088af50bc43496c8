"""The cpu's memory: aligned blocks, reused up to a limit, safe to free from anywhere."""
from __future__ import annotations

import ctypes
import threading
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lazyten.devices.executor import MemoryStats
from lazyten.runtimes.memory.memory_pool import HOST, HUGE, Block, MemoryPool, block_size
from lazyten.support.errors import ArgumentError, DeviceError

MIB = 1 << 20


@given(st.integers(0, 1 << 44))
def test_a_block_is_large_enough_and_wastes_at_most_an_eighth(nbytes: int) -> None:
    size = block_size(nbytes)
    assert size >= max(nbytes, 1)
    assert size % 64 == 0
    assert size <= max(nbytes * 9 / 8, nbytes + 64)
    assert block_size(size) == size  # so a block serves again what it served before


@pytest.mark.parametrize("nbytes", [0, 1, 63, 64, 65, 5000, HUGE - 1, HUGE, 3 * MIB + 5])
def test_blocks_are_aligned_and_can_be_written_to_the_last_byte(nbytes: int) -> None:
    pool = MemoryPool(HOST, 0)
    addresses = [pool.alloc(nbytes) for _ in range(3)]
    for i, address in enumerate(addresses):
        assert address % 64 == 0
        ctypes.memset(address, i + 1, nbytes)
    contents = [ctypes.string_at(address, nbytes) for address in addresses]
    assert contents == [bytes([i + 1]) * nbytes for i in range(3)]


def test_blocks_of_no_bytes_have_addresses_of_their_own() -> None:
    pool = MemoryPool(HOST, 0)
    assert len({pool.alloc(0) for _ in range(5)}) == 5


def test_large_blocks_start_at_a_huge_page() -> None:
    assert MemoryPool(HOST, 0).alloc(HUGE) % HUGE == 0


@pytest.mark.parametrize("nbytes", [0, 1000, 4 * MIB])
def test_a_freed_block_is_handed_out_again_for_the_same_size(nbytes: int) -> None:
    pool = MemoryPool(HOST, 64 * MIB)
    first = pool.alloc(nbytes)
    pool.free(first)
    assert pool.alloc(nbytes) == first
    assert pool.alloc(nbytes) != first


def test_stats_count_bytes_in_use_and_pooled_and_the_peak() -> None:
    pool = MemoryPool(HOST, 10 * MIB)
    a, b = pool.alloc(MIB), pool.alloc(2 * MIB)
    assert pool.stats() == MemoryStats(3 * MIB, 0, 3 * MIB)
    pool.free(a)
    assert pool.stats() == MemoryStats(2 * MIB, MIB, 3 * MIB)
    pool.free(b)
    pool.alloc(MIB)
    assert pool.stats() == MemoryStats(MIB, 2 * MIB, 3 * MIB)
    pool.release()
    assert pool.stats() == MemoryStats(MIB, 0, 3 * MIB)


def test_a_block_that_was_given_back_is_never_handed_out_again() -> None:
    pool = MemoryPool(HOST, MIB)
    for _ in range(3):
        blocks = [pool.alloc(nbytes) for nbytes in (MIB, MIB, 1000)]
        assert len(set(blocks)) == 3
        for address in blocks:
            pool.free(address)
        assert pool.stats() == MemoryStats(0, 1024, 2 * MIB + 1024)  # the last one freed
    pool.release()
    address = pool.alloc(1000)
    ctypes.memset(address, 1, 1000)
    assert pool.stats() == MemoryStats(1024, 0, 2 * MIB + 1024)


def test_beyond_the_limit_the_blocks_that_lay_idle_longest_go() -> None:
    pool = MemoryPool(HOST, 3 * MIB)
    old, middle, new = pool.alloc(MIB), pool.alloc(MIB // 2), pool.alloc(2 * MIB)
    for address in (old, middle, new):
        pool.free(address)
    assert pool.stats().pooled == 2 * MIB + MIB // 2
    assert pool.alloc(MIB // 2) == middle
    assert pool.alloc(2 * MIB) == new


def test_a_limit_of_zero_keeps_nothing() -> None:
    pool = MemoryPool(HOST, 0)
    pool.free(pool.alloc(MIB))
    assert pool.stats() == MemoryStats(0, 0, MIB)


def test_the_limit_comes_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LAZYTEN_POOL_BYTES", "12345")
    assert MemoryPool(HOST).limit == 12345
    monkeypatch.setenv("LAZYTEN_POOL_BYTES", "2GB")
    with pytest.raises(ArgumentError, match=r"LAZYTEN_POOL_BYTES='2GB'.*number of bytes"):
        MemoryPool(HOST)
    monkeypatch.delenv("LAZYTEN_POOL_BYTES")
    assert MemoryPool(HOST).limit >= 64 * MIB


@pytest.mark.parametrize("nbytes", [1 << 50, 1 << 70])
def test_an_absurd_size_says_what_was_asked_and_what_is_there(nbytes: int) -> None:
    pool = MemoryPool(HOST, 64 * MIB)
    pool.alloc(MIB)
    with pytest.raises(DeviceError, match=rf"{nbytes:,} bytes: this process has [\d,]+ bytes of "
                                          r"memory, and tensors hold 1,048,576 bytes"):
        pool.alloc(nbytes)
    assert pool.stats() == MemoryStats(MIB, 0, MIB)


def test_when_memory_is_out_what_was_kept_is_given_back_first() -> None:
    pool = MemoryPool(HOST, 64 * MIB)
    pool.free(pool.alloc(4 * MIB))

    failures = [MemoryError()]

    def scarce(size: int) -> Block[int]:
        if failures:
            raise failures.pop()
        return HOST.reserve(size)
    pool.source = replace(HOST, reserve=scarce)
    pool.alloc(MIB)
    assert pool.stats() == MemoryStats(MIB, 0, 4 * MIB)


def test_blocks_in_use_and_kept_never_exceed_the_machine() -> None:
    pool = MemoryPool(replace(HOST, total=lambda _: 8 * MIB), 64 * MIB)
    small, large = pool.alloc(MIB), pool.alloc(4 * MIB)
    pool.free(large)
    pool.free(small)
    pool.alloc(6 * MIB)
    assert pool.stats() == MemoryStats(6 * MIB, MIB, 6 * MIB)
    with pytest.raises(DeviceError, match="cannot allocate 3,000,000 bytes"):
        pool.alloc(3_000_000)


def test_threads_never_share_a_block() -> None:
    pool = MemoryPool(HOST, MIB)
    wrong: list[int] = []

    def work(mark: int) -> None:
        rng = np.random.default_rng(mark)
        for _ in range(300):
            size = int(rng.integers(1, 40)) * 8
            address = pool.alloc(size)
            ctypes.memset(address, mark, size)
            if ctypes.string_at(address, size) != bytes([mark]) * size:
                wrong.append(address)
            pool.free(address)
    threads = [threading.Thread(target=work, args=(i,)) for i in range(1, 9)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []
    assert pool.stats().in_use == 0


def test_freeing_never_waits_for_an_allocation() -> None:
    """A finalizer runs in a thread that may hold any lock, so waiting could be a deadlock."""
    pool = MemoryPool(HOST, MIB)
    address = pool.alloc(100)
    inside, go_on = threading.Event(), threading.Event()

    def slow(size: int) -> Block[int]:
        inside.set()
        assert go_on.wait(10)
        return HOST.reserve(size)
    pool.source = replace(HOST, reserve=slow)
    allocating = threading.Thread(target=pool.alloc, args=(5000,))
    freeing = threading.Thread(target=pool.free, args=(address,))
    allocating.start()
    assert inside.wait(10)
    freeing.start()
    freeing.join(5)
    assert not freeing.is_alive()
    go_on.set()
    allocating.join()
    assert pool.stats().in_use == block_size(5000)


def test_a_finalizer_inside_an_allocation_may_free_and_allocate(
        monkeypatch: pytest.MonkeyPatch) -> None:
    pool = MemoryPool(HOST, MIB)
    garbage = [pool.alloc(100)]

    def collecting(size: int) -> Block[int]:
        while garbage:
            pool.free(garbage.pop())
            pool.free(pool.alloc(700))
        return HOST.reserve(size)
    pool.source = replace(HOST, reserve=collecting)
    allocating = threading.Thread(target=pool.alloc, args=(5000,), daemon=True)
    allocating.start()
    allocating.join(5)
    assert not allocating.is_alive()
    assert pool.stats() == MemoryStats(block_size(5000), block_size(100) + block_size(700),
                                       block_size(5000))
