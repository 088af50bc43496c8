"""Arrays that take the memory of others: what a step writes, that of what it is the last to read.

In: a `Schedule` and its programs, which say which of their arguments may be one memory; inputs that
nobody needs after the last step. Out: pairs of arrays for the memory planner (`schedule.replan`),
and the outputs that live in such an input. Called by segment.py.
"""
from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace
from functools import partial
from itertools import islice
from typing import Generic, NamedTuple, Protocol, TypeVar

from lazyten.schedule.cost import StoredValue
from lazyten.schedule.schedule import Schedule
from lazyten.schedule.steps import Step
from lazyten.support.later import Later


class InPlace(Protocol):
    """A program, or the text that becomes one."""

    @property
    def in_place(self) -> Collection[tuple[int, int]]:
        """Outputs and inputs, by the numbers of their arguments, that may be one memory."""


P = TypeVar("P", bound=InPlace)
Replacing = frozenset[tuple[int, int]]
"""Pairs of arrays (written, read): the first may have the memory of the second."""


def replacements(made: Schedule, programs: Sequence[InPlace]) -> Replacing:
    """The pairs of which one step reads the second for the last time and writes the first.

    No other step of its launch, which may run at the same time, touches the second, which is no
    result either.
    """
    last = _last_launches(made)
    written = Counter(a for step in made.steps for a in step.writes)
    found = set()
    rest = iter(zip(made.steps, programs, strict=True))
    for launch, count in enumerate(made.launches):
        together = [next(rest) for _ in range(count)]
        uses = Counter(a for step, _ in together for a in step.args)
        for step, program in together:
            for output, given in program.in_place:
                read = step.args[given]
                if last[read] == launch and uses[read] == 1 and not step.offsets[given] \
                        and read not in made.outputs and written[step.args[output]] == 1:
                    found.add((step.args[output], read))
    return frozenset(found)


def postponed(made: Schedule, programs: Sequence[P],
              wanted: Collection[int]) -> tuple[Schedule, tuple[P, ...]]:
    """The same launches, those that replace inputs `wanted` after the last that reads these, unless
    something in between needs their results."""
    last, launches = _last_launches(made), _taken_apart(made, programs)
    order = list(range(len(launches)))
    for number, launch in enumerate(launches):
        after = max((last[part.step.args[given]] for part in launch
                     for _, given in part.program.in_place if part.step.args[given] in wanted),
                    default=number)
        writes = {a for part in launch for a in part.step.args[:len(part.step.kernel.outputs)]}
        if writes.isdisjoint(a for between in launches[number + 1:after + 1]
                             for part in between for a in part.step.args):
            order[number] = after
    moved = sorted(range(len(launches)), key=lambda n: (order[n], order[n] != n))
    parts = [part for n in moved for part in launches[n]]
    moved_steps = [p.number for p in parts]
    made = replace(made, steps=tuple(p.step for p in parts),
                   launches=tuple(len(launches[n]) for n in moved),
                   stored=Later(partial(_stored, made, moved_steps)),
                   saved=Later(partial(_saved, made, moved_steps)))
    return made, tuple(p.program for p in parts)


def _stored(made: Schedule, order: Sequence[int]) -> list[StoredValue]:
    """What steps store, which are in another order."""
    stored = iter(made.stored)
    of_step = [list(islice(stored, len(step.kernel.outputs))) for step in made.steps]
    return [value for number in order for value in of_step[number]]


def _saved(made: Schedule, order: Sequence[int]) -> list[float]:
    return [made.saved[number] for number in order]


class _Part(NamedTuple, Generic[P]):
    """A step, with its program and its number."""

    step: Step
    program: P
    number: int


def _taken_apart(made: Schedule, programs: Sequence[P]) -> list[list[_Part[P]]]:
    """The steps of each launch."""
    parts = map(_Part, made.steps, programs, range(len(made.steps)))
    return [list(islice(parts, count)) for count in made.launches]


def aliased_outputs(made: Schedule, replacing: Replacing,
          wanted: Iterable[tuple[int, Sequence[int]]]) -> dict[int, int]:
    """The outputs that live in the memory of an input, and in which.

    wanted: inputs that are not needed afterwards, each with outputs for its memory, the best first.
    An output takes it if it is of the same type and size and either replaces the input or is
    written after the last launch that reads it.
    """
    last = _last_launches(made)
    first = first_launches(made)
    found: dict[int, int] = {}
    for given, outputs in wanted:
        for output in outputs:
            fits = output in first and output not in found and given not in made.outputs \
                and given not in found.values() and made.arrays[output] == made.arrays[given]
            if fits and ((output, given) in replacing or last.get(given, -1) < first[output]):
                found[output] = given
                break
    return found


def first_launches(made: Schedule) -> dict[int, int]:
    """The launch that writes each array first."""
    return {array: launch for launch, step in reversed([*_in_launches(made)])
            for array in step.writes}


def _in_launches(made: Schedule) -> Iterable[tuple[int, Step]]:
    numbers = (n for n, count in enumerate(made.launches) for _ in range(count))
    return zip(numbers, made.steps, strict=True)


def _last_launches(made: Schedule) -> dict[int, int]:
    """The last launch that touches each array."""
    return {array: launch for launch, step in _in_launches(made) for array in step.args}
