"""`lt.profile`: what runs within a block, and how long that takes, as tables and as a trace."""
from __future__ import annotations

import os

from lazyten.seeing.record import Record
from lazyten.seeing.tables import table
from lazyten.seeing.trace import save
from lazyten.support.paths import path_of


class Profile(Record):
    """What ran within a `with lt.profile() as p` block, in all threads.

    kernels: those that took longest first; lines: likewise. All times are in seconds. What is
    launched is timed kernel by kernel, and a kernel is waited for before the next one is launched;
    without a profile a whole plan may be one native call, and kernels of a GPU overlap with Python.
    """

    def table(self, limit: int = 20) -> str:
        """The profile as text: what the block's time went to, the kernels and the lines that took
        longest, at most `limit` of each. docs/seeing.md explains the columns."""
        return table(self, limit)

    def save_trace(self, path: str | os.PathLike[str]) -> None:
        """Write a trace for https://ui.perfetto.dev or chrome://tracing: JSON trace events, with a
        row for each thread and for each device's kernels, and the memory in use."""
        save(self.events, self._start, path_of(path, "save_trace", "a file"))


def profile() -> Profile:
    """What runs within a block, by kernel and by line, and what else its time goes to.

        with lt.profile() as p:
            train_step(x, y)
        print(p.table())
        p.save_trace("trace.json")

    Values are computed when they are looked at, so what counts is what is computed inside. All
    threads and devices are seen; kernels are waited for one by one meanwhile.
    """
    return Profile()
