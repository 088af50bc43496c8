"""lt.tune and lt.load_decisions: better decisions for kernels, from this machine or from a file.

In: a function to make faster. Out: a `TuningReport`; the decisions found are in use from then on.
Candidates come from the device's runtime, and run in a process of their own (tuning_search.py).
"""
from __future__ import annotations

import os
import sys
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, TextIO

from lazyten.devices.program import Program
from lazyten.execution.plans.making import rebuild_plans
from lazyten.execution.realization import realize
from lazyten.execution.trial import Bench
from lazyten.frontend.tensor import Tensor
from lazyten.ir.collective import collective_of
from lazyten.ir.kernel import Given, Kernel
from lazyten.storage import tracing
from lazyten.storage.device import executor
from lazyten.support.errors import ArgumentError
from lazyten.support.observers import OnRun, Plan, told
from lazyten.support.trees import flatten
from lazyten.tuning import records
from lazyten.tuning.tuning_process import Worker
from lazyten.tuning.tuning_search import CandidateRunner, Found, Search

try:
    from tqdm import tqdm
except ImportError:
    tqdm = None

BAR = "tune {percentage:3.0f}%|{bar:24}| {n:.0f}/{total:.0f} s {desc}"
RANKING_SECONDS = 0.02
"""How long a kernel is timed to find out its share."""
LEAST_SECONDS = 1.0
"""A kernel that is searched at all is searched for so long, should its share be less."""


def load_decisions(path: str | os.PathLike[str]) -> int:
    """Use a file's decisions, which `lt.tune` writes, for all kernels that they are about, those
    in use among them. Gives how many decisions there are.

    Raises ArgumentError, naming file and line, for a line that cannot be read; also for decisions
    that do not fit their kernel, now if that is in use and when it is compiled if not.
    """
    before = records.loaded()
    count = records.load(path)
    try:
        rebuild_plans()
    except BaseException:
        records.restore(before)
        raise
    return count


@dataclass(frozen=True, slots=True)
class Tuned:
    """One kernel of a report. launches: how often the function launches it. See Found."""

    kernel: Kernel
    device: str
    launches: int
    found: Found


class TuningReport:
    """What lt.tune found: `kernels`, those that take most time first; print it to see a table."""

    def __init__(self, kernels: Sequence[Tuned], skipped: int) -> None:
        self.kernels, self.skipped = list(kernels), skipped

    def __str__(self) -> str:
        rows = [f"{'kernel':<32} {'launches':>8} {'tried':>6} {'before us':>10} {'after us':>10}  "
                "decisions"]
        for t in self.kernels:
            found = t.found
            rows.append(f"{t.kernel.name:<32} {t.launches:>8} {found.tried:>6} "
                        f"{found.before * 1e6:>10.1f} {found.after * 1e6:>10.1f}  "
                        f"{found.decisions or '-'}")
        if self.skipped:
            rows.append(f"no time was left for {self.skipped} more")
        return "\n".join(rows)


def tune(fn: Callable[[], Any], seconds: float = 30.0,
         path: str | os.PathLike[str] | None = None) -> TuningReport:
    """Search better decisions for the kernels that `fn()` launches, for about `seconds` seconds
    after one call of it, and use those from then on. With a `path` they are also appended to that
    file, for `lt.load_decisions` and LAZYTEN_DECISIONS.

    Each candidate is compiled, checked and timed in another process, on inputs of its own; one that
    hangs, crashes or gives other results is passed over. Only what saves 3% of a kernel's time or
    more is kept. Raises what fn raises.
    """
    tracing.refuse("lt.tune", "call it outside, with the jitted function as its argument")
    if not callable(fn):
        raise ArgumentError(f"tune({fn!r:.60}): give a function without arguments that computes "
                            "what is to be faster, as in tune(lambda: step(x, y))")
    if isinstance(seconds, bool) or not isinstance(seconds, int | float) or not seconds > 0:
        raise ArgumentError(f"tune(seconds={seconds!r:.60}): give a number of seconds above 0")
    if path is not None:  # better a mistake now than when there is something to append
        records.check_appendable(path)
    launched = launches_of(fn)
    worker = Worker()
    try:
        return search_all(worker, launched, time.perf_counter() + seconds, path, Progress())
    finally:
        worker.stop()


