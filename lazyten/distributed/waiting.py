"""Waiting for other ranks, for a limited time; and who is missing when it is over.

While a rank waits it looks for notes of ranks that have given up, and answers where it is itself.
So a rank whose time is over knows a moment later who waits for something else, and who does not
answer: that one computes, sleeps, or is gone.
"""
from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np

from lazyten.distributed.job import Job
from lazyten.support.errors import DistributedError

QUICK, SPINS = 300, 2000
"""A rank looks so often without giving way to other processes, and without a pause."""
PAUSES = 50e-6, 1e-3
"""Seconds between later looks: the first, and the longest."""
GRACE = 2.0
"""Seconds to wait for answers."""
WORDS = 256
"""Bytes of a note."""


def wait_until(done: Callable[[], bool], job: Job, ranks: tuple[int, ...], words: str) -> None:
    """Return once `done()`. ranks: those that take part, by their numbers in the job; words: what
    is waited for, and where. DistributedError at the end of the time limit, and where another rank
    has given up."""
    spins, pause, began = 0, PAUSES[0], time.monotonic()
    while not done():
        spins += 1
        if spins < SPINS:
            if spins > QUICK:
                time.sleep(0)
            continue
        time.sleep(pause)
        pause = min(pause * 1.1, PAUSES[1])
        if time.monotonic() - began > job.limit:
            raise job.fail(_missing(job, ranks, words))
        note = _received(job, words)
        if note is not None:
            _let_speak(job, words)
            raise job.fail(DistributedError(f"rank {job.rank} waits in {words}, but rank {note[0]} "
                                            f"has given up waiting in {note[1]}"))


def _missing(job: Job, ranks: tuple[int, ...], words: str) -> DistributedError:
    """The error that says who did not come."""
    others = [rank for rank in ranks if rank != job.rank]
    sent = [job.notes.Isend(_bytes(words), rank, tag=0) for rank in others]
    found: dict[int, str] = {}
    began = time.monotonic()
    while len(found) < len(others) and time.monotonic() - began < GRACE:
        note = _received(job, None)
        if note is None:
            time.sleep(PAUSES[1])
        else:
            found[note[0]] = note[1]
    for request in sent:
        request.Test()
    silent = [rank for rank in others if rank not in found]
    lines = [f"{_ranks(silent)} gave no sign within the time limit"] if silent else []
    lines += [f"rank {rank} is in {found[rank]}" for rank in sorted(found)]
    return DistributedError(f"rank {job.rank} has waited {job.limit:g} s in {words}: "
                            f"{'; '.join(lines)}. A rank that is slow needs "
                            f"distributed.init(timeout=...)")


def _let_speak(job: Job, words: str) -> None:
    """Wait until the rank that has given up first knows who is missing, and has said so: an error
    here would end the job before."""
    began = time.monotonic()
    while time.monotonic() - began < 2 * GRACE:
        _received(job, words)
        time.sleep(PAUSES[1])


def _ranks(numbers: list[int]) -> str:
    return f"rank {numbers[0]}" if len(numbers) == 1 else f"ranks {', '.join(map(str, numbers))}"


def _received(job: Job, answer: str | None) -> tuple[int, str] | None:
    """A note of another rank, and who wrote it; it gets the answer."""
    status = job.mpi.Status()
    if not job.notes.Iprobe(job.mpi.ANY_SOURCE, job.mpi.ANY_TAG, status):
        return None
    text = np.empty(WORDS, np.uint8)
    job.notes.Recv(text, status.Get_source(), status.Get_tag())
    if answer is not None:
        job.notes.Isend(_bytes(answer), status.Get_source(), tag=1)
    return status.Get_source(), text_of(text)


def _bytes(words: str) -> np.ndarray[Any, Any]:
    return np.frombuffer(words.encode()[:WORDS].ljust(WORDS, b"\0"), np.uint8).copy()


def text_of(note: np.ndarray[Any, Any]) -> str:
    """The words of a note."""
    return note.tobytes().rstrip(b"\0").decode(errors="replace")


note_of = _bytes
