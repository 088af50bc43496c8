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
from dataclasses import dataclass
from typing import NamedTuple

from lazyten.cost import LAUNCH

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


@dataclass(slots=True, eq=False)
class _Launch:
    """Kernels to launch together, by number. own, before: bit i for kernel i of the stretch, if it
    is one of them, or must have run before."""

    kernels: list[int]
    own: int
    before: int


def launches(work: Sequence[Work]) -> list[list[int]]:
    """The numbers of the kernels of each launch."""
    found: list[list[int]] = []
    for first in range(0, len(work), STRETCH):
        found += ([first + n for n in launch.kernels]
                  for launch in _in_order(_together(work[first:first + STRETCH])))
    return found


def _together(work: Sequence[Work]) -> list[_Launch]:
    """The launches of a stretch, in the order of their first kernels."""
    made: list[_Launch] = []
    owner: dict[int, _Launch] = {}
    for number, kernel in enumerate(work):
        before = 0
        for source in {owner[a] for a in kernel.reads if a in owner}:
            before |= source.own | source.before
        launch = next((m for m in made if not m.own & before and work[m.kernels[0]].saving
                       and len(m.kernels) < MOST_TOGETHER), None) if kernel.saving else None
        if launch is None:
            launch = _Launch([number], 1 << number, before)
            made.append(launch)
        else:
            _join(made, launch, number, before)
        owner |= dict.fromkeys(kernel.writes, launch)
    return made


def _join(made: Sequence[_Launch], launch: _Launch, number: int, before: int) -> None:
    """One more kernel for a launch that it does not need: what needs that now waits for both."""
    launch.kernels.append(number)
    launch.own |= 1 << number
    launch.before |= before
    for other in made:
        if other.before & launch.own:
            other.before |= launch.own | launch.before


def _in_order(made: Sequence[_Launch]) -> list[_Launch]:
    """Each launch as soon as all it needs has run; of those, first what came first."""
    order: list[_Launch] = []
    waiting, done = list(made), 0
    while waiting:
        launch = next(m for m in waiting if not m.before & ~done)
        waiting.remove(launch)
        order.append(launch)
        done |= launch.own
    return order
