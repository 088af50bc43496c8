"""A graph as the text of a Python function."""
from __future__ import annotations

import math
import operator
import re
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from lazyten.fx.node import Argument, Node

SIGNS = {
    operator.add: "{} + {}", operator.sub: "{} - {}", operator.mul: "{} * {}",
    operator.truediv: "{} / {}", operator.floordiv: "{} // {}", operator.mod: "{} % {}",
    operator.matmul: "{} @ {}", operator.pow: "{} ** {}", operator.eq: "{} == {}",
    operator.ne: "{} != {}", operator.lt: "{} < {}", operator.gt: "{} > {}",
    operator.le: "{} <= {}", operator.ge: "{} >= {}", operator.and_: "{} & {}",
    operator.or_: "{} | {}", operator.xor: "{} ^ {}", operator.getitem: "{}[{}]",
    operator.neg: "-{}", operator.invert: "~{}", operator.pos: "+{}"}
"""How calls of operators are spelled."""
_HOMES = "lazyten", "lazyten.nn.functional"


@dataclass
class PythonCode:
    """The text of a function, and the globals that it needs."""

    src: str
    globals: dict[str, Any] = field(default_factory=dict)


class _Writer:
    """Text of nodes and arguments, and what it names."""

    def __init__(self, nodes: Sequence[Node], root: str) -> None:
        self.root, self.globals = root, dict[str, Any]()
        self.names = {node.name for node in nodes} | {root}

    def line(self, node: Node) -> str:
        """A node as a statement."""
        args = ", ".join([*map(self.text, node.args),
                          *(f"{key} = {self.text(x)}" for key, x in node.kwargs.items())])
        if node.op == "output":
            return f"return {self.text(node.args[0])}"
        if node.op == "get_attr":
            return f"{node.name} = {_path(self.root, str(node.target))}"
        if node.op == "call_module":
            return f"{node.name} = {_path(self.root, str(node.target))}({args})"
        if node.op == "call_method":
            this, *others = node.args
            rest = ", ".join([*map(self.text, others),
                              *(f"{key} = {self.text(x)}" for key, x in node.kwargs.items())])
            return f"{node.name} = {self._operand(this)}.{node.target}({rest})"
        return f"{node.name} = {self._call(node, args)}"

    def _call(self, node: Node, args: str) -> str:
        sign = None if node.kwargs or isinstance(node.target, str) else SIGNS.get(node.target)
        if sign is not None and sign.count("{}") == len(node.args):
            first, *rest = node.args
            shown = self._index if node.target is operator.getitem else self._operand
            return sign.format(self._operand(first), *map(shown, rest))
        if node.target is getattr and isinstance(node.args[1], str) \
                and node.args[1].isidentifier() and len(node.args) == 2:
            return f"{self._operand(node.args[0])}.{node.args[1]}"
        return f"{self.function(node.target)}({args})"

    def _operand(self, a: Argument) -> str:
        text = self.text(a)
        return text if re.fullmatch(r"\w+(\.\d+)?", text) and not text[0].isdigit() \
            or isinstance(a, list | dict) else f"({text})"

    def _index(self, a: Argument) -> str:
        return self.text(a)

    def text(self, a: Argument) -> str:
        """An argument as Python writes it."""
        if isinstance(a, Node):
            return a.name
        if isinstance(a, float) and not math.isfinite(a):
            return f"float('{a}')"
        if a is None or a is ... or type(a) in (bool, int, float, complex, str, bytes):
            return "..." if a is ... else repr(a)
        if type(a) in (list, tuple):
            inside = ", ".join(map(self.text, a))
            return f"[{inside}]" if isinstance(a, list) else \
                f"({inside},)" if len(a) == 1 else f"({inside})"
        if isinstance(a, tuple):
            made = ", ".join(map(self.text, a))
            return f"{self.function(type(a))}({made})" if hasattr(a, "_fields") else \
                f"{self.function(type(a))}(({made}{',' if len(a) == 1 else ''}))"
        if isinstance(a, dict):
            return "{" + ", ".join(f"{self.text(k)}: {self.text(x)}" for k, x in a.items()) + "}"
        if isinstance(a, slice):
            return f"slice({self.text(a.start)}, {self.text(a.stop)}, {self.text(a.step)})"
        return self.function(a)

    def function(self, function: Any) -> str:
        """A name for a function, or any other value that Python has no text for."""
        name = getattr(function, "__qualname__", None) or getattr(function, "__name__", None)
        home = getattr(function, "__module__", None)
        for module in (*_HOMES, home) if isinstance(name, str) else ():
            found = sys.modules.get(str(module))
            first = str(module).partition(".")[0]
            if found is not None and "." not in str(name) \
                    and getattr(found, str(name), None) is function \
                    and _reached(str(module)) is found and first not in self.names:
                self.globals[first] = sys.modules[first]
                return f"{module}.{name}"
        return self._noted(re.sub(r"\W", "_", f"{home}_{name}" if name else str(function)),
                           function)

    def _noted(self, name: str, value: Any) -> str:
        """A global of this name, or one like it."""
        candidate, number = name, 0
        while candidate in self.names or self.globals.get(candidate, value) is not value:
            number += 1
            candidate = f"{name}_{number}"
        self.globals[candidate] = value
        return candidate


def _reached(module: str) -> Any:
    """What a module's name with dots leads to from its package."""
    first, *rest = module.split(".")
    found = sys.modules.get(first)
    for part in rest:
        found = getattr(found, part, None)
    return found


def _path(root: str, target: str) -> str:
    """An attribute by its name with dots, whose parts may be numbers."""
    text = root
    for part in target.split("."):
        text = f"{text}.{part}" if part.isidentifier() else f"getattr({text}, {part!r})"
    return text


def code_of(nodes: Sequence[Node], root: str) -> PythonCode:
    """The text of `forward`, which lets go of each value after the last node that reads it."""
    writer = _Writer(nodes, root)
    inputs, lines = [root], list[str]()
    last = {read: node for node in nodes for read in node.all_input_nodes}
    for node in nodes:
        if node.op == "placeholder":
            name = str(node.target)
            stars, default = "*" * (len(name) - len(name.lstrip("*"))), ""
            if node.args:
                default = f" = {writer.text(node.args[0])}"
            inputs.append(f"{stars}{name.lstrip('*')}{default}")
            if name.lstrip("*") != node.name:
                lines.append(f"{node.name} = {name.lstrip('*')}")
            continue
        done = [] if node.op == "output" else [x.name for x, at in last.items() if at is node]
        if not node.users and node.op != "output":
            done.append(node.name)
        lines.append(writer.line(node) + (f";  {' = '.join(done)} = None" if done else ""))
    body = "\n    ".join(lines or ["pass"])
    return PythonCode(f"def forward({', '.join(inputs)}):\n    {body}\n", writer.globals)
