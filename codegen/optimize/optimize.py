"""Decide which loops become vectors, register tiles and accumulators, and rewrite them.

In: a SINK whose ranges are merged, and a Target. Out: decisions, and a SINK whose ranges carry
them; pipeline.py has the passes. Nothing here knows what a kernel computes: the choice follows from
extents, strides, reuse and the number of registers, by a static model of the cycles that each
candidate takes.
"""
from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import lru_cache

from lazyten.codegen.gpu.gpu import decide_grid
from lazyten.codegen.gpu.gpu_stream import stream_candidates
from lazyten.codegen.gpu.local_memory import (
    COPIES,
    array_sizes,
    group_size,
    marked,
    stage_in_local,
    strides_of,
)
from lazyten.codegen.loops.packing import mark, packable_loads
from lazyten.codegen.loops.ranges import (
    block_range,
    block_reduction,
    group_range,
    make_outermost,
    outermost_range,
    overlaps,
    share_ranges,
    split_outputs,
    split_reduction,
)
from lazyten.codegen.loops.streaming import streams
from lazyten.codegen.loops.summation import blocked_sums
from lazyten.codegen.model.cpu_model import Model
from lazyten.codegen.model.decisions import Decisions, Tensors, range_name
from lazyten.codegen.model.loop_bodies import Body, Chosen
from lazyten.codegen.optimize import cache_blocking
from lazyten.codegen.optimize.parallel import choose_parallel
from lazyten.codegen.targets.target import Target
from lazyten.ir.node import Node, ranges_of

TILES = (1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 14)
MOST_STARTS = 6
MOST_ROWS = 4
"""Iterations that work out a mask, or divide an index, once for all of them."""
UNROLLS = (1, 2, 3, 4, 5, 6, 7, 8)
LONG = 16.0
"""Units of arithmetic on an element from which on copies of it run beside each other, as one step
waits for the one before."""
SHORT = 1e4
"""Half cycles of a kernel up to which such copies are not worth compiling."""
MOST_WRITTEN_OUT = 32
"""Elements of a reduction up to which it may do without loops."""
ASKED_FOR = 64
"""SINKs of which it is remembered what was chosen."""
GAIN_AN_INSTRUCTION = 1e-4
"""The share of a kernel's cycles that each instruction more must save, as it takes LLVM 0.15 ms."""


def split(sink: Node, decisions: Decisions, scratch: int) -> Node:
    """The SINK with ranges as decided. What is going to be packed is read from argument `scratch`
    on, and what is going to be in local memory from others, at the operand's positions still."""
    packed = [s for s in decisions.staged if not s.local]
    local = [s for s in decisions.staged if s.local]
    return apply(marked(mark(sink, packed, scratch), local), decisions)


def local_arrays(sink: Node, decisions: Decisions) -> list[tuple[int, int, int]]:
    """What decisions put in local memory: for each array the elements that an item copies, how many
    it may, and bytes."""
    local = [s for s in decisions.staged if s.local]
    size = digits_of(sink, decisions)[1]
    made = apply(marked(sink, local), decisions)
    inside = parts_of_groups(made, decisions)
    made, _ = stage_in_local(made, local, inside, size, decisions.swizzled)
    return array_sizes(made, size)


def digits_of(sink: Node, decisions: Decisions) -> tuple[dict[Node, int], int]:
    """The stride of each range in `local` among the work items of a group, and how many items that
    takes: 0 for no group."""
    warp = decisions.tensor.core.warp if decisions.tensor is not None else 0
    strides = strides_of(sink, decisions.local, max(warp, 1))
    return strides, max(group_size(strides, decisions.local), warp)


def parts_of_groups(sink: Node, decisions: Decisions) -> set[Node]:
    """The ranges of a split SINK's reductions that are a group's part of them."""
    orders = [group_range(r, n).arg.order for r, n in decisions.group]
    return {r for r in ranges_of([sink]) if r.arg.kind == "reduce"
            and any(r.arg.order[:len(order)] == order for order in orders)}


