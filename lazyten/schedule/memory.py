"""The memory planner: values of one schedule share memory where their lifetimes do not overlap."""
from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Collection, Sequence
from itertools import islice
from typing import NamedTuple


class Lifetime(NamedTuple):
    """An array of `nbytes` written at step `first` and last read at step `last`."""

    nbytes: int
    first: int
    last: int


def share(lifetimes: Sequence[Lifetime], owners: Sequence[Lifetime] = (),
          replacing: Collection[tuple[int, int]] = ()) -> tuple[list[int], list[int]]:
    """Give each array a block: (block of each array, bytes of each block).

    owners: arrays that have memory of their own, which makes the first blocks. Greedy by size, the
    largest first (of equals the last one, as outputs come last): an array takes the smallest block
    that nothing alive at the same time has taken, else a new one. Arrays that one step reads and
    writes are alive together, so a kernel never writes to memory that it reads; but for pairs
    `replacing`, of which the first may have the memory of the second (numbers, owners first).
    """
    sizes = [array.nbytes for array in owners]
    taken = [[(array.first, array.last, number)] for number, array in enumerate(owners)]
    busy = [_alive(array) for array in owners]
    smallest = sorted((size, -block) for block, size in enumerate(sizes))
    pairs = frozenset(replacing)
    paired = {number for pair in pairs for number in pair}
    chosen = [0] * len(lifetimes)
    order = sorted(enumerate(lifetimes), key=lambda item: (-item[1].nbytes, -item[1].last))
    for i, mine in order:
        number, alive = len(owners) + i, _alive(mine)
        for _, later in islice(smallest, bisect_left(smallest, (mine.nbytes,)), None):
            block = -later
            if not busy[block] & alive \
                    or number in paired and _is_free(taken[block], number, mine, pairs):
                break
        else:
            block = len(sizes)
            sizes.append(mine.nbytes)
            taken.append([])
            busy.append(0)
            insort(smallest, (mine.nbytes, -block))
        insort(taken[block], (mine.first, mine.last, number))
        busy[block] |= alive
        chosen[i] = block
    return chosen, sizes


def _alive(array: Lifetime) -> int:
    """The steps at which an array is alive, a bit each."""
    return (1 << array.last + 1) - (1 << array.first)


def _is_free(taken: Sequence[tuple[int, int, int]], number: int, mine: Lifetime,
             pairs: Collection[tuple[int, int]]) -> bool:
    """Whether a block may serve an array that may have the memory of another. taken: (first, last,
    number) of those it serves, in order, of which none begins before another ends, but for pairs at
    one step."""
    for place in range(bisect_left(taken, (mine.last + 1,)) - 1, -1, -1):
        _, last, other = taken[place]
        if last < mine.first:
            break
        if (number, other) not in pairs and (other, number) not in pairs:
            return False
    return True
