"""Running a captured call again: tables of buffers, one native call, and the results.

In: a `Captured` (capture.py). `jitted.py` asks whether it still holds for a call, and runs it.
"""
from __future__ import annotations

import functools
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from sys import getrefcount
from typing import Any

import numpy as np

from lazyten import debug, tracing, watching
from lazyten.captured import Captured, HostInput, Placeholder, TensorSpec, flags_of, layout_of
from lazyten.checks import index_checks, is_outside, outside_error, reach
from lazyten.device import executor
from lazyten.dtype import DType
from lazyten.environment import Environment
from lazyten.errors import DeviceError, JitError
from lazyten.node import Node, Shape, make, substitute
from lazyten.ops import Op
from lazyten.realization import (
    Graph,
    out_of_memory,
    plan_of,
    realize,
    reserve_blocks,
    run,
    show,
)
from lazyten.storage import Buffer, Storage
from lazyten.tensor import Tensor
from lazyten.trees import Leaf, unflatten


@dataclass(frozen=True, slots=True)
class Root:
    """A value that a call computes: for source `written`, or else for the next new storage."""

    written: int | None
    node: Node
    device: str
    was_freed: bool = False


class Home:
    """Memory for one result, with the node that reads it. It serves again once nobody but its
    owner knows it: a tensor or a recorded operation that still reads it holds a reference."""

    __slots__ = ("base", "base_count", "buffer", "buffer_count", "node", "node_count")

    def __init__(self, device: str, dtype: DType, size: int, shape: Shape) -> None:
        self.buffer = Buffer(device, dtype, size)
        self.node = self.buffer.node(shape)
        self.base = self.node.src[0] if self.node.op is Op.RESHAPE else self.node
        self.node_count, self.base_count = getrefcount(self.node), getrefcount(self.base)
        self.buffer_count = getrefcount(self.buffer)

    @property
    def is_free(self) -> bool:
        """Whether there are no more references than when it was made."""
        return getrefcount(self.node) == self.node_count and \
            getrefcount(self.base) == self.base_count and \
            getrefcount(self.buffer) == self.buffer_count


HOMES = 3
"""Homes that are kept for a result: two take turns where a tensor is updated in place."""


