"""Graphs with SCANs and COLLECTIVEs, in sections: the kernels of a scan's body are made once, and
run for each step; a collective is a step that no device runs.

In: a graph, and how to schedule one without these. Out: the steps of all, in order. Between two
cuts, as both are called, there is a graph of its own, with what a cut has computed as an input;
what a later section needs of an earlier one is stored there, but for moves and constants, which are
read again. Each node belongs to the latest section that it can. schedule.py calls this.

A step of a scan is the steps of its body's schedule on other arguments: rows of what it reads, the
row of states before, and its own. So a scan of any length costs no more to schedule, and compiles
the same kernels. Collectives run in the order in which they were recorded, all of them. Each is
two steps: it begins once what it reads is there, and is waited for before a section that reads its
result; until then its arrays are in use.
"""
from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Protocol

from lazyten.ir.collective import Collective, collectives
from lazyten.ir.dtype import DType
from lazyten.ir.kernel import Kernel, Slot
from lazyten.ir.node import Node, consumers, make, rebuild, reshape, rewrite, toposort, unshaped
from lazyten.ir.ops import MOVEMENT, Op
from lazyten.ir.scan import ALIGNED, Body, unrolled
from lazyten.schedule.cost import StoredValue
from lazyten.schedule.deciding import is_deciding, is_inexact
from lazyten.schedule.steps import Repeat, Step
from lazyten.support.location import Location, of_no_line

Arrays = Sequence[tuple[DType, int]]
CUTS = frozenset({Op.SCAN, Op.COLLECTIVE})
UNDER_WAY = 4
"""So many collectives travel at once; the oldest is waited for before another begins."""
READ_AGAIN = MOVEMENT | {Op.CONST, Op.IOTA}
"""What a later section computes itself instead of reading it from memory."""


class Scheduled(Protocol):
    """What this needs of a Schedule."""

    @property
    def arrays(self) -> Arrays: ...
    @property
    def steps(self) -> tuple[Step, ...]: ...
    @property
    def outputs(self) -> tuple[int, ...]: ...
    @property
    def launches(self) -> tuple[int, ...]: ...
    @property
    def stored(self) -> Sequence[StoredValue]: ...
    @property
    def saved(self) -> Sequence[float]: ...


class Make(Protocol):
    """Schedules roots over BUFFER(Slot) leaves, without cuts. needed: values to store in any case;
    loose: inputs that may start at any element."""

    def __call__(self, roots: Sequence[Node], inputs: Arrays, *, needed: tuple[Node, ...] = (),
                 loose: frozenset[int] = frozenset()) -> Scheduled: ...


def fits(body: Body, alignment: int) -> bool:
    """Whether a body's kernels can write into rows: each part is a value of its own."""
    parts = [unshaped(n) for n in body.outputs]
    return len(set(parts)) == len(parts) and ALIGNED % alignment == 0 and not any(
        n.op in (Op.BUFFER, Op.CONST) for n in parts)


def without_scans(roots: Sequence[Node], kept: Callable[[Body], bool]) -> Sequence[Node]:
    """Each SCAN, but for those that are kept, as the nodes of its steps."""
    if all(n.op is not Op.SCAN or kept(n.arg) for n in toposort(roots)):
        return roots
    return rewrite(roots, lambda n: unrolled(n) if n.op is Op.SCAN and not kept(n.arg) else None)


