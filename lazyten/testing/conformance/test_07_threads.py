"""Stage 7: kernels that several threads, work items or groups of them share."""
from __future__ import annotations

import numpy as np
import pytest

import lazyten as lt
from lazyten.devices.executor import Executor
from lazyten.runtimes.contract import Runtime
from lazyten.testing.conformance.values import whole
from lazyten.testing.diagnosis import Nonconformance, expect_values
from lazyten.testing.kit import advice
from lazyten.testing.scorecard import Scorecard

RUNS = 12
RACE = (
    "Work items race: two of them touch the same memory without a barrier between. Local memory is "
    "not zeroed, that is fine, but your barrier must let every item of the group see what the "
    "others wrote before, and all items must reach it; a launch must end before the next "
    "one begins.")


@pytest.fixture(autouse=True)
def _shared(runtime: Executor, card: Scorecard) -> None:
    """Only for devices that run one kernel on several threads."""
    can = isinstance(runtime, Runtime) and (runtime.target.threads
                                            or runtime.target.work_group > 1)
    if not can:
        card.note_unsupported("kernels shared by threads or work items")
        pytest.skip("a kernel is one flow of control here")


@advice("A large kernel leaves something out or does it twice: each work item, or chunk, runs "
        "exactly once, by its number, and none beyond `Generated.work_items` writes anything.")
@pytest.mark.parametrize("size", [(1 << 21) - 1, 1 << 21, (1 << 21) + 13])
def test_large_kernels_compute_every_element(device: str, size: int) -> None:
    values = np.arange(size, dtype=np.int32)
    x = lt.tensor(values, device=device).realize()
    expect_values((x * 3) ^ (x >> 5), (values * 3) ^ (values >> 5), f"{size:,} elements")


@advice("A product of matrices that threads share is wrong: operands that one launch packs are "
        "read by the next, which must wait for it, and scratch memory is one launch's own.")
def test_large_products_are_right(device: str) -> None:
    a, b = whole(lt.float32, (403, 390), 1), whole(lt.float32, (390, 407), 2)
    x, y = lt.tensor(a, device=device), lt.tensor(b, device=device)
    expect_values(x @ y, a @ b, "a product of [403, 390] and [390, 407]")


@advice(RACE)
def test_every_run_gives_the_same_bits(device: str) -> None:
    rng = np.random.default_rng(3)
    a, b = (lt.tensor(rng.normal(size=(300, 300)).astype(np.float32), device=device).realize()
            for _ in range(2))
    flat = lt.tensor(rng.normal(size=(1 << 20) + 7).astype(np.float32), device=device).realize()
    first: list[bytes] = []
    for run in range(RUNS):
        found = [a @ b, (a * 1.5).softmax(1), flat.sum(), flat.exp(), a.T.contiguous(),
                 flat.cumsum(0)]
        lt.realize(*found)
        bits = [t.numpy().tobytes() for t in found]
        first = first or bits
        for number, (now, before) in enumerate(zip(bits, first, strict=True)):
            if now != before:
                raise Nonconformance(f"run {run} of result {number} has other bits than the first",
                                     RACE)


@advice(RACE)
def test_a_sum_by_many_is_the_sum(device: str) -> None:
    values = np.arange(1 << 20, dtype=np.int64) % 11
    x = lt.tensor(values.astype(np.int32), device=device).realize()
    for _ in range(RUNS):
        expect_values(x.sum(), values.sum(), "the sum of 1,048,576 integers")