@dataclass(slots=True)
class Launched:
    """A kernel that was launched, with the decisions it has by now if they were given."""

    device: str
    kernel: Kernel
    program: Program
    launches: int = 0


def launches_of(fn: Callable[[], Any]) -> list[Launched]:
    """The kernels that one call launches and that a device has decisions for, each once."""
    plans: Counter[tuple[str, Plan]] = Counter()
    with told(OnRun(lambda device, plan: plans.update([(device, plan)]))):
        leaves, _ = flatten(fn())
        realize([x._storage for x in leaves if isinstance(x, Tensor)])
    found: dict[tuple[str, str], Launched] = {}
    for (device, plan), runs in plans.items():
        target = executor(device).target_label
        for step, program in zip(plan.schedule.steps, plan.programs, strict=True):
            if target and collective_of(step.kernel) is None:
                given = records.given_for(step.kernel, target)
                kernel = replace(step.kernel, decisions=given)
                key = device, records.key_of(kernel)
                found.setdefault(key, Launched(device, kernel, program)).launches += runs
    return list(found.values())


def search_all(worker: CandidateRunner, launched: Sequence[Launched], deadline: float,
               path: str | os.PathLike[str] | None, progress: Progress) -> TuningReport:
    """Search for each kernel, as long as its share of the time that is left; those that take most
    time first."""
    times = {id(k): k.launches * _seconds(k, deadline) for k in launched}
    order = sorted(launched, key=lambda k: -times[id(k)])
    tuned: list[Tuned] = []
    try:
        for number, k in enumerate(order):
            left = deadline - time.perf_counter()
            if left <= 0 or (number and left < LEAST_SECONDS):
                break
            share = times[id(k)] / max(sum(times[id(o)] for o in order[number:]), 1e-9)
            progress.begin(k.kernel.name, number, len(order), deadline)
            enough = time.perf_counter() + max(left * share, LEAST_SECONDS)
            found = Search(worker, k.device, k.kernel, times[id(k)] / k.launches, enough, deadline,
                           progress.show).run()
            tuned.append(Tuned(k.kernel, k.device, k.launches, found))
            _keep(tuned[-1], path)
    finally:
        progress.end()
        rebuild_plans()
    return TuningReport(tuned, len(order) - len(tuned))


def _seconds(k: Launched, deadline: float) -> float:
    """What a launch takes, here and now; nothing once the time is up."""
    left = deadline - time.perf_counter()
    if left <= 0:
        return 0.0
    bench = Bench(k.device, k.kernel, k.program)
    try:
        return bench.own_seconds(min(left, RANKING_SECONDS))
    finally:
        bench.close()


def _keep(tuned: Tuned, path: str | os.PathLike[str] | None) -> None:
    """Use the decisions that were found, and write them down."""
    found = tuned.found
    if not found.decisions:
        return
    target = executor(tuned.device).target_label
    records.use(tuned.kernel, target, Given(found.decisions, "lt.tune"))
    if path is not None:
        records.append(path, tuned.kernel, target, found.decisions,
                         f"{found.before * 1e6:.1f} us before, {found.after * 1e6:.1f} us after")


class Progress:
    """A bar on standard error: nothing if that is no terminal, or tqdm is not installed."""

    def __init__(self, stream: TextIO | None = None) -> None:
        self.start = time.perf_counter()
        self.stream = sys.stderr if stream is None else stream
        self.bar: Any = None

    def begin(self, name: str, number: int, count: int, deadline: float) -> None:
        """A kernel's search begins."""
        if self.bar is None and tqdm is not None:
            self.bar = tqdm(total=deadline - self.start, file=self.stream, disable=None,
                            bar_format=BAR)
        if self.bar is not None:
            self.bar.set_description_str(f"kernel {number + 1} of {count}: {name}", refresh=False)
        self.show()

    def show(self) -> None:
        """Draw the bar anew, if the last time is long ago."""
        if self.bar is not None:
            spent = min(time.perf_counter() - self.start, self.bar.total)
            self.bar.update(spent - self.bar.n)

    def end(self) -> None:
        """Leave the bar's line."""
        if self.bar is not None:
            self.bar.close()
