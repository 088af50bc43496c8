"""Which values a kernel holds a block of rows at a time instead of storing all of them.

In: the kernels that fusion.py makes. Out: the same, but where two have their first axes in common
and only the second reads what the first makes, one kernel may run both for a block of those axes,
then for the next: what the first makes stays in the second cache. By bytes of traffic beyond
that, one kernel

    saves:  TRAFFIC * (bytes of the values held)
    costs:  AGAIN * (bytes that each block reads again, as all of them read the same)

The values of a chain of kernels are held together. schedule.py calls this.
"""
from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from math import prod

from lazyten.ir.node import Node, toposort
from lazyten.ir.ops import Op
from lazyten.schedule.cost import StoredValue, is_leaf
from lazyten.schedule.fusion import FusedKernel, Labels, axes_of, labels_of, without_ones

TRAFFIC = 3.0
"""What is stored is read from memory to be overwritten, written, and read."""
AGAIN = 2.0
"""What all blocks read is in the third cache: a perceptron from 256 to 1024 to 256 numbers takes a
tenth longer for 1024 rows if it holds its hidden values."""
LEAST = 2
"""Values that take less than so many blocks stay in the caches anyway."""
LEAST_ROWS = 16
"""Rows of a block that make register tiles worthwhile."""


@dataclass(slots=True, eq=False)
class _Chain:
    """Kernels that run as one. axes: how many first axes all have in common, at most. reads: of
    each leaf, its bytes and by which axes of the outputs it is indexed (None: unknown)."""

    group: FusedKernel
    axes: int
    reads: dict[Node, tuple[int, Labels | None]]

    @property
    def members(self) -> list[Node]:
        return [d.node for d in (*self.group.held, *self.group.stored)]


def hold_blocks(groups: Sequence[FusedKernel], place: Mapping[Node, int], kept: Collection[int],
                room: int) -> list[FusedKernel]:
    """The kernels to run, in the same order.

    place: the number of each stored value's array. kept: arrays that are results. room: bytes that
    a block's values may take, 0 where devices hold none.
    """
    if not room:
        return list(groups)
    chains: dict[int, _Chain] = {}
    readers: dict[int, list[_Chain]] = {}
    order = []
    for group in groups:
        chain = _chain(group, place)
        order.append(chain)
        for array in {place[n] for n in chain.reads if n in place}:
            readers.setdefault(array, []).append(chain)
        chains |= dict.fromkeys((place[d.node] for d in group.stored), chain)
    gone: set[_Chain] = set()
    for chain in order:
        for array in dict.fromkeys(place[n] for n in chain.reads if n in place):
            first = chains.get(array)
            if first is None or array in kept or len(readers[array]) > 1 or first in gone:
                continue
            both = _joined(first, chain, place, room)
            if both is not None:
                gone.add(first)
                chain.group, chain.axes, chain.reads = both.group, both.axes, both.reads
                for joined in readers.values():
                    joined[:] = dict.fromkeys(chain if r is first else r for r in joined)
    return [c.group for c in order if c not in gone]


def _chain(group: FusedKernel, place: Mapping[Node, int]) -> _Chain:
    """A kernel alone."""
    own = {place[d.node] for d in group.stored}

    def is_read(n: Node) -> bool:
        return is_leaf(n) or n in place and place[n] not in own

    def sources(n: Node) -> Sequence[Node]:
        return () if is_read(n) else n.src

    reads: dict[Node, tuple[int, Labels | None]] = {}
    for root in (d.node for d in group.stored):
        nodes = toposort([root], sources)
        labels = labels_of(nodes, sources, by_axis=True)
        for n in filter(is_read, nodes):
            found = labels[n]
            by = None if found is None else axes_of(found, n.shape)
            reads[n] = (n.numel * n.dtype.itemsize, by if reads.get(n, (0, by))[1] == by else None)
    return _Chain(group, len(without_ones(group.stored[0].node.shape)), reads)


def _joined(first: _Chain, second: _Chain, place: Mapping[Node, int],
            room: int) -> _Chain | None:
    """One kernel for both, which holds what `first` makes, if that is possible and better."""
    made = first.group.stored[0]
    values = [n for n in second.reads if place.get(n) == place[made.node]]
    if len(first.group.stored) > 1 or _stays(first) or _stays(second) \
            or any(without_ones(n.shape) != without_ones(made.node.shape) for n in values):
        return None
    axes = min([first.axes, second.axes, *(_leading(second.reads[n][1]) for n in values)])
    held = (*first.group.held, *second.group.held, made)
    reads = {n: found for n, found in second.reads.items() if n not in values}
    for n, (size, by) in first.reads.items():
        reads[n] = (size, None if n in reads and reads[n][1] != by else by)
    rows = 0
    while axes and not rows:
        rows = _rows(without_ones(second.group.stored[0].node.shape), held, axes, room)
        axes -= not rows
    if not rows:
        return None
    size = without_ones(made.node.shape)[axes - 1]
    stored = sum(_nbytes(d) for d in held)
    again = sum(n for n, by in reads.values() if by is None or axes - 1 not in by)
    if stored < LEAST * room or TRAFFIC * stored <= AGAIN * again * -(-size // rows):
        return None
    group = replace(second.group, held=held, block=(axes, rows))
    return _Chain(group, axes, reads)


def _leading(labels: Labels | None) -> int:
    """How many first axes are indexed by the first ones of the outputs."""
    return next((axis for axis, i in enumerate(labels or ()) if i != axis), len(labels or ()))


def _stays(chain: _Chain) -> bool:
    """Whether a kernel must be one of its own: the loops of a SCATTER are none of an output."""
    return any(d.node.op is Op.SCATTER for d in chain.group.stored)


def _rows(shape: Sequence[int], held: Sequence[StoredValue], axes: int, room: int) -> int:
    """How many rows of the last of `axes` axes make a block: a divisor of it if there is one near.
    0 where there is room for too few, or one block would be all."""
    width = sum(d.node.dtype.itemsize * prod(without_ones(d.node.shape)[axes:]) for d in held)
    most = min(shape[axes - 1], room // width)
    if most < LEAST_ROWS or most == prod(shape[:axes]):
        return 0
    return next((n for n in range(most, most // 2, -1) if shape[axes - 1] % n == 0), most)


def _nbytes(value: StoredValue) -> int:
    return value.node.numel * value.node.dtype.itemsize
