"""Lists of tensors that are others each time, such as the examples that a batch is joined of.

In: a function of a list of tensors that gives one tensor, and the tensors. Out: the same, or twins
of those that are simply in memory. Where a list holds a tensor twice, or one that the step has read
before, that is part of what the function is looked up by; examples that are drawn from a memory are
so each time in another way. Where that was seen at a line, its lists are of twins from then on:
each is a tensor of its own that has the same memory.
"""
from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import lru_cache, wraps
from typing import Any, ParamSpec, TypeVar, cast

from lazyten.frontend.core import handle
from lazyten.frontend.core.handle import KEPT_VIEWS, Handle, _tracker_after
from lazyten.frontend.core.overriding import has_override, offered, takers
from lazyten.frontend.recorded import keys
from lazyten.frontend.recorded.courses import family_at
from lazyten.frontend.recorded.keys import Value
from lazyten.frontend.recorded.regions import Region, is_of_memory
from lazyten.ir.movement import Moves
from lazyten.ir.node import Shape, unshaped
from lazyten.ir.ops import Op
from lazyten.storage.frames import here
from lazyten.storage.placeholder import Source
from lazyten.storage.storage import Storage
from lazyten.support.location import user_place

P = ParamSpec("P")
R = TypeVar("R")
LINES = 4096
"""So many lines are known, to be forgotten where there are more."""

_lines: set[Any] = set()
"""Functions, each with a line whose lists are others each time."""


def forget() -> None:
    """Forget all lines."""
    _lines.clear()


def joins(function: Callable[..., Any]) -> bool:
    """Whether a function says that it takes a list of tensors, and gives one tensor."""
    annotations = getattr(function, "__annotations__", {})
    return annotations.get("tensors") == "Sequence[Tensor]" and annotations["return"] == "Tensor"


def joining(function: Callable[P, R], looked_up: Callable[P, R]) -> Callable[P, R]:
    """A function that joins, looked up as it is, which reads twins where that is due."""
    @wraps(looked_up)
    def found(*args: Any, **kwargs: Any) -> R:
        if _lines and keys.is_on() and (function, user_place()) in _lines:
            if args:
                args = (_twins(args[0]), *args[1:])
            elif "tensors" in kwargs:
                kwargs = {**kwargs, "tensors": _twins(kwargs["tensors"])}
        return looked_up(*args, **kwargs)
    return offered(cast("Callable[P, R]", found), looked_up)


def note(function: Callable[..., Any], operands: Sequence[Handle[Any]],
         values: Sequence[Value]) -> None:
    """Note that a function that joins is not known for these operands."""
    place = user_place()
    kind = tuple([(x.shape, x.dtype) for x in operands])
    numbers = tuple([(_source_of(value), value.moves) for value in values])
    if family_at((joining, function, place)).meet(here.turn, here.cut, kind, numbers):
        if len(_lines) >= LINES:
            _lines.clear()
        _lines.add((function, place))


def _source_of(value: Value) -> int:
    """The number of the source that a value is; -1 if it is none."""
    flat = unshaped(value.template)
    return flat.arg.number if flat.op is Op.BUFFER and isinstance(flat.arg, Source) else -1


def _twins(tensors: Any) -> Any:
    if tensors.__class__ not in (list, tuple) or len(tensors) < 2 \
            or takers and has_override(tuple(tensors)):
        return tensors
    return [_twin(x) for x in tensors]


def _twin(x: Any) -> Any:
    """A tensor that has the memory of another; the same where it is more than that."""
    if x.__class__ is not handle.results or not is_of_memory(x):
        return x
    storage = x._storage
    if storage.shared is not None:
        storage.refresh()
    flat = unshaped(storage._node)
    if flat.op is not Op.BUFFER:
        return x
    twin: Any = Handle._view(Storage(storage._node, storage.device), x._moves, None)
    twin._value = Region(flat.arg if _is_all(storage._node.shape, x._moves) else None)
    return twin


@lru_cache(KEPT_VIEWS)
def _is_all(shape: Shape, moves: Moves) -> bool:
    """Whether moves show an array as it is in memory."""
    tracker = _tracker_after(shape, moves)
    return tracker.is_contiguous and math.prod(tracker.shape) == math.prod(shape)
