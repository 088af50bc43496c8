"""`lt.profiler`: PyTorch's way to say which steps are profiled; what is seen is `lt.profile()`'s.

Operations run fused, and later than they are called, so there are no times of calls: tables have
rows of kernels and of lines (docs/seeing.md), and traces what ran.
"""
from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable
from contextlib import ContextDecorator
from enum import Enum
from typing import Any, Self

from lazyten.pytorch.refusals import refused
from lazyten.seeing.profile import Profile
from lazyten.support.errors import ArgumentError, StateError
from lazyten.support.paths import path_of

globals().update(refused(
    "profiler", "operations run fused and later than they are called, so there are no times of "
    "calls; lazyten.profile() says what ran by kernel and by line, and writes a trace "
    "(docs/seeing.md), lazyten.explain(x) what will run",
    "DeviceType", "ExecutionTraceObserver", "EventList", "emit_itt", "emit_nvtx"))


class ProfilerActivity(Enum):
    """What PyTorch looks at; here it is always what runs on all devices."""

    CPU, XPU, MTIA, CUDA, HPU, PrivateUse1 = range(6)


class ProfilerAction(Enum):
    """What a schedule says of a step: nothing is recorded, or it is, or it is for the last time
    before the trace is ready."""

    NONE, WARMUP, RECORD, RECORD_AND_SAVE = range(4)


RECORDS = (ProfilerAction.RECORD, ProfilerAction.RECORD_AND_SAVE)


def supported_activities() -> set[ProfilerActivity]:
    """That of the CPU; other devices are looked at with it."""
    return {ProfilerActivity.CPU}


def kineto_available() -> bool:
    """False: the library that PyTorch profiles with is not there."""
    return False


def schedule(*, wait: int, warmup: int, active: int, repeat: int = 0, skip_first: int = 0,
             skip_first_wait: int = 0) -> Callable[[int], ProfilerAction]:
    """What is done with each step: after `skip_first` steps, again and again (`repeat` times, if
    that is not 0), none of `wait` and `warmup` steps, and `active` ones recorded. skip_first_wait:
    whether the first time nothing is waited for."""
    if min(wait, warmup, repeat, skip_first) < 0 or active < 1:
        raise ArgumentError(f"profiler.schedule: wait={wait}, warmup={warmup}, active={active}, "
                            f"repeat={repeat}, skip_first={skip_first}: active must be 1 or more, "
                            f"and the others 0 or more")
    length = wait + warmup + active

    def action(step: int) -> ProfilerAction:
        number = step - skip_first + (wait if skip_first_wait else 0)
        if step < skip_first or repeat and number >= repeat * length:
            return ProfilerAction.NONE
        place = number % length
        if place < wait:
            return ProfilerAction.NONE
        if place < wait + warmup:
            return ProfilerAction.WARMUP
        return ProfilerAction.RECORD_AND_SAVE if place == length - 1 else ProfilerAction.RECORD
    return action


class Averages:
    """What ran in the steps that were recorded last."""

    def __init__(self, record: Profile) -> None:
        self._record = record

    def table(self, sort_by: str | None = None, row_limit: int = 100, *args: Any,
              **options: Any) -> str:
        """The kernels and lines that took longest, as text: `lt.profile`'s table, whose rows have
        one order."""
        return self._record.table(row_limit)

    __str__ = table


class profile:
    """What runs within a block, or in those of its steps that `schedule` says, each ended by
    `step()`; then `on_trace_ready` is called with this. Other options change nothing: shapes, lines
    and memory are always there."""

    def __init__(self, enabled: bool | None = True, *,
                 activities: Iterable[ProfilerActivity] | None = None,
                 schedule: Callable[[int], ProfilerAction] | None = None,
                 on_trace_ready: Callable[[Any], object] | None = None, **options: Any) -> None:
        self.step_num = 0
        self._enabled, self._schedule = enabled is not False, schedule
        self._on_trace_ready = on_trace_ready
        self._record: Profile | None = None
        self._running = False

    def _action(self) -> ProfilerAction:
        if not self._enabled:
            return ProfilerAction.NONE
        return ProfilerAction.RECORD if self._schedule is None else self._schedule(self.step_num)

    def start(self) -> None:
        """Begin with step 0."""
        if not self._running and self._action() in RECORDS:
            self._record, self._running = Profile().__enter__(), True

    def _end(self) -> None:
        """End what is recorded, if anything is, and tell who asked for it."""
        if self._running and self._record is not None:
            self._running = False
            self._record.__exit__(None, None, None)
            if self._on_trace_ready is not None:
                self._on_trace_ready(self)

    def step(self) -> None:
        """A step is over, and the next one begins."""
        is_last = self._action() is ProfilerAction.RECORD_AND_SAVE
        self.step_num += 1
        if is_last or self._action() not in RECORDS:
            self._end()
        self.start()

    stop = _end

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *raised: object) -> None:
        self.stop()

    def _recorded(self, operation: str) -> Profile:
        if self._record is None:
            raise StateError(f"profiler.{operation}: no step was recorded; call step() after each "
                             f"step, or leave schedule= out")
        return self._record

    def key_averages(self, *args: Any, **options: Any) -> Averages:
        """What ran in the steps that were recorded last, whose table() is text."""
        return Averages(self._recorded("key_averages"))

    total_average = key_averages

    def table(self, sort_by: str | None = None, row_limit: int = 100, **options: Any) -> str:
        """That of key_averages()."""
        return self.key_averages().table(sort_by, row_limit)

    def export_chrome_trace(self, path: str | os.PathLike[str]) -> None:
        """Write what ran for https://ui.perfetto.dev or chrome://tracing."""
        self._recorded("export_chrome_trace").save_trace(path)


def tensorboard_trace_handler(dir_name: str, worker_name: str | None = None,
                              use_gzip: bool = False) -> Callable[[profile], None]:
    """For on_trace_ready: write each trace to a file of its own in a folder, which is made."""
    def written(profiled: profile) -> None:
        folder = path_of(dir_name, "tensorboard_trace_handler", "a folder")
        folder.mkdir(parents=True, exist_ok=True)
        name = f"{worker_name or os.getpid()}.{time.time_ns()}.pt.trace.json"
        profiled.export_chrome_trace(folder / name)
    return written


class record_function(ContextDecorator):
    """A name for what this block, or the function it decorates, does; nothing reads it."""

    def __init__(self, name: str, args: str | None = None) -> None:
        self.name, self.args = name, args

    def __enter__(self) -> record_function:
        return self

    def __exit__(self, *raised: object) -> None:
        """Nothing."""
