"""Graphs that are interpreted: computed node by node, where compiling them would not pay.

In: a graph that has no plan. Out: the memory of its roots, or nothing where it is to be planned.

A line of the user's that asks for one graph after the other, each another, would compile each for
one run: a loop over the steps of an episode, rows chosen by their values, a batch of texts of any
length. After a few of them a line's further graphs are interpreted if they are small, until a graph
has come so often that compiling it would have cost less. Which are interpreted follows from what
the program did before alone, not from the time that anything took. Results may differ from a plan's
in their last bits, as sums are taken in another order.
"""
from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from lazyten.execution.plans.graph import Graph
from lazyten.execution.plans.making import is_known
from lazyten.execution.plans.plan import Options
from lazyten.ir import dtype as dt
from lazyten.ir import ops
from lazyten.ir.evaluation import Array, value_of
from lazyten.ir.node import Node, toposort
from lazyten.ir.ops import MOVEMENT, Op
from lazyten.storage.device import executor
from lazyten.storage.storage import Buffer
from lazyten.support import observers
from lazyten.support.errors import ArgumentError, OutOfMemoryError
from lazyten.support.location import user_place
from lazyten.support.remembered import Remembered
from lazyten.support.variables import EnvVar

GRAPHS, PLANNED = 4, 2.5e6
"""So many graphs of a line are planned, or fewer that take so many microseconds, and two at least,
before others are interpreted."""
MOST = 20_000.0
"""Microseconds: with more work than this in its elements a graph is planned."""
NODE, ELEMENT, FUNCTION = 6.0, 0.002, 0.02
"""Microseconds to interpret a node, and each element of it; of functions and places, more. These
and the next are about what it took for the graphs of tests/programs."""
PLAN, PLANNED_NODE = 20_000.0, 700.0
"""Microseconds to plan a graph, and for each of its nodes."""

_INTERPRET = EnvVar("LAZYTEN_INTERPRET")
_FREE = (MOVEMENT - {Op.PAD, Op.SHEAR, Op.RESHAPE}) | {Op.BUFFER, Op.CONST}
"""What copies nothing."""
_PLAIN = {op: getattr(spec.numpy, "__wrapped__", spec.numpy) for op, spec in ops.SPECS.items()
          if op not in (Op.CAST, Op.BITCAST)}
_NATIVE = frozenset(t for t in dt.ALL if t.numpy == t.compute)
"""Types that NumPy computes in as they are stored."""
_SLOW = frozenset({Op.EXP, Op.EXP2, Op.LOG2, Op.SIN, Op.COS, Op.POW, Op.MOD, Op.IDIV, Op.GATHER,
                   Op.SCATTER, Op.SHEAR})


@dataclass(slots=True)
class _Line:
    """graphs: those that were planned as a line was new, by their hashes; cost: of planning."""

    graphs: set[int] = field(default_factory=set)
    cost: float = 0.0


is_alone = True
"""Whether nobody computes the same beside this process: ranks are to have the same bits, whatever
else each of them does."""
_lines: Remembered[_Line] = Remembered(4096, 4096)
_runs: Remembered[list[int]] = Remembered(1024, 1024)
"""How often a graph was interpreted."""


def forget() -> None:
    """What comes next is planned as if no line had asked for anything."""
    _lines.clear()
    _runs.clear()


def pays(device: str, graph: Graph) -> bool:
    """Whether a graph is to be interpreted this time."""
    if not executor(device).is_host or graph.collectives or graph.copies or observers.present():
        return False
    options, wish = Options.now(device), _wish()
    if wish == "never" or options.checks or options.sizes is not None or not is_alone:
        return False
    if wish == "always" or is_known(device, graph):
        return wish == "always"
    planning = PLAN + PLANNED_NODE * len(graph.order)
    if not _is_of_many(hash(graph.key), planning):
        return False
    work = _work(graph.order)
    if work > MOST:
        return False
    runs = _runs.get((options, graph.key)) or _runs.add((options, graph.key), [0])
    runs[0] += 1
    return runs[0] * (work + NODE * len(graph.order)) < planning


def _wish() -> str:
    """What the user says of interpreting; empty for nothing."""
    text = _INTERPRET.text if _INTERPRET.is_set() else ""
    if text not in ("", "never", "always"):
        raise ArgumentError(f"LAZYTEN_INTERPRET={text!r}: it is never, always, or not set (see "
                            f"docs/debug.md)")
    return text


def _is_of_many(graph: int, planning: float) -> bool:
    """Whether the line that asks has asked for so many other graphs. planning: what it costs."""
    place = user_place()
    line = _lines.get(place) or _lines.add(place, _Line())
    if len(line.graphs) < 2 or len(line.graphs) < GRAPHS and line.cost < PLANNED:
        line.graphs.add(graph)
        line.cost += planning
    return graph not in line.graphs


def _work(order: Sequence[Node]) -> float:
    """About how many microseconds the elements of these nodes take."""
    found = 0.0
    for node in order:
        if node.op is Op.SCAN:
            body = toposort(node.arg.outputs)
            found += len(node.arg.steps) * (_work(body) + NODE * len(body))
        elif node.op is Op.REDUCE:
            found += node.src[0].numel * ELEMENT
        elif node.op not in _FREE or node.op is Op.BUFFER and node.dtype not in _NATIVE:
            found += node.numel * (FUNCTION if node.op in _SLOW else ELEMENT)
    return found


def interpret(device: str, graph: Graph, inputs: Sequence[Buffer]) -> list[Buffer]:
    """The values of a graph's roots, in new memory; inputs: what stands for its buffers."""
    try:
        with np.errstate(all="ignore"):
            return [Buffer.from_numpy(ops.encode(value, root.dtype), root.dtype, device)
                    for root, value in zip(graph.roots, _values(graph, inputs), strict=True)]
    except MemoryError as error:
        raise OutOfMemoryError(f"{device}: no memory to interpret {len(graph.order)} operations: "
                               f"{error}") from error


def _values(graph: Graph, inputs: Sequence[Buffer]) -> list[Array]:
    """The values of the roots. On the way what is the same along an axis may have one element
    there, or no axes at all: NumPy's operations repeat it."""
    given = iter(inputs)
    values: dict[Node, Array] = {}
    for node in graph.order:
        op, passed = node.op, graph.passed.get(node)
        if passed is not None:
            value = values[passed]
        elif op is Op.BUFFER:
            value = _contents(next(given))
        elif op is Op.EXPAND:
            value = values[node.src[0]]
        elif op is Op.CONST:
            value = ops.round_to(np.asarray(node.value, node.dtype.compute), node.dtype)
        elif op in _PLAIN and node.dtype in _NATIVE:
            value = _PLAIN[op](*[values[s] for s in node.src])
        else:
            value = value_of(node, [_whole(values[s], s) for s in node.src], {})
        values[node] = value
    return [_whole(values[root], root) for root in graph.roots]


def _whole(value: Array, node: Node) -> Array:
    return value if np.shape(value) == node.shape else np.broadcast_to(value, node.shape)


def _contents(buffer: Buffer) -> Array:
    stored = buffer.view()
    decoded: Array = ops.decode(buffer.numpy() if stored is None else stored, buffer.dtype)
    return decoded
