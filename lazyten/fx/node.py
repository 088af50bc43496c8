"""Nodes: calls and their arguments."""
from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from lazyten.frontend.settings import typename
from lazyten.support.errors import ArgumentError
from lazyten.support.trees import of_kind

F = TypeVar("F", bound=Callable[..., Any])
Target = Callable[..., Any] | str
Argument = Any
OPS = ("placeholder", "get_attr", "call_function", "call_method", "call_module", "output")
_effects: set[Any] = set()


def has_side_effect(fn: F) -> F:
    """A decorator: calls of this function stay in a graph though nothing reads what they give."""
    _effects.add(fn)
    return fn


def map_aggregate(a: Argument, fn: Callable[[Any], Any]) -> Argument:
    """The arguments with `fn` of each value in place of it, in nested tuples, lists, dicts and
    slices."""
    if isinstance(a, tuple | list):
        return of_kind(type(a), [map_aggregate(x, fn) for x in a])
    if isinstance(a, dict):
        return type(a)({key: map_aggregate(x, fn) for key, x in a.items()})
    if isinstance(a, slice):
        return slice(*(map_aggregate(x, fn) for x in (a.start, a.stop, a.step)))
    return fn(a)


def map_arg(a: Argument, fn: Callable[[Node], Any]) -> Argument:
    """The arguments with `fn` of each node in place of it."""
    return map_aggregate(a, lambda x: fn(x) if isinstance(x, Node) else x)


def check_call(op: str, target: Target) -> None:
    """ArgumentError unless there is such a kind of node, and its target fits."""
    if op not in OPS:
        raise ArgumentError(f"fx.Node: op={op!r} is none of {', '.join(OPS)}")
    if callable(target) != (op == "call_function"):
        raise ArgumentError(f"fx.Node: the target of {op} is {target!r:.60}; it is a function for "
                            f"call_function, and a name for all others")


