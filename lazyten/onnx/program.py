"""A graph, ready to run: compiled programs, and between them what has to run by itself.

The first call with inputs of some shapes goes through the nodes once. What follows from constants
and shapes is computed on the spot; runs of the other nodes become segments, each one program by
`lt.jit`; an operator whose result's shape depends on values, or that needs values on the host,
stands alone between them. Later calls run these steps.
"""
from __future__ import annotations

import math
from collections import Counter, OrderedDict, deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import count
from typing import Any

import lazyten as lt
from lazyten.capture.sizes.calls import SizedCalls
from lazyten.codegen.targets.target import Target
from lazyten.execution.interpreted import TURNS, Line, TooMuch, seldom
from lazyten.onnx.evaluation import (
    NeedsHost,
    NotRecorded,
    fold,
    folded,
    named,
    numbers_in,
    numbers_of_sizes,
    on_host,
    record,
    run_alone,
    told_by,
)
from lazyten.onnx.expansions import renamed, typed_body
from lazyten.onnx.graph import Expansion, Graph, Node
from lazyten.onnx.repeating import Body
from lazyten.onnx.rewrites import rewritten, unblocked
from lazyten.onnx.scanning import as_scan
from lazyten.onnx.segment import Compiled, Environment, Segment, drop_oldest
from lazyten.onnx.segments import Finder
from lazyten.onnx.table import Operator
from lazyten.onnx.values import FEW, Constant, OfSizes, Value, is_foreign, key_of, of_sizes
from lazyten.runtimes.contract import Runtime
from lazyten.storage import levels, tracing
from lazyten.storage.device import executor
from lazyten.storage.placement import placed


def _target(device: str | None) -> Target | None:
    """What a model's kernels are made for; None where nothing is compiled."""
    runtime = executor(placed(device))
    return runtime.target if isinstance(runtime, Runtime) else None


class Alone:
    """A step that is one node, with the values it needs."""

    def __init__(self, node: Node, program: Program) -> None:
        self.node, self.program = node, program

    def run(self, environment: Environment) -> None:
        """Compute the node's outputs."""
        program = self.program
        values = [environment[name] if name else None
                  for name in (*self.node.inputs, *self.node.captured)]
        found = run_alone(self.node, values, program.device, program.bind)
        if tracing.current() is None and not levels.under_way():
            _compute(found)
        environment.update(zip(self.node.outputs, found, strict=True))


def _compute(values: Sequence[Value]) -> None:
    """Compute what came out of a step: the next program would have it planned at each call."""
    waiting = [x for x in values if isinstance(x, lt.Tensor) and x._storage.buffer is None]
    if waiting:
        lt.realize(*waiting)


@dataclass
class Plan:
    """The steps of a call; and what was compiled, if one program is all there is to run."""

    steps: list[Segment | Alone]
    whole: Compiled | None = None


