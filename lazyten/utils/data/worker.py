"""The process that makes batches, and what is known in it: `get_worker_info`.

It reads tasks from its pipe and writes batches to it, by a thread, so it always reads on. It ends
when its pipe is closed, when its parent is gone, and, quietly, at Ctrl-C.
"""
from __future__ import annotations

import os
import queue
import random
import signal
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection
from typing import Any

import numpy as np

from lazyten.random import manual_seed
from lazyten.support.threads import set_num_threads
from lazyten.utils.data.fetching import Source
from lazyten.utils.data.transport import Failure, Stop, packed, unpacked

LOOK = 2.0
"""Seconds between looks at whether the parent is still there."""


@dataclass(frozen=True, slots=True)
class WorkerInfo:
    """What a worker knows: which it is of how many, its seed, and its copy of the data set."""

    id: int
    num_workers: int
    seed: int
    dataset: Any


_info: WorkerInfo | None = None


def get_worker_info() -> WorkerInfo | None:
    """In a worker process of a DataLoader what it knows, None elsewhere."""
    return _info


@dataclass(frozen=True, slots=True)
class Task:
    """A batch to make, by its place in the order of all."""

    place: int
    indices: Any


@dataclass(frozen=True, slots=True)
class Again:
    """Begin another iteration: round number, of the data set from its beginning."""

    round: int


@dataclass(frozen=True, slots=True)
class Order:
    """What a worker has to do."""

    source: Source
    number: int
    workers: int
    base_seed: int
    init: Callable[[int], Any] | None

    def begin(self) -> None:
        """Be worker `number`: seeds, threads, and what the user wants done first."""
        global _info
        seed = self.base_seed + self.number
        random.seed(seed)
        manual_seed(seed)
        np.random.seed(np.random.SeedSequence([self.base_seed, self.number]).generate_state(4))
        set_num_threads(1)
        _info = WorkerInfo(self.number, self.workers, seed, self.source.dataset)
        if self.init is not None:
            self.init(self.number)

    @property
    def where(self) -> str:
        """The worker in errors."""
        return f"in DataLoader worker process {self.number}"


class _Worker:
    def __init__(self, order: Order, pipe: Connection) -> None:
        self.order, self.pipe, self.parent = order, pipe, os.getppid()
        self.round = 0
        self.fetch: Callable[[Any], Any] | None = None
        self.failure: Failure | None = None
        self.results: queue.SimpleQueue[bytes] = queue.SimpleQueue()
        self.sender = threading.Thread(target=self._send, daemon=True)
        self.is_heard = True

    def run(self) -> None:
        self.sender.start()
        try:
            self.order.begin()
        except Exception as error:
            self.failure = Failure.of(error, self.order.where)
        while True:
            while not self.pipe.poll(LOOK):
                if os.getppid() != self.parent:
                    return
            message = unpacked(self.pipe.recv_bytes())
            if not self.is_heard:
                return
            if isinstance(message, Again):
                self.round, self.fetch = message.round, None
            else:
                self.results.put(self._answer(message))

    def _answer(self, task: Task) -> bytes:
        """A batch, packed; or the error of making or packing it."""
        try:
            made = self._made(task)
            return packed((self.round, task.place, made))
        except Exception as error:
            return packed((self.round, task.place, Failure.of(error, self.order.where)))

    def _made(self, task: Task) -> Any:
        if self.failure is not None:
            return self.failure
        if self.fetch is None:
            self.fetch = self.order.source.fetcher()
        try:
            return self.fetch(task.indices)
        except StopIteration:
            if self.order.source.iterable:
                return Stop()
            raise

    def _send(self) -> None:
        try:
            while True:
                self.pipe.send_bytes(self.results.get())
        except OSError:  # nobody listens any more
            self.is_heard = False


def work(order: Order, pipe: Connection, inherited: Sequence[Connection]) -> None:
    """What a worker process does. inherited: the parent's ends of pipes that a fork has copied: as
    long as they are open nobody can tell that the parent has closed its own."""
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)  # finalizers swallow exceptions
    with suppress(KeyboardInterrupt, EOFError, OSError):
        for other in inherited:
            other.close()
        _Worker(order, pipe).run()
