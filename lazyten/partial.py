"""Large reductions to a few numbers become two: many partial results, then one of those.

In: the roots of a graph that is about to be scheduled. Out: the same values. Such a reduction would
otherwise run on one thread, because threads share output axes only. The number of parts is a
function of the shape alone, so results depend neither on threads nor on the machine.
"""
from __future__ import annotations

from collections.abc import Sequence

from lazyten.node import Node, make, reduce, reshape, rewrite
from lazyten.ops import Op

FEW = 64
"""From so many results on, there are output axes enough."""
MANY = 1 << 20
"""Elements from which on a second kernel costs nothing beside the first."""
MOST_PARTS = 64
LEAST_PARTS = 4


def split_reductions(roots: Sequence[Node]) -> list[Node]:
    """Each REDUCE of at least MANY elements to fewer than FEW becomes a stored one and a second."""
    return rewrite(roots, _in_two)


def _in_two(node: Node) -> Node | None:
    if node.op is not Op.REDUCE or node.numel >= FEW or node.src[0].numel < MANY:
        return None
    if node.dtype.is_half:
        return None  # parts would be rounded to 16 bits
    x, (combiner, axes) = node.src[0], node.arg
    axis = max(axes, key=lambda a: (_parts(x.shape[a]), -a))
    parts = _parts(x.shape[axis])
    if parts < LEAST_PARTS:
        return None
    shape = (*x.shape[:axis], parts, x.shape[axis] // parts, *x.shape[axis + 1:])
    inner = (a if a < axis else a + 1 for a in axes)
    partial = reduce(reshape(x, shape), combiner, inner)
    stored = make(Op.CONTIGUOUS, node.dtype, (partial,))
    return reshape(reduce(stored, combiner, [axis]), node.shape)


def _parts(size: int) -> int:
    """The most equal parts, up to MOST_PARTS, that an axis can be cut into."""
    return next(d for d in range(MOST_PARTS, 0, -1) if size % d == 0)
