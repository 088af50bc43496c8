"""Values that decide something: they must be the same bits wherever they are read.

A sum of floats depends, in its last bits, on the loops that compute it. Two places that both
compute it may therefore disagree, which is as good as rounding - unless something is decided by the
value: a comparison, a rounding, a position. Ranks that are counted from one set of bits and values
from another are no permutation. So such a value is computed in one place, at one position of one
kernel, or it is stored. What it takes follows from the ops alone:

- inexact: a REDUCE of floats by ADD or MUL. Everything else gives the same bits everywhere: floats
  are contracted and reassociated in sums only, and random numbers are integers.
- deciding: what makes a step of a value (`is_deciding`), and all that its operands are made of,
  down to the inexact values, whose own operands are beyond rounding anyway.

In: the scheduler's graph, and which values it stores by which kernels. Out: which ones must be
stored besides. schedule.py asks once kernels are fused, so what is stored for its cost, or computed
by one kernel for several values, needs no more. realization.py asks for those that a later graph
may read again, which would compute them in another place.
"""
from __future__ import annotations

import gc
import sys
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import chain, count
from types import CellType
from typing import Any, NamedTuple

from lazyten.ir import dtype as dt
from lazyten.ir.arguments import Range
from lazyten.ir.node import Node, index, make, toposort
from lazyten.ir.ops import IDENTITY_OPS, MOVEMENT, Op
from lazyten.symbolic.index_moves import both, source_indices

STEPS = frozenset({Op.CMPLT, Op.CMPNE, Op.IDIV, Op.MOD, Op.BITCAST})
"""Ops whose result jumps where a float operand changes by a bit."""


def is_inexact(node: Node) -> bool:
    """Whether the last bits of a value depend on the loops that compute it."""
    return node.dtype.is_float and (
        node.op is Op.SCAN or node.op is Op.REDUCE and node.arg[0] is not Op.MAX)


def is_deciding(node: Node) -> bool:
    """Whether `node` jumps where a float that it reads changes by a bit: a comparison, a remainder,
    a rounding to an integer, to a bool or to one of the few numbers of an 8-bit float. Whether a
    number differs from itself, as NaN does, depends on no bit."""
    if not any(s.dtype.is_float for s in node.src) or \
            node.op is Op.CMPNE and node.src[0] is node.src[1]:
        return False
    return node.op in STEPS or node.op is Op.CAST and (not node.dtype.is_float
                                                       or node.dtype.is_stored)


def is_selecting(node: Node) -> bool:
    """Whether the result is one of the floats that are read, with which it may be compared."""
    return node.op is Op.REDUCE and node.dtype.is_float and node.arg[0] is Op.MAX


def _inexact_below(order: Sequence[Node], wanted: set[Node]) -> set[Node]:
    """The first inexact values that `wanted`, which is added to, are made of. order: sources
    first."""
    for node in reversed(order):
        if node in wanted and not is_inexact(node):
            wanted.update(node.src[:1] if node.op in IDENTITY_OPS else node.src)
    return {n for n in wanted if is_inexact(n)}


def read_by_deciding(order: Sequence[Node]) -> set[Node]:
    """The inexact values that something deciding is made of. order: a graph, sources first."""
    return _inexact_below(order, {s for n in order if is_deciding(n) for s in n.src})


def read_again(order: Sequence[Node], roots: Collection[Node],
               references: Iterable[Iterable[Node]]) -> list[Node]:
    """Inexact values that decide or are selected from in this graph, and that others than its nodes
    still know: a tensor that was not asked for, or an expression of one. A later graph that reads
    them must find these bits.

    order: all nodes of the graph, sources first. roots: what is computed in any case. references:
    what else of the graph refers to nodes.
    """
    selected = _selected(order, roots)
    if not selected:
        return []
    held = _inexact_below(order, _known_outside(order, roots, (*references, selected)))
    return [n for n in order if n in held and n in selected]


def read_by(others: Iterable[Node], order: Sequence[Node], roots: Collection[Node]) -> list[Node]:
    """The same where it is known what others know: these values."""
    others = tuple(others)
    selected = _selected(order, roots) if others else ()
    if not selected:
        return []
    inside = set(order)
    reached = toposort(others, known=inside)
    held = _inexact_below(order, inside.intersection(reached).difference(roots))
    return [n for n in order if n in held and n in selected]


def _selected(order: Sequence[Node], roots: Collection[Node]) -> set[Node]:
    """The inexact values that decide, or are selected from."""
    steps = {s for n in order if is_deciding(n) or is_selecting(n) for s in n.src}
    return _inexact_below(order, steps).difference(roots)


