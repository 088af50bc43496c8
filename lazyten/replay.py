"""Running a captured call again: tables of buffers, one native call, and the results.

In: a `Captured` (capture.py). `jitted.py` asks whether it still holds for a call, and runs it.
"""
from __future__ import annotations

import functools
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import Any

import numpy as np

from lazyten import debug, launch_dump, tracing, watching
from lazyten.captured import Captured, HostInput, Placeholder, TensorSpec, flags_of, layout_of
from lazyten.checks import index_checks, is_outside, outside_error, reach
from lazyten.device import executor
from lazyten.environment import Environment
from lazyten.errors import DeviceError, JitError
from lazyten.homes import Home, Homes
from lazyten.node import Node, make, reshape, substitute
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


TURNS = 2
"""Sets of memory for the results of a call. One is enough as long as nobody keeps them."""


class Segment:
    """The part of a captured call that one device computes."""

    def __init__(self, device: str, roots: Sequence[Root], hosts: Sequence[Buffer]) -> None:
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
        self.fresh = [a for a in dict.fromkeys(made.outputs) if a >= made.inputs]
        first = {a: made.outputs.index(a) for a in self.fresh}
        self.kinds = [(*made.arrays[a], shapes[first[a]]) for a in self.fresh]
        self.shapes = shapes
        self.given = [a if a < made.inputs else None for a in made.outputs]
        self.made = [self.fresh.index(a) if a >= made.inputs else -1 for a in made.outputs]
        self.is_plain = list(made.outputs) == self.fresh
        self.alternates = any(r.written is not None for r in roots)
        self.turns: list[Homes] = []
        self._order_arrays(hosts)

    def _order_arrays(self, hosts: Sequence[Buffer]) -> None:
        """The arrays as a launch gets them: from sources, always the same, and results."""
        made = self.plan.schedule
        found = {a: p.number for a, p in enumerate(self.inputs)
                 if isinstance(p, Placeholder) and p.kind == "source"}
        fixed = [a for a in range(made.inputs) if a not in found]
        self.sources = list(found.values())
        self.fixed = (*[_in_place_of(self.inputs[a], (), hosts).handle for a in fixed],
                      *[self.workspace[b].handle for b in made.blocks.values()])
        self.arrays = (*found, *fixed, *made.blocks, *self.fresh)
        self.programs, self.launch = self.plan.programs, self.plan.joined(self.device, self.arrays)

    def _homes(self) -> Homes:
        """Memory for the results that nothing uses any more, or new memory. Two take turns; where
        the function updates tensors in place, what the last call wrote is in use by them."""
        turns = self.turns
        if turns and not self.alternates and turns[0].are_free:
            return turns[0]
        if len(turns) < TURNS:
            turns.insert(0, Homes(len(self.fresh), self._home))
        else:
            turns[-1].renew(self._home)
            turns.insert(0, turns.pop())
        return turns[0]

    def _home(self, number: int) -> Home:
        """New memory for a result."""
        try:
            return Home(self.device, *self.kinds[number])
        except DeviceError as error:
            raise out_of_memory(self.plan.schedule, self.fresh[number], error) from error

    def run(self, sources: Sequence[Buffer], hosts: Sequence[Buffer]) -> list[Node]:
        """The node that reads the value of each root. IndexingError for an index outside."""
        detail = debug.level()
        if detail or launch_dump.folder():
            inputs = [_in_place_of(p, sources, hosts) for p in self.inputs]
            if detail:
                show(self.device, self.plan, None, detail)
            buffers = run(self.device, self.plan, inputs, detail)
            nodes = [b.node(shape) for b, shape in zip(buffers, self.shapes, strict=True)]
            return self._checked(nodes, inputs)
        if self.programs is not self.plan.programs:  # compiled anew
            self.launch = self.plan.joined(self.device, self.arrays)
            self.programs = self.plan.programs
        homes = self._homes()
        if watching.watchers:
            watching.ran(self.device, self.plan)
        self.launch((*[sources[n].handle for n in self.sources], *self.fixed, *homes.handles))
        if self.is_plain and not self.checks:
            return homes.nodes
        inputs = [_in_place_of(p, sources, hosts) for p in self.inputs]
        nodes = []
        for given, made, shape in zip(self.given, self.made, self.shapes, strict=True):
            if given is not None:
                nodes.append(inputs[given].node(shape))
            else:
                nodes.append(reshape(homes.nodes[made], shape))
        return self._checked(nodes, inputs)

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


_FLAGS = attrgetter("leaf_id", "keeps_graph", "was_freed")
"""`flags_of`, for many storages at once."""


