"""Running a captured call again: tables of buffers, one native call, and the results.

In: a `Captured` (capture.py). `jitted.py` asks whether it still holds for a call, and runs it.
"""
from __future__ import annotations

import functools
from collections.abc import Callable, Collection, Hashable, Iterable, Sequence
from dataclasses import replace
from operator import attrgetter
from typing import Any

import numpy as np

from lazyten.capture.captured import Captured, Donated, HostInput, TensorSpec, flags_of, layout_of
from lazyten.capture.changing import Tape
from lazyten.capture.state.environment import Environment
from lazyten.execution.lineage import Lineage
from lazyten.execution.realization import carry_out, realize
from lazyten.execution.segment import Root, Segment
from lazyten.frontend.complexes.tensors import of_parts
from lazyten.frontend.tensor import Tensor
from lazyten.ir.node import Node
from lazyten.ir.ops import Op
from lazyten.storage import tracing
from lazyten.storage.deferred import Deferred
from lazyten.storage.device import executor
from lazyten.storage.placeholder import Placeholder
from lazyten.storage.storage import Buffer, Storage
from lazyten.support.errors import JitError
from lazyten.support.trees import Branch, Leaf, unflatten

_FLAGS = attrgetter("leaf_id", "keeps_graph", "was_freed")
"""`flags_of`, for many storages at once."""


class TwoWays(JitError):
    """Nothing has been done, as two sources that were apart are one, which is written."""


