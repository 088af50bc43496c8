"""Assertions about performance that do not depend on time: kernels launched, memory at the peak.

For a program's own tests (docs/testing.md). Each takes a function without arguments, calls it, and
computes the tensors that it gives, also those inside lists, tuples and dicts.
"""
from __future__ import annotations

import gc
import operator
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

from lazyten.diagnostics.explanation import explain_schedule
from lazyten.execution.realization import realize
from lazyten.frontend.tensor import Tensor
from lazyten.schedule.schedule import Schedule
from lazyten.storage import tracing
from lazyten.storage.device import executor
from lazyten.storage.placement import placed
from lazyten.support import observers
from lazyten.support.errors import ArgumentError
from lazyten.support.observers import Observer, Plan
from lazyten.support.trees import flatten

R = TypeVar("R")


class Kernels(Observer):
    """The kernels that were launched inside a `watch_kernels` block, so far."""

    def __init__(self) -> None:
        self.schedules: list[tuple[str, Schedule]] = []

    def runs(self, device: str, plan: Plan, spent: float | None) -> None:
        self.schedules.append((device, plan.schedule))

    def __len__(self) -> int:
        return sum(len(schedule.steps) for _, schedule in self.schedules)

    @property
    def launches(self) -> int:
        """How many launches they took: small kernels that need nothing of each other share one."""
        return sum(len(schedule.launches) for _, schedule in self.schedules)

    def explain(self) -> str:
        """What `lt.explain` says of each schedule that ran, in order."""
        parts = [f"schedule {number} on {device}:\n{explain_schedule(schedule)}"
                 for number, (device, schedule) in enumerate(self.schedules)]
        return "\n".join(parts) or "no kernel was launched"


class PeakMemory:
    """`bytes`: the most memory in use above the start of a `watch_memory` block, once it ended."""

    def __init__(self) -> None:
        self.bytes = 0


@contextmanager
def watch_kernels() -> Iterator[Kernels]:
    """Within this block launches are noted, of all threads: `len(kernels)`, `kernels.explain()`.

    Tensors that are not computed inside the block take no part: realize them in it.
    """
    _refuse_in_jit()
    kernels = Kernels()
    with observers.told(kernels):
        yield kernels


@contextmanager
def watch_memory(device: str | None = None) -> Iterator[PeakMemory]:
    """Within this block the device's memory in use is watched; `.bytes` is known at its end."""
    _refuse_in_jit()
    runtime = executor(placed(device))
    gc.collect()  # what is garbage already would hide as much new memory
    before = runtime.memory_stats()
    runtime.reset_peak()
    memory = PeakMemory()
    try:
        yield memory
    finally:
        peak = runtime.memory_stats().peak
        memory.bytes = max(peak - before.in_use, 0)
        runtime.reset_peak(max(peak, before.peak))


def count_kernels(fn: Callable[[], object]) -> int:
    """How many kernels are launched while `fn` runs and what it gives is computed."""
    with watch_kernels() as kernels:
        _computed(fn)
    return len(kernels)


def assert_kernels(fn: Callable[[], R], n: int) -> R:
    """Call `fn`; AssertionError, with what ran and why, unless exactly `n` kernels were launched.

    Gives what `fn` gave, computed.
    """
    wanted = _natural(n, "assert_kernels")
    with watch_kernels() as kernels:
        result = _computed(fn)
    if len(kernels) != wanted:
        raise AssertionError(f"{_kernels(wanted)} expected, but {len(kernels)} ran:\n"
                             f"{kernels.explain()}")
    return result


def peak_bytes(fn: Callable[[], object], device: str | None = None) -> int:
    """The most bytes of a device's memory in use, above what was in use before, while `fn` runs and
    what it gives is computed. Whole blocks count: see `lazyten.memory_stats`."""
    with watch_memory(device) as memory:
        result = _computed(fn)
    del result
    return memory.bytes


def assert_peak_bytes(fn: Callable[[], R], n: int, device: str | None = None) -> R:
    """Call `fn`; AssertionError, with what ran and why, if `peak_bytes` of it is more than `n`.

    Gives what `fn` gave, computed.
    """
    most = _natural(n, "assert_peak_bytes")
    with watch_kernels() as kernels, watch_memory(device) as memory:
        result = _computed(fn)
    if memory.bytes > most:
        raise AssertionError(f"at most {most:,} bytes of memory expected, but at the peak "
                             f"{memory.bytes:,} were in use:\n{kernels.explain()}")
    return result


def _computed(fn: Callable[[], R]) -> R:
    """What `fn` gives, with the tensors in it computed together."""
    if not callable(fn):
        raise ArgumentError(f"give a function without arguments to call, as in "
                            f"assert_kernels(lambda: model(x), 2), not {type(fn).__name__}")
    result = fn()
    realize([x._storage for x in flatten(result)[0] if isinstance(x, Tensor)])
    return result


def _natural(n: Any, function: str) -> int:
    try:
        number = -1 if isinstance(n, bool) else operator.index(n)
    except TypeError:
        number = -1
    if number < 0:
        raise ArgumentError(f"{function}: n={n!r:.40}, but it is an integer of at least 0")
    return number


def _kernels(count: int) -> str:
    return f"{count} kernel{'s' if count != 1 else ''}"


def _refuse_in_jit() -> None:
    tracing.refuse("counting kernels or memory", "count around the call of the jitted function")
