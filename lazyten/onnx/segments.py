"""Loops over segments: a step takes the rows from one place to another, both looked up by its
number, computes something of each row, and reduces it over all of them, as bags of embeddings do.

In: the nodes of a loop's body. Out: all steps as one program. Each segment has as many rows there
as the longest, rounded up so that few programs are compiled; what is behind the end of a shorter
one is its last row again, which its sums leave out.
"""
from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

import lazyten as lt
from lazyten.capture.state.purity import trusted
from lazyten.onnx.evaluation import record
from lazyten.onnx.graph import Graph, Node
from lazyten.onnx.segment import drop_oldest
from lazyten.onnx.values import Array, Constant, Value, key_of, to_array, to_tensor

BY_ROWS = frozenset({"Cast", "Gather", "Identity", "Mul", "Unsqueeze"})
"""What is computed of rows, row by row."""
SAME = frozenset({"Identity", "Reshape", "Squeeze", "Unsqueeze"})
"""What leaves a single number as it is."""
REDUCTIONS = frozenset({"ReduceMax", "ReduceMean", "ReduceMin", "ReduceSum"})


class Reduction(NamedTuple):
    """Of rows by name; `keeps`: the axis of rows, with size 1."""

    kind: str
    rows: str
    keeps: bool


class _Unlike(Exception):
    """The body is, or its values are, something else."""


class Segments:
    """A loop over segments. bounds: names of the places where they begin, and end; slices: what is
    sliced, by the names of the slices; nodes: what is computed of these; reductions: its outputs.
    """

    def __init__(self, bounds: tuple[str, str], slices: Mapping[str, str], nodes: Sequence[Node],
                 reductions: Sequence[Reduction]) -> None:
        self.bounds, self.slices, self.nodes = bounds, slices, nodes
        self.reductions = reductions
        made = {*slices, *(name for node in nodes for name in node.outputs)}
        reads = (*slices.values(), *(name for node in nodes for name in node.reads))
        self.names = [name for name in dict.fromkeys(reads) if name not in made]
        self._programs: OrderedDict[Any, Any] = OrderedDict()

    def __call__(self, values: Mapping[str, Value], count: int,
                 device: str | None) -> list[Value] | None:
        """What `count` steps give, of these captured values and constants; None if a segment is
        empty, or if values are not what this is for."""
        given = {name: values[name] for name in self.names}
        sizes = {x.shape[0] for x in map(given.__getitem__, self.slices.values())
                 if isinstance(x, lt.Tensor | Constant) and x.shape}
        bounds = [to_array(values[name])[:count] for name in self.bounds]
        if len(sizes) != 1 or any(x.shape != (count,) for x in bounds):
            return None
        first, last = (_inside(x.astype(np.int64), *sizes) for x in bounds)
        lengths = last - first
        if not count or lengths.min() < 1:
            return None
        longest = _rounded(int(lengths.max()))
        key = longest, count, tuple(map(key_of, given.values()))
        if key not in self._programs:
            self._programs[key] = self._program(longest, given, device)
            drop_oldest(self._programs, len(self.nodes))
        return self._run(key, [lt.tensor(x, device=device) for x in (first, lengths)] + [
            x for x in given.values() if isinstance(x, lt.Tensor)])

    def _run(self, key: Hashable, tensors: Sequence[lt.Tensor]) -> list[Value] | None:
        program = self._programs[key]
        try:
            found: list[Value] | None = program and program(*tensors)
        except _Unlike:
            found = self._programs[key] = None
        return found

    def _program(self, longest: int, given: Mapping[str, Value], device: str | None) -> Any:
        """All steps, of the first row and the length of each and of those values that are tensors.
        """
        names = [name for name, x in given.items() if isinstance(x, lt.Tensor)]
        fixed = {name: x for name, x in given.items() if name not in names}
        for x in fixed.values():
            to_tensor(x, device)  # made now, and kept

        def steps(first: lt.Tensor, lengths: lt.Tensor, *tensors: lt.Tensor) -> list[lt.Tensor]:
            found = {**fixed, **dict(zip(names, tensors, strict=True))}
            number = lt.arange(longest, device=first.device)
            places = first[:, None] + lt.minimum(number, lengths[:, None] - 1)
            for name, source in self.slices.items():
                found[name] = to_tensor(found[source], device)[places.reshape(-1)]
            rows = {*self.slices}
            for node in self.nodes:
                found[node.outputs[0]], = record(node, _operands(node, found, rows), device)
                rows.add(node.outputs[0])
            inside = number < lengths[:, None]
            return [_reduced(r, found[r.rows], inside, lengths) for r in self.reductions]
        return lt.jit(trusted(steps))


def _operands(node: Node, found: Mapping[str, Value], rows: set[str]) -> list[Value]:
    """A node's inputs. Raises _Unlike where axes of rows would not meet each other alone."""
    values = [found[name] if name else None for name in node.inputs]
    if node.kind == "Mul":
        ranks = {len(found[name].shape) for name in node.inputs if name in rows}
        others = [len(found[name].shape) for name in node.inputs if name not in rows]
        if len(ranks) > 1 or any(n >= max(ranks) for n in others):
            raise _Unlike
    return values


