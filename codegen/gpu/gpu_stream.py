"""Decisions for a streamed sum: tensor cores for it, and for the product that its rows are made of.

In: a SINK that loops/streaming.py made. Out: decisions, the best first, and whether one pass pays.
A group has some rows; its warps each have theirs alone, with all columns, so that a row's maximum
is found among the items that share its elements. What all rows read is in local memory, part by
part. What is best was measured on an H200, of some seventy kernels of twelve shapes.
"""
from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import product
from typing import NamedTuple

from lazyten.codegen.gpu.gpu_tensor import multiprocessors
from lazyten.codegen.gpu.local_memory import most_copies
from lazyten.codegen.gpu.tensor_tiles import cores_for, divides, operands
from lazyten.codegen.loops.lower import lower
from lazyten.codegen.loops.packing import Staged, local_loads
from lazyten.codegen.loops.ranges import free_ranges, merge_ranges
from lazyten.codegen.loops.streaming import stream, streams
from lazyten.codegen.model.decisions import Decisions, Sharing, Tensors
from lazyten.codegen.targets.target import Target
from lazyten.codegen.targets.tensor_cores import TensorCore
from lazyten.ir.kernel import Kernel
from lazyten.ir.node import Node, ranges_of, toposort
from lazyten.ir.ops import Op

WARPS = (2, 4, 8)
TILES = (1, 2)
PARTS = (32, 64, 128)
BUFFERS = (1, 2, 3)
MOST_SUMS = 160
"""Of both products, what an item holds."""
BEST_PART, BEST_BUFFERS = 64, 2
ROWS_FROM = ((128, 4), (64, 1), (32, 0))
"""Rows of a group, where there are so many groups of them for each multiprocessor."""
KEY_NS, ROW_NS, STORED_NS, LAUNCHES_NS = 12.5, 0.135, 0.004, 3000.0
"""Nanoseconds, where an element of the sum has 64 columns: what one element takes the group that is
alone on a multiprocessor; what it takes of a multiprocessor for each row, if it is busy; what an
element of stored scores takes the GPU; and what two more kernels take to start."""


class Products(NamedTuple):
    """The two products of a streamed sum. read: the factors of which a group reads other parts as
    it goes on. free: of all nodes of its SINK."""

    total: Node
    scores: Node
    read: tuple[Node, ...]
    free: dict[Node, frozenset[Node]]


def products_of(sink: Node) -> Products | None:
    """The sum of products that is streamed, and the one that its terms are made of, if there is one
    of each."""
    free = free_ranges(sink)
    totals = [n.src[0] for n in free if n.op is Op.RESCALED and operands(n.src[0]) is not None]
    inner = [n for n in free if n.op is Op.ACCUMULATE and operands(n) is not None
             and n not in totals]
    if len(totals) != 1 or len(inner) != 1:
        return None
    along = totals[0].src[1]
    read = tuple(f for n in (inner[0], totals[0]) for f in operands(n) or ()
                 if along in free[f] and inner[0] not in toposort([f]))
    return Products(totals[0], inner[0], read, free)


def streamed(sink: Node, target: Target) -> Node:
    """The SINK in one pass, if this target has what makes that worthwhile."""
    if target.work_group == 1 or not target.tensor_cores or not target.local_memory:
        return sink
    made = stream(sink)
    return made if streams(made) and stream_candidates(made, target) else sink


def streamed_loops(kernel: Kernel, target: Target) -> Node:
    """The loops of a kernel, in one pass if they can be."""
    return streamed(merge_ranges(lower(kernel)), target)


def pays(sink: Node, target: Target) -> bool:
    """Whether a SINK is in one pass, which takes less time than three that store the scores. Of few
    rows a part of the GPU would go over all elements, one after the other."""
    found = products_of(sink) if streams(sink) else None
    if found is None:
        return False
    along, = found.total.src[1:]
    column = max(found.free[found.total] - found.free[found.scores], key=lambda r: r.arg.extent)
    elements = along.arg.extent
    rows = _rows(found, column)
    each: float = max(KEY_NS, ROW_NS * rows / multiprocessors(target)) * column.arg.extent / 64
    return bool(elements * each < LAUNCHES_NS + STORED_NS * rows * elements)


