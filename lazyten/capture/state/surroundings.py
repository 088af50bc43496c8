"""What a function can reach by name: its variables, those of the user's functions that it calls,
and attributes of what it gets.

In: a function and the arguments of a call. Out: names, each with its place and what it means.
"""
from __future__ import annotations

import dis
import sys
from collections import deque
from collections.abc import Iterable, Mapping, Set
from functools import cache, partial
from itertools import chain
from types import CodeType, FunctionType, MethodType, ModuleType
from typing import Any, NamedTuple

from lazyten.capture.state.opaque import SHOWN, Slots, is_opaque, slots_of
from lazyten.capture.state.places import Place
from lazyten.frontend.tensor import Tensor
from lazyten.nn.attributes import TABLES
from lazyten.nn.module import Module
from lazyten.storage.tracing import TellsTraces

HIDING = {"globals", "eval", "exec", "id"}
"""Built-in functions that give what no name leads to, or what a trace has another for."""
READ_LATE = {"param_groups", "last_epoch", "_last_lr", "_step_count"}
"""Attributes of optimizers and schedulers, which change after a trace has looked at them."""
CONTAINERS = (list, tuple, dict, set, frozenset, deque)
NOT_READ = {*TABLES, "_non_persistent_buffers_set"}
"""Attributes of a layer that are looked into instead, or that no result depends on."""


class _Scope(NamedTuple):
    """What has attributes, or methods by name, and the names by which they are asked for."""

    holder: Mapping[str, Any] | Slots
    user: str
    names: set[str]
    done: set[str]


