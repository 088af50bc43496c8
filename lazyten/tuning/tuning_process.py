"""A worker process that may be asked anything: it is ended if it takes too long, and started again.

Called by tuning.py; tuning_worker.py is the other end.
"""
from __future__ import annotations

import os
import pickle
import queue
import subprocess
import sys
import threading
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

COMMAND = (sys.executable, "-m", "lazyten.tuning.tuning_worker")


class WorkerError(Exception):
    """A request had no answer: it failed, or its process ended or was ended."""


class Worker:
    """Starts with the first request. starts: how many processes there have been."""

    def __init__(self, command: Sequence[str] = COMMAND) -> None:
        self.command, self.starts = command, 0
        self._process: subprocess.Popen[bytes] | None = None

    def ask(self, seconds: float, *request: Any) -> Any:
        """The answer to a request. WorkerError if there is none within `seconds`."""
        process = self.start()
        replies: queue.SimpleQueue[Any] = queue.SimpleQueue()
        threading.Thread(target=_exchange, args=(process, request, replies), daemon=True).start()
        try:
            reply = replies.get(timeout=max(seconds, 0.001))
        except queue.Empty:
            self.stop()
            raise WorkerError(f"no answer within {seconds:.1f} s") from None
        if reply is None:
            self.stop()
            raise WorkerError(f"the process ended with code {process.returncode}")
        done, value = reply
        if not done:
            raise WorkerError(value)
        return value

    def start(self) -> subprocess.Popen[bytes]:
        """The process, a new one if there is none."""
        if self._process is None:
            self.starts += 1
            self._process = subprocess.Popen(
                self.command, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL, env=_environment())
        return self._process

    def stop(self) -> None:
        """End the process."""
        process, self._process = self._process, None
        if process is not None:
            process.kill()
            process.wait()
            for pipe in (process.stdin, process.stdout):
                with suppress(OSError, AttributeError):
                    pipe.close()  # type: ignore[union-attr]  # both are there


def _exchange(process: subprocess.Popen[bytes], request: tuple[Any, ...],
              replies: queue.SimpleQueue[Any]) -> None:
    """Send and receive in a thread: either may wait for a process that does not go on."""
    assert process.stdin is not None and process.stdout is not None
    try:
        pickle.dump(request, process.stdin)
        process.stdin.flush()
        replies.put(pickle.load(process.stdout))
    except (OSError, EOFError, ValueError, pickle.UnpicklingError):
        replies.put(None)


def _environment() -> dict[str, str]:
    """This process's, but for what it prints, keeps on disk and decides; modules are found where
    this process finds them."""
    settings = {"DEBUG": "0", "LAZYTEN_PRINT_AFTER": "", "LAZYTEN_CACHE": "0",
                "LAZYTEN_DECISIONS": ""}
    paths = os.pathsep.join(os.path.abspath(p) for p in sys.path)
    return {**os.environ, **settings, "PYTHONPATH": paths}
