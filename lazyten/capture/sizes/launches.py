"""A computation at sizes at which nobody has recorded it: formulas say all numbers of its launches.

In: a segment that was planned at several sizes, whose kernels serve many (sizes/, and
codegen/templates.py). Out: at one more size all of its launches, and the memory that they take,
without a graph, a schedule or code; or None where that is not certain. What plans of two sizes have
in common is their form: the same programs in the same order on the same arrays. All else are
numbers: sizes of arrays, where inputs begin, and what programs read from memory.
"""
from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from itertools import accumulate, pairwise
from typing import Any, NamedTuple

import numpy as np

from lazyten.devices.program import SLOT_BYTES, Argument, Handle, Launch, Limit, Program, in_slot
from lazyten.execution.aliasing import replacements
from lazyten.execution.segment import Segment
from lazyten.ir import dtype as dt
from lazyten.ir.dtype import DType, Scalar
from lazyten.ir.node import Node
from lazyten.schedule.schedule import Schedule, replan
from lazyten.storage.device import executor
from lazyten.storage.placeholder import Placeholder
from lazyten.storage.storage import Buffer
from lazyten.symbolic.formulas import LEAST_SAMPLES, Quantity, Samples, Sizes

LINE, ALIGNED = 8, 64
"""Numbers of a cache line, at one of which those of each program begin, and bytes of one."""
Formulas = Sequence[Callable[[Sizes], Scalar | None]]


class Sample(NamedTuple):
    """A segment at some sizes. kept: the places of numbers that are in the programs' code."""

    form: Hashable
    numbers: tuple[Scalar, ...]
    kept: frozenset[int]


def sample_of(segment: Segment) -> Sample | None:
    """A planned segment taken apart; None where its programs serve one size, or it writes to what
    it reads."""
    made = segment.planned.schedule
    outputs = [a for a in made.outputs if a >= made.inputs]
    if len({*outputs}) < len(made.outputs) or segment.hosts or segment.donated or any(
            root.written is not None for root in segment.roots):
        return None
    forms, kept = list[Hashable](), set[int]()
    numbers: list[Scalar] = [size for _, size in made.arrays[made.inputs:]]
    numbers += [n for shape in segment.shapes for n in shape]
    numbers += [check.arg.size for check in segment.checks]
    for step, program in zip(made.steps, segment.planned.programs, strict=True):
        at = program.at_size
        if at is None:
            return None
        forms.append((at.form, len(at.scratch), step.args))
        kept |= {len(numbers) + i for i in at.kept}
        numbers += [*at.numbers, *at.scratch, *step.offsets]
    inputs = tuple([p.number if isinstance(p, Placeholder) else id(p) for p in segment.inputs])
    form = (tuple([dtype for dtype, _ in made.arrays]), made.inputs, tuple(forms), made.launches,
            tuple(map(len, segment.shapes)), inputs, len(segment.checks), made.outputs)
    return Sample(form, tuple(numbers), frozenset(kept))


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
        self._memory = _Memory(segment, self._index)
        self._launches: dict[Hashable, Callable[[Sequence[Handle]], object]] = {}

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
        values = self._values(sizes)
        if values is None:
            return None
        memory = self._memory
        key = tuple([values[i] for i in memory.fixed_in_launch])
        if key not in self._launches:
            self._launches[key] = memory.launch(iter(key))
        return Launched(memory, self._launches[key], values)

    def has(self, sizes: Sizes, sample: Sample) -> bool:
        """Whether these numbers are what formulas say, if it is a sample of this form."""
        values = self._values(sizes)
        return sample.form != self._last.form or values is not None and sample.numbers == tuple(
            [values[i] for i in self._index])

    def _values(self, sizes: Sizes) -> list[Any] | None:
        """All different numbers at these sizes."""
        known = self.samples.get(sizes)
        if known is self._last or known is not None and self.is_certain:
            values: list[Any] = [None] * len(self._formulas)
            for at, number in zip(self._index, known.numbers, strict=True):
                values[at] = number
            return values
        if not self.is_certain or len(self.samples) < LEAST_SAMPLES or not self._fit.covers(sizes):
            return None
        values = []
        for formulas in self._formulas:
            found = {formula(sizes) for formula in formulas}
            value = found.pop() if len(found) == 1 else None
            if value is None:
                return None
            values.append(value)
        return values


class _Same(list[Any]):
    """The one formula of a number that is always the same."""


def _is_linear(numbers: Sequence[int], of: Sequence[int]) -> bool:
    """Whether numbers may be a constant and a factor of others."""
    pairs = list(zip(numbers, of, strict=True))
    (n0, o0), (n1, o1) = pairs[0], next((p for p in pairs if p[1] != of[0]), pairs[0])
    return all((n - n0) * (o1 - o0) == (n1 - n0) * (o - o0) for n, o in pairs)


class _Result(NamedTuple):
    """What a segment gives: its type, and which of the values are its size and shape."""

    dtype: DType
    size: int
    shape: tuple[int, ...]


