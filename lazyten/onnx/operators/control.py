"""Operators with subgraphs: If, Loop, Scan. A subgraph comes as a function of its inputs."""
from __future__ import annotations

from collections.abc import Callable

import lazyten as lt
from lazyten.onnx.table import operator
from lazyten.onnx.values import Value, to_array, to_tensor
from lazyten.support.errors import ArgumentError, ShapeError

Body = Callable[..., list[Value]]


def _flag(value: Value, what: str) -> bool:
    array = to_array(value)
    if array.size != 1:
        raise ShapeError(f"{what} of shape {array.shape}: it must be one value")
    return bool(array.ravel()[0])


@operator("If", eager=True, raw=True, pure=False)
def choose(condition: Value, *, then_branch: Body, else_branch: Body) -> tuple[Value, ...]:
    """The outputs of one branch."""
    return tuple((then_branch if _flag(condition, "the condition") else else_branch)())


def _stacked(parts: list[Value], what: str) -> Value:
    if not parts:
        raise ArgumentError(f"{what} has no steps, so the shape of what it collects is not known")
    return lt.stack([to_tensor(x, None) for x in parts])


@operator("Loop", eager=True, raw=True, pure=False)
def loop(trips: Value = None, condition: Value = None, *initial: Value, body: Body,
         outputs: int = 1) -> tuple[Value, ...]:
    """The body again and again: so many times, while a condition holds. Its first results are
    given to the next time, the others are collected."""
    count = None if trips is None else int(to_array(trips).item())
    going = condition is None or _flag(condition, "the condition")
    carried = list(initial)
    collected: list[list[Value]] = [[] for _ in range(outputs - len(initial))]
    done = 0
    while going and (count is None or done < count):
        number = lt.tensor(done, dtype=lt.int64)
        flag, *found = body(number, lt.tensor(True), *carried)
        going = _flag(flag, "the condition that the body gives")
        carried, rest = found[:len(initial)], found[len(initial):]
        for parts, value in zip(collected, rest, strict=True):
            parts.append(value)
        done += 1
    return (*carried, *(_stacked(parts, "the loop") for parts in collected))


@operator("Scan", since=9, eager=True, raw=True, pure=False)
def scan(*inputs: Value, body: Body, num_scan_inputs: int, scan_input_axes: list[int] | None = None,
         scan_input_directions: list[int] | None = None, scan_output_axes: list[int] | None = None,
         scan_output_directions: list[int] | None = None, outputs: int = 1) -> tuple[Value, ...]:
    """The body for each slice of the scanned inputs, with states given on."""
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
    collected: list[list[Value]] = [[] for _ in range(outputs - len(states))]
    for t in range(lengths.pop()):
        found = body(*states, *(rows[t] for rows in scanned))
        states, rest = found[:len(states)], found[len(states):]
        for parts, value in zip(collected, rest, strict=True):
            parts.append(value)
    places = scan_output_axes or [0] * len(collected)
    turned = scan_output_directions or [0] * len(collected)
    stacked = [_stacked(parts[::-1] if back else parts, "the scan").movedim(0, axis)
               for parts, axis, back in zip(collected, places, turned, strict=True)]
    return (*states, *stacked)


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


