"""Who is told what the compiler makes and what runs: one list for all who look on.

DEBUG prints, LAZYTEN_PRINT_AFTER prints passes, LAZYTEN_DUMP writes files, `lt.profile` times,
`lt.view` draws and tests count: each is an `Observer`, listed for a block (`told`) or as long as an
environment variable asks for it (`on_request`). With nobody looking on, a report costs a look at
the list and at the variables.
"""
from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple, TypeVar

from lazyten.support.variables import EnvVar

Plan = Any
"""A plan.Plan: a schedule and its programs."""
R = TypeVar("R")
T = TypeVar("T")


class Span(NamedTuple):
    """When something happened: the start, by time.perf_counter(), and how many seconds it took."""

    start: float
    seconds: float


class Launch(NamedTuple):
    """What one launch of a plan runs: kernels, each with its program and the arguments of that.
    first: the number of the first kernel's step."""

    device: str
    plan: Plan
    first: int
    kernels: Sequence[tuple[Any, Any, Sequence[Any]]]


class Observer:
    """Is told of what happens, in whichever thread that is; a subclass overrides what it wants to
    know.

    needs_passes: whether every kernel has to come through the passes; what a cache has kept came
    through none. needs_launches: whether kernels are launched one by one, each waited for and
    timed; else a plan may be one native call.
    """

    needs_passes = False
    needs_launches = False

    def passed(self, name: str, title: Callable[[], str], text: Callable[[], str], span: Span,
               own: float) -> None:
        """A pass has made a new state. own: seconds, without those of passes that it has run."""

    def compiled(self, what: str, span: Span) -> None:
        """The device's compiler has made code of these kernels' texts."""

    def made(self, device: str, plan: Plan, span: Span) -> None:
        """A plan is made: scheduled, and its kernels compiled or found."""

    def runs(self, device: str, plan: Plan, spent: float | None) -> None:
        """The kernels of a plan are about to be launched. spent: seconds that making it took, None
        where that was spared."""

    def launching(self, launch: Launch, handles: Mapping[int, Any]) -> None:
        """A launch is about to be made (needs_launches). handles: of the plan's arrays."""

    def launched(self, launch: Launch, spans: Sequence[Span]) -> None:
        """A launch is done (needs_launches). spans: of each kernel; their seconds are those by the
        device's own clock, where it has one."""

    def ran(self, device: str, plan: Plan, span: Span) -> None:
        """The kernels of a plan were launched, in all launches together."""


class OnRun(Observer):
    """Calls a function with the device and the plan, before that is launched."""

    def __init__(self, call: Callable[[str, Plan], object]) -> None:
        self.call = call

    def runs(self, device: str, plan: Plan, spent: float | None) -> None:
        self.call(device, plan)


_listed: list[Observer] = []
_requests: list[Callable[[], Observer | None]] = []
_are_set: dict[str, Callable[[], bool]] = {}
"""Whether the variables that these go by are set, by their names."""


def present() -> list[Observer]:
    """All who look on now."""
    found = _listed.copy()
    for is_set in _are_set.values():
        if is_set():
            break
    else:
        return found
    for request in _requests:
        observer = request()
        if observer is not None:
            found.append(observer)
    return found


def on_request(request: Callable[[], Observer | None], *variables: EnvVar) -> None:
    """Look on whenever this gives an observer, as it may if one of these variables is set. They are
    asked all the time."""
    _requests.append(request)
    _are_set.update({variable.name: variable.is_set for variable in variables})


@contextmanager
def told(observer: Observer) -> Iterator[None]:
    """Within this block `observer` looks on."""
    _listed.append(observer)
    try:
        yield
    finally:
        _listed.remove(observer)


def nobody() -> bool:
    """Whether no block has anybody look on."""
    return not _listed


def any_needs_passes() -> bool:
    """Whether somebody wants to see each pass, so that no cache may spare it."""
    return any(o.needs_passes for o in present())


def needs_launches(looking: Sequence[Observer]) -> bool:
    """Whether one of these wants each kernel by itself."""
    return any(o.needs_launches for o in looking)


def compiling(compile: Callable[[Sequence[T]], R]) -> Callable[[Sequence[T]], R]:
    """A device's compiler, of which all who look on are told."""
    def observed(kernels: Sequence[T]) -> R:
        looking = present()
        start = time.perf_counter()
        made = compile(kernels)
        span = Span(start, time.perf_counter() - start)
        for observer in looking:
            observer.compiled(", ".join(getattr(k, "name", "") for k in kernels), span)
        return made
    return observed
