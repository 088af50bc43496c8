"""The worker processes of a loader: started, fed, heard and ended.

Tasks go to the workers in turn, `ahead` to each before its first answer. Each worker has a pipe of
its own: one that dies leaves no lock behind, and its pipe says so.
"""
from __future__ import annotations

import multiprocessing
import os
import sys
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from multiprocessing.connection import Connection, wait
from time import monotonic
from typing import Any
from weakref import finalize

from lazyten.support.errors import WorkerError
from lazyten.utils.data.transport import Failure, Stop, packed, unpacked
from lazyten.utils.data.worker import Again, Order, Task, work

PATIENCE = 5.0
"""Seconds that a worker has to end before it is killed."""


class Pool:
    """Workers, and the order of what they make. in_order: give batches in the order of tasks, and
    not as they are ready."""

    def __init__(self, order: Order, ahead: int, timeout: float, context: Any,
                 in_order: bool) -> None:
        self.ahead, self.timeout, self.in_order = ahead, timeout, in_order
        self.round = 0
        self.processes: list[Any] = []
        self.pipes: list[Connection] = []
        self._close = finalize(self, _end, os.getpid(), self.processes, self.pipes)
        for number in range(order.workers):
            mine, its = context.Pipe()
            self.pipes.append(mine)
            inherited = tuple(self.pipes) if context.get_start_method() == "fork" else ()
            process = context.Process(target=work, daemon=True, args=(
                replace(order, number=number), its, inherited))
            process.start()
            self.processes.append(process)
            its.close()

    @property
    def is_open(self) -> bool:
        """Whether there are workers."""
        return self._close.alive

    def close(self) -> None:
        """End all workers."""
        self._close()

    def begin(self, tasks: Iterator[Any]) -> None:
        """Begin an iteration; answers of the one before are not listened to."""
        self.round += 1
        for number in range(len(self.pipes)):
            self._tell(number, Again(self.round))
        self.tasks = enumerate(tasks)
        self.ready: dict[int, Any] = {}
        self.waiting: dict[int, int] = {}  # place of a task, worker
        self.active = set(range(len(self.pipes)))
        self.turn = 0
        for _ in range(self.ahead * len(self.pipes)):
            self._hand_out()

    def _hand_out(self) -> None:
        """Give the next task to the worker whose turn it is."""
        if not self.active:
            return
        task = next(self.tasks, None)
        if task is None:
            return
        while self.turn not in self.active:
            self.turn = (self.turn + 1) % len(self.pipes)
        self.waiting[task[0]] = self.turn
        self._tell(self.turn, Task(*task))
        self.turn = (self.turn + 1) % len(self.pipes)

    def _tell(self, number: int, message: Any) -> None:
        try:
            self.pipes[number].send_bytes(packed(message))
        except OSError:
            raise self._gone(number) from None

    def next_batch(self) -> Any:
        """What the next task comes to; what was an error in a worker is one here. StopIteration at
        the end."""
        while self.waiting or self.ready:
            place = self._next_place()
            if place is None:
                self._listen()
                continue
            made = self.ready.pop(place)
            if isinstance(made, Stop):
                continue
            self._hand_out()
            if isinstance(made, Failure):
                made.reraise()
            return made
        raise StopIteration

    def _next_place(self) -> int | None:
        """The next batch to give, if it is there."""
        if not self.ready:
            return None
        first = min(self.ready)
        if self.in_order and any(place < first for place in self.waiting):
            return None
        return first

    def _listen(self) -> None:
        """Take what workers have sent, or wait until one has."""
        begin = monotonic()
        numbers = {self.pipes[n]: n for n in set(self.waiting.values())}
        limit = self.timeout or None
        found = wait(list(numbers), limit)
        if not found:
            raise WorkerError(f"DataLoader: no batch came within timeout={self.timeout} seconds "
                              f"({monotonic() - begin:.1f}); give it more, or more workers")
        for pipe in found:
            assert isinstance(pipe, Connection)
            self._take(numbers[pipe])

    def _take(self, number: int) -> None:
        try:
            of_round, place, made = unpacked(self.pipes[number].recv_bytes())
        except (EOFError, OSError):
            raise self._gone(number) from None
        if of_round != self.round:
            return
        if isinstance(made, Stop) and number in self.active:
            self.active.discard(number)
        del self.waiting[place]
        self.ready[place] = made

    def _gone(self, number: int) -> WorkerError:
        """The error for a worker that has ended on its own."""
        process = self.processes[number]
        process.join(PATIENCE)
        self.close()
        return WorkerError(f"DataLoader worker {number} (process {process.pid}) ended unexpectedly "
                           f"with exit code {process.exitcode}: the system may have ended it for "
                           f"its memory, or its code has crashed; num_workers=0 shows where")


def _end(owner: int, processes: list[Any], pipes: list[Connection]) -> None:
    """Close the pipes, which ends workers after what they are at, and kill those that do not end.
    Not in a child that was forked."""
    if os.getpid() != owner:
        return
    for pipe in pipes:
        with suppress(OSError, ValueError):
            pipe.close()
    until = monotonic() + PATIENCE
    for process in processes:
        process.join(max(0.0, until - monotonic()))
        if process.is_alive():
            process.terminate()
            process.join(1.0)
        if process.is_alive():
            process.kill()
            process.join()


def context_of(given: Any) -> Any:
    """A multiprocessing context of a name, None or a context. None is what the program chose, or
    else forks on Linux: Python 3.14 starts other processes there, to which a loader's data set is
    pickled, as forks of programs with threads may hang; lazyten's own threads mind no fork."""
    if isinstance(given, str):
        return multiprocessing.get_context(given)
    if given is None and sys.platform == "linux" and \
            multiprocessing.get_start_method(allow_none=True) is None:
        return multiprocessing.get_context("fork")
    return multiprocessing.get_context() if given is None else given
