"""Makes a launch smaller as long as it still fails: fewer ops, smaller extents, simpler inputs.

In: a launch, what it is to fail at, and a device that is trusted. Out: a launch that fails too, of
which no step here gives a smaller one that does. Steps are tried from the boldest on: a single op
on the values that it got, a part of the expression, an op replaced by its values, half of an axis,
inputs of zeros and ones.
"""
from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from lazyten.execution.launch_file import Launch
from lazyten.ir import ops
from lazyten.ir.dtype import DType
from lazyten.ir.kernel import Kernel, Slot
from lazyten.ir.node import Node, expand, make, rebuild, reshape, substitute, toposort
from lazyten.ir.ops import ELEMENTWISE, Op

Array = np.ndarray[Any, Any]
Values = Mapping[Node, Array]
Fails = Callable[[Launch], bool]
Run = Callable[[Launch], list[Array]]

MOST_VALUES = 1 << 26
"""Elements of a kernel's nodes in all up to which each is computed, to run ops one by one."""

MOST_TRIED = 4
"""Elements of an input that are tried as the value of all of it."""

_fresh = itertools.count(1 << 20)
"""Numbers of leaves until `_launch` gives them those of arguments."""


def shrink(launch: Launch, fails: Fails, trusted: Run) -> Launch:
    """The smallest launch that the steps lead to. trusted: gives the values of expressions."""
    launch = replace(launch, source="")
    if launch.kernel.decisions is not None:
        plain = replace(launch, kernel=replace(launch.kernel, decisions=None))
        if not fails(plain):  # it takes just these decisions: the expression stays as it is
            return _smaller(launch, fails, [_simpler_inputs])
        launch = plain
    return _smaller(launch, fails, [partial(_parts, trusted=trusted), _halves, _simpler_inputs])


def _smaller(launch: Launch, fails: Fails,
             steps: Sequence[Callable[[Launch], Iterator[Launch]]]) -> Launch:
    """The first candidate of the first step that fails, and so on from there."""
    again = True
    while again:
        again = False
        for step in steps:
            found = next((c for c in step(launch) if fails(c)), None)
            if found is not None:
                launch, again = found, True
                break
    return launch


# ---- launches ------------------------------------------------------------------------------------

def _leaves(launch: Launch) -> dict[Node, Array]:
    """The BUFFER nodes of a kernel and what they hold."""
    count = len(launch.kernel.outputs)
    return {n: launch.inputs[n.arg.slot - count]
            for n in toposort(launch.kernel.outputs) if n.op is Op.BUFFER}


def _launch(like: Launch, outputs: Sequence[Node], leaves: Values) -> Launch:
    """A launch of some outputs, with arguments for the leaves that these read."""
    used = [n for n in toposort(outputs) if n.op is Op.BUFFER]
    numbered = {n: make(Op.BUFFER, n.dtype, (), Slot(len(outputs) + i, n.arg.size))
                for i, n in enumerate(used)}
    kernel = Kernel(like.kernel.name, tuple(substitute(outputs, numbered)),
                    tuple((n.dtype, n.arg.size) for n in used), like.kernel.where,
                    like.kernel.decisions, like.kernel.checks)
    return replace(like, kernel=kernel, inputs=tuple(leaves[n] for n in used))


def _leaf(dtype: DType, values: Array, shape: tuple[int, ...]) -> tuple[Node, Node]:
    """A new BUFFER for values, and what reads it as an array of a shape."""
    buffer = make(Op.BUFFER, dtype, (), Slot(next(_fresh), values.size))
    return buffer, reshape(buffer, shape)


# ---- fewer ops -----------------------------------------------------------------------------------

def _is_op(node: Node) -> bool:
    """Whether a node computes or moves anything; a BUFFER in its shape is one read."""
    if node.op in (Op.BUFFER, Op.CONST, Op.IOTA):
        return False
    return node.op is not Op.RESHAPE or node.src[0].op is not Op.BUFFER


def _parts(launch: Launch, trusted: Run) -> Iterator[Launch]:
    """Launches with fewer ops, those with the fewest first."""
    outputs, leaves = launch.kernel.outputs, _leaves(launch)
    made = [n for n in toposort(outputs) if _is_op(n) and n.numel]
    if len(made) > 1:
        values = _values(launch, made, leaves, trusted)
        cut = {n: _leaf(n.dtype, v, n.shape) for n, v in values.items()}
        known = {**leaves, **{buffer: values[n] for n, (buffer, _) in cut.items()}}
        reads = {n: read for n, (_, read) in cut.items()}
        for node in made:  # alone
            if all(s in reads or not _is_op(s) for s in node.src):
                src = tuple(reads.get(s, s) for s in node.src)
                yield _launch(launch, [rebuild(node, src)], known)
        for node in made:  # without what uses it
            if (node,) != outputs:
                yield _launch(launch, [node], leaves)
        for node in (n for n in made if n in reads and n not in outputs):  # its values in its place
            yield _launch(launch, substitute(outputs, {node: reads[node]}), known)
    elif len(outputs) > 1:
        for node in outputs:
            yield _launch(launch, [node], leaves)


