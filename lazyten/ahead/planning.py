"""From a graph to calls of kernels on memory: the passes as they are, for a processor or for C.

In: a `Traced`, and the target that kernels are written for. Out: a `Program`. Outputs are written
where the caller wants them. What a call changes in place is written there once no index was outside
and no kernel reads what was there before, or else copied there at the end.
"""
from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import replace
from itertools import zip_longest

from lazyten.ahead.program import Call, Check, Copy, Place, Program, Source, Traced, packed
from lazyten.codegen.pipeline import generate
from lazyten.codegen.targets.generated import Generated
from lazyten.codegen.targets.target import Target
from lazyten.execution.aliasing import aliased_outputs, first_launches, postponed, replacements
from lazyten.execution.plans.checks import index_checks, reach
from lazyten.execution.plans.graph import Graph
from lazyten.ir.arguments import IndexBound, ValueBound
from lazyten.ir.dtype import DType
from lazyten.ir.kernel import Kernel
from lazyten.ir.node import Node
from lazyten.schedule.memory import Lifetime, share
from lazyten.schedule.schedule import Schedule, schedule
from lazyten.sharding.partition import unannotated
from lazyten.support.errors import ArgumentError

Kind = Callable[[DType], Hashable]


def planned(traced: Traced, target: Target, kind: Kind) -> Program:
    """The program. kind: arrays of the workspace share memory where this is equal."""
    graph = Graph(traced.roots, traced.device, use_realized=False)
    checks = index_checks(graph.order)
    if checks:
        graph = Graph([*map(reach, checks), *traced.roots], traced.device, use_realized=False)
    _refuse_collectives(graph.collectives)
    made = _checks_first(schedule(unannotated(graph.normalized()), graph.inputs), len(checks))
    kernels = _generated(made, target)
    offsets, _ = packed([k.array.nbytes for k in traced.states])
    sources = [traced.reads[b] for b in graph.buffers]
    changed = [sources.index(s) if s in sources else -1 for s in traced.written]
    made, _ = postponed(made, [kernels[s.kernel] for s in made.steps], {*changed} - {-1})
    checked = 1 + max((first_launches(made).get(a, -1) for a in made.outputs[:len(checks)]),
                      default=-1)
    memory = _Memory(made, sources, offsets, len(checks), len(traced.outputs))
    memory.change_in_place(_in_place(made, kernels, changed, checked))
    memory.share_workspace(kind)
    calls, scratch = _calls(made, kernels, memory)
    copies, between = _copies(traced, made.outputs[len(checks):], memory,
                              len(memory.sizes) + len(scratch))
    return Program(
        traced.name, traced.inputs, traced.outputs, traced.states, traced.constants,
        frozenset(s.number for s in traced.written if s.kind == "input"), offsets,
        (*memory.sizes, *scratch, *between), tuple(calls),
        len(_calls_of(made, kernels, checked)),
        tuple(_check(check, memory.places[a]) for check, a in zip(
            checks, made.outputs, strict=False)),
        tuple(copies), tuple(kernels.values()))


def _refuse_collectives(found: Sequence[Node]) -> None:
    if found:
        raise ArgumentError(f"export: {found[0].arg} of several ranks at {found[0].where}; what is "
                            f"written runs in one process: export what one rank computes alone")


def _generated(made: Schedule, target: Target) -> dict[Kernel, Generated]:
    """The text of each kernel. Those of different sections of a graph may have one name, which here
    are in one file."""
    found: dict[Kernel, Generated] = {}
    names: set[str] = set()
    for kernel in dict.fromkeys(s.kernel for s in made.steps):
        name = kernel.name if kernel.name not in names else f"{kernel.name}_k{len(found)}"
        names.add(name)
        found[kernel] = generate(replace(kernel, name=name), target)
    return found


def _checks_first(made: Schedule, checks: int) -> Schedule:
    """The same steps one by one, those first that the first outputs need, which are looked at
    before a state may change. (The steps of a scan, which write to one array, stay in order.)"""
    steps = made.steps
    written = Counter(a for step in steps for a in step.writes)
    early: set[int] = set()
    needed = set(made.outputs[:checks]) if max(written.values(), default=0) == 1 else set()
    for number in reversed(range(len(steps))):
        if not needed.isdisjoint(steps[number].writes):
            early.add(number)
            needed.update(steps[number].reads)
    order = sorted(range(len(steps)), key=lambda number: number not in early)
    return replace(made, steps=tuple(steps[n] for n in order), launches=(1,) * len(steps),
                   stored=(), saved=(0.0,) * len(steps))


def _in_place(made: Schedule, kernels: Mapping[Kernel, Generated], changed: Sequence[int],
              checked: int) -> dict[int, int]:
    """The results that are written where what they replace is, and the array that this is: those
    of launches behind the first `checked`, after which indices are looked at."""
    first = first_launches(made)
    late = [a if first.get(a, -1) >= checked else -1 for a in made.outputs[-len(changed):]]
    wanted = [(given, [a]) for given, a in zip(changed, late, strict=True)
              if given >= 0] if changed else []
    replacing = replacements(made, [kernels[s.kernel] for s in made.steps])
    return aliased_outputs(made, replacing, wanted)


