"""Recording an operation: it is run once, on stand-ins for its operands that are over templates.

In: an operation that a frame has not met. Out: an `Entry` that says what it did, if one can: it
must give tensors, or write to its operands, and what these are must follow from templates alone. It
must not look at values, nor keep anything of one step, such as a tensor in a rule for gradients.
"""
from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from lazyten.execution.lineage import Lineage
from lazyten.frontend.core import handle
from lazyten.frontend.core.handle import Handle
from lazyten.frontend.recorded.entries import Entry, Fresh, Result, Same, View, Write
from lazyten.frontend.recorded.keys import Value, interned
from lazyten.frontend.recorded.lifting import with_sources
from lazyten.frontend.recorded.sayable import Unsayable, are_clean, clean
from lazyten.ir.node import Node, is_alias, rewrite, toposort, unshaped, within
from lazyten.ir.ops import Op
from lazyten.storage import levels
from lazyten.storage.frames import Frame, here
from lazyten.storage.held_memory import HeldMemory
from lazyten.storage.history import HEAVY
from lazyten.storage.placeholder import NeedsValue, Source
from lazyten.storage.storage import Storage


def record(frame: Frame, function: Callable[..., Any], args: tuple[Any, ...],
           kwargs: dict[str, Any], operands: Sequence[Handle[Any]],
           values: Sequence[Value]) -> tuple[Entry | None, bool]:
    """What an operation does, None if no entry can say it; and whether it does so in each step."""
    try:
        stand_ins = StandIns(frame, operands, values)
    except Unsayable:
        return None, False
    count = len(frame.sources)
    here.first_serial, here.draws, here.frame = next(levels.serials), [], frame
    here.walks = False
    try:
        given = function(*[stand_ins.of(x) for x in args],
                         **{key: stand_ins.of(x) for key, x in kwargs.items()})
        entry = stand_ins.entry(given, count, here.draws)
        return entry, stand_ins.is_clean(here.first_serial)
    except (NeedsValue, Unsayable):
        return None, stand_ins.are_clean
    finally:
        here.first_serial = here.frame = None
        frame.forget_sources(count)  # those of draws, which are to be made


def over_sources(entry: Entry, frame: Frame) -> Entry:
    """The same with sources for memory of this step: what is made of it comes again."""
    def lifted(value: Value) -> Value:
        template = with_sources(value.template, frame)
        return interned(template, value.moves, value.detached, value.leaf_number,
                        value.keeps_graph, value.was_freed)
    made = [replace(r, value=lifted(r.value)) if type(r) is Fresh else r for r in entry.results]
    writes = [w._replace(template=with_sources(w.template, frame), value=None)
              for w in entry.writes]
    return replace(entry, results=tuple(made), writes=tuple(writes),
                   single=None if entry.single is None else lifted(entry.single))


def _as_it_is(node: Node) -> None:
    """A rule that changes nothing."""


def _nothing(made: Sequence[Any]) -> None:
    """What an operation gives that only writes."""