class Program:
    """A graph that is called with values of its inputs."""

    def __init__(self, graph: Graph, device: str | None) -> None:
        self.graph, self.device = graph, device
        ready = rewritten(graph, _target(device), device)
        self.constants, self.nodes = dict(ready.constants), ready.nodes
        self.segments = Finder(graph, self.nodes, self.constants)
        self.numbers = count()
        self.defaults = frozenset(x.name for x in graph.inputs)
        self._plans: OrderedDict[Any, Plan] = OrderedDict()
        self._line = Line()
        self._sized: dict[Any, tuple[list[str], SizedCalls]] = {}
        self._bodies: dict[Graph, Program] = {}
        for node in self.nodes:
            for value in node.attributes.values():
                if isinstance(value, Graph):
                    self._bodies[value] = Program(value, device)

    def __call__(self, feeds: Mapping[str, Value]) -> list[Value]:
        """The outputs; `feeds` has the inputs and, of a subgraph, what it captures."""
        key = self._key(feeds)
        self._line.requests += 1
        plan = self._plans.get(key)
        if plan is not None and plan.whole is not None:
            return self._whole(plan.whole, feeds)
        if plan is None and (found := self._at_size(feeds)) is not None:
            return found
        environment: Environment = {**self.constants, **feeds}
        if plan is None and (found := self._at_once(key, feeds)) is not None:
            return found
        if plan is None:
            plan = self._plans[key] = Plan(_Planner(self, environment).plan())
            drop_oldest(self._plans, len(self.nodes))
            if len(plan.steps) == 1 and isinstance(plan.steps[0], Segment):
                plan.whole = plan.steps[0].compiled({**self.constants, **feeds})
        else:
            for step in plan.steps:
                step.run(environment)
        return [environment[name] for name in self.graph.outputs]

    def _at_once(self, key: Any, feeds: Mapping[str, Value]) -> list[Value] | None:
        """The outputs for inputs of new shapes, which may never come again, interpreted; None where
        that takes too long, for the first shapes, and for those that came so often, or in turn,
        that they are to be compiled."""
        if not self._plans or tracing.current() is not None or levels.under_way() or any(
                isinstance(x, lt.Tensor) and x.requires_grad for x in feeds.values()):
            return None
        runs = self._line.runs(hash(key))
        if runs.turns + runs.in_a_row == TURNS:
            return None
        planner = _Seldom(self, {**self.constants, **feeds}, runs.count)
        try:
            planner.plan()
        except TooMuch:
            return None
        return [planner.environment[name] for name in self.graph.outputs]

    def _at_size(self, feeds: Mapping[str, Value]) -> list[Value] | None:
        """The outputs for inputs of sizes that nobody recorded; None where that takes a graph."""
        if tracing.current() is not None or levels.under_way() or not feeds or not all(
                isinstance(x, lt.Tensor) and not x.requires_grad for x in feeds.values()):
            return None
        kind = tuple(sorted((name, x.dim(), x.dtype.name, x._storage.device)
                            for name, x in feeds.items()))
        calls = self._sized.get(kind)
        if calls is None:
            names = list(feeds)
            told: list[int] = []
            calls = self._sized[kind] = names, SizedCalls(
                lambda *tensors: _sized(self, dict(zip(names, tensors, strict=True)), told),
                numbers_in((*self.graph.constants.values(), *self.constants.values()),
                           self.nodes), told)
        return calls[1]([feeds[name] for name in calls[0]])

    def _whole(self, compiled: Compiled, feeds: Mapping[str, Value]) -> list[Value]:
        """The outputs of the one program that there is to run."""
        found = {**compiled.known, **compiled.run(feeds)}
        return [found[name] if name in found else feeds[name] if name in feeds else
                self.constants[name] for name in self.graph.outputs]

    def body(self, graph: Graph) -> Program:
        """A subgraph, ready to run."""
        if graph not in self._bodies:
            self._bodies[graph] = Program(graph, self.device)
        return self._bodies[graph]

    def bind(self, graph: Graph, captured: Sequence[Value]) -> Body:
        """A function of a subgraph's inputs."""
        return Body(self.body(graph), dict(zip(graph.free, captured, strict=True)))

    def compiled(self, feeds: Mapping[str, Value]) -> Compiled | None:
        """The one compiled program that a call with such values runs; None if it takes more, or
        gives something else each time."""
        plan = self._plans.get(self._key(feeds))
        if plan is None or plan.whole is None or not all(
                isinstance(n.meaning, Operator) and n.meaning.pure
                for step in plan.steps if isinstance(step, Segment) for n in step.nodes):
            return None
        return plan.whole

    @staticmethod
    def _key(feeds: Mapping[str, Value]) -> Any:
        return tuple(sorted(_kind_of(name, value) for name, value in feeds.items()))


def _kind_of(name: str, value: Value) -> Any:
    """What steps depend on of a name's value: a constant, which is known; a tensor's shape and
    type; of what else there is, its kind."""
    if isinstance(value, Constant):
        return name, 0, value
    if isinstance(value, lt.Tensor):
        return name, 1, key_of(value)
    return name, 2, type(value).__name__, str(getattr(value, "dtype", ""))


SCANS = {("", "Loop"): 1, ("", "Scan"): 9}
"""Operators that may be scans, and the opset from which on."""


