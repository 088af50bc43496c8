"""What a kernel's numbers are at a size at which nobody has made instructions of it.

In: samples: what its graph had for numbers at some sizes, and what its instructions then had. Out:
the numbers at one more size, or None where they are not certain. All numbers of the kernel's graph
at that size must be what formulas say of it, too (lazyten/symbolic/formulas.py); floats of
instructions are those of the graph. With LAZYTEN_VERIFY the accesses of what comes out are proven
as those of any kernel.
"""
from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from lazyten.codegen.instructions.instructions import Compute, instructions_of
from lazyten.codegen.instructions.literals import Literal, literals_of, with_numbers
from lazyten.codegen.job import Job, Part
from lazyten.codegen.model.decisions import Decisions, range_name
from lazyten.codegen.targets.generated import Generated
from lazyten.codegen.verify.accesses import verify_accesses
from lazyten.codegen.verify.readback import TRUNCATED
from lazyten.ir.dtype import DType
from lazyten.ir.kernel import Kernel
from lazyten.ir.node import Node
from lazyten.ir.numbers import Numbers, Taken, taken_apart
from lazyten.support.passes import is_verifying
from lazyten.symbolic.formulas import Floats, Quantity, Samples, Sizes


class Sample(NamedTuple):
    """A kernel at some sizes: numbers of its graph, of its instructions, what was decided for each
    part, and how it is launched."""

    graph: Numbers
    literals: tuple[Literal, ...]
    decided: tuple[Decisions, ...]
    launch: Generated


class Found(NamedTuple):
    """The same where formulas say so."""

    literals: tuple[Literal, ...]
    launch: Generated


def numbers_of(kernel: Kernel) -> tuple[Hashable, Numbers]:
    """All of a kernel's graph but its numbers, and these."""
    taken = Taken()
    graph = taken_apart(kernel.outputs, taken)
    inputs = tuple((dtype, taken.without(size)) for dtype, size in kernel.inputs)
    return (graph, inputs, kernel.unaligned, kernel.tf32, kernel.decisions), taken.numbers


