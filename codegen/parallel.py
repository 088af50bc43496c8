"""Which loop of a kernel its threads share: called by optimize, after everything else is decided.

The choice is a function of the kernel and the target's vectors alone, never of how many threads
there are: a loop of the stores is cut into chunks of a fixed number of iterations, which any number
of threads may take in any order. An element is computed by the same instructions whoever does it,
so results do not depend on threads. (The last block of a loop may overlap the one before, see
split_output: two threads may then store the same bits in the same place.)
"""
from __future__ import annotations

import math

from lazyten.codegen.cycles import Choice, Model
from lazyten.node import Node

LEAST_UNITS = 240_000.0
"""Half cycles (about 40 us) below which a kernel is not worth a second thread."""
CHUNK_UNITS = 60_000.0
"""A chunk takes at least so long, so that handing it out costs nothing beside it."""
MOST_CHUNKS = 64
ENOUGH_CHUNKS = 16
"""More chunks than this are no reason to prefer one loop to another."""
MOST_REPEATED = 0.1
"""How much of a kernel's time each thread may spend on what all of them must compute."""


def choose_parallel(model: Model, choice: Choice) -> tuple[tuple[Node, int], ...]:
    """The output range to share among threads and the iterations of a chunk; () for one thread."""
    units = model.cycles(choice)
    if not LEAST_UNITS <= units < math.inf:
        return ()
    best: tuple[tuple[Node, int], ...] = ()
    most = 1
    for r in model.shared_outputs:
        grain, chunks = _chunks(model, choice, r, units)
        if min(chunks, ENOUGH_CHUNKS) > most:
            best, most = ((r, grain),), min(chunks, ENOUGH_CHUNKS)
    return best


def _chunks(model: Model, choice: Choice, r: Node, units: float) -> tuple[int, int]:
    """Iterations of a chunk where the loop of `r` is shared, and how many chunks that makes."""
    block = dict(choice.lanes).get(r, 1) * dict(choice.tile).get(r, 1)
    iterations = -(-r.arg.extent // block)
    repeated = model.repeated_cycles(choice, r)
    wanted = min(MOST_CHUNKS, units / CHUNK_UNITS)
    if repeated:
        wanted = min(wanted, MOST_REPEATED * units / repeated)
    grain = -(-iterations // max(int(wanted), 1))
    return grain, -(-iterations // grain)
