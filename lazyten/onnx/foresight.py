"""What is known of a loop before it runs: its steps, and the states that follow from their number.

Exporters write loops over time with counters of their own, and a condition that compares one with
a length. Nodes that read nothing else are run beforehand, on constants; what they give is known, as
the shapes are that it comes from.
"""
from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from lazyten.onnx.evaluation import fold
from lazyten.onnx.graph import Graph, Node
from lazyten.onnx.repeating import Body
from lazyten.onnx.table import Operator
from lazyten.onnx.values import Array, Constant, Value

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
    if not goes_on and not counts.ends or goes_on and (most > MOST_STEPS or not counts.states):
        return Foreseen(most) if goes_on else None
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
