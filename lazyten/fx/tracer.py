"""A module or a function as a graph: what happens as it is called with stand-ins."""
from __future__ import annotations

import builtins
import inspect
import math
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from threading import get_ident
from types import FunctionType, ModuleType
from typing import Any, TypeVar

from lazyten.frontend.core.overriding import takers
from lazyten.frontend.tensor import Tensor
from lazyten.fx.graph import Graph
from lazyten.fx.graph_module import GraphModule
from lazyten.fx.node import Argument, has_side_effect
from lazyten.fx.proxy import Proxy, TracerBase, proxies_in
from lazyten.nn.containers import Sequential
from lazyten.nn.module import Module
from lazyten.nn.parameter import Parameter
from lazyten.support import forking
from lazyten.support.errors import ArgumentError

F = TypeVar("F", bound=Callable[..., Any])
_wrapped: list[tuple[dict[str, Any], str]] = []
_depth = 0
_one_at_a_time = forking.lock()
"""Held while a program is traced, as that changes what calls of modules do, and puts it back."""
_ABSENT = object()


def is_fx_tracing() -> bool:
    """Whether a program is traced now."""
    return _depth > 0


def wrap(fn_or_name: F | str) -> F | str:
    """Have a function of the calling module, given itself or by its name, be one node wherever it
    is called with stand-ins, instead of being gone through. Give it at the module's top level; it
    may be used as a decorator."""
    name = fn_or_name if isinstance(fn_or_name, str) else getattr(fn_or_name, "__name__", None)
    if not isinstance(name, str):
        raise ArgumentError(f"fx.wrap: {fn_or_name!r:.60} is no function, and no name of one")
    frame = sys._getframe(1)
    if frame.f_code.co_name != "<module>" and isinstance(fn_or_name, str):
        raise ArgumentError("fx.wrap: call it at the top level of a module")
    _wrapped.append((frame.f_globals, name))
    return fn_or_name


