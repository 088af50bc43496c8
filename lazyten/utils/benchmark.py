"""`lt.utils.benchmark`: how long statements take, under PyTorch's names.

What a statement gives is computed within the time that is taken. Times are in s of the clock.
"""
from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from statistics import fmean, median, quantiles
from textwrap import dedent
from types import CodeType
from typing import Any

from lazyten.frontend.functions import realize
from lazyten.frontend.tensor import Tensor
from lazyten.nn import Module
from lazyten.optim import Optimizer
from lazyten.pytorch.refusals import refused
from lazyten.support.errors import ArgumentError
from lazyten.support.threads import get_num_threads, set_num_threads
from lazyten.support.trees import flatten

globals().update(refused(
    "utils.benchmark", "statements are timed by Timer; lazyten.profile() has what ran by kernel "
    "and by line", "CallgrindStats", "FunctionCount", "FunctionCounts", "FuzzedParameter",
    "FuzzedSparseTensor", "FuzzedTensor", "Fuzzer", "ParameterAlias"))
__all__ = ["Compare", "Measurement", "TaskSpec", "Timer", "select_unit"]
_UNITS = (("s", 1.0), ("ms", 1e-3), ("us", 1e-6), ("ns", 1e-9))
_NAMES = {"s": "seconds", "ms": "milliseconds", "us": "microseconds", "ns": "nanoseconds"}
timer = time.perf_counter


def select_unit(t: float) -> tuple[str, float]:
    """The unit in which a time in s is a number from 1 to 1000, and how many s it is."""
    return next(((name, unit) for name, unit in _UNITS if t >= unit), _UNITS[-1])


@dataclass(frozen=True)
class TaskSpec:
    """What was timed: a statement, and the words by which `Compare` puts it in a table."""

    stmt: str
    setup: str = ""
    global_setup: str = ""
    label: str | None = None
    sub_label: str | None = None
    description: str | None = None
    env: str | None = None
    num_threads: int = 1

    @property
    def title(self) -> str:
        """The label, or the statement, and the row."""
        return (self.label or self.stmt) + (f": {self.sub_label}" if self.sub_label else "")


@dataclass
class Measurement:
    """Times of a statement, in s. raw_times: of `number_per_run` runs each."""

    number_per_run: int
    raw_times: list[float]
    task_spec: TaskSpec
    metadata: dict[Any, Any] = field(default_factory=dict)

    @property
    def times(self) -> list[float]:
        """Of one run each."""
        return [t / self.number_per_run for t in self.raw_times]

    @property
    def mean(self) -> float:
        """Their mean."""
        return fmean(self.times)

    @property
    def median(self) -> float:
        """Their median."""
        return median(self.times)

    @property
    def iqr(self) -> float:
        """How far the middle half of them reaches; 0 of fewer than two."""
        if len(self.raw_times) < 2:
            return 0.0
        low, _, high = quantiles(self.times, n=4, method="inclusive")
        return high - low

    @property
    def has_warnings(self) -> bool:
        """Whether they differ by a tenth and more."""
        return self.iqr > 0.1 * self.median

    @property
    def title(self) -> str:
        """What was timed."""
        return self.task_spec.title

    @property
    def as_row_name(self) -> str:
        """Its row in a table."""
        return self.task_spec.sub_label or self.task_spec.stmt

    @staticmethod
    def merge(measurements: Iterable[Measurement]) -> list[Measurement]:
        """One of each task, with the times of one run of all that are of it."""
        found: dict[TaskSpec, list[float]] = {}
        for m in measurements:
            found.setdefault(m.task_spec, []).extend(m.times)
        return [Measurement(1, times, task) for task, times in found.items()]

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_") or name == "task_spec":
            raise AttributeError(name)
        return getattr(self.task_spec, name)

    def __repr__(self) -> str:
        unit, seconds = select_unit(self.median)
        which = "" if len(self.raw_times) == 1 else "Median: "
        lines = [self.title, self.task_spec.description or "",
                 f"  {which}{self.median / seconds:.2f} {unit}",
                 f"  {len(self.raw_times)} measurement{'s' * (len(self.raw_times) > 1)}, "
                 f"{self.number_per_run} runs each, {self.task_spec.num_threads} "
                 f"thread{'s' * (self.task_spec.num_threads > 1)}"]
        if self.has_warnings:
            lines.append(f"  WARNING: the middle half of the times reaches over "
                         f"{self.iqr / self.median:.0%} of the median")
        return "\n".join(line for line in lines if line)


