"""Schedules of one graph at many sizes: made by the same choices, or by formulas.

In: a graph at one size after the other. Out: its schedule at each. The first says what is stored,
which kernels there are and in which order, for all (schedule/choices.py); a schedule of this kind
is a form, which sizes have in common, and numbers. Once a form was seen at sizes around a new one,
formulas say what its numbers are there (symbolic/formulas.py), and nothing is scheduled.
"""
from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple, TypeVar

from lazyten.ir.dtype import DType
from lazyten.ir.node import Node
from lazyten.ir.numbers import Numbers, Skeleton, Taken, put_together, taken_apart
from lazyten.schedule.choices import Choices
from lazyten.schedule.draft import Limits
from lazyten.schedule.schedule import Schedule, choose, schedule_by, with_memory
from lazyten.schedule.steps import Names, Repeat, Step
from lazyten.support.errors import InternalError
from lazyten.support.location import Location, attribute_to
from lazyten.symbolic.formulas import Floats, Samples, Seen, Sizes

Inputs = Sequence[tuple[DType, int]]
Item = TypeVar("Item")


class Forms:
    """All that is known of the schedules of one graph, for sizes of one region: of each form, the
    lines of its kernels, and its numbers at some sizes."""

    def __init__(self) -> None:
        self._choices: tuple[Choices, ...] = ()
        self._forms: dict[_Form, tuple[list[Location | None], Seen[_Sample, _Formulas]]] = {}

    def schedule(self, sizes: Sizes, numbers: Numbers, roots: Sequence[Node], inputs: Inputs,
                 limits: Limits) -> Schedule | None:
        """The schedule at these sizes; None where the graph is not like the first, or where nothing
        is known but sizes at which something has no elements. numbers: of the graph."""
        if not self._choices:
            found = choose(roots, inputs, limits)
            if not all(section.is_whole for section in found):
                return None
            self._choices = found
        made = schedule_by(self._choices, roots, inputs, limits)
        if made is not None and all(repeat.rounds > 1 for repeat in made.repeats):
            form, own = _taken_apart(made)
            if form not in self._forms:
                lines = [step.kernel.where for step in _first_rounds(made.steps, made.repeats)]
                self._forms[form] = lines, Seen(_Formulas)
            self._forms[form][1].add(sizes, _Sample(numbers, own))
        return made

    def predicted(self, sizes: Sizes, numbers: Numbers, alignment: int) -> Schedule | None:
        """The same by formulas, without reasons; None where they are not certain."""
        for form, (lines, seen) in self._forms.items():
            own = None if seen.formulas is None else seen.formulas.at(sizes, numbers)
            if own is not None:
                try:
                    return _put_together(form, lines, own, alignment)
                except InternalError:  # there are no such nodes
                    return None
        return None


# ---- forms ---------------------------------------------------------------------------------------

class _StepForm(NamedTuple):
    """A step but for its numbers. types: of what the kernel reads."""

    graph: Skeleton
    types: tuple[DType, ...]
    unaligned: tuple[int, ...]
    args: tuple[int, ...]


class _Form(NamedTuple):
    """A schedule but for its numbers, and the memory between inputs and outputs. steps, launches:
    of what repeats, the first round alone; loops: where these are, of one round each."""

    types: tuple[DType, ...]
    inputs: int
    outputs: tuple[int, ...]
    launches: tuple[int, ...]
    steps: tuple[_StepForm, ...]
    loops: tuple[Repeat, ...]


def _taken_apart(made: Schedule) -> tuple[_Form, Numbers]:
    taken, steps = Taken(), []
    for _, size in made.arrays:
        taken.without(size)
    for repeat in made.repeats:
        taken.without(repeat.rounds)
        for at in range(repeat.step, repeat.step + repeat.steps):
            one, other = made.steps[at], made.steps[at + repeat.steps]
            taken.without(tuple([b - a for a, b in zip(one.offsets, other.offsets, strict=True)]))
    for step in _first_rounds(made.steps, made.repeats):
        kernel = step.kernel
        graph = taken_apart(kernel.outputs, taken)
        for _, size in kernel.inputs:
            taken.without(size)
        taken.without(step.offsets)
        steps.append(_StepForm(graph, tuple([d for d, _ in kernel.inputs]), kernel.unaligned,
                               step.args))
    launches = _without(made.launches, [
        (r.launch + r.launches, r.launches * (r.rounds - 1)) for r in made.repeats])
    return _Form(tuple([d for d, _ in made.arrays]), made.inputs, made.outputs, tuple(launches),
                 tuple(steps), _loops(made.repeats)), taken.numbers