def _as_node(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function, which becomes a node when it is called with stand-ins."""
    @wraps(function)
    def noted(*args: Any, **kwargs: Any) -> Any:
        found = next(iter(proxies_in([args, kwargs])), None)
        if found is None:
            return function(*args, **kwargs)
        return found.tracer.create_proxy("call_function", function, args, kwargs)
    return noted


@has_side_effect
def as_traced(given: Any, known: Any, name: str) -> None:
    """Nothing, if a graph is given an argument as it was traced with; ArgumentError else."""
    if given is not known and (isinstance(given, Tensor) or given != known):
        raise ArgumentError(f"fx: {name}={given!r:.60} was {known!r:.60} in concrete_args as the "
                            f"program was traced; trace it once more for another")


@contextmanager
def _replaced(changes: list[tuple[Any, str, Any]]) -> Iterator[None]:
    """Within this block dicts, and classes, have these values under these names."""
    before = []
    try:
        for owner, name, value in changes:
            own = owner if isinstance(owner, dict) else vars(owner)
            before.append((owner, name, own.get(name, _ABSENT)))
            _put(owner, name, value)
        yield
    finally:
        for owner, name, value in reversed(before):
            _put(owner, name, value)


def _taking_each(function: Any, count: int) -> Any:
    """The function, which takes what `*args` and `**kwargs` stand for as one argument each: nobody
    knows how many there will be. Those that are given by name come after the others."""
    code, stars = getattr(function, "__code__", None), (inspect.CO_VARARGS, inspect.CO_VARKEYWORDS)
    if not isinstance(function, FunctionType) or code is None or hasattr(function, "__wrapped__"):
        raise ArgumentError(f"fx: what is traced takes *args or **kwargs, and is a "
                            f"{type(function).__name__} that wraps another function; trace a "
                            f"function that takes them itself, or whose arguments have names")
    code = code.replace(co_flags=code.co_flags & ~sum(stars), co_argcount=count,
                        co_posonlyargcount=0, co_kwonlyargcount=0)
    return FunctionType(code, function.__globals__, function.__name__, None, function.__closure__)


def _put(owner: Any, name: str, value: Any) -> None:
    if isinstance(owner, dict):
        if value is _ABSENT:
            owner.pop(name, None)
        else:
            owner[name] = value
    elif value is _ABSENT:
        delattr(owner, name)
    else:
        setattr(owner, name, value)


class Tracer(TracerBase):
    """What goes through a program. A class of it decides which modules are leaves, and what becomes
    of calls and parameters.

    autowrap_modules: Python's modules whose functions become nodes; autowrap_functions: functions
    that do, wherever the traced function's module has them. param_shapes_constant is taken, and
    changes nothing: shapes of parameters are numbers once their module is there.
    """

    proxy_buffer_attributes = False
    """Whether buffers become nodes where they are read, as parameters do."""
    traced_func_name = "forward"
    """The method of modules that is gone through."""

    def __init__(self, autowrap_modules: tuple[ModuleType, ...] = (math,),
                 autowrap_functions: tuple[Callable[..., Any], ...] = (),
                 param_shapes_constant: bool = False) -> None:
        self._modules = autowrap_modules
        self._functions = set(autowrap_functions)
        self.param_shapes_constant = param_shapes_constant
        self.root: Module
        self.tensor_attrs: dict[int, str] = {}

    # ---- what a class may decide -----------------------------------------------------------------

    def is_leaf_module(self, m: Module, module_qualified_name: str) -> bool:
        """Whether a module is one node: those of `lazyten.nn` but Sequential."""
        return type(m).__module__.startswith("lazyten.nn") and not isinstance(m, Sequential)

    def path_of_module(self, mod: Module) -> str:
        """The name of a module inside the root, with dots. NameError if it is not there."""
        for name, found in self.root.named_modules():
            if found is mod:
                return name
        raise NameError(f"fx: a {type(mod).__name__} is called that is no submodule of the "
                        f"{type(self.root).__name__}; assign it as an attribute of a module")

    def call_module(self, m: Module, forward: Callable[..., Any], args: tuple[Any, ...],
                    kwargs: dict[str, Any]) -> Any:
        """What calling a module gives: a node if it is a leaf, else what is inside."""
        path = self.path_of_module(m)
        if self.is_leaf_module(m, path):
            return self.create_proxy("call_module", path, args, kwargs)
        return forward(*args, **kwargs)

    def getattr(self, attr: str, attr_val: Any, parameter_proxy_cache: dict[str, Any]) -> Any:
        """What reading an attribute of a module gives: a node if it is a parameter."""
        if isinstance(attr_val, Parameter) or self.proxy_buffer_attributes and isinstance(
                attr_val, Tensor):
            path = self._path_of(attr_val)
            if path is not None:
                if path not in parameter_proxy_cache:
                    parameter_proxy_cache[path] = self.create_proxy("get_attr", path, (), {})
                return parameter_proxy_cache[path]
        return attr_val

    def create_arg(self, a: Any) -> Argument:
        """A value as an argument of a node: tensors become attributes of the root, by name."""
        if isinstance(a, Tensor):
            return self.create_node("get_attr", self._path_of(a) or self._kept(a), (), {})
        if isinstance(a, Module) and not isinstance(a, GraphModule):
            return self.create_node("get_attr", self.path_of_module(a), (), {})
        return super().create_arg(a)

    def _path_of(self, tensor: Tensor) -> str | None:
        for found in (self.root.named_parameters, self.root.named_buffers):
            for name, value in found():
                if value is tensor:
                    return name
        return self.tensor_attrs.get(id(tensor))

    def _kept(self, tensor: Tensor) -> str:
        """A name of the root for a tensor that has none."""
        number = 0
        while hasattr(self.root, f"_tensor_constant{number}"):
            number += 1
        name = f"_tensor_constant{number}"
        setattr(self.root, name, tensor)
        self.tensor_attrs[id(tensor)] = name
        return name

    # ---- tracing ---------------------------------------------------------------------------------

    def trace(self, root: Module | Callable[..., Any],
              concrete_args: dict[str, Any] | None = None) -> Graph:
        """The graph of a module or a function. concrete_args: arguments that are known, by name:
        what depends on them is decided, and they stay inputs that are not read."""
        with _one_at_a_time:
            return self._traced(root, concrete_args or {})

    def _traced(self, root: Module | Callable[..., Any], known: dict[str, Any]) -> Graph:
        global _depth
        is_module = isinstance(root, Module)
        self.root = root if is_module else Module()  # type: ignore[assignment]
        function = getattr(type(root), self.traced_func_name) if is_module else root
        self.graph = Graph(tracer_cls=type(self))
        self.tensor_attrs = {id(x): name for name, x in vars(self.root).items()
                             if isinstance(x, Tensor)}
        globals_of = getattr(inspect.unwrap(function), "__globals__", {})
        _depth += 1
        try:
            with _replaced([*self._of_modules(), *self._of_functions(globals_of)]):
                result = self._result(function, is_module, known)
            self.create_node("output", "output", (self.create_arg(result),), {})
        finally:
            _depth -= 1
            if not _depth:
                takers.discard(Proxy)
        return self.graph

    def _result(self, function: Any, is_module: bool, known: dict[str, Any]) -> Any:
        """What the function gives for stand-ins."""
        found = list(inspect.signature(function).parameters.values())[1 if is_module else 0:]
        unknown = known.keys() - {p.name for p in found}
        if unknown:
            raise ArgumentError(f"fx: concrete_args has {', '.join(sorted(unknown))}, which the "
                                f"function does not take")
        args: list[Any] = [self.root] if is_module else []
        kwargs: dict[str, Any] = {}
        several: list[Any] = []
        for p in found:
            stars = "*" if p.kind is p.VAR_POSITIONAL else "**" if p.kind is p.VAR_KEYWORD else ""
            default = () if p.default is p.empty else (p.default,)
            if p.name in known:
                default = (known[p.name],)
            if isinstance(next(iter(default), None), Tensor):
                raise ArgumentError(f"fx: {p.name} is a tensor unless it is given, and a graph's "
                                    f"inputs have numbers and texts for that; have the function "
                                    f"take None, and use the tensor then")
            given = self.create_proxy("placeholder", stars + p.name, default, {},
                                      type_expr=None if p.annotation is p.empty else p.annotation)
            value = known.get(p.name, given)
            if value is not given:
                self.create_proxy("call_function", as_traced, (given, value, p.name), {})
            if p.kind is p.KEYWORD_ONLY:
                kwargs[p.name] = value
            else:
                (several if stars else args).append(value)
        if not several:
            return function(*args, **kwargs)
        own = [function.__self__] if inspect.ismethod(function) else []
        each = [*own, *args, *kwargs.values(), *several]
        return _taking_each(getattr(function, "__func__", function), len(each))(*each)

    def _of_modules(self) -> list[tuple[Any, str, Any]]:
        """Calls and attributes of modules, while a program is traced."""
        called, looked_up, thread = Module.__call__, Module.__getattr__, get_ident()
        cache: dict[str, Any] = {}

        def call(module: Module, *args: Any, **kwargs: Any) -> Any:
            if get_ident() != thread:
                return called(module, *args, **kwargs)

            def forward(*args: Any, **kwargs: Any) -> Any:
                return called(module, *args, **kwargs)
            return self.call_module(module, forward, args, kwargs)

        def attribute(module: Module, name: str) -> Any:
            found = looked_up(module, name)
            return self.getattr(name, found, cache) if get_ident() == thread else found
        return [(Module, "__call__", call), (Module, "__getattr__", attribute)]

    def _of_functions(self, globals_of: dict[str, Any]) -> list[tuple[Any, str, Any]]:
        """Functions that are nodes, while a program is traced."""
        changes: list[tuple[Any, str, Any]] = []
        known = {f for m in self._modules for f in vars(m).values() if callable(f)}
        for module in self._modules:
            changes += [(vars(module), name, _as_node(f)) for name, f in vars(module).items()
                        if callable(f) and not name.startswith("_")]
        for name, value in globals_of.items():
            if isinstance(value, FunctionType | type(math.sqrt)) \
                    and (value in known or value in self._functions):
                changes.append((globals_of, name, _as_node(value)))
        for table, name in _wrapped:
            value = table.get(name, getattr(builtins, name, None))
            if callable(value):
                changes.append((table, name, _as_node(value)))
        return changes


def symbolic_trace(root: Module | Callable[..., Any],
                   concrete_args: dict[str, Any] | None = None) -> GraphModule:
    """The graph of a module or a function, as a module that does the same. TraceError where what
    it does depends on values. concrete_args: arguments that are known, by name."""
    tracer = Tracer()
    graph = tracer.trace(root, concrete_args)
    name = type(root).__name__ if isinstance(root, Module) else getattr(
        root, "__name__", "GraphModule")
    return GraphModule(tracer.root, graph, name)
