"""Nodes between two that stand alone: one compiled program for each shape of their inputs."""
from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable, Mapping, Sequence
from typing import Any, Protocol

import lazyten as lt
from lazyten.capture.jitted import Jitted
from lazyten.capture.state.purity import trusted
from lazyten.onnx.evaluation import arguments, fold, options, record, results
from lazyten.onnx.graph import Node
from lazyten.onnx.table import Operator
from lazyten.onnx.values import Constant, Value, key_of

Environment = dict[str, Value]
KEPT = 64
"""Shapes of inputs that programs are kept for; the oldest go."""
KEPT_NODES = 1 << 14
"""Nodes of programs that are kept, if they are small: of a loop's body, whose states may grow each
time, more than `KEPT` shapes."""


def drop_oldest(kept: OrderedDict[Any, Any], nodes: int) -> None:
    """Let the oldest go of what is kept for a graph of so many nodes."""
    while len(kept) > max(KEPT, KEPT_NODES // max(nodes, 1)):
        kept.popitem(last=False)


class Home(Protocol):
    """What a segment asks of the program it belongs to. defaults: constants that a call may
    replace."""

    constants: dict[str, Constant]
    defaults: frozenset[str]
    device: str | None


class Compiled:
    """A segment for one shape: what is known of its outputs, and a program for the others, of the
    tensors `slots`.

    blocks: programs of several steps, of a loop's body (repeating.py). runs: how many steps of a
    loop it has done.
    """

    def __init__(self, known: Mapping[str, Constant], slots: Sequence[str], outputs: Sequence[str],
                 program: Jitted[..., list[lt.Tensor]] | None) -> None:
        self.known, self.slots, self.outputs, self.program = known, slots, outputs, program
        self.blocks: dict[Hashable, Any] = {}
        self.runs = 0

    def run(self, values: Mapping[str, Value]) -> dict[str, Value]:
        """What the program gives of these values."""
        if self.program is None:
            return {}
        found = self.program(*[values[name] for name in self.slots])
        return dict(zip(self.outputs, found, strict=True))


class Segment:
    """Nodes that are compiled together. outputs: names that are read after it."""

    def __init__(self, nodes: Sequence[Node], outputs: Sequence[str], home: Home) -> None:
        made = {name for node in nodes for name in node.outputs}
        reads = dict.fromkeys(name for node in nodes for name in node.reads)
        self.nodes, self.outputs, self.home = nodes, outputs, home
        fixed = home.constants.keys() - home.defaults
        self.inputs = [name for name in reads if name not in made and name not in fixed]
        self._compiled: OrderedDict[Any, Compiled] = OrderedDict()

    def run(self, environment: Environment) -> None:
        """Compute the outputs into the environment."""
        key = self._key(environment)
        compiled = self._compiled.get(key)
        if compiled is None:
            compiled = self._keep(key, environment, self._resolve(environment))
        environment.update(compiled.known)
        environment.update(compiled.run(environment))

    def keep(self, environment: Environment, found: Environment) -> None:
        """Compile for these inputs; `found` are the values of all nodes, recorded."""
        self._keep(self._key(environment), environment, found)

    def compiled(self, environment: Environment) -> Compiled | None:
        """What was compiled for these inputs, if that was."""
        return self._compiled.get(self._key(environment))

    def _key(self, environment: Environment) -> Any:
        return tuple(key_of(environment[name]) for name in self.inputs)

    def _resolve(self, environment: Environment) -> Environment:
        """All values of the nodes for these inputs: constants, and tensors not computed yet."""
        found: Environment = {}
        for node in self.nodes:
            values = [(found[name] if name in found else environment[name]) if name else None
                      for name in node.inputs]
            known = all(isinstance(x, Constant) for x in values if x is not None)
            outputs = fold(node, values) if known else None
            found.update(zip(node.outputs, outputs or record(node, values, self.home.device),
                             strict=True))
        return found

    def _keep(self, key: Any, environment: Environment, found: Environment) -> Compiled:
        known = {name: x for name, x in found.items() if isinstance(x, Constant)}
        outputs = [name for name in self.outputs if name not in known]
        slots = [name for name in self.inputs if isinstance(environment[name], lt.Tensor)]
        program = None
        if outputs:
            needed = _needed(self.nodes, outputs, known)
            values = {**environment, **known}
            program = lt.jit(trusted(_function(needed, slots, outputs, values, self.home.device)))
        compiled = Compiled({name: known[name] for name in self.outputs if name in known}, slots,
                            outputs, program)
        self._compiled[key] = compiled
        drop_oldest(self._compiled, len(self.nodes))
        return compiled


def _needed(nodes: Sequence[Node], outputs: Sequence[str],
            known: Mapping[str, Constant]) -> list[Node]:
    """The nodes that outputs depend on, without those whose values are known."""
    wanted, kept = {*outputs}, []
    for node in reversed(nodes):
        if any(name in wanted and name not in known for name in node.outputs):
            kept.append(node)
            wanted.update(node.inputs)
    return kept[::-1]


def _function(nodes: Sequence[Node], inputs: Sequence[str], outputs: Sequence[str],
              values: Environment, device: str | None) -> Any:
    """Nodes as one function of tensors, with all else in its place, as jit compares what a
    function looks up at each call."""
    place = {name: number for number, name in enumerate(inputs)}
    count = len(inputs)
    calls = []
    for node in nodes:
        row, sources = node.meaning, []
        assert isinstance(row, Operator)
        wanted = [None if not name or name in place else values[name] for name in node.inputs]
        ready = arguments(node, wanted, device)
        ready += [None] * (len(node.inputs) - len(ready))
        for name, value in zip(node.inputs, ready, strict=True):
            sources.append((place.get(name, -1) if name else -1, value))
        while len(sources) > row.required and sources[-1][0] < 0 and sources[-1][1] is None:
            sources.pop()
        place.update({name: count + i for i, name in enumerate(node.outputs)})
        count += len(node.outputs)
        calls.append((node, row.function, tuple(sources), options(node)))
    ends = [place[name] for name in outputs]

    def program(*tensors: lt.Tensor) -> list[lt.Tensor]:
        found = list(tensors)
        for node, function, sources, keywords in calls:
            given = [value if at < 0 else found[at] for at, value in sources]
            found += results(node, function(*given, **keywords))
        return [found[at] for at in ends]
    return program
