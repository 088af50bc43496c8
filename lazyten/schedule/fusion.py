"""Which stored values one kernel computes together: kernels with several outputs.

In: the values that are stored, in an order to compute them. Out: kernels that store them, again in
an order to compute them. schedule.py calls this after cost.py.

Two kernels of equal output shapes may become one where they read the same values, or one reads what
the other makes at its own positions only: it then has that value at hand. In the cost model's units
one kernel instead of two

    saves:  LAUNCH + LOAD * (elements that it need not read again) + shared reductions
    costs:  CROWDED or UNLIKE * (the smaller of the two kernels' reductions, where both have some)
            STRIDED * (elements of an output) where one has long reductions
"""
from __future__ import annotations

import heapq
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass

from lazyten.ir.node import Node, Shape, toposort
from lazyten.ir.ops import ELEMENTWISE, IDENTITY_OPS, MOVEMENT, Op
from lazyten.schedule.cost import LAUNCH, LOAD, MOST_REDUCES, StoredValue, adds_pairs

CROWDED = 1 / 16
"""How much slower reductions with equal loops run beside each other: each has its own operands in
the registers and the first cache."""
UNLIKE = 1.0
"""The same where their loops differ: one register tile and one vector axis must do for both."""
LONG, STRIDED = 256, 8.0
"""A reduction of so many elements runs in the order that suits what it reads. What is elementwise
would be loaded and stored in that order, too: so much slower an element."""
MOST_OUTPUTS = 8
MOST_NODES = 500
"""Nodes of a kernel's expressions beyond which compile time grows faster than launches cost."""
NEAREST = 8
"""How many of the last readers of a value a kernel may join: what two kernels far apart need would
have to stay in memory for long, and looking at all would be slow."""

Labels = tuple[int, ...]
"""For each axis of a node, by which output axis it is indexed; else NONE: of size 1, or reduced."""
NONE = -1
SEVERAL = -2
"""Different readers index an axis by different ones."""


@dataclass(frozen=True, slots=True)
class FusedKernel:
    """What one kernel stores, in an order to compute it. saved: by the model, against a kernel for
    each value. held, block: values that it holds, in an order to compute them, `block[1]` rows of
    the last of `block[0]` axes at a time; see tile_fusion.py."""

    stored: tuple[StoredValue, ...]
    saved: float
    held: tuple[StoredValue, ...] = ()
    block: tuple[int, int] = (0, 0)


def merge_kernels(values: Sequence[StoredValue], roots: Collection[Node]) -> list[FusedKernel]:
    """The kernels to run. What nobody but its own kernel reads, and is no root, is not stored."""
    stored = frozenset(d.node for d in values)
    merger = _Merger()
    for position, value in enumerate(values):
        merger.add(_kernel(position, value, stored))
    needed = {*roots, *(n for k in merger.kernels for n in k.values if n not in k.members)}
    return [FusedKernel(tuple(d for d in k.stored if d.node in needed), k.saved)
            for k in merger.in_order()]


# ---- what a kernel reads -------------------------------------------------------------------------

@dataclass(slots=True, eq=False)
class _Kernel:
    """A kernel to be.

    position: of its first value among all. values: the stored values it reads, and whether at its
    own positions only. readings: what it reads, as the last of the movement ops around it that is
    no RESHAPE, and how many elements that are in memory. nodes: of its expressions; reduces: the
    reductions among them, and by what they are indexed. own, before: bit i for value i of the
    schedule, if it is of this kernel, or must be there before it runs.
    """

    position: int
    stored: list[StoredValue]
    members: set[Node]
    values: dict[Node, bool]
    readings: dict[Node, int]
    nodes: set[Node]
    reduces: set[tuple[Node, Labels | None]]
    own: int
    before: int = 0
    saved: float = 0.0

    @property
    def shape(self) -> Shape:
        return without_ones(self.stored[0].node.shape)

    def take(self, other: _Kernel, saved: float) -> None:
        """Compute what `other` does, too."""
        self.position = min(self.position, other.position)
        self.stored += other.stored
        self.members |= other.members
        for value, own in other.values.items():
            self.values[value] = self.values.get(value, True) and own
        self.readings |= other.readings
        self.nodes |= other.nodes
        self.reduces |= other.reduces
        self.own |= other.own
        self.before = (self.before | other.before) & ~self.own
        self.saved += other.saved + saved


