"""The order of steps, where memory is large: what frees memory comes first.

In: what each step reads and writes, in an order to compute them. Out: another such order, or the
same. Small graphs keep theirs, in which a value is read soon after it is written.
"""
from __future__ import annotations

import heapq
from collections import defaultdict
from collections.abc import Sequence
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
