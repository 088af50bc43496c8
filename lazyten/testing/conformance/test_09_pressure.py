"""Stage 9: memory that is short, or given back and taken again all the time."""
from __future__ import annotations

import gc

import numpy as np
import pytest

import lazyten as lt
from lazyten.devices.executor import Executor
from lazyten.support.errors import DeviceError
from lazyten.testing.diagnosis import Nonconformance, expect_values
from lazyten.testing.kit import advice

ABSURD = 1 << 60
"""Bytes that no device has."""
OUT = ("Where memory is out, alloc raises lazyten.DeviceError, with the bytes asked for; nothing "
       "that was there before is lost, and smaller pieces can be had.")


@advice(OUT)
def test_more_memory_than_there_is_is_a_device_error(device: str, runtime: Executor) -> None:
    kept = lt.tensor([1.0, 2.0, 3.0], device=device).realize()
    for _ in range(3):
        try:
            runtime.alloc(ABSURD)
        except DeviceError as error:
            if f"{ABSURD:,}" not in str(error):
                raise Nonconformance(f"the error does not say how many bytes: {error}") from error
        except Exception as error:
            raise Nonconformance(f"{type(error).__name__} instead of DeviceError: "
                                 f"{error}") from error
        else:
            raise Nonconformance(f"alloc gave {ABSURD:,} bytes")
    expect_values(kept + 1, np.array([2, 3, 4], np.float32), "a tensor from before")


@advice(OUT)
def test_a_result_too_large_leaves_the_device_usable(device: str) -> None:
    x = lt.ones(2, device=device).realize()
    with pytest.raises(DeviceError):
        (x[0] + lt.zeros(1 << 56, device=device)).contiguous().realize()
    expect_values(x * 2, np.array([2, 2], np.float32), "a result after that error")


@advice("Memory is not given back: free must return it, or keep it for the next alloc.")
def test_memory_of_dropped_tensors_is_given_back(device: str, runtime: Executor) -> None:
    x = lt.ones(1 << 18, device=device).contiguous().realize()
    y = (x + 1).realize()
    try:
        gc.collect()
        before = runtime.memory_stats().in_use
    except DeviceError as error:
        pytest.skip(str(error))
    for _ in range(200):
        y = (x + 1).realize()
    expect_values(y, np.full(1 << 18, 2, np.float32), "the last of 200 sums")
    gc.collect()
    runtime.synchronize()
    left = runtime.memory_stats().in_use - before
    if left > 1 << 22:
        raise Nonconformance(f"{left:,} bytes are still in use after 200 tensors of 1 MiB came and "
                             f"went")


@advice("Memory was used again before what uses it was done, or two values got the same memory.")
def test_values_keep_apart_while_memory_comes_and_goes(device: str) -> None:
    rng = np.random.default_rng(1)
    alive: dict[int, tuple[lt.Tensor, np.ndarray[tuple[int], np.dtype[np.float32]]]] = {}
    for turn in range(120):
        size = int(rng.choice([10, 1000, 50_000]))
        values = np.full(size, turn, np.float32)
        alive[turn] = (lt.tensor(values, device=device) + 1).realize(), values + 1
        if len(alive) > 12:
            tensor, want = alive.pop(int(rng.choice(list(alive))))
            expect_values(tensor, want, f"a tensor of {want.size:,} elements")
    for tensor, want in alive.values():
        expect_values(tensor, want, f"a tensor of {want.size:,} elements")


@advice("empty_cache gives back memory that nobody uses, and none that somebody does.")
def test_emptying_the_cache_keeps_what_is_in_use(device: str, runtime: Executor) -> None:
    x = lt.tensor(np.arange(5000, dtype=np.float32), device=device).realize()
    runtime.empty_cache()
    expect_values(x + 1, np.arange(1, 5001, dtype=np.float32), "a tensor from before empty_cache")