def _kernel(position: int, value: StoredValue, stored: Collection[Node]) -> _Kernel:
    """The kernel that computes one stored value."""
    root = value.node

    def sources(n: Node) -> tuple[Node, ...]:
        return n.src if n is root or n not in stored else ()

    order = toposort([root], sources)
    labels = labels_of(order, sources)
    own = tuple(range(len(without_ones(root.shape))))
    values: dict[Node, bool] = {}
    for n in order:
        if n in stored and n is not root:
            found = labels[n]
            values[n] = found is not None and axes_of(found, n.shape) == own
    leaf_of = {n: n for n in order if n.op is Op.BUFFER or n in values}
    readings: dict[Node, int] = {}
    for n in order:
        if n.op in MOVEMENT and n not in leaf_of and n.src[0] in leaf_of:
            leaf_of[n] = leaf_of[n.src[0]]
            continue
        for s in sources(n):
            if s in leaf_of:
                while s.op is Op.RESHAPE and s is not leaf_of[s]:
                    s = s.src[0]
                readings[s] = min(s.numel, leaf_of[s].numel)
    reduces = {(n, labels[n]) for n in order if n.op is Op.REDUCE and n not in values}
    return _Kernel(position, [value], {root}, values, readings, set(order), reduces,
                   1 << position)


def labels_of(order: Sequence[Node], sources: Callable[[Node], Sequence[Node]],
              by_axis: bool = False) -> dict[Node, Labels | None]:
    """By what each node of a kernel is indexed; None where that is nothing simple, or not one.

    by_axis: where readers differ on some axes, only these are SEVERAL.
    """
    root = order[-1]
    count = iter(range(len(root.shape)))
    labels: dict[Node, Labels | None] = {
        root: tuple(NONE if n == 1 else next(count) for n in root.shape)}
    for node in reversed(order):
        for s in sources(node):
            below = _source_labels(node, s, labels[node])
            before = labels.get(s, below)
            if before == below:
                labels[s] = below
            elif by_axis and before is not None and below is not None:
                labels[s] = tuple(a if a == b else SEVERAL
                                  for a, b in zip(before, below, strict=True))
            else:
                labels[s] = None
    return labels


def _source_labels(node: Node, source: Node, labels: Labels | None) -> Labels | None:
    """By what `source` is indexed where `node`, which reads it, is indexed by `labels`."""
    if labels is None:
        return None
    if node.op in ELEMENTWISE or node.op in IDENTITY_OPS or node.op in (Op.CONTIGUOUS, Op.REDUCE):
        return labels  # what is reduced has size 1 here
    if node.op is Op.EXPAND:
        return tuple(NONE if n == 1 else i for n, i in zip(source.shape, labels, strict=True))
    if node.op is Op.PERMUTE:
        return tuple(labels[node.arg.index(a)] for a in range(len(labels)))
    if node.op in (Op.SHRINK, Op.FLIP):
        moved = node.arg if node.op is Op.FLIP else [a for a, n in enumerate(source.shape)
                                                     if n != node.shape[a]]
        return tuple(NONE if n == 1 else SEVERAL if a in moved else i
                     for a, (n, i) in enumerate(zip(source.shape, labels, strict=True)))
    if node.op is Op.RESHAPE and node.numel:
        return _reshaped_labels(source.shape, node.shape, labels)
    return None


def _reshaped_labels(source: Shape, shape: Shape, labels: Labels) -> Labels:
    """Labels of the axes of `source`, which a RESHAPE gives `shape`: those that it leaves as they
    are keep theirs, and what it splits or merges is indexed by several."""
    found: list[int] = []
    given = iter([(n, i) for n, i in zip(shape, labels, strict=True) if n != 1])
    own = iter(without_ones(source))
    for n in own:
        other, label = next(given)
        count = 1
        while n != other:
            label = SEVERAL
            if n < other:
                n *= next(own)
                count += 1
            else:
                other *= next(given)[0]
        found += [label] * count
    axes = iter(found)
    return tuple(NONE if n == 1 else next(axes) for n in source)


def axes_of(labels: Labels, shape: Shape) -> Labels:
    """The labels of the axes of other sizes than 1."""
    return tuple(i for i, n in zip(labels, shape, strict=True) if n != 1)


def without_ones(shape: Shape) -> Shape:
    """The sizes of the axes that there is something to loop over."""
    return tuple(n for n in shape if n != 1)


# ---- merging -------------------------------------------------------------------------------------

