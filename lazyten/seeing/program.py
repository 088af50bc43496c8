"""Which values of a graph each kernel of a schedule computes, and for which lines."""
from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice

from lazyten.execution.debug import node_flops
from lazyten.ir.node import Node, toposort, unshaped
from lazyten.ir.ops import Op
from lazyten.schedule.cost import StoredValue
from lazyten.schedule.schedule import Schedule
from lazyten.support.location import Location


def stored_by_step(made: Schedule) -> Iterator[list[StoredValue]]:
    """Why each of its values is stored, for each step."""
    stored = iter(made.stored)
    for step in made.steps:
        yield list(islice(stored, len(step.kernel.outputs)))


def values_of(made: Schedule) -> list[list[Node]]:
    """The values that each step computes, of the graph as it was scheduled: those that it stores,
    last, and those in between. (The expression of a kernel has the lines of the first kernel that
    was equal to it.)"""
    stored = {unshaped(d.node) for d in made.stored}
    found = []
    for own in stored_by_step(made):
        roots = [d.node for d in own]
        whole = {unshaped(n) for n in roots}

        def into(n: Node, whole: frozenset[Node] = frozenset(whole)) -> Sequence[Node]:
            plain = unshaped(n)
            return () if plain in stored and plain not in whole else n.src
        found.append([n for n in toposort(roots, into)
                      if n.op is not Op.BUFFER and (unshaped(n) not in stored
                                                    or unshaped(n) in whole)])
    return found


def lines_of(values: Sequence[Node], own: Location | None) -> dict[Location | None, float]:
    """The lines that a kernel computes, and the share of its arithmetic operations that is of each;
    all of it is its own line's if there are none. values: what it computes."""
    work: dict[Location | None, float] = {}
    for node in values:
        if count := node_flops(node):
            where = node.where or own
            work[where] = work.get(where, 0.0) + count
    total = sum(work.values())
    return {where: count / total for where, count in work.items()} or {own: 1.0}
