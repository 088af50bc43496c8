"""Who is told which kernels are launched: `testing.py` watches, realizing and jit report.

With nobody watching, a report costs one comparison.
"""
from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from lazyten.schedule import Schedule

Watcher = Callable[[str, Schedule], None]

watchers: list[Watcher] = []
"""Called with the device and the schedule before its kernels are launched, in any thread."""


def ran(device: str, schedule: Schedule) -> None:
    """Tell all who watch that the kernels of a schedule are about to be launched."""
    for watcher in tuple(watchers):
        watcher(device, schedule)


@contextmanager
def told(watcher: Watcher) -> Iterator[None]:
    """Within this block `watcher` is told."""
    watchers.append(watcher)
    try:
        yield
    finally:
        watchers.remove(watcher)
