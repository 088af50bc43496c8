"""Which loop of a kernel its threads share: called by optimize, after everything else is decided.

The choice is a function of the kernel and the target alone, never of how many threads
there are: a loop of the stores is cut into chunks of a fixed number of iterations, which any number
of threads may take in any order. An element is computed by the same instructions whoever does it,
so results do not depend on threads. (The last block of a loop may overlap the one before, see
split_outputs: two threads may then store the same bits in the same place.)
"""
from __future__ import annotations

import itertools
import math
from collections.abc import Iterator

from lazyten.codegen.model.cpu_model import Model
from lazyten.codegen.model.decisions import ONE_THREAD, Decisions, Sharing
from lazyten.ir.node import Node

LEAST_UNITS = 240_000.0
"""Half cycles (about 40 us) below which a kernel is not worth a second thread."""
CHUNK_UNITS = 60_000.0
"""A chunk takes at least so long, so that handing it out costs nothing beside it."""
MOST_CHUNKS = 64
ENOUGH_CHUNKS = 16
"""More chunks than this are no reason to prefer one loop to another."""
MOST_REPEATED = 0.1
"""How much of a kernel's time each thread may spend on what all of them must compute."""


def choose_parallel(model: Model, choice: Decisions) -> Sharing:
    """The loop that makes enough chunks, outermost first; or two where none does alone."""
    units = model.least_time(choice)
    if not LEAST_UNITS <= units < math.inf:
        return ONE_THREAD
    best, most = ONE_THREAD, 1
    for ranges in _candidates(model, choice.outer):
        sharing, chunks = _chunks(model, choice, ranges, units)
        if min(chunks, ENOUGH_CHUNKS) > most:
            best, most = sharing, min(chunks, ENOUGH_CHUNKS)
    return best


def _candidates(model: Model, outer: Node | None) -> Iterator[tuple[Node, ...]]:
    """Each range of all stores, what was made the outermost loop first; then pairs of those that no
    reduction can do without."""
    yield from ((r,) for r in sorted(model.shared_outputs, key=lambda r: r is not outer))
    inside = [r for r in model.shared_outputs if all(r in b.free for b in model.reductions)]
    yield from itertools.combinations(inside, 2)


def _chunks(model: Model, choice: Decisions, ranges: tuple[Node, ...],
            units: float) -> tuple[Sharing, int]:
    """How these ranges would be shared, and in how many chunks."""
    lanes, tile = dict(choice.lanes), dict(choice.tile)
    iterations = math.prod(-(-r.arg.extent // (lanes.get(r, 1) * tile.get(r, 1))) for r in ranges)
    repeated = model.repeated_cycles(choice, ranges[0])
    wanted = min(MOST_CHUNKS, units / CHUNK_UNITS)
    if repeated:
        wanted = min(wanted, MOST_REPEATED * units / repeated)
    grain = -(-iterations // max(int(wanted), 1))
    return Sharing(ranges, grain), -(-iterations // grain)
