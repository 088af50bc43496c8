"""Which parts of operands the loops work on at a time, so that those stay in the caches.

In: the cycle model of a kernel, and a choice of vector axes, register tile and accumulators. Out:
the order of the output loops, the size of a chunk and of a reduction's blocks. Called by optimize.
"""
from __future__ import annotations

import math
from collections.abc import Container, Sequence
from dataclasses import dataclass, replace

from lazyten.codegen.loops.reduction_blocking import is_carried
from lazyten.codegen.loops.summation import LEAST, LONGEST, run_of
from lazyten.codegen.model.accesses import LINE, Access
from lazyten.codegen.model.cpu_model import Model
from lazyten.codegen.model.decisions import Decisions, Sharing
from lazyten.codegen.model.loop_bodies import Chosen, VectorBody, copied, is_kept
from lazyten.codegen.optimize.parallel import ENOUGH_CHUNKS
from lazyten.ir.node import Node

L2_SHARE = 0.5
"""How much of the second cache one operand may take."""
LONG_TILE, BLOCK_TILE = 0.25, 1.5
"""A reduction gets blocks where a register tile reads more than this share of the second cache in
all; in a block it reads this share of the first."""
RUN_TILE = 0.6
"""A register tile reads at most this share of the first cache of what one block sums, where blocks
are the runs of a long sum. Of 2 x 13 vectors of a convolution of 64 channels to 128, of 16 x 64, 16
channels take 690 us, 32 725 and all 747; of 4 x 6 vectors 8 take 705, 16 735 and all 781."""
MOST_SUMS = 4
"""Second caches that all sums of a kernel may take, which such blocks keep in memory of their own:
those of a chunk are near, however many there are."""
LEAST_LONG = 1e6
"""Half cycles of a kernel from which on it is worth compiling its loops twice for such blocks."""
WORTHWHILE = 0.8
"""Traffic falls at least to this share, or the loops stay as they are."""
LEAST_REREAD = 8
"""A reduction is worth blocks where each operand is read so often."""
PAGE = 4096
"""Bytes of memory that a core reads ahead in by itself."""
PAGES = 32
"""It does so in so many at a time. A product of a transposed matrix of 1024 rows of 4 KiB takes 18
ms with 32 rows at a time, 19 with 64, 31 with 128, and 66 with all of them."""
ROWS, LEAST_CHUNKS = 8, 4
"""So many rows of what is read once are read side by side, for about a page each, where that leaves
threads so many chunks. A vector times 4096 rows of 16 KiB takes 20% less time so than with a
register tile that goes through all rows, and a tenth more with 4 or 16 rows at a time."""


@dataclass(frozen=True, slots=True)
class Operand:
    """What a LOAD of a reduction reads: it depends on the ranges `free`."""

    free: frozenset[Node]
    access: Access

    def bytes_inside(self, outside: Container[Node]) -> int:
        """Bytes read while the ranges `outside` stand still, at most; of windows whole lines."""
        ranges = [r for r in self.free if r not in outside]
        if self.access.is_window():
            return int(self.access.runs({r: r.arg.extent for r in ranges})[1] * LINE)
        strides = [self.access.strides.get(r) for r in ranges]
        elements = math.prod(r.arg.extent for r in ranges)
        span = 1
        for r, stride in zip(ranges, strides, strict=True):
            span += elements if stride is None else abs(stride) * (r.arg.extent - 1)
        size: int = min(elements, span) * self.access.itemsize
        return size


def operands(model: Model) -> list[Operand]:
    """What the reductions of a kernel read."""
    return [Operand(term.free, access) for body in model.reductions
            for term in body.terms.values() for access in term.accesses]


def outermost(model: Model, choice: Decisions) -> Node | None:
    """The output range whose loop is better run outside the others; None if they are fine, or if
    updates share loops with what comes before them, which stay the outermost."""
    if model.updates:
        return None
    trips = model.loops(choice)[2]
    order = _output_loops(model, trips)
    best, least = None, WORTHWHILE * _traffic(model, order, trips)
    for r in order[1:]:
        traffic = _traffic(model, [r, *(o for o in order if o is not r)], trips)
        if traffic < least:
            best, least = r, traffic
    return best


def _output_loops(model: Model, trips: dict[Node, int]) -> list[Node]:
    return [r for r in model.outputs if trips.get(r, 1) > 1]


def _traffic(model: Model, order: list[Node], trips: dict[Node, int]) -> float:
    """Bytes that reductions read from beyond the second cache, with the output loops in this order.

    An operand is read anew for each iteration of a loop that it does not depend on, if what is read
    in one iteration is too large for that cache.
    """
    total, room = 0.0, L2_SHARE * model.target.l2_bytes
    for operand in operands(model):
        if operand.bytes_inside(()) <= room:
            continue
        last = max((i for i, r in enumerate(order) if r in operand.free), default=-1)
        again = math.prod(trips[r] for i, r in enumerate(order[:last + 1]) if r not in operand.free
                          and operand.bytes_inside(order[:i]) > room)
        total += operand.bytes_inside(()) * again
    return total


