"""What is being planned at one of many sizes: which computation, and which size.

In: a block of code that plans a computation, at one of its sizes. Out: plans whose schedules and
programs share what they can with those of other sizes.
"""
from __future__ import annotations

import threading
from collections.abc import Hashable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

from lazyten.devices.program import AtSizes
from lazyten.execution.sizes.forms import Forms
from lazyten.ir.numbers import Skeleton
from lazyten.storage.device import executor
from lazyten.support import forking


class Sizes:
    """One computation at sizes that vary: what devices keep of its kernels from size to size
    (codegen/templates.py), and what is known of its schedules. lock: held by the thread that plans
    it, as a text and the numbers for it belong together."""

    def __init__(self) -> None:
        self.lock = forking.lock()
        self._known: dict[str, Any] = {}
        self._forms: dict[Hashable, Forms] = {}

    def on(self, device: str) -> Any:
        """What the device keeps of it; None where each size has kernels of its own."""
        if device not in self._known:
            self._known[device] = executor(device).varying()
        return self._known[device]

    def forms(self, device: str, region: Hashable, skeleton: Skeleton) -> Forms:
        """What is known of the schedules of one graph, for sizes of one region."""
        return self._forms.setdefault((device, region, skeleton), Forms())

    @contextmanager
    def planning(self, sizes: tuple[int, ...], region: Hashable) -> Iterator[None]:
        """What this thread plans within this block is the computation, at these sizes. region:
        those of one have kernels in common."""
        before = _now.planned
        _now.planned = Planned(self, AtSizes(sizes, region))
        try:
            yield
        finally:
            _now.planned = before


class Planned(NamedTuple):
    """A computation at one of its sizes."""

    of: Sizes
    at: AtSizes


class _Now(threading.local):
    planned: Planned | None = None


_now = _Now()


def current() -> Planned | None:
    """What this thread is planning, if its sizes vary."""
    return _now.planned