class Prediction:
    """What a template's numbers are at sizes that it has not been seen at: functions of sizes, and
    of the floats of the kernel's graph. job: at one of the samples. quantities: how many blocks of
    its ranges there are, and the like, which numbers may follow from besides products of sizes."""

    def __init__(self, job: Job, samples: Mapping[Sizes, Sample]) -> None:
        self._job = job
        self._order = order = list(samples.values())
        self._fit = Samples(tuple(samples))
        self.quantities = list(self._quantities(self._fit))
        self._integers = list(zip(*(s.graph.integers for s in order), strict=True))
        self._floats = Floats(s.graph.floats for s in order)
        self._literals = [_Lanes.of(seen) for seen in zip(*(s.literals for s in order),
                                                          strict=True)]
        self._is_sure = is_sure(job)

    def at(self, sizes: Sizes, graph: Numbers, kernel: Kernel) -> Found | None:
        """The numbers at these sizes; None where they are not certain. The graph must have the
        numbers that it has at the samples, as formulas go on."""
        fit = self._fit
        if not (self._is_sure and fit.covers(sizes) and self._floats.go_on(graph.floats)) \
                or fit.values(self._integers, sizes) != graph.integers:
            return None
        literals, known = [], dict[_Lanes, Literal | None]()
        for seen in self._literals:
            if isinstance(seen, _Lanes) and seen not in known:
                known[seen] = self._literal(seen, sizes, graph)
            literal = seen if isinstance(seen, Literal) else known[seen]
            if literal is None:
                return None
            literals.append(literal)
        launch = self._launch(fit, sizes, kernel)
        if launch is None:
            return None
        found = Found(tuple(literals), launch)
        if is_verifying():
            self._verify(found, kernel)
        return found

    def _literal(self, seen: _Lanes, sizes: Sizes, graph: Numbers) -> Literal | None:
        values = tuple([self._floats.value(lane, graph.floats) if seen.dtype.is_float
                        else self._fit.value(lane, sizes, self.quantities) for lane in seen.lanes])
        if None in values:
            return None
        return Literal(seen.dtype, values)  # type: ignore[arg-type]  # none is None

    def _quantities(self, fit: Samples) -> Iterator[Quantity]:
        """How many blocks there are of each range that is split, and of the two that threads
        share."""
        for part in range(len(self._order[0].decided)):
            decided = [s.decided[part] for s in self._order]
            steps: dict[str, set[int]] = {}
            extents: dict[str, list[int]] = {}
            for d in decided:
                own: dict[Node, list[int]] = {r: [] for r in d.parallel.ranges}
                for r, n in (*d.lanes, *d.tile, *d.unroll, *d.block):
                    own.setdefault(r, []).append(n)
                for r, counts in own.items():
                    extents.setdefault(range_name(r), []).append(r.arg.extent)
                    steps.setdefault(range_name(r), set()).update(_products(counts))
            blocks = {name: [fit.blocks(fit.extent(tuple(seen)), n) for n in sorted(steps[name])]
                      for name, seen in extents.items() if len(seen) == len(decided)}
            for found in blocks.values():
                yield from found
            shared = [blocks.get(range_name(r), []) for r in decided[0].parallel.ranges]
            if len(shared) > 1:
                yield from (fit.product(a, b) for a in shared[0] for b in shared[1])

    def _launch(self, fit: Samples, sizes: Sizes, kernel: Kernel) -> Generated | None:
        """How it is launched. Arguments that may be one memory are so at all samples."""
        launches = [s.launch for s in self._order]
        scratch = tuple(fit.value(seen, sizes, self.quantities) for seen in
                        zip(*(g.scratch for g in launches), strict=True))
        if None in scratch:
            return None
        in_place = tuple(p for p in launches[0].in_place if all(p in g.in_place for g in launches))
        return replace(launches[0], where=kernel.where, in_place=in_place,
                       scratch=scratch)  # type: ignore[arg-type]  # none is None

    def _verify(self, found: Found, kernel: Kernel) -> None:
        """InternalError unless all accesses are inside."""
        params = [(o.dtype, o.numel) for o in kernel.outputs] + list(kernel.inputs)
        job, first = self._job, 0
        sizes = dict(zip(range(len(params), len(params) + len(found.launch.scratch)),
                         found.launch.scratch, strict=True))
        for part in job.parts:
            function, count = part.instructions, len(literals_of(part.instructions).literals)
            given = [*params, *((function.params[slot][0],
                                 sizes[slot] // function.params[slot][0].itemsize)
                                for slot in sizes if slot < len(function.params))]
            verify_accesses(with_numbers(function, found.literals[first:first + count], given))
            first += count


class _Lanes(NamedTuple):
    """One number of the instructions that is not always the same, or one for each lane: what it was
    at the samples."""

    dtype: DType
    lanes: tuple[tuple[Any, ...], ...]

    @classmethod
    def of(cls, seen: Sequence[Literal]) -> Literal | _Lanes:
        """The number itself, where it is one."""
        if len({repr(literal.values) for literal in seen}) == 1:
            return seen[0]
        return cls(seen[0].dtype, tuple(zip(*(x.values for x in seen), strict=True)))


def is_sure(job: Job) -> bool:
    """Whether formulas may say the numbers of a kernel that was made to instructions."""
    return not any(map(_divides_signed, job.parts))


def _divides_signed(part: Part) -> bool:
    """Whether something that may be negative is divided: instructions for that depend on what is
    known of the divisor, and are not read back."""
    return any(isinstance(item, Compute) and item.op in TRUNCATED and item.out.dtype.kind != "u"
               and item.out.dtype.is_int for item in instructions_of(part.instructions.body))


def _products(counts: list[int]) -> set[int]:
    """Of some of these, or none of them."""
    found = {1}
    for n in counts:
        found |= {n * m for m in found}
    return found
