"""The process that compiles and times candidates: `python -m lazyten.tuning.tuning_worker`.

Requests come pickled on standard input and replies go pickled to standard output, so that the
process that tunes outlives a candidate that hangs or crashes. tuning_process.py starts it.
"""
from __future__ import annotations

import os
import pickle
import sys
from collections.abc import Callable
from typing import Any

from lazyten.execution.trial import Bench, Trial
from lazyten.ir.kernel import Plain, from_plain
from lazyten.support.threads import set_num_threads


class Handler:
    """Answers requests about one kernel at a time."""

    def __init__(self) -> None:
        self.bench: Bench | None = None

    def answer(self, request: str, *arguments: Any) -> Any:
        """Do what is asked; requests are named after the methods below."""
        answers: dict[str, Callable[..., Any]] = {
            "open": self.open, "candidates": self.candidates, "trial": self.trial}
        return answers[request](*arguments)

    def open(self, device: str, plain: Plain, threads: int) -> None:
        """Take a kernel; the others are about it."""
        if self.bench is not None:
            self.bench.close()
        set_num_threads(threads)
        self.bench = Bench(device, from_plain(plain))

    def candidates(self, plain: Plain) -> list[str]:
        """Decisions worth a trial in place of those that this kernel has."""
        assert self.bench is not None
        return self.bench.executor.candidates(from_plain(plain))

    def trial(self, line: str, seconds: float) -> Trial:
        """Check and time decisions."""
        assert self.bench is not None
        return self.bench.trial(line, seconds)


def main() -> None:
    """Answer until standard input ends."""
    replies = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what is printed does not get among the replies
    handler = Handler()
    while True:
        try:
            request = pickle.load(sys.stdin.buffer)
        except EOFError:
            return
        try:
            reply = True, handler.answer(*request)
        except Exception as error:
            reply = False, f"{type(error).__name__}: {error}"
        pickle.dump(reply, replies)
        replies.flush()


if __name__ == "__main__":
    main()
