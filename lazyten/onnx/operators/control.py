"""Operators with subgraphs: If, Loop, Scan. A subgraph comes as a function of its inputs."""
from __future__ import annotations

import sys
from functools import partial

import numpy as np
from onnx import TensorProto

import lazyten as lt
from lazyten.onnx.repeating import BLOCK, Block, Body, Step
from lazyten.onnx.scanning import along
from lazyten.onnx.table import operator
from lazyten.onnx.tensors import numpy_type
from lazyten.onnx.values import Value, to_array, to_tensor
from lazyten.support.errors import ArgumentError, DTypeError, IndexingError, ShapeError


def _flag(value: Value, what: str) -> bool:
    array = to_array(value)
    if array.size != 1:
        raise ShapeError(f"{what} of shape {array.shape}: it must be one value")
    return bool(array.ravel()[0])


@operator("If", eager=True, raw=True, pure=False)
def choose(condition: Value, *, then_branch: Body, else_branch: Body) -> tuple[Value, ...]:
    """The outputs of one branch."""
    return tuple((then_branch if _flag(condition, "the condition") else else_branch)())


class _Collected:
    """What the steps of a loop give, one behind the other."""

    def __init__(self, count: int) -> None:
        self.blocks: list[list[lt.Tensor]] = [[] for _ in range(count)]
        self.single: list[list[Value]] = [[] for _ in range(count)]

    def add(self, values: list[Value]) -> None:
        """Those of one step."""
        for parts, value in zip(self.single, values, strict=True):
            parts.append(value)

    def extend(self, values: list[lt.Tensor]) -> None:
        """Those of several steps, along the first axis."""
        self._gather()
        for parts, value in zip(self.blocks, values, strict=True):
            parts.append(value)

    def _gather(self) -> None:
        for parts, single in zip(self.blocks, self.single, strict=True):
            if single:
                parts.append(lt.stack([to_tensor(x, None) for x in single]))
                single.clear()

    def stacked(self) -> list[lt.Tensor]:
        """All of them, each output's along a new first axis."""
        self._gather()
        return [parts[0] if len(parts) == 1 else lt.cat(parts) for parts in self.blocks]


def _of_no_steps(body: Body, values: list[Value], first: int) -> list[Value]:
    """What a loop collects that does nothing: no rows of the shapes that a step would give. Where
    it fails, as nothing is what it expects, of the shapes that the file says, sizes that it does
    not say being 0, as in onnxruntime."""
    try:
        return [to_tensor(x, None)[None][:0] for x in body(*values)[first:]]
    except (ArgumentError, DTypeError, IndexingError, ShapeError):
        declared = body.program.graph.declared[first:]
        if not all(x.is_tensor and x.dtype for x in declared):
            raise
    return [to_tensor(np.zeros((0, *[n if isinstance(n, int) else 0 for n in x.shape or ()]),
                               numpy_type(TensorProto.DataType.Value(x.dtype))), body.device)
            for x in declared]


@operator("Loop", eager=True, raw=True, pure=False)
def loop(trips: Value = None, condition: Value = None, *initial: Value, body: Body,
         outputs: int = 1) -> tuple[Value, ...]:
    """The body again and again: so many times, while a condition holds. Its first results are
    given to the next time, the others are collected."""
    count = sys.maxsize if trips is None else int(to_array(trips).item())
    going = condition is None or _flag(condition, "the condition")
    looks = not body.always_goes()
    if trips is None and going and not looks:
        raise ArgumentError("a loop of no number of steps, whose condition always holds, has no "
                            "end")
    carried, states = list(initial), len(initial)
    if (not going or count <= 0) and outputs > states:
        return (*carried, *_of_no_steps(body, [
            lt.tensor(0, device=body.device), lt.tensor(True, device=body.device), *carried],
                                        states + 1))
    if going and not states and not looks and (rows := body.segments(count)) is not None:
        return tuple(rows)
    collected, done, yes = _Collected(outputs - states), 0, lt.tensor(
        True, device=body.device)
    step: Step | None = None
    block: Block | None = None
    while going and done < count:
        number = lt.tensor(done, device=body.device)
        found = block(number, carried, ()) if block and not block.failed and \
            count - done >= BLOCK else None
        if found is not None:
            more, going, carried, rest = found
            collected.extend(rest)
            done += more
            continue
        given = [number, yes, *carried]
        flag, *parts = body(*given) if step is None else step(*given)
        going = not looks or _flag(flag, "the condition that the body gives")
        carried = parts[:states]
        collected.add(parts[states:])
        done += 1
        step = step or body.step(given, slice(2, None), carried)
        if step and not block:
            block = step.block(states, 0, True, looks)
    return (*carried, *collected.stacked())


@operator("Scan", since=9, eager=True, raw=True, pure=False)
def scan(*inputs: Value, body: Body, num_scan_inputs: int, scan_input_axes: list[int] | None = None,
         scan_input_directions: list[int] | None = None, scan_output_axes: list[int] | None = None,
         scan_output_directions: list[int] | None = None, outputs: int = 1) -> tuple[Value, ...]:
    """The body for each slice of the scanned inputs, with states given on."""
    return along(inputs, partial(_scanned, body), num_scan_inputs, scan_input_axes,
                 scan_input_directions, scan_output_axes, scan_output_directions, outputs)


def _scanned(body: Body, states: list[Value], scanned: list[lt.Tensor], length: int,
             outputs: int) -> tuple[list[Value], list[lt.Tensor]]:
    """The last states, and what all steps give."""
    if not length:
        rows = [lt.zeros(x.shape[1:], dtype=x.dtype, device=x.device) for x in scanned]
        return states, _of_no_steps(body, [*states, *rows], len(states))
    collected, done, first = _Collected(outputs), 0, lt.tensor(0, device=body.device)
    step: Step | None = None
    block: Block | None = None
    while done < length:
        found = block(first, states, [rows[done:done + BLOCK].clone() for rows in scanned]) \
            if block and not block.failed and length - done >= BLOCK else None
        if found is not None:
            _, _, states, rest = found
            collected.extend(rest)
            done += BLOCK
            continue
        given = [*states, *(rows[done] for rows in scanned)]
        parts = body(*given) if step is None else step(*given)
        collected.add(parts[len(states):])
        states = parts[:len(states)]
        done += 1
        step = step or body.step(given, slice(0, len(states)), states)
        if step and not block:
            block = step.block(len(states), len(scanned), False, False)
    return states, collected.stacked()


@operator("Scan", since=8, eager=True, raw=True, pure=False)
def scan_8(lengths: Value = None, *inputs: Value, body: Body, num_scan_inputs: int,
           directions: list[int] | None = None, outputs: int = 1) -> tuple[Value, ...]:
    """A scan along the second axis of each example of a batch."""
    first = to_tensor(inputs[-1], None)
    count = first.shape[0]
    ends: list[int] | None = None if lengths is None else to_array(lengths).tolist()
    results = []
    for n in range(count):
        parts = [to_tensor(x, None)[n] for x in inputs]
        if ends is not None:
            given = len(parts) - num_scan_inputs
            parts = parts[:given] + [x[:ends[n]] for x in parts[given:]]
        results.append(scan(*parts, body=body, num_scan_inputs=num_scan_inputs,
                            scan_input_directions=directions, outputs=outputs))
    return tuple(lt.stack([to_tensor(x, None) for x in column])
                 for column in zip(*results, strict=True))


