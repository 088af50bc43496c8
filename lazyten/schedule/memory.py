"""Memory of a schedule: the order of steps where it is large, and which values share it.

In: what each step reads and writes, in an order to compute them. Out: another such order, in which
what frees memory comes first, or the same: small graphs keep theirs, in which a value is read soon
after it is written. Then, by lifetimes in that order, blocks that values share.
"""
from __future__ import annotations

import heapq
from bisect import bisect_left, insort
from collections import defaultdict
from collections.abc import Collection, Sequence
from itertools import islice
from typing import NamedTuple

LARGE = 16 << 20
"""Bytes of intermediate values, at the peak, from which on the order is changed."""


class Use(NamedTuple):
    """The arrays that a step writes and reads."""

    writes: tuple[int, ...]
    reads: tuple[int, ...]


def ordered(uses: Sequence[Use], nbytes: Sequence[int], kept: frozenset[int]) -> list[int]:
    """Numbers of steps in the order to run them. nbytes: of each array; kept: arrays that are
    inputs or results, and so have memory in any order."""
    as_given = list(range(len(uses)))
    before = _peak(uses, as_given, nbytes, kept)
    if before < LARGE:
        return as_given
    greedy = _greedy(uses, nbytes, kept)
    return greedy if _peak(uses, greedy, nbytes, kept) < before else as_given


def _readers(uses: Sequence[Use], kept: frozenset[int]) -> dict[int, int]:
    """How many steps read each array that goes away."""
    count: defaultdict[int, int] = defaultdict(int)
    for use in uses:
        for a in use.reads:
            count[a] += a not in kept
    return count


def _peak(uses: Sequence[Use], order: Sequence[int], nbytes: Sequence[int],
          kept: frozenset[int]) -> int:
    left, now, peak = _readers(uses, kept), 0, 0
    for number in order:
        now += sum(nbytes[a] for a in uses[number].writes if a not in kept)
        peak = max(peak, now)
        for a in uses[number].reads:
            left[a] -= 1
            if left[a] == 0 and a not in kept:
                now -= nbytes[a]
    return peak


def _greedy(uses: Sequence[Use], nbytes: Sequence[int], kept: frozenset[int]) -> list[int]:
    """Of the steps that can run, always the one after which the least memory is in use; the first
    of several. A step is looked at again when it becomes the last to read something."""
    left = _readers(uses, kept)
    writer = {a: number for number, use in enumerate(uses) for a in use.writes}
    readers: defaultdict[int, list[int]] = defaultdict(list)
    missing = []
    for number, use in enumerate(uses):
        needed = {writer[a] for a in use.reads if a in writer}
        missing.append(len(needed))
        for other in needed:
            readers[other].append(number)
    of_array: defaultdict[int, list[int]] = defaultdict(list)
    for number, use in enumerate(uses):
        for a in use.reads:
            of_array[a].append(number)

    def growth(number: int) -> int:
        more = sum(nbytes[a] for a in uses[number].writes if a not in kept)
        return more - sum(nbytes[a] for a in uses[number].reads if left[a] == 1 and a not in kept)

    ready = [(growth(n), n) for n, count in enumerate(missing) if count == 0]
    heapq.heapify(ready)
    order: list[int] = []
    done = [False] * len(uses)
    while ready:
        _, number = heapq.heappop(ready)
        if done[number]:
            continue
        done[number] = True
        order.append(number)
        for a in uses[number].reads:
            left[a] -= 1
            if left[a] == 1:
                for other in of_array[a]:
                    if not done[other] and missing[other] == 0:
                        heapq.heappush(ready, (growth(other), other))
        for other in readers[number]:
            missing[other] -= 1
            if missing[other] == 0:
                heapq.heappush(ready, (growth(other), other))
    return order


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
