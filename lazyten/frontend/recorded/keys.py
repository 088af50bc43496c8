"""What an operation is looked up by: its arguments, tensors as the templates that they have.

In: the arguments of an operation, and the frame that it is recorded in. Out: a key that is equal
for what the same step does another time, and the tensors among the arguments in their order.
"""
from __future__ import annotations

from collections.abc import Iterable, Sequence
from threading import get_ident
from typing import Any
from weakref import ReferenceType

from lazyten.execution import frame_runs
from lazyten.frontend.core.handle import Handle
from lazyten.frontend.core.keywords import MemoryFormat
from lazyten.frontend.core.size import Size
from lazyten.frontend.recorded.cuts import Cut
from lazyten.frontend.recorded.lifting import going_on, lift
from lazyten.frontend.recorded.regions import Region, compute_pending
from lazyten.ir.dtype import DType
from lazyten.ir.node import Node
from lazyten.ir.number_tape import NUMPY
from lazyten.ir.ops import Op
from lazyten.storage import levels, tracing
from lazyten.storage.deferred import Deferred, known_again, known_template, rested
from lazyten.storage.frames import Frame, go_on, here, nothing, under_way
from lazyten.storage.placement import Device, default_device
from lazyten.storage.storage import Storage
from lazyten.support import grad_mode
from lazyten.support.location import Place, is_our_class, user_place

LONGEST = 64
"""A longer list among the arguments is not looked up, but for one of tensors."""
DEEPEST = 4
"""Nor is one that is nested deeper."""

_stack, _grad = levels._stack, grad_mode._mode
_PLAIN = frozenset({int, bool, str, type(None), DType, MemoryFormat, type(...), Op, type, Device})


class Value:
    """A tensor as an operation sees it: its storage's template, the moves that make it a view, and
    how gradients flow. Equal ones are one. A region (regions.py) is the template alone, and its
    moves are None."""

    __slots__ = ("__weakref__", "detached", "is_memory", "keeps_graph", "leaf_number", "moves",
                 "template", "was_freed")
    template: Node
    moves: Any
    detached: bool
    leaf_number: int | None
    keeps_graph: bool
    was_freed: bool
    is_memory: bool
    """Whether it may be that it is simply in memory."""


class _Kept(ReferenceType[Value]):
    """To a value, with its key."""

    __slots__ = ("key",)
    key: tuple[Any, ...]


_values: dict[tuple[Any, ...], _Kept] = {}
"""As a WeakValueDictionary, in a third of the time."""


def _gone(kept: ReferenceType[Value]) -> None:
    assert isinstance(kept, _Kept)
    if _values.get(kept.key) is kept:
        _values.pop(kept.key, None)


def is_on() -> bool:
    """Whether operations of this thread are recorded in frames: not in a trace, nor under a
    transform, nor within an operation that is being recorded."""
    return here.first_serial is None and tracing.active is None and not _stack.levels


def goes_on_in(frame: Frame) -> bool:
    """Whether operations are recorded in this frame: from now on, if its device has no other, and
    it has not ended because it was long."""
    found = under_way(frame.device)
    if found is not frame and (found is not None or frame.thread != get_ident()
                               or frame_runs.is_over(frame)):
        return False
    go_on(frame)
    return True


