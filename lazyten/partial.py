"""Large reductions to a few numbers become two: many partial results, then one of those.

In: the roots of a graph that is about to be scheduled. Out: the same values. Such a reduction would
otherwise run on one thread, because threads share output axes only. The number of parts is a
function of the shape alone, so results depend neither on threads nor on the machine.
"""
from __future__ import annotations

from collections.abc import Sequence

from lazyten.node import Node, elementwise, make, move, reduce, reshape, rewrite
from lazyten.ops import Op

FEW = 64
"""From so many results on, there are output axes enough."""
MANY = 1 << 20
"""Elements from which on a second kernel costs nothing beside the first."""
MOST_PARTS = 64
LEAST_PARTS = 4
EVEN = 16
"""So many equal parts are better than more parts and a rest."""
LINE = 64
"""Long parts have a multiple of so many elements, which needs no masks."""


def split_reductions(roots: Sequence[Node]) -> list[Node]:
    """Each REDUCE of at least MANY elements to a few becomes a stored one and a second."""
    return rewrite(roots, _in_two)


def _in_two(node: Node) -> Node | None:
    if node.op is not Op.REDUCE or node.numel >= FEW or node.src[0].numel < MANY:
        return None
    if node.dtype.is_half:
        return None  # parts would be rounded to 16 bits
    x, (combiner, axes) = node.src[0], node.arg
    axis = max(axes, key=lambda a: (_parts(x.shape[a])[0], -a))
    parts, length = _parts(x.shape[axis])
    if parts < LEAST_PARTS:
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


def _parts(size: int) -> tuple[int, int]:
    """Into how many equal parts to cut an axis, and their length; a rest may remain."""
    even = next(d for d in range(MOST_PARTS, 0, -1) if size % d == 0)
    if even >= EVEN or size < MOST_PARTS * EVEN:
        return even, size // even
    length = size // MOST_PARTS
    return MOST_PARTS, length if length < LINE * LINE else length // LINE * LINE


def _between(x: Node, axis: int, start: int, stop: int) -> Node:
    """The elements from `start` to `stop` along `axis`."""
    return move(Op.SHRINK, x, tuple((start, stop) if a == axis else (0, n)
                                    for a, n in enumerate(x.shape)))
