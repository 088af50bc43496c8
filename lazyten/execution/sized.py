"""A computation at sizes at which nobody has recorded it: formulas say all numbers of its launches.

In: a segment that was planned at several sizes, whose kernels serve many (sizes/, and
codegen/templates.py). Out: at one more size all of its launches, and the memory that they take,
without a graph, a schedule or code; or None where that is not certain. What plans of two sizes have
in common is their form: the same programs in the same order on the same arrays. All else are
numbers: sizes of arrays, where inputs begin, and what programs read from memory.
"""
from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

from lazyten.execution.aliasing import replacements
from lazyten.execution.segment import Segment
from lazyten.ir import dtype as dt
from lazyten.ir.dtype import DType, Scalar
from lazyten.ir.node import Node, Shape
from lazyten.schedule.schedule import Schedule, replan
from lazyten.storage.device import Argument, Handle, Launch, Limit, executor
from lazyten.storage.placeholder import Placeholder
from lazyten.storage.storage import Buffer
from lazyten.symbolic.formulas import LEAST_SAMPLES, Quantity, Samples, Sizes

Formulas = Sequence[Callable[[Sizes], Scalar | None]]


class Sample(NamedTuple):
    """A segment at some sizes. kept: the places of numbers that are in the programs' code. counts:
    how many numbers each program has."""

    form: Hashable
    numbers: tuple[Scalar, ...]
    counts: tuple[int, ...]
    kept: frozenset[int]


def sample_of(segment: Segment) -> Sample | None:
    """A planned segment taken apart; None where its programs serve one size, or it writes to what
    it reads."""
    made = segment.planned.schedule
    outputs = [a for a in made.outputs if a >= made.inputs]
    if len({*outputs}) < len(made.outputs) or segment.hosts or segment.donated or any(
            root.written is not None for root in segment.roots):
        return None
    forms, counts, kept = list[Hashable](), list[int](), set[int]()
    numbers: list[Scalar] = [size for _, size in made.arrays[made.inputs:]]
    for step, program in zip(made.steps, segment.planned.programs, strict=True):
        at = program.at_size
        if at is None:
            return None
        counts.append(len(at.numbers))
        forms.append((at.form, step.args))
        kept |= {len(numbers) + i for i in at.kept}
        numbers += [*at.numbers, *step.offsets]
    numbers += [n for shape in segment.shapes for n in shape]
    numbers += [check.arg.size for check in segment.checks]
    inputs = tuple([p.number if isinstance(p, Placeholder) else id(p) for p in segment.inputs])
    form = (tuple([dtype for dtype, _ in made.arrays]), made.inputs, tuple(forms), made.launches,
            tuple(map(len, segment.shapes)), inputs, len(segment.checks), made.outputs)
    return Sample(form, tuple(numbers), tuple(counts), frozenset(kept))


