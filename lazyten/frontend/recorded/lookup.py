"""Looking up operations: what methods and functions that give tensors are wrapped in."""
from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from types import FunctionType
from typing import Any, ParamSpec, TypeVar, cast

import numpy as np

from lazyten.autodiff.watching import unwatched, watch
from lazyten.execution import frame_runs
from lazyten.frontend.core import mixed_precision
from lazyten.frontend.core.forms import by_form, is_complex
from lazyten.frontend.core.handle import Handle
from lazyten.frontend.core.overriding import NOT_TAKEN, has_override, meet, taken_over, takers
from lazyten.frontend.recorded import families, joining, lifting
from lazyten.frontend.recorded.courses import NAMES
from lazyten.frontend.recorded.cuts import cut, is_itself, with_places, with_tensors
from lazyten.frontend.recorded.entries import DIRECT, Entry, fresh_tensor, is_read_alone, repeated
from lazyten.frontend.recorded.keys import (
    Value,
    add_aliases,
    add_by_name,
    add_to_key,
    are_plain,
    begun,
    device_of,
    frame_for,
    is_on,
)
from lazyten.frontend.recorded.masks import chosen, is_put
from lazyten.frontend.recorded.mistakes import kind_error
from lazyten.frontend.recorded.recording import over_sources, record
from lazyten.ir import dtype as dt
from lazyten.ir.number_tape import exactly, numbers
from lazyten.storage import levels, tracing
from lazyten.storage.frames import Frame, here
from lazyten.storage.placement import default_device
from lazyten.support import grad_mode
from lazyten.support.errors import ComplexError, ForeignOperandError, FormError
from lazyten.support.location import user_place
from lazyten.support.remembered import Remembered

P = ParamSpec("P")
R = TypeVar("R")
LIMIT, FRESH = 20_000, 16_000
"""So many operations that came again are remembered; and of those that did not, up to this weight,
or twice that of the longest frame: a step that looks at values has many frames, and is known only
if all of it is remembered until it comes again."""
SETTINGS = 6
"""So many parts of a key are the function and what else it depends on than arguments."""

_stack = levels._stack
_grad, _casts = grad_mode._mode, mixed_precision._mode
_known: Remembered[Entry] = Remembered(LIMIT, FRESH)
_come_again = _known.again


def forget() -> None:
    """Forget all operations, and the programs that computed them."""
    _known.clear()
    _known.fresh = FRESH
    families.forget()
    joining.forget()
    lifting.forget()
    frame_runs.forget()


def recorded(function: Callable[P, R], is_operator: bool = False) -> Callable[P, R]:
    """The function, which is looked up before it is run. is_operator: Python calls it, and asks the
    other operand where it gives NotImplemented."""
    @wraps(function)
    def found(*args: Any, **kwargs: Any) -> Any:
        try:
            if takers:
                taken = taken_over(found, args, kwargs)
                if taken is not NOT_TAKEN:
                    return taken
            try:
                if here.first_serial is None and tracing.active is None and not _stack.levels:
                    return _found(function, args, kwargs)
                if watch.hook is not None and are_plain(args) and are_plain(kwargs.values()):
                    return unwatched(_real, function, args, kwargs)
                return _real(function, args, kwargs)
            except FormError:
                pass
            return by_form(function, args, kwargs)
        except Exception as error:
            if meet(args, kwargs):
                return found(*args, **kwargs)
            if is_operator and isinstance(error, ForeignOperandError):
                return NotImplemented
            told = kind_error(function, args, kwargs, error)
            if told is not None:
                raise told from error
            raise
    return cast("Callable[P, R]", found)


