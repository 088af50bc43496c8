"""A computation at sizes at which nobody has recorded it: launches of which formulas say all numbers.

In: a segment that was planned at several sizes, whose kernels serve many (sizes/, and
codegen/templates.py). Out: at one more size all of its launches, and the memory that they take,
without a graph, a schedule or code; or None where that is not certain. What plans of two sizes have
in common is their form: the same programs in the same order on the same arrays. All else are whole
numbers: sizes of arrays, where blocks begin, and those that programs read from memory.
"""
from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

from lazyten.execution.segment import Ready, Segment
from lazyten.ir import dtype as dt
from lazyten.ir.dtype import DType, Scalar
from lazyten.ir.node import Node, Shape
from lazyten.storage.device import Argument, Handle, Launch, Limit, Program, executor
from lazyten.storage.storage import Buffer
from lazyten.symbolic.formulas import LEAST_SAMPLES, Quantity, Samples, Sizes

Formulas = Sequence[Callable[[Sizes], Scalar | None]]


class _Step(NamedTuple):
    """A program that is launched, the arrays that are its arguments, and how many numbers it has.
    """

    program: Program
    arrays: tuple[int, ...]
    count: int


class Sample(NamedTuple):
    """A segment at some sizes. kept: the places of numbers that are in the programs' code. ready:
    how it is launched."""

    form: Hashable
    numbers: tuple[Scalar, ...]
    steps: tuple[_Step, ...]
    kept: frozenset[int]
    ready: Ready


def sample_of(segment: Segment) -> Sample | None:
    """A planned segment taken apart; None where its programs serve one size, or it writes to what
    it reads."""
    ready = Ready(segment)
    if ready.aliased or not ready.is_plain or segment.hosts:
        return None
    made, steps, kept = ready.plan.schedule, list[_Step](), set[int]()
    forms, numbers = list[Hashable](), [size for _, size in made.arrays[made.inputs:]]
    for step, program in zip(made.steps, ready.plan.programs, strict=True):
        at = program.at_size
        if at is None:
            return None
        steps.append(_Step(program, step.args, len(at.numbers)))
        forms.append((at.form, step.args))
        kept |= {len(numbers) + i for i in at.kept}
        numbers += [*at.numbers, *step.offsets]
    shapes = [ready.kinds[array][2] for array in ready.buffered]
    numbers += [n for shape in shapes for n in shape]
    numbers += [check.arg.size for check in segment.checks]
    types = tuple([dtype for dtype, _ in made.arrays])
    fixed = tuple([id(p) if isinstance(p, Buffer) else None for p in segment.inputs])
    form = (types, made.inputs, tuple(forms), made.launches, tuple(map(len, shapes)), fixed,
            len(segment.checks), made.outputs, tuple(ready.sources))
    return Sample(form, tuple(numbers), tuple(steps), frozenset(kept), ready)


class _Same(tuple[Any]):
    """A number that is always the same, as the one formula there is."""

    def __new__(cls, number: Any) -> _Same:
        return super().__new__(cls, [lambda sizes: number])