class Replay:
    """A captured call, ready to run with other values."""

    def __init__(self, captured: Captured, environment: Environment, arguments: Sequence[Tensor],
                 donated: Collection[Storage], name: str, tape: Tape | None = None) -> None:
        sources = [s.find(arguments) for s in captured.sources]
        self.environment, self.tape = environment, tape
        self.captured, self.replacements = captured, tracing.replacements
        roots = [Root(number, node, sources[number].device) for number, node in captured.written]
        roots += [Root(None, n.node, n.device, n.was_freed) for n in captured.new]
        devices = dict.fromkeys(r.device for r in roots)
        self.hosts = [Buffer(h.device, h.dtype, h.size) for h in captured.hosts]
        kept = _given_back(captured, arguments, sources)
        self.donated = {n: Donated(s._node, name).node(s._node.shape)
                        for n, s in enumerate(sources) if s in donated and n not in kept}
        self.segments = [Segment(d, [r for r in roots if r.device == d], self.hosts, self.donated,
                                 in_place=len(devices) == 1) for d in devices]
        order = [i for d in devices for i, r in enumerate(roots) if r.device == d]
        place = {i: position for position, i in enumerate(order)}
        self.targets = [(r.written, r.was_freed, r.device) for r in roots]
        self.written = [(place[i], number) for i, (number, _) in enumerate(captured.written)]
        self.new = [(place[i + len(self.written)], n.device, n.was_freed)
                    for i, n in enumerate(captured.new)]
        self.script = [_Refresh(item, self.hosts[item.number]) if isinstance(item, HostInput)
                       else item for item in captured.script]
        self.cleared = [effect for effect in captured.gradients if effect.clears]
        self._sort_sources()
        self.is_joint = any(s.is_joint for s in self.segments)
        self.checked = False

    def _sort_sources(self) -> None:
        """Storages that are always the same, and those that each call finds anew."""
        sources = self.captured.sources
        self.storages: list[Any] = [s.fixed for s in sources]
        moving = [(number, s) for number, s in enumerate(sources) if s.fixed is None]
        self.given = [(number, s.tensor.argument) for number, s in moving
                      if s.tensor is not None and s.tensor.argument >= 0 and not s.gradient]
        known = {number for number, _ in self.given}
        self.looked_up = [(number, s) for number, s in moving if number not in known]
        self.state = [number for number, s in self.looked_up
                      if s.tensor is not None and s.tensor.place is not None]
        written = [sources[number] for _, number in self.written]
        self.changed = {s.fixed for s in written if s.fixed is not None}
        self.changed_anew = [s for s in written if s.fixed is None]
        self.fixed = [s.fixed for s in sources if s.fixed is not None]
        self.flags = list(map(_FLAGS, self.fixed))
        captured = self.captured
        self.once = [*(self.state if self.written else ()), *captured.wanted]
        self.is_conditional = self.environment.tells_apart or any(
            (captured.layouts, self.looked_up, self.fixed, self.once, captured.guards))

    @functools.cached_property
    def fingerprint(self) -> Hashable:
        """Equal for two traces that do the same."""
        captured = self.captured
        return (captured.leaves, captured.structure, captured.sources, captured.gradients,
                captured.assigned, self.targets, [h.size for h in captured.hosts],
                len(captured.script), len(captured.afterwards),
                None if self.tape is None else self.tape.steps,
                [(s.device, s.key, list(map(_contents, s.inputs))) for s in self.segments])

    def takes(self, leaves: Sequence[Any]) -> bool:
        """Whether the numbers of a call, where they may differ, are as far as it was looked at."""
        assert self.tape is not None
        for place in self.tape.places:
            self.environment.expect(place, place.look())
        return self.tape.holds(leaves)

    def holds(self, arguments: Sequence[Tensor]) -> bool:
        """Whether this is what tracing the function anew would give, as far as it can be told."""
        captured = self.captured
        if self.replacements != tracing.replacements or self.environment.has_changed:
            return False
        if not self.is_conditional:
            return True
        if self.environment.has_any(arguments):
            return False
        for source, layout in captured.layouts:
            if layout_of(source.find(arguments)._grad) != layout:
                return False
        for _, found in self.looked_up:  # an argument's flags are in its signature
            if flags_of(found.find(arguments)) != found.flags:
                return False
        if self.fixed and list(map(_FLAGS, self.fixed)) != self.flags:
            return False
        # What is written must not be read by another name, and a gradient is that of all that is
        # read of a tensor.
        if self.once:
            storages = self._storages(arguments)
            if any(storages.count(storages[number]) > 1 for number in self.once):
                return False
        return not captured.guards or all(look() == seen for look, seen in captured.guards)

    def changes(self, arguments: Sequence[Tensor], storages: Collection[Storage]) -> bool:
        """Whether a call with these arguments writes to one of these."""
        return not self.changed.isdisjoint(storages) or any(
            source.find(arguments) in storages for source in self.changed_anew)

    def _storages(self, arguments: Sequence[Tensor]) -> list[Storage]:
        """The sources of a call with these arguments."""
        storages: list[Storage] = self.storages.copy()
        for number, argument in self.given:
            storages[number] = arguments[argument]._storage
        for number, source in self.looked_up:
            storages[number] = source.find(arguments)
        return storages

    def run(self, arguments: Sequence[Tensor]) -> Any:
        """Do what the captured call did, with these arguments; gives what it gave."""
        if self.is_joint:  # what was recorded before comes first
            carry_out()
        storages = self._storages(arguments)
        if self.written or self.donated:
            self._check_apart(storages)
        sources = buffers_of(storages)
        for number in self.donated:
            _refuse_twice(sources[number])
        done = [act() for act in self.script] if self.script else ()
        for effect in self.cleared:
            effect.tensor.find(arguments)._grad = None
        nodes = self._computed(sources, storages, done)
        if self.written:
            written = [(storages[number], nodes[place]) for place, number in self.written]
            Storage.store([(s, node) for s, node in written if s.shared is None])
            for storage, node in written:
                if storage.shared is not None:
                    storage.assign(node)
        for number, gone in self.donated.items():
            storages[number].shared = None  # what others see keeps its value
            storages[number].assign(gone)
        new: list[Storage] = []
        for place, device, was_freed in self.new:
            storage = Storage(nodes[place], device)
            storage.was_freed = was_freed
            new.append(storage)
        results = self._results(arguments, storages, new)
        for act in self.captured.afterwards:
            act()
        return results

    def _computed(self, sources: list[Buffer], storages: list[Storage],
                  done: Sequence[Callable[[], None] | None]) -> list[Node]:
        """What the segments give. done: what takes back, if they fail, what Python has done."""
        try:
            if len(self.segments) == 1:
                return self.segments[0].run(sources, storages)
            nodes: list[Node] = []
            for segment in self.segments:
                nodes += segment.run(sources, storages)
        except BaseException:
            for back in reversed(done):
                if back is not None:
                    back()
            raise
        return nodes

    def release(self) -> None:
        """Give back the memory that runs compute in; the next has to ask for it again."""
        for segment in self.segments:
            segment.release()

    def _check_apart(self, storages: Sequence[Storage]) -> None:
        """JitError if two sources that were apart are one now, or share memory with others that is
        the same, and it is written or donated."""
        shared = [s for s in storages if s.shared is not None]
        if len(set(storages)) == len(storages) and len(shared) < 2:
            return
        written = [number for _, number in self.written]
        for number in (*written, *self.donated):
            if storages.count(storages[number]) > 1 or number not in self.donated \
                    and _is_seen_in_others(storages[number], shared):
                verb = "is given by donation" if number in self.donated else "changes in place"
                kind = JitError if number in self.donated else TwoWays
                raise kind(f"a tensor of shape {storages[number]._node.shape} that a jitted "
                           f"function {verb} reaches it in two ways, for example as "
                           f"an argument and as a closed-over variable: use one of them")

    def _results(self, arguments: Sequence[Tensor], storages: Sequence[Storage],
                 new: Sequence[Storage]) -> Any:
        """Leave the gradients behind, and build what the function gave."""
        for effect in self.captured.gradients:
            tensor, spec = effect.tensor.find(arguments), effect.spec
            tensor._grad = None if spec is None else _made(spec, arguments, storages, new)

        tensors = arguments, storages, new
        for assignment in self.captured.assigned:
            value = self._built(assignment.leaves, assignment.structure, tensors)
            assignment.place.assign(value)
            if assignment.is_state:
                self.environment.expect(assignment.place, value)
        return self._built(self.captured.leaves, self.captured.structure, tensors)

    def _built(self, leaves: Iterable[TensorSpec | Leaf], structure: Branch | None,
               tensors: tuple[Sequence[Tensor], Sequence[Storage], Sequence[Storage]]) -> Any:
        """A value with these leaves. tensors: the call's arguments, sources and new storages."""
        tape, found = self.tape, []
        for x in leaves:
            if isinstance(x, TensorSpec):
                found.append(_made(x, *tensors))
            else:
                found.append(x.value if tape is None else tape.now(x.value))
        return found[0] if structure is None else unflatten(iter(found), structure)