class Surroundings:
    """What a function and objects can reach. found: names, with who uses them and what they mean.
    sizes: dicts of which every name counts. tables: dicts that layers have, by name.

    Of objects of the user's classes those attributes count that any function of the user's
    mentions that was found, wherever it gets the object from; of those of installed packages, and
    of Python modules, those that the function mentions which finds them; of layers all.
    """

    def __init__(self, values: Iterable[object]) -> None:
        self.found: list[tuple[Place, str, object]] = []
        self.sizes: list[tuple[dict[str, Any], int]] = []
        self.tables: list[tuple[dict[str, Any], str, object]] = []
        self.mentioned: set[str] = {"forward"}
        self.stored: set[str] = set()  # names that are assigned to
        self.opaque: list[str] = []  # what cannot be compared between calls, in words
        self.told: list[tuple[TellsTraces, str]] = []
        self.keys: list[Tensor] = []  # that dicts and sets have
        self.compares = self.takes_any = self.looks_at_types = False
        self.scopes: list[_Scope] = []
        self.methods: list[_Scope] = []
        self.functions: set[FunctionType] = set()
        self.seen: set[int] = set()
        self.kept: list[object] = []  # so that no id in `seen` is used again meanwhile
        for value in values:
            self.visit(value, "the call")
        self.look_further()
        for told, user in self.told:
            for name in sorted(READ_LATE & self.mentioned & vars(told).keys()):
                self.opaque.append(f"{name!r} of {type(told).__name__} (in {user})")

    def look_further(self) -> None:
        """Look at the attributes and methods that are mentioned, until no more are."""
        more = True
        while more:
            more = False
            for scope in list(self.methods):
                for name in [n for n in scope.holder if n not in scope.done and (
                        n in scope.names or n.startswith("__"))]:  # which operators may call
                    scope.done.add(name)
                    scope.names.update(self._visit_function(scope.holder[name]))
                    more = True
            for scope in list(self.scopes):
                names = scope.names
                if self.takes_any and names is self.mentioned and isinstance(
                        scope.holder, dict | Slots):
                    names = names.union(scope.holder)
                for name in sorted(n for n in names - scope.done if self._is_in(n, scope)):
                    scope.done.add(name)
                    self._watch(scope.holder, name, scope.user, scope.names)
                    more = True

    def _is_in(self, name: str, scope: _Scope) -> bool:
        """Whether the name is there, or may be made."""
        return name in scope.holder or name in self.stored and isinstance(scope.holder, dict)

    def _watch(self, holder: Any, name: str, user: str, names: Set[str]) -> None:
        place = Place(holder, name)
        value = place.look()
        self.found.append((place, user, value))
        self.visit(value, user, names)

    def visit(self, value: Any, user: str, names: Set[str] = frozenset()) -> None:
        """Note what can be reached from a value; names: what its user mentions."""
        if id(value) in self.seen or value is None or isinstance(value, bool | int | float | str):
            return
        self.seen.add(id(value))
        self.kept.append(value)
        if isinstance(value, TellsTraces):
            self.told.append((value, user))
        elif isinstance(value, CONTAINERS):
            self._visit_container(value, user, names)
        elif is_opaque(value):
            self.opaque.append(f"an object of {type(value).__name__} (in {user})")
        elif isinstance(value, MethodType):
            names = self._visit_function(value.__func__)
            self.visit(value.__self__, user, names)
        elif isinstance(value, FunctionType):
            self._visit_function(value)
        elif isinstance(value, Module):
            self._visit_layer(value, user)
        elif isinstance(value, partial):
            self.visit([value.func, value.args, value.keywords], user, names)
        elif not isinstance(value, type) and callable(getattr(value, "__wrapped__", None)):
            self.visit(value.__wrapped__, user, names)
        elif isinstance(value, ModuleType):
            if is_users(value.__name__):
                own = self.mentioned if _is_own(value.__name__) else set(names)
                self.scopes.append(_Scope(vars(value), user, own, set()))
        else:
            self._visit_object(value, user, names)

    def _visit_container(self, value: Any, user: str, names: Set[str]) -> None:
        """What is in it, and what a class of the user's adds to it. Nothing of Python's table of
        modules: those that functions mention are looked at where they do."""
        if value is sys.modules:
            return
        if isinstance(value, dict | set | frozenset):
            for key in [*value]:
                if isinstance(key, Tensor):
                    self.keys.append(key)
                self.visit(key, user, names)
        if not isinstance(value, set | frozenset):
            for item in [*(value.values() if isinstance(value, dict) else value)]:
                self.visit(item, user, names)
        if type(value).__module__ not in ("builtins", "collections"):
            self._visit_object(value, user, names)

    def _visit_object(self, value: Any, user: str, names: Set[str]) -> None:
        """An object that is no function, or a class."""
        kind = value if isinstance(value, type) else type(value)
        own = self.mentioned if _is_own(kind.__module__) or isinstance(value, SHOWN) else set(names)
        for base in kind.__mro__:
            if is_users(base.__module__) and (kind is base or id(base) not in self.seen):
                self.seen.add(id(base))
                methods = {n: f for n, m in vars(base).items() if n != "__init__"
                           and (f := _function_of(m)) is not None}
                self.methods.append(_Scope(methods, user, own, set()))
                self.scopes.append(_Scope(vars(base), user, own, set()))
        if kind is not value and (is_users(kind.__module__) or isinstance(value, SHOWN)):
            self.scopes.append(_Scope(getattr(value, "__dict__", {}), user, own, set()))
            if slots_of(kind):
                self.scopes.append(_Scope(Slots(value), user, own, set()))

    def _visit_function(self, function: Any) -> Set[str]:
        """Look at its variables; gives the names that it mentions."""
        if not isinstance(function, FunctionType) or not is_users(function.__module__):
            return frozenset()
        codes = _codes(function.__code__)
        names = frozenset(n for code in codes for n in code.co_names)
        if function in self.functions:
            return names
        self.functions.add(function)
        if _is_own(function.__module__):
            self.mentioned |= names
        where = function.__qualname__
        lines: dict[str, int] = {}
        global_names: set[str] = set()
        for instruction in chain.from_iterable(map(dis.get_instructions, codes)):
            name, positions = instruction.argval, instruction.positions
            if isinstance(name, str):
                if instruction.opname in ("STORE_ATTR", "STORE_GLOBAL"):
                    self.stored.add(name)
                if instruction.opname in ("LOAD_GLOBAL", "STORE_GLOBAL", "LOAD_NAME"):
                    global_names.add(name)
                if instruction.opname == "IMPORT_NAME" and name in sys.modules:
                    self.visit(sys.modules[name], where, names)
                if positions is not None and positions.lineno is not None:
                    lines[name] = positions.lineno  # the last: the one that changes it, mostly
            elif instruction.opname in ("IS_OP", "CONTAINS_OP"):
                self.compares = True
        builtins = global_names - function.__globals__.keys()
        self.looks_at_types |= "type" in builtins
        if _is_own(function.__module__):
            self._notice_builtins(builtins, names, where)
        for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (),
                              strict=True):
            self._watch(cell, name, f"{where}, line {lines.get(name)}", names)
        for name in sorted(global_names):
            if name in function.__globals__ or name in self.stored:
                self._watch(function.__globals__, name, f"{where}, line {lines.get(name)}", names)
        for part in ("__code__", "__defaults__", "__kwdefaults__"):
            self._watch(function, part, where, names)
        return names

    def _notice_builtins(self, builtins: Set[str], names: Set[str], where: str) -> None:
        """What is found by other names than those that a function mentions."""
        if not builtins.isdisjoint(("getattr", "vars")) or "__dict__" in names:
            self.takes_any = True
        for name in sorted(builtins & HIDING):
            self.opaque.append(f"{name}() (in {where})")

    def _visit_layer(self, layer: Module, user: str) -> None:
        """All attributes of a layer: plain ones, and what its tables hold."""
        self._visit_object(type(layer), user, {"forward"})
        own = vars(layer)
        held = [(own, table, own[table]) for table in TABLES if table in own]
        self.tables += held
        for below in (own, *(table for _, _, table in held)):
            for name in below:
                if name not in NOT_READ:
                    self._watch(below, name, user, self.mentioned)
            self.sizes.append((below, len(below)))  # what is new has no name yet


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


@cache
def _is_own(module: str | None) -> bool:
    """Whether code of this module is the user's, and not of an installed package."""
    file = getattr(sys.modules.get(module or ""), "__file__", None) or ""
    return is_users(module) and "site-packages" not in file and "dist-packages" not in file


def is_users(module: str | None) -> bool:
    """Whether code of this module is looked into: not ours (by PyTorch's name, either), not
    Python's, not NumPy's."""
    root = (module or "").partition(".")[0]
    return root not in ("lazyten", "torch", "numpy") and root not in sys.stdlib_module_names
