"""Stage 1: what is copied to the device comes back, and handles have memory of their own."""
from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

from lazyten.devices.executor import Executor
from lazyten.devices.program import Handle
from lazyten.runtimes.contract import Runtime
from lazyten.support.errors import DeviceError
from lazyten.testing.diagnosis import Array, Nonconformance, expect, expect_read
from lazyten.testing.kit import advice
from lazyten.testing.scorecard import Scorecard

SIZES = [0, 1, 3, 64, 1000, 4096, 300_001]
LARGE = 1 << 24
ALIGNMENT = 64

Alloc = Callable[[int], Handle]


@pytest.fixture
def alloc(runtime: Executor) -> Iterator[Alloc]:
    """Memory that is freed after the check."""
    handles: list[Handle] = []

    def allocate(nbytes: int) -> Handle:
        handles.append(runtime.alloc(nbytes))
        return handles[-1]
    yield allocate
    for handle in handles:
        runtime.free(handle)


def noise(size: int, seed: int = 0) -> Array:
    """Random bytes."""
    return np.random.default_rng([size, seed]).integers(0, 256, size, dtype=np.uint8)


def contents(runtime: Executor, handle: Handle, size: int) -> Array:
    """The first bytes of a handle's memory."""
    out = np.full(size, 0xAB, np.uint8)
    runtime.copy_out(out, handle)
    return out


@advice("copy_in copies source.nbytes bytes to the start of the memory, copy_out target.nbytes "
        "bytes from its start, into `target` itself.")
@pytest.mark.parametrize("size", SIZES)
def test_what_is_copied_in_comes_out(runtime: Executor, alloc: Alloc, size: int) -> None:
    handle, data = alloc(size), noise(size)
    runtime.copy_in(handle, data)
    expect_read(lambda: contents(runtime, handle, size), data, f"{size:,} bytes")


@advice("copy_out gave what was there before the last copy_in: it waits for copies that are "
        "queued, and reads the device's memory anew each time, not a copy kept on the host.")
def test_copy_out_gives_what_was_copied_in_last(runtime: Executor, alloc: Alloc) -> None:
    handle = alloc(5000)
    for turn in range(5):
        data = noise(5000, turn)
        runtime.copy_in(handle, data)
        expect_read(lambda: contents(runtime, handle, 5000), data, f"copy {turn}")


@advice("copy_in read the caller's array after it had returned: the array is the caller's again "
        "then, so copy it first, or wait for the transfer.")
def test_an_array_is_the_callers_again_once_copy_in_returns(runtime: Executor,
                                                            alloc: Alloc) -> None:
    handle, data = alloc(LARGE), noise(LARGE)
    kept = data.copy()
    runtime.copy_in(handle, data)
    data[:] = 0
    got = contents(runtime, handle, LARGE)
    expect(got, kept, "an array that was changed after copy_in")


@advice("A copy is as long as the array, not as long as the memory: the rest stays as it is.")
def test_a_short_copy_leaves_the_rest_as_it_is(runtime: Executor, alloc: Alloc) -> None:
    handle, data = alloc(1000), noise(1000)
    runtime.copy_in(handle, data)
    runtime.copy_in(handle, np.full(3, 7, np.uint8))
    expect(contents(runtime, handle, 10), np.concatenate([np.full(3, 7, np.uint8), data[3:10]]),
           "the first 10 bytes after a copy of 3")


@advice("Two handles share memory: alloc gave out memory that is in use, or rounds sizes down, or "
        "free gives back other memory than it is asked to.")
def test_handles_have_memory_of_their_own(runtime: Executor, alloc: Alloc) -> None:
    sizes = [1, 63, 64, 65, 1000, 1000, 4096, 100_000]
    handles = [alloc(size) for size in sizes]
    for turn, (handle, size) in enumerate(zip(handles, sizes, strict=True)):
        runtime.copy_in(handle, noise(size, turn))
    for turn, (handle, size) in enumerate(zip(handles, sizes, strict=True)):
        expect(contents(runtime, handle, size), noise(size, turn), f"memory {turn}, {size:,} bytes")