def blocks(model: Model, choice: Decisions) -> Chosen:
    """A reduction's outermost range and how many of its elements to sum at a time, so that what is
    read again, or next to it, is near by then; nothing where all are few enough."""
    copies, (_, *bodies), _ = model.loops(choice)
    if len(bodies) != 1 or not bodies[0].body.own:
        return ()
    own = bodies[0].body.own
    if set(own) & {r for r, _ in (*choice.lanes, *copies)} or not is_carried(model.sink, own[0]):
        return ()
    extent = own[0].arg.extent
    least = max(_in_first_cache(model, choice), _in_pages(model, choice, own))
    least = min(least, LONGEST, extent)
    count = next((n for n in range(least, 2 * least) if extent % n == 0), least)
    count = max(count, _runs(model, choice, own))
    return ((own[0], -(-extent // count)),) if 1 < count <= extent // 2 else ()


def _in_first_cache(model: Model, choice: Decisions) -> int:
    """So many blocks let half of what a register tile reads stay in the first cache. 1 where all
    that it reads is little beside the second."""
    copies, (_, body), trips = model.loops(choice)
    order, own = _output_loops(model, trips), body.body.own
    for operand in operands(model):
        read = math.prod(trips[r] for r in order if r not in operand.free)
        if operand.bytes_inside(()) <= model.target.l2_bytes or read < LEAST_REREAD:
            return 1
    step = tile_bytes(body, copies) * math.prod(trips[r] for r in own)
    if step <= LONG_TILE * model.target.l2_bytes:
        return 1
    return -(-step // int(BLOCK_TILE * model.target.l1_bytes))


def _runs(model: Model, choice: Decisions, own: Sequence[Node]) -> int:
    """So many blocks are the runs that a long sum is cut into anyway, or shorter ones: what one
    register tile after the other reads of these stays in the first cache, which all that one of
    them reads would fill. 1 where it would not, or where sums would take much memory. At most
    LONGEST, as each adds to what those before have."""
    copies, (_, body), _ = model.loops(choice)
    run, extent, room = run_of(own), int(own[0].arg.extent), model.target.l1_bytes
    inside, outputs = math.prod(r.arg.extent for r in own[1:]), body.body.chain[:-len(own)]
    step = tile_bytes(body, copies) * inside
    sums = math.prod(r.arg.extent for r in outputs) * model.sink.src[0].src[0].dtype.itemsize
    if run == extent or step * extent <= room or sums > MOST_SUMS * model.target.l2_bytes \
            or not any(is_kept(o.free, outputs) for o in operands(model)) \
            or model.cycles(choice) < LEAST_LONG:
        return 1
    fitting = [n for n in range(-(-extent // LONGEST), run + 1)
               if extent % n == 0 and n * inside >= LEAST]
    run = max((n for n in fitting if step * n <= RUN_TILE * room), default=min(fitting, default=0))
    return extent // run if run else 1


def _in_pages(model: Model, choice: Decisions, own: Sequence[Node]) -> int:
    """So many blocks let a register tile read what is not packed, and is read again, from few
    pages, beside which the next one reads on. 1 where the second cache holds each such operand, and
    where there is a loop inside."""
    staged, loops = {s.load for s in choice.staged}, _output_loops(model, model.loops(choice)[2])
    apart = any(_is_in_rows(o, r, own[0], model) for o in operands(model)
                if (o.access.load is None or o.access.load not in staged)
                and not o.free.issuperset(loops) for r in loops)
    return -(-own[0].arg.extent // PAGES) if apart and len(own) == 1 else 1


def rows(model: Model, choice: Decisions, sharing: Sharing) -> Decisions | None:
    """With blocks of a few rows for a sum over the rows of what is read once, from beyond the
    second cache: chunks of whole pages of each, in place of a register tile's few lines of every
    row, after each of which it jumps. None where the loops are not that, or chunks would be few."""
    copies, (_, *bodies), trips = model.loops(choice)
    if len(bodies) != 1 or len(bodies[0].body.own) != 1 or len(choice.lanes) != 1 or choice.staged:
        return None
    (own,), (r, lanes) = bodies[0].body.own, choice.lanes[0]
    if _output_loops(model, trips) != [r] or sharing.ranges != (r,) or choice.block \
            or own in dict(copies) or not ROWS < own.arg.extent <= ROWS * LONGEST \
            or not is_carried(model.sink, own):
        return None
    width = min((o.access.itemsize for o in operands(model) if _is_in_rows(o, r, own, model)),
                default=0) * lanes * copied(copies, (r,))
    pages = trips[r] * width // PAGE
    if pages < LEAST_CHUNKS:
        return None
    return replace(choice, block=((own, ROWS),), parallel=Sharing((r,), -(-trips[r] // pages)))


def _is_in_rows(operand: Operand, r: Node, own: Node, model: Model) -> bool:
    """Whether an operand that the second cache cannot hold has neighbours along `r`, and steps of
    `own` pages apart."""
    access = operand.access
    return (access.strides.get(r) == 1 and operand.bytes_inside(()) > model.target.l2_bytes
            and abs(access.strides.get(own) or 0) * access.itemsize >= PAGE)


def tile_bytes(body: VectorBody, copies: Chosen) -> int:
    """Bytes that an iteration of the innermost loop reads."""
    return sum(term.lanes * copied(copies, term.term.free) * access.itemsize
               for term in body.terms for access in term.term.accesses)


def chunks(model: Model, choice: Decisions, block: Chosen, sharing: Sharing) -> Sharing | None:
    """Instead of an outermost loop: chunks of it inside the others, of as many iterations as let
    what they read stay in the second cache. None where fewer than two do."""
    r = choice.outer
    if r is None or sharing.ranges != (r,):
        return None
    trips = model.loops(choice)[2]
    sizes = dict(block)
    bytes_each = 0
    for operand in operands(model):
        if r in operand.free:
            part = math.prod(sizes.get(o, o.arg.extent) for o in operand.free
                             if o is not r and o not in model.outputs)
            bytes_each += part * operand.access.itemsize * -(-r.arg.extent // trips[r])
    room = int(L2_SHARE * model.target.l2_bytes)
    grain = min(room // max(bytes_each, 1), trips[r] // ENOUGH_CHUNKS)
    return Sharing((r,), grain) if grain > 1 else None
