"""The part of a captured call that one device computes: its memory, its launches, its results.

In: the values that a call computes, over Placeholders (captured.py). replay.py runs it. What a
tensor is updated to is written to the tensor's own memory, and what is of a donated tensor's size
to that, if the program allows it and nobody else can see that memory; other results have buffers
of their own (result_buffers.py).
"""
from __future__ import annotations

import time
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from lazyten.devices.program import Handle
from lazyten.execution import interpreted
from lazyten.execution.aliasing import aliased_outputs, first_launches, postponed, replacements
from lazyten.execution.plans.checks import index_checks, is_outside, outside_error, reach
from lazyten.execution.plans.graph import Graph
from lazyten.execution.plans.making import plan_of
from lazyten.execution.plans.plan import Plan
from lazyten.execution.plans.running import out_of_memory, reserve_blocks, run
from lazyten.execution.realization import realize
from lazyten.execution.result_buffers import ResultBuffer, ResultSets, are_alone
from lazyten.ir.node import Node, make, reshape, substitute
from lazyten.ir.ops import Op
from lazyten.schedule.schedule import Schedule, replan
from lazyten.storage.placeholder import Placeholder
from lazyten.storage.storage import Buffer, Storage
from lazyten.support import observers
from lazyten.support.collecting import collecting_later
from lazyten.support.errors import DeviceError, InternalError, JitError
from lazyten.support.observers import Observer, Span

Owners = Sequence[Storage | None]
"""By the number of a source, the storage whose memory it is, if one is known."""


@dataclass(frozen=True, slots=True)
class Root:
    """A value that a call computes: for source `written`, or else for the next new storage."""

    written: int | None
    node: Node
    device: str
    was_freed: bool = False


def graph_of(roots: Sequence[Node], device: str) -> tuple[Graph, list[Node]]:
    """The graph of these values, after how far each index reaches that must be looked at, and those
    indices. JitError if something is on another device."""
    graph = Graph(roots, device, use_realized=False)
    if graph.copies:
        raise JitError(f"a tensor is copied from '{graph.copies[0].arg[0]}' to '{device}' at "
                       f"{graph.copies[0].where}, inside a jitted function: copy it outside, "
                       f"and give it as an argument")
    checks = index_checks(graph.order)
    if checks:
        graph = Graph([*map(reach, checks), *roots], device, use_realized=False)
    return graph, checks


class Segment:
    """roots: what it computes. hosts: the memory of what Python computes for each call. donated:
    sources that nobody needs after the call. in_place: whether sources may be written before it is
    known that the whole call succeeds. nodes: how many it has. line: the user's. graph: what
    is not planned yet, where it may be interpreted instead (`run_once`)."""

    def __init__(self, device: str, roots: Sequence[Root], hosts: Sequence[Buffer],
                 donated: Collection[int], in_place: bool, may_interpret: bool = False) -> None:
        self.device, self.roots, self.hosts = device, roots, hosts
        self.donated, self.in_place = donated, in_place
        with collecting_later():
            graph, self.checks = graph_of([r.node for r in roots], device)
            self.key, self.is_joint = graph.key, graph.is_joint
            self.inputs: list[Placeholder | Buffer] = list(graph.buffers)
            self.shapes = [node.shape for node in graph.roots]
        self.graph: Graph | None = graph
        self.nodes, self.line = len(graph.order), interpreted.line()
        self.spent: float | None = None
        self.ready: Ready | None = None
        if not may_interpret:
            self._plan(graph)

    def _plan(self, graph: Graph) -> None:
        start = time.perf_counter()
        with collecting_later():
            self.planned = plan_of(self.device, graph)
        self.spent = None if self.planned.runs else time.perf_counter() - start
        self.graph = None

    def run(self, sources: Sequence[Buffer], owners: Owners, held: int = 0,
            unknown: Collection[int] = (),
            looking: Sequence[Observer] | None = None) -> list[Node]:
        """The node that reads the value of each root. IndexingError for an index outside; no source
        is written then.

        owners: the storages of sources that may be written, by number, if nobody else knows their
        memory but the caller, in `held` places besides `sources`. unknown: sources that may be
        written, as nobody knows them. looking: who looks on, if that is known.
        """
        ready = self.up_to_date
        if ready is None:
            with collecting_later():
                ready = self.ready = Ready(self)
        if looking is None:
            looking = observers.present()
        if looking and observers.needs_launches(looking):
            return self._run_plan(ready.plan, sources)
        return ready.run(sources, (owners, held, unknown), looking)

    @property
    def up_to_date(self) -> Ready | None:
        """`ready`, unless it is to be made, or made anew as kernels were compiled anew."""
        ready = self.ready
        return ready if ready is not None and ready.compiled is self.planned.programs else None

    def release(self) -> None:
        """Give memory back; the next run has it reserved again."""
        if self.ready is not None:
            del self.ready.results  # which knows it, and would keep it until garbage is collected
            self.ready = None

    def run_once(self, sources: Sequence[Buffer]) -> list[Node]:
        """The same, with new memory for everything, which is nobody else's."""
        graph = self.graph
        if graph is not None:
            if interpreted.pays(self.device, graph, self.line):
                inputs = self.inputs_of(sources)
                return self._results_in(interpreted.interpret(self.device, graph, inputs), sources)
            self._plan(graph)
        spent, self.spent = self.spent, None
        return self._run_plan(self.planned, sources, spent)

    def _run_plan(self, plan: Plan, sources: Sequence[Buffer],
                  spent: float | None = None) -> list[Node]:
        return self._results_in(run(self.device, plan, self.inputs_of(sources), spent), sources)

    def _results_in(self, buffers: Sequence[Buffer], sources: Sequence[Buffer]) -> list[Node]:
        nodes = [b.node(shape) for b, shape in zip(buffers, self.shapes, strict=True)]
        self.check(nodes, sources)
        return nodes[len(self.checks):]

    def inputs_of(self, sources: Sequence[Buffer]) -> list[Buffer]:
        """The memory that each input of the program stands for."""
        return [p if isinstance(p, Buffer) else
                (sources if p.kind == "source" else self.hosts)[p.number] for p in self.inputs]

    def check(self, nodes: Sequence[Node], sources: Sequence[Buffer]) -> None:
        """IndexingError if the first of these nodes, which say how far indices reach, tell that one
        is outside."""
        for check, node in zip(self.checks, nodes, strict=False):
            if is_outside(check, node.arg):
                read = {make(Op.BUFFER, p.dtype, (), p): make(Op.BUFFER, b.dtype, (), b)
                        for p, b in zip(self.inputs, self.inputs_of(sources), strict=True)}
                index = Storage(substitute([check.src[0]], read)[0], self.device)
                realize([index])
                raise outside_error(check, index.read())


