"""Constant offsets of a kernel's inputs, moved from its expression to the pointers of its launch.

`x[:, 3]` and `x[:, 4]` are read by equal expressions that start at different elements. Where all
that a kernel reads of an input starts past its first element, the expression begins there: kernels
that differ in nothing else are then one, and are compiled once.
"""
from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from lazyten.node import Node, consumers, move, rewrite, toposort
from lazyten.ops import Op
from lazyten.view import View


def without_offsets(outputs: Sequence[Node]) -> tuple[list[Node], dict[int, int]]:
    """The same expressions over inputs that start later, and by how many elements each slot's does.

    Nothing that was inside an input is outside of it then: each index has become less by what its
    input starts later.
    """
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
    return (rewrite(outputs, lambda n: None, replaced) if replaced else list(outputs)), offsets


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
