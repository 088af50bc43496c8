"""Loop and Scan as part of the program around them: a scan, whose body is recorded once.

Where a loop's steps are known to be alike beforehand: how many there are follows from shapes, or
from states that do, and its states keep their shapes. All other loops run by themselves
(operators/control.py).

Exporters write loops over time with counters of their own, and a condition that compares one with
a length. Nodes that read nothing else are run beforehand, on constants; what they give is known, as
the shapes are that it comes from.
"""
from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

import lazyten as lt
from lazyten.frontend.core.handle import Handle
from lazyten.onnx.evaluation import NotRecorded, fold
from lazyten.onnx.graph import Graph, Node
from lazyten.onnx.listening import as_graphs
from lazyten.onnx.repeating import Body
from lazyten.onnx.table import Operator
from lazyten.onnx.values import Array, Constant, Value, to_tensor
from lazyten.operators.arrays.loops import looped
from lazyten.storage.device import executor
from lazyten.support.errors import ShapeError

Record = Callable[[Mapping[str, Value]], list[Value]]
"""The outputs of a body, recorded, of its inputs and what it captures. Raises NotRecorded."""
Tensors = list[lt.Tensor]
Step = Callable[[Tensors, Tensors], tuple[Tensors, Tensors]]
"""Of a step's rows and the states before it: the states after it, and what it gives."""


Ints = list[int] | None
Run = Callable[[list[Value], list[lt.Tensor], int, int], tuple[list[Value], list[lt.Tensor]]]
"""Of states, rows, how many these are and how many outputs there are beside the states: the last
states, and what all steps give."""


def as_scan(node: Node, values: Sequence[Value], record: Record, body: Body) -> Node | None:
    """A node that reads what steps read, captured values too, and is a scan; None for a loop that
    has to run by itself. values: of a Loop's or a Scan's inputs, and of what its body captures."""
    if node.kind == "Scan":
        return _scanning(node, record)
    foreseen = foresee(body, values[:len(node.inputs)], dict(zip(
        body.program.graph.free, values[len(node.inputs):], strict=True)))
    return None if foreseen is None or foreseen.length < 2 else _looping(node, record, foreseen)


def _scanning(node: Node, record: Record) -> Node:
    body, taken = node.attributes["body"], len(node.inputs)
    options = {name: node.attributes.get(name) for name in (
        "scan_input_axes", "scan_input_directions", "scan_output_axes", "scan_output_directions")}

    def function(*given: Value) -> tuple[lt.Tensor, ...]:
        tensors = [to_tensor(x, None) for x in given]
        inner = dict(zip(body.free, tensors[taken:], strict=True))
        return along(tensors[:taken], lambda states, rows, length, _: _run(
            body, record, inner, states, rows, Foreseen(length), False),
            node.attributes["num_scan_inputs"], outputs=len(node.outputs), **options)
    return _around(node, node.inputs, function)


def _looping(node: Node, record: Record, foreseen: Foreseen) -> Node:
    """A Loop that reads its states but for those that are foreseen."""
    body = node.attributes["body"]
    read = [name for i, name in enumerate(node.inputs[2:]) if i not in foreseen.states]

    def function(*given: Value) -> tuple[lt.Tensor, ...]:
        tensors = [to_tensor(x, None) for x in given]
        inner = dict(zip(body.free, tensors[len(read):], strict=True))
        states, rows = _run(body, record, inner, tensors[:len(read)], [], foreseen, True)
        return (*states, *rows)
    return _around(node, read, function)


def _around(node: Node, inputs: Sequence[str], function: Callable[..., tuple[lt.Tensor, ...]]
            ) -> Node:
    """A node of the same outputs that calls a function of inputs and captured values."""
    row = node.meaning
    assert isinstance(row, Operator)
    meaning = replace(row, function=function, inputs=("inputs",), required=0, variadic=True,
                      attributes=frozenset(), given=frozenset(), host=frozenset(), eager=False,
                      raw=False)
    return Node(node.name, node.domain, node.kind, node.opset, (*inputs, *node.captured),
                node.outputs, meaning)