class Replay:
    """A captured call, ready to run with other values."""

    def __init__(self, captured: Captured, environment: Environment,
                 sources: Sequence[Storage]) -> None:
        self.environment = environment
        self.captured, self.replacements = captured, tracing.replacements
        roots = [Root(number, node, sources[number].device) for number, node in captured.written]
        roots += [Root(None, n.node, n.device, n.was_freed) for n in captured.new]
        devices = dict.fromkeys(r.device for r in roots)
        self.hosts = [Buffer(h.device, h.dtype, h.size) for h in captured.hosts]
        self.segments = [Segment(d, [r for r in roots if r.device == d], self.hosts)
                         for d in devices]
        order = [i for d in devices for i, r in enumerate(roots) if r.device == d]
        place = {i: position for position, i in enumerate(order)}
        self.targets = [(r.written, r.was_freed, r.device) for r in roots]
        self.written = [(place[i], number) for i, (number, _) in enumerate(captured.written)]
        self.new = [(place[i + len(self.written)], n.device, n.was_freed)
                    for i, n in enumerate(captured.new)]
        self.script = [_Refresh(item, self.hosts[item.number]) if isinstance(item, HostInput)
                       else item for item in captured.script]
        self._sort_sources()
        self.checked = False

    def _sort_sources(self) -> None:
        """Storages that are always the same, and those that each call finds anew."""
        sources = self.captured.sources
        self.storages: list[Any] = [s.fixed for s in sources]
        self.moving = [(number, s) for number, s in enumerate(sources) if s.fixed is None]
        self.gradients = [s for _, s in self.moving if s.gradient]
        self.fixed = [s.fixed for s in sources if s.fixed is not None]
        self.flags = list(map(_FLAGS, self.fixed))

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
        for found in self.gradients:  # an argument's flags are in its signature
            if flags_of(found.find(arguments)) != found.flags:
                return False
        if list(map(_FLAGS, self.fixed)) != self.flags or self.environment.has_changed:
            return False
        return all(look() == seen for look, seen in captured.guards)

    def run(self, arguments: Sequence[Tensor]) -> Any:
        """Do what the captured call did, with these arguments; gives what it gave."""
        storages = self.storages.copy()
        for number, source in self.moving:
            storages[number] = source.find(arguments)
        if self.written:
            self._check_apart(storages)
        sources = _buffers(storages)
        for act in self.script:
            act()
        nodes: list[Node] = []
        for segment in self.segments:
            nodes += segment.run(sources, self.hosts)
        for place, number in self.written:
            storages[number].assign(nodes[place])
        new: list[Storage] = []
        for place, device, was_freed in self.new:
            storage = Storage(nodes[place], device)
            storage.was_freed = was_freed
            new.append(storage)
        return self._results(arguments, storages, new)

    def _check_apart(self, storages: Sequence[Storage]) -> None:
        """JitError if two sources that were apart are one now, and it is written."""
        if len(set(storages)) == len(storages):
            return
        for _, number in self.written:
            if storages.count(storages[number]) > 1:
                raise JitError(f"a tensor of shape {storages[number]._node.shape} that a jitted "
                               f"function changes in place reaches it in two ways, for example as "
                               f"an argument and as a closed-over variable: use one of them")

    def _results(self, arguments: Sequence[Tensor], storages: Sequence[Storage],
                 new: Sequence[Storage]) -> Any:
        """Leave the gradients behind, and build what the function gave."""
        for effect in self.captured.gradients:
            tensor = effect.tensor.fixed
            if tensor is None:
                tensor = arguments[effect.tensor.argument]
            spec = effect.spec
            tensor._grad = None if spec is None else _made(spec, arguments, storages, new)
        leaves = [x.value if isinstance(x, Leaf) else _made(x, arguments, storages, new)
                  for x in self.captured.leaves]
        structure = self.captured.structure
        return leaves[0] if structure is None else unflatten(iter(leaves), structure)


def _made(spec: TensorSpec, arguments: Sequence[Tensor], storages: Sequence[Storage],
          new: Sequence[Storage]) -> Tensor:
    """A tensor that a call gives."""
    if spec.same is not None:
        return spec.same.find(arguments)
    storage = new[spec.number] if spec.kind == "new" else storages[spec.number]
    view = Tensor._view(storage, spec.moves, spec.detached)
    return view.requires_grad_() if spec.leaf and not spec.detached else view


def _contents(given: Placeholder | Buffer) -> Hashable:
    if isinstance(given, Placeholder):
        return given.kind, given.number
    return given.numpy().tobytes()


def _in_place_of(given: Placeholder | Buffer, sources: Sequence[Buffer],
                 hosts: Sequence[Buffer]) -> Buffer:
    """The memory that an input of a program stands for."""
    if isinstance(given, Buffer):
        return given
    return (sources if given.kind == "source" else hosts)[given.number]


def _buffers(storages: Sequence[Storage]) -> list[Buffer]:
    """The memory of each value, computed first where it is not yet."""
    found: list[Buffer] = []
    for storage in storages:
        if storage.shared is not None:
            storage.refresh()
        node = storage._node
        if node.op is Op.RESHAPE:
            node = node.src[0]
        if node.op is not Op.BUFFER:
            realize(storages)
            return [s.buffer for s in storages]  # type: ignore[misc]  # realized
        found.append(node.arg)
    return found


class _Refresh:
    """Computes a host input, and copies it to the device where it differs from the last."""

    __slots__ = ("buffer", "host", "last")

    def __init__(self, host: HostInput, buffer: Buffer) -> None:
        self.host, self.buffer, self.last = host, buffer, b""

    def __call__(self) -> None:
        values = np.ascontiguousarray(self.host.refresh(), self.host.dtype.numpy)
        data = values.tobytes()
        if data != self.last:
            executor(self.host.device).copy_in(self.buffer.handle, values.reshape(-1))
            self.last = data
