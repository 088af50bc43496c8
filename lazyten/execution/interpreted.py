"""Graphs that are interpreted: computed node by node, where compiling them would not pay.

In: a graph that has no plan. Out: the memory of its roots, or nothing where it is to be planned.

A line of the user's that asks for one graph after the other, each another, would compile each for
one run: a loop over the steps of an episode, rows chosen by their values, a batch of texts of any
length. After a few of them a line's further graphs are interpreted if they are small, until a graph
is a loop's, or has come so often that compiling it would have cost less. Which are interpreted
follows from what the program did before alone, not from the time that anything took. Results may
differ from a plan's in their last bits, as sums are taken in another order.
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
SOON, TURNS = 4, 3
"""A graph that its line has asked for again so many times in turn, each time as one of its last
SOON, is a loop's, and planned."""
KEPT = 1024
"""So many graphs are known of a line."""
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
class _Runs:
    """Of a graph that is interpreted. count: how often; last: when, by its line's requests; turns:
    how often in turn soon after the time before."""

    last: int
    count: int = 0
    turns: int = 0


@dataclass(slots=True)
class Line:
    """A line of the user's that has values computed.

    requests: how many graphs it has asked for; new: how many of them, for the first time. planned,
    interpreted: those that are, by their hashes (a key is as long as its graph); cost: of planning.
    """

    requests: int = 0
    new: int = 0
    cost: float = 0.0
    planned: set[int] = field(default_factory=set)
    interpreted: dict[int, _Runs] = field(default_factory=dict)

    def varies(self) -> bool:
        """Whether most graphs are asked for once."""
        count = len(self.planned)
        return count >= 2 and (count >= GRAPHS or self.cost >= PLANNED) \
            and 2 * self.new > self.requests

    def plan(self, graph: int, planning: float) -> bool:
        """Note that a graph is planned."""
        if len(self.planned) >= KEPT:
            self.planned.clear()
        self.planned.add(graph)
        self.interpreted.pop(graph, None)
        self.cost += planning
        return False

    def runs(self, graph: int) -> _Runs:
        """Of a graph that is interpreted, this time, too."""
        found = self.interpreted.get(graph)
        if found is None:
            if len(self.interpreted) >= KEPT:
                self.interpreted.clear()
            found = self.interpreted[graph] = _Runs(self.requests)
        else:
            found.turns = found.turns + 1 if self.requests - found.last <= SOON else 0
        found.count, found.last = found.count + 1, self.requests
        return found


is_alone = True
"""Whether nobody computes the same beside this process: ranks are to have the same bits, whatever
else each of them does."""
_lines: Remembered[Line] = Remembered(4096, 4096)


def forget() -> None:
    """What comes next is planned as if no line had asked for anything."""
    _lines.clear()


def line() -> Line:
    """The user's line that has something computed now."""
    place = user_place()
    return _lines.get(place) or _lines.add(place, Line())


def pays(device: str, graph: Graph, here: Line) -> bool:
    """Whether a graph that a line asks for is to be interpreted this time."""
    here.requests += 1
    if not executor(device).is_host or graph.is_joint or graph.copies or observers.present():
        return False
    options, wish = Options.now(device), _wish()
    if wish == "never" or options.checks or options.sizes is not None or not is_alone:
        return False
    if wish == "always" or is_known(device, graph):
        return wish == "always"
    number, planning = hash(graph.key), PLAN + PLANNED_NODE * len(graph.order)
    if number not in here.interpreted:
        here.new += number not in here.planned
        if number in here.planned or not here.varies():
            return here.plan(number, planning)
    runs, work = here.runs(number), _work(graph.order)
    spent = runs.count * (work + NODE * len(graph.order))
    if work > MOST or spent >= planning or runs.turns == TURNS:
        return here.plan(number, planning)
    return True


def _wish() -> str:
    """What the user says of interpreting; empty for nothing."""
    text = _INTERPRET.text if _INTERPRET.is_set() else ""
    if text not in ("", "never", "always"):
        raise ArgumentError(f"LAZYTEN_INTERPRET={text!r}: it is never, always, or not set (see "
                            f"docs/debug.md)")
    return text


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
