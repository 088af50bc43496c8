"""What ran within a block, and how long that took, as data.

A `Record` looks on (support/observers.py) and notes what it is told, each with its time and its
thread; tables.py and trace.py make something of it. Kernels are launched one by one meanwhile, and
each is waited for, so that each has a time of its own.
"""
from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass
from functools import cached_property
from threading import get_ident
from typing import Any, NamedTuple, Self

from lazyten.execution.debug import flops, traffic
from lazyten.ir.kernel import Kernel
from lazyten.ir.node import toposort
from lazyten.schedule.schedule import Schedule
from lazyten.seeing.limits import Limits, limits_of
from lazyten.seeing.program import lines_of, values_of
from lazyten.storage import tracing
from lazyten.storage.device import executor
from lazyten.support import observers
from lazyten.support.errors import DeviceError, StateError
from lazyten.support.location import Location, user_location
from lazyten.support.observers import Launch, Observer, Plan, Span
from lazyten.support.passes import NAMES

FIRST_OF_KERNELS = "lower"
"""The passes before this one make a schedule; from it on they make a kernel's text."""


class Step(NamedTuple):
    """A step of a schedule, by its number."""

    schedule: Schedule
    number: int


@dataclass(frozen=True, slots=True)
class Event:
    """Something that took time, in a thread. what: for people. where: the line that asked for it,
    or a kernel's own. memory: bytes in use on the device afterwards, where it counts them."""

    kind: str
    what: str
    device: str
    span: Span
    thread: int
    where: Location | None = None
    kernel: Kernel | None = None
    memory: int | None = None
    step: Step | None = None


@dataclass(frozen=True, slots=True)
class KernelTime:
    """All launches of one kernel: how many, and their seconds. flops, bytes: of one launch, as its
    expression says; bytes are those of its inputs and outputs, each counted once. share: of what
    the device can do, measured (limits.py); None where that is not known."""

    name: str
    device: str
    where: Location | None
    launches: int
    seconds: float
    flops: int
    bytes: int
    share: float | None


@dataclass(frozen=True, slots=True)
class LineTime:
    """What a line of the program takes in kernels. seconds: each kernel's, shared among the lines
    that it computes by their arithmetic operations. kernels: the names of these."""

    where: Location | None
    seconds: float
    kernels: tuple[str, ...]


