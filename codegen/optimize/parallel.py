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

LEAST_UNITS = 80_000.0
"""Half cycles (10 to 13 us) below which a kernel is not worth a second thread."""
CHUNK_UNITS = 20_000.0
"""A chunk takes at least so long, so that handing it out costs nothing beside it."""
MOST_CHUNKS = 64
ENOUGH_CHUNKS = 16
"""More chunks than this are no reason to prefer one loop to another."""
MOST_REPEATED = 0.1
"""How much of a kernel's time each thread may spend on what all of them must compute."""


def choose_parallel(model: Model, choice: Decisions) -> Sharing:
    """The loops that make enough chunks: the outermost, or the two outermost as one; else another
    one, or two."""
    units = model.least_time(choice)
    if not LEAST_UNITS <= units < math.inf:
        return ONE_THREAD
    best, most = ONE_THREAD, 1
    for ranges in _candidates(model, choice):
        sharing, chunks = _chunks(model, choice, ranges, units)
        if min(chunks, ENOUGH_CHUNKS) > most:
            best, most = sharing, min(chunks, ENOUGH_CHUNKS)
    return best


def _candidates(model: Model, choice: Decisions) -> Iterator[tuple[Node, ...]]:
    """The outermost range of all stores, then the two outermost around another loop: the loops keep
    their order, where an inner one would step through memory in strides. Then each other range, and
    other pairs of those that no reduction can do without."""
    ranges = sorted((r for r in model.shared_outputs if _iterations(choice, r) > 1),
                    key=lambda r: r is not choice.outer)
    inside = [r for r in ranges if all(r in b.free for b in model.reductions)]
    pairs = list(itertools.combinations(inside, 2))
    in_order = pairs[:1] if inside[:2] == ranges[:2] and (ranges[2:] or model.reductions) else []
    alone = [(r,) for r in ranges]
    yield from dict.fromkeys([*alone[:1], *in_order, *alone[1:], *pairs])


def _chunks(model: Model, choice: Decisions, ranges: tuple[Node, ...],
            units: float) -> tuple[Sharing, int]:
    """How these ranges would be shared, and in how many chunks."""
    iterations = math.prod(_iterations(choice, r) for r in ranges)
    repeated = model.repeated_cycles(choice, ranges[0])
    wanted = min(MOST_CHUNKS, units / CHUNK_UNITS)
    if repeated:
        wanted = min(wanted, MOST_REPEATED * units / repeated)
    grain = -(-iterations // max(int(wanted), 1))
    return Sharing(ranges, grain), -(-iterations // grain)


def _iterations(choice: Decisions, r: Node) -> int:
    """Of the loop that is left of a range."""
    extent: int = r.arg.extent
    return -(-extent // (dict(choice.lanes).get(r, 1) * dict(choice.tile).get(r, 1)))
