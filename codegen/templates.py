"""Kernels that serve all sizes of an axis: one text, whose numbers a launch finds in memory.

In: the kernels of a computation at one size after the other. Out: for each a `Filled`: a Template,
and the numbers that this size has in it. What is compiled, which takes most of the time, is a text
that sizes have in common (instructions/literals.py). At first a kernel is made to instructions at
each size, as any other, which says what the numbers are; once a template has been seen at sizes
around a new one, formulas say it (predictions.py), and the kernel's graph is all that is looked at.

Decisions are those of the first size, as a size of its own would ask for a tile of its own; where
they are too large for another size they are made smaller, and then serve the others, too.
"""
from __future__ import annotations

import re
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

from lazyten.codegen.instructions.literals import Literal, Parts, literals_of, reading
from lazyten.codegen.job import Job, generated
from lazyten.codegen.pipeline import DRIVER, PASSES, renderer
from lazyten.codegen.predictions import Prediction, Sample, is_sure, numbers_of
from lazyten.codegen.targets.generated import Generated
from lazyten.codegen.targets.target import Target
from lazyten.devices.program import AtSizes
from lazyten.ir.decision_grammar import PLAIN
from lazyten.ir.dtype import DType, Scalar
from lazyten.ir.inspection import verify
from lazyten.ir.kernel import Given, Kernel
from lazyten.support.errors import ArgumentError
from lazyten.support.location import attribute_to
from lazyten.support.passes import is_verifying
from lazyten.symbolic.formulas import Quantity, Seen, Sizes

TO_INSTRUCTIONS = PASSES[:-1]
"""All passes but the last, which makes text."""


@dataclass(eq=False)
class Template:
    """Kernels of one skeleton. seen: what each number was at some sizes. places: where each is in
    memory, once there is a text: equal ones together, None for those in the text. functions: of
    the text, once loaded.
    """

    job: Job
    parts: tuple[Parts, ...]
    seen: list[tuple[Literal, ...]] = field(default_factory=list)
    places: tuple[int | None, ...] | None = None
    text: Generated | None = None
    functions: object = None

    def add(self, literals: tuple[Literal, ...]) -> None:
        """Let it serve these numbers, too."""
        if literals not in self.seen:
            self.seen.append(literals)
            del self.seen[MOST_SEEN:-1]
        if self.places is not None and not self._fits(self.places, literals):
            self.places = self.text = self.functions = None

    def _fits(self, places: tuple[int | None, ...], literals: tuple[Literal, ...]) -> bool:
        """Whether numbers in the text are what they were, and those in one place are equal."""
        found: dict[int, Literal] = {}
        return all(literal == (first if at is None else found.setdefault(at, literal))
                   for at, first, literal in zip(places, self.seen[0], literals, strict=True))

    def settle(self) -> Generated:
        """The text for all numbers seen so far; those that never differed stay in it."""
        if self.text is None or self.places is None:
            self.places = self._places()
            self.text = self._render(self.places)
        return self.text

    def _places(self) -> tuple[int | None, ...]:
        histories = list(zip(*self.seen, strict=True))
        varies = [len(set(history)) > 1 for history in histories]
        first = 0
        for part in self.parts:
            if any(varies[first + i] for i in part.together):
                for i in part.together:
                    varies[first + i] = True
            first += len(part.literals)
        at: dict[Hashable, int] = {}
        free, places = 0, list[int | None]()
        for history, differs in zip(histories, varies, strict=True):
            if differs and history not in at:
                at[history] = free
                free += len(history[0].values)
            places.append(at[history] if differs else None)
        return tuple(places)

    def _render(self, places: tuple[int | None, ...]) -> Generated:
        job, first, made = self.job, 0, []
        slot = job.arguments + len(generated(job).scratch)
        write = renderer(job.target)
        for part, apart in zip(job.parts, self.parts, strict=True):
            count = len(apart.literals)
            function = reading(part.instructions, places[first:first + count], slot)
            text, declares = write(function)
            made.append(replace(part, text=text, declares=declares))
            first += count
        return generated(replace(job, parts=tuple(made)))


MOST_SEEN = 16
"""Sizes of which a template keeps the numbers, beside the last: enough to tell which ones differ
together."""


