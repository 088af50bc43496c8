"""The memory planner: values of one schedule share memory where their lifetimes do not overlap."""
from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple


class Lifetime(NamedTuple):
    """An array of `nbytes` written at step `first` and last read at step `last`."""

    nbytes: int
    first: int
    last: int


def share(lifetimes: Sequence[Lifetime]) -> tuple[list[int], list[int]]:
    """Give each array a block: (block of each array, bytes of each block).

    Greedy by step: an array takes the smallest free block that is large enough, else the largest free
    block (which grows), else a new one. A block is free again after the last step that reads it, so a
    kernel never writes to memory that it reads.
    """
    sizes: list[int] = []
    free_after: list[int] = []
    chosen = [0] * len(lifetimes)
    for i in sorted(range(len(lifetimes)), key=lambda i: (lifetimes[i].first, i)):
        nbytes, first, last = lifetimes[i]
        free = [b for b, step in enumerate(free_after) if step < first]
        fitting = [b for b in free if sizes[b] >= nbytes]
        if fitting:
            block = min(fitting, key=lambda b: (sizes[b], b))
        elif free:
            block = max(free, key=lambda b: (sizes[b], -b))
        else:
            block = len(sizes)
            sizes.append(0)
            free_after.append(0)
        sizes[block] = max(sizes[block], nbytes)
        free_after[block] = last
        chosen[i] = block
    return chosen, sizes