def _rows(found: Products, column: Node) -> int:
    """Of the sum, of all that is computed with it."""
    return math.prod(r.arg.extent for r in found.free[found.total] - {column})


def stream_candidates(sink: Node, target: Target) -> list[Decisions]:
    """All decisions, those first that the estimate expects to be fastest."""
    found = products_of(sink)
    if found is None:
        return []
    units: dict[Decisions, float] = {}
    for core in cores_for(found.total, target.tensor_cores):
        if core.is_local or not core.takes.is_half \
                or core not in cores_for(found.scores, target.tensor_cores):
            continue
        for tensors in _tensors(found, core):
            for shape in product(WARPS, TILES, PARTS, BUFFERS):
                decisions = _candidate(sink, found, tensors, target, *shape)
                if decisions is not None:
                    units[decisions] = _distance(decisions, found, target)
    return sorted(units, key=units.__getitem__)


def _tensors(found: Products, core: TensorCore) -> Iterator[Tensors]:
    """The ranges that both products may have."""
    total, scores, _, free = found
    inner, = total.src[1:]
    own = free[total] - {inner}
    for row, column in product(sorted(own, key=lambda r: r.arg.order), repeat=2):
        for under in scores.src[1:]:
            tensors = Tensors(core, row, column, inner, under)
            if row is not column and len(scores.src) == 2 and divides(total, tensors, free) \
                    and divides(scores, Tensors(core, row, inner, under), free):
                yield tensors


def _candidate(sink: Node, found: Products, tensors: Tensors, target: Target, warps: int, tile: int,
               part: int, buffers: int) -> Decisions | None:
    """Decisions of one shape; None if it does not fit."""
    core, under = tensors.core, tensors.under
    row, column, inner = tensors.row, tensors.column, tensors.inner
    assert under is not None
    m, n, k = core.shape
    size, rows = core.warp * warps, m * tile * warps
    columns, depth = column.arg.extent, under.arg.extent
    sums = tile * (columns + part) * core.size(core.c) // n
    if rows > row.arg.extent or columns % n or depth % k or part % k or part > inner.arg.extent \
            or sums > MOST_SUMS or size > target.work_group:
        return None
    group = ((inner, part), (under, depth)) if depth > 1 else ()
    parallel = tuple(r for r in sorted(found.free[sink], key=lambda r: r.arg.order)
                     if r is not column and (r is not row or r.arg.extent > rows))
    numbers = {load: i for loads in local_loads(sink).values() for i, load in enumerate(loads)}
    staged = []
    memory = 0
    for load in found.read:
        own = set(ranges_of(load.src[1:]))
        number = numbers.get(load)
        if number is None:
            return None
        inside = part * math.prod(r.arg.extent for r in own & {column, under})
        if inside // size > most_copies(core.takes.itemsize):
            return None
        staged.append(Staged(load, None, number, True, buffers))
        memory += buffers * inside * core.takes.itemsize * 5 // 4
    if len(staged) != 2 or memory > target.local_memory \
            or buffers > 1 and not (target.async_copies and inner.arg.extent > part):
        return None
    tiles = ((row, tile), (column, columns // n))
    return Decisions(tile=tuple((r, n) for r, n in tiles if n > 1), local=((row, warps),),
                     group=group, staged=tuple(staged), tensor=tensors,
                     parallel=Sharing(parallel, 1 if parallel else 0))


def _distance(decisions: Decisions, found: Products, target: Target) -> float:
    """How far decisions are from what was fastest: two blocks of rows a warp, which share what it
    reads, in groups of as many rows as leave enough groups."""
    tensors = decisions.tensor
    assert tensors is not None
    tile, (_, warps) = dict(decisions.tile).get(tensors.row, 1), decisions.local[0]
    rows = _rows(found, tensors.column)
    best = next(n for n, least in ROWS_FROM if rows >= n * least * multiprocessors(target))
    buffers = max(s.buffers for s in decisions.staged)
    distance: float = abs(math.log2(tensors.core.shape[0] * tile * warps / best)) \
        + abs(math.log2(decisions.group[0][1] / BEST_PART)) + abs(buffers - BEST_BUFFERS)
    return distance - (tile - 1) / 4 if best == ROWS_FROM[0][0] else distance + (tile - 1) / 4
