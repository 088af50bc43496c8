"""Campaigns in child processes: a program may end the process that runs it, as a driver's compiler
that aborts does, or stray code. That is a finding, and the next process goes on after it.

`run` starts a process at a time and hands on what it finds. A child says which programs it is about
to run; if that is the last it says, each of them is run by a process of its own, so that the
finding names the program.
"""
from __future__ import annotations

import gc
import resource
import signal
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from multiprocessing import get_context
from multiprocessing.connection import Connection
from typing import Any

from fuzz.campaign import Campaign, Finding, Report
from fuzz.comparison import Difference
from fuzz.program import Program

Numbered = tuple[int, Program]
GIGABYTES = 6
"""A process may hold that many; a program that wants more ends in a MemoryError, which is told."""
SECONDS = 300
"""Of the processor, which a batch may take before it is ended: its programs' own limits do not
reach code that never returns to Python."""
SILENCE = 1800
"""Seconds without a word after which a process is taken for hung."""


@dataclass(frozen=True)
class Settings:
    """What makes a campaign: `make(device, seed, longest, together, small)`, importable by name."""

    device: str
    seed: int = 0
    longest: int = 10
    together: int = 6
    small: float = 0.0
    make: Callable[[str, int, int, int, float], Campaign] = Campaign

    def campaign(self, together: int) -> Campaign:
        return self.make(self.device, self.seed, self.longest, together, self.small)


def run(settings: Settings, numbers: Sequence[int],
        goes_on: Callable[[Report], bool] = lambda report: True) -> Iterator[Finding]:
    """Run the programs of these numbers as long as `goes_on`, giving what is found; it is asked
    after each batch, and given what was done since it was asked last."""
    done = 0
    while done < len(numbers):
        child = _Child(settings, numbers[done:], settings.together)
        reached = 0
        for kind, value in child.messages():
            if kind == "finding":
                yield value
            elif kind == "report":
                reached += value.programs
                if not goes_on(value):
                    child.end()
                    return
        if child.complete:
            return
        done += reached + len(child.batch)
        yield from _each_alone(settings, child, goes_on)
        if not child.batch or not goes_on(Report()):  # without a batch, it could not even start
            return


def _each_alone(settings: Settings, died: _Child,
                goes_on: Callable[[Report], bool]) -> Iterator[Finding]:
    """Run the programs of a batch that ended its process, each in one of its own."""
    fatal = False
    for number, program in died.batch:
        child = _Child(settings, [number], 1)
        for kind, value in child.messages():
            if kind == "finding":
                yield value
            else:
                goes_on(value)
        if not child.complete:
            fatal = True
            yield from _ended(settings, number, program, child.ending, goes_on)
    if not fatal:
        numbers = [n for n, _ in died.batch]
        number, program = died.batch[0] if died.batch else (-1, Program((), ()))
        yield from _ended(settings, number, program,
                          f"{died.ending}, only when {numbers} run together", goes_on)


def _ended(settings: Settings, number: int, program: Program, ending: str,
           goes_on: Callable[[Report], bool]) -> Iterator[Finding]:
    rows = [s.row for s in program.statements]
    finding = Finding(number, ("expected", settings.device), program, Difference(
        rows[-1] if rows else "", "end of the process", "a result or an error", ending))
    goes_on(Report(programs=1, findings=[finding]))
    yield finding


class _Child:
    """A process that runs programs. batch: those it ran last, so far as it said."""

    def __init__(self, settings: Settings, numbers: Sequence[int], together: int) -> None:
        context = get_context("spawn")
        self._from, to = context.Pipe(duplex=False)
        self.batch: list[Numbered] = []
        self.complete = False
        self.ending = ""
        self._process = context.Process(target=_work, args=(to, settings, numbers, together),
                                        daemon=True)
        self._process.start()
        to.close()

    def messages(self) -> Iterator[tuple[str, Any]]:
        """What it says, until it ends."""
        try:
            while self._from.poll(SILENCE):
                kind, value = self._from.recv()
                if kind == "batch":
                    self.batch = value
                elif kind == "complete":
                    self.complete = True
                else:
                    self.batch = [] if kind == "report" else self.batch
                    yield kind, value
            self.ending = f"nothing heard for {SILENCE} s"
        except EOFError:
            self._process.join(SILENCE)
        self.end()
        code = self._process.exitcode or 0
        self.ending = self.ending or (f"exit status {code}" if code >= 0 else
                                      signal.Signals(-code).name)

    def end(self) -> None:
        """End the process if it still runs."""
        self._process.kill()
        self._process.join()


def _work(to: Connection, settings: Settings, numbers: Sequence[int], together: int) -> None:
    """What a child does: a batch at a time."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent ends it
    resource.setrlimit(resource.RLIMIT_DATA, (GIGABYTES << 30, GIGABYTES << 30))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    campaign = settings.campaign(together)
    gc.freeze()  # what libraries are made of is not walked again and again
    gc.set_threshold(20_000, 20, 20)
    campaign.begins = lambda programs: to.send(("batch", programs))
    for start in range(0, len(numbers), together):
        used = resource.getrusage(resource.RUSAGE_SELF)
        resource.setrlimit(resource.RLIMIT_CPU, (
            int(used.ru_utime + used.ru_stime) + SECONDS, resource.RLIM_INFINITY))
        for finding in campaign.run(numbers[start:start + together]):
            to.send(("finding", finding))
        to.send(("report", campaign.report))
        campaign.report = Report()
    to.send(("complete", None))
