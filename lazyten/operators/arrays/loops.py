"""Loops whose steps are alike: a step, recorded once, is the body of scans (ir/scan.py).

In: rows of which each step reads its own, the states before all, and a function that records a
step. Out: the states after all and what each step gave, or None where no scan can say it: states
whose shapes change, or indices that have to be checked while it runs.

A scan has states of one dtype. States of others, such as a count beside sums, are a scan of their
own, before those that read them, whose steps have them as rows. What has a sum in it and follows
from rows alone is computed for all steps at once, before them.
"""
from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence, Set
from typing import NamedTuple

import numpy as np

from lazyten.autodiff.batching import batch
from lazyten.ir.dtype import DType
from lazyten.ir.evaluation import evaluate
from lazyten.ir.kernel import Slot
from lazyten.ir.node import Node, expand, make, reshape, substitute, toposort, unexpanded, unmoved
from lazyten.ir.ops import IDENTITY_OPS, Array, Op
from lazyten.ir.scan import Body, leaf, part, scan
from lazyten.operators.arrays.recurrences import row_at, shifted

Nodes = Sequence[Node]
Step = Callable[[Nodes, Nodes], tuple[Nodes, Nodes]]
"""Of a row of each array and the states: the states after it, and what it gives."""
KEPT_BYTES = 1 << 26
"""Bytes of the states of all steps, which a scan stores."""
CHECKS = 1 << 12
"""So many indices are computed beforehand, to check them."""


def looped(step: Step, rows: Nodes, first: Nodes, length: int,
           known: Mapping[int, Array], reverse: bool = False
           ) -> tuple[list[Node], list[Node]] | None:
    """The states after so many steps, and what they gave: (length, *shape) each.

    rows: (length, ..) each. known: the values of some of them, by their places. reverse: from the
    last row to the first.
    """
    own = [leaf(i, x.shape[1:], x.dtype) for i, x in enumerate(rows)]
    before = [leaf(len(rows) + i, s.shape, s.dtype) for i, s in enumerate(first)]
    after, given = step(own, before)
    if any((n.shape, n.dtype) != (s.shape, s.dtype) for n, s in zip(after, first, strict=True)) \
            or not _is_checked((*after, *given), [*own, *before], known, length):
        return None
    loop = _Loop(length, reverse, dict(zip(map(_bare, own), rows, strict=True)))
    loop.take(list(map(_State, map(_bare, before), after, first)))
    if not loop.run(given):
        return None
    return [loop.ends[_bare(s)] for s in before], list(map(loop.all_of, given))


class _State(NamedTuple):
    """leaf: what a step reads of it; after: what a step makes of it; first: it before all."""

    leaf: Node
    after: Node
    first: Node