class StandIns:
    """What an operation is run on to be recorded: tensors over templates. values: what the operands
    are in the key; made: the templates of what the operation gave and wrote."""

    def __init__(self, frame: Frame, operands: Sequence[Handle[Any]],
                 values: Sequence[Value]) -> None:
        self.frame, self.operands, self.values = frame, operands, values
        self.made: list[Node] = []
        self.storages: dict[Storage | Node, Storage] = {}
        self.tensors: dict[int, Any] = {}
        self.numbers: dict[Storage, int] = {}
        self.regions: set[int] = set()
        self.keys: list[Storage | Node] = []
        self.given: dict[Node, Node] | None = None
        self.before: dict[Node, Node] = {}
        for number, (x, value) in enumerate(zip(operands, values, strict=True)):
            template, device = value.template, x._storage.device
            if value.moves is None:
                self.regions.add(number)
            real = template if number in self.regions else x._storage
            self.keys.append(real)
            stand_in = self.storages.get(real)
            if stand_in is None:
                stand_in = self.storages[real] = Storage(template, device, value.keeps_graph)
                stand_in.leaf_id, stand_in.was_freed = value.leaf_number, value.was_freed
                self.numbers[stand_in] = number
                flat = unshaped(template)
                if flat.op is Op.BUFFER and isinstance(flat.arg, Source) or not flat.src:
                    clean.update((template, flat))
            elif stand_in._node is not value.template:  # here its graph, there its memory
                raise Unsayable
            if id(x) not in self.tensors:
                self.tensors[id(x)] = Handle._view(stand_in, value.moves or (),
                                                   None if x._lineage is None else Lineage())
        self.moves = [value.moves or () for value in values]
        self.flags = [(s.leaf_id, s.was_freed) for s in self.storages.values()]
        self.keep_graphs = [s.keeps_graph for s in self.storages.values()]
        self.templates = [s._node for s in self.storages.values()]

    @property
    def are_clean(self) -> bool:
        """Whether it is known that all operands stand over sources and constants alone."""
        return clean.issuperset(self.templates)

    def of(self, x: Any) -> Any:
        """An argument, with tensors replaced."""
        if isinstance(x, Handle):
            return self.tensors[id(x)]
        if type(x) in (list, tuple):
            return type(x)([self.of(one) for one in x])
        if isinstance(x, slice):
            return slice(self.of(x.start), self.of(x.stop), self.of(x.step))
        return x

    def entry(self, given: Any, first: int, draws: Sequence[Any]) -> Entry:
        """What was done, in terms that hold for other operands."""
        self._check()
        kind: Callable[..., Any] | None = None
        several = [given]
        if given is None:
            several, kind = [], _nothing
        elif isinstance(given, tuple | list):
            several = list(given)
            kind = getattr(type(given), "_make", type(given))
        fresh: dict[Storage, int] = {}
        results = tuple([self._result(x, fresh) for x in several])
        writes = self.writes()
        single = None
        if kind is None and type(results[0]) is Fresh and not (writes or draws):
            single = None if results[0].value.moves else results[0].value
        self.made = [r.value.template for r in results if type(r) is Fresh]
        self.made += [w.template for w in writes]
        drawn = tuple([(make_array, dtype, HeldMemory()) for make_array, dtype in draws])
        return Entry(results, kind, single, tuple(writes), drawn, first, self._weight())

    def _weight(self) -> int:
        given = {*self.templates}
        made = toposort(self.made, known=given)
        return 1 + sum([HEAVY.get(n.op, 1) for n in made if not is_alias(n)]) // 4

    def writes(self) -> list[Write]:
        """What was written."""
        found = []
        for stand_in, before, kept in zip(self.storages.values(), self.templates, self.keep_graphs,
                                          strict=True):
            if stand_in.version:
                found.append(self._write(self.numbers[stand_in], before, stand_in))
            elif stand_in._node is not before or stand_in.keeps_graph is not kept:
                raise Unsayable
        return found

    def _write(self, number: int, before: Node, after: Storage) -> Write:
        own, (node, keeps_graph, was_freed) = self.values[number], (
            after._node, after.keeps_graph, after.was_freed)
        value = None if own.moves or own.moves is None or own.detached else interned(
            node, (), False, own.leaf_number, keeps_graph, was_freed)
        return Write(number, before, node, keeps_graph, was_freed, value, own.moves is None,
                     after.version == 1)

    def read(self, template: Node) -> Any:
        """A stand-in for a source that turns up while the operation is recorded, and is only
        read."""
        clean.update((template, unshaped(template)))
        return Handle._view(Storage(template, self.frame.device), (), None)

    def _check(self) -> None:
        """Unsayable if a stand-in, or its storage, was changed in a way that is not a write."""
        for s, (leaf_id, was_freed) in zip(self.storages.values(), self.flags, strict=True):
            if s.leaf_id != leaf_id or s.was_freed is not was_freed and not s.version:
                raise Unsayable
        for x, real, moves in zip(self.operands, self.keys, self.moves, strict=True):
            stand_in = self.tensors[id(x)]
            lineage = stand_in._lineage
            if stand_in._storage is not self.storages[real] \
                    or stand_in._moves is not moves or stand_in._grad is not None \
                    or lineage is not None and (lineage.carrier is not None or lineage.was_freed) \
                    or (lineage is None) is not (x._lineage is None):
                raise Unsayable

    def _result(self, x: Any, fresh: dict[Storage, int]) -> Result:
        if x is None:
            return None
        if not isinstance(x, Handle) or type(x) is not handle.results:
            raise Unsayable
        for number, operand in enumerate(self.operands):
            if x is self.tensors[id(operand)]:
                return Same(number)
        storage, lineage = x._storage, x._lineage
        if lineage is not None and (lineage.carrier is not None or lineage.was_freed):
            raise Unsayable
        if storage in self.numbers:
            for number, operand in enumerate(self.operands):
                stand_in = self.tensors[id(operand)]
                if stand_in._storage is storage and stand_in._lineage is lineage:
                    return self._view(x, number)
            return View(self.numbers[storage], x._moves, lineage is not None, False,
                        self.numbers[storage] in self.regions)
        if lineage is not None:
            raise Unsayable
        if storage.__class__ is not Storage or storage.leaf_id is not None or storage.shared \
                or storage.device != self.frame.device or storage.retaining:
            raise Unsayable
        number = fresh.setdefault(storage, len(fresh))
        template = self._apart(storage._node) if storage.keeps_graph else storage._node
        return Fresh(interned(template, x._moves, False, None, storage.keeps_graph,
                              storage.was_freed), number)

    def _apart(self, made: Node) -> Node:
        """What was made, where what it is computed by is the value of no other tensor, as gradients
        within an operation are those of none. What operands are computed by stays: gradients that
        are differentiated again are computed by it, too."""
        if self.given is None:
            nodes = {x.node for x in self.tensors.values()}
            self.given = {x: within(x) for x in nodes if x.differentiable}
        given = self.given
        if all(not s.differentiable or s in given for s in made.src):
            return made
        if here.walks and not self.before:
            self.before = {x: x for x in toposort(given)}
        return rewrite([made], _as_it_is, self.before | given)[0]

    def _view(self, x: Handle[Any], number: int) -> View:
        """A view through which gradients flow as through an operand."""
        if number in self.regions:
            return View(number, x._moves, x._lineage is not None, True, True)
        own = self.values[number]
        value = interned(own.template, x._moves, own.detached, own.leaf_number, own.keeps_graph,
                         own.was_freed)
        return View(number, value.moves, x._lineage is not None, True, False, value)

    def is_clean(self, first_serial: int) -> bool:
        """Whether all that was made stands over sources and constants alone. Unsayable for what a
        rule for gradients holds that belongs to this step."""
        return are_clean(self.made, first_serial)