def _first_rounds(steps: Sequence[Step], repeats: Sequence[Repeat]) -> list[Step]:
    """The steps without what repeats others."""
    return _without(steps, [(r.step + r.steps, r.steps * (r.rounds - 1)) for r in repeats])


def _loops(repeats: Sequence[Repeat]) -> tuple[Repeat, ...]:
    """Where the first rounds are, once the others are left out."""
    found, steps, launches = [], 0, 0
    for r in repeats:
        found.append(Repeat(r.step - steps, r.steps, r.launch - launches, r.launches, 1))
        steps += r.steps * (r.rounds - 1)
        launches += r.launches * (r.rounds - 1)
    return tuple(found)


def _without(items: Sequence[Item], parts: Sequence[tuple[int, int]]) -> list[Item]:
    """Without so many from a place on, for each part."""
    kept, end = list[Item](), 0
    for start, count in parts:
        kept += items[end:start]
        end = start + count
    return kept + list(items[end:])


def _put_together(form: _Form, lines: Sequence[Location | None], numbers: Numbers,
                  alignment: int) -> Schedule | None:
    """The schedule of this form with these numbers; None where other inputs are unaligned."""
    integers, floats, names = iter(numbers.integers), iter(numbers.floats), Names()
    arrays = tuple([(dtype, next(integers)) for dtype in form.types])
    repeats, growth = [], dict[int, tuple[int, ...]]()
    for loop in form.loops:
        repeats.append(loop._replace(rounds=next(integers)))
        for at in range(loop.step, loop.step + loop.steps):
            growth[at] = tuple([next(integers) for _ in form.steps[at].args])
            growth[at - loop.steps] = growth[at]  # the round that reads the states before all
    steps = []
    for at, (step, where) in enumerate(zip(form.steps, lines, strict=True)):
        with attribute_to(where):
            outputs = tuple(put_together(step.graph, integers, floats))
        inputs = tuple([(dtype, next(integers)) for dtype in step.types])
        offsets = tuple([next(integers) for _ in step.args])
        grows = growth.get(at, (0,) * len(offsets))
        if not all((offsets[slot] % alignment != 0 or grows[slot] % alignment != 0)
                   == (slot in step.unaligned) for slot in range(len(outputs), len(offsets))):
            return None
        kernel = names.kernel(outputs, inputs, where, step.unaligned)
        steps.append(Step(kernel, step.args, offsets))
    return with_memory(arrays, form.inputs, _all_rounds(steps, repeats, growth), form.outputs,
                       _all_launches(form.launches, repeats))


def _all_rounds(steps: Sequence[Step], repeats: Sequence[Repeat],
                growth: Mapping[int, tuple[int, ...]]) -> tuple[Step, ...]:
    found, end = list[Step](), 0
    for r in repeats:
        found += steps[end:r.step]
        end = r.step + r.steps
        found += [replace(steps[at], offsets=tuple([
            o + turn * g for o, g in zip(steps[at].offsets, growth[at], strict=True)]))
            for turn in range(r.rounds) for at in range(r.step, end)]
    return (*found, *steps[end:])


def _all_launches(launches: tuple[int, ...], repeats: Sequence[Repeat]) -> tuple[int, ...]:
    found, end = list[int](), 0
    for r in repeats:
        found += launches[end:r.launch]
        end = r.launch + r.launches
        found += launches[r.launch:end] * r.rounds
    return (*found, *launches[end:])


# ---- at which sizes ------------------------------------------------------------------------------

class _Sample(NamedTuple):
    """The numbers of a graph, and of its schedule."""

    graph: Numbers
    own: Numbers


class _Formulas:
    """The numbers of schedules as functions of sizes, and of the floats of graphs."""

    def __init__(self, samples: Mapping[Sizes, _Sample]) -> None:
        self._fit = Samples(tuple(samples))
        seen = list(samples.values())
        self._integers = list(zip(*(s.own.integers for s in seen), strict=True))
        self._floats = list(zip(*(s.own.floats for s in seen), strict=True))
        self._of_graph = Floats(s.graph.floats for s in seen)

    def at(self, sizes: Sizes, graph: Numbers) -> Numbers | None:
        """The numbers of the schedule of this graph, at these sizes, where they are certain."""
        if not self._fit.covers(sizes) or not self._of_graph.go_on(graph.floats):
            return None
        integers = self._fit.values(self._integers, sizes)
        floats = [self._of_graph.value(column, graph.floats) for column in self._floats]
        if integers is None or None in floats:
            return None
        return Numbers(integers, tuple(floats))  # type: ignore[arg-type]  # none is None
