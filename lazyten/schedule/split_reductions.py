"""Reductions with too few results to share become two: many partial results, then one of those.

In: the roots of a graph that is about to be scheduled. Out: the same values. A large reduction to a
few numbers would otherwise run on one thread, because threads share output axes only. On a device
of many work items a group can share a sum, but not a contraction, whose items share what they read
instead: that is cut where its results are too few for all items (split-K). The number of parts is a
function of shapes and of the kind of device alone, so results depend neither on threads nor on the
machine.
"""
from __future__ import annotations

from collections.abc import Sequence

from lazyten.ir.node import Node, elementwise, make, move, reduce, reshape, rewrite, toposort
from lazyten.ir.ops import ELEMENTWISE, MOVEMENT, Op

FEW = 64
"""From so many results on, there are output axes enough."""
MANY = 1 << 20
"""Elements from which on a second kernel costs nothing beside the first."""
MOST_PARTS = 64
GROUP = 256
"""Work items that share a part, where they share in reductions."""
LEAST_PARTS = 4
EVEN = 4
"""Equal parts are better than so many times more parts and a rest."""
LEAST_LENGTH = 16
"""Elements of an axis in each of its parts, if there is a rest."""
LINE = 64
"""Long parts have a multiple of so many elements, which needs no masks."""
TILE = 4
"""Results that a work item of a contraction has at least, to read an operand once for several."""
REUSE = 8
"""A reduction that reads each element so often is a contraction."""
LEAST_WORK = 256
"""Elements of a contraction that each part has for a result."""
MANY_PRODUCTS = 1 << 25
"""Elements of a contraction from which on a second kernel costs less than idle work items."""


def split_reductions(roots: Sequence[Node], items: int = 0) -> list[Node]:
    """Each REDUCE of at least MANY elements to a few becomes a stored one and a second. Where so
    many work `items` keep the device busy, few are those whose groups are not so many items, and
    contractions with results for fewer are two, too."""
    read: dict[Node, int] = {}

    def rule(node: Node) -> Node | None:
        if node.op is not Op.REDUCE or node.dtype.is_half or not node.numel:
            return None  # parts would be rounded to 16 bits
        wanted = _wanted_parts(node, items) if node.src[0].numel >= MANY_PRODUCTS else 1
        if wanted > 1 and node.src[0].numel >= REUSE * _elements_read(node.src[0], read):
            return _in_two(node, wanted, 2)
        parts = items // (GROUP * node.numel) if items else MOST_PARTS * (node.numel < FEW)
        if node.src[0].numel < MANY or parts < LEAST_PARTS:
            return None
        return _in_two(node, parts, LEAST_PARTS)
    return rewrite(roots, rule)


def _wanted_parts(node: Node, items: int) -> int:
    """Into how many parts a contraction keeps so many work items busy, as far as that pays."""
    work = node.src[0].numel // node.numel
    return min(-(-items * TILE // node.numel), work // LEAST_WORK, MOST_PARTS)


def _elements_read(node: Node, known: dict[Node, int]) -> int:
    """How many elements `node` is made of, at least 1, however often it repeats them."""
    for n in toposort([node], known=known):
        if n.op in ELEMENTWISE or n.op in MOVEMENT:
            known[n] = min(n.numel, sum(known[s] for s in dict.fromkeys(n.src)))
        else:
            known[n] = 1 if n.op is Op.CONST else n.numel
    return known[node]


def _in_two(node: Node, most: int, least: int) -> Node | None:
    """A REDUCE as a stored one of up to `most` parts and a second; None if there were fewer than
    `least`."""
    x, (combiner, axes) = node.src[0], node.arg
    axis = max(axes, key=lambda a: (_parts(x.shape[a], most)[0], -a))
    parts, length = _parts(x.shape[axis], most)
    if parts < least:
        return None
    whole = _between(x, axis, 0, parts * length)
    shape = (*x.shape[:axis], parts, length, *x.shape[axis + 1:])
    inner = (a if a < axis else a + 1 for a in axes)
    stored = make(Op.CONTIGUOUS, node.dtype, (reduce(reshape(whole, shape), combiner, inner),))
    total = reshape(reduce(stored, combiner, [axis]), node.shape)
    if parts * length == x.shape[axis]:
        return total
    rest = reduce(_between(x, axis, parts * length, x.shape[axis]), combiner, axes)
    return elementwise(combiner, total, rest)


def _parts(size: int, most: int) -> tuple[int, int]:
    """Into how many equal parts to cut an axis, and their length; a rest may remain. Long ones that
    need no masks come first: a masked loop takes three times as long where memory is fast."""
    even = next(d for d in range(most, 0, -1) if size % d == 0)
    whole = next((d for d in range(most, 0, -1) if size % (d * LINE) == 0), 0)
    length = size // most
    if length >= LINE * LINE:
        return (whole, size // whole) if whole * EVEN >= most else (most, length // LINE * LINE)
    if even * EVEN >= most or size < most * LEAST_LENGTH:
        return even, size // even
    return most, length


def _between(x: Node, axis: int, start: int, stop: int) -> Node:
    """The elements from `start` to `stop` along `axis`."""
    return move(Op.SHRINK, x, tuple((start, stop) if a == axis else (0, n)
                                    for a, n in enumerate(x.shape)))
