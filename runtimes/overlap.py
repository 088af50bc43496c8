"""Two steps of a build at once: the second step of one item beside the first step of the next.

The first step is Python. The second runs in a thread, and leaves the interpreter to others most of
the time, as a compiler's library does. After each call it has to ask for the interpreter, which
Python grants after 5 ms, a good part of what a kernel takes; in here it does so sooner. Cycles of
garbage it looks for afterwards.
"""
from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from queue import SimpleQueue
from threading import Thread
from typing import Generic, TypeVar

from lazyten.support import forking
from lazyten.support.collecting import collecting_later

A = TypeVar("A")
B = TypeVar("B")
C = TypeVar("C")

SWITCH_SECONDS = 1e-4
"""After how long a thread that waits for the interpreter gets it."""

_lock = forking.lock()
_builds = 0
_usual = 0.0


def overlapped(first: Callable[[A], B], second: Callable[[B], C],
               items: Sequence[A]) -> list[tuple[B, C]]:
    """What the steps make of each item. Both run in the order of the items. An error of either is
    raised when neither runs any more; items that come after it may then not have been begun."""
    if len(items) < 2:
        return [(made := first(item), second(made)) for item in items]
    with _building(), _Beside(second) as beside:
        for item in items:
            beside.give(first(item))
    return beside.results()


class _Beside(Generic[B, C]):
    """A thread that takes the second step, in the order in which it is given things. (The library's
    executors would be imported by the first build of many, and a fork does not bear that.)"""

    def __init__(self, step: Callable[[B], C]) -> None:
        self._step = step
        self._given: SimpleQueue[tuple[B] | None] = SimpleQueue()
        self._made: list[tuple[B, C]] = []
        self._error: BaseException | None = None
        self._given_up = False
        self._thread = Thread(target=self._work, name="lazyten-compile")

    def __enter__(self) -> _Beside[B, C]:
        self._thread.start()
        return self

    def give(self, thing: B) -> None:
        """One more thing to do."""
        self._given.put((thing,))

    def __exit__(self, kind: object, *exc: object) -> None:
        self._given_up = kind is not None
        self._given.put(None)
        self._thread.join()

    def results(self) -> list[tuple[B, C]]:
        """What was given, and what was made of it. Raises the error of the step that failed."""
        if self._error is not None:
            raise self._error
        return self._made

    def _work(self) -> None:
        while (given := self._given.get()) is not None:
            if self._error is None and not self._given_up:
                try:
                    self._made.append((given[0], self._step(given[0])))
                except BaseException as error:
                    self._error = error


@contextmanager
def _building() -> Iterator[None]:
    """Let threads take turns every SWITCH_SECONDS, and leave cycles of garbage for later; as usual
    again when the last build is done. (A fork waits for the end of a build, so no child finds it
    so.)"""
    global _builds, _usual
    with _lock:
        if _builds == 0:
            _usual = sys.getswitchinterval()
            sys.setswitchinterval(min(SWITCH_SECONDS, _usual))
        _builds += 1
    try:
        with collecting_later():
            yield
    finally:
        with _lock:
            _builds -= 1
            if _builds == 0:
                sys.setswitchinterval(_usual)