def _made(spec: TensorSpec, arguments: Sequence[Tensor], storages: Sequence[Storage],
          new: Sequence[Storage]) -> Tensor:
    """A tensor that a call gives."""
    if spec.is_complex:
        return of_parts(_made(replace(spec, is_complex=False), arguments, storages, new))
    if spec.same is not None:
        return spec.same.find(arguments)
    storage = (new if spec.kind == "new" else storages)[spec.number]
    view = Tensor._view(storage, spec.moves, Lineage() if spec.detached else None)
    return view.requires_grad_() if spec.leaf and not spec.detached else view


def _given_back(captured: Captured, arguments: Sequence[Tensor],
                sources: Sequence[Storage]) -> set[int]:
    """The sources that are written, or that a call gives or leaves behind as they are."""
    kept = {number for number, _ in captured.written}
    specs = [x for x in captured.leaves if isinstance(x, TensorSpec)]
    specs += [effect.spec for effect in captured.gradients if effect.spec is not None]
    for spec in specs:
        if spec.kind == "source":
            kept.add(spec.number)
        elif spec.same is not None:
            same = spec.same.find(arguments)._storage
            kept |= {number for number, storage in enumerate(sources) if storage is same}
    return kept


def _is_seen_in_others(storage: Storage, among: Sequence[Storage]) -> bool:
    """Whether what is written to a storage may change others of these, by memory that they share.
    """
    own = storage.shared
    return own is not None and any(s is not storage and s.shared is not None
                                   and own.overlaps(s.shared) for s in among)


def _refuse_twice(buffer: Buffer | Placeholder) -> None:
    """JitError for what was donated before."""
    if isinstance(buffer, Donated):
        buffer.refuse()


def _contents(given: Placeholder | Buffer) -> Hashable:
    if isinstance(given, Placeholder):
        return given.kind, given.number
    return given.numpy().tobytes()


def buffers_of(storages: Sequence[Storage]) -> list[Buffer]:
    """The memory of each value, computed first where it is not yet."""
    found: list[Buffer] = []
    shaped, flat = Op.RESHAPE, Op.BUFFER
    for storage in storages:
        if storage.shared is not None:
            storage.refresh()
    for storage in storages:
        if storage.__class__ is Deferred:
            realize(storages)
            return [s.buffer for s in storages]  # type: ignore[misc]  # realized
        node = storage._node
        if node.op is shaped:
            node = node.src[0]
        if node.op is not flat:
            realize(storages)
            return [s.buffer for s in storages]  # type: ignore[misc]  # realized
        found.append(node.arg)
    return found


class _Refresh:
    """Computes a host input, and copies it to the device where it differs from the last."""

    __slots__ = ("buffer", "host", "last")

    def __init__(self, host: HostInput, buffer: Buffer) -> None:
        self.host, self.buffer, self.last = host, buffer, b""

    def __call__(self) -> Callable[[], None] | None:
        values = np.ascontiguousarray(self.host.refresh(), self.host.dtype.numpy)
        data = values.tobytes()
        if data != self.last:
            executor(self.host.device).copy_in(self.buffer.handle, values.reshape(-1))
            self.last = data
        return None  # there is nothing to take back
