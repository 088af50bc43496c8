"""Stand-ins for values, which note what is done with them."""
from __future__ import annotations

import dis
import operator
import sys
from collections.abc import Callable, Iterator
from typing import Any

from lazyten.frontend.core.overriding import takers
from lazyten.frontend.tensor import Tensor
from lazyten.fx.graph import Graph
from lazyten.fx.node import Argument, Node, Target
from lazyten.ir.dtype import DType
from lazyten.support.errors import ArgumentError, DTypeError
from lazyten.support.trees import of_kind

BINARY = ("add", "sub", "mul", "floordiv", "truediv", "mod", "pow", "lshift", "rshift", "and_",
          "or_", "xor", "matmul")
"""Operators of two values, which either of them may be asked for. (`x += y` is x + y, as in
PyTorch's graphs.)"""
UNARY = ("pos", "neg", "invert", "abs")
COMPARISONS = ("eq", "ne", "lt", "gt", "le", "ge")
_SIMPLE = (str, int, float, bool, complex, bytes, type(None), type(...), DType, range)


class TraceError(ArgumentError):
    """What a function does with its inputs cannot be noted without knowing them."""


class TracerBase:
    """What makes the nodes of a graph for stand-ins."""

    graph: Graph

    def create_node(self, kind: str, target: Target, args: tuple[Any, ...], kwargs: dict[str, Any],
                    name: str | None = None, type_expr: Any = None) -> Node:
        """A new node of the graph."""
        return self.graph.create_node(kind, target, args, kwargs, name, type_expr)

    def proxy(self, node: Node) -> Proxy:
        """The stand-in for what a node gives."""
        return Proxy(node, self)

    def create_proxy(self, kind: str, target: Target, args: tuple[Any, ...],
                     kwargs: dict[str, Any], name: str | None = None, type_expr: Any = None,
                     proxy_factory_fn: Callable[[Node], Proxy] | None = None) -> Proxy:
        """The stand-in for what a new node gives, whose arguments may be stand-ins."""
        node = self.create_node(kind, target, self.create_arg(args), self.create_arg(kwargs), name,
                                type_expr)
        return (proxy_factory_fn or self.proxy)(node)

    def create_arg(self, a: Any) -> Argument:
        """A value as an argument of a node: nodes in place of stand-ins. DTypeError for what graphs
        cannot have."""
        if isinstance(a, Proxy):
            return a.node
        if isinstance(a, tuple | list):
            return of_kind(type(a), [self.create_arg(x) for x in a])
        if isinstance(a, dict):
            if any(isinstance(key, Proxy) for key in a):
                raise TraceError("fx: a dict has a key that is not known as the program is traced; "
                                 "only its values may be")
            return {key: self.create_arg(x) for key, x in a.items()}
        if isinstance(a, slice):
            return slice(*(self.create_arg(x) for x in (a.start, a.stop, a.step)))
        if isinstance(a, _SIMPLE) or callable(a) or isinstance(a, Node):
            return a
        raise DTypeError(f"fx: an argument is {type(a).__name__} {a!r:.60}; graphs have tensors, "
                         f"numbers, texts, functions, and lists of them")

    # ---- what is not known -----------------------------------------------------------------------

    def to_bool(self, obj: Proxy) -> bool:
        """Whether a stand-in is true: TraceError."""
        raise TraceError(f"fx: {obj.node} is a condition, and what it is is not known as the "
                         f"program is traced; decide by shapes or arguments that are given as "
                         f"concrete_args, or make the function a leaf by lazyten.fx.wrap")

    def iter(self, obj: Proxy) -> Iterator[Any]:
        """The parts of a stand-in: as many as are unpacked, else TraceError."""
        raise TraceError(f"fx: {obj.node} is gone through, and how long it is is not known as the "
                         f"program is traced; take its parts by their numbers")

    def keys(self, obj: Proxy) -> Any:
        """The keys of a stand-in, for `**` of it."""
        return Attribute(obj, "keys")()