class _Planner:
    """Goes through the nodes of a program once, with the values of a call, and keeps the steps."""

    def __init__(self, program: Program, environment: Environment) -> None:
        self.program, self.environment = program, environment
        self.steps: list[Segment | Alone] = []
        self.recorded: list[Node] = []
        self.found: Environment = {}
        self.left = deque(program.nodes)
        self.uses = Counter(name for node in program.nodes for name in node.reads)
        self.uses.update(program.graph.outputs)

    def plan(self) -> list[Segment | Alone]:
        """The steps; afterwards the environment has all values."""
        while self.left:
            node = self.left.popleft()
            for name in node.reads:
                self.uses[name] -= 1
            values = [self._value(name) for name in (*node.inputs, *node.captured)]
            body = self._inlined(node, values)
            if body is not None:
                self.uses.update(name for inner in body for name in inner.reads)
                self.left.extendleft(reversed(body))
            else:
                self._step(node, values)
        self._end_segment()
        return self.steps

    def _value(self, name: str) -> Value:
        if not name:
            return None
        return self.found[name] if name in self.found else self.environment[name]

    def _step(self, node: Node, values: Sequence[Value]) -> None:
        """Record a node, or let it stand alone."""
        row = node.meaning
        assert isinstance(row, Operator)
        given = [x for name, x in zip(node.inputs, values, strict=False) if name]
        known = all(isinstance(x, Constant) for x in given) and not node.captured
        folded = self._folded(node, values) if known else None
        if folded is not None:
            self._keep(node, folded)
        elif (node.domain, node.kind) in SCANS and row.since >= SCANS[node.domain, node.kind] \
                and self._scan(node, values):
            return
        elif row.eager or any(map(is_foreign, given)) or any(
                row.is_host(i) and isinstance(x, lt.Tensor)
                for i, x in enumerate(values[:len(node.inputs)])):
            self._alone(node)
        else:
            try:
                self._keep(node, record(node, values, self.program.device))
            except NeedsHost:
                self._alone(node)

    def _folded(self, node: Node, values: Sequence[Value]) -> list[Constant] | None:
        """What a node on constants alone gives, if it is to be known beforehand."""
        return fold(node, values)

    def _scan(self, node: Node, values: Sequence[Value]) -> bool:
        """Record a loop as a scan, if it can be one."""
        graph = node.attributes["body"]
        program = self.program.body(graph)
        with named(node):
            made = as_scan(node, values, partial(_recorded, program), Body(program, {}))
        if made is None:
            return False
        given = [self._value(name) if name else None for name in made.inputs]
        if any(map(is_foreign, given)):
            return False
        try:
            self._keep(made, record(made, given, self.program.device))
        except NotRecorded:
            return False
        return True

    def _keep(self, node: Node, values: Sequence[Value]) -> None:
        self.recorded.append(node)
        self.found.update(zip(node.outputs, values, strict=True))

    def _alone(self, node: Node) -> None:
        for name in node.reads:
            self.uses[name] += 1
        self._end_segment()
        for name in node.reads:
            self.uses[name] -= 1
        step = Alone(node, self.program)
        step.run(self.environment)
        self.steps.append(step)

    def _end_segment(self) -> None:
        """Compile what was recorded, and run it."""
        if self.recorded:
            outputs = [name for name in self.found if name and self.uses[name] > 0]
            segment = Segment(self.recorded, outputs, self.program)
            segment.keep(self.environment, self.found)
            segment.run(self.environment)
            self.steps.append(segment)
        self.recorded, self.found = [], {}

    def _inlined(self, node: Node, values: Sequence[Value]) -> list[Node] | None:
        """The nodes of a function, or of the branch that a constant chooses; None for others.

        Behind a step that stands alone shapes may differ from call to call, so no branch is chosen
        there once and for all.
        """
        prefix = f"{node.name}.{next(self.program.numbers)}."
        if isinstance(node.meaning, Expansion):
            body = node.meaning.body or typed_body(node, values)
            return renamed(body, node.inputs, node.outputs, prefix)
        condition = values[0] if node.kind == "If" and not node.domain else None
        if not isinstance(condition, Constant) or any(isinstance(s, Alone) for s in self.steps):
            return None
        if condition.array.size != 1:
            raise lt.ShapeError(f"{node.title}: the condition has shape {condition.shape}, and "
                                f"must be one value")
        names = ["else_branch", "then_branch"]
        chosen = bool(condition.array)
        graph = node.attributes[names[chosen]]
        start = len(node.attributes["else_branch"].free) if chosen else 0
        captured = dict(zip(graph.free, node.captured[start:], strict=False))
        own = {name: prefix + name for name in graph.constants}
        for constants in (self.program.constants, self.environment):
            constants.update({own[name]: x for name, x in graph.constants.items()})
        return renamed(graph, (), node.outputs, prefix, {**captured, **own})