def _values(launch: Launch, made: Sequence[Node], leaves: Values,
            trusted: Run) -> dict[Node, Array]:
    """What the ops of a kernel give, on the trusted device; nothing where that is too much."""
    if sum(n.numel for n in made) > MOST_VALUES:
        return {}
    return dict(zip(made, trusted(_launch(replace(launch, target=""), made, leaves)), strict=True))


# ---- smaller extents -----------------------------------------------------------------------------

class _Whole(Exception):
    """An op whose result cannot be had from a part of its sources on the same axis."""


def _halves(launch: Launch) -> Iterator[Launch]:
    """Halves of an axis of the output, or of one that is reduced; then all but one element."""
    outputs, leaves = launch.kernel.outputs, _leaves(launch)
    for divide in (lambda n: ((0, n // 2), (n // 2, n)), lambda n: ((0, n - 1), (1, n))):
        for node in (n for n in toposort(outputs) if n.op is Op.REDUCE):
            for axis in node.arg[1]:
                for part in divide(node.src[0].shape[axis]):
                    yield from _with(launch, node, node.src[0], axis, part, leaves)
        for axis, size in enumerate(outputs[0].shape if len(outputs) == 1 else ()):
            for part in divide(size):
                yield from _with(launch, outputs[0], outputs[0], axis, part, leaves)


def _with(launch: Launch, node: Node, source: Node, axis: int, part: tuple[int, int],
          leaves: Values) -> Iterator[Launch]:
    """The launch with an output, or a REDUCE, of a part of its source."""
    cutter = _Cutter(leaves, part)
    try:
        cut = cutter.cut(source, axis)
    except _Whole:
        return
    new = cut if node is source else rebuild(node, (cut,))
    outputs = [new] if node is source else substitute(launch.kernel.outputs, {node: new})
    if 0 < part[1] - part[0] < source.shape[axis]:
        yield _launch(launch, outputs, cutter.leaves)


class _Cutter:
    """Takes elements `part`, from one to before the other, of expressions on an axis."""

    def __init__(self, leaves: Values, part: tuple[int, int]) -> None:
        self.leaves, self.part = dict(leaves), part
        self.done: dict[tuple[Node, int], Node] = {}

    def cut(self, node: Node, axis: int) -> Node:
        """The part of a node. _Whole where there is no such thing."""
        key = node, axis
        if key not in self.done:
            self.done[key] = self._cut(node, axis)
        return self.done[key]

    def _cut(self, node: Node, axis: int) -> Node:
        start, stop = self.part
        shape = (*node.shape[:axis], stop - start, *node.shape[axis + 1:])
        if node.op is Op.CONST:
            return make(Op.CONST, node.dtype, (), (node.value, shape))
        if node.op is Op.BUFFER or node.op is Op.RESHAPE and node.src[0].op is Op.BUFFER:
            values = self.leaves[node if node.op is Op.BUFFER else node.src[0]]
            here = (slice(None),) * axis + (slice(start, stop),)
            part = np.ascontiguousarray(values.reshape(node.shape)[here]).reshape(-1)
            buffer, read = _leaf(node.dtype, part, shape)
            self.leaves[buffer] = part
            return read
        if node.op in ELEMENTWISE or node.op is Op.REDUCE and axis not in node.arg[1]:
            return rebuild(node, tuple(self.cut(s, axis) for s in node.src))
        if node.op is Op.PERMUTE:
            return rebuild(node, (self.cut(node.src[0], node.arg[axis]),))
        if node.op is Op.EXPAND:
            source = node.src[0]
            grown = source if source.shape[axis] == 1 else self.cut(source, axis)
            return expand(grown, shape)
        raise _Whole


# ---- simpler inputs ------------------------------------------------------------------------------

def _simpler_inputs(launch: Launch) -> Iterator[Launch]:
    """An input, all of one value: 0, 1, one of its own; or rounded to a whole number."""
    for number, ((dtype, _), values) in enumerate(zip(launch.kernel.inputs, launch.inputs,
                                                      strict=True)):
        zero, one = (ops.encode(np.full(values.shape, v, dtype.compute), dtype) for v in (0, 1))
        candidates = [zero, one]
        if dtype.is_float:
            with np.errstate(all="ignore"):
                candidates.append(ops.encode(np.rint(ops.decode(values, dtype)), dtype))
        candidates += [np.full_like(values, v) for v in values[:MOST_TRIED]]
        for simple in candidates[:_rank(values, candidates)]:
            inputs = (*launch.inputs[:number], simple, *launch.inputs[number + 1:])
            yield replace(launch, inputs=inputs)


def _rank(values: Array, candidates: Sequence[Array]) -> int:
    """Where values stand among their candidates: only those before are simpler."""
    same = (i for i, c in enumerate(candidates) if c.tobytes() == values.tobytes())
    return next(same, len(candidates))
