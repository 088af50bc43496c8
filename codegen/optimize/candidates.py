"""Decisions worth timing on a machine: the static model's best few, and neighbours of what is used.

In: a kernel and a target. Out: decisions as text, the likeliest first; each fits the kernel.
The tuner compiles and times them (lazyten/tuning/tuning.py, through Runtime.candidates).
"""
from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import replace

from lazyten.codegen.gpu.gpu import grid_candidates
from lazyten.codegen.gpu.gpu_stream import stream_candidates, streamed_loops
from lazyten.codegen.loops.lower import lower
from lazyten.codegen.loops.packing import Staged, packable_loads
from lazyten.codegen.loops.ranges import merge_ranges
from lazyten.codegen.loops.streaming import streams
from lazyten.codegen.model.cpu_model import Model
from lazyten.codegen.model.decisions import ONE_THREAD, Decisions, Sharing
from lazyten.codegen.optimize.decision_text import check, parse
from lazyten.codegen.optimize.optimize import decide, in_caches
from lazyten.codegen.targets.target import Target
from lazyten.ir.kernel import Kernel, held_values
from lazyten.ir.node import Node, ranges_of
from lazyten.support.errors import ArgumentError

STEPS = (1, 2, 3, 4, 5, 6, 8, 10, 12, 14)
"""Register tiles and numbers of accumulators that are tried."""
COARSE = (1, 2, 4, 6)
BLOCKS = (256, 512, 1024)
"""Blocks of a reduction that are tried."""
BEST = 6
"""How many of the model's favourites are tried."""
MOST = 24
"""How many on devices with groups of work items."""

Counts = tuple[tuple[Node, int], ...]


def candidates(kernel: Kernel, target: Target) -> list[str]:
    """Other decisions than the kernel's own, without repetition: near those that were given for it,
    or else near the model's and the model's favourites."""
    if held_values(kernel.outputs):
        return []  # there are decisions for each part
    sink, given = streamed_loops(kernel, target), kernel.decisions
    if streams(sink):
        texts = list(map(str, stream_candidates(sink, target)))
        own = texts[0] if given is None else str(parse(given.text, sink, target, given.where))
        return [text for text in texts if text != own][:MOST]
    model, base = _own(kernel, target)
    near = sorted(_near(model, base), key=model.cycles)
    finished = [] if kernel.decisions else _far(model, model.sink, target)
    ordered = [d for pair in itertools.zip_longest(near, finished) for d in pair if d is not None]
    return [text for text in dict.fromkeys(map(str, ordered)) if text != str(base)]


def estimates(kernel: Kernel, target: Target) -> list[tuple[str, float]]:
    """The kernel's decisions and those near them, each with the cycles that the model of processors
    expects of it on one core. Empty for devices that it is not of, and for kernels in parts."""
    if held_values(kernel.outputs) or target.work_group > 1:
        return []
    model, base = _own(kernel, target)
    near = sorted(_near(model, base), key=model.least_time)
    return list({str(d): model.least_time(d) / 2 for d in (base, *near)}.items())


def _own(kernel: Kernel, target: Target) -> tuple[Model, Decisions]:
    """The model of a kernel, and its decisions: those that were given for it, or the model's."""
    sink, given = merge_ranges(lower(kernel)), kernel.decisions
    base = decide(sink, target, kernel.tf32) if given is None else \
        parse(given.text, sink, target, given.where)
    return Model(sink, target, kernel.tf32), base


def _near(model: Model, base: Decisions) -> Iterator[Decisions]:
    return _fitting(_neighbours(model, model.sink, base), model.sink, model.target)


def _far(model: Model, sink: Node, target: Target) -> list[Decisions]:
    """The model's favourites, whatever the kernel has."""
    if target.work_group > 1:
        return list(itertools.islice(_fitting(iter(grid_candidates(model)), sink, target), MOST))
    far = sorted(_fitting(_favourites(model), sink, target), key=model.cycles)
    return [_finished(model, sink, f) for f in far[:BEST]]


def _fitting(made: Iterator[Decisions], sink: Node, target: Target) -> Iterator[Decisions]:
    for decisions in dict.fromkeys(made):
        try:
            check(decisions, sink, target)
        except ArgumentError:
            continue
        yield decisions


def _finished(model: Model, sink: Node, decisions: Decisions) -> Decisions:
    """With what the model says of packing, of the outermost loop and of threads."""
    loads = packable_loads(sink)
    staged = tuple(replace(s, number=loads[s.load.src[0].arg.slot].index(s.load))
                   for s in model.staged(decisions))
    return in_caches(model, replace(decisions, staged=staged))


def _favourites(model: Model) -> Iterator[Decisions]:
    """Each range as the vector, with coarse register tiles over the output ranges."""
    vectors: list[Counts] = [()]
    for r in dict.fromkeys([*model.outputs, *(r for body in model.reductions for r in body.own)]):
        vectors += [((r, lanes),) for lanes in model.lane_counts(r)]
    for lanes in vectors:
        yield Decisions(lanes=lanes)
        for a, b in itertools.combinations(model.outputs[-4:], 2):
            for m, n in itertools.product(COARSE, COARSE):
                yield Decisions(lanes=lanes, tile=_counts({a: m, b: n}))


def _neighbours(model: Model, sink: Node, base: Decisions) -> Iterator[Decisions]:
    """What differs from `base` in one decision."""
    for tile in _tiles(model.outputs, dict(base.tile)):
        yield replace(base, tile=tile)
    for body in model.reductions:
        for r in body.own:
            for count in STEPS:
                yield replace(base, unroll=_counts({**dict(base.unroll), r: count}))
    for r, lanes in base.lanes:
        for count in (lanes // 2, lanes * 2):
            yield replace(base, lanes=_counts({**dict(base.lanes), r: count}))
        for other in model.outputs:  # with the register tile where it is
            kept = tuple((other if v is r else v, n) for v, n in base.lanes)
            if len(dict(kept)) == len(kept):
                yield replace(base, lanes=kept)
    yield from _staged(sink, base)
    for size in (0, *BLOCKS):
        for r in (r for body in model.reductions for r in body.own[:1]):
            yield replace(base, block=_counts({r: size}))
    for outer in (None, *model.outputs):
        yield replace(base, outer=outer)
    ranges, grain = base.parallel.ranges, base.parallel.grain
    if ranges:
        yield replace(base, parallel=ONE_THREAD)
        for count in (max(grain // 2, 1), grain * 2):
            yield replace(base, parallel=Sharing(ranges, count))


def _tiles(outputs: list[Node], tile: dict[Node, int]) -> Iterator[Counts]:
    """Other factors for one range, and the same factors the other way round."""
    for r in outputs:
        for count in STEPS:
            yield _counts({**tile, r: count})
    for a, b in itertools.permutations(tile, 2):
        yield _counts({**tile, a: tile[b], b: tile[a]})
        for m, n in itertools.product(STEPS[:6], STEPS[:6]):
            yield _counts({**tile, a: m, b: n})


def _counts(counts: dict[Node, int]) -> Counts:
    return tuple((r, n) for r, n in counts.items() if n > 1)


def _staged(sink: Node, base: Decisions) -> Iterator[Decisions]:
    """One operand packed or not packed."""
    lanes = dict(base.lanes)
    taken = {s.load for s in base.staged}
    for s in base.staged:
        yield replace(base, staged=tuple(other for other in base.staged if other is not s))
    for loads in packable_loads(sink).values():
        for number, load in enumerate(loads):
            if load not in taken:
                vector = next((r for r in ranges_of([load]) if r in lanes), None)
                yield replace(base, staged=(*base.staged, Staged(load, vector, number)))