class _Recorder(_Planner):
    """Records all nodes, or raises NotRecorded for what cannot be."""

    def _step(self, node: Node, values: Sequence[Value]) -> None:
        row = node.meaning
        if isinstance(row, Operator) and not row.pure:
            raise NotRecorded
        super()._step(node, values)

    def _alone(self, node: Node) -> None:
        raise NotRecorded

    def _end_segment(self) -> None:
        """All of it belongs to the graph around it."""


class _Seldom(_Planner):
    """Goes through the nodes of a call whose like came so many times, this one, too, and may never
    come again: nothing is compiled."""

    def __init__(self, program: Program, environment: Environment, times: int) -> None:
        super().__init__(program, environment)
        self.times = times

    def _step(self, node: Node, values: Sequence[Value]) -> None:
        super()._step(unblocked(node), values)

    def _end_segment(self) -> None:
        wanted = {name: x for name, x in self.found.items() if name and self.uses[name] > 0}
        with seldom(self.times):
            _compute(list(wanted.values()))
        self.environment.update(wanted)
        self.recorded, self.found = [], {}


class _Sized(_Recorder):
    """Records all nodes, so that arrays which follow from sizes are expressions of these."""

    def __init__(self, program: Program, environment: Environment) -> None:
        super().__init__(program, environment)
        self.on_host = on_host(program.nodes)
        self.told: list[int] = []

    def _folded(self, node: Node, values: Sequence[Value]) -> list[Constant] | None:
        found = folded(node, values, self.on_host)
        if found is not None and any(isinstance(x, OfSizes) for x in values):
            assert isinstance(node.meaning, Operator)
            if not node.meaning.shapes or any(name in self.on_host for name in node.outputs) \
                    or node.kind == "Range":
                self.told += told_by(node, values, found)
        return found

    def _scan(self, node: Node, values: Sequence[Value]) -> bool:
        """See _Planner; NotRecorded for a loop in which something is to be known of sizes."""
        body = self.program.body(node.attributes["body"])
        if any(map(_may_count, values)) or not on_host(body.nodes) <= body.constants.keys() or any(
                isinstance(x, Graph) for n in body.nodes for x in n.attributes.values()):
            raise NotRecorded
        return super()._scan(node, values)

    def _inlined(self, node: Node, values: Sequence[Value]) -> list[Node] | None:
        body = super()._inlined(node, values)
        self.on_host |= on_host(body or (), self.on_host)
        return body

    def _keep(self, node: Node, values: Sequence[Value]) -> None:
        assert isinstance(node.meaning, Operator)
        super()._keep(node, [of_sizes(x) for x in values] if node.meaning.shapes else values)


def _may_count(value: Value) -> bool:
    """Whether a loop may go as often as this says, which follows from sizes."""
    return isinstance(value, OfSizes) and (
        value.dtype.kind != "f" or math.prod(value.shape) <= FEW)


def _sized(program: Program, given: Mapping[str, Value], told: list[int]) -> list[Value]:
    """The outputs of a program, recorded at the sizes of its inputs; `told` gets numbers that
    follow from these. NotRecorded where outputs are on the host, or nodes have to stand alone."""
    recorder = _Sized(program, {**program.constants, **given})
    recorder.plan()
    told += recorder.told
    told += numbers_of_sizes(x for name, x in recorder.found.items() if name in recorder.on_host)
    found = [recorder._value(name) for name in program.graph.outputs]
    if not all(isinstance(x, lt.Tensor) for x in found):
        raise NotRecorded
    return found


def _recorded(program: Program, given: Mapping[str, Value]) -> list[Value]:
    """The outputs of a body, recorded, of its inputs and what it captures."""
    recorder = _Recorder(program, {**program.constants, **given})
    recorder.plan()
    return [recorder._value(name) for name in program.graph.outputs]