def _reduced(reduction: Reduction, rows: lt.Tensor, inside: lt.Tensor,
             lengths: lt.Tensor) -> lt.Tensor:
    """One row a segment, of (segments * longest, ..)."""
    wide = rows.reshape(*inside.shape, *rows.shape[1:])
    if wide.dtype is lt.bool_ or reduction.kind == "ReduceMean" and not wide.is_floating_point():
        raise _Unlike
    if reduction.kind in ("ReduceMax", "ReduceMin"):
        found = wide.amax(1) if reduction.kind == "ReduceMax" else wide.amin(1)
    else:
        ones = (1,) * (wide.ndim - 2)
        found = lt.where(inside.reshape(*inside.shape, *ones), wide, 0).sum(1, dtype=wide.dtype)
        if reduction.kind == "ReduceMean":
            found = found / lengths.reshape(-1, *ones).to(wide.dtype)
    return found.unsqueeze(1) if reduction.keeps else found


def _inside(places: Array, size: int) -> Array:
    """Where a slice of an axis begins or ends."""
    return np.clip(np.where(places < 0, places + size, places), 0, size)


def _rounded(length: int) -> int:
    """At least so many: a power of two, or one and a half times one."""
    power = 1 << (length - 1).bit_length()
    return power * 3 // 4 if length <= power * 3 // 4 else power


class Finder:
    """What is known of a body: its segments, with the constants around it that it was read with."""

    def __init__(self, graph: Graph, nodes: Sequence[Node],
                 constants: Mapping[str, Constant]) -> None:
        self._graph, self._nodes, self._constants = graph, nodes, constants
        self._known: dict[str, Constant] | None = None
        self._found: Segments | None = None

    def __call__(self, captured: Mapping[str, Value]) -> Segments | None:
        """The segments that the body goes through; None if it does something else."""
        known = {name: x for name, x in captured.items() if isinstance(x, Constant)}
        if self._known is None or known.keys() != self._known.keys() or any(
                x is not self._known[name] for name, x in known.items()):
            self._known, self._found = known, self._read({**self._constants, **known})
        return self._found

    def _read(self, constants: Mapping[str, Constant]) -> Segments | None:
        try:
            return _Reader(self._graph, constants).read(self._nodes)
        except _Unlike:
            return None


class _Reader:
    """What is known of a body's values. places: those looked up by the step's number, and in what;
    slices, rows, reductions: by the names of their results."""

    def __init__(self, graph: Graph, constants: Mapping[str, Constant]) -> None:
        self.outputs = graph.outputs
        self.inputs = [x.name for x in graph.inputs]
        self.fixed = {*constants, *graph.free}  # the constants may be those around it, too
        self.constants = constants
        self.places: dict[str, str] = {}
        self.bounds: set[tuple[str, str]] = set()
        self.slices: dict[str, str] = {}
        self.rows: dict[str, Node] = {}
        self.reductions: dict[str, Reduction] = {}

    def read(self, nodes: Sequence[Node]) -> Segments:
        """The segments. Raises _Unlike."""
        if len(self.inputs) != 2:
            raise _Unlike
        for node in nodes:
            if node.domain or len(node.outputs) != 1 or node.captured or not node.inputs:
                raise _Unlike
            if node.outputs[0] != self.outputs[0]:  # that one is the condition
                self._take(node, node.outputs[0])
        if len(self.bounds) != 1 or not all(x in self.reductions for x in self.outputs[1:]):
            raise _Unlike
        return Segments(self.bounds.pop(), self.slices, [*self.rows.values()],
                        [self.reductions[x] for x in self.outputs[1:]])

    def _take(self, node: Node, name: str) -> None:
        """One more node."""
        first, rest = node.inputs[0], node.inputs[1:]
        by_axis_0 = not node.attributes.get("axis", 0)
        if node.kind == "Gather" and by_axis_0 and first in self.fixed \
                and rest[0] == self.inputs[0]:
            self.places[name] = first
        elif node.kind in SAME and first in self.places:
            self.places[name] = self.places[first]
        elif node.kind == "Slice" and first in self.fixed and self._is_cut(rest):
            self.bounds.add((self.places[rest[0]], self.places[rest[1]]))
            self.slices[name] = first
        elif node.kind in REDUCTIONS and self._is_row(first) and self._axes(node) == [0]:
            self.reductions[name] = Reduction(node.kind, first,
                                              bool(node.attributes.get("keepdims", 1)))
        elif node.kind in BY_ROWS and self._keeps_rows(node):
            self.rows[name] = node
        else:
            raise _Unlike

    def _is_row(self, name: str) -> bool:
        return name in self.slices or name in self.rows

    def _is_cut(self, inputs: Sequence[str]) -> bool:
        """Whether a slice goes from one place to another along the first axis."""
        axes, steps = (*inputs[2:], "", "")[:2]
        return len(inputs) > 1 and all(x in self.places for x in inputs[:2]) \
            and self._numbers(axes, 0) == [0] and self._numbers(steps, 1) == [1]

    def _keeps_rows(self, node: Node) -> bool:
        """Whether each row of a node's result is made of the same one of what it reads."""
        read = [*map(self._is_row, node.inputs)]
        if node.kind == "Gather":
            return read == [False, True] and not node.attributes.get("axis", 0)
        if node.kind == "Unsqueeze":
            return read[0] and min(self._axes(node), default=0) > 0
        return any(read)

    def _axes(self, node: Node) -> list[int]:
        """Those that a node's attribute or second input says; none where it says nothing."""
        given: list[int] = node.attributes.get("axes") or []
        return self._numbers(node.inputs[1], 0) if len(node.inputs) > 1 else given

    def _numbers(self, name: str, otherwise: int) -> list[int]:
        """The elements of a constant; of none that one."""
        if name and name not in self.constants:
            raise _Unlike
        return [int(x) for x in self.constants[name].array.reshape(-1)] if name else [otherwise]
