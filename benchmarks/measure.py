"""Interleaved timing: every round times each framework once, so that drift hits all alike.

`measure` takes one case and the frameworks' runners (worker.py) and gives a `Row`; table.py prints
rows. Nothing here knows what is being timed.
"""
from __future__ import annotations

import math
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Protocol

PAUSE_S = 0.1  # between threaded frameworks: idle threads of OpenBLAS spin for 2**26 cycles
FEWEST = 3  # rounds of a slow framework
NOT_WRITTEN = "not written"  # in place of a Timing: an empty cell, and nothing went wrong


class Timer(Protocol):
    """What `measure` needs of a runner."""

    def prepare(self, name: str) -> str:
        """Set up a case: '' or what went wrong."""

    def time(self, loops: int) -> float:
        """Seconds for one call, the mean of `loops`; NaN when it failed."""


@dataclass(frozen=True)
class Timing:
    """Seconds of one call, one sample a round."""

    samples: tuple[float, ...]

    @property
    def median(self) -> float:
        """The figure to compare."""
        return statistics.median(self.samples)

    @property
    def minimum(self) -> float:
        """The figure that other programs on the machine disturbed least."""
        return min(self.samples)


@dataclass(frozen=True)
class Row:
    """One line of the table: a Timing for each framework, or text that says why there is none."""

    name: str
    results: Mapping[str, Timing | str]
    work: float = 0
    unit: str = ""


def rotated(names: Sequence[str], by: int) -> list[str]:
    """`names` starting at another one each round, so that none always goes first."""
    by %= max(len(names), 1)
    return [*names[by:], *names[:by]]


def calibrate(timer: Timer, turn_s: float) -> tuple[int, float]:
    """How many calls fill `turn_s` seconds, at least one, and about how long they take."""
    seconds = timer.time(1)
    if seconds * 10 < turn_s:  # one call is mostly noise
        seconds = timer.time(10)
    loops = max(1, int(turn_s / seconds)) if seconds > 0 else 1  # false for NaN too
    return loops, loops * seconds


def enough(rounds: int, turn_s: float, seconds: float) -> int:
    """Rounds for a framework whose turn takes `seconds`: fewer if that is much over `turn_s`."""
    within = int(rounds * turn_s * 2 / seconds) if seconds > 0 else rounds
    return min(rounds, max(FEWEST, within))


def interleave(samplers: Mapping[str, Callable[[], float]], rounds: Mapping[str, int],
               pause_s: float = 0.0) -> dict[str, Timing | str]:
    """Call each sampler once a round, up to its `rounds`; one that gave NaN has 'failed'."""
    samples: dict[str, list[float]] = {name: [] for name in samplers}
    for i in range(max(rounds.values(), default=0)):
        for name in rotated([name for name in samplers if i < rounds[name]], i):
            time.sleep(pause_s)
            samples[name].append(samplers[name]())
    return {name: "failed" if any(map(math.isnan, values)) else Timing(tuple(values))
            for name, values in samples.items()}


def measure(name: str, timers: Mapping[str, Timer], rounds: int, turn_s: float,
            pause_s: float = 0.0, parts: int = 1) -> dict[str, Timing | str]:
    """Prepare a case everywhere, then time in turns of about `turn_s` seconds those that are right.

    `parts` is how many of what is reported one call does.
    """
    problems = {framework: timer.prepare(name) for framework, timer in timers.items()}
    samplers, turns = {}, {}
    for framework, timer in timers.items():
        if not problems[framework]:
            loops, seconds = calibrate(timer, turn_s / parts)
            samplers[framework] = partial(timer.time, loops)
            turns[framework] = enough(rounds, turn_s, seconds * parts)
    timed = interleave(samplers, turns, pause_s)
    return {framework: timed.get(framework, problem) for framework, problem in problems.items()}


@dataclass(frozen=True)
class Repeated:
    """A runner of one function of this process."""

    call: Callable[[], object]

    def prepare(self, name: str) -> str:
        """Call it once, as what it compiles is not timed."""
        self.call()
        return ""

    def time(self, loops: int) -> float:
        """Seconds for one call, the mean of `loops`."""
        began = time.perf_counter()
        for _ in range(loops):
            self.call()
        return (time.perf_counter() - began) / loops


def least(calls: Sequence[Callable[[], object]], rounds: int, turn_s: float,
          pause_s: float = 0.0) -> list[float]:
    """The least seconds of each call, in turns of about `turn_s` seconds."""
    timed = measure("", {str(i): Repeated(call) for i, call in enumerate(calls)}, rounds, turn_s,
                    pause_s)
    return [found.minimum for found in timed.values() if isinstance(found, Timing)]