class Sized:
    """A segment at all sizes between some at which it was planned."""

    def __init__(self, segment: Segment, samples: Mapping[Sizes, Sample]) -> None:
        """samples: of one form, the last one of this segment."""
        self.samples, self.segment = dict(samples), segment
        self._fit, self._last = Samples(tuple(samples)), [*samples.values()][-1]
        columns = list(zip(*(s.numbers for s in samples.values()), strict=True))
        keys = [(type(column[0]), column) for column in columns]  # 1 is 1.0, and True
        places = {key: i for i, key in enumerate(dict.fromkeys(keys))}
        self._quantities = self._different([
            q for program in segment.planned.programs if (at := program.at_size) is not None
            for q in at.quantities])
        self._index = [places[key] for key in keys]
        self._formulas = [self._formulas_of(column) for _, column in places]
        self._memory = _Memory(segment)

    def _formulas_of(self, seen: tuple[Any, ...]) -> Formulas:
        """The number itself where it is always the same, or all formulas that hold."""
        if len(set(map(repr, seen))) == 1:
            return _Same([lambda sizes: seen[0]])
        if isinstance(seen[0], float):
            return self._fit.float_formulas(seen)
        return self._fit.formulas(seen, [q for q in self._quantities if _is_linear(seen, q.seen)])

    def _different(self, quantities: Sequence[Quantity]) -> list[Quantity]:
        """Those that are not the same at all samples and between each two that follow."""
        sizes = sorted(self._fit.sizes)
        between = [tuple([(a + b) // 2 for a, b in zip(*pair, strict=True)])
                   for pair in pairwise(sizes)]
        found: dict[Hashable, Quantity] = {}
        for q in quantities:
            seen = tuple([n for s in self._fit.sizes if (n := q.at(s)) is not None])
            if len(seen) == len(sizes):
                found.setdefault((seen, *map(q.at, between)), Quantity(seen, q.at))
        return list(found.values())

    @property
    def is_certain(self) -> bool:
        """Whether there are formulas of all numbers, and none of them is in code but what is always
        the same."""
        return all(self._formulas) and all(
            isinstance(self._formulas[self._index[place]], _Same) for place in self._last.kept)

    def at(self, sizes: Sizes) -> Launched | None:
        """It at these sizes; None where some number is not certain."""
        numbers = self._numbers(sizes)
        return None if numbers is None else self._launched(iter(numbers))

    def has(self, sizes: Sizes, sample: Sample) -> bool:
        """Whether these numbers are what formulas say, if it is a sample of this form."""
        return sample.form != self._last.form or sample.numbers == tuple(
            self._numbers(sizes) or ())

    def _numbers(self, sizes: Sizes) -> Sequence[Any] | None:
        known = self.samples.get(sizes)
        if known is self._last or known is not None and self.is_certain:
            return known.numbers
        if not self.is_certain or len(self.samples) < LEAST_SAMPLES or not self._fit.covers(sizes):
            return None
        values = []
        for formulas in self._formulas:
            found = {formula(sizes) for formula in formulas}
            value = found.pop() if len(found) == 1 else None
            if value is None:
                return None
            values.append(value)
        return [values[i] for i in self._index]

    def _launched(self, numbers: Iterator[Any]) -> Launched:
        segment, memory, made = self.segment, self._memory, self.segment.planned.schedule
        arrays = [(dtype, next(numbers)) for dtype, _ in made.arrays[made.inputs:]]
        own, arguments = list[list[Scalar]](), list[list[Argument]]()
        for step, count in zip(made.steps, self._last.counts, strict=True):
            own.append([next(numbers) for _ in range(count)])
            arguments.append([Argument(memory.place[a], next(numbers)) for a in step.args])
        shapes = [tuple([next(numbers) for _ in shape]) for shape in segment.shapes]
        runtime, checks = executor(segment.device), len(segment.checks)
        programs = runtime.at_numbers(segment.planned.programs, own)
        steps = iter(zip(programs, arguments, strict=True))
        launches: list[Launch] = [[next(steps) for _ in range(n)] for n in made.launches]
        limits = [Limit(Argument(memory.place[a]), next(numbers)) for a in made.outputs[:checks]]
        launch = runtime.guarded(launches, limits, ()) if checks else runtime.sequence(launches)
        nbytes = {made.inputs + i: dtype.itemsize * n for i, (dtype, n) in enumerate(arrays)}
        results = [(*arrays[a - made.inputs], shape)
                   for a, shape in zip(made.outputs, shapes, strict=True)]
        return Launched(memory, launch, results,
                        [max(nbytes[a] for a in members) for members in memory.blocks])


class _Same(list[Any]):
    """The one formula of a number that is always the same."""


def _is_linear(numbers: Sequence[int], of: Sequence[int]) -> bool:
    """Whether numbers may be a constant and a factor of others."""
    pairs = list(zip(numbers, of, strict=True))
    (n0, o0), (n1, o1) = pairs[0], next((p for p in pairs if p[1] != of[0]), pairs[0])
    return all((n - n0) * (o1 - o0) == (n1 - n0) * (o - o0) for n, o in pairs)


class _Memory:
    """The table of memory that a segment's programs run on: sources, what is always the same,
    results, and blocks, each of which arrays have one after the other. place: of each array."""

    def __init__(self, segment: Segment) -> None:
        self.device, self.checks = segment.device, len(segment.checks)
        made: Schedule = segment.planned.schedule
        made = replan(made, replacements(made, segment.planned.programs), ())
        self.sources, self.fixed = list[int](), list[Buffer]()
        order: dict[bool, list[int]] = {True: [], False: []}
        for array, given in enumerate(segment.inputs):
            order[isinstance(given, Placeholder)].append(array)
            if isinstance(given, Placeholder):
                self.sources.append(given.number)
            else:
                self.fixed.append(given)
        table = [*order[True], *order[False], *made.outputs]
        self.blocks = [[a for a, b in made.blocks.items() if b == block]
                       for block in range(len(made.block_sizes))] + [[a] for a in made.aliases]
        self.place = {array: i for i, array in enumerate(table)} | {
            a: len(table) + i for i, members in enumerate(self.blocks) for a in members}


class Launched:
    """The launches of a segment at some sizes. results, blocks: memory that they take."""

    def __init__(self, memory: _Memory, launch: Callable[[Sequence[Handle]], object],
                 results: Sequence[tuple[DType, int, Shape]], blocks: Sequence[int]) -> None:
        self._memory, self._launch, self._results, self._blocks = memory, launch, results, blocks

    def run(self, sources: Sequence[Buffer]) -> list[Node] | None:
        """The node that reads the value of each root; None where an index is outside."""
        memory = self._memory
        made = [Buffer(memory.device, dtype, size) for dtype, size, _ in self._results]
        blocks = [Buffer(memory.device, dt.uint8, size) for size in self._blocks]
        given = [sources[number] for number in memory.sources]
        within = self._launch([b.handle for b in (*given, *memory.fixed, *made, *blocks)])
        if memory.checks and not within:
            return None
        return [b.node(shape) for b, (_, _, shape) in zip(
            made[memory.checks:], self._results[memory.checks:], strict=True)]