class GraphAppendingTracer(TracerBase):
    """What stand-ins that are made of nodes add their own to: a graph that is there."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph


class Proxy:
    """The stand-in for what a node gives: what is done with it becomes nodes."""

    def __init__(self, node: Node, tracer: TracerBase | None = None) -> None:
        takers.add(Proxy)  # operations ask it, from the first one on
        self.node = node
        self.tracer = GraphAppendingTracer(node.graph) if tracer is None else tracer

    def __repr__(self) -> str:
        return f"Proxy({self.node.name})"

    def __getattr__(self, k: str) -> Any:
        if k.startswith("__") and k.endswith("__") or k == "node":  # Python asks for these itself
            raise AttributeError(f"a stand-in of fx has no {k}")
        return Attribute(self, k)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.tracer.create_proxy("call_method", "__call__", (self, *args), kwargs)

    def __iter__(self) -> Iterator[Any]:
        count = _unpacked(sys._getframe(1))
        return self.tracer.iter(self) if count is None else (self[i] for i in range(count))

    def __bool__(self) -> bool:
        return self.tracer.to_bool(self)

    def __len__(self) -> int:
        raise TraceError(f"fx: the length of {self.node} is not known as the program is traced; "
                         f"lazyten.fx.wrap('len') makes it a node, for calls of len in a module")

    def __abs__(self) -> Any:
        return self.tracer.create_proxy("call_function", operator.abs, (self,), {})

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        raise TraceError(f"fx: {self.node} cannot be copied as the program is traced; use clone()")

    def keys(self) -> Any:
        """The keys that it would have."""
        return self.tracer.keys(self)

    def __getitem__(self, key: Any) -> Any:
        return self.tracer.create_proxy("call_function", operator.getitem, (self, key), {})

    @classmethod
    def __torch_function__(cls, orig_method: Any, types: Any, args: Any = None,
                           kwargs: Any = None) -> Any:
        """An operation on a stand-in: a node."""
        args, kwargs = args or (), kwargs or {}
        tracer = next(iter(proxies_in([args, kwargs]))).tracer
        if _is_method(orig_method):
            return tracer.create_proxy("call_method", orig_method.__name__, args, kwargs)
        return tracer.create_proxy("call_function", orig_method, args, kwargs)


class Attribute(Proxy):
    """The stand-in for an attribute of another one; a method, if it is called."""

    def __init__(self, root: Proxy, attr: str) -> None:
        self.root, self.attr, self.tracer = root, attr, root.tracer
        self._node: Node | None = None

    @property
    def node(self) -> Node:  # type: ignore[override]
        """A call of getattr: only made once something reads it."""
        if self._node is None:
            self._node = self.tracer.create_proxy("call_function", getattr,
                                                  (self.root, self.attr), {}).node
        return self._node

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.tracer.create_proxy("call_method", self.attr, (self.root, *args), kwargs)


def proxies_in(a: Any) -> Iterator[Proxy]:
    """The stand-ins among values, in nested lists and dicts of them."""
    if isinstance(a, Proxy):
        yield a
    elif isinstance(a, tuple | list):
        for x in a:
            yield from proxies_in(x)
    elif isinstance(a, dict):
        yield from proxies_in(list(a.values()))
    elif isinstance(a, slice):
        yield from proxies_in([a.start, a.stop, a.step])


def _is_method(function: Any) -> bool:
    """Whether an operation is known as a method of tensors, and as no function."""
    name = getattr(function, "__name__", "")
    return function is getattr(Tensor, name, None) and function.__module__ != "lazyten"


def _unpacked(frame: Any) -> int | None:
    """How many values the line under way takes apart, as `a, b = x` does; None if it does not."""
    at = frame.f_lasti
    found = next((i for i in dis.get_instructions(frame.f_code) if i.offset == at), None)
    return None if found is None or found.opname != "UNPACK_SEQUENCE" else found.arg


def _operator(name: str) -> None:
    target = getattr(operator, name)

    def called(self: Proxy, *others: Any) -> Any:
        return self.tracer.create_proxy("call_function", target, (self, *others), {})
    setattr(Proxy, f"__{name.strip('_')}__", called)


def _reflected(name: str) -> None:
    target = getattr(operator, name)

    def called(self: Proxy, other: Any) -> Any:
        return self.tracer.create_proxy("call_function", target, (other, self), {})
    setattr(Proxy, f"__r{name.strip('_')}__", called)


for _name in (*BINARY, *UNARY, *COMPARISONS):
    _operator(_name)
for _name in BINARY:
    _reflected(_name)