def tensors_of_groups(decisions: Decisions) -> Tensors | None:
    """What tensor cores multiply, with a group's part of the reduction in the place of it."""
    tensors, parts = decisions.tensor, dict(decisions.group)
    if tensors is None:
        return None

    def part(r: Node) -> Node:
        return group_range(r, parts[r]) if r in parts else r
    under = tensors.under
    return replace(tensors, inner=part(tensors.inner), under=None if under is None else part(under))


def decide(sink: Node, target: Target, tf32: bool = False) -> Decisions:
    """All decisions for a kernel whose ranges are merged, and which may multiply in tf32."""
    if streams(sink):
        return stream_candidates(sink, target)[0]
    if target.work_group > 1:
        return decide_grid(Model(sink, target, tf32))
    return _numbered(sink, in_caches(*chosen(sink, target)))


def decide_part(sink: Node, target: Target) -> Decisions:
    """The same for a part of a kernel that holds values: threads share its blocks, which are in the
    caches."""
    return _numbered(sink, chosen(sink, target)[1])


def _numbered(sink: Node, decisions: Decisions) -> Decisions:
    """With what is packed numbered among the loads of its argument."""
    loads = packable_loads(sink) if decisions.staged else {}
    return replace(decisions, staged=tuple(
        replace(s, number=loads[s.load.src[0].arg.slot].index(s.load)) for s in decisions.staged))


