"""Alignments: the ways in which a line of labels may be spread over time, summed up.

The forward recurrence of connectionist temporal classification (A. Graves and others, 2006), as one
SCAN: a step for each position in time, whose gradient is a scan the other way round.
"""
from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from functools import reduce as reduce_by

from lazyten.autodiff.gradient import vjp_of_all
from lazyten.ir.dtype import DType
from lazyten.ir.node import Node, Shape, const, iota, make, move, reshape
from lazyten.ir.ops import Op
from lazyten.ir.scan import Body, leaf, part, scan
from lazyten.operators.arrays import joining
from lazyten.operators.math import elementwise as ew
from lazyten.operators.math import special
from lazyten.operators.math.gradients import with_gradient
from lazyten.support.location import of_no_line

IMPOSSIBLE = -1e30
"""Stands for log(0): sums of exponentials stay free of infinity minus infinity."""
Sizes = tuple[tuple[Shape, DType], ...]


def _later(x: Node, by: int) -> Node:
    """Each row (B, S) moved `by` places towards its end, IMPOSSIBLE in front."""
    rows, size = x.shape
    kept = move(Op.SHRINK, x, ((0, rows), (0, max(size - by, 0))))
    wide = move(Op.PAD, kept, ((0, 0), (min(by, size), 0)))
    outside = ew.less(iota(size), const(by, iota(size).dtype))
    return ew.where(ew.broadcast_to(reshape(outside, (1, size)), x.shape),
                    const(IMPOSSIBLE, x.dtype, x.shape), wide)


def _log_of_sum(logs: Sequence[Node]) -> Node:
    """log(sum of exponentials) of some arrays, which are finite."""
    most = reduce_by(ew.maximum, logs)
    most = make(Op.DETACH, most.dtype, (most,))
    total = reduce_by(ew.add, [special.exp(ew.sub(x, most)) for x in logs])
    return ew.add(most, special.log(total))


def _after(scores: Node, there: Node, skips: Node, before: Node) -> Node:
    """The logarithms of chances (B, S) after a step, of those before it: a state is reached from
    itself, from the one before, and where `skips` (B, S) from the one before that."""
    nothing = const(IMPOSSIBLE, before.dtype, before.shape)
    ways = [before, _later(before, 1), ew.where(skips, _later(before, 2), nothing)]
    new = ew.add(_log_of_sum(ways), scores)
    return ew.where(ew.broadcast_to(there, new.shape), new, before)


@lru_cache(maxsize=256)
def _step(sizes: Sizes) -> Body:
    """One step. sizes: of scores (T, B, S), of whether it is there (T, B, 1), of what is before
    (B, S), and of skips (B, S)."""
    scores, there, before, skips = (leaf(i, shape[1:] if i < 2 else shape, dtype)
                                    for i, (shape, dtype) in enumerate(sizes))
    with of_no_line():  # it is of many lines
        new = _after(scores, there, skips, before)
    return Body((new,), 2, 1, sizes[0][0][0], False)


@lru_cache(maxsize=256)
def _step_back(sizes: Sizes) -> Body:
    """One step back: gradients of what is before it and of its scores. sizes: of scores, of whether
    it is there, of what is before, of the gradients of what is after (T, ..) each, of that of the
    last (B, S), and of skips."""
    scores, there, before, given, carried, skips = (
        leaf(i, shape[1:] if i < 4 else shape, dtype) for i, (shape, dtype) in enumerate(sizes))
    with of_no_line():
        found = vjp_of_all([_after(scores, there, skips, before)], [ew.add(given, carried)],
                           [before, scores])
    assert found[0] is not None and found[1] is not None
    return Body((found[0], found[1]), 4, 1, sizes[0][0][0], True)


@dataclass(frozen=True, slots=True)
class _Steps:
    """All steps, and as a function their gradient. Sources of a call: those of `_step`."""

    def body(self, given: Sequence[Node]) -> Body:
        return _step(tuple((n.shape, n.dtype) for n in given))

    def after(self, rows: Node, given: Sequence[Node]) -> Node:
        """What is after each step, (T, B, S)."""
        return part(rows, self.body(given), 0, given[2].shape)

    def __call__(self, g: Node, node: Node) -> list[Node | None]:
        given = node.src[1:]
        scores, there, first, skips = given
        after, of_after = self.after(node, given), self.after(g, given)
        count, *rest = after.shape
        kept = move(Op.SHRINK, after, ((0, count - 1), *((0, n) for n in rest)))
        before = joining.cat([reshape(first, (1, *first.shape)), kept], 0)
        seen = (scores, there, before, of_after)
        nothing = const(0.0, first.dtype, first.shape)
        body = _step_back(tuple((n.shape, n.dtype) for n in (*seen, nothing, skips)))
        rows = scan(body, seen, [nothing], [skips])
        of_before, of_scores = (part(rows, body, i, first.shape) for i in range(2))
        start = move(Op.SHRINK, of_before, ((0, 1), *((0, n) for n in rest)))
        return [of_scores, None, reshape(start, first.shape), None]


def alignments(scores: Node, there: Node, first: Node, skips: Node) -> Node:
    """The logarithms of the chances of each state after the last step, (B, S).

    scores (T, B, S): logarithms of what each state has at each time. there (T, B, 1): bools, False
    where an example has no such step. first (B, S): before all steps. skips (B, S): bools, where a
    state is reached from the one two before.
    """
    given, rule = (scores, there, first, skips), _Steps()
    rows = with_gradient(scan(rule.body(given), given[:2], given[2:3], given[3:]), given, rule)
    after = rule.after(rows, given)
    count = after.shape[0]
    last = move(Op.SHRINK, after, ((count - 1, count), *((0, n) for n in first.shape)))
    return reshape(last, first.shape)