class Node:
    """One step of a graph.

    op: 'placeholder' (an input, named by `target`), 'get_attr' (a parameter or buffer), or a call
    of a function, of the method or the module that `target` names, with `args` and `kwargs`;
    'output', whose only argument is what the graph gives. users: the nodes that read its value.
    meta: anything that passes over graphs note of it.
    """

    def __init__(self, graph: Any, name: str, op: str, target: Target, args: tuple[Any, ...],
                 kwargs: dict[str, Any], return_type: Any = None) -> None:
        self.graph, self.name, self.op, self.target = graph, name, op, target
        self.type, self.meta, self._erased = return_type, dict[str, Any](), False
        self.users: dict[Node, None] = {}
        self._inputs: dict[Node, None] = {}
        self._args: tuple[Any, ...] = ()
        self._kwargs: dict[str, Any] = {}
        self._set(args, kwargs)

    def __repr__(self) -> str:
        return self.name

    # ---- arguments -------------------------------------------------------------------------------

    @property
    def args(self) -> tuple[Any, ...]:
        """The positional arguments: nodes, numbers, nested tuples of them."""
        return self._args

    @args.setter
    def args(self, args: tuple[Any, ...]) -> None:
        self._set(args, self._kwargs)

    @property
    def kwargs(self) -> dict[str, Any]:
        """The named arguments."""
        return self._kwargs

    @kwargs.setter
    def kwargs(self, kwargs: dict[str, Any]) -> None:
        self._set(self._args, kwargs)

    def _set(self, args: Any, kwargs: Any) -> None:
        for node in self._inputs:
            node.users.pop(self, None)
        self._inputs, self._args, self._kwargs = {}, tuple(args), dict(kwargs)
        map_arg([self._args, self._kwargs], lambda node: self._inputs.setdefault(node))
        for node in self._inputs:
            node.users.setdefault(self)

    @property
    def all_input_nodes(self) -> list[Node]:
        """The nodes that it reads, each once."""
        return list(self._inputs)

    def update_arg(self, idx: int, arg: Argument) -> None:
        """Have another positional argument."""
        args = list(self._args)
        args[idx] = arg
        self.args = tuple(args)

    def insert_arg(self, idx: int, arg: Argument) -> None:
        """Have one more positional argument, before that of this number."""
        self.args = (*self._args[:idx], arg, *self._args[idx:])

    def update_kwarg(self, key: str, arg: Argument) -> None:
        """Have another named argument."""
        self.kwargs = {**self._kwargs, key: arg}

    def replace_input_with(self, old_input: Node, new_input: Node) -> None:
        """Read one node in place of another."""
        self._set(*map_arg((self._args, self._kwargs),
                           lambda node: new_input if node is old_input else node))

    def replace_all_uses_with(self, replace_with: Node,
                              delete_user_cb: Callable[[Node], bool] = lambda user: True, *,
                              propagate_meta: bool = False) -> list[Node]:
        """Have those who read this node read another; gives them. delete_user_cb: says of each
        whether it shall. propagate_meta: the other, which has no meta yet, gets this one's."""
        if propagate_meta:
            replace_with.meta.update(self.meta)
        changed = [user for user in list(self.users) if delete_user_cb(user)]
        for user in changed:
            user.replace_input_with(self, replace_with)
        return changed

    # ---- its place in the graph ------------------------------------------------------------------

    @property
    def next(self) -> Node:
        """The node after this one; the first, after the last."""
        nodes: list[Node] = self.graph._nodes
        return nodes[(nodes.index(self) + 1) % len(nodes)]

    @property
    def prev(self) -> Node:
        """The node before this one; the last, before the first."""
        nodes: list[Node] = self.graph._nodes
        return nodes[nodes.index(self) - 1]

    def prepend(self, x: Node) -> None:
        """Move a node of the same graph to before this one."""
        self._move(x, 0)

    def append(self, x: Node) -> None:
        """Move a node of the same graph to after this one."""
        self._move(x, 1)

    def _move(self, x: Node, after: int) -> None:
        if x.graph is not self.graph:
            raise ArgumentError(f"fx.Node: {x} is of another graph than {self}; copy it there, by "
                                f"node_copy")
        if x is not self:
            nodes = self.graph._nodes
            nodes.remove(x)
            nodes.insert(nodes.index(self) + after, x)

    # ---- what it is ------------------------------------------------------------------------------

    def is_impure(self, impure_random: bool = True) -> bool:
        """Whether it stays though nobody reads it: inputs, outputs, calls of methods and functions
        that write to what they are given, and of modules whose class says so (`_is_impure`)."""
        if self.op in ("placeholder", "output"):
            return True
        if self.op == "call_module":
            owner = self.graph.owning_module
            module = None if owner is None else owner.get_submodule(self.target)
            return bool(getattr(module, "_is_impure", False))
        if self.op == "call_function":
            name = getattr(self.target, "__name__", "")
            return self.target in _effects or _writes(name) or "out" in self._kwargs
        return self.op == "call_method" and _writes(str(self.target))

    def format_node(self, placeholder_names: list[str] | None = None,
                    maybe_return_typename: list[str] | None = None) -> str | None:
        """The node as a line of text."""
        if self.op == "placeholder":
            default = f"(default={self._args[0]!r})" if self._args else ""
            return f"%{self.name} : [num_users={len(self.users)}] = placeholder[target=" \
                   f"{self.target}]{default}"
        if self.op == "output":
            return f"return {self._args[0]}"
        call = "" if self.op == "get_attr" else \
            f"(args = {_shown(self._args)}, kwargs = {_shown(self._kwargs)})"
        return f"%{self.name} : [num_users={len(self.users)}] = {self.op}[target=" \
               f"{self._pretty_print_target(self.target)}]{call}"

    def _pretty_print_target(self, target: Target) -> str:
        return target if isinstance(target, str) else name_of(target)


def name_of(function: Any) -> str:
    """What a function is called, with its module."""
    if isinstance(function, type):
        return typename(function)
    module, name = getattr(function, "__module__", None), getattr(function, "__name__", None)
    return repr(function) if name is None else \
        name if module in (None, "builtins") else f"{str(module).lstrip('_')}.{name}"


def _writes(name: str) -> bool:
    """Whether a function or method of this name writes to what it is given."""
    return name.endswith("_") and not name.endswith("__") or \
        name in ("__setitem__", "setitem", "delitem", "_assert")


def _shown(a: Argument) -> str:
    return repr(map_arg(a, lambda node: _Name(f"%{node.name}")))


class _Name(str):
    """Text that is shown without quotation marks."""

    __slots__ = ()

    def __repr__(self) -> str:
        return str(self)
