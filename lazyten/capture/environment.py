"""The Python state that a function depends on: what its names meant when it was traced.

In: a function and objects it was given. Out: an `Environment` that tells whether any of it differs
now. Looked at are the closure and globals of the function and of the user's functions it can reach
by name, attributes that they name, and all attributes of modules (layers).
"""
from __future__ import annotations

import dis
import sys
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain
from operator import is_, itemgetter
from types import CellType, CodeType, FunctionType, MethodType, ModuleType
from typing import Any

import numpy as np

from lazyten.nn.attributes import TABLES
from lazyten.nn.module import Module
from lazyten.storage.tracing import TellsTraces

_MISSING = object()
_LARGE = 1 << 16
"""Arrays of more bytes are compared by identity."""
_NOT_READ = {*TABLES, "_non_persistent_buffers_set"}
"""Attributes of a layer that are looked into instead, or that no result depends on."""


@dataclass(frozen=True, slots=True, eq=False)
class _Same:
    """Equal for the same object only; keeps it alive, so that no other gets its place."""

    thing: object

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Same) and other.thing is self.thing

    def __hash__(self) -> int:
        return id(self.thing)


def snapshot(value: Any) -> Hashable:
    """Equal as long as `value` means the same to a trace: numbers, strings and containers by
    value, anything else by identity."""
    if value is None or type(value) in (bool, int, str, bytes):
        return type(value), value
    if type(value) is float:
        return float, value.hex()
    if type(value) in (list, tuple):
        return type(value), tuple(map(snapshot, value))
    if isinstance(value, dict):
        return type(value), tuple((snapshot(k), snapshot(v)) for k, v in value.items())
    if type(value) in (set, frozenset):
        return type(value), frozenset(map(snapshot, value))
    if isinstance(value, np.ndarray) and value.nbytes <= _LARGE:
        return np.ndarray, value.shape, value.dtype, value.tobytes()
    return _Same(value)


@dataclass(frozen=True, slots=True)
class _Watched:
    """A name: where it is looked up, what it meant, and the line that uses it."""

    holder: Any  # a dict, or a cell
    name: str
    user: str
    value: object
    seen: Hashable

    @property
    def is_plain(self) -> bool:
        """Whether the same object always means the same."""
        return isinstance(self.seen, _Same) or _is_plain(self.value)

    def now(self) -> Hashable:
        """What the name means now."""
        return snapshot(_look(self.holder, self.name))


def _look(holder: Any, name: str) -> Any:
    if not isinstance(holder, CellType):
        return holder.get(name, _MISSING)
    try:
        return holder.cell_contents
    except ValueError:  # not assigned yet
        return _MISSING


def _is_plain(value: object) -> bool:
    if isinstance(value, tuple):
        return all(map(_is_plain, value))
    return value is None or isinstance(value, bool | int | float | str | bytes)


def _changed_in(watched: Iterable[_Watched]) -> _Watched | None:
    for w in watched:
        if w.now() != w.seen:
            return w
    return None


class _ByIdentity:
    """Names that mean the same as long as they are the same objects, compared all at once."""

    def __init__(self, watched: Iterable[_Watched], whole: Sequence[dict[str, Any]]) -> None:
        """whole: dicts of which every name counts, and none may come or go."""
        self.without = [below for below in whole if not below]  # most tables of most layers
        self.whole = [below for below in whole if below]
        self.names = [*chain.from_iterable(self.whole)]
        self.views = [below.values() for below in self.whole]
        self.values = [*chain.from_iterable(self.views)]
        known = {id(below) for below in whole}
        rest = list({(id(w.holder), w.name): w for w in watched
                     if id(w.holder) not in known}.values())
        cells = [w for w in rest if isinstance(w.holder, CellType)]
        self.cells = [w.holder for w in cells if w.value is not _MISSING]
        self.empty = [w.holder for w in cells if w.value is _MISSING]
        self.held = [w.value for w in cells if w.value is not _MISSING]
        spaces: dict[int, list[_Watched]] = {}
        for w in rest:
            if not isinstance(w.holder, CellType):
                spaces.setdefault(id(w.holder), []).append(w)
        self.spaces: list[tuple[Callable[[Any], tuple[object, ...]], Any]] = []
        for found in spaces.values():
            found = found if len(found) > 1 else found * 2  # of one name there is no tuple
            self.spaces.append((itemgetter(*[w.name for w in found]), found[0].holder))
            self.held += [w.value for w in found]

    def still_holds(self) -> bool:
        """Whether they are."""
        if any(self.without) or [*chain.from_iterable(self.whole)] != self.names:
            return False
        if not all(map(is_, chain.from_iterable(self.views), self.values)):
            return False
        if not self.held and not self.empty:
            return True
        try:
            found = [cell.cell_contents for cell in self.cells]
            for look, space in self.spaces:
                found += look(space)
        except (KeyError, ValueError):  # gone
            return False
        return all(map(is_, found, self.held)) and not (
            self.empty and any(_look(cell, "") is not _MISSING for cell in self.empty))