class _Merger:
    """The kernels so far; each one that is added joins those it had better be one with."""

    def __init__(self) -> None:
        self.kernels: dict[_Kernel, None] = {}
        self.owner: dict[Node, _Kernel] = {}
        self.readers: dict[tuple[Shape, Node], list[Node]] = {}

    def add(self, kernel: _Kernel) -> None:
        """One more kernel; those that it reads from were added before."""
        node = kernel.stored[0].node
        candidates = self._candidates(kernel) if node.numel else []
        for reading in kernel.readings:
            self.readers.setdefault((kernel.shape, reading), []).append(node)
        self.kernels[kernel] = None
        self.owner[node] = kernel
        for source in self._sources(kernel):
            kernel.before |= source.own | source.before
        candidates.sort(key=lambda c: -_saving(c, kernel))
        for other in candidates:
            saved = _saving(other, kernel)
            if saved > 0 and self._may_join(other, kernel):
                self._join(other, kernel, saved)
                kernel = other

    def _candidates(self, kernel: _Kernel) -> list[_Kernel]:
        """Kernels of this one's shape that make what it reads, or read the same."""
        found: dict[_Kernel, None] = {}
        for value, own in kernel.values.items():
            if own and without_ones(value.shape) == kernel.shape:
                found[self.owner[value]] = None
        for reading in kernel.readings:
            for node in self.readers.get((kernel.shape, reading), [])[-NEAREST:]:
                found[self.owner[node]] = None
        return list(found)

    def _may_join(self, a: _Kernel, b: _Kernel) -> bool:
        if len(a.members) + len(b.members) > MOST_OUTPUTS or len(a.nodes | b.nodes) > MOST_NODES \
                or len(a.reduces | b.reduces) > MOST_REDUCES:
            return False
        if any(n.op is Op.SCATTER for n in a.nodes | b.nodes):
            return False  # its loop over the values is no loop of an output
        if not all(a.values.get(n, True) for n in b.members) or \
                not all(b.values.get(n, True) for n in a.members):
            return False
        return not self._needs_between(a, b) and not self._needs_between(b, a)

    def _needs_between(self, later: _Kernel, earlier: _Kernel) -> bool:
        """Whether `later` needs a third kernel's value that needs one of `earlier`."""
        return bool(later.before & earlier.own) and any(
            k.before & earlier.own for k in self._sources(later) if k is not earlier)

    def _sources(self, kernel: _Kernel) -> list[_Kernel]:
        """The other kernels that this one reads from, each once."""
        found = dict.fromkeys(self.owner[n] for n in kernel.values)
        found.pop(kernel, None)
        return list(found)

    def _join(self, kernel: _Kernel, other: _Kernel, saved: float) -> None:
        del self.kernels[other]
        for node in other.members:
            self.owner[node] = kernel
        kernel.take(other, saved)
        for user in self.kernels:
            if user.before & kernel.own:
                user.before |= kernel.own | kernel.before

    def in_order(self) -> list[_Kernel]:
        """Each kernel as soon as what it reads is there; of those, first what came first."""
        waits = {k: len(self._sources(k)) for k in self.kernels}
        users: dict[_Kernel, list[_Kernel]] = {k: [] for k in self.kernels}
        for k in self.kernels:
            for source in self._sources(k):
                users[source].append(k)
        by_position = {k.position: k for k in self.kernels}
        ready = [k.position for k, count in waits.items() if not count]
        heapq.heapify(ready)
        order = []
        while ready:
            order.append(by_position[heapq.heappop(ready)])
            for user in users[order[-1]]:
                waits[user] -= 1
                if not waits[user]:
                    heapq.heappush(ready, user.position)
        return order


def _saving(a: _Kernel, b: _Kernel) -> float:
    """What one kernel saves by the model; nothing unless it spares as many loads as it has outputs:
    kernels that share little are better compiled once where they are equal."""
    again = sum(n for r, n in a.readings.items() if r in b.readings)
    again += sum(n.numel for n in a.members if n in b.values)
    again += sum(n.numel for n in b.members if n in a.values)
    numel = a.stored[0].node.numel
    if again < numel:
        return 0.0
    shared = {(n, labels) for n, labels in a.reduces & b.reduces if labels is not None}
    left, right = ([n for n, _ in k.reduces - shared] for k in (a, b))
    return LAUNCH + LOAD * again + _elements(n for n, _ in shared) - _crowding(left, right, numel)


def _crowding(a: Sequence[Node], b: Sequence[Node], numel: int) -> float:
    """What reductions in a kernel of outputs of `numel` lose, and make lose, by the other ones."""
    if not a or not b:
        apart = _elements((*a, *b)) >= LONG * numel or any(map(adds_pairs, (*a, *b)))
        return STRIDED * numel if apart else 0.0
    factor = CROWDED if {_loops(r) for r in a} == {_loops(r) for r in b} else UNLIKE
    return factor * (1 + LOAD) * min(_elements(a), _elements(b))


def _elements(reduces: Iterable[Node]) -> int:
    return sum(r.src[0].numel for r in reduces)


def _loops(reduce: Node) -> tuple[Shape, Shape]:
    """All loops of a reduction, and which of them it combines over."""
    shape = reduce.src[0].shape
    return without_ones(shape), tuple(shape[a] for a in reduce.arg[1])
