"""Graphs of nodes: made, changed, checked."""
from __future__ import annotations

import builtins
import keyword
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from lazyten.fx.code import PythonCode, code_of
from lazyten.fx.node import Argument, Node, Target, check_call, map_aggregate, map_arg
from lazyten.support.errors import ArgumentError

TAKEN = frozenset({*dir(builtins), *keyword.kwlist, "self", "inf", "nan"})
"""Names that no node gets."""


class Nodes:
    """The nodes of a graph, in order; those that are inserted while they are gone through come,
    too."""

    def __init__(self, graph: Graph, is_reversed: bool = False) -> None:
        self._graph, self._is_reversed = graph, is_reversed

    def __len__(self) -> int:
        return len(self._graph._nodes)

    def __iter__(self) -> Iterator[Node]:
        found = list(self._graph._nodes)
        return (node for node in (reversed(found) if self._is_reversed else found)
                if not node._erased)

    def __reversed__(self) -> Nodes:
        return Nodes(self._graph, not self._is_reversed)


class Graph:
    """Nodes in the order in which they run. owning_module: whose attributes they name, if it is
    known. tracer_cls: what made it."""

    def __init__(self, owning_module: Any = None, tracer_cls: Any = None,
                 tracer_extras: dict[str, Any] | None = None) -> None:
        self.owning_module, self._tracer_cls = owning_module, tracer_cls
        self._tracer_extras = tracer_extras
        self._nodes: list[Node] = []
        self._names: set[str] = set()
        self._place: tuple[Node, int] | None = None  # where new nodes go: before or after one

    @property
    def nodes(self) -> Nodes:
        """The nodes, in order."""
        return Nodes(self)

    def find_nodes(self, *, op: str, target: Target | None = None, sort: bool = True
                   ) -> list[Node]:
        """The nodes of this kind, and of this target if one is given."""
        return [node for node in self._nodes if node.op == op and target in (None, node.target)]

    def output_node(self) -> Node:
        """The node that says what the graph gives."""
        found = self.find_nodes(op="output")
        if len(found) != 1:
            raise ArgumentError(f"fx.Graph: it has {len(found)} outputs; say once what it gives, "
                                f"by output()")
        return found[0]

    # ---- new nodes -------------------------------------------------------------------------------

    def create_node(self, op: str, target: Target, args: tuple[Any, ...] | None = None,
                    kwargs: dict[str, Any] | None = None, name: str | None = None,
                    type_expr: Any = None) -> Node:
        """A new node at the end, or where inserting_before() or inserting_after() say."""
        args, kwargs = () if args is None else args, {} if kwargs is None else kwargs
        check_call(op, target)
        map_arg([args, kwargs], self._own)
        node = Node(self, self._name(name or _candidate(op, target)), op, target, args, kwargs,
                    type_expr)
        if self._place is None:
            self._nodes.append(node)
        else:
            at, after = self._place
            self._nodes.insert(self._nodes.index(at) + after, node)
            self._place = (node, 1) if after else self._place
        return node

    def _own(self, node: Node) -> Node:
        if node.graph is not self:
            raise ArgumentError(f"fx.Graph: the argument {node} is a node of another graph; copy "
                                f"it here, by node_copy")
        return node

    def _name(self, candidate: str) -> str:
        """A name like this one that nothing has yet."""
        text = re.sub(r"\W", "_", candidate) or "_unnamed"
        text = f"_{text}" if text[0].isdigit() else text
        stem, number = text, 0
        match = re.fullmatch(r"(.*[^_\d])_(\d+)", text)
        if match is not None and text in self._names:
            stem, number = match[1], int(match[2])
        while text in self._names or text in TAKEN:
            number += 1
            text = f"{stem}_{number}"
        self._names.add(text)
        return text

    def placeholder(self, name: str, type_expr: Any = None, default_value: Any = ...) -> Node:
        """An input of this name, which may have a default."""
        args = () if default_value is ... else (default_value,)
        return self.create_node("placeholder", name, args, type_expr=type_expr)

    def get_attr(self, qualified_name: str, type_expr: Any = None) -> Node:
        """A parameter, a buffer or another attribute of the module, by its name with dots."""
        return self.create_node("get_attr", qualified_name, type_expr=type_expr)

    def call_module(self, module_name: str, args: tuple[Any, ...] | None = None,
                    kwargs: dict[str, Any] | None = None, type_expr: Any = None,
                    name: str | None = None) -> Node:
        """A call of a module inside, by its name with dots."""
        return self.create_node("call_module", module_name, args, kwargs, name, type_expr)

    def call_method(self, method_name: str, args: tuple[Any, ...] | None = None,
                    kwargs: dict[str, Any] | None = None, type_expr: Any = None,
                    name: str | None = None) -> Node:
        """A call of a method of the first argument."""
        return self.create_node("call_method", method_name, args, kwargs, name, type_expr)

    def call_function(self, the_function: Callable[..., Any],
                      args: tuple[Any, ...] | None = None, kwargs: dict[str, Any] | None = None,
                      type_expr: Any = None, name: str | None = None) -> Node:
        """A call of a function."""
        return self.create_node("call_function", the_function, args, kwargs, name, type_expr)

    def output(self, result: Argument, type_expr: Any = None) -> Node:
        """What the graph gives: a node, or nested tuples, lists and dicts of them."""
        return self.create_node("output", "output", (result,), type_expr=type_expr)

    def node_copy(self, node: Node, arg_transform: Callable[[Node], Any] = lambda x: x) -> Node:
        """A copy of another graph's node. arg_transform: the nodes here of those that it reads."""
        args, kwargs = map_arg((node.args, node.kwargs), arg_transform)
        made = self.create_node(node.op, node.target, args, kwargs, node.name, node.type)
        made.meta = dict(node.meta)
        return made

    def graph_copy(self, g: Graph, val_map: dict[Node, Node], return_output_node: bool = False
                   ) -> Any:
        """Copy all nodes of another graph but for its output; gives what that would be here, or
        None. val_map: those that are here already; the copies are added."""
        for node in g.nodes:
            if node in val_map:
                continue
            if node.op == "output":
                result = map_arg(node.args[0], lambda n: val_map[n])
                return (result, node) if return_output_node else result
            val_map[node] = self.node_copy(node, lambda n: val_map[n])
        return None

    # ---- changes ---------------------------------------------------------------------------------

    @contextmanager
    def _inserting(self, place: tuple[Node, int] | None) -> Iterator[None]:
        before, self._place = self._place, place
        try:
            yield
        finally:
            self._place = before

    def inserting_before(self, n: Node | None = None) -> Any:
        """Within this block new nodes go before this one; before all, if none is given."""
        found = n if n is not None else next(iter(self._nodes), None)
        return self._inserting(None if found is None else (self._own(found), 0))

    def inserting_after(self, n: Node | None = None) -> Any:
        """Within this block new nodes go after this one; to the end, if none is given."""
        return self._inserting(None if n is None else (self._own(n), 1))

    def erase_node(self, to_erase: Node) -> None:
        """Take a node away that nothing reads any more. ArgumentError if something does."""
        if to_erase.users:
            raise ArgumentError(f"fx.Graph: {to_erase} is read by {list(to_erase.users)}; have "
                                f"them read another node first, by replace_all_uses_with")
        self._own(to_erase)
        if not to_erase._erased:
            self._nodes.remove(to_erase)
            to_erase._erased, to_erase.args, to_erase.kwargs = True, (), {}

    def eliminate_dead_code(self, is_impure_node: Callable[[Node], bool] | None = None) -> bool:
        """Take away what nothing reads and what has no effect; gives whether there was any."""
        stays = Node.is_impure if is_impure_node is None else is_impure_node
        before = len(self._nodes)
        for node in reversed(self.nodes):
            if not node.users and not stays(node):
                self.erase_node(node)
        return len(self._nodes) < before

    def lint(self) -> None:
        """ArgumentError if a node reads what comes later, or names what its module lacks."""
        seen: set[Node] = set()
        for node in self._nodes:
            for read in node.all_input_nodes:
                if read not in seen:
                    raise ArgumentError(f"fx.Graph: {node} reads {read}, which is not before it in "
                                        f"the graph")
            seen.add(node)
            if self.owning_module is not None and node.op in ("get_attr", "call_module"):
                found = self.owning_module
                for part in str(node.target).split("."):
                    if not hasattr(found, part):
                        raise ArgumentError(f"fx.Graph: {node} is of {node.target}, which the "
                                            f"module does not have")
                    found = getattr(found, part)

    # ---- as text ---------------------------------------------------------------------------------

    def python_code(self, root_module: str, *, verbose: bool = False, **kwargs: Any) -> PythonCode:
        """The text of a function that does the same, `forward`, and the globals that it needs.
        root_module: what the module is called in it."""
        return code_of(self._nodes, root_module)

    def print_tabular(self) -> None:
        """Print a line for each node."""
        rows = [("opcode", "name", "target", "args", "kwargs"), *(
            (n.op, n.name, n._pretty_print_target(n.target), str(n.args), str(n.kwargs))
            for n in self._nodes)]
        widths = [max(len(row[i]) for row in rows) for i in range(5)]
        lines = ["  ".join(cell.ljust(w) for cell, w in zip(row, widths, strict=True)).rstrip()
                 for row in rows]
        lines.insert(1, "  ".join("-" * w for w in widths))
        print("\n".join(lines))

    def __str__(self) -> str:
        inputs = ", ".join(f"%{n.name}" for n in self._nodes if n.op == "placeholder")
        return "\n    ".join([f"graph({inputs}):", *(str(n.format_node()) for n in self._nodes)])

    # ---- copies ----------------------------------------------------------------------------------

    def __deepcopy__(self, memo: dict[int, Any] | None = None) -> Graph:
        made = Graph(tracer_cls=self._tracer_cls, tracer_extras=self._tracer_extras)
        found = made.graph_copy(self, {}, return_output_node=True)
        if found is not None:
            made.output(found[0], found[1].type).meta = dict(found[1].meta)
        return made

    def __reduce__(self) -> Any:
        rows = [(n.op, n.target, *map_arg((n.args, n.kwargs), lambda x: _Read(x.name)), n.name,
                 n.type) for n in self._nodes]
        return _graph_of, (rows, self._tracer_cls)


class _Read(str):
    """In a pickle: a node, by its name."""

    __slots__ = ()


def _graph_of(rows: list[tuple[Any, ...]], tracer_cls: Any) -> Graph:
    """What a pickle has: the graph of these nodes."""
    graph, named = Graph(tracer_cls=tracer_cls), dict[str, Node]()
    for op, target, args, kwargs, name, kind in rows:
        args, kwargs = map_aggregate((args, kwargs),
                                     lambda x: named[x] if isinstance(x, _Read) else x)
        named[name] = graph.create_node(op, target, args, kwargs, name, kind)
    return graph


def _candidate(op: str, target: Target) -> str:
    """What a node may be called, by what it is of."""
    if isinstance(target, str):
        return target.replace(".", "_") if op != "placeholder" else target.lstrip("*")
    name = getattr(target, "__name__", type(target).__name__).strip("_") or "function"
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower()
