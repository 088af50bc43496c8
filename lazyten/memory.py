"""The memory planner: values of one schedule share memory where their lifetimes do not overlap."""
from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import NamedTuple


class Lifetime(NamedTuple):
    """An array of `nbytes` written at step `first` and last read at step `last`."""

    nbytes: int
    first: int
    last: int


def share(lifetimes: Sequence[Lifetime], given: Sequence[Lifetime] = (),
          replacing: Collection[tuple[int, int]] = ()) -> tuple[list[int], list[int]]:
    """Give each array a block: (block of each array, bytes of each block).

    given: arrays that have memory of their own, which makes the first blocks. Greedy by size, the
    largest first (of equals the last one, as outputs come last): an array takes the smallest block
    that nothing alive at the same time has taken, else a new one. Arrays that one step reads and
    writes are alive together, so a kernel never writes to memory that it reads; but for pairs
    `replacing`, of which the first may have the memory of the second (numbers, given ones first).
    """
    arrays = [*given, *lifetimes]
    sizes = [array.nbytes for array in given]
    taken = [[number] for number in range(len(given))]
    chosen = [0] * len(lifetimes)

    def together(a: int, b: int) -> bool:
        return _overlap(arrays[a], arrays[b]) and not {(a, b), (b, a)} & pairs

    pairs = frozenset(replacing)
    order = sorted(enumerate(lifetimes), key=lambda item: (-item[1].nbytes, -item[1].last))
    for i, mine in order:
        number = len(given) + i
        free = [b for b, others in enumerate(taken) if sizes[b] >= mine.nbytes
                and not any(together(number, o) for o in others)]
        if free:
            block = min(reversed(free), key=sizes.__getitem__)
        else:
            block = len(sizes)
            sizes.append(mine.nbytes)
            taken.append([])
        taken[block].append(number)
        chosen[i] = block
    return chosen, sizes


def _overlap(a: Lifetime, b: Lifetime) -> bool:
    return a.first <= b.last and b.first <= a.last
