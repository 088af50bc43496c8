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

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

import numpy as np

from lazyten.execution.blas import one_thread
from lazyten.execution.node_by_node import recipe_of, values
from lazyten.execution.plans.graph import Graph
from lazyten.execution.plans.making import is_known
from lazyten.execution.plans.plan import Options
from lazyten.ir import ops
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
SOON, TURNS = 16, 3
"""A graph that its line has asked for again so many times in turn, after others, but as one of its
last SOON, is a loop's, and planned. So is one that was asked for again so often in a row; the next
of that line after twice as many, until one that was planned has come OFTEN: such loops may be
short."""
OFTEN = 16
"""A line whose graphs come so often each, on average, has any of them planned."""
KEPT = 1024
"""So many graphs are known of a line."""
MOST, SLOW_ONES = 20_000.0, 2
"""Microseconds: with more work than this in its elements a graph is planned. One that takes longer
than this as it has many nodes, those of a scan in each step, is interpreted SLOW_ONES times."""
PLAN, PLANNED_NODE = 20_000.0, 700.0
"""Microseconds to plan a graph, and for each of its nodes."""
MOST_ONCE, TIMES = 400_000.0, 3
"""Microseconds that a graph which nobody may ask for again is interpreted for, at most; and how
many times as long as it is to be planned: networks' layers take longer to compile than most graphs
of as many nodes, and less time than is reckoned here to interpret. One that came again is
interpreted until it would have been planned in that time."""

_INTERPRET = EnvVar("LAZYTEN_INTERPRET")

@dataclass(slots=True)
class Runs:
    """Of a graph that is interpreted. count: how often; last: when, by its line's requests; turns:
    how often in turn soon after the time before, with others between; in_a_row: and without."""

    last: int
    count: int = 0
    turns: int = 0
    in_a_row: int = 0

    def came(self, now: int) -> None:
        """Note that it is asked for again, at this request of its line."""
        gap = now - self.last
        self.in_a_row = self.in_a_row + 1 if gap == 1 else 0
        if gap > 1:
            self.turns = self.turns + 1 if gap <= SOON else 0


@dataclass(slots=True)
class Line:
    """A line of the user's that has values computed.

    requests: how many graphs it has asked for; new: how many of them, for the first time; loops:
    how many were planned as they came in a row, and have not come OFTEN. planned, interpreted:
    those that are, by their hashes (a key is as long as its graph); cost: of planning.
    """

    requests: int = 0
    new: int = 0
    loops: int = 0
    cost: float = 0.0
    planned: set[int] = field(default_factory=set)
    interpreted: dict[int, Runs] = field(default_factory=dict)

    def varies(self) -> bool:
        """Whether graphs are asked for a few times each, so that it would not pay to compile them.
        """
        count = len(self.planned)
        return count >= 2 and (count >= GRAPHS or self.cost >= PLANNED) \
            and OFTEN * self.new > self.requests

    def plan(self, graph: int, planning: float) -> bool:
        """Note that a graph is planned."""
        if len(self.planned) >= KEPT:
            self.planned.clear()
        self.planned.add(graph)
        self.interpreted.pop(graph, None)
        self.cost += planning
        return False

    def came_again(self, times: int) -> None:
        """Note that a graph which is planned was asked for so many times."""
        self.requests += 1
        if times == OFTEN and self.loops:
            self.loops -= 1

    def runs(self, graph: int) -> Runs:
        """Of a graph that is interpreted, this time, too."""
        found = self.interpreted.get(graph)
        if found is None:
            if len(self.interpreted) >= KEPT:
                self.interpreted.clear()
            found = self.interpreted[graph] = Runs(self.requests)
        else:
            found.came(self.requests)
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


class TooMuch(Exception):
    """A graph is to be planned, which was asked for as one that comes `seldom`."""


class _Asked(threading.local):
    """Of each thread: how often what comes `seldom` came, and whether anybody asks."""

    times = 0
    by_nobody = False


_asked = _Asked()


@contextmanager
def seldom(times: int) -> Iterator[None]:
    """Within this block this thread's graphs are interpreted, as nobody may ever ask for them
    again. times: how often they came, this time, too. TooMuch where all of these take as long as it
    does to compile them, or where they cannot be interpreted; nothing is computed then."""
    before, _asked.times = _asked.times, times
    try:
        yield
    finally:
        _asked.times = before


@contextmanager
def by_nobody() -> Iterator[None]:
    """Within this block this thread's graphs are computed as they have got long, where nobody asks
    for them: so they are cut anywhere, and each may be another. One is interpreted until that took
    as long as to plan it."""
    before, _asked.by_nobody = _asked.by_nobody, True
    try:
        yield
    finally:
        _asked.by_nobody = before


def pays(device: str, graph: Graph, here: Line) -> bool:
    """Whether a graph that a line asks for is to be interpreted this time."""
    if _asked.times:
        return _is_quick(device, graph, _asked.times)
    here.requests += 1
    wish = _wish()
    if wish == "never" or not _can_be(device, graph):
        return False
    if wish == "always" or is_known(device, graph):
        return wish == "always"
    number, planning = hash(graph.key), PLAN + PLANNED_NODE * len(graph.order)
    if number not in here.interpreted:
        here.new += number not in here.planned
        if number in here.planned or not (_asked.by_nobody or here.varies()):
            return here.plan(number, planning)
    runs, recipe = here.runs(number), recipe_of(graph)
    is_short = runs.in_a_row >= TURNS << here.loops  # as far as is known
    is_loop = (runs.turns == TURNS or is_short) and not _asked.by_nobody
    is_slow = recipe.work > MOST or recipe.time > MOST and runs.count > SLOW_ONES
    here.loops += is_loop and is_short
    if is_slow or is_loop or runs.count * recipe.time >= planning:
        return here.plan(number, planning)
    return True


def _can_be(device: str, graph: Graph) -> bool:
    """Whether NumPy may compute a graph: nobody looks at its kernels, or shares it."""
    options = Options.now(device)
    return executor(device).is_host and not (
        graph.is_joint or graph.copies or observers.present() or options.checks
        or options.sizes is not None) and is_alone


def _is_quick(device: str, graph: Graph, times: int) -> bool:
    """Whether a graph that came so many times is interpreted, or has a plan. TooMuch if neither."""
    if _wish() == "never" or not _can_be(device, graph):
        raise TooMuch
    if is_known(device, graph):
        return False
    nodes = len(graph.order)
    planning = PLAN + PLANNED_NODE * nodes
    most = min(MOST_ONCE, TIMES * planning) if times == 1 else planning
    if times * recipe_of(graph).time > most:
        raise TooMuch
    return True


def _wish() -> str:
    """What the user says of interpreting; empty for nothing."""
    text = _INTERPRET.text if _INTERPRET.is_set() else ""
    if text not in ("", "never", "always"):
        raise ArgumentError(f"LAZYTEN_INTERPRET={text!r}: it is never, always, or not set (see "
                            f"docs/debug.md)")
    return text


def interpret(device: str, graph: Graph, inputs: Sequence[Buffer]) -> list[Buffer]:
    """The values of a graph's roots, in new memory; inputs: what stands for its buffers."""
    try:
        with np.errstate(all="ignore"), one_thread():
            return [Buffer.from_numpy(ops.encode(value, root.dtype), root.dtype, device)
                    for root, value in zip(graph.roots, values(graph, inputs), strict=True)]
    except MemoryError as error:
        raise OutOfMemoryError(f"{device}: no memory to interpret {len(graph.order)} operations: "
                               f"{error}") from error