def frame_for(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Frame:
    """The frame for an operation where there is none under way: that of an operand whose graph goes
    on, or a new one."""
    place = user_place()
    again = None if going_on.get(place) else \
        rested(place, (*args, *kwargs.values()) if kwargs else args, Handle)
    if again is not None:
        go_on(again)
        return again
    device: str | None = None
    for x in _tensors(args, kwargs):
        storage = x._storage
        if storage.keeps_graph and x._lineage is None and _grad.enabled:
            own: Frame | None = storage._frame
            if own is not None and goes_on_in(own):
                return own
        device = device or storage.device
    return begun(device or default_device(), place)


def device_of(args: tuple[Any, ...], kwargs: dict[str, Any]) -> str | None:
    """The device of the first tensor among arguments."""
    found = _tensors(args, kwargs)
    return found[0]._storage.device if found else None


def _tensors(args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[Handle[Any]]:
    found: list[Handle[Any]] = []
    for x in (*args, *kwargs.values()) if kwargs else args:
        if isinstance(x, Handle):
            found.append(x)
        elif x.__class__ is list or x.__class__ is tuple:
            found += [one for one in x if isinstance(one, Handle)]
    return found


def begun(device: str, place: Place | None) -> Frame:
    """The frame of a device that is under way, or one that begins at this place."""
    frame = under_way(device) or _unfinished(device, place) or Frame(device, place)
    go_on(frame)
    return frame


def _unfinished(device: str, place: Place | None) -> Frame | None:
    """The last frame, if somebody has looked at a value in the middle of it: it has rules for
    gradients that belong to it, and a frame that began at this place needed what these are of."""
    frame = here.left.get(device, nothing)()
    if frame is None or not frame.rules or frame.is_freed or frame_runs.is_over(frame) \
            or frame.thread != get_ident() or not going_on.get(place):
        return None
    return frame


def add_to_key(args: Sequence[Any], key: list[Any], operands: list[Handle[Any]],
               frame: Frame, depth: int = 0) -> bool:
    """Add arguments to a key; False if one of them cannot be part of one."""
    mark, leaf_numbers = frame.mark, frame.leaf_numbers
    for x in args:
        kind = type(x)
        if isinstance(x, Handle):
            value = x._value
            s = x._storage
            leaf_id = s.leaf_id
            if value is None or s._mark is not mark or value.template is not s._template \
                    or value.moves is not x._moves or value.keeps_graph is not s.keeps_graph \
                    or x._lineage is not None or value.was_freed is not s.was_freed \
                    or (value.leaf_number is not None if leaf_id is None else
                        s.__class__ is Deferred
                        or value.leaf_number != leaf_numbers.get(leaf_id, 0)):
                value = value_of(x, frame)
                if value is None:
                    return False
            key.append(value)
            operands.append(x)
        elif kind in _PLAIN:
            key.append(kind)
            key.append(x)
        elif kind is float:
            key.append(kind)
            key.append(x if x and x == x else x.hex())
        elif kind in NUMPY:
            key.append(kind)
            key.append(x.tobytes())
        elif kind is slice:
            if not add_to_key((kind, x.start, x.stop, x.step), key, operands, frame, depth):
                return False
        elif (kind is tuple or kind is list or issubclass(kind, tuple)) and depth < DEEPEST \
                and (len(x) <= LONGEST or isinstance(x[0], Handle)):
            key.append(kind)
            key.append(len(x))
            if not add_to_key(x, key, operands, frame, depth + 1):
                return False
        else:
            return False
    return True


def are_plain(args: Iterable[Any]) -> bool:
    """Whether no argument has code of the user's, such as a function or an object of a class of
    theirs."""
    for x in args:
        kind = x.__class__
        if kind is tuple or kind is list or kind is Size:
            if not are_plain(x):
                return False
        elif kind is slice:
            if not are_plain((x.start, x.stop, x.step)):
                return False
        elif kind is not float and kind not in _PLAIN or kind is type:
            if not (isinstance(x, Handle) and is_our_class(kind)):
                return False
    return True


def add_by_name(kwargs: dict[str, Any], key: list[Any], operands: list[Handle[Any]],
                frame: Frame) -> bool:
    """The same of arguments that are given by name."""
    for name, x in kwargs.items():
        key.append(name)
        if not add_to_key((x,), key, operands, frame):
            return False
    return True


def add_aliases(operands: Sequence[Handle[Any]], key: list[Any]) -> None:
    """Add which operands are one tensor, or share a storage."""
    if len(operands) == 2:
        one, another = operands
        are_apart = one._storage is not another._storage
    else:
        are_apart = len({x._storage for x in operands}) == len(operands)
    if not are_apart:
        storages = [x._storage for x in operands]
        places, tensors = list(map(storages.index, storages)), list(map(id, operands))
        key += [*places, *map(tensors.index, tensors)]


def value_of(x: Handle[Any], frame: Frame) -> Value | None:
    """What a tensor is in a frame; None if it has no part in it."""
    storage, lineage, value = x._storage, x._lineage, x._value
    if value.__class__ is Value and value.is_memory and lineage is None \
            and value.moves is x._moves and storage.__class__ is Storage:
        template = known_again(storage, frame) if storage._mark is not frame.mark else \
            None if storage.keeps_graph or storage.was_freed or storage.retaining else \
            storage._template
        if template is not None:
            return _in_memory(x, value, template, frame)
    if value.__class__ is Cut:
        value = x._value = value.met(x)
    if value.__class__ is Region:
        if compute_pending(x, frame):
            return None
        source = value.source_in(frame, x)
        if source is not None:
            return interned(source, None, False, None, False, False)
    if lineage is not None and (lineage.carrier is not None or lineage.was_freed) \
            or storage.retaining or storage.device != frame.device:
        return None
    if storage.__class__ is Deferred and frame_runs.bring_up_to_date(
            storage, frame, lineage is None and _grad.enabled is True):
        return None
    keeps_graph = storage.keeps_graph
    template = known_template(storage, frame)
    if template is None and keeps_graph and (lineage is not None or not _grad.enabled) \
            and (buffer := frame_runs.looked_at(storage)) is not None:
        template, keeps_graph = frame.memory(storage, buffer), False
    if template is None:
        template = lift(storage, frame)
    if template is None:
        return None
    detached, was_freed = lineage is not None, storage.was_freed
    number = None if storage.leaf_id is None else frame.leaf_number(storage.leaf_id)
    if value.__class__ is Value and value.template is template and value.moves is x._moves \
            and value.leaf_number == number and value.detached is detached \
            and value.keeps_graph is keeps_graph and value.was_freed is was_freed:
        return value  # as in the step before
    found = interned(template, x._moves, detached, number, keeps_graph, was_freed)
    x._moves = found.moves
    if value.__class__ is not Region:
        x._value = found
    return found


def _in_memory(x: Handle[Any], value: Value, template: Node, frame: Frame) -> Value:
    """What a tensor is in a frame that reads its memory as `template`, and was `value` before."""
    leaf_id = x._storage.leaf_id
    number = None if leaf_id is None else frame.leaf_number(leaf_id)
    if value.template is template and value.leaf_number == number:
        return value
    found = x._value = interned(template, value.moves, False, number, False, False)
    x._moves = found.moves
    return found


def are_read_alone(operands: Iterable[tuple[Handle[Any], Value]]) -> bool:
    """Whether one of these is not to be written in a frame: others see its memory, its gradient is
    retained, or it is read from memory though it keeps its graph."""
    for x, value in operands:
        storage = x._storage
        if storage.shared is not None or storage.retaining \
                or value.template is not storage._template:
            return True
    return False


def interned(template: Node, moves: Any, detached: bool, leaf_number: int | None,
             keeps_graph: bool, was_freed: bool) -> Value:
    """The value with these fields."""
    key = (template, moves, detached, leaf_number, keeps_graph, was_freed)
    kept = _values.get(key)
    found = None if kept is None else kept()
    if found is None:
        found = Value()
        found.template, found.moves, found.detached, found.leaf_number = key[:4]
        found.keeps_graph, found.was_freed = keeps_graph, was_freed
        found.is_memory = not (detached or keeps_graph or was_freed)
        kept = _values[key] = _Kept(found, _gone)
        kept.key = key
    return found