def apply(sink: Node, decisions: Decisions) -> Node:
    """Split the ranges as decided."""
    tile, unroll, local = map(dict, (decisions.tile, decisions.unroll, decisions.local))
    lanes = replace(decisions, tensor=tensors_of_groups(decisions)).widths()
    for r, n in decisions.group:
        sink = split_reduction(sink, r, 1, 1, ((-(-r.arg.extent // n), "reduce"), (n, "reduce")))

    def step(r: Node) -> int:
        return unroll.get(r, 1) * local.get(r, 1) * lanes.get(r, 1)
    tensors = tensors_of_groups(decisions)
    if tensors is not None and tensors.under is not None:  # nothing is left to loop over inside
        unroll |= {r: r.arg.extent // tensors.core.shape[2]
                   for r in (tensors.inner, tensors.under)}
        sums = {}
    else:
        sums = blocked_sums(sink, step, dict(decisions.block))
    ranges = sorted({*lanes, *tile, *unroll, *local, *sums}, key=lambda r: r.arg.order)
    for r, size in decisions.block:
        sink, inner = block_reduction(sink, r, size)
        if r in sums:
            sink = split_reduction(sink, inner, 1, 1, sums[r])
            ranges.remove(r)
    outputs = {r: (tile.get(r, 1), local.get(r, 1), lanes.get(r, 1))
               for r in ranges if r.arg.kind in ("loop", "apart")}
    if outputs:
        sink = split_outputs(sink, outputs)
    for r in ranges:
        if r not in outputs:
            sink = split_reduction(sink, r, unroll.get(r, 1), lanes.get(r, 1), sums.get(r, ()),
                                   local.get(r, 1))
    return sink if decisions.outer is None else make_outermost(sink, decisions.outer)


def share(sink: Node, decisions: Decisions) -> Node:
    """Make the loops that threads share one 'parallel' loop."""
    lanes, tile, local = decisions.widths(), dict(decisions.tile), dict(decisions.local)
    blocks = []
    for r in decisions.parallel.ranges:
        block = block_range(r, tile.get(r, 1) * local.get(r, 1) * lanes.get(r, 1))
        blocks.append(outermost_range(block) if r is decisions.outer else block)
    return share_ranges(sink, blocks) if blocks else sink


@lru_cache(maxsize=ASKED_FOR)
def chosen(sink: Node, target: Target) -> tuple[Model, Decisions]:
    """What `choose` says of a SINK whose ranges are merged, and by which model. index_sets.py asks
    for that of parts, and the pass that decides then asks again."""
    model = Model(sink, target)
    return model, choose(model)


def choose(model: Model) -> Decisions:
    """The candidate that the model expects to take the fewest cycles; the first of equals."""
    best = _fewest_cycles(model)
    return replace(best, staged=tuple(model.staged(best)))


def in_caches(model: Model, decisions: Decisions) -> Decisions:
    """With the order of the loops, a reduction's blocks, and what threads share."""
    decisions = replace(decisions, outer=cache_blocking.outermost(model, decisions),
                        block=cache_blocking.blocks(model, decisions))
    if not model.target.threads:
        return decisions
    sharing = choose_parallel(model, decisions)
    chunks = cache_blocking.chunks(model, decisions, decisions.block, sharing)
    if chunks is not None:
        return replace(decisions, outer=None, parallel=chunks)
    rows = cache_blocking.rows(model, decisions, sharing)
    return replace(decisions, parallel=sharing) if rows is None else rows


def _fewest_cycles(model: Model) -> Decisions:
    best, fewest = Decisions(), model.cycles(Decisions())
    starts = {candidate: model.cycles(candidate) for candidate in _vectors(model)}
    for candidate, cycles in starts.items():
        if cycles < fewest * 0.999:
            best, fewest = candidate, cycles
    for start in sorted(starts, key=starts.__getitem__)[:MOST_STARTS]:
        if model.least_cycles(start.lanes) < fewest * 0.999:
            candidate, cycles = _improve(model, start, starts[start])
            if cycles < fewest * 0.999:
                best, fewest = candidate, cycles
    return best


def _vectors(model: Model) -> Iterator[Decisions]:
    """Each output range as the vector axis, or none; what it leaves scalar gets its own."""
    for r in (None, *model.outputs):
        for lanes in model.lane_counts(r) if r is not None else (1,):
            chosen: list[tuple[Node, int]] = [] if r is None else [(r, lanes)]
            yield from _with_reductions(model, _with_updates(model, tuple(chosen)), r)


def _with_updates(model: Model, chosen: Chosen) -> Chosen:
    """For the stores that come first, and for each update, that no chosen vector axis reaches,
    their best one or none."""
    for body in (model.stores, *model.updates) if model.updates else ():
        if body.free.isdisjoint([r for r, _ in chosen]):
            own = [r for r in body.chain if r in model.outputs and r not in model.shared_outputs]
            options = [chosen, *((*chosen, (r, n)) for r in own for n in model.lane_counts(r))]
            chosen = min(options, key=lambda lanes: model.cycles(Decisions(lanes=lanes)))
    return chosen


def _with_reductions(model: Model, chosen: tuple[tuple[Node, int], ...],
                     output: Node | None) -> Iterator[Decisions]:
    """For each reduction that no chosen vector axis reaches, its best vector axis or none."""
    partial = Decisions(lanes=chosen)
    for body in model.reductions:
        if output is not None and output in body.free:
            continue
        taken = {r for r, _ in partial.lanes}
        if taken & body.ranges or taken & body.free:
            continue
        options = [partial]
        for r in body.own:
            if any(r in b.free and taken & b.ranges for b in model.reductions):
                continue  # a reduction inside this one has vectors of its own
            options += [replace(partial, lanes=(*partial.lanes, (r, lanes)))
                        for lanes in model.lane_counts(r)]
        if len(model.reductions) == 1:  # a register tile may make any of them the best
            yield from options[1:]
        partial = min(options, key=model.cycles)
    yield partial


def _improve(model: Model, start: Decisions, fewest: float) -> tuple[Decisions, float]:
    """The best register tile over at most two output ranges, then more accumulators if too few.

    fewest: the cycles of `start`.
    """
    best = start
    for tile in _tiles(model, start):
        candidate = Decisions(start.lanes, tile)
        cycles = model.cycles(candidate, fewest)
        if cycles < fewest * 0.999:
            best, fewest = candidate, cycles
    for body in model.reductions:
        others = tuple(u for u in best.unroll if u[0] not in body.own)
        for unroll in _unrolls(body, dict(best.lanes)):
            candidate = replace(best, unroll=(*others, *unroll))
            cycles = model.cycles(candidate, fewest)
            if cycles < fewest * (1 - 0.03 / len(model.reductions)) \
                    and cycles < fewest * (1 - _worth(model, best, candidate)):
                best, fewest = candidate, cycles
    for tile in _copies(model, best) if fewest >= SHORT else ():
        candidate = replace(best, tile=tile)
        cycles = model.cycles(candidate, fewest)
        if cycles < fewest * (1 - _worth(model, best, candidate)):
            best, fewest = candidate, cycles
    return best, fewest


def _copies(model: Model, best: Decisions) -> Iterator[tuple[tuple[Node, int], ...]]:
    """Several vectors at once of what is stored after long arithmetic that no reduction repeats."""
    reduced = frozenset[Node]().union(*(body.free for body in model.reductions))
    for r, lanes in best.lanes:
        if r in model.shared_outputs and r not in reduced and r not in dict(best.tile) \
                and sum(t.arithmetic for t in model.stores.terms.values() if r in t.free) >= LONG:
            yield from ((*best.tile, (r, n)) for n in _factors(r, lanes) if 1 < n <= MOST_ROWS)


def _worth(model: Model, best: Decisions, longer: Decisions) -> float:
    """The share of the kernel's cycles that `longer` must save for what it takes to compile."""
    return GAIN_AN_INSTRUCTION * (model.instructions(longer) - model.instructions(best))


def _unrolls(body: Body, lanes: dict[Node, int]) -> Iterator[tuple[tuple[Node, int], ...]]:
    """Several accumulators over one of a reduction's ranges, or no loops at all over a few
    elements, but for what is behind whole vectors."""
    for r in reversed(body.own):  # of equals, neighbours in memory
        for count in UNROLLS:
            if r.arg.extent >= 2 * count * lanes.get(r, 1):
                yield ((r, count),)
    whole = tuple((r, r.arg.extent // lanes.get(r, 1)) for r in body.own)
    uneven = [r for r in body.own if r.arg.extent % lanes.get(r, 1)]
    if math.prod(count for _, count in whole) <= MOST_WRITTEN_OUT \
            and (not uneven or body.is_peeled and uneven == body.own[-1:]):
        yield tuple((r, count) for r, count in whole if count > 1)


def _tiles(model: Model, start: Decisions) -> Iterator[tuple[tuple[Node, int], ...]]:
    """Register tiles over pairs of the output ranges that the loads reuse, and of the vector axis:
    a reduction with one accumulator waits for each addition. Also such as let loads whose lanes
    are far apart be read along the tile. Without reductions, over loops around what they need not
    repeat, such as masks."""
    lanes = dict(start.lanes)
    if not model.reductions:
        yield from (((r, n),) for r in model.repeating_outputs
                    for n in _factors(r, lanes.get(r, 1)) if 1 < n <= MOST_ROWS)
    ranges = [r for r in model.outputs if r in model.reused_outputs or r in lanes
              and any(r in body.free for body in model.reductions)]
    factors = {r: _factors(r, lanes.get(r, 1), model.is_near(r)) for r in ranges}
    for i, a in enumerate(ranges):
        for m in factors[a]:
            if m > 1:
                yield ((a, m),)
            for b in ranges[i + 1:]:
                for n in factors[b]:
                    if m > 1 and n > 1 and m * n <= model.target.vector_registers:
                        yield ((a, m), (b, n))
    for r, n in sorted(model.transposing_tiles(lanes), key=lambda c: (c[0].arg.order, c[1])):
        if not overlaps(r, n * lanes.get(r, 1)):
            yield ((r, n),)


def _factors(r: Node, lanes: int, is_near: bool = False) -> Sequence[int]:
    """Copies of a range in registers. is_near: whether they are neighbours in memory: any number of
    them is as good, so those that leave as many steps with the least."""
    most = r.arg.extent // lanes  # all of it leaves nothing over, whatever it is
    found = {f for f in (*TILES, most) if 0 < f <= min(most, TILES[-1])}
    if is_near:
        count = -(-r.arg.extent // lanes)
        found = {-(-count // -(-count // f)) for f in found}
    return [f for f in sorted(found) if not overlaps(r, f * lanes)]


def loop_nest(sink: Node) -> str:
    """The loops of an optimized kernel and their kinds, for DEBUG=3."""
    ranges = sorted((r for r in ranges_of([sink]) if r.arg.order[0] < COPIES),
                    key=lambda r: r.arg.order)
    return "\n".join(f"  {range_name(r):<8} {r.arg.kind:<7} {r.arg.extent}" for r in ranges)
