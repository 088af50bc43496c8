"""Stage 8: jitted functions, which run a captured sequence of launches on other memory."""
from __future__ import annotations

from typing import Any

import numpy as np

import lazyten as lt
from lazyten.testing.conformance.values import whole
from lazyten.testing.diagnosis import expect, expect_values
from lazyten.testing.kit import advice

SEQUENCE = (
    "A captured call is one call of what `sequence` gave, with the handles of this call: it must "
    "not keep handles of an earlier one, and it makes the launches in order, with offsets added.")


def data(seed: int) -> Any:
    """A matrix of whole numbers."""
    return whole(lt.float32, (24, 24), seed)


@advice(SEQUENCE)
def test_a_jitted_function_gives_what_it_gives_eagerly(device: str) -> None:
    w = lt.tensor(data(0), device=device).realize()
    step = lt.jit(lambda t: ((t @ w).relu().sum(0), t.amax(1)))
    for seed in range(1, 8):
        total, best = step(lt.tensor(data(seed), device=device))
        expect_values(total, np.maximum(data(seed) @ data(0), 0).sum(0), f"call {seed}, output 0")
        expect_values(best, data(seed).max(1), f"call {seed}, output 1")


@advice(SEQUENCE)
def test_results_of_earlier_calls_stay(device: str) -> None:
    double = lt.jit(lambda t: t * 2 + 1)
    kept = [double(lt.tensor(data(seed), device=device)) for seed in range(6)]
    for seed, result in enumerate(kept):
        expect_values(result, data(seed) * 2 + 1, f"the result of call {seed}")


@advice(SEQUENCE)
def test_a_jitted_function_updates_tensors_in_place(device: str) -> None:
    state = lt.tensor(data(0), device=device).realize()

    def step(t: lt.Tensor) -> lt.Tensor:
        state.mul_(2).add_(t).remainder_(64)
        return state.sum()
    jitted, want = lt.jit(step), data(0)
    for seed in range(1, 10):
        total = jitted(lt.tensor(data(seed), device=device))
        want = (want * 2 + data(seed)) % 64
        expect(np.asarray(total.item(), np.float32), want.sum(), f"what call {seed} gives")
    expect_values(state, want, "a tensor that nine calls updated")


@advice(SEQUENCE)
def test_parts_of_a_tensor_are_read_in_a_captured_sequence(device: str) -> None:
    """The steps of a recurrence: one kernel, launched on memory that starts at other places."""
    w = data(0) % 3
    weights = lt.tensor(w, device=device).realize()

    def scan(t: lt.Tensor) -> lt.Tensor:
        h = t[0]
        for i in range(1, 8):
            h = (h @ weights + t[i]).remainder(32)
        return h
    jitted = lt.jit(scan)
    for seed in range(1, 4):
        parts = whole(lt.float32, (8, 24, 24), seed)
        want = parts[0]
        for part in parts[1:]:
            want = (want @ w + part) % 32
        expect_values(jitted(lt.tensor(parts, device=device)), want, f"call {seed}")
