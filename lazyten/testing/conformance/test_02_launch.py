"""Stage 2: kernels run whole, on the right arguments, in order, and copies wait for them."""
from __future__ import annotations

import threading
import time
from typing import Any

import numpy as np
import pytest

import lazyten as lt
from lazyten.devices.executor import Executor
from lazyten.testing.diagnosis import Nonconformance, expect, expect_values
from lazyten.testing.kit import advice
from lazyten.testing.scorecard import Scorecard

SIZES = [1, 2, 3, 5, 8, 9, 16, 31, 33, 64, 65, 127, 255, 257, 1000, 1024, 4097, 100_003]
LARGE = 1 << 22


def counting(size: int, start: int = 0) -> Any:
    """start, start + 1, .. in float32."""
    return np.arange(start, start + size, dtype=np.float32)


@advice("A kernel gave wrong values although copies work: its arguments are pointers to the "
        "memory of the handles, outputs first, then inputs. Look at its source with DEBUG=2.")
def test_a_kernel_adds_one(device: str) -> None:
    x = lt.tensor(counting(1000), device=device).realize()
    y = (x + 1).realize()
    expect_values(y, counting(1000, 1), "x + 1 of 1,000 elements")


@advice("Kernels give other values for some sizes: check how many work items are launched, and "
        "that indices have 64 bits.")
def test_every_element_is_computed_at_any_size(device: str) -> None:
    sizes = SIZES[::-1]  # where a last block is missing, a large result shows it best
    xs = [lt.tensor(counting(size), device=device) for size in sizes]
    ys = [x + 1 for x in xs]
    lt.realize(*ys)
    for size, y in zip(sizes, ys, strict=True):
        expect_values(y, counting(size, 1), f"x + 1 of {size:,} elements")


@advice("Arguments are exchanged, or one is given twice: buffers come in the order of the kernel's "
        "parameters, outputs first, then inputs, then scratch memory.")
def test_arguments_are_in_order(device: str) -> None:
    arrays = [counting(500, 1000 * i) for i in range(6)]
    a, b, c, d, e, f = (lt.tensor(v, device=device).realize() for v in arrays)
    total = a + b * 2 + c * 4 - d * 8 + e * 16 - f * 32
    expect_values(total, sum(v * w for v, w in zip(arrays, (1, 2, 4, -8, 16, -32), strict=True)),
                  "a sum of six different inputs")


@advice("A kernel with two outputs exchanged them, or wrote one only: each has a buffer of its "
        "own, the first ones of the arguments.")
def test_a_kernel_may_have_several_outputs(device: str) -> None:
    x = lt.tensor(counting(300), device=device).realize()
    total, product = x + 1, x * 3
    lt.realize(total, product)
    expect_values(total, counting(300, 1), "the first of two outputs")
    expect_values(product, counting(300) * 3, "the second of two outputs")


@advice("With offsets (has_offsets) an argument starts at later(handle, nbytes): nbytes bytes, not "
        "elements, past the start of the handle's memory.")
def test_arguments_may_start_later_in_their_memory(device: str, runtime: Executor,
                                                   card: Scorecard) -> None:
    x = lt.tensor(counting(1000), device=device).realize()
    parts = [x[start:start + 100] * 2 for start in (0, 1, 7, 64, 900)]
    lt.realize(*parts)
    for start, part in zip((0, 1, 7, 64, 900), parts, strict=True):
        expect_values(part, counting(100, start) * 2, f"elements from {start} on")
    if not runtime.has_offsets:
        card.note_unsupported("offsets (kernels that differ in where inputs start are compiled "
                              "each)")


@advice("Memory was given back while a launch that uses it was queued: what is freed stays until "
        "the launches before it are done.")
def test_freed_memory_serves_the_launches_before(device: str) -> None:
    for turn in range(3):
        x = lt.tensor(counting(50_000, turn), device=device).realize()
        y = (x + 1).realize()
        del x
        other = lt.tensor(np.zeros(50_000, np.float32), device=device).realize()
        expect_values(y, counting(50_000, turn + 1), "a result whose input was freed")
        del other


@advice("`sequence` gives other results than `launch`: it makes all launches in order, each on the "
        "buffers that its arguments name.")
def test_a_schedule_that_runs_often_gives_the_same(device: str) -> None:
    for turn in range(8):  # from the fifth run on it is one call of what `sequence` gave
        want = counting(64).reshape(8, 8) * (turn + 1)
        x = lt.tensor(want, device=device).realize()
        expect_values((x * 2 - 1).sum(0), (want * 2 - 1).sum(0), f"run {turn} of one schedule")


@advice("Launches overtake each other: they run as if one after the other, in the order of the "
        "calls. Use one queue that keeps the order, or wait in between.")
def test_launches_run_in_order(device: str) -> None:
    x = lt.tensor(counting(1000), device=device).realize()
    want = counting(1000)
    for turn in range(40):
        x *= 2
        x -= turn % 3
        x.realize()
        want = (want * 2 - np.float32(turn % 3)) % 1024
        x %= 1024
        x.realize()
    expect_values(x, want, "40 updates in place")


@advice("`launch` is called from several threads at once, for the same function too: guard what "
        "belongs to a function, such as arguments that are set before it is queued, with a lock.")
def test_threads_may_launch_at_once(device: str) -> None:
    found: dict[int, Any] = {}
    (lt.tensor(counting(2000), device=device) * 3).realize()  # the program is there

    def work(number: int) -> None:
        for _ in range(20):
            x = lt.tensor(counting(2000, number), device=device).realize()
            found[number] = (x * 3).numpy()
    threads = [threading.Thread(target=work, args=(n,)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for number in range(4):
        if number not in found:
            raise Nonconformance(f"thread {number} ended with an error")
        expect(found[number], counting(2000, number) * 3, f"the result of thread {number}")


@advice("A function is good as long as it is referenced, whatever becomes of others of its build.")
def test_programs_outlive_others_of_their_build(device: str) -> None:
    x = lt.tensor(counting(77), device=device).realize()
    lt.realize(x * 5, x.sum(), x.cumsum(0))
    for turn in range(3):
        (x.reshape(7, 11) * turn).sum(turn % 2).realize()
    expect_values(x * 5, counting(77) * 5, "a program that was built with others")


def test_launches_are_timed(device: str, runtime: Executor, card: Scorecard) -> None:
    """Measured for the scorecard; nothing is asked of it."""
    x = lt.tensor(counting(LARGE), device=device).realize()
    small = lt.tensor(counting(8), device=device).realize()
    card.rates["x + 1 of 16 MiB"] = f"{8 * LARGE / per_call(runtime, x, 5) / 1e9:.1f} GB/s"
    card.rates["a launch of 8 elements, from Python"] = (
        f"{per_call(runtime, small, 50) * 1e6:.0f} us")


def per_call(runtime: Executor, x: lt.Tensor, count: int) -> float:
    """Seconds that x + 1 takes, the least of some averages."""
    for _ in range(5):
        (x + 1).realize()
    times = []
    for _ in range(3):
        runtime.synchronize()
        start = time.perf_counter()
        for _ in range(count):
            (x + 1).realize()
        runtime.synchronize()
        times.append((time.perf_counter() - start) / count)
    return min(times)


@pytest.fixture(autouse=True)
def _eager(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("DEBUG", raising=False)