class Environment:
    """What was found for one function; `changed` compares it with now."""

    def __init__(self, function: Callable[..., Any], given: Iterable[object]) -> None:
        self.watched: list[_Watched] = []
        self.sizes: list[tuple[dict[str, Any], int]] = []
        self.tables: list[tuple[dict[str, Any], str, object]] = []
        self._seen: set[int] = set()
        self._kept: list[object] = []  # so that no id in `_seen` is used again meanwhile
        code = getattr(function, "__code__", None)
        names = frozenset() if code is None else _names(_codes(code))
        for value in (function, *given):
            self._visit(value, "the call", names)
        self._seen.clear()
        self._kept.clear()  # a call's arguments are not to live as long as its program
        plain = [w for w in self.watched if w.is_plain]
        self._by_identity = _ByIdentity(plain, [below for below, _ in self.sizes])
        self._deep = [w for w in self.watched if not w.is_plain]

    @property
    def has_changed(self) -> bool:
        """Whether some name means something else now."""
        if self._by_identity.still_holds():
            return bool(self._deep) and _changed_in(self._deep) is not None
        return self.changed() is not None

    def changed(self) -> _Watched | None:
        """The first name that means something else now."""
        for below, size in self.sizes:
            if len(below) != size:
                return _Watched(below, "__dict__", "a module", None, None)
        for own, name, table in self.tables:
            if own.get(name) is not table:
                return _Watched(own, name, "a module", None, None)
        return _changed_in(self.watched)

    def _watch(self, holder: Any, name: str, user: str, names: frozenset[str]) -> None:
        value = _look(holder, name)
        self.watched.append(_Watched(holder, name, user, value, snapshot(value)))
        self._visit(value, user, names)

    def _visit(self, value: Any, user: str, names: frozenset[str]) -> None:
        """Watch what can be reached from a value; names: attributes its user mentions."""
        if isinstance(value, MethodType):
            self._visit(value.__func__, user, names)
            code = getattr(value.__func__, "__code__", None)
            names = names if code is None else _names(_codes(code))
            value = value.__self__
        if isinstance(value, list | tuple | dict):
            for item in value.values() if isinstance(value, dict) else value:
                self._visit(item, user, names)
            return
        if id(value) in self._seen or value is None or isinstance(
                value, bool | int | float | str | TellsTraces):
            return
        self._seen.add(id(value))
        self._kept.append(value)
        if isinstance(value, FunctionType):
            if _is_users(value.__module__):
                self._visit_function(value)
        elif isinstance(value, Module):
            self._visit_module(value, user)
        elif isinstance(value, partial):
            self._visit([value.func, value.args, value.keywords], user, names)
        elif callable(getattr(value, "__wrapped__", None)):
            self._visit(value.__wrapped__, user, names)
        elif isinstance(value, ModuleType):
            if _is_users(value.__name__):
                self._visit_attributes(vars(value), user, names)
        elif not isinstance(value, type) and _is_users(type(value).__module__):
            names = self._visit_methods(type(value), user, names)
            self._visit_attributes(getattr(value, "__dict__", {}), user, names)

    def _visit_methods(self, kind: type, user: str, names: frozenset[str]) -> frozenset[str]:
        """Look into the methods of these names, those that they name in turn, and the special ones
        (operators may call them); gives all names that they mention."""
        spaces = [vars(c) for c in reversed(kind.__mro__) if _is_users(c.__module__)]
        methods = {n: function for space in spaces for n, m in space.items()
                   if n != "__init__" and (function := _function_of(m)) is not None}
        while called := [n for n in methods if n in names or n.startswith("__")]:
            for name in called:
                method = methods.pop(name)
                self._visit(method, user, names)
                names |= _names(_codes(method.__code__))
        for space in spaces:
            self._visit_attributes(space, user, names)
        return names

    def _visit_function(self, function: FunctionType) -> None:
        where = f"{function.__qualname__}"
        codes = _codes(function.__code__)
        names = _names(codes)
        lines = _lines(codes)
        cells = zip(function.__code__.co_freevars, function.__closure__ or (), strict=True)
        for name, cell in cells:
            self._watch(cell, name, f"{where}, line {lines.get(name)}", names)
        for name in sorted(names):
            if name in function.__globals__:
                self._watch(function.__globals__, name, f"{where}, line {lines.get(name)}", names)
        for default in (function.__defaults__ or ()):
            self._visit(default, where, names)

    def _visit_module(self, module: Module, user: str) -> None:
        """All attributes of a layer: plain ones, and what its tables hold."""
        names = self._visit_methods(type(module), user, frozenset({"forward"}))
        own = vars(module)
        held = [(own, table, own[table]) for table in TABLES if table in own]
        self.tables += held
        for below in (own, *(table for _, _, table in held)):
            for name in below:
                if name not in _NOT_READ:
                    self._watch(below, name, user, names)
            self.sizes.append((below, len(below)))  # what is new has no name yet

    def _visit_attributes(self, holder: Mapping[str, Any], user: str,
                          names: frozenset[str]) -> None:
        for name in sorted(names):
            if name in holder:
                self._watch(holder, name, user, names)


def _function_of(method: Any) -> FunctionType | None:
    """The function of a method, a property, or what wraps one; None for anything else."""
    for attribute in ("fget", "__func__", "__wrapped__"):
        method = getattr(method, attribute, method)
    return method if isinstance(method, FunctionType) else None


def _codes(code: CodeType) -> list[CodeType]:
    """A function's code and that of the functions written inside it."""
    found = [code]
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            found += _codes(constant)
    return found


def _names(codes: Iterable[CodeType]) -> frozenset[str]:
    """The globals and attributes that some code mentions."""
    return frozenset(n for code in codes for n in code.co_names)


def _lines(codes: Iterable[CodeType]) -> dict[str, int]:
    """The last line that mentions each name: the one that changes it, more often than not."""
    lines: dict[str, int] = {}
    for code in codes:
        for instruction in dis.get_instructions(code):
            if isinstance(instruction.argval, str) and instruction.positions is not None \
                    and instruction.positions.lineno is not None:
                lines[instruction.argval] = instruction.positions.lineno
    return lines


def _is_users(module: str | None) -> bool:
    """Whether code of this module is looked into: not ours, not Python's, not NumPy's."""
    root = (module or "").partition(".")[0]
    return root not in ("lazyten", "numpy") and root not in sys.stdlib_module_names
