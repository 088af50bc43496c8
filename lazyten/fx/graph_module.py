"""A module that does what a graph says."""
from __future__ import annotations

import copy
import linecache
from functools import reduce
from itertools import count
from typing import Any

from lazyten.frontend.tensor import Tensor
from lazyten.fx.code import PythonCode
from lazyten.fx.graph import Graph
from lazyten.nn.module import Module
from lazyten.nn.parameter import Parameter
from lazyten.support.errors import ArgumentError

_numbers = count()
_USER_PRESERVED_ATTRIBUTES_KEY = "_user_preserved_attributes"


class GraphModule(Module):
    """A module whose forward() is compiled from a graph, again whenever `graph` is assigned or
    recompile() is called.

    root: the module whose attributes the graph names, which are taken over, or a dict of them by
    name. class_name: what the module is printed as. Each has a class of its own.
    """

    _graph: Graph
    _code: str
    __fx_traced__ = True

    def __new__(cls, *args: Any, **kwargs: Any) -> GraphModule:
        """An instance of a class of its own, whose forward() may change."""
        kind = next(k for k in cls.__mro__ if not vars(k).get("_is_own", False))
        own = type(kind.__name__, (kind,), {"_is_own": True, "__module__": kind.__module__,
                                            "__doc__": kind.__doc__})
        made: GraphModule = super().__new__(own)
        return made

    def __init__(self, root: Module | dict[str, Any], graph: Graph,
                 class_name: str = "GraphModule") -> None:
        super().__init__()
        type(self).__name__ = type(self).__qualname__ = class_name
        self.meta: dict[str, Any] = {}
        if isinstance(root, Module):
            self.training = root.training
            self.meta.update(getattr(root, "meta", None) or {})
        named = {str(n.target) for n in graph.nodes if n.op in ("get_attr", "call_module")}
        targets = sorted(named, key=lambda name: (name.count("."), name))
        for target in targets:
            if isinstance(root, Module):
                _copy_attr(root, self, target)
            elif target in root:
                _assign_attr(root[target], self, target)
            else:
                raise ArgumentError(f"fx.GraphModule: the graph is of {target}, which root does "
                                    f"not have; it has {', '.join(sorted(root)) or 'nothing'}")
        self.graph = graph

    @property
    def graph(self) -> Graph:
        """The graph."""
        return self._graph

    @graph.setter
    def graph(self, g: Graph) -> None:
        if not isinstance(g, Graph):
            raise ArgumentError(f"fx.GraphModule: graph is {type(g).__name__}; give a Graph")
        object.__setattr__(self, "_graph", g)
        g.owning_module = self
        self.recompile()

    @property
    def code(self) -> str:
        """The text of forward()."""
        return self._code

    def recompile(self) -> PythonCode:
        """Make forward() of the graph, as it is now."""
        code = self._graph.python_code("self")
        file, names = f"<graph {next(_numbers)}>", dict(code.globals)
        linecache.cache[file] = len(code.src), None, code.src.splitlines(True), file
        exec(compile(code.src, file, "exec"), names)
        object.__setattr__(self, "_code", code.src)
        type(self).forward = names["forward"]  # type: ignore[method-assign]
        return code

    def print_readable(self, print_output: bool = True, *args: Any, **kwargs: Any) -> str:
        """The text of the module's class, which is printed as well."""
        body = "\n".join(f"    {line}" for line in self.code.splitlines())
        text = f"class {type(self).__name__}(torch.nn.Module):\n{body}"
        if print_output:
            print(text)
        return text

    # ---- modules inside --------------------------------------------------------------------------

    def add_submodule(self, target: str, m: Module) -> bool:
        """Add a module under a name with dots, and modules on the way there; False if something
        else is in the way."""
        *path, name = target.split(".")
        found: Any = self
        for part in path:
            found = _inside(found, part)
            if not isinstance(found, Module):
                return False
        found.add_module(name, m)
        return True

    def delete_submodule(self, target: str) -> bool:
        """Delete the module of this name with dots; False if there is none."""
        *path, name = target.split(".")
        found: Any = self
        for part in path:
            found = getattr(found, part, None)
            if not isinstance(found, Module):
                return False
        if not isinstance(getattr(found, name, None), Module):
            return False
        delattr(found, name)
        return True

    def delete_all_unused_submodules(self) -> None:
        """Delete modules that the graph does not call, nor anything in them."""
        used = set()
        for node in self._graph.nodes:
            if node.op in ("get_attr", "call_module"):
                parts = str(node.target).split(".")
                used |= {".".join(parts[:n]) for n in range(1, len(parts) + 1)}
                if node.op == "call_module":
                    called = self.get_submodule(str(node.target))
                    used |= {f"{node.target}.{name}" for name, _ in called.named_modules() if name}
        for name in [name for name, _ in self.named_modules() if name and name not in used]:
            self.delete_submodule(name)

    # ---- copies ----------------------------------------------------------------------------------

    def _state(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items()
                if name not in ("_graph", "_code")}

    def __deepcopy__(self, memo: dict[int, Any]) -> GraphModule:
        state = copy.deepcopy(self._state(), memo)
        return _made_of(state, copy.deepcopy(self._graph, memo), type(self).__name__)

    def __copy__(self) -> GraphModule:
        return _made_of(dict(self._state()), copy.deepcopy(self._graph), type(self).__name__)

    def __reduce_ex__(self, protocol: Any) -> Any:
        return _made_of, (self._state(), self._graph, type(self).__name__)

    def __str__(self) -> str:
        return f"{super().__str__()}\n\n{self.code}\n\n# To see more debug info, please use " \
               f"`graph_module.print_readable()`"


class _CodeOnlyModule(Module):
    """A module that has these attributes, and nothing of a graph."""

    def __init__(self, body: dict[str, Any]) -> None:
        super().__init__()
        self.__dict__.update(body)


def _made_of(state: dict[str, Any], graph: Graph, name: str) -> GraphModule:
    """What a pickle or a copy is: the module of these attributes and this graph."""
    made: GraphModule = GraphModule(_CodeOnlyModule(state), graph, name)
    made.__dict__.update(state)
    return made


def _inside(place: Any, name: str) -> Any:
    """What a module has under a name; a new module, if that is nothing."""
    if getattr(place, name, None) is None:
        setattr(place, name, Module())
    return getattr(place, name)


def _copy_attr(from_module: Module, to_module: Module, target: str) -> None:
    """Have an attribute of another module, by its name with dots, at the same place."""
    *path, name = target.split(".")
    source = reduce(getattr, path, from_module)
    if not hasattr(source, name):
        return
    _assign_attr(getattr(source, name), to_module, target)


def _assign_attr(value: Any, to_module: Module, target: str) -> None:
    """Assign an attribute by its name with dots; a tensor that is no parameter is a buffer."""
    *path, name = target.split(".")
    place = reduce(_inside, path, to_module)
    if getattr(place, name, None) is value:
        return
    if isinstance(value, Tensor) and not isinstance(value, Parameter):
        place.register_buffer(name, value)
    else:
        setattr(place, name, value)
