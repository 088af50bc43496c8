"""What an operation did, in terms that hold whenever it comes again; and doing it again."""
from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from lazyten.execution.lineage import Lineage
from lazyten.frontend.core import handle
from lazyten.frontend.core.gradients import become_apart
from lazyten.frontend.core.handle import Handle
from lazyten.frontend.recorded.keys import Value, interned
from lazyten.frontend.recorded.regions import Region, can_be_put, put
from lazyten.frontend.recorded.sayable import are_sayable, is_clean
from lazyten.ir.dtype import DType
from lazyten.ir.node import Node
from lazyten.storage.deferred import defer, deferred
from lazyten.storage.frames import Frame
from lazyten.storage.held_memory import HeldMemory
from lazyten.storage.storage import Storage

_new = object.__new__


@dataclass(frozen=True, slots=True)
class Fresh:
    """A result with a storage of its own, or that of an earlier fresh result of the operation."""

    value: Value
    number: int


@dataclass(frozen=True, slots=True)
class View:
    """A result that is a view of an operand's storage. shares: whether gradients flow through it as
    through the operand; else it is detached, or attached, on its own. of_region: the moves go on
    from the operand's, a region's, wherever that begins. value: what operations will most often see
    it as."""

    operand: int
    moves: Any
    detached: bool
    shares: bool
    of_region: bool
    value: Value | None = None


@dataclass(frozen=True, slots=True)
class Same:
    """A result that is an operand itself."""

    operand: int


Result = Fresh | View | Same | None
"""None is None, as attention gives it in place of weights that nobody needs."""


class Write(NamedTuple):
    """A write to an operand: its storage's template before and after, whether the new one keeps its
    graph, and whether the graph is used up; of a region, that of its elements. value: what
    operations will most often see the operand as. is_once: it was not written before that."""

    operand: int
    before: Node
    template: Node
    keeps_graph: bool
    was_freed: bool
    value: Value | None
    of_region: bool
    is_once: bool


@dataclass(frozen=True, slots=True)
class Entry:
    """What an operation did.

    results: what it gave, as a `kind` if that is not None. single: the value, if it gave one fresh
    tensor and did nothing else. draws: what the host computes for it, as sources from number
    `first` on. weight: how much of a step it is.
    """

    results: tuple[Result, ...]
    kind: Callable[..., Any] | None
    single: Value | None
    writes: tuple[Write, ...]
    draws: tuple[tuple[Callable[[], Any], DType, HeldMemory], ...]
    first: int
    weight: int


def is_read_alone(entry: Entry, operands: Sequence[Handle[Any]]) -> bool:
    """Whether an operation writes to what is not to be written in a frame: others see its memory,
    its gradient is retained, it is read from memory though it keeps its graph, or it is a region
    that nothing can be put into, or one of what another operand shows."""
    for write in entry.writes:
        x = operands[write.operand]
        storage = x._storage
        if len(operands) > 1 and _is_seen(x, write, operands) and not _is_the_end(entry, write):
            return True
        if write.of_region:
            if write.keeps_graph or not can_be_put(x):
                return True
        elif storage.shared is not None or storage.retaining \
                or storage._template is not write.before:
            return True
    return False


def _is_seen(x: Handle[Any], write: Write, operands: Sequence[Handle[Any]]) -> bool:
    """Whether another operand shows what is written to one, and one of them is a region."""
    storage = x._storage
    for other in operands:
        if other._storage is storage and other is not x \
                and (write.of_region or other._value.__class__ is Region):
            return True
    return False


def _is_the_end(entry: Entry, write: Write) -> bool:
    """Whether all that an operation reads is read before this write."""
    return write.is_once and len(entry.writes) == 1 \
        and all(r is None or type(r) is Same for r in entry.results)


DIRECT = Entry((), None, None, (), (), 0, 0)
"""Of an operation that is always run on the tensors themselves."""


def fresh_tensor(frame: Frame, value: Value, operands: Sequence[Handle[Any]]) -> Any:
    """A new tensor of this value."""
    if value.keeps_graph:
        if value.template in frame.latest or frame.hooks:
            value = _own(frame, value)
        else:  # as _own() does
            frame.latest[value.template] = value.template
    result: Any = _new(handle.results)
    result._storage = deferred(frame, value.template, value.keeps_graph, value.was_freed)
    result._moves = ()
    result._lineage = result._grad = None
    result._value = value
    return result


def _own(frame: Frame, value: Value) -> Value:
    """The value, or one like it where another tensor of the frame has this one, whose gradient is
    not that of the new tensor."""
    node = frame.own(value.template)
    if node is value.template:
        return value
    if is_clean(value.template):
        are_sayable([node])  # as the one that it is like, which backward() asks for
    return interned(
        node, value.moves, value.detached, value.leaf_number, value.keeps_graph, value.was_freed)


def repeated(frame: Frame, entry: Entry, operands: Sequence[Handle[Any]]) -> Any:
    """Do what an operation did, with these operands."""
    frame.recorded += entry.weight
    for make_array, dtype, held in entry.draws:
        frame.add(held.filled(make_array(), dtype, frame.device))
    for number, _, template, keeps_graph, was_freed, value, of_region, _ in entry.writes:
        x = operands[number]
        if of_region:
            put(frame, x, template)
            continue
        if keeps_graph:  # what is written, too, may be what another tensor has
            value = None if value is None else _own(frame, value)
            template = frame.own(template) if value is None else value.template
        defer(x._storage, frame, template, keeps_graph, was_freed)
        if value is not None:
            x._value = value
    made: list[Any] = []
    fresh: list[Storage] = []
    for result in entry.results:
        if type(result) is Same:
            made.append(operands[result.operand])
        elif result is None:
            made.append(None)
        elif type(result) is View:
            own: Any = operands[result.operand]
            lineage = own._lineage if result.shares else Lineage() if result.detached else None
            view: Any = own._moved(*result.moves) if result.of_region else \
                Handle._view(own._storage, result.moves, None)
            view._lineage = lineage
            view._value = result.value or view._value
            if lineage is None and own._storage.requires_grad:
                become_apart(view, own)
            made.append(view)
        else:
            assert type(result) is Fresh
            value = _own(frame, result.value) if result.value.keeps_graph else result.value
            if result.number == len(fresh):
                fresh.append(deferred(frame, value.template, value.keeps_graph, value.was_freed))
            new: Any = Handle._view(fresh[result.number], value.moves, None)
            new._value = value
            made.append(new)
    return made[0] if entry.kind is None else entry.kind(made)
