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

    Greedy by size, the largest first: an array takes the smallest block that nothing alive at the
    same time has taken, else a new one. Arrays that one step reads and writes are alive together,
    so a kernel never writes to memory that it reads.
    """
    sizes: list[int] = []
    taken: list[list[Lifetime]] = []
    chosen = [0] * len(lifetimes)
    order = sorted(enumerate(lifetimes), key=lambda item: (-item[1].nbytes, item[1].first))
    for i, mine in order:
        free = [b for b, others in enumerate(taken) if not any(_overlap(mine, o) for o in others)]
        if free:
            block = free[-1]  # blocks are made in order of size
        else:
            block = len(sizes)
            sizes.append(mine.nbytes)
            taken.append([])
        taken[block].append(mine)
        chosen[i] = block
    return chosen, sizes


def _overlap(a: Lifetime, b: Lifetime) -> bool:
    return a.first <= b.last and b.first <= a.last