def along(inputs: Sequence[Value], run: Run, num_scan_inputs: int, scan_input_axes: Ints,
          scan_input_directions: Ints, scan_output_axes: Ints, scan_output_directions: Ints,
          outputs: int) -> tuple[Value, ...]:
    """What `run` gives of states, and of rows along the first axis."""
    states = list(inputs[:len(inputs) - num_scan_inputs])
    axes = scan_input_axes or [0] * num_scan_inputs
    backwards = scan_input_directions or [0] * num_scan_inputs
    scanned = []
    for value, axis, back in zip(inputs[len(states):], axes, backwards, strict=True):
        rows = to_tensor(value, None).movedim(axis, 0)
        scanned.append(rows.flip(0) if back else rows)
    lengths = {rows.shape[0] for rows in scanned}
    if len(lengths) != 1:
        raise ShapeError(f"scanned inputs of lengths {sorted(lengths)}: they must be equal")
    states, collected = run(states, scanned, lengths.pop(), outputs - len(states))
    places = scan_output_axes or [0] * len(collected)
    turned = scan_output_directions or [0] * len(collected)
    stacked = [(parts.flip(0) if back else parts).movedim(0, axis)
               for parts, axis, back in zip(collected, places, turned, strict=True)]
    return (*states, *stacked)


def scanned(step: Step, rows: Tensors, states: Tensors, others: Tensors, *,
            known: Sequence[Array] = (), reverse: bool = False, length: int = 0
            ) -> tuple[Tensors, Tensors] | None:
    """The states after all steps, and what each gave, as a scan; None if there is none, or only one
    step. rows: what steps read one of, after those whose values are `known`. others: what steps
    read that is the same for all."""
    inputs = [*states, *rows, *others]
    length = length or rows[0].shape[0]
    if length < 2 or not inputs or not executor(inputs[0]._storage.device).has_offsets:
        return None  # without offsets all steps would be written out
    ahead = [lt.tensor(x, device=inputs[0].device) for x in known]

    def nodes(own: Sequence[Any], before: Sequence[Any]) -> tuple[list[Any], list[Any]]:
        given = [[_tensor(n, inputs[0]) for n in part] for part in (own, before)]
        after, found = step(*given)
        return [x.node for x in after], [x.node for x in found]
    with as_graphs():
        found = looped(nodes, [x.node for x in (*ahead, *rows)], [x.node for x in states], length,
                       dict(enumerate(known)), reverse)
    if found is None:
        return None
    ends, given = ([lt.Tensor._result(n, *inputs) for n in part] for part in found)
    return ends, given


def _tensor(node: Any, like: lt.Tensor) -> lt.Tensor:
    """What a step reads, where another tensor is."""
    return Handle._of(node, like._storage.device)


def _run(body: Graph, record: Record, captured: Mapping[str, Value], states: Tensors,
         rows: Tensors, foreseen: Foreseen, counts: bool) -> tuple[Tensors, Tensors]:
    """The last states, and what all steps give. states: those that are not foreseen. counts: the
    body takes its number and a condition."""
    inputs = [*states, *rows, *captured.values()]
    if not all(isinstance(x, lt.Tensor) for x in inputs):
        raise NotRecorded
    length, names = foreseen.length, [x.name for x in body.inputs]
    known = [np.arange(length), *(x[:-1] for x in foreseen.states.values())][not counts:]
    ahead = [names[0], *(names[2 + i] for i in foreseen.states)][not counts:]
    own_names = [*ahead, *names[len(names) - len(rows):]]
    count = len(states) + len(foreseen.states)
    left = [i for i in range(count) if i not in foreseen.states]

    def step(own: Tensors, before: Tensors) -> tuple[Tensors, Tensors]:
        given = {**captured, **dict(zip(own_names, own, strict=True)),
                 **{names[2 * counts + i]: x for i, x in zip(left, before, strict=True)}}
        if counts:
            given[names[1]] = Constant(np.array(True))
        found = [to_tensor(x, inputs[0].device) for x in record(given)][counts:]
        if not all(isinstance(x, lt.Tensor) for x in found):
            raise NotRecorded
        return [found[i] for i in left], found[count:]
    found = scanned(step, rows, states, [*captured.values()], known=known, length=length)
    if found is None:
        raise NotRecorded
    ends = iter(found[0])
    return [lt.tensor(foreseen.states[i][-1], device=inputs[0].device)
            if i in foreseen.states else next(ends) for i in range(count)], found[1]


