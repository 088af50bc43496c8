"""Blocks that make many objects which stay: Python looks for cycles of garbage afterwards.

It does so whenever some hundred objects were made, among more and more of them. Planning a large
graph and compiling its kernels leave none, and would spend a tenth of their time on it.
"""
from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager

from lazyten.support import forking

_lock = forking.lock()
_blocks = 0
_usual = True


@contextmanager
def collecting_later() -> Iterator[None]:
    """Leave cycles of garbage for later; as usual again when the last such block of any thread is
    done. (A fork by another thread waits for the end, so no child finds it so.)"""
    global _blocks, _usual
    with forking.UNDIVIDED:
        with _lock:
            if _blocks == 0:
                _usual = gc.isenabled()
                gc.disable()
            _blocks += 1
        try:
            yield
        finally:
            with _lock:
                _blocks -= 1
                if _blocks == 0 and _usual:
                    gc.enable()
