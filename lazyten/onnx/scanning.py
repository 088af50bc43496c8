"""Loop and Scan as part of the program around them: a scan, whose body is recorded once.

Where a loop's steps are known to be alike beforehand: it is not ended by what it computes, how many
steps there are follows from shapes, and its states keep their shapes. All other loops run by
themselves (operators/control.py).
"""
from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

import lazyten as lt
from lazyten.frontend.core.handle import Handle
from lazyten.onnx.graph import Graph, Node
from lazyten.onnx.listening import as_graphs
from lazyten.onnx.table import Operator
from lazyten.onnx.values import Constant, Value, to_tensor
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


class NotRecorded(Exception):
    """A body, or a loop, has to run by itself."""


def as_scan(node: Node, values: Sequence[Value], record: Record, always_goes: bool) -> Node | None:
    """A node that reads what steps read, captured values too, and is a scan; None for a loop that
    has to run by itself. values: of a Loop's or a Scan's inputs."""
    is_loop = node.kind == "Loop"
    start = 2 if is_loop else 0
    if is_loop:
        count, going = values[:2]
        if not isinstance(count, Constant) or not always_goes or not (
                going is None or isinstance(going, Constant) and bool(going.array.all())):
            return None
        length = int(count.array.item())
        if length < 2:
            return None
    row = node.meaning
    assert isinstance(row, Operator)
    body, taken = node.attributes["body"], len(node.inputs) - start

    def function(*given: Value) -> tuple[lt.Tensor, ...]:
        tensors = [to_tensor(x, None) for x in given]
        inner = dict(zip(body.free, tensors[taken:], strict=True))
        if is_loop:
            states, rows = _run(body, record, inner, tensors[:taken], [], length, True)
            return (*states, *rows)
        options = {name: node.attributes.get(name) for name in (
            "scan_input_axes", "scan_input_directions", "scan_output_axes",
            "scan_output_directions")}
        return along(tensors[:taken], lambda states, rows, length, count: _run(
            body, record, inner, states, rows, length, False),
            node.attributes["num_scan_inputs"], outputs=len(node.outputs), **options)
    meaning = replace(row, function=function, inputs=("inputs",), required=0, variadic=True,
                      attributes=frozenset(), given=frozenset(), host=frozenset(), eager=False,
                      raw=False)
    return Node(node.name, node.domain, node.kind, node.opset,
                (*node.inputs[start:], *node.captured), node.outputs, meaning)


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


def scanned(step: Step, rows: Tensors, states: Tensors, others: Tensors, *, counts: bool = False,
            reverse: bool = False, length: int = 0) -> tuple[Tensors, Tensors] | None:
    """The states after all steps, and what each gave, as a scan; None if there is none, or only one
    step. rows: what steps read one of, after the step's number if it `counts`. others: what steps
    read that is the same for all."""
    inputs = [*states, *rows, *others]
    length = length or rows[0].shape[0]
    if length < 2 or not inputs or not executor(inputs[0]._storage.device).has_offsets:
        return None  # without offsets all steps would be written out
    numbers = [lt.arange(length, device=inputs[0].device)] if counts else []

    def nodes(own: Sequence[Any], before: Sequence[Any]) -> tuple[list[Any], list[Any]]:
        given = [[_tensor(n, inputs[0]) for n in part] for part in (own, before)]
        after, found = step(*given)
        return [x.node for x in after], [x.node for x in found]
    with as_graphs():
        found = looped(nodes, [x.node for x in (*numbers, *rows)], [x.node for x in states], length,
                       0 if counts else None, reverse)
    if found is None:
        return None
    ends, given = ([lt.Tensor._result(n, *inputs) for n in part] for part in found)
    return ends, given


def _tensor(node: Any, like: lt.Tensor) -> lt.Tensor:
    """What a step reads, where another tensor is."""
    found: lt.Tensor = Handle._of(node, like._storage.device)
    return found


def _run(body: Graph, record: Record, captured: Mapping[str, Value], states: Tensors,
         rows: Tensors, length: int, counts: bool) -> tuple[Tensors, Tensors]:
    """The last states, and what all steps give. counts: the body takes its number and a
    condition."""
    inputs = [*states, *rows, *captured.values()]
    if not all(isinstance(x, lt.Tensor) for x in inputs):
        raise NotRecorded
    names = [x.name for x in body.inputs][2 * counts:]

    def step(own: Tensors, before: Tensors) -> tuple[Tensors, Tensors]:
        given: dict[str, Value] = dict(captured)
        if counts:
            given[body.inputs[0].name], given[body.inputs[1].name] = own[0], Constant(
                np.array(True))
        given.update(zip(names, [*before, *own[counts:]], strict=True))
        found = [to_tensor(x, inputs[0].device) for x in record(given)][counts:]
        if not all(isinstance(x, lt.Tensor) for x in found):
            raise NotRecorded
        return found[:len(states)], found[len(states):]
    found = scanned(step, rows, states, [*captured.values()], counts=counts, length=length)
    if found is None:
        raise NotRecorded
    return found
