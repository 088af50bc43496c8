"""Copies between host arrays and a GPU, in parts, through pinned memory.

A GPU copies by itself only from and to host memory that is pinned. While it copies one part, the
processor copies the next.
"""
from __future__ import annotations

import ctypes
from typing import Any

import numpy as np

from lazyten.runtimes.cuda.driver import Context

Array = np.ndarray[Any, Any]

PART = 4 << 20
"""Bytes of a part."""
PARTS = 2


class Staging:
    """Pinned memory of a context, for one copy at a time. It is taken at the first copy."""

    def __init__(self, context: Context) -> None:
        self.context = context
        self._parts: list[int] = []
        self._copied: list[Any] = []  # for each part, the event of the last copy from or to it
        self._next = 0

    def _part(self) -> tuple[int, Any]:
        """Where a part may be put, and the event to record after its copy."""
        if not self._parts:
            start = self.context.allocate_pinned(PART * PARTS)
            self._parts = [start + i * PART for i in range(PARTS)]
            self._copied = [self.context.event() for _ in range(PARTS)]
        self._next = (self._next + 1) % PARTS
        self.context.wait_for(self._copied[self._next])
        return self._parts[self._next], self._copied[self._next]

    def copy_in(self, device: int, source: Array) -> None:
        """Copy an array to the device. It may be changed on return, though the GPU may be at it."""
        start = source.ctypes.data
        for offset in range(0, source.nbytes, PART):
            nbytes = min(PART, source.nbytes - offset)
            pinned, copied = self._part()
            ctypes.memmove(pinned, start + offset, nbytes)
            self.context.copy_in(device + offset, pinned, nbytes)
            self.context.record(copied)

    def copy_out(self, target: Array, device: int) -> None:
        """Fill an array from the device, once all that is queued is done."""
        start = target.ctypes.data
        pending: list[tuple[int, int, int, Any]] = []
        for offset in range(0, target.nbytes, PART):
            nbytes = min(PART, target.nbytes - offset)
            pinned, copied = self._part()
            self.context.copy_out(pinned, device + offset, nbytes)
            self.context.record(copied)
            pending.append((start + offset, pinned, nbytes, copied))
            if len(pending) == PARTS:
                self._finish(*pending.pop(0))
        for part in pending:
            self._finish(*part)

    def _finish(self, target: int, pinned: int, nbytes: int, copied: Any) -> None:
        self.context.wait_for(copied)
        ctypes.memmove(target, pinned, nbytes)
