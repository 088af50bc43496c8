"""A schedule as bytes, for a later process that has the same graph: written and read back.

In: a schedule and the normalized graph that it computes (realization.py). Out: bytes, and of these
the same schedule again. Lines are not kept: what was on the line of a node of the graph then is on
its line now. Nor is why values are stored: that is for people, and worked out when one asks.
"""
from __future__ import annotations

import json
import zlib
from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any

from lazyten.ir import dtype as dt
from lazyten.ir.dtype import DType
from lazyten.ir.kernel import Kernel, Slot
from lazyten.ir.node import Node, make, toposort
from lazyten.ir.ops import Op
from lazyten.schedule.schedule import Schedule
from lazyten.schedule.steps import Step
from lazyten.support.errors import InternalError
from lazyten.support.later import Later
from lazyten.support.location import Location, Place, located, of_no_line, user_place

FASTEST = 1
"""zlib's level."""
NO_LINE, HERE = -1, -2
"""In place of the number of a node: what belongs to no line, and to that which asks for values."""
Types = Sequence[tuple[DType, int]]


def write_schedule(made: Schedule, roots: Sequence[Node]) -> bytes | None:
    """The bytes; None if something in a kernel cannot be written, such as a collective."""
    kernels = [*dict.fromkeys(step.kernel for step in made.steps)]
    if any(k.decisions or k.checks or k.tf32 for k in kernels):
        return None
    places, number = _Places(roots), {kernel: i for i, kernel in enumerate(kernels)}
    try:
        nodes = _Nodes([output for kernel in kernels for output in kernel.outputs], places)
        written = {
            "args": [*map(json.loads, nodes.arguments)], "nodes": nodes.entries,
            "kernels": [[k.name, [nodes.number[o] for o in k.outputs], _types(k.inputs),
                         places.of_line(k.where), k.unaligned] for k in kernels],
            "steps": [[number[s.kernel], s.args, s.offsets] for s in made.steps],
            "arrays": _types(made.arrays), "inputs": made.inputs, "outputs": made.outputs,
            "aliases": [*made.aliases.items()], "blocks": [*made.blocks.items()],
            "block_sizes": made.block_sizes, "launches": made.launches}
    except TypeError:
        return None
    return zlib.compress(json.dumps(written, separators=(",", ":")).encode(), FASTEST)


def read_schedule(data: bytes, roots: Sequence[Node], inputs: Types,
                  again: Callable[[], Schedule]) -> Schedule | None:
    """The schedule that was written; None if these are no bytes of one for this graph. again:
    schedules the graph, once somebody asks why values are stored."""
    try:
        made = _read(json.loads(zlib.decompress(data)), roots, again)
    except (zlib.error, ValueError, KeyError, IndexError, TypeError, AttributeError, InternalError):
        return None
    wanted = [(root.dtype, root.numel) for root in roots]
    fits = made.inputs == len(inputs) and made.arrays[:made.inputs] == tuple(inputs) \
        and [made.arrays[a] for a in made.outputs] == wanted
    return made if fits else None


def _types(given: Types) -> list[tuple[str, int]]:
    return [(dtype.name, size) for dtype, size in given]


def _read_types(given: Sequence[tuple[str, int]]) -> tuple[tuple[DType, int], ...]:
    return tuple([(dt.BY_NAME[name], size) for name, size in given])


# ---- lines ---------------------------------------------------------------------------------------

class _Places:
    """Places of a graph's nodes, as the number of the first node of each."""

    def __init__(self, roots: Sequence[Node]) -> None:
        self.first: dict[Hashable, int] = {}
        self.lines: dict[Location | None, int] = {None: NO_LINE}
        for number, node in enumerate(toposort(roots)):
            if node.place is not None and node.place not in self.first:
                self.first[node.place] = number
                self.lines.setdefault(located(node.place), number)

    def of(self, place: Place | None) -> int:
        """The number for a place."""
        return NO_LINE if place is None else self.first.get(place, HERE)

    def of_line(self, line: Location | None) -> int:
        """The number for a line."""
        return self.lines.get(line, HERE)


# ---- nodes ---------------------------------------------------------------------------------------

class _Nodes:
    """The nodes of kernels, each once: op, type, argument, place, sources. TypeError for an
    argument that cannot be written."""

    def __init__(self, roots: Sequence[Node], places: _Places) -> None:
        self.arguments: dict[str, int] = {}
        self.number: dict[Node, int] = {}
        self.entries: list[tuple[Any, ...]] = []
        for node in toposort(roots):
            text = json.dumps(_plain(node.arg))
            argument = self.arguments.setdefault(text, len(self.arguments))
            self.number[node] = len(self.entries)
            self.entries.append((node.op.name, node.dtype.name, argument, places.of(node.place),
                                 *[self.number[s] for s in node.src]))


def _plain(arg: Any) -> Any:
    """An argument of a node for JSON, which keeps apart what differs. TypeError for others."""
    if arg is None or type(arg) in (bool, int, float, str):
        return arg
    if type(arg) is Op:
        return {"op": arg.name}
    if type(arg) is Slot:
        return {"slot": [*arg]}
    if isinstance(arg, tuple) and not hasattr(arg, "_fields"):  # a shape may be a Size
        return [*map(_plain, arg)]
    raise TypeError(arg)


def _argument(plain: Any) -> Any:
    """The argument that `_plain` took apart."""
    if isinstance(plain, list):
        return (*map(_argument, plain),)
    if isinstance(plain, dict):
        return Slot(*plain["slot"]) if "slot" in plain else _op(plain["op"])
    return plain


def _op(name: str) -> Op:
    found = vars(Op)[name]
    if not isinstance(found, Op):
        raise ValueError(name)
    return found


def _read_nodes(entries: Sequence[Any], arguments: Sequence[Any],
                places: Sequence[Place | None]) -> list[Node]:
    ops = {name: _op(name) for name in {entry[0] for entry in entries}}
    nodes: list[Node] = []
    for name, dtype, argument, place, *sources in entries:
        nodes.append(make(ops[name], dt.BY_NAME[dtype], tuple([nodes[s] for s in sources]),
                          arguments[argument], places[place]))
    return nodes


def _read(written: Mapping[str, Any], roots: Sequence[Node],
          again: Callable[[], Schedule]) -> Schedule:
    """The schedule, whose lines are those of this graph."""
    places: list[Place | None] = [n.place for n in toposort(roots)]
    places += [user_place(), None]  # HERE and NO_LINE
    with of_no_line():
        nodes = _read_nodes(written["nodes"], [*map(_argument, written["args"])], places)
    lines: dict[int, Location | None] = {}
    kernels = []
    for name, outputs, inputs, place, unaligned in written["kernels"]:
        if place not in lines:
            lines[place] = located(places[place])
        kernels.append(Kernel(name, tuple([nodes[o] for o in outputs]), _read_types(inputs),
                              lines[place], unaligned=tuple(unaligned)))
    steps = tuple([Step(kernels[k], tuple(args), tuple(offsets))
                   for k, args, offsets in written["steps"]])
    return Schedule(_read_types(written["arrays"]), written["inputs"], steps,
                    tuple(written["outputs"]), dict(written["aliases"]), dict(written["blocks"]),
                    tuple(written["block_sizes"]), tuple(written["launches"]),
                    Later(lambda: again().stored), Later(lambda: again().saved))
