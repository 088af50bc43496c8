"""Integers are moved, and so may be stored, in the fewest bytes that hold them.

In: the roots of a graph that is about to be scheduled. Out: the same values. A conversion of
integers to a wider type is done after a movement instead of before it, and what is computed in a
wide type but known to fit a narrower one (a quantized value less its zero point) is moved in that.
What a convolution pads and reads often then takes a quarter of the memory, and its products are
those of narrow integers, for which processors have instructions. Where nothing is stored in
between, both conversions go again once the loops are there (simplify.py).
"""
from __future__ import annotations

from collections.abc import Sequence

from lazyten.ir import dtype as dt
from lazyten.ir.dtype import DType
from lazyten.ir.node import Node, cast, make, rebuild, toposort
from lazyten.ir.ops import ELEMENTWISE, MOVEMENT, Op
from lazyten.symbolic.bounds import bounds, limits

NARROW = (dt.int8, dt.uint8, dt.int16, dt.uint16, dt.int32)
"""The types that values are kept in, the best first."""


def moves_integers(roots: Sequence[Node]) -> bool:
    """Whether there is anything to do: a movement of integers of more than a byte."""
    return any(_is_wide_move(n) for n in toposort(roots))


def move_narrow_integers(roots: Sequence[Node]) -> list[Node]:
    """The roots, with integers moved in narrow types. What a root is a view of stays: it is stored
    in its own type."""
    kept = {n for root in roots for n in _views(root)}
    done: dict[Node, Node] = {}
    for node in toposort(roots):
        new = rebuild(node, tuple(done[s] for s in node.src)) if node.src else node
        done[node] = new if node in kept else _moved_narrow(new)
    return [done[root] for root in roots]


def _views(root: Node) -> Sequence[Node]:
    """A root, and what it is in another shape."""
    found = [root]
    while found[-1].op is Op.RESHAPE:
        found.append(found[-1].src[0])
    return found


def _is_wide_move(node: Node) -> bool:
    return node.op in MOVEMENT and node.dtype.kind in "iu" and node.dtype.itemsize > 1


def _moved_narrow(node: Node) -> Node:
    """A movement of integers, done in a narrower type if its source fits one."""
    if not _is_wide_move(node):
        return node
    source, = node.src
    if (narrow := _narrowed(source)) is None:
        return node
    if node.op is Op.EXPAND:  # else each of the elements would be converted
        return make(node.op, node.dtype, (cast(narrow, node.dtype),), node.arg)
    return cast(make(node.op, narrow.dtype, (narrow,), node.arg), node.dtype)


def _narrowed(source: Node) -> Node | None:
    """The values of a node in a narrower type of integers; None if they are not known to fit, or
    are in memory already."""
    if source.op is Op.CAST and source.src[0].dtype.kind in "iu" \
            and source.src[0].dtype.itemsize < source.dtype.itemsize:
        return source.src[0]
    if source.op not in ELEMENTWISE:
        return None
    kind = _narrowest(source)
    return None if kind is None else make(Op.CAST, kind, (source,))


def _narrowest(node: Node) -> DType | None:
    """The best of the types that take fewer bytes than a node's own and hold its values."""
    found = bounds(node)
    assert found is not None
    for kind in NARROW:
        low, high = limits(kind)
        if kind.itemsize < node.dtype.itemsize and low <= found[0] and found[1] <= high:
            return kind
    return None
