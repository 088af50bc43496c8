"""The search for better decisions for one kernel, within a time limit.

In: a kernel, and a `Worker` that compiles and times candidates in another process. Out: a `Found`.
From the kernel's own decisions it walks to better ones as long as it finds any, and what it gives
has been timed once more against the kernel as it was. Called by tuning.py.
"""
from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

from lazyten.execution.trial import Trial
from lazyten.ir.kernel import Given, Kernel, to_plain
from lazyten.support.threads import get_num_threads
from lazyten.tuning.tuning_process import WorkerError

LEAST_GAIN = 0.03
"""Candidates that save less than this share of the time are not worth a line in a file."""
TRIAL_SECONDS = 0.03
FINAL_SECONDS = 0.2
LONGER = 4
"""What looks faster is timed so much longer before it is believed."""
LONGEST_TRIAL = 5.0
"""A candidate that has not been compiled, checked and timed by then has hung."""
MOST_FAILURES = 3
"""After so many candidates that ended the worker, a kernel is left alone."""


class CandidateRunner(Protocol):
    """What answers requests: a Worker, or a stand-in for one in tests."""

    starts: int

    def ask(self, seconds: float, *request: Any) -> Any:
        """The answer, or WorkerError if there is none within `seconds`."""


@dataclass(slots=True)
class Found:
    """What came of one kernel.

    before, after: seconds a launch, timed in turns at the end. decisions: those that are faster;
    empty if none are. tried: how many were. problems: what was wrong with candidates that were not
    even timed, by their decisions.
    """

    before: float
    after: float
    decisions: str = ""
    tried: int = 0
    problems: dict[str, str] = field(default_factory=dict)


class Search:
    """One kernel's search. seconds: what a launch of it takes, as far as known. enough: when to
    stop trying; deadline: when to have stopped, as time.perf_counter() gives it. progress: called
    before each trial."""

    def __init__(self, worker: CandidateRunner, device: str, kernel: Kernel, seconds: float,
                 enough: float, deadline: float, progress: Callable[[], None]) -> None:
        self.worker, self.device, self.kernel = worker, device, kernel
        self.enough, self.deadline, self.progress = enough, deadline, progress
        self.opened = -1
        self.failures = 0
        self.found = Found(seconds, seconds)

    def run(self) -> Found:
        """Search until the deadline, or until there is nothing left to try."""
        try:
            self._walk()
        except WorkerError as error:
            self.found.problems["the kernel as it is"] = str(error)
        return self.found

    def _walk(self) -> None:
        best, ratio = "", 1 - LEAST_GAIN
        queue = self._candidates(best)
        seen = set(queue)
        stop = min(self.enough, self.deadline - FINAL_SECONDS - 100 * self.found.before)
        while queue and time.perf_counter() < stop and self.failures < MOST_FAILURES:
            line = queue.pop(0)
            self.found.tried += 1
            reached = self._ratio(line, ratio)
            if reached < ratio:
                best, ratio = line, reached
                fresh = [c for c in self._candidates(best) if c not in seen]
                seen.update(fresh)
                queue = fresh + queue
        if best:
            self._confirm(best)

    def _ratio(self, line: str, wanted: float) -> float:
        """How long a candidate takes in relation to the kernel as it is; infinity if it is wrong.
        """
        trial = self._trial(line, TRIAL_SECONDS)
        if trial.after < wanted * trial.before:
            trial = self._trial(line, LONGER * TRIAL_SECONDS)
        if trial.problem:
            self.found.problems[line] = trial.problem
            return math.inf
        return trial.after / trial.before

    def _confirm(self, best: str) -> None:
        trial = self._trial(best, FINAL_SECONDS)
        if not trial.problem and trial.after < (1 - LEAST_GAIN) * trial.before:
            self.found.before, self.found.after = trial.before, trial.after
            self.found.decisions = best

    @property
    def _left(self) -> float:
        return self.deadline - time.perf_counter()

    def _ask(self, *request: Any) -> Any:
        """Ask about this kernel; opens it first in a worker that does not know it."""
        if self.opened != self.worker.starts or self.worker.starts == 0:
            self.worker.ask(self._left, "open", self.device, to_plain(self.kernel),
                            get_num_threads())
            self.opened = self.worker.starts
        longest = LONGEST_TRIAL + 100 * self.found.before
        return self.worker.ask(min(self._left, longest), *request)

    def _candidates(self, line: str) -> list[str]:
        if not line:
            return list(self._ask("candidates", to_plain(self.kernel)))
        decided = replace(self.kernel, decisions=Given(line))
        try:
            return list(self._ask("candidates", to_plain(decided)))
        except WorkerError:
            return []

    def _trial(self, line: str, seconds: float) -> Trial:
        self.progress()
        try:
            trial: Trial = self._ask("trial", line, seconds)
        except WorkerError as error:
            self.failures += 1
            return Trial(problem=str(error))
        return trial
