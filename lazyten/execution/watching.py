"""Who is told which kernels are launched: `testing.py` watches, realizing and jit report.

With nobody watching, a report costs one comparison.
"""
from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Protocol

from lazyten.schedule.schedule import Schedule
from lazyten.storage.device import Program


class Planned(Protocol):
    """A schedule and its compiled programs, one a step."""

    @property
    def schedule(self) -> Schedule: ...
    @property
    def programs(self) -> tuple[Program, ...]: ...


Watcher = Callable[[str, Planned], None]

watchers: list[Watcher] = []
"""Called with the device and the plan before its kernels are launched, in any thread."""


def ran(device: str, plan: Planned) -> None:
    """Tell all who watch that the kernels of a plan are about to be launched."""
    for watcher in tuple(watchers):
        watcher(device, plan)


@contextmanager
def told(watcher: Watcher) -> Iterator[None]:
    """Within this block `watcher` is told."""
    watchers.append(watcher)
    try:
        yield
    finally:
        watchers.remove(watcher)