class Segment:
    """The part of a captured call that one device computes."""

    def __init__(self, device: str, roots: Sequence[Root]) -> None:
        self.device, self.roots = device, roots
        graph = Graph([r.node for r in roots], device, use_realized=False)
        if graph.copies:
            raise JitError(f"a tensor is copied from {graph.copies[0].arg[0]!r} to {device!r} at "
                           f"{graph.copies[0].where}, inside a jitted function: copy it outside, "
                           f"and give it as an argument")
        self.checks = index_checks(graph.order)
        shapes = [r.node.shape for r in roots] + [(1,)] * len(self.checks)
        if self.checks:
            looked_at = [r.node for r in roots] + [reach(c) for c in self.checks]
            graph = Graph(looked_at, device, use_realized=False)
        self.key = graph.key
        self.inputs: list[Placeholder | Buffer] = list(graph.buffers)
        self.plan = plan_of(device, graph)
        made = self.plan.schedule
        self.workspace = reserve_blocks(device, made)
        self.blocks = [self.workspace[b].handle for b in made.blocks.values()]
        fresh = [a for a in dict.fromkeys(made.outputs) if a >= made.inputs]
        self.arrays = (*range(made.inputs), *made.blocks, *fresh)
        self.programs, self.launch = self.plan.programs, self.plan.joined(device, self.arrays)
        self.shapes = shapes
        first = {a: made.outputs.index(a) for a in fresh}
        self.fresh = fresh
        self.kinds = [(*made.arrays[a], self.shapes[first[a]]) for a in fresh]
        self.homes: list[list[Home]] = [[] for _ in fresh]
        self.given = [a if a < made.inputs else None for a in made.outputs]
        self.made = [fresh.index(a) if a >= made.inputs else -1 for a in made.outputs]

    def _home(self, number: int) -> Home:
        """Memory for a result that nothing uses any more, or new memory."""
        homes = self.homes[number]
        for home in homes:
            if home.is_free:
                return home
        try:
            home = Home(self.device, *self.kinds[number])
        except DeviceError as error:
            raise out_of_memory(self.plan.schedule, self.fresh[number], error) from error
        homes.insert(0, home)
        del homes[HOMES:]
        return home

    def run(self, sources: Sequence[Buffer], hosts: Sequence[Buffer]) -> list[Node]:
        """The node that reads the value of each root. IndexingError for an index outside."""
        inputs = [p if isinstance(p, Buffer) else (sources if p.kind == "source" else hosts)[
            p.number] for p in self.inputs]
        detail = debug.level()
        if detail:
            show(self.device, self.plan, None, detail)
            buffers = run(self.device, self.plan, inputs, detail)
            nodes = [b.node(shape) for b, shape in zip(buffers, self.shapes, strict=True)]
            return self._checked(nodes, inputs)
        if self.programs is not self.plan.programs:  # compiled anew
            self.launch = self.plan.joined(self.device, self.arrays)
            self.programs = self.plan.programs
        homes = [self._home(number) for number in range(len(self.homes))]
        if watching.watchers:
            watching.ran(self.device, self.plan)
        self.launch([*[b.handle for b in inputs], *self.blocks, *[h.buffer.handle for h in homes]])
        nodes = []
        for given, made, shape in zip(self.given, self.made, self.shapes, strict=True):
            if given is not None:
                nodes.append(inputs[given].node(shape))
            else:
                home = homes[made]
                nodes.append(home.node if home.node.shape == shape else home.buffer.node(shape))
        return self._checked(nodes, inputs) if self.checks else nodes

    def _checked(self, nodes: list[Node], inputs: Sequence[Buffer]) -> list[Node]:
        """The nodes of the roots, once the ones after them say that no index is outside."""
        count = len(self.roots)
        for check, node in zip(self.checks, nodes[count:], strict=True):
            if is_outside(check, node.arg.numpy()):
                read = {make(Op.BUFFER, p.dtype, (), p): make(Op.BUFFER, b.dtype, (), b)
                        for p, b in zip(self.inputs, inputs, strict=True)}
                index = Storage(substitute([check.src[0]], read)[0], self.device)
                realize([index])
                raise outside_error(check, index.read())
        return nodes[:count]


