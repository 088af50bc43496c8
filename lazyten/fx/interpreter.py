"""A graph run, or rewritten, node by node."""
from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from lazyten.fx.graph import Graph
from lazyten.fx.graph_module import GraphModule
from lazyten.fx.node import Argument, Node, Target, map_arg
from lazyten.fx.proxy import Proxy
from lazyten.fx.tracer import Tracer
from lazyten.nn.module import Module
from lazyten.support.errors import ArgumentError

Args = tuple[Any, ...]
Named = dict[str, Any]


class Interpreter:
    """Runs a graph, with a method for each kind of node, which a class of it may define anew.

    module: whose attributes the nodes name. graph: module.graph unless given.
    garbage_collect_values: let go of each value after its last reader.
    """

    def __init__(self, module: Module, garbage_collect_values: bool = True,
                 graph: Graph | None = None) -> None:
        self.module, self.graph = module, module.graph if graph is None else graph
        self.submodules = dict(module.named_modules())
        self.garbage_collect_values, self.name = garbage_collect_values, "Interpreter"
        self.env: dict[Node, Any] = {}
        self.user_to_last_uses: dict[Node, list[Node]] = {}
        for read, user in {r: n for n in self.graph.nodes for r in n.all_input_nodes}.items():
            self.user_to_last_uses.setdefault(user, []).append(read)

    def run(self, *args: Any, initial_env: dict[Node, Any] | None = None,
            enable_io_processing: bool = True) -> Any:
        """What the graph gives for these inputs. initial_env: values of nodes that are known, which
        are not run."""
        self.env = {} if initial_env is None else initial_env
        self.args_iter: Iterator[Any] = iter(args)
        for node in self.graph.nodes:
            if node not in self.env:
                self.env[node] = self.run_node(node)
            if node.op == "output":
                return self.env[node]
            if self.garbage_collect_values:
                for done in self.user_to_last_uses.get(node, []):
                    self.env.pop(done, None)
        return None

    def run_node(self, n: Node) -> Any:
        """The value of a node."""
        args, kwargs = self.fetch_args_kwargs_from_env(n)
        return getattr(self, n.op)(n.target, args, kwargs)

    def placeholder(self, target: Target, args: Args, kwargs: Named) -> Any:
        """The next input, or its default."""
        if isinstance(target, str) and target.startswith("*"):
            return list(self.args_iter)
        missing = object()
        found = next(self.args_iter, missing)
        if found is not missing:
            return found
        if args:
            return args[0]
        raise ArgumentError(f"fx.Interpreter: the input {target} is missing; give it to run()")

    def get_attr(self, target: Target, args: Args, kwargs: Named) -> Any:
        """An attribute of the module."""
        return self.fetch_attr(str(target))

    def call_function(self, target: Target, args: Args, kwargs: Named) -> Any:
        """What a function gives."""
        return target(*args, **kwargs)  # type: ignore[operator]

    def call_method(self, target: Target, args: Args, kwargs: Named) -> Any:
        """What a method of the first argument gives."""
        this, *others = args
        return getattr(this, str(target))(*others, **kwargs)

    def call_module(self, target: Target, args: Args, kwargs: Named) -> Any:
        """What a module inside gives."""
        return self.fetch_attr(str(target))(*args, **kwargs)

    def output(self, target: Target, args: Args, kwargs: Named) -> Any:
        """What the graph gives."""
        return args[0]

    def fetch_attr(self, target: str) -> Any:
        """An attribute of the module, by its name with dots."""
        found: Any = self.module
        for part in target.split("."):
            found = getattr(found, part)
        return found

    def fetch_args_kwargs_from_env(self, n: Node) -> tuple[Args, Named]:
        """The arguments of a node, with values in place of nodes."""
        return self.map_nodes_to_values(n.args, n), self.map_nodes_to_values(n.kwargs, n)

    def map_nodes_to_values(self, args: Argument, n: Node) -> Any:
        """Arguments with values in place of nodes."""
        return map_arg(args, lambda node: self.env[node])


class _Adding(Tracer):
    """Adds to a new graph; all modules are leaves."""

    def __init__(self, graph: Graph, root: Module) -> None:
        super().__init__()
        self.graph, self.root = graph, root

    def is_leaf_module(self, m: Module, module_qualified_name: str) -> bool:
        """All are."""
        return True


class Transformer(Interpreter):
    """Makes another graph: the methods are given stand-ins, and what they do with them is the
    graph."""

    def __init__(self, module: GraphModule) -> None:
        super().__init__(module)
        self.new_graph = Graph()
        self.new_graph._tracer_cls = module.graph._tracer_cls
        self.tracer = _Adding(self.new_graph, module)

    def placeholder(self, target: Target, args: Args, kwargs: Named) -> Proxy:
        """An input of the new graph."""
        default = args[0] if args else ...
        return Proxy(self.new_graph.placeholder(str(target), default_value=default), self.tracer)

    def get_attr(self, target: Target, args: Args, kwargs: Named) -> Proxy:
        """An attribute, in the new graph."""
        return self.tracer.create_proxy("get_attr", target, args, kwargs)

    def call_function(self, target: Target, args: Args, kwargs: Named) -> Any:
        """A call, in the new graph."""
        return self.tracer.create_proxy("call_function", target, args, kwargs)

    def call_method(self, target: Target, args: Args, kwargs: Named) -> Any:
        """A call, in the new graph."""
        return self.tracer.create_proxy("call_method", target, args, kwargs)

    def call_module(self, target: Target, args: Args, kwargs: Named) -> Any:
        """A call, in the new graph."""
        return self.tracer.create_proxy("call_module", target, args, kwargs)

    def transform(self) -> GraphModule:
        """The module of the new graph."""
        result = super().run()
        if result is not None:
            self.new_graph.output(self.tracer.create_arg(result))
        return GraphModule(self.module, self.new_graph)