class _Memory:
    """Where each array of a schedule is."""

    def __init__(self, made: Schedule, sources: Sequence[Source], offsets: Sequence[int],
                 checks: int, outputs: int) -> None:
        self.made, self.offsets = made, offsets
        self.places = {a: self.place(source) for a, source in enumerate(sources)}
        for number, array in enumerate(made.outputs[checks:checks + outputs]):
            self.places.setdefault(array, Place("output", number))
        self.sizes: list[int] = []

    def change_in_place(self, replaced: Mapping[int, int]) -> None:
        """Let arrays have the place of others, unless they are where the caller wants them."""
        for array, given in replaced.items():
            self.places.setdefault(array, self.places[given])

    def share_workspace(self, kind: Kind) -> None:
        """Blocks for all other arrays."""
        lives = _lifetimes(self.made)
        kinds: dict[Hashable, list[int]] = {}
        for a in lives.keys() - self.places.keys():
            kinds.setdefault(kind(self.made.arrays[a][0]), []).append(a)
        for arrays in sorted(map(sorted, kinds.values())):
            blocks, sizes = share([lives[a] for a in arrays])
            self.places |= {a: Place("workspace", len(self.sizes) + block)
                            for a, block in zip(arrays, blocks, strict=True)}
            self.sizes += sizes

    def place(self, source: Source) -> Place:
        """Where what the graph reads is."""
        if source.kind == "state":
            return Place("state", 0, self.offsets[source.number])
        return Place(source.kind, source.number)


def _lifetimes(made: Schedule) -> dict[int, Lifetime]:
    """When each array that the steps make is in use: results until the end."""
    first: dict[int, int] = {}
    last: dict[int, int] = {}
    launch_of = [number for number, count in enumerate(made.launches) for _ in range(count)]
    for number, step in zip(launch_of, made.steps, strict=True):
        for a in step.args:
            if a >= made.inputs:
                first.setdefault(a, number)
                last[a] = number
    for a in made.outputs:
        if a >= made.inputs:
            first.setdefault(a, 0)  # of no elements
            last[a] = len(made.launches)
    return {a: Lifetime(made.arrays[a][0].itemsize * made.arrays[a][1], first[a], last[a])
            for a in first}


def _calls(made: Schedule, kernels: Mapping[Kernel, Generated],
           memory: _Memory) -> tuple[list[Call], list[int]]:
    """The calls of all steps, and the bytes of scratch memory that they share, blocks behind the
    others of the workspace."""
    calls: list[Call] = []
    needed = [generated.scratch for generated in kernels.values()]
    scratch = [max(sizes) for sizes in zip_longest(*needed, fillvalue=0)]
    for step in made.steps:
        generated = kernels[step.kernel]
        arguments = [_moved(memory.places[a], offset)
                     for a, offset in zip(step.args, step.offsets, strict=True)]
        arguments += [Place("workspace", len(memory.sizes) + i)
                      for i in range(len(generated.scratch))]
        calls += [Call(generated.name, entry, items, tuple(arguments))
                  for entry, items in zip(generated.entries, generated.work_items, strict=True)]
    return calls, scratch


def _calls_of(made: Schedule, kernels: Mapping[Kernel, Generated], launches: int) -> list[str]:
    """The functions that the first launches call."""
    steps = made.steps[:sum(made.launches[:launches])]
    return [entry for step in steps for entry in kernels[step.kernel].entries]


def _moved(place: Place, offset: int) -> Place:
    return Place(place.region, place.number, place.offset + offset)


def _check(node: Node, place: Place) -> Check:
    within: IndexBound | ValueBound = node.arg
    wrong = within.rule if isinstance(within, ValueBound) else \
        f"{within.called} outside axis {within.axis}, which has size {within.size}"
    return Check(place, within.size, f"{within.operation}: {wrong}")


def _copies(traced: Traced, arrays: Sequence[int], memory: _Memory,
            free: int) -> tuple[list[Copy], list[int]]:
    """What is not computed where it belongs: what is changed in place, an output that is an input,
    or another output. The second is the bytes of blocks from `free` on: for what is read there
    before it is changed."""
    first: list[Copy] = []
    last: list[Copy] = []
    blocks: list[int] = []
    targets = [Place("output", i) for i in range(len(traced.outputs))]
    targets += [memory.place(source) for source in traced.written]
    for a, target, root in zip(arrays, targets, traced.roots, strict=True):
        place, nbytes = memory.places[a], root.numel * root.dtype.itemsize
        if place == target:
            continue
        if target.region == "output":
            first.append(Copy(place, target, nbytes))
            continue
        if place.region in ("input", "state"):
            between = Place("workspace", free + len(blocks))
            blocks.append(nbytes)
            first.append(Copy(place, between, nbytes))
            place = between
        last.append(Copy(place, target, nbytes))
    return [*first, *last], blocks