@advice("Memory in use changed when other memory was freed and allocated again: free gave back too "
        "much, or the same memory twice, so that two handles have it.")
def test_memory_in_use_survives_the_freeing_of_other_memory(runtime: Executor) -> None:
    kept = [runtime.alloc(2000) for _ in range(4)]
    for turn, handle in enumerate(kept):
        runtime.copy_in(handle, noise(2000, turn))
    for turn in range(30):
        others = [runtime.alloc(2000) for _ in range(3)]
        for handle in others:
            runtime.copy_in(handle, noise(2000, 100 + turn))
        for handle in others:
            runtime.free(handle)
    for turn, handle in enumerate(kept):
        expect(contents(runtime, handle, 2000), noise(2000, turn), f"memory {turn}")
        runtime.free(handle)


@advice(f"Memory starts at a multiple of {ALIGNMENT} bytes, whatever its size: ask the allocator "
        "for aligned memory, or take more and start later in it.")
def test_memory_is_aligned(runtime: Executor, alloc: Alloc) -> None:
    if not isinstance(runtime, Runtime):
        pytest.skip("this device runs no generated code")
    handles = [alloc(size) for size in (1, 24, 100, 1000, 5000)]
    addresses = [a for a in map(address_of, handles) if a is not None]
    if not addresses:
        pytest.skip("the handles of this device show no address")
    for address in addresses:
        if address % ALIGNMENT:
            raise Nonconformance(f"memory starts at {address:#x}, which is {address % ALIGNMENT} "
                                 f"bytes past a multiple of {ALIGNMENT}")


def address_of(handle: Any) -> int | None:
    """Where memory starts, if the handle is an address or an array."""
    if isinstance(handle, int):
        return handle
    return handle.ctypes.data if isinstance(handle, np.ndarray) else None


@advice("memory_stats counts what alloc has given out and free has not taken back; `peak` is the "
        "most that ever was, since reset_peak.")
def test_memory_is_counted(runtime: Executor, card: Scorecard) -> None:
    try:
        before = runtime.memory_stats().in_use
    except DeviceError as error:
        card.note_unsupported("memory_stats")
        pytest.skip(str(error))
    handles = [runtime.alloc(100_000) for _ in range(5)]
    used = runtime.memory_stats().in_use - before
    runtime.reset_peak()
    for handle in handles:
        runtime.free(handle)
    after = runtime.memory_stats()
    if not 500_000 <= used <= 1_000_000:
        raise Nonconformance(f"5 times 100,000 bytes count as {used:,}")
    if after.in_use > before:
        raise Nonconformance(f"{after.in_use - before:,} bytes are in use after all was freed")
    if after.peak < before + used:
        raise Nonconformance(f"the peak is {after.peak:,}, but {before + used:,} were in use")


def test_copies_are_timed(runtime: Executor, alloc: Alloc, card: Scorecard) -> None:
    """Measured for the scorecard; nothing is asked of it."""
    handle, data, out = alloc(LARGE), noise(LARGE), np.empty(LARGE, np.uint8)
    runtime.copy_in(handle, data)
    runtime.copy_out(out, handle)

    def copy_in() -> None:
        runtime.copy_in(handle, data)
        runtime.synchronize()
    card.rates["copy to the device"] = f"{LARGE / fastest(copy_in) / 1e9:.1f} GB/s"
    rate = LARGE / fastest(lambda: runtime.copy_out(out, handle)) / 1e9
    card.rates["copy from the device"] = f"{rate:.1f} GB/s"


def fastest(function: Callable[[], None]) -> float:
    """Seconds, the least of some."""
    times = []
    for _ in range(5):
        start = time.perf_counter()
        function()
        times.append(time.perf_counter() - start)
    return min(times)