class _Memory:
    """The table of memory that a segment's programs run on: sources, what is always the same,
    results, and blocks, each of which arrays have one after the other. It knows which of the
    different values that formulas give is what.

    slots: of each number that programs read, which value it is, and its type. results: see
    `_Result`. blocks: of each array in a block, its bytes an element and which value its size is.
    fixed_in_launch: values that a list of launches is made with.
    """

    def __init__(self, segment: Segment, index: Sequence[int]) -> None:
        self.segment, left = segment, iter(index)
        made: Schedule = segment.planned.schedule
        made = replan(made, replacements(made, segment.planned.programs), ())
        size = {made.inputs + i: next(left) for i in range(len(made.arrays) - made.inputs)}
        self.results = [_Result(made.arrays[a][0], size[a], tuple([next(left) for _ in shape]))
                        for a, shape in zip(made.outputs, segment.shapes, strict=True)]
        self.fixed_in_launch = [next(left) for _ in segment.checks]
        self._place_arrays(made, size)
        self._read(left)

    def _place_arrays(self, made: Schedule, size: Mapping[int, int]) -> None:
        self.sources, self.fixed = list[int](), list[Buffer]()
        order: dict[bool, list[int]] = {True: [], False: []}
        for array, given in enumerate(self.segment.inputs):
            order[isinstance(given, Placeholder)].append(array)
            if isinstance(given, Placeholder):
                self.sources.append(given.number)
            else:
                self.fixed.append(given)
        table = [*order[True], *order[False], *made.outputs]
        members = [[a for a, b in made.blocks.items() if b == block]
                   for block in range(len(made.block_sizes))] + [[a] for a in made.aliases]
        self.blocks = [[(made.arrays[a][0].itemsize, size[a]) for a in arrays]
                       for arrays in members]
        self._place = {array: i for i, array in enumerate(table)} | {
            a: len(table) + i for i, arrays in enumerate(members) for a in arrays}

    def _read(self, left: Iterator[int]) -> None:
        """Where programs find their numbers: those of each begin with a line of memory."""
        places: dict[tuple[int, DType], int] = {}
        slots, self.starts = list[int](), list[int]()
        steps = zip(self.segment.planned.schedule.steps, self.segment.planned.programs, strict=True)
        for step, program in steps:
            at = program.at_size
            assert at is not None
            own = [next(left) for _ in at.numbers]
            self.starts.append(len(slots) * SLOT_BYTES)
            slots += [places.setdefault((own[n], dtype), len(places)) for n, dtype in at.slots]
            slots += [0] * (-len(slots) % LINE)
            self.fixed_in_launch += [next(left) for _ in (*at.scratch, *step.offsets)]
        self.slots, self.different = np.array(slots, np.intp), list(places)
        self.numbers = Buffer(self.segment.device, dt.int64, len(slots))
        self.now: list[Any] | None = None

    def launch(self, values: Iterator[Any]) -> Callable[[Sequence[Handle]], object]:
        """All launches. values: those fixed in them."""
        made, segment = self.segment.planned.schedule, self.segment
        runtime, checks = executor(segment.device), len(segment.checks)
        below = [next(values) for _ in segment.checks]
        programs, arguments = list[Program](), list[list[Argument]]()
        for step, program, start in zip(made.steps, segment.planned.programs, self.starts,
                                        strict=True):
            at = program.at_size
            assert at is not None
            programs.append(runtime.at_numbers(program, self.numbers.handle, start,
                                               [next(values) for _ in at.scratch]))
            arguments.append([Argument(self._place[a], next(values)) for a in step.args])
        steps = iter(zip(programs, arguments, strict=True))
        launches: list[Launch] = [[next(steps) for _ in range(n)] for n in made.launches]
        if not checks:
            return runtime.sequence(launches)
        limits = [Limit(Argument(self._place[a]), n)
                  for a, n in zip(made.outputs, below, strict=False)]
        return runtime.guarded(launches, limits, ())

    def tell(self, values: list[Any]) -> None:
        """Have the programs read these."""
        if self.now is not values:
            bits = b"".join([in_slot(values[at], dtype) for at, dtype in self.different])
            found = np.frombuffer(bits, np.int64)[self.slots]
            executor(self.segment.device).copy_in(self.numbers.handle, found)
            self.now = values


class Launched:
    """The launches of a segment at some sizes, which share memory with those at others: one of all
    runs at a time."""

    def __init__(self, memory: _Memory, launch: Callable[[Sequence[Handle]], object],
                 values: list[Any]) -> None:
        self._memory, self._launch, self._values = memory, launch, values
        self._results = [(r.dtype, values[r.size], tuple([values[n] for n in r.shape]))
                         for r in memory.results]
        sizes = [max(n * values[i] for n, i in arrays) for arrays in memory.blocks]
        *self._starts, self._bytes = accumulate(
            [-(-size // ALIGNED) * ALIGNED for size in sizes], initial=0)

    def run(self, sources: Sequence[Buffer]) -> list[Node] | None:
        """The node that reads the value of each root; None where an index is outside."""
        memory, device = self._memory, self._memory.segment.device
        runtime, checks = executor(device), len(memory.segment.checks)
        made = [Buffer(device, dtype, size) for dtype, size, _ in self._results]
        blocks = Buffer(device, dt.uint8, self._bytes)
        given = [sources[number] for number in memory.sources]
        memory.tell(self._values)
        within = self._launch([
            *[b.handle for b in (*given, *memory.fixed, *made)],
            *[runtime.with_offset(blocks.handle, start) for start in self._starts]])
        if checks and not within:
            return None
        return [b.node(shape) for b, (_, _, shape) in zip(
            made[checks:], self._results[checks:], strict=True)]