class Ready:
    """A segment with memory: made at the first call, and after lt.tune.

    Arrays of the schedule that are results are `buffered`, or `aliased`: these come with the source
    whose memory they take if it is free.
    """

    def __init__(self, segment: Segment) -> None:
        self.segment, self.device = segment, segment.device
        made, programs = segment.planned.schedule, segment.planned.programs
        self.compiled = programs
        found = {p.number: a for a, p in enumerate(segment.inputs)
                 if isinstance(p, Placeholder) and p.kind == "source"}
        if segment.in_place:
            updated = {r.written for r in segment.roots}.union(segment.donated)
            made, programs = postponed(made, programs, {found[n] for n in updated if n in found})
        replacing = replacements(made, programs)
        last_check, aliased = self._aliased(made, found, replacing)
        made = replan(made, replacing, aliased)
        self.plan = Plan(made, programs, segment.planned.options, roots=segment.planned.roots)
        self.workspace = reserve_blocks(self.device, made)
        fresh = [a for a in dict.fromkeys(made.outputs) if a >= made.inputs]
        first = {a: made.outputs.index(a) for a in fresh}
        self.buffered = [a for a in fresh if a not in aliased]
        self.kinds = {a: (*made.arrays[a], segment.shapes[first[a]]) for a in fresh}
        numbers = {a: number for number, a in found.items()}
        self.aliased = [(a, numbers[given]) for a, given in aliased.items()]
        self.aliased_shapes = [self.kinds[a][2] for a in aliased]
        updates = zip(segment.roots, made.outputs[len(segment.checks):], strict=True)
        results_bytes = [d.itemsize * size for d, size, _ in self.kinds.values()]
        self.bytes = sum([*made.block_sizes, *results_bytes])
        alternate = any(r.written is not None and a not in aliased for r, a in updates)
        self._order_arrays(found)
        results = [*self.buffered, *aliased]
        self.places = [results.index(a) if a >= made.inputs else ~a for a in made.outputs]
        self.results = ResultSets(len(self.buffered), self._result_buffer, alternate)
        self.is_plain = len(fresh) == len(made.outputs)
        self.is_buffered = self.is_plain and self.places == list(range(len(self.buffered)))
        sizes = [check.arg.size for check in segment.checks]
        limits = list(zip(made.outputs, sizes, strict=False))
        count = last_check + 1 if aliased else len(made.launches)
        self.launch = self.plan.joined(self.device, self.arrays, limits, count)

    def _aliased(self, made: Schedule, found: dict[int, int],
                replacing: frozenset[tuple[int, int]]) -> tuple[int, dict[int, int]]:
        """The last launch that computes what must be looked at before a source is written, and the
        results that are written to a source, each with that array."""
        segment, first = self.segment, first_launches(made)
        checks = len(segment.checks)
        last_check = max((first.get(a, -1) for a in made.outputs[:checks]), default=-1)
        if not segment.in_place:
            return last_check, {}
        late = [a if first.get(a, -1) > last_check else -1 for a in made.outputs[checks:]]
        own = [(found[r.written], [a]) for r, a in zip(segment.roots, late, strict=True)
               if r.written in found]
        new = [a for r, a in zip(segment.roots, late, strict=True) if r.written is None]
        given = [(array, [a for is_first in (True, False) for a in new
                          if ((a, array) in replacing) is is_first])
                 for array in (found[n] for n in segment.donated if n in found)]
        return last_check, aliased_outputs(made, replacing, [*own, *given])

    def _order_arrays(self, found: dict[int, int]) -> None:
        """The arrays as a launch gets them: from sources, always the same, and results."""
        made = self.plan.schedule
        inputs = self.segment.inputs
        self.sources = list(found)
        given = set(found.values())
        fixed = [a for a in range(made.inputs) if a not in given]
        buffers = [p if isinstance(p, Buffer) else self.segment.hosts[p.number]
                   for p in (inputs[a] for a in fixed)]
        self.fixed = (*[b.handle for b in buffers],
                      *[self.workspace[b].handle for b in made.blocks.values()])
        self.arrays = (*found.values(), *fixed, *made.blocks, *self.buffered,
                       *[a for a, _ in self.aliased])

    def _result_buffer(self, number: int) -> ResultBuffer:
        """New memory for a result that takes no source's, by its number among these."""
        return self._new_buffer(self.buffered[number])

    def _new_buffer(self, array: int) -> ResultBuffer:
        try:
            return ResultBuffer(self.device, *self.kinds[array])
        except DeviceError as error:
            raise out_of_memory(self.plan.schedule, array, error) from error

    def _memory_of_sources(self, sources: Sequence[Buffer], known: tuple[Owners, int,
                           Collection[int]]) -> tuple[list[Handle], list[Node]]:
        """Memory for each result that takes a source's, and the node that reads it: new memory
        where a tensor, a recorded operation or another library still knows the source's. known: see
        Segment.run."""
        owners, held, unknown = known
        buffers = [sources[number] for _, number in self.aliased]
        handles = [b.handle for b in buffers]
        nodes = [buffer.node(shape) if (owner := owners[number]) is None else owner._node
                 for (_, number), buffer, shape
                 in zip(self.aliased, buffers, self.aliased_shapes, strict=True)]
        are_free = are_alone(nodes, buffers, held)
        if held:  # not every source has an owner
            are_free = [is_free and owners[number] is not None or number in unknown
                        for is_free, (_, number) in zip(are_free, self.aliased, strict=True)]
        if all(are_free) and [node.shape for node in nodes] == self.aliased_shapes:
            return handles, nodes
        for n, is_free in enumerate(are_free):
            array, shape = self.aliased[n][0], nodes[n].shape
            if not is_free:
                own = self._new_buffer(array)
                handles[n], nodes[n] = own.buffer.handle, own.node
            elif shape != self.aliased_shapes[n]:
                nodes[n] = buffers[n].node(self.aliased_shapes[n])
        return handles, nodes

    def run(self, sources: Sequence[Buffer], known: tuple[Owners, int, Collection[int]],
            looking: Sequence[Observer]) -> list[Node]:
        """See Segment.run."""
        buffers, segment = self.results.take(), self.segment
        handles, written = self._memory_of_sources(sources, known) if self.aliased else ([], [])
        given = [sources[n].handle for n in self.sources]
        table = (*given, *self.fixed, *buffers.handles, *handles)
        within = self._launched(table, looking) if looking else self.launch(table)
        nodes = buffers.nodes if self.is_buffered else \
            self._results([*buffers.nodes, *written], sources)
        if segment.checks:
            if not within:
                segment.check(nodes, sources)
                raise InternalError("a program ended at an index, and all indices are inside")
            nodes = nodes[len(segment.checks):]
        return nodes

    def _launched(self, table: Sequence[Handle], looking: Sequence[Observer]) -> object:
        """The launch, of which all who look on are told."""
        for observer in looking:
            observer.runs(self.device, self.plan, None)
        start = time.perf_counter()
        within = self.launch(table)
        for observer in looking:
            observer.ran(self.device, self.plan, Span(start, time.perf_counter() - start))
        return within

    def _results(self, nodes: list[Node], sources: Sequence[Buffer]) -> list[Node]:
        """The nodes of the roots, of those that read the arrays of results."""
        if self.is_plain:
            return [nodes[place] for place in self.places]
        inputs = self.segment.inputs_of(sources)
        for number, p in enumerate(self.segment.inputs):
            if isinstance(p, Placeholder) and p.kind == "host" and ~number in self.places:
                own = inputs[number]  # the next call computes it anew
                inputs[number] = Buffer.from_numpy(own.numpy(), own.dtype, own.device)
        found = [nodes[place] if place >= 0 else inputs[~place].node(shape)
                 for place, shape in zip(self.places, self.segment.shapes, strict=True)]
        return [node if node.shape == shape else reshape(node, shape)
                for node, shape in zip(found, self.segment.shapes, strict=True)]
