"""What a child of fork() must find: no lock that is held by a thread it does not have.

fork() copies the one thread that calls it. What another thread holds at that moment nobody gives
back in the child: our locks, those of modules that are being imported, a compiler's. So a fork
first waits until all other threads are outside of what they guard, holds them while the process is
copied, and gives them back in both. All locks in lazyten are made by `lock`; what takes locks of
others, as importing and compiling do, is `undivided`.

logging, which compilers import, has something done at forks, too: if it were imported while a fork
waits, that fork would give back a lock of its that it has not taken.
"""
from __future__ import annotations

import logging  # noqa: F401
import os
from collections.abc import Callable
from functools import wraps
from threading import Condition, RLock, get_ident
from typing import Any, ParamSpec, Protocol, TypeVar
from weakref import ReferenceType, ref

P = ParamSpec("P")
R = TypeVar("R")


class Lock(Protocol):
    """A lock that one thread may take several times."""

    def acquire(self, blocking: bool = True) -> bool: ...
    def release(self) -> None: ...
    def __enter__(self) -> bool: ...
    def __exit__(self, *exc: Any) -> None: ...


_making: Lock = RLock()
"""Held while a lock is made known, so by forks as well: no other comes to be beside one."""
_locks: dict[int, ReferenceType[Any]] = {id(_making): ref(_making)}


def lock() -> Lock:
    """A new lock that nobody else holds during a fork."""
    made: Lock = RLock()
    return held_by_forks(made)


def held_by_forks(made: Lock) -> Lock:
    """The lock itself, which from now on is taken before each fork, too."""
    number = id(made)
    with _making:
        _locks[number] = ref(made, lambda _: _locks.pop(number, None))
    return made


class _Section:
    """What a fork waits for. Any number of threads may be in it (`with`); `acquire` keeps them
    out, but for the thread that calls it."""

    def __init__(self) -> None:
        self._changed = Condition(RLock())
        self._inside: dict[int, int] = {}

    def __enter__(self) -> bool:
        with self._changed:
            me = get_ident()
            self._inside[me] = self._inside.get(me, 0) + 1
        return True

    def __exit__(self, *exc: Any) -> None:
        with self._changed:
            me = get_ident()
            self._inside[me] -= 1
            if not self._inside[me]:
                del self._inside[me]
                self._changed.notify_all()

    def acquire(self, blocking: bool = True) -> bool:
        """Whether no other thread is inside; none comes in until `release`."""
        self._changed.acquire()
        while self._inside.keys() - {get_ident()}:
            if not blocking:
                self._changed.release()
                return False
            self._changed.wait()
        return True

    def release(self) -> None:
        """Let others in again."""
        self._changed.release()


UNDIVIDED = _Section()
"""Where a thread is while it imports or compiles: a fork by another waits for its end."""
held_by_forks(UNDIVIDED)


def undivided(function: Callable[P, R]) -> Callable[P, R]:
    """The function, which no fork by another thread comes into."""
    @wraps(function)
    def whole(*args: P.args, **kwargs: P.kwargs) -> R:
        with UNDIVIDED:
            return function(*args, **kwargs)
    return whole


# ---- around a fork -------------------------------------------------------------------------------

_taken: list[list[Lock]] = []


def _take_all() -> None:
    """Take all locks. It waits for one only while it has none, so nobody can wait for it."""
    awaited: Lock | None = None
    while True:
        taken: list[Lock] = []
        known = _all()
        for one in sorted(known, key=lambda one: one is not awaited):
            if not one.acquire(one is awaited):
                awaited = one
                break
            taken.append(one)
        else:
            if {*map(id, _all())} <= {*map(id, known)}:  # none was made meanwhile
                _taken.append(taken)
                return
        _give_back(taken)


def _all() -> list[Lock]:
    return [found for r in list(_locks.values()) if (found := r()) is not None]


def _give_back(taken: list[Lock]) -> None:
    for one in reversed(taken):
        one.release()


def _after() -> None:
    if _taken:  # an interrupt may have ended the wait
        _give_back(_taken.pop())


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_take_all, after_in_parent=_after, after_in_child=_after)
