"""Schedules of one graph at many sizes: made by the same choices, or by formulas.

In: a graph at one size after the other. Out: its schedule at each. The first says what is stored,
which kernels there are and in which order, for all (schedule/choices.py); a schedule of this kind
is a form, which sizes have in common, and numbers. Once a form was seen at sizes around a new one,
formulas say what its numbers are there (symbolic/formulas.py), and nothing is scheduled.
"""
from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from lazyten.ir.dtype import DType
from lazyten.ir.node import Node
from lazyten.ir.numbers import Numbers, Skeleton, Taken, put_together, taken_apart
from lazyten.schedule.choices import Choices
from lazyten.schedule.draft import Limits
from lazyten.schedule.schedule import Schedule, choose, schedule_by, with_memory
from lazyten.schedule.steps import Names, Step
from lazyten.support.errors import InternalError
from lazyten.support.location import Location, attribute_to
from lazyten.symbolic.formulas import Floats, Samples, Seen, Sizes

Inputs = Sequence[tuple[DType, int]]


class Forms:
    """All that is known of the schedules of one graph, for sizes of one region: of each form, the
    lines of its kernels, and its numbers at some sizes."""

    def __init__(self) -> None:
        self._choices: tuple[Choices, ...] = ()
        self._forms: dict[_Form, tuple[list[Location | None], Seen[_Sample, _Formulas]]] = {}

    def schedule(self, sizes: Sizes, numbers: Numbers, roots: Sequence[Node], inputs: Inputs,
                 limits: Limits) -> Schedule | None:
        """The schedule at these sizes; None where the graph is not like the first, or where nothing
        is known but sizes at which something has no elements. It is remembered unless it is in
        sections, as then it has other steps at each size. numbers: of the graph."""
        if not self._choices:
            found = choose(roots, inputs, limits)
            if not all(section.is_whole for section in found):
                return None
            self._choices = found
        made = schedule_by(self._choices, roots, inputs, limits)
        if made is not None and len(self._choices) == 1:
            form, own = _taken_apart(made)
            if form not in self._forms:
                lines = [step.kernel.where for step in made.steps]
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
    """A schedule but for its numbers, and the memory between inputs and outputs."""

    types: tuple[DType, ...]
    inputs: int
    outputs: tuple[int, ...]
    launches: tuple[int, ...]
    steps: tuple[_StepForm, ...]


def _taken_apart(made: Schedule) -> tuple[_Form, Numbers]:
    taken, steps = Taken(), []
    for _, size in made.arrays:
        taken.without(size)
    for step in made.steps:
        kernel = step.kernel
        graph = taken_apart(kernel.outputs, taken)
        for _, size in kernel.inputs:
            taken.without(size)
        taken.without(step.offsets)
        steps.append(_StepForm(graph, tuple([d for d, _ in kernel.inputs]), kernel.unaligned,
                               step.args))
    return _Form(tuple([d for d, _ in made.arrays]), made.inputs, made.outputs, made.launches,
                 tuple(steps)), taken.numbers


def _put_together(form: _Form, lines: Sequence[Location | None], numbers: Numbers,
                  alignment: int) -> Schedule | None:
    """The schedule of this form with these numbers; None where other inputs are unaligned."""
    integers, floats, names = iter(numbers.integers), iter(numbers.floats), Names()
    arrays = tuple([(dtype, next(integers)) for dtype in form.types])
    steps = []
    for step, where in zip(form.steps, lines, strict=True):
        with attribute_to(where):
            outputs = tuple(put_together(step.graph, integers, floats))
        inputs = tuple([(dtype, next(integers)) for dtype in step.types])
        offsets = tuple([next(integers) for _ in step.args])
        if not all((offsets[slot] % alignment != 0) == (slot in step.unaligned)
                   for slot in range(len(outputs), len(offsets))):
            return None
        kernel = names.kernel(outputs, inputs, where, step.unaligned)
        steps.append(Step(kernel, step.args, offsets))
    return with_memory(arrays, form.inputs, tuple(steps), form.outputs, form.launches)


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