@dataclass(frozen=True, eq=False)
class Filled:
    """A kernel at one size: its template, what a launch must know of this size, and the numbers.
    seen: the sizes that the template was seen at."""

    template: Template
    launch: Generated
    literals: tuple[Literal, ...]
    seen: Seen[Sample, Prediction]

    @property
    def memory(self) -> bytes:
        """The numbers that the template's text reads."""
        places = self.template.places
        assert places is not None
        found = {at: literal.bits for at, literal in zip(places, self.literals, strict=True)
                 if at is not None}
        return b"".join(found[at] for at in sorted(found))

    @property
    def taken_apart(self) -> tuple[Hashable, tuple[Scalar, ...]]:
        """What it has in common with the same kernel at other sizes, and the numbers in which they
        may differ."""
        numbers = tuple([x for literal in self.literals for x in literal.values])
        form = tuple([(literal.dtype, len(literal.values)) for literal in self.literals])
        return (self.template, self.launch.in_place, form), numbers

    @property
    def is_sure(self) -> bool:
        """Whether there may be formulas for its numbers."""
        return is_sure(self.template.job)

    @property
    def quantities(self) -> Sequence[Quantity]:
        """What its numbers may follow from besides products of sizes, as far as that is known."""
        formulas = self.seen.formulas
        return [] if formulas is None else formulas.quantities

    def in_text(self, places: Sequence[int | None]) -> set[int]:
        """Which of the numbers are in the text. places: see Template."""
        number, found = 0, set[int]()
        for at, literal in zip(places, self.literals, strict=True):
            if at is None:
                found.update(range(number, number + len(literal.values)))
            number += len(literal.values)
        return found

    def slots(self, places: Sequence[int | None]) -> tuple[tuple[int, DType], ...]:
        """What is in each slot of the memory, at whatever size: one of the numbers, by their order
        in `taken_apart`, and its type. places: see Template."""
        found: dict[int, tuple[int, DType]] = {}
        number = 0
        for at, literal in zip(places, self.literals, strict=True):
            for lane in range(len(literal.values)):
                if at is not None:
                    found[at + lane] = number + lane, literal.dtype
            number += len(literal.values)
        return tuple([found[at] for at in sorted(found)])


@dataclass(eq=False)
class _Place:
    """What is known of a kernel at one place of a computation: its decisions, and what it became.
    predictions: of each template, under the skeleton of the kernel's graph."""

    decisions: list[str] = field(default_factory=list)
    templates: dict[Hashable, Template] = field(default_factory=dict)
    predictions: dict[Hashable, dict[Template, Seen[Sample, Prediction]]] = field(
        default_factory=dict)


class Templates:
    """What is known of a computation's kernels, for the target of one device. lowered: how many
    kernels were made to instructions."""

    def __init__(self) -> None:
        self._places: dict[Hashable, _Place] = {}
        self.lowered = 0

    def __len__(self) -> int:
        return sum(len(place.templates) for place in self._places.values())

    def fill(self, kernels: Sequence[Kernel], target: Target, at: AtSizes) -> list[Filled]:
        """The kernels of the computation at one size."""
        counts: dict[str, int] = {}
        made = []
        for kernel in kernels:
            name = without_sizes(kernel.name)
            counts[name] = counts.get(name, 0) + 1
            place = self._places.setdefault((name, counts[name], target, at.region),
                                            _Place())
            with attribute_to(kernel.where):
                made.append(self._filled(place, replace(kernel, name=name), target, at.sizes))
        return made

    def _filled(self, place: _Place, kernel: Kernel, target: Target, sizes: Sizes) -> Filled:
        if is_verifying():
            verify(kernel.outputs, "graph")
        skeleton, numbers = numbers_of(kernel)
        predictions = place.predictions.setdefault(skeleton, {})
        if kernel.decisions is None:
            for template, seen in predictions.items():
                formulas = seen.formulas
                found = None if formulas is None else formulas.at(sizes, numbers, kernel)
                if found is not None:
                    template.add(found.literals)
                    return Filled(template, found.launch, found.literals, seen)
        job = self._job(place, kernel, target)
        self.lowered += 1
        parts = tuple(literals_of(part.instructions) for part in job.parts)
        literals = tuple(x for part in parts for x in part.literals)
        key = tuple(part.skeleton for part in parts)
        template = place.templates.setdefault(key, Template(job, parts))
        template.add(literals)
        launch = generated(job)
        seen = predictions.setdefault(template, Seen(partial(Prediction, template.job)))
        decided = tuple(part.decisions for part in job.parts)
        seen.add(sizes, Sample(numbers, literals, decided, launch))
        return Filled(template, launch, literals, seen)

    def _job(self, place: _Place, kernel: Kernel, target: Target) -> Job:
        """The kernel as instructions, by decisions that another size has had where these fit."""
        if kernel.decisions is None:
            known = place.decisions
            for text in dict.fromkeys((*known, *(t for d in known[:1] for t in smaller(d)))):
                try:
                    job = DRIVER.run(TO_INSTRUCTIONS, Job(
                        replace(kernel, decisions=Given(text)), target, in_one=True))
                except ArgumentError:
                    continue
                if text not in known:
                    known.insert(0, text)
                return job
        job = DRIVER.run(TO_INSTRUCTIONS, Job(kernel, target, in_one=True))
        if kernel.decisions is None:
            place.decisions.insert(0, str(job.parts[-1].decisions))
        return job


def smaller(decisions: str) -> Iterator[str]:
    """The same decisions without one range of a tile or of accumulators, then without any."""
    found = re.search(r"((?:(?:tile|unroll)\([^)]*\) ?)+)(.*)", decisions)
    if found is None:
        return
    parts = {name: counts.split(", ") for name, counts in
             re.findall(r"(tile|unroll)\(([^)]*)\)", found[1])}
    for name, counts in parts.items():
        for left in counts:
            kept = {n: [c for c in cs if (n, c) != (name, left)] for n, cs in parts.items()}
            words = [f"{n}({', '.join(cs)})" for n, cs in kept.items() if cs]
            yield " ".join([*words, found[2]]).strip() or PLAIN
    yield found[2] or PLAIN


def without_sizes(name: str) -> str:
    """A kernel's name but for the sizes in it."""
    return f"{re.sub(r'(_n?[0-9]+)+$', '', name)}_any"