class _Loop:
    """What is known of a loop. rows: of values in a step, those of all steps; same: what stays as
    it is; ends: states after all steps, by what a step reads of them."""

    def __init__(self, length: int, reverse: bool, rows: dict[Node, Node]) -> None:
        self.length, self.reverse, self.rows = length, reverse, rows
        self.same: dict[Node, Node] = {}
        self.ends: dict[Node, Node] = {}
        self.left: dict[DType, list[_State]] = {}

    def take(self, states: Sequence[_State]) -> None:
        """States by their dtype, and those that no step changes."""
        for state in states:
            if _bare(state.after) is state.leaf:
                self.same[state.leaf] = self.ends[state.leaf] = state.first
            else:
                self.left.setdefault(state.after.dtype, []).append(state)

    def run(self, given: Nodes) -> bool:
        """A scan for each dtype, once all that it reads is known; whether there are such."""
        for n in given:
            self.left.setdefault(n.dtype, [])
        while self.left:
            dtype = next((t for t in self.left if self._is_ready(t, given)), None)
            if dtype is None or not self._scan(self.left.pop(dtype), [
                    n for n in given if n.dtype is dtype
                    and _bare(n) not in self.rows and _bare(n) not in self.same]):
                return False
        return True

    def all_of(self, n: Node) -> Node:
        """What a step gives, of all steps."""
        if _bare(n) in self.same:
            return expand(reshape(self.same[_bare(n)], (1, *n.shape)), (self.length, *n.shape))
        return reshape(self.rows[_bare(n)], (self.length, *n.shape))

    def _is_ready(self, dtype: DType, given: Nodes) -> bool:
        """Whether what a dtype's states and results read is its states and what is known."""
        states = self.left[dtype]
        known = {*self.rows, *self.same, *(s.leaf for s in states)}
        unknown = {s.leaf for others in self.left.values() for s in others} - known
        return not unknown.intersection(toposort(
            [*(s.after for s in states), *(n for n in given if n.dtype is dtype)]))

    def _scan(self, states: list[_State], given: Nodes) -> bool:
        """Put states and results of a dtype among what is known; whether that can be."""
        parts = {_bare(s.after): s.after for s in states}
        apart = len(parts) == len(states)
        for n in given:
            if not any(_bare(n) is s.leaf for s in states):
                parts.setdefault(_bare(n), n)
        kept = self.length * sum(n.numel * n.dtype.itemsize for n in parts)
        if not apart or kept > KEPT_BYTES or any(n.op in (Op.BUFFER, Op.CONST) for n in parts):
            return False
        if not parts:
            return True
        self._take_ahead([*parts.values()], {s.leaf for s in states})
        reads, same = self._reads([*parts.values()], states)
        body = _body([*parts.values()], [*reads, *(s.leaf for s in states), *same],
                     len(reads), len(states), self.length, self.reverse)
        found = scan(body, [*reads.values()], [s.first for s in states], [*same.values()])
        for number, (bare, n) in enumerate(parts.items()):
            self.rows[bare] = part(found, body, number, n.shape)
        for s in states:
            rows = self.rows[_bare(s.after)]
            self.ends[s.leaf] = row_at(rows, 0 if self.reverse else self.length - 1)
            self.rows[s.leaf] = shifted(rows, s.first, self.reverse)
        return True

    def _take_ahead(self, outputs: Nodes, own: set[Node]) -> None:
        """Put among the rows the sums and products that steps have from rows alone: one product of
        matrices for all steps reads the second one once."""
        ahead = _free_sums(outputs, self.rows.keys() - own, own)
        given = {n: reshape(x, (self.length, *n.shape)) for n, x in self.rows.items()
                 if n not in own}
        ahead = [n for n in ahead if n.numel * n.dtype.itemsize * self.length <= KEPT_BYTES]
        found = [x for x in batch(ahead, given, self.length) if x is not None]
        same = {n: reshape(x, n.shape) for n, x in self.same.items()}
        self.rows.update(zip(ahead, substitute(found, same), strict=True))

    def _reads(self, outputs: Nodes, states: Sequence[_State]
               ) -> tuple[dict[Node, Node], dict[Node, Node]]:
        """What these read that has a row for each step, and what is the same for all."""
        own = {s.leaf for s in states}
        order = toposort(outputs, known=self.rows.keys() - own)
        rows = {n: self.rows[n] for n in order if n in self.rows}
        inside, stored = {*rows, *own}, set()
        same = {n: self.same[n] for n in order if n in self.same}
        for n in order:
            if n in inside or n in same:
                continue
            if any(s in inside or s in same for s in n.src):
                inside.add(n)
                same.update((unmoved(s),) * 2  # steps read it where it lies, and nothing is copied
                            for s in n.src if s in stored and s not in inside)
            elif n.op is Op.BUFFER or any(s in stored for s in n.src):
                stored.add(n)
        same.update((n, n) for n in outputs if n in stored)
        return rows, same


def _free_sums(outputs: Nodes, rows: Set[Node], own: set[Node]) -> list[Node]:
    """The last values with a sum in them that follow from rows and not from states, of those that
    meet states later."""
    order = toposort(outputs, known=rows | own)
    bound, free, sums = set(own), set(rows), set[Node]()
    found: dict[Node, None] = {}
    for n in order:
        if n in rows or n in own:
            continue
        if any(s in bound for s in n.src):
            bound.add(n)
            found.update(dict.fromkeys(map(unexpanded, n.src)))
        elif any(s in free for s in n.src):
            free.add(n)
            if n.op is Op.REDUCE or any(s in sums for s in n.src):
                sums.add(n)
    return [n for n in found if n in sums]


def _body(outputs: Nodes, arguments: Nodes, rows: int, states: int, length: int,
          reverse: bool) -> Body:
    """A step whose arguments are so many rows and states, and what is the same for all steps."""
    new = {old: reshape(make(Op.BUFFER, old.dtype, (), Slot(at, old.numel)), old.shape)
           for at, old in enumerate(arguments)}
    return Body(tuple(substitute(outputs, new)), rows, states, length, reverse)


def _bare(node: Node) -> Node:
    """What has the same elements in the same order."""
    while node.op is Op.RESHAPE or node.op in IDENTITY_OPS:
        node = node.src[0]
    return node


def _above(outputs: Nodes, leaves: Nodes) -> dict[Node, None]:
    """What is computed from leaves of a step, and these."""
    found = dict.fromkeys(map(_bare, leaves))
    for n in toposort(outputs):
        if any(s in found for s in n.src):
            found[n] = None
    return found


def _is_checked(outputs: Nodes, step: Nodes, known: Mapping[int, Array], length: int) -> bool:
    """Whether all indices that steps read at are inside, as can be said beforehand of those that
    follow from rows whose values are known."""
    inside = _above(outputs, step)
    checks = [n for n in inside if n.op is Op.CHECKED and n.numel]
    if not checks:
        return True
    sources, counts = [check.src[0] for check in checks], {_bare(step[i]) for i in known}
    if length * len(checks) > CHECKS or any(
            n.op is Op.BUFFER and n not in counts for n in toposort(sources)):
        return False
    found = (evaluate(sources, {i: values[t].reshape(-1) for i, values in known.items()})
             for t in range(length))
    return all(_is_inside(*one) for indices in found for one in zip(checks, indices, strict=True))


def _is_inside(check: Node, index: Array) -> bool:
    size: int = check.arg.size
    return bool(np.all((index >= (-size if check.arg.from_end else 0)) & (index < size)))