@dataclass(slots=True, eq=False)
class Sections:
    """What is scheduled so far. arrays: the inputs first; place: where a value is; kernels: by
    what they compute; under_way: collectives that were begun, by the arrays of their results. The
    other fields are those of a Schedule."""

    make: Make
    alignment: int
    arrays: list[tuple[DType, int]]
    place: dict[Node, int] = field(default_factory=dict)
    kernels: dict[Hashable, Kernel] = field(default_factory=dict)
    steps: list[Step] = field(default_factory=list)
    launches: list[int] = field(default_factory=list)
    repeats: list[Repeat] = field(default_factory=list)
    stored: list[StoredValue] = field(default_factory=list)
    saved: list[float] = field(default_factory=list)
    under_way: dict[int, Node] = field(default_factory=dict)

    def run(self, roots: Sequence[Node]) -> tuple[int, ...]:
        """Schedule all sections; gives the arrays of the roots."""
        order = toposort([*collectives(toposort(roots)), *roots])  # which are then in order
        cuts = [n for n in order if n.op in CUTS]
        latest = _latest(order, cuts)
        deciding = _deciding_later(order, latest)
        for number, values in enumerate(_wanted(cuts, latest, roots)):
            self._graph(values, deciding)
            if number < len(cuts):
                cut = cuts[number]
                self._wait_for([self._where(s) for s in cut.src])
                (self._scan if cut.op is Op.SCAN else self._begin)(cut)
        self._wait_for([*self.under_way])
        return tuple(self._where(r) for r in roots)

    def _where(self, node: Node) -> int:
        """The array of a value that is in memory."""
        flat = unshaped(node)
        if flat.op is Op.BUFFER:
            slot: int = flat.arg.slot
            return slot
        return self.place[flat]

    def _graph(self, values: Sequence[Node], deciding: Collection[Node]) -> None:
        """Compute these values, from what is in memory. deciding: of these, what to store, too."""
        values = [v for v in dict.fromkeys(map(unshaped, values))
                  if v.op is not Op.BUFFER and v not in self.place]
        if not values:
            return
        inputs: dict[int, Node] = {}

        def read(node: Node, array: int) -> Node:
            dtype, size = self.arrays[array]
            if array not in inputs:
                inputs[array] = make(Op.BUFFER, dtype, (), Slot(len(inputs), size))
            return reshape(inputs[array], node.shape)

        memo: dict[Node, Node] = {}
        for n in toposort(values, known=self.place):
            if n in self.place or n.op is Op.BUFFER:
                memo[n] = read(n, self._where(n))
            else:
                memo[n] = rebuild(n, tuple([memo[s] for s in n.src]))
        self._wait_for([*inputs])
        made = self.make([memo[v] for v in values], [self.arrays[a] for a in inputs],
                         needed=tuple(memo[n] for n in memo
                                      if n in deciding and n not in self.place))
        at = self._added(made, dict(enumerate(inputs)))
        self._take(made, self._shared(made.steps, None), at, {})
        self.place |= {v: at[a] for v, a in zip(values, made.outputs, strict=True)}

    def _added(self, made: Scheduled, at: dict[int, int]) -> dict[int, int]:
        """at: the array here of each of a schedule's inputs; gives those of all, new ones for the
        others."""
        for number in range(len(made.arrays)):
            if number not in at:
                at[number] = len(self.arrays)
                self.arrays.append(made.arrays[number])
        return at

    def _shared(self, steps: Sequence[Step], where: Location | None) -> list[Step]:
        """The steps with one kernel for equal expressions, of this line if of none."""
        found = []
        for step in steps:
            kernel = step.kernel
            key = kernel.outputs, kernel.inputs, kernel.unaligned
            if key not in self.kernels:
                self.kernels[key] = replace(kernel, where=kernel.where or where)
            found.append(replace(step, kernel=self.kernels[key]))
        return found

    def _take(self, made: Scheduled, steps: Sequence[Step], at: Mapping[int, int],
              later: Mapping[int, int]) -> None:
        """Run a schedule's steps on these arrays, from so many bytes on."""
        self.steps += [Step(
            s.kernel, tuple([at[a] for a in s.args]),
            tuple([o + later.get(a, 0) for a, o in zip(s.args, s.offsets, strict=True)]))
            for s in steps]
        self.launches += made.launches
        self.stored += made.stored
        self.saved += made.saved

    def _begin(self, node: Node) -> None:
        """Begin a collective, once few are under way: what they read is in memory until they end.
        """
        self._wait_for([*self.under_way][:1 - UNDER_WAY])
        result = self.place[node] = len(self.arrays)
        self.arrays.append((node.dtype, node.numel))
        self.under_way[result] = node
        self._collective(node, result, node.arg)

    def _wait_for(self, arrays: Collection[int]) -> None:
        """Wait for the collectives whose results are among these."""
        for result in [a for a in self.under_way if a in arrays]:
            node = self.under_way.pop(result)
            self._collective(node, result, node.arg.ended())

    def _collective(self, node: Node, result: int, what: Collective) -> None:
        """A step of its own, which has the arrays of a collective."""
        inputs = tuple([(s.dtype, s.numel) for s in node.src])
        sources = tuple([reshape(make(Op.BUFFER, s.dtype, (), Slot(1 + i, s.numel)), s.shape)
                         for i, s in enumerate(node.src)])
        kernel = Kernel(f"{what.kind}_{'end' if what.is_end else 'begin'}_{what.serial}",
                        (make(node.op, node.dtype, sources, what),), inputs, node.where)
        args = result, *[self._where(s) for s in node.src]
        self.steps.append(Step(kernel, args, (0,) * len(args)))
        self.launches.append(1)
        self.stored.append(StoredValue(node, "what several ranks make together", 0.0, 0.0, 0.0))
        self.saved.append(0.0)

    def _scan(self, node: Node) -> None:
        """Run a scan's body for each of its steps."""
        body: Body = node.arg
        width = node.shape[1] * node.dtype.itemsize
        result = self.place[node] = len(self.arrays)
        self.arrays.append((node.dtype, node.numel))
        sources = [self._where(s) for s in node.src]
        rows = [s.shape[1] * s.dtype.itemsize for s in node.src[:body.xs]]
        sizes = [s.numel // (body.length if i < body.xs else 1) for i, s in enumerate(node.src)]
        given = [(s.dtype, n) for s, n in zip(node.src, sizes, strict=True)]
        with of_no_line():  # a body may be that of scans of other lines, too
            made = self.make([reshape(n, (n.numel,)) for n in body.outputs], given, loose=frozenset(
                i for i, nbytes in enumerate(rows) if nbytes % self.alignment))
        starts = [n * node.dtype.itemsize for n in body.starts]
        own = self._added(made, dict(enumerate(sources)) | dict.fromkeys(made.outputs, result))
        steps = self._shared(made.steps, node.where)
        self.repeats.append(Repeat(  # the first round reads the states before all
            len(self.steps) + len(steps), len(steps), len(self.launches) + len(made.launches),
            len(made.launches), body.length - 1))
        before: int | None = None
        for t in body.steps:
            at, later = dict(own), {i: t * nbytes for i, nbytes in enumerate(rows)}
            later |= {a: t * width + start for a, start in zip(made.outputs, starts, strict=True)}
            if before is not None:
                states = range(body.xs, body.xs + body.carried)
                at |= dict.fromkeys(states, result)
                later |= {i: before * width + start
                          for i, start in zip(states, starts, strict=False)}
            self._take(made, steps, at, later)
            before = t


def _latest(order: Sequence[Node], cuts: Sequence[Node]) -> dict[Node, int]:
    """The last section in which each node can be computed: cut number i runs after section i."""
    section = {n: i for i, n in enumerate(cuts)}
    users = consumers(order)
    latest: dict[Node, int] = {}
    for node in reversed(order):
        above = [latest[u] for u in users[node]]
        latest[node] = section[node] if node in section else min(above, default=len(cuts))
    return latest


def _deciding_later(order: Sequence[Node], latest: Mapping[Node, int]) -> frozenset[Node]:
    """The inexact values that something in a later section than their own decides by: all that is
    computed of them must find the same bits; see deciding.py."""
    reach: dict[Node, int] = {}
    for node in reversed(order):
        passed = -1 if is_inexact(node) else reach.get(node, -1)
        section = max(passed, latest[node] if is_deciding(node) else -1)
        for s in node.src if section >= 0 else ():
            reach[s] = max(reach.get(s, -1), section)
    return frozenset(n for n, section in reach.items() if is_inexact(n) and latest[n] < section)


def _wanted(cuts: Sequence[Node], latest: Mapping[Node, int], roots: Sequence[Node]
            ) -> list[list[Node]]:
    """For each section the values to store: results, what the next cut reads, and what later
    sections do."""
    wanted: list[list[Node]] = [[] for _ in range(len(cuts) + 1)]

    def ask(node: Node, section: int) -> None:
        """Have a value in memory at the end of a section."""
        value = unshaped(node)
        if value.op not in CUTS and value.op is not Op.BUFFER:
            wanted[section if value.op in READ_AGAIN else latest[value]].append(value)

    for root in roots:
        ask(root, len(cuts))
    for number, cut in enumerate(cuts):
        for source in cut.src:
            ask(source, number)
    for section in range(len(cuts), -1, -1):
        own = {n for n, last in latest.items() if last == section and n.op not in CUTS}
        for n in toposort(wanted[section], partial(_read, own)):
            if n.op not in READ_AGAIN and n not in own:
                ask(n, section)
    return wanted


def _read(own: set[Node], node: Node) -> Sequence[Node]:
    """What a section reads to compute a node, of which `own` are computed in no other."""
    return node.src if node.op in READ_AGAIN or node in own else ()
