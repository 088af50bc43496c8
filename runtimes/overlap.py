"""Two steps of a build at once: the second step of one item beside the first step of the next.

The first step is Python. The second runs in a thread, and leaves the interpreter to others most of
the time, as a compiler's library does. After each call it has to ask for the interpreter, which
Python grants after 5 ms, a good part of what a kernel takes; in here it does so sooner.
"""
from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from threading import Lock
from typing import TypeVar

A = TypeVar("A")
B = TypeVar("B")
C = TypeVar("C")

SWITCH_SECONDS = 1e-4
"""After how long a thread that waits for the interpreter gets it."""

_lock = Lock()
_builds = 0
_usual = 0.0


def overlapped(first: Callable[[A], B], second: Callable[[B], C],
               items: Sequence[A]) -> list[tuple[B, C]]:
    """What the steps make of each item. Both run in the order of the items. An error of either is
    raised when neither runs any more; items that come after it may then not have been begun."""
    if len(items) < 2:
        return [(made := first(item), second(made)) for item in items]
    from concurrent.futures import ThreadPoolExecutor  # it imports a good deal
    thread = ThreadPoolExecutor(1, "lazyten-compile")
    with _switching_often():
        try:
            begun = [(made := first(item), thread.submit(second, made)) for item in items]
            return [(made, done.result()) for made, done in begun]
        finally:
            thread.shutdown(cancel_futures=True)


@contextmanager
def _switching_often() -> Iterator[None]:
    """Let threads take turns every SWITCH_SECONDS; as usual again when the last build is done."""
    global _builds, _usual
    with _lock:
        if _builds == 0:
            _usual = sys.getswitchinterval()
            sys.setswitchinterval(min(SWITCH_SECONDS, _usual))
        _builds += 1
    try:
        yield
    finally:
        with _lock:
            _builds -= 1
            if _builds == 0:
                sys.setswitchinterval(_usual)
