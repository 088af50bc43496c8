"""Which kernels are launched together: small ones that need nothing of each other.

In: kernels with the numbers of the arrays that they write and read, in an order to run them. Out:
launches, each some of those kernels, again in an order to run them. schedule.py calls this after
fusion.py. A device may run the kernels of a launch in any order, or at once. In the units of the
cost model, that a kernel joins a launch

    saves:  LAUNCH
    costs:  WAITS * (elements that it reads and writes)
"""
from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from lazyten.schedule.cost import LAUNCH

WAITS = 1 / 32
"""How much slower an element is that has left the cache meanwhile."""
MATTERS = 1 / 100
"""A launch that takes less of its kernel's time than this is not worth sparing."""
MOST_TOGETHER = 64
"""Kernels of one launch: devices limit its arguments."""
STRETCH = 256
"""Kernels in a row that are looked at together: what waits for others far off would have to stay in
memory for long, and looking far is slow."""


class Work(NamedTuple):
    """A kernel: the arrays it writes and reads, their elements in all, and its cost by the model
    without its launch."""

    writes: Sequence[int]
    reads: Sequence[int]
    elements: int
    cost: float

    @property
    def saving(self) -> float:
        """What it saves to join a launch; 0 where that is nothing."""
        return max(LAUNCH - WAITS * self.elements, 0.0) if LAUNCH > MATTERS * self.cost else 0.0


def launches(work: Sequence[Work]) -> list[list[int]]:
    """The numbers of the kernels of each launch."""
    found: list[list[int]] = []
    for first in range(0, len(work), STRETCH):
        stretch = work[first:first + STRETCH]
        found += ([first + n for n in launch] for launch in _in_order(stretch, _together(stretch)))
    return found


def _together(work: Sequence[Work]) -> list[list[int]]:
    """The launches of a stretch, in the order of their first kernels.

    A small kernel joins the first launch of small ones that it may: none that it needs, however
    indirectly, comes as late. So launch n needs no launch of small kernels but those before it.
    """
    made: list[list[int]] = []
    small: list[list[int]] = []
    after: dict[int, int] = {}  # how many of the launches of small kernels an array comes after
    for number, kernel in enumerate(work):
        least = max((after.get(a, 0) for a in kernel.reads), default=0)
        launch = [number]
        if kernel.saving:
            joined = next((n for n in range(least, len(small)) if len(small[n]) < MOST_TOGETHER),
                          len(small))
            if joined < len(small):
                small[joined].append(number)
                launch = []
            else:
                small.append(launch)
            least = joined + 1
        if launch:
            made.append(launch)
        after |= dict.fromkeys(kernel.writes, least)
    return made


def _in_order(work: Sequence[Work], made: Sequence[list[int]]) -> list[list[int]]:
    """Each launch as soon as all it needs has run; of those, first what came first."""
    order: list[list[int]] = []
    missing = {a for kernel in work for a in kernel.writes}
    waiting = list(made)
    while waiting:
        launch = next(m for m in waiting if missing.isdisjoint(a for n in m for a in work[n].reads))
        waiting.remove(launch)
        order.append(launch)
        missing.difference_update(a for n in launch for a in work[n].writes)
    return order