def _known_outside(order: Sequence[Node], roots: Collection[Node],
                   references: Iterable[Iterable[Node]]) -> set[Node]:
    """The nodes but for the roots that more refers to than the graph: reference counts tell."""
    counts = list(map(sys.getrefcount, order))
    own = next(map(sys.getrefcount, [object()]))  # in a list, and looked at
    inside = Counter(chain(*references, *(n.src for n in order), _kept_by_rules(order)))
    found = {n for n, number in zip(order, counts, strict=True) if number > inside[n] + own}
    return found.difference(roots)


def _kept_by_rules(order: Iterable[Node]) -> Iterator[Node]:
    """Nodes that rules for gradients refer to, such as what a checkpoint computes again."""
    stack: list[Any] = [n.arg for n in order if n.op is Op.CUSTOM_GRADIENT]
    seen: set[int] = set()
    while stack:
        holder = stack.pop()
        if id(holder) not in seen:
            seen.add(id(holder))
            for found in gc.get_referents(holder):
                if isinstance(found, Node):
                    yield found
                elif isinstance(found, tuple | list | CellType):
                    stack.append(found)


class Place(NamedTuple):
    """Where a value is read: in which kernel, at an index expression an axis, and when (None:
    always). Equal places are one computation."""

    kernel: int
    indices: tuple[Node, ...]
    valid: Node | None


def in_several_places(order: Sequence[Node], kernels: Mapping[Node, int]) -> list[Node]:
    """The deciding inexact values that would be computed in more than one place, were no more
    stored than these: those to store, users first.

    order: a graph, sources first. kernels: for each stored value, which kernel computes it. Those
    of one kernel have equal shapes, but for axes of size 1, and are computed in the same loops.
    """
    candidates = {n for n in read_by_deciding(order) if n not in kernels}
    above: set[Node] = set()
    for node in order:
        if node in candidates or not above.isdisjoint(node.src):
            above.add(node)
    places: dict[Node, dict[Place, None]] = {n: {} for n in above}
    found = []
    walk = _Walk(max(kernels.values(), default=-1) + 1)
    for node in reversed(order):
        if node not in above:
            continue
        if node in candidates and len(places[node]) > 1:
            found.append(node)
            places[node] = {walk.own(node, walk.new_kernel()): None}
        elif node in kernels:
            places[node] = {walk.own(node, kernels[node]): None}
        for place in places[node]:
            for source, below in walk.below(node, place):
                if source in above:
                    places[source][below] = None
    return found


class _Walk:
    """From where a node is read to where that reads its sources, as codegen/loops/lower.py does."""

    def __init__(self, kernels: int) -> None:
        self.kernels = kernels
        self.numbers = count()
        self.unknown: dict[tuple[Node, Place], tuple[Node, ...]] = {}

    def new_kernel(self) -> int:
        """The number of one more kernel."""
        self.kernels += 1
        return self.kernels - 1

    def own(self, node: Node, kernel: int) -> Place:
        """Where a kernel computes what it stores: in a loop for each axis but those of size 1."""
        numbers = count()
        ranges = tuple(index(0) if n == 1 else _range((kernel, next(numbers)), n)
                       for n in node.shape)
        return Place(kernel, ranges, None)

    def ranges(self, shape: Sequence[int]) -> tuple[Node, ...]:
        """New loops over an array; 0 where there is nothing to loop over."""
        number = next(self.numbers)
        return tuple(index(0) if n == 1 else _range((-1, number, axis), n)
                     for axis, n in enumerate(shape))

    def loops(self, node: Node, shape: Sequence[int], place: Place) -> tuple[Node, ...]:
        """The loops that `node` has of its own for what is read at `place`."""
        key = node, place
        if key not in self.unknown:
            self.unknown[key] = self.ranges(shape)
        return self.unknown[key]

    def below(self, node: Node, place: Place) -> Iterator[tuple[Node, Place]]:
        """The sources of a node, and where they are read."""
        kernel, indices, valid = place
        if node.op in MOVEMENT:
            inner, within = source_indices(node.op, node.src[0].shape, node.arg, list(indices))
            yield node.src[0], Place(kernel, tuple(inner), both(valid, within))
        elif node.op is Op.REDUCE:
            own = self.loops(node, node.src[0].shape, place)
            inner = tuple(own[a] if a in node.arg[1] else i for a, i in enumerate(indices))
            yield node.src[0], Place(kernel, inner, valid)
        elif node.op is Op.GATHER:
            yield node.src[1], place
            position, = self.loops(node.src[1], node.src[0].shape[node.arg:node.arg + 1], place)
            inner = (*indices[:node.arg], position, *indices[node.arg + 1:])
            yield node.src[0], Place(kernel, inner, valid)
        elif node.op is Op.SCATTER:
            yield node.src[0], place
            inside = Place(kernel, self.loops(node, node.src[2].shape, place), valid)
            yield from ((s, inside) for s in node.src[1:])
        else:
            yield from ((s, place) for s in node.src)


def _range(order: tuple[int, ...], extent: int) -> Node:
    return make(Op.RANGE, dt.INDEX, (), Range(order, extent, "loop"))