class Timer:
    """Times a statement of Python. After each run what it gives, if it is an expression, is
    computed, and all tensors of the names that it uses, also in lists and dicts, and those of
    modules and optimizers. What a function leaves elsewhere is not: have it return that.

    setup: is run before; globals: its names; num_threads: how many threads kernels use; label,
    sub_label, description, env: table, row, column and place in it for `Compare`. ArgumentError for
    a statement that is no Python, or of another language."""

    def __init__(self, stmt: str = "pass", setup: str = "pass", global_setup: str = "",
                 timer: Callable[[], float] = timer, globals: Mapping[str, Any] | None = None,
                 label: str | None = None, sub_label: str | None = None,
                 description: str | None = None, env: str | None = None, num_threads: int = 1,
                 language: str = "python") -> None:
        if str(language).lower() not in ("python", "py", "language.python") or global_setup:
            raise ArgumentError("benchmark.Timer: statements are of Python; leave language and "
                                "global_setup out")
        stmt, setup = dedent(stmt).strip(), dedent(setup).strip()
        self._statement, self._setup = _compiled(stmt), _compiled(setup)
        self._clock, self._names = timer, dict(globals or {})
        self._task = TaskSpec(stmt, "" if setup == "pass" else setup, global_setup, label,
                              sub_label, description, env, num_threads)

    def _timed(self, number: int) -> float:
        """The time of so many runs, in s, from what setup leaves."""
        names = dict(self._names)
        names.setdefault("__builtins__", __builtins__)
        exec(self._setup, names)
        start = self._clock()
        for _ in range(number):
            given = eval(self._statement, names)  # None of what is no expression
            _compute([given, *(names[x] for x in self._statement.co_names if x in names)])
        return self._clock() - start

    def _runs(self, times: Sequence[float], number: int) -> Measurement:
        return Measurement(number, list(times), self._task)

    def timeit(self, number: int = 1_000_000) -> Measurement:
        """So many runs as one measurement, after one or two that warm up."""
        return self._threaded(lambda: (self._timed(max(number // 100, 2)),
                                       self._runs([self._timed(number)], number))[1])

    def _threaded(self, measured: Callable[[], Measurement]) -> Measurement:
        before = get_num_threads()
        set_num_threads(self._task.num_threads)
        try:
            return measured()
        finally:
            set_num_threads(before)

    def _block(self, least: float) -> int:
        """How many runs take as long as `least` s."""
        number = 1
        self._timed(2)
        while (taken := self._timed(number)) < least and number < 10 ** 9:
            number *= 10 if taken < least / 10 else 2
        return number

    def blocked_autorange(self, callback: Callable[[int, float], None] | None = None,
                          min_run_time: float = 0.2) -> Measurement:
        """Measurements for `min_run_time` s, each of as many runs as take a hundredth of it or
        more; callback(runs, time) is called after each."""
        return self._repeated(min_run_time / 100, lambda m: sum(m.raw_times) >= min_run_time,
                              callback)

    def adaptive_autorange(self, threshold: float = 0.1, *, min_run_time: float = 0.01,
                           max_run_time: float = 10.0,
                           callback: Callable[[int, float], None] | None = None) -> Measurement:
        """Measurements for as long as the middle half of their times reaches over more than
        `threshold` of the median, from `min_run_time` to `max_run_time` s."""
        def is_enough(m: Measurement) -> bool:
            taken = sum(m.raw_times)
            return taken >= max_run_time or len(m.raw_times) > 3 and taken >= min_run_time \
                and m.iqr <= threshold * m.median
        return self._repeated(min_run_time / 10, is_enough, callback)

    def _repeated(self, least: float, is_enough: Callable[[Measurement], bool],
                  callback: Callable[[int, float], None] | None) -> Measurement:
        """Measurements, each of as many runs as take `least` s, until they are enough."""
        def measured() -> Measurement:
            found = self._runs([], self._block(least))
            while not is_enough(found):
                found.raw_times.append(self._timed(found.number_per_run))
                if callback is not None:
                    callback(found.number_per_run, found.raw_times[-1])
            return found
        return self._threaded(measured)


def _compiled(source: str) -> CodeType:
    """The code of a statement, which gives a value if it is an expression."""
    with suppress(SyntaxError):
        return compile(source, "<benchmark>", "eval")
    try:
        return compile(source, "<benchmark>", "exec")
    except SyntaxError as error:
        raise ArgumentError(f"benchmark.Timer: {source!r:.60} is no Python: {error}") from error


def _compute(values: Sequence[Any]) -> None:
    """Compute the tensors among values, in lists and dicts of them, and what modules and optimizers
    have."""
    found: list[Tensor] = []
    for x in flatten(list(values))[0]:
        if isinstance(x, Module):
            found += [*x.parameters(), *x.buffers()]
        elif isinstance(x, Optimizer):
            found += [p for group in x.param_groups for p in group["params"]]
        elif isinstance(x, Tensor):
            found.append(x)
    realize(*found, *(x.grad for x in found if x.is_leaf and x.grad is not None))


class Compare:
    """A table of measurements: a row for each sub_label (and env), a column for each description;
    one table for each label, in one unit, one block of rows for each number of threads."""

    def __init__(self, results: Iterable[Measurement]) -> None:
        self._results, self._digits = list(results), 1

    def extend_results(self, results: Iterable[Measurement]) -> None:
        """Put more into it."""
        self._results += results

    def trim_significant_figures(self) -> None:
        """Show no digits that the times do not tell."""
        self._digits = 0

    def colorize(self, rowwise: bool = False) -> None:
        """Nothing: tables have no colours."""

    def highlight_warnings(self) -> None:
        """Nothing: what a measurement prints says whether its times differ."""

    def print(self) -> None:
        """Print it."""
        print(self)

    def __str__(self) -> str:
        tables: dict[str, list[Measurement]] = {}
        for m in Measurement.merge(self._results):
            tables.setdefault(m.task_spec.label or m.task_spec.stmt, []).append(m)
        return "\n".join(self._table(label, rows) for label, rows in tables.items())

    def _table(self, label: str, given: Sequence[Measurement]) -> str:
        unit, seconds = select_unit(min(m.median for m in given))
        columns = list(dict.fromkeys(m.task_spec.description or "" for m in given))
        cells: dict[int, dict[str, dict[str, str]]] = {}
        for m in given:
            row = (f"({m.task_spec.env}) " if m.task_spec.env else "") + m.as_row_name
            cells.setdefault(m.task_spec.num_threads, {}).setdefault(row, {})[
                m.task_spec.description or ""] = f"{m.median / seconds:.{self._digits}f}"
        head = max(len(f"{n} threads:") for n in cells)
        first = max([head, *(6 + len(row) for rows in cells.values() for row in rows)])
        widths = [max(len(c), *(len(row.get(c, "")) for rows in cells.values()
                                for row in rows.values())) for c in columns]
        lines = ["  |  ".join([" " * first, *map(str.center, columns, widths)])]
        lines.insert(0, f"[{f' {label} ':-^{max(len(lines[0]) - 2, 2)}}]")
        for threads, rows in sorted(cells.items()):
            lines.append(f"{threads} threads: ".ljust(len(lines[1]), "-"))
            lines += ["  |  ".join([f"      {name}".ljust(first), *(
                row.get(c, "").center(width) for c, width in zip(columns, widths, strict=True))])
                for name, row in rows.items()]
        return "\n".join([*lines, "", f"Times are in {_NAMES[unit]} ({unit}).", ""])
