"""Constant offsets of a kernel's inputs, moved from its expression to the pointers of its launch.

`x[:, 3]` and `x[:, 4]` are read by equal expressions that start at different elements. Where all
that a kernel reads of an input starts past its first element, the expression begins there: kernels
that differ in nothing else are then one, and are compiled once. So that what is cut from a computed
value is cut from the inputs, each SHRINK moves through what it can. One position of an IOTA is a
constant, which decides the comparisons with it: what is cut from the gradient of stacked values.
"""
from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from lazyten.ir.node import (
    Node,
    Shape,
    const,
    consumers,
    expand,
    move,
    rebuild,
    reshape,
    rewrite,
    toposort,
)
from lazyten.ir.ops import ELEMENTWISE, Op
from lazyten.symbolic.simplify import folded
from lazyten.symbolic.view import View

Part = tuple[Node, tuple[tuple[int, int], ...]]
"""A node, and from where to where it is read on each axis."""


def without_offsets(outputs: Sequence[Node]) -> tuple[list[Node], dict[int, int]]:
    """The same expressions over inputs that start later, and by how many elements each slot's does.

    Nothing that was inside an input is outside of it then: each index has become less by what its
    input starts later.
    """
    if all(n.op is not Op.SHRINK for n in toposort(outputs)):
        return list(outputs), {}
    made: dict[Part, Node] = {}
    outputs = rewrite(outputs, lambda n: _shrunk((n.src[0], n.arg), made)
                      if n.op is Op.SHRINK and n.numel else None)
    order = toposort(outputs)
    users = consumers(order)
    offsets: dict[int, int] = {}
    replaced: dict[Node, Node] = {}
    for leaf in (n for n in order if n.op is Op.BUFFER):
        found = _narrowed(leaf, users, frozenset(outputs))
        if found is not None:
            parts, strides = found
            starts = [min(s[0] for s in axis) for axis in zip(*(p.arg for p in parts), strict=True)]
            offset = sum(n * s for n, s in zip(starts, strides, strict=True))
            if offset:
                offsets[leaf.arg.slot] = offset
                replaced |= {p: _from(p, starts) for p in parts}
    return (rewrite(outputs, lambda n: None, replaced) if replaced else outputs), offsets


def _narrowed(leaf: Node, users: Mapping[Node, Sequence[Node]],
              outputs: Collection[Node]) -> tuple[Sequence[Node], Sequence[int]] | None:
    """The SHRINKs through which alone an input is read, and the strides of what they shrink."""
    node, view = leaf, View.contiguous(leaf.shape)
    while node not in outputs:
        readers = users[node]
        if all(r.op is Op.SHRINK and r.numel for r in readers):
            return readers, view.strides
        moved = view.moved(readers[0].op, readers[0].arg) if len(readers) == 1 and \
            readers[0].op in (Op.RESHAPE, Op.PERMUTE) else None
        if moved is None:
            return None
        node, view = readers[0], moved
    return None


def _from(part: Node, starts: Sequence[int]) -> Node:
    """A SHRINK that takes as much from `starts` earlier on each axis."""
    ranges = tuple((first - start, stop - start)
                   for (first, stop), start in zip(part.arg, starts, strict=True))
    return move(Op.SHRINK, part.src[0], ranges)


# ---- shrinking inputs, not values ----------------------------------------------------------------

def _shrunk(root: Part, made: dict[Part, Node]) -> Node:
    """A part that is not empty, computed from parts of the inputs; `made` holds others."""
    stack = [root]
    while stack:
        below = _below(stack[-1])
        missing = [b for b in below if b not in made] if stack[-1] not in made else []
        if missing:
            stack += missing
        else:
            part = stack.pop()
            made[part] = made.get(part) or _built(part, [made[b] for b in below])
    return made[root]


def _below(part: Part) -> list[Part]:
    """The parts that a part is made from; nothing where the SHRINK must stay."""
    node, ranges = part
    if node.op in ELEMENTWISE:
        return [(s, ranges) for s in node.src]
    if node.op is Op.SHRINK:
        return [(node.src[0], tuple((before + first, before + stop) for (before, _), (first, stop)
                                    in zip(node.arg, ranges, strict=True)))]
    if node.op is Op.PERMUTE:
        return [(node.src[0], tuple(ranges[node.arg.index(a)] for a in range(len(ranges))))]
    if node.op is Op.EXPAND or node.op is Op.REDUCE:
        sizes = zip(node.src[0].shape, node.shape, ranges, strict=True)
        return [(node.src[0], tuple((0, n) if n != m else r for n, m, r in sizes))]
    if node.op is Op.RESHAPE and _long(node.shape) == _long(node.src[0].shape):
        own = (r for r, n in zip(ranges, node.shape, strict=True) if n != 1)
        return [(node.src[0], tuple((0, 1) if n == 1 else next(own) for n in node.src[0].shape))]
    return []


def _built(part: Part, below: Sequence[Node]) -> Node:
    """A part from the parts that it is made from."""
    node, ranges = part
    shape = tuple(stop - first for first, stop in ranges)
    if node.op is Op.IOTA and shape == (1,):
        return const(ranges[0][0], node.dtype, shape)
    if not below:
        return move(Op.SHRINK, node, ranges)
    if node.op is Op.SHRINK:
        return below[0]
    if node.op is Op.EXPAND:
        return expand(below[0], shape)
    if node.op is Op.RESHAPE:
        return reshape(below[0], shape)
    if node.op is Op.WHERE and below[0].op is Op.CONST:
        return below[1] if below[0].value else below[2]
    built = rebuild(node, tuple(below))
    known = node.op in ELEMENTWISE and all(s.op is Op.CONST for s in built.src)
    return folded(built) if known else built


def _long(shape: Shape) -> Shape:
    return tuple(n for n in shape if n != 1)
