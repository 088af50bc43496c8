"""Plans whose kernels serve many sizes: what devices keep of a computation from size to size.

In: a block of code that plans a computation, at one of its sizes. Out: plans whose programs share
texts with those of other sizes (codegen/templates.py), on devices that can do that.
"""
from __future__ import annotations

import threading
from collections.abc import Hashable, Iterator
from contextlib import contextmanager
from typing import Any

from lazyten.storage.device import AtSizes, executor


class Sizes:
    """One computation at sizes that vary. now: what is being planned."""

    def __init__(self) -> None:
        self.now = AtSizes((), ())
        self._known: dict[str, Any] = {}

    def on(self, device: str) -> Any:
        """What the device keeps of it; None where each size has kernels of its own."""
        if device not in self._known:
            self._known[device] = executor(device).varying()
        return self._known[device]

    @contextmanager
    def planning(self, sizes: tuple[int, ...], region: Hashable) -> Iterator[None]:
        """What this thread plans within this block is the computation, at these sizes. region:
        those of one have kernels in common."""
        before, _now.sizes = _now.sizes, self
        self.now = AtSizes(sizes, region)
        try:
            yield
        finally:
            _now.sizes = before


class _Now(threading.local):
    sizes: Sizes | None = None


_now = _Now()


def current() -> Sizes | None:
    """The computation that this thread is planning, if its sizes vary."""
    return _now.sizes
