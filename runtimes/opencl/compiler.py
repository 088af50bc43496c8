"""OpenCL programs are compiled by processes of their own, which a driver may end.

A driver's compiler runs in the process that calls it, and some end it: LLVM aborts on what it
cannot select, and any of them has bugs. So compile_worker.py calls it, and what comes back
is a binary, which the user's process hands to the driver. Several processes compile parts of a
build at once. They are started when kernels are generated, and kept for the next build. In: texts
of programs and the options. Out: their binaries and logs. Called by programs.py.
"""
from __future__ import annotations

import os
import selectors
import signal
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import suppress
from typing import NamedTuple
from weakref import finalize

from lazyten.runtimes.opencl.compile_worker import BUILT, write
from lazyten.support import forking
from lazyten.support.disk_cache import unpack
from lazyten.support.threads import usable_cores

COMMAND = (sys.executable, "-m", "lazyten.runtimes.opencl.compile_worker")
"""What is started, with the number of the device behind it."""
MOST = 4
"""Processes at most: each takes a few hundred megabytes."""
START_SECONDS = 120.0
PROGRAM_SECONDS = 300.0
"""How long a start and a program may take."""
MOST_BYTES = 1 << 20
"""Of what a process printed, that messages are made of."""


class Binary(NamedTuple):
    """A compiled program, and what the compiler said."""

    code: bytes
    log: str


class UnavailableError(Exception):
    """No process could be started: whoever asks compiles by itself."""


class RefusedError(Exception):
    """The compiler refuses the program, and says why."""


class EndedError(Exception):
    """The compiler ended its process, or did not return."""


class Compiler:
    """The processes that compile for one device. `identity` says which, see devices.py."""

    def __init__(self, index: int, identity: str) -> None:
        self.index, self.identity = index, identity
        self.count = min(MOST, usable_cores())
        self._lock = forking.lock()
        self._workers: list[_Worker] = []
        self._owner = os.getpid()

    def start(self, count: int) -> None:
        """Start what lacks to so many processes; does not wait for them. UnavailableError."""
        with self._lock:
            if self._owner != os.getpid():  # a fork has the pipes of its parent's
                self._owner, self._workers = os.getpid(), []
            self._workers = [w for w in self._workers if w.process.poll() is None]
            while len(self._workers) < min(count, self.count):
                self._workers.append(_Worker(self.index))

    def compile(self, texts: Sequence[str], options: Sequence[str]) -> list[Binary]:
        """Compile programs, not more than `count`, at once.

        RefusedError or EndedError for the first that cannot be compiled, UnavailableError if there
        is no process for this device.
        """
        with self._lock:
            self.start(len(texts))
            asked = [(worker, worker.answers, [text, *options])
                     for worker, text in zip(self._workers, texts, strict=False)]
            for worker, _, parts in asked:
                worker.ask(parts)
            answers = [self._answer(*request) for request in asked]
        for answer in answers:
            if isinstance(answer, Exception):
                raise answer
        return [answer for answer in answers if isinstance(answer, Binary)]

    def _answer(self, worker: _Worker, before: int, parts: list[str]) -> Binary | Exception:
        """What a process answers, or a new one in place of one that was idle and has ended."""
        try:
            return worker.answer(self.identity)
        except EndedError as error:
            if not before or worker.is_late:
                return error
        except (UnavailableError, RefusedError) as error:
            return error
        self._workers.remove(worker)
        try:
            new = _Worker(self.index)
            self._workers.append(new)
            new.ask(parts)
            return new.answer(self.identity)
        except (UnavailableError, RefusedError, EndedError) as error:
            return error


class _Worker:
    """One process. After an EndedError it is gone; is_late: because it did not return. answers:
    how many it has given."""

    def __init__(self, index: int) -> None:
        if os.name != "posix":  # nothing waits for a pipe with a limit
            raise UnavailableError
        paths = os.pathsep.join(os.path.abspath(p) for p in sys.path)
        try:
            self.said = tempfile.TemporaryFile()  # noqa: SIM115 (as long as the process)
            self.process = subprocess.Popen(
                [*COMMAND, str(index)], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                stderr=self.said, env={**os.environ, "DEBUG": "0", "PYTHONPATH": paths})
        except OSError as error:
            raise UnavailableError from error
        self.identity: str | None = None
        self.is_late, self.answers = False, 0
        finalize(self, _end, self.process, os.getpid())

    def ask(self, parts: Sequence[str]) -> None:
        """Send a request; whether it arrives, the answer shows."""
        assert self.process.stdin is not None
        with suppress(OSError):
            write(self.process.stdin, [part.encode() for part in parts])  # type: ignore[arg-type]

    def answer(self, identity: str) -> Binary:
        """The answer to the request. UnavailableError if this is no process for that device."""
        if self.identity is None:
            try:
                name, = self._read(START_SECONDS)
            except EndedError as error:
                raise UnavailableError from error
            self.identity = name.decode()
        if self.identity != identity:
            self.process.kill()
            raise UnavailableError
        kind, result, *log = self._read(PROGRAM_SECONDS)
        self.answers += 1
        if kind != BUILT:
            raise RefusedError(result.decode())
        return Binary(result, log[0].decode())

    def _read(self, seconds: float) -> list[bytes]:
        end = time.monotonic() + seconds
        size, = struct.unpack("<Q", self._bytes(8, end, seconds))
        parts = unpack(self._bytes(size, end, seconds))
        if parts is None:
            raise self._ended("said what nobody understands")
        return parts

    def _bytes(self, size: int, end: float, seconds: float) -> bytes:
        """So many bytes of its output, or an EndedError."""
        assert self.process.stdout is not None
        data = bytearray()
        with selectors.DefaultSelector() as selector:
            selector.register(self.process.stdout, selectors.EVENT_READ)
            while len(data) < size:
                if not selector.select(max(end - time.monotonic(), 0)):
                    self.is_late = True
                    raise self._ended(f"did not return within {seconds:g} s")
                part = os.read(self.process.stdout.fileno(), size - len(data))
                if not part:
                    raise self._ended("ended the process that called it")
                data += part
        return bytes(data)

    def _ended(self, how: str) -> EndedError:
        """The error for a process that is of no more use, with its driver's last words."""
        with suppress(subprocess.TimeoutExpired):
            self.process.wait(0 if self.is_late else 5)
        code = self.process.returncode
        self.process.kill()
        self.process.wait()
        if code is not None and code < 0:
            with suppress(ValueError):
                how += f" ({signal.Signals(-code).name})"
        self.said.seek(0)
        words = last_words(self.said.read(MOST_BYTES).decode(errors="replace"))
        return EndedError(f"{how}{f': {words:.300}' if words else ''}")


def last_words(said: str) -> str:
    """The line that says what went wrong, which a trace may follow; or the last."""
    lines = [line.strip() for line in said.splitlines() if line.strip()]
    errors = [line for line in lines if "error" in line.lower() or "assert" in line.lower()]
    return next(iter(errors or lines[-1:]), "")


def _end(process: subprocess.Popen[bytes], owner: int) -> None:
    """End a process that this one has started."""
    if os.getpid() != owner:
        return
    process.kill()
    process.wait()
    for pipe in (process.stdin, process.stdout):
        if pipe is not None:
            with suppress(OSError):
                pipe.close()