class Record(Observer):
    """What ran since it was entered, in all threads."""

    needs_launches = True

    def __init__(self) -> None:
        self.events: list[Event] = []
        self._passes: list[tuple[str, float]] = []
        self._start = self._end = 0.0
        self._thread = 0
        self._block: AbstractContextManager[None] | None = None

    def __enter__(self) -> Self:
        tracing.refuse("a profile", "profile around the call of the jitted function")
        if self._block is not None:
            raise StateError("this profile was made of a block before; take a new lt.profile()")
        self._thread, self._start = get_ident(), time.perf_counter()
        self._block = observers.told(self)
        self._block.__enter__()
        return self

    def __exit__(self, *exc: Any) -> None:
        assert self._block is not None
        self._block.__exit__(*exc)
        self._end = time.perf_counter()

    # ---- what it is told ----

    def _note(self, kind: str, what: str, device: str, span: Span, *more: Any) -> None:
        self.events.append(Event(kind, what, device, span, get_ident(), *more))

    def passed(self, name: str, title: Callable[[], str], text: Callable[[], str], span: Span,
               own: float) -> None:
        self._note("pass", name, title(), span)
        self._passes.append((name, own))

    def compiled(self, what: str, span: Span) -> None:
        self._note("machine code", what, "", span)

    def made(self, device: str, plan: Plan, span: Span) -> None:
        count = len(plan.schedule.steps)
        self._note("plan", f"plan of {count} kernel{'s' if count != 1 else ''}", device, span,
                   user_location())

    def launched(self, launch: Launch, spans: Sequence[Span]) -> None:
        device, memory = launch.device, None
        with suppress(DeviceError):  # it does not count
            memory = executor(device).memory_stats().in_use
        steps = enumerate(launch.kernels, launch.first)
        for (number, (kernel, _, _)), span in zip(steps, spans, strict=True):
            self._note("kernel", kernel.name, device, span, kernel.where, kernel, memory,
                       Step(launch.plan.schedule, number))

    def ran(self, device: str, plan: Plan, span: Span) -> None:
        count = len(plan.schedule.steps)
        self._note("run", f"run {count} kernel{'s' if count != 1 else ''}", device, span,
                   user_location())

    # ---- what it knows ----

    @property
    def seconds(self) -> float:
        """The length of the block; so far, inside of it."""
        return (self._end or time.perf_counter()) - self._start

    @property
    def kernel_seconds(self) -> float:
        """What all kernels took."""
        return self._sum("kernel")

    @property
    def compile_seconds(self) -> float:
        """What making plans took: scheduling, generating code and compiling it, or finding on disk
        what was compiled before."""
        return self._sum("plan")

    @property
    def launch_seconds(self) -> float:
        """What launching kernels took, without the kernels."""
        return self._sum("run") - self.kernel_seconds

    @property
    def python_seconds(self) -> float:
        """The rest of the block: Python, and copies of values."""
        own = (e for e in self.events if e.thread == self._thread and e.kind in ("plan", "run"))
        return self.seconds - sum(e.span.seconds for e in own)

    def compile_parts(self) -> Mapping[str, float]:
        """What making plans consists of: 'schedule', 'code generation', and 'machine code', which
        may be made in another thread meanwhile."""
        first = list(NAMES).index(FIRST_OF_KERNELS)
        parts = {"schedule": 0.0, "code generation": 0.0, "machine code": self._sum("machine code")}
        scheduling = set(list(NAMES)[:first])
        for name, own in self._passes:
            parts["schedule" if name in scheduling else "code generation"] += own
        return parts

    def _sum(self, kind: str) -> float:
        return sum((e.span.seconds for e in self.events if e.kind == kind), 0.0)

    @property
    def kernels(self) -> list[KernelTime]:
        """Each kernel that ran, the one that took longest first."""
        found: dict[tuple[str, Kernel], list[float]] = {}
        for e in self.events:
            if e.kernel is not None:
                found.setdefault((e.device, e.kernel), []).append(e.span.seconds)
        rows = [self._row(device, kernel, times) for (device, kernel), times in found.items()]
        return sorted(rows, key=lambda row: -row.seconds)

    def _row(self, device: str, kernel: Kernel, times: Sequence[float]) -> KernelTime:
        total, work, moved = sum(times), flops(kernel), traffic(kernel)
        limits = self.limits.get(device)
        share = None
        if limits is not None:
            widest = max((n.dtype.itemsize for n in toposort(kernel.outputs) if n.dtype.is_float),
                         default=4)
            share = limits.least_seconds(work, moved, widest) * len(times) / max(total, 1e-9)
        return KernelTime(kernel.name, device, kernel.where, len(times), total, work, moved, share)

    @cached_property
    def limits(self) -> Mapping[str, Limits]:
        """What the devices that ran kernels can do at most; measured once, in some tenths of a
        second, when first asked for."""
        devices = dict.fromkeys(e.device for e in self.events if e.kind == "kernel")
        return {d: limits for d in devices if (limits := limits_of(d)) is not None}

    @property
    def lines(self) -> list[LineTime]:
        """Each line whose values kernels computed, the one that took longest first."""
        seconds: dict[Location | None, float] = {}
        names: dict[Location | None, dict[str, None]] = {}
        parts: dict[int, list[Mapping[Location | None, float]]] = {}
        for e in self.events:
            if e.kernel is not None and e.step is not None:
                made = e.step.schedule
                if id(made) not in parts:  # events keep it alive
                    parts[id(made)] = [lines_of(values, step.kernel.where) for values, step in
                                       zip(values_of(made), made.steps, strict=True)]
                for where, share in parts[id(made)][e.step.number].items():
                    seconds[where] = seconds.get(where, 0.0) + share * e.span.seconds
                    names.setdefault(where, {})[e.kernel.name] = None
        order = sorted(seconds, key=lambda where: -seconds[where])
        return [LineTime(where, seconds[where], tuple(names[where])) for where in order]
