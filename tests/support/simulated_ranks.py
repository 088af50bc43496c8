"""A group of ranks that all have what this process has, for tests without MPI.

What a collective gives is there at its end and not before, and what it reads must not change until
then.
"""
from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np

from lazyten.distributed.group import Group
from lazyten.ir.collective import KINDS, Collective

Array = np.ndarray[Any, Any]


class Simulated(Group):
    """This process is `rank` of `size`. log: kinds of what was begun, and 'end' of each."""

    def __init__(self, size: int = 3, rank: int = 1) -> None:
        self.ranks, self._rank, self.log = tuple(range(size)), rank, list[str]()

    def agreement(self, what: Collective, device: str, dtype: Any, words: str, where: Any) -> Any:
        return SimpleNamespace(joined=None)

    def start(self, what: Collective, sent: Array, received: Array, agreement: Any) -> Any:
        self.log.append(what.kind)
        received.view(np.uint8)[...] = 0xFF  # NaN, or -1
        return _Simulation(self, what, sent, received)

    def result(self, what: Collective, sent: Array) -> Array:
        """What NumPy gives."""
        if what.kind == "reduce" and self.rank != what.ranks[0]:
            return np.zeros_like(sent)
        rows = sent.reshape(self.size, -1) if KINDS[what.kind].takes else sent
        if what.kind == "all_to_all":
            return np.tile(rows[self.rank], self.size)
        if what.kind == "all_gather":
            return np.tile(sent, self.size)
        if what.kind == "reduce_scatter":
            sent = rows[self.rank]
        return sent * self.size if what.reduction == "sum" else sent


class _Simulation:
    def __init__(self, group: Simulated, what: Collective, sent: Array, received: Array) -> None:
        self.group, self.what, self.sent, self.received = group, what, sent, received
        self.copy = sent.copy()

    def progress(self) -> None:
        """Nothing."""

    def wait(self) -> None:
        self.group.log.append("end")
        np.testing.assert_array_equal(self.sent, self.copy, "it was written to meanwhile")
        self.received[...] = self.group.result(self.what, self.copy)