class Sized:
    """A segment at all sizes between some at which it was planned: with the memory that it has at
    one of them, in which arrays that others have made way for are as large as they have to be."""

    def __init__(self, segment: Segment, samples: Mapping[Sizes, Sample]) -> None:
        """samples: of one form, the last one of this segment."""
        self.samples, self.segment = dict(samples), segment
        self._fit = Samples(tuple(samples))
        self._sample = next(reversed(samples.values()))
        self.ready = self._sample.ready
        columns = list(zip(*(s.numbers for s in samples.values()), strict=True))
        keys = [(type(column[0]), column) for column in columns]  # 1 is 1.0, and True
        places = {key: i for i, key in enumerate(dict.fromkeys(keys))}
        self._quantities = self._different([
            q for step in self._sample.steps if (at := step.program.at_size) is not None
            for q in at.quantities])
        self._index = [places[key] for key in keys]
        self._formulas = [self._formulas_of(column) for _, column in places]
        made = self.ready.plan.schedule
        self._members = [[a for a, b in made.blocks.items() if b == block]
                         for block in range(len(made.block_sizes))] + [[a] for a in made.aliases]
        fixed = self.ready.arrays[len(self.ready.sources):]
        self._inputs = self.ready.fixed[:len(fixed) - len(made.blocks) - len(self.ready.buffered)]
        order = [*self.ready.arrays[:len(self.ready.sources) + len(self._inputs)],
                 *self.ready.buffered]
        place = {array: i for i, array in enumerate(order)}
        self._place = place | {a: len(order) + block for block, members in enumerate(self._members)
                               for a in members}

    def _formulas_of(self, seen: tuple[Any, ...]) -> _Same | Formulas:
        """The number itself where it is always the same, or all formulas that hold."""
        if len(set(map(repr, seen))) == 1:
            return _Same(seen[0])
        if isinstance(seen[0], float):
            return self._fit.float_formulas(seen)
        return self._fit.formulas(seen, [q for q in self._quantities if _is_linear(seen, q.seen)])

    def _different(self, quantities: Sequence[Quantity]) -> list[Quantity]:
        """Those that are not the same at all samples and between each two that follow."""
        order = sorted(self._fit.sizes)
        between = [tuple([(a + b) // 2 for a, b in zip(*pair, strict=True)])
                   for pair in pairwise(order)]
        found: dict[tuple[int | None, ...], Quantity] = {}
        for q in quantities:
            seen = tuple(map(q.at, self._fit.sizes))
            if None not in seen:
                found.setdefault((*seen, *map(q.at, between)), Quantity(seen, q.at))  # type: ignore[arg-type]  # none is None
        return list(found.values())

    @property
    def is_certain(self) -> bool:
        """Whether there are formulas of all numbers."""
        return all(self._formulas) and all(
            isinstance(self._formulas[self._index[place]], _Same) for place in self._sample.kept)

    def at(self, sizes: Sizes) -> Launched | None:
        """It at these sizes; None where some number is not certain."""
        values = self._values(sizes)
        return None if values is None else self._launched(iter(values))

    def _values(self, sizes: Sizes) -> Sequence[int] | None:
        known = self.samples.get(sizes)
        if known is self._sample:
            return known.numbers
        if not self.is_certain:
            return None
        if known is not None:
            return known.numbers
        if len(self.samples) < LEAST_SAMPLES or not self._fit.covers(sizes):
            return None
        values = []
        for formulas in self._formulas:
            found = {f(sizes) for f in formulas}
            value = found.pop() if len(found) == 1 else None
            if value is None:
                return None
            values.append(value)
        return [values[i] for i in self._index]

    def _launched(self, numbers: Iterator[int]) -> Launched:
        made, checks, runtime = self.ready.plan.schedule, len(self.segment.checks), executor(
            self.segment.device)
        arrays = [(dtype, next(numbers)) for dtype, _ in made.arrays[made.inputs:]]
        own, arguments = list[list[int]](), list[list[Argument]]()
        for step in self._sample.steps:
            own.append([next(numbers) for _ in range(step.count)])
            arguments.append([Argument(self._place[a], next(numbers)) for a in step.arrays])
        results = [(*arrays[a - made.inputs], tuple([
            next(numbers) for _ in self.ready.kinds[a][2]])) for a in self.ready.buffered]
        nbytes = [dtype.itemsize * size for dtype, size in arrays]
        blocks = [max(nbytes[a - made.inputs] for a in members) for members in self._members]
        programs = runtime.at_numbers([step.program for step in self._sample.steps], own)
        steps = iter(zip(programs, arguments, strict=True))
        launches: list[Launch] = [[next(steps) for _ in range(n)] for n in made.launches]
        limits = [Limit(Argument(self._place[a]), next(numbers)) for a in made.outputs[:checks]]
        launch = runtime.guarded(launches, limits, ()) if checks else runtime.sequence(launches)
        return Launched(self.segment, launch, results, blocks, (self.ready, self._inputs))


def _is_linear(numbers: Sequence[int], of: Sequence[int]) -> bool:
    """Whether numbers may be a constant and a factor of others."""
    (a, *numbers), (b, *of) = numbers, of
    return len({(n - a) * (o2 - b) - (n2 - a) * (o - b) for (n, o), (n2, o2) in pairwise(
        zip(numbers, of, strict=True))} | {0}) == 1


class Launched:
    """The launches of a segment at some sizes. results, blocks: memory that they take."""

    def __init__(self, segment: Segment, launch: Callable[[Sequence[Handle]], object],
                 results: Sequence[tuple[DType, int, Shape]], blocks: Sequence[int],
                 known: tuple[Ready, Sequence[Handle]]) -> None:
        """known: the segment at other sizes, and what is always the same."""
        self._segment, self._launch, self._results, self._blocks = segment, launch, results, blocks
        ready, self._inputs = known
        self._sources, self._places = ready.sources, ready.places[len(segment.checks):]

    def run(self, sources: Sequence[Buffer]) -> list[Node] | None:
        """The node that reads the value of each root; None where an index is outside."""
        device = self._segment.device
        blocks = [Buffer(device, dt.uint8, size) for size in self._blocks]
        made = [Buffer(device, dtype, size) for dtype, size, _ in self._results]
        within = self._launch([*[sources[n].handle for n in self._sources], *self._inputs,
                               *[b.handle for b in made], *[b.handle for b in blocks]])
        if self._segment.checks and not within:
            return None
        return [made[place].node(self._results[place][2]) for place in self._places]
