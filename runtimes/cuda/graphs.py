"""Captured programs on a GPU: all launches of a sequence as one CUDA graph.

A graph has the addresses of its arguments in it. A sequence that comes with the same addresses a
second time gets a graph for them; a few are kept, since results take turns between memory. Programs
of one launch run at once; each has scratch memory of its own.
"""
from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any
from weakref import finalize

from lazyten.devices.program import Argument
from lazyten.runtimes.contract import LoadedProgram
from lazyten.runtimes.cuda.driver import Context, KernelLaunch, PreparedLaunch, Size
from lazyten.runtimes.memory.allocator import GRAIN

GRAPHS = 4
"""Graphs that a sequence keeps, for so many sets of addresses."""
LEAST = 2
"""Kernels for which a graph is worth it."""

Addresses = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Step:
    """A function with what its launch says, and its arguments as positions in a table of addresses,
    with what to add."""

    function: int
    grid: Size
    block: Size
    shared: int
    arguments: tuple[Argument, ...]

    def addresses(self, table: Sequence[int]) -> list[int]:
        """The arguments, with these addresses."""
        return [table[n] + offset for n, offset in self.arguments]

    def on(self, table: Sequence[int]) -> KernelLaunch:
        """The launch on these addresses."""
        return KernelLaunch(self.function, self.grid, self.block, self.addresses(table),
                            self.shared)


Stages = tuple[tuple[tuple[Step, ...], ...], ...]
"""Stages one after the other, of chains of steps that may run at once."""


def stages_of(launches: Sequence[Sequence[tuple[LoadedProgram, Sequence[Argument]]]]
              ) -> tuple[Stages, int]:
    """The launches as stages. The table begins with scratch memory, of as many bytes as is given
    back; the arguments follow."""
    stages, most = [], 0
    for launch in launches:
        chains, used = [], 0
        for program, arguments in launch:
            scratch = []
            for nbytes in program.generated.scratch:
                scratch.append(Argument(0, used))
                used += -(-nbytes // GRAIN) * GRAIN
            given = (*(Argument(n + 1, offset) for n, offset in arguments), *scratch)
            chains.append(tuple(Step(f.address, f.grid, f.block, f.shared, given)
                                for f in program.functions))
        stages.append(tuple(chains))
        most = max(most, used)
    return tuple(stages), most


class GraphCache:
    """The graphs of one sequence, by the addresses that they are for.

    programs: whose functions they launch, kept alive. dead: where a graph goes when it is dropped,
    which may be in a finalizer.
    """

    def __init__(self, context: Context, stages: Stages, programs: Sequence[LoadedProgram],
                 dead: deque[Any]) -> None:
        self.context, self.stages, self.programs, self.dead = context, stages, programs, dead
        self.steps = [step for stage in stages for chain in stage for step in chain]
        self._prepared: list[PreparedLaunch] = []
        self._graphs: OrderedDict[Addresses, Any] = OrderedDict()
        self._seen: OrderedDict[Addresses, None] = OrderedDict()
        finalize(self, _drop_all, self._graphs, dead).atexit = False

    def launch(self, table: Addresses) -> None:
        """Queue the sequence on these addresses."""
        graph = self._graph(table) if len(self.steps) >= LEAST else None
        if graph is not None:
            self.context.launch_graph(graph)
            return
        if not self._prepared:
            self._prepared = [PreparedLaunch(step.on(table), self.context.stream)
                              for step in self.steps]
        for step, prepared in zip(self.steps, self._prepared, strict=True):
            prepared.queue(step.addresses(table))

    def _graph(self, table: Addresses) -> Any:
        """The graph for these addresses; None the first time."""
        graph = self._graphs.get(table)
        if graph is not None:
            self._graphs.move_to_end(table)
            return graph
        if table not in self._seen:
            self._seen[table] = None
            if len(self._seen) > GRAPHS:
                self._seen.popitem(last=False)
            return None
        del self._seen[table]
        graph = self._graphs[table] = self.context.graph(
            [[[step.on(table) for step in chain] for chain in stage] for stage in self.stages])
        if len(self._graphs) > GRAPHS:
            self.dead.append(self._graphs.popitem(last=False)[1])
        return graph


def _drop_all(graphs: OrderedDict[Addresses, Any], dead: deque[Any]) -> None:
    dead.extend(graphs.values())
