"""Plans: a schedule with its compiled programs, and what both depend on."""
from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Any, NamedTuple

from lazyten.devices.program import Argument, Handle, Limit, Program
from lazyten.execution.plans import collectives
from lazyten.execution.sizes import planned
from lazyten.execution.sizes.forms import Inputs
from lazyten.execution.sizes.planned import Planned
from lazyten.ir.kernel import Kernel
from lazyten.ir.node import Node
from lazyten.schedule.draft import Limits
from lazyten.schedule.schedule import Schedule, schedule
from lazyten.storage.device import executor
from lazyten.support import check_mode, matmul_precision


class Options(NamedTuple):
    """What a plan depends on besides its graph: its device, and settings. checks, tf32: those of
    its kernels, see Kernel. sizes: the computation whose kernels it shares, if its sizes vary, and
    which size it is."""

    device: str
    checks: check_mode.Kinds
    tf32: bool
    sizes: Planned | None = None

    @classmethod
    def now(cls, device: str) -> Options:
        """For what is planned here and now."""
        return cls(*settings(device))

    def applied(self, kernel: Kernel) -> Kernel:
        """A kernel as it is compiled."""
        if not self.checks and not self.tf32:
            return kernel
        return replace(kernel, checks=self.checks, tf32=self.tf32)

    @property
    def known(self) -> Any:
        """What the device keeps of a computation whose sizes vary; None of any other."""
        return None if self.sizes is None else self.sizes.of.on(self.device)


def settings(device: str) -> tuple[str, check_mode.Kinds, bool, Planned | None]:
    """The Options of what is planned here and now, as keys have them."""
    return (device, check_mode.active(),
            matmul_precision.allows_tf32() and executor(device).has_tf32, planned.current())


@dataclass(slots=True, weakref_slot=True, eq=False)
class Plan:
    """A schedule with its compiled programs, one a kernel step.

    runs: how often it was run. launch: all programs as one function, once that pays. seconds: that
    each pass took to make it. roots: the graph that was scheduled.
    """

    schedule: Schedule
    programs: tuple[Program, ...]
    options: Options
    runs: int = 0
    launch: Callable[[Sequence[Handle]], object] | None = None
    seconds: Mapping[str, float] = field(default_factory=dict)
    roots: tuple[Node, ...] = ()

    def launch_all(self, device: str, handles: Mapping[int, Handle]) -> None:
        """Run on these arrays, all in one call; they come in the same order each time."""
        launch = self.launch
        if launch is None:
            launch = self.launch = self.joined(device, handles)
        launch(list(handles.values()))

    def joined(self, device: str, arrays: Iterable[int], limits: Sequence[tuple[int, int]] = (),
               count: int = 0) -> Callable[[Sequence[Handle]], object]:
        """All launches as one function of the handles of these arrays, in this order. limits: after
        `count` launches the number in an array must be below one, or the rest is left out and the
        function gives False."""
        position = {array: i for i, array in enumerate(arrays)}
        launches = [[(program, [Argument(position[a], n) for a, n in arguments])
                     for _, program, arguments in launch] for launch in self.launches()]
        runtime, found = executor(device), [Limit(Argument(position[a]), n) for a, n in limits]
        if collectives.are_among(launches):
            if not limits:
                return collectives.sequence(runtime, launches)
            return collectives.guarded(runtime, launches[:count], found, launches[count:])
        if not limits:
            return runtime.sequence(launches)
        return runtime.guarded(launches[:count], found, launches[count:])

    def launches(self) -> Iterator[list[tuple[Kernel, Program, list[Argument]]]]:
        """What each launch runs: kernels with their programs, and on what memory."""
        steps = zip(self.schedule.steps, self.programs, strict=True)
        for count in self.schedule.launches:
            yield [(step.kernel, program, self.schedule.arguments_of(step))
                   for step, program in islice(steps, count)]


# ---- what a plan is made of ---------------------------------------------------------------------

def scheduled(roots: Sequence[Node], inputs: Inputs, options: Options) -> Schedule:
    """The kernels that compute a normalized graph. Where they are checked, inputs start where their
    memory does, and all values are stored: reports are about those."""
    return schedule(roots, inputs, *limits_of(options))


def limits_of(options: Options) -> Limits:
    """Where sizes vary nothing is held, as how many rows fit a block is a matter of the size."""
    runs, plain = executor(options.device), not options.checks
    holds = plain and options.known is None
    return Limits(runs.has_offsets and plain, runs.block_bytes if holds else 0, runs.items,
                  runs.alignment, runs.streams if holds and runs.has_streams else None)


def programs_of(made: Schedule, options: Options) -> tuple[Program, ...]:
    """The compiled programs of a schedule, one a step."""
    kernels = dict.fromkeys(step.kernel for step in made.steps)
    programs = collectives.programs(kernels, options.device)
    of_device = [k for k in kernels if k not in programs]
    runtime, known = executor(options.device), options.known
    ready = list(map(options.applied, of_device))
    built = runtime.build(ready) if known is None or options.sizes is None else \
        runtime.build_varying(ready, known, options.sizes.at)
    programs |= zip(of_device, built, strict=True)
    return tuple(programs[step.kernel] for step in made.steps)