def cutting(method: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    """The method, looked up as it is, that shows a part of a tensor by an index: what can be cut
    out of memory needs no looking up."""
    @wraps(method)
    def found(self: Any, index: Any) -> Any:
        if not is_on() or takers and has_override(_entries(self, index)):
            return method(self, index)
        view = cut(self, index)
        if view is None:
            view = chosen(self, index)
        return method(self, with_tensors(self, with_places(self, index))) if view is None else view
    return found


def setting(method: Callable[[Any, Any, Any], None]) -> Callable[[Any, Any, Any], None]:
    """The method, looked up as it is, that writes to a part of a tensor by an index. That of a part
    to itself is done, as Python's `x[i] += 1` writes to the part before."""
    @wraps(method)
    def found(self: Any, index: Any, value: Any) -> None:
        if is_on() and not (takers and has_override((value, *_entries(self, index)))):
            if is_itself(value, self, index) or is_put(self, index, value):
                return
            index = with_tensors(self, index)
        method(self, index, value)
    return found


def _entries(x: Any, index: Any) -> tuple[Any, ...]:
    """What may take indexing over."""
    return x, *(index if isinstance(index, tuple) else (index,))


_BY_INDEX: dict[str, Callable[[Any], Any]] = {"__getitem__": cutting, "__setitem__": setting}


def as_one(function: Callable[P, R]) -> Callable[P, R]:
    """A function of tensors, or lists of them, that is looked up as one operation, where each of
    its own would be: it gives tensors, or only writes to them, and looks at no value."""
    @wraps(function)
    def either(*args: P.args, **kwargs: P.kwargs) -> R:
        if takers or not is_on():
            return function(*args, **kwargs)
        try:
            return cast(R, _found(function, args, kwargs))
        except FormError:  # each operation has a form of its own
            return function(*args, **kwargs)
    return either


def _real(function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Run an operation that is not looked up. ComplexError if it is given a complex tensor."""
    if is_complex(args):
        raise ComplexError
    return function(*args, **kwargs)


def _found(function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    frame = here.current()
    if frame is None or frame.recorded >= frame.limit and frame_runs.is_cut(frame):
        frame = frame_for(args, kwargs)
    operands: list[Handle[Any]] = []
    key: list[Any] = [function, frame.device, _grad.enabled, _casts.types, dt.default_float,
                      numbers.node is None]
    if not add_to_key(args, key, operands, frame) \
            or kwargs and not add_by_name(kwargs, key, operands, frame):
        if np.float64 in map(type, (*args, *kwargs.values())):
            return _found(function, tuple(map(_pythons, args)),
                          {name: _pythons(x) for name, x in kwargs.items()})
        if here.current() is frame:
            device = device_of(args, kwargs)
            if device is None or device == frame.device:
                return function(*args, **kwargs)
            begun(device, user_place())
        return _found(function, args, kwargs)  # an operand was computed, which begins a frame
    if len(operands) > 1:
        add_aliases(operands, key)
    elif not operands:
        key.append(default_device())
    name = tuple(key)
    entry = _come_again.get(name) or _known.get(name)
    if entry is None:
        return _new(frame, function, args, kwargs, operands, name)
    if entry is DIRECT or entry.writes and is_read_alone(entry, operands):
        return function(*args, **kwargs)
    value = entry.single
    if value is not None:
        frame.recorded += entry.weight
        return fresh_tensor(frame, value, operands)
    if entry.draws and len(frame.sources) != entry.first:  # sources have other numbers
        entry = _known.get((*name, len(frame.sources)))
        if entry is None:
            return _recorded(frame, function, args, kwargs, operands, name)
    return repeated(frame, entry, operands)


def _pythons(x: Any) -> Any:
    """A number of Python for one of NumPy that is one by its class too, as np.cos gives it."""
    return float(x) if type(x) is np.float64 else x


def _new(frame: Frame, function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any],
         operands: list[Handle[Any]], name: tuple[Any, ...]) -> Any:
    """Do an operation that is not known: as one of a family that is, or by itself."""
    if joining.joins(function):
        joining.note(function, operands, _values_of(name))
    met = None if numbers.node is not None else families.family_of(
        function, args, kwargs, frame, name, SETTINGS)
    if met is None or met.is_exact:
        return _recorded(frame, function, args, kwargs, operands, name)
    family = met.family
    if family.all_vary(len(met.given)) \
            or family.meet(here.turn, here.cut, met.key, tuple(map(exactly, met.given))):
        for known in family.names:
            _known.drop(known)
        family.names.clear()
        result = families.done(met, function, args, kwargs, frame, operands, _values_of(name))
        if result is not families.MISSING:
            return result
    elif len(family.names) < NAMES:
        family.names.append(name)
    return _recorded(frame, function, args, kwargs, operands, name)


def _recorded(frame: Frame, function: Callable[..., Any], args: tuple[Any, ...],
              kwargs: dict[str, Any], operands: list[Handle[Any]], name: tuple[Any, ...]) -> Any:
    """Record an operation, remember what it did, and do it."""
    entry, is_clean = record(frame, function, args, kwargs, operands, _values_of(name))
    if entry is None:
        if is_clean:
            _known.add(name, DIRECT)
        return function(*args, **kwargs)
    if is_read_alone(entry, operands):
        return function(*args, **kwargs)
    if is_clean:
        _known.fresh = max(FRESH, 2 * (frame.recorded + entry.weight), _known.fresh)
        _known.add((*name, entry.first) if entry.draws and _known.get(name) else name, entry,
                   entry.weight)
    else:
        entry = over_sources(entry, frame)
    if entry.single is not None:
        frame.recorded += entry.weight
        return fresh_tensor(frame, entry.single, operands)
    return repeated(frame, entry, operands)


def _values_of(name: tuple[Any, ...]) -> list[Value]:
    """What the operands are in a key."""
    return [part for part in name if part.__class__ is Value]


# ---- which functions -----------------------------------------------------------------------------

_GIVES_TENSORS = ("Tensor", "Self", "tuple[Tensor", "ValuesAndIndices", "list[Tensor", "Any")
_NOT = frozenset({"__copy__", "__deepcopy__", "__pos__", "requires_grad_", "realize",
                  "share_memory_", "pin_memory", "detach"})


def gives_tensors(function: Callable[..., Any]) -> bool:
    """Whether a function says that it gives tensors, or perhaps."""
    given = getattr(function, "__annotations__", {}).get("return")
    return isinstance(given, str) and given.startswith(_GIVES_TENSORS)


def record_methods(owner: type[Any]) -> None:
    """Have all methods of the class of tensors, made of parts, looked up."""
    made: dict[Any, Any] = {}
    for part in owner.__mro__[1:-1]:
        for name, method in list(vars(part).items()):
            is_special = name.startswith("__") and name.endswith("__")
            if name in _NOT or name.startswith("_") and not is_special:
                continue
            if isinstance(method, FunctionType) and (gives_tensors(method)
                                                     or name == "__setitem__"):
                known = (method, is_special)
                looked_up = made.setdefault(known, recorded(method, is_special))
                setattr(part, name, _BY_INDEX[name](looked_up) if name in _BY_INDEX else looked_up)