# ---- what is known before a loop runs ------------------------------------------------------------

MOST_STEPS = 1 << 12
"""Steps of a loop that is run beforehand."""
SMALL = 64
"""Elements of a state that is a count."""


@dataclass(frozen=True)
class Foreseen:
    """length: how many steps there are. states: by its place, a state's values before each step and
    after the last."""

    length: int
    states: Mapping[int, Array] = field(default_factory=dict)


def foresee(body: Body, inputs: Sequence[Value], captured: Mapping[str, Value]) -> Foreseen | None:
    """What is known of a Loop with these inputs and what its body captures; None if it is not known
    how many steps it does."""
    count, going, *first = inputs
    goes_on = body.always_goes()
    if not (count is None and not goes_on or isinstance(count, Constant)) \
            or not (going is None or isinstance(going, Constant)):
        return None
    most = MOST_STEPS + 1 if count is None else int(count.array.item())
    if going is not None and not going.array.all():
        most = 0
    constants = {**body.program.constants,
                 **{n: x for n, x in captured.items() if isinstance(x, Constant)}}
    counts = _Counts(body, constants, first)
    if not goes_on and not counts.ends:
        return None
    if goes_on and (most > MOST_STEPS or not counts.states):
        return Foreseen(most)
    return counts.run(min(most, MOST_STEPS + 1), goes_on)


class _Counts:
    """The nodes of a body that follow from its number and from states which they make: `states`, by
    their places. ends: whether the condition is among what they make."""

    def __init__(self, body: Body, constants: Mapping[str, Constant], first: Sequence[Value]
                 ) -> None:
        self.names, self.after = body.names, body.program.graph.outputs
        self.nodes, self.constants = body.program.nodes, constants
        self.states = {i: x for i, x in enumerate(first)
                       if isinstance(x, Constant) and x.array.size <= SMALL}
        known = self._known()
        while lost := [i for i in self.states if self.after[1 + i] not in known]:
            for i in lost:
                del self.states[i]
            known = self._known()
        self.ends = self.after[0] in known
        self.steps = [n for n in self._needed() if known.issuperset(n.outputs)]

    def _known(self) -> set[str]:
        """Names of what follows from the number, the states and constants."""
        known = {"", *self.names[:2], *self.constants, *(self.names[2 + i] for i in self.states)}
        for node in self.nodes:
            if _is_plain(node) and known.issuperset(node.reads):
                known.update(node.outputs)
        return known

    def _needed(self) -> list[Node]:
        """The nodes that the condition and the states after a step are made by."""
        wanted = {self.after[0], *(self.after[1 + i] for i in self.states)}
        found = []
        for node in reversed(self.nodes):
            if wanted.intersection(node.outputs):
                wanted.update(node.reads)
                found.append(node)
        return found[::-1]

    def run(self, most: int, goes_on: bool) -> Foreseen | None:
        """All steps; None if there are more than MOST_STEPS, or states change their shape."""
        states, yes = dict(self.states), Constant(np.array(True))
        values: dict[int, list[Array]] = {i: [x.array] for i, x in states.items()}
        length, going = 0, True
        while going and length < most:
            known: dict[str, Value] = {
                **self.constants, self.names[0]: Constant(np.array(length)), self.names[1]: yes,
                **{self.names[2 + i]: x for i, x in states.items()}}
            for node in self.steps:
                found = fold(node, [known[name] if name else None for name in node.inputs])
                if found is None:
                    return None
                known.update(zip(node.outputs, found, strict=True))
            for i in states:
                new = known[self.after[1 + i]]
                assert isinstance(new, Constant)
                states[i] = new
                values[i].append(new.array)
            if not goes_on:
                flag = known[self.after[0]]
                assert isinstance(flag, Constant)
                going = bool(flag.array.all())
            length += 1
        alike = all(x.shape == rows[0].shape and x.dtype == rows[0].dtype
                    for rows in values.values() for x in rows)
        if length > MOST_STEPS or not alike:
            return None
        return Foreseen(length, {i: np.stack(rows) for i, rows in values.items()})


def _is_plain(node: Node) -> bool:
    """Whether it can be run on constants."""
    return isinstance(node.meaning, Operator) and node.meaning.pure and not any(
        isinstance(x, Graph) for x in node.attributes.values())