class Replay:
    """A captured call, ready to run with other values."""

    def __init__(self, captured: Captured, environment: Environment,
                 sources: Sequence[Storage]) -> None:
        self.environment = environment
        self.captured, self.replacements = captured, tracing.replacements
        self.written = frozenset(number for number, _ in captured.written)
        roots = [Root(number, node, sources[number].device) for number, node in captured.written]
        roots += [Root(None, n.node, n.device, n.was_freed) for n in captured.new]
        devices = dict.fromkeys(r.device for r in roots)
        self.segments = [Segment(d, [r for r in roots if r.device == d]) for d in devices]
        self.hosts = [Buffer(h.device, h.dtype, h.size) for h in captured.hosts]
        self.order = [[i for i, r in enumerate(roots) if r.device == d] for d in devices]
        self.fixed = [(s.fixed, s.flags) for s in captured.sources if s.fixed is not None]
        self.moving = [s for s in captured.sources if s.fixed is None]
        self.checked = False
        self.targets = [(r.written, r.was_freed, r.device) for r in roots]

    @functools.cached_property
    def fingerprint(self) -> Hashable:
        """Equal for two traces that do the same."""
        captured = self.captured
        return (captured.leaves, captured.structure, captured.sources, captured.gradients,
                self.targets, [h.size for h in captured.hosts], len(captured.script),
                [(s.device, s.key, list(map(_contents, s.inputs))) for s in self.segments])

    def holds(self, arguments: Sequence[Tensor]) -> bool:
        """Whether this is what tracing the function anew would give, as far as it can be told."""
        captured = self.captured
        if self.replacements != tracing.replacements:
            return False
        for source, layout in captured.layouts:
            if layout_of(source.find(arguments)._grad) != layout:
                return False
        for storage, (leaf, graph, freed) in self.fixed:
            if (storage.leaf_id is not None) is not leaf or storage.keeps_graph is not graph or \
                    storage.was_freed is not freed:
                return False
        for found in self.moving:
            if flags_of(found.find(arguments)) != found.flags:
                return False
        return self.environment.changed() is None and all(
            look() == seen for look, seen in captured.guards)

    def run(self, arguments: Sequence[Tensor]) -> Any:
        """Do what the captured call did, with these arguments; gives what it gave."""
        captured = self.captured
        storages = [s.find(arguments) for s in captured.sources]
        self._check_apart(storages)
        sources = _buffers(storages)
        for item in captured.script:
            if isinstance(item, HostInput):
                _refresh(item, self.hosts[item.number])
            else:
                item()
        nodes: dict[int, Node] = {}
        for segment, order in zip(self.segments, self.order, strict=True):
            nodes.update(zip(order, segment.run(sources, self.hosts), strict=True))
        new: list[Storage] = []
        for i, (written, was_freed, device) in enumerate(self.targets):
            node = nodes[i]
            if written is not None:
                storages[written].assign(node)
            else:
                storage = Storage(node, device)
                storage.was_freed = was_freed
                new.append(storage)
        return self._results(arguments, storages, new)

    def _check_apart(self, storages: Sequence[Storage]) -> None:
        """JitError if two sources that were apart are one now, and it is written."""
        if len(set(storages)) == len(storages):
            return
        for number in self.written:
            if storages.count(storages[number]) > 1:
                raise JitError(f"a tensor of shape {storages[number]._node.shape} that a jitted "
                               f"function changes in place reaches it in two ways, for example as "
                               f"an argument and as a closed-over variable: use one of them")

    def _results(self, arguments: Sequence[Tensor], storages: Sequence[Storage],
                 new: Sequence[Storage]) -> Any:
        """Leave the gradients behind, and build what the function gave."""
        def tensor(spec: TensorSpec) -> Tensor:
            if spec.same is not None:
                return spec.same.find(arguments)
            storage = new[spec.number] if spec.kind == "new" else storages[spec.number]
            view = Tensor._view(storage, spec.moves, spec.detached)
            return view.requires_grad_() if spec.leaf and not spec.detached else view
        for effect in self.captured.gradients:
            effect.tensor.find(arguments)._grad = None if effect.spec is None else \
                tensor(effect.spec)
        leaves = (x.value if isinstance(x, Leaf) else tensor(x) for x in self.captured.leaves)
        return unflatten(leaves, self.captured.structure)


def _contents(given: Placeholder | Buffer) -> Hashable:
    if isinstance(given, Placeholder):
        return given.kind, given.number
    return given.numpy().tobytes()


def _buffers(storages: Sequence[Storage]) -> list[Buffer]:
    """The memory of each value, computed first where it is not yet."""
    found = [_buffer(s) for s in storages]
    if None in found:
        realize(storages)
        found = [s.buffer for s in storages]
    return found  # type: ignore[return-value]  # realized


def _buffer(storage: Storage) -> Buffer | None:
    node = storage._node
    if node.op is Op.RESHAPE:
        node = node.src[0]
    return node.arg if node.op is Op.BUFFER else storage.buffer


def _refresh(host: HostInput, buffer: Buffer) -> None:
    values = np.ascontiguousarray(host.refresh(), host.dtype.numpy).reshape(-1)
    executor(host.device).copy_in(buffer.handle, values)
