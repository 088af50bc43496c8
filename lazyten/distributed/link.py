"""`Link`: what collectives of a group cost, measured, and the size of buckets that follows from it.

In: a group and a device. Out: the same figures on all its ranks, measured once. Who asks:
nn/parallel/distributed.py, for the buckets of gradients.
"""
from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from statistics import median
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np

from lazyten.devices.program import Handle
from lazyten.distributed.group import Group
from lazyten.execution.realization import carry_out
from lazyten.ir.collective import Collective, Part
from lazyten.ir.dtype import float32
from lazyten.storage import tracing
from lazyten.storage.device import executor
from lazyten.support.location import user_location

SHORT, LONG = 1, 1 << 20
"""Numbers of float32 in the two all_reduces that are timed."""
ROUNDS = {LONG: 7, SHORT: 50}
"""How often. Of each the least counts, as in others a rank had no core for a while."""
Figures = tuple[float, float, float]
"""What a rank measures: seconds of the two all_reduces, and the part of the long one that is left
after its host was busy for as long."""
UNKNOWN: Figures = (math.nan,) * 3
SMALL_SHARE = 0.01
"""Of a bucket's transfer its latency is not worth more than this: larger ones only take memory."""


@dataclass(frozen=True, slots=True)
class Link:
    """latency: seconds that an all_reduce takes of however few bytes; bandwidth: bytes a second
    beyond that; hidden: the part of its transfer that goes on while the host computes, 0 to 1."""

    latency: float
    bandwidth: float
    hidden: float = 1.0

    @classmethod
    def of(cls, short: float, long: float, hidden: float = 1.0) -> Link:
        """The line through the seconds of all_reduces of SHORT and of LONG numbers."""
        return cls(short, 4 * (LONG - SHORT) / max(long - short, 1e-9), hidden)

    def bucket(self, total: int) -> int:
        """Bytes to send at a time of `total` bytes, which are computed one after the other: a power
        of two.

        Buckets of b bytes leave, of a step, what is not behind its computing: the latency of each,
        the part of transfers that is not hidden, and all of the last bucket's, behind which nothing
        is left to compute:

            total / b * latency + (1 - hidden) * total / bandwidth + hidden * b / bandwidth

        which is least at b = sqrt(total * latency * bandwidth / hidden). Where nothing is hidden
        one bucket would be best, so b is no larger than where latency is SMALL_SHARE of a transfer.
        A power of two, as that costs at most 6% more of what depends on b, and what is measured
        with some noise is mostly the same each time, and with it the kernels that are kept.
        """
        least = self.latency * self.bandwidth
        best = least / SMALL_SHARE
        if self.hidden > 0:
            best = min(best, math.sqrt(total * least / self.hidden))
        return int(2 ** max(0, round(math.log2(max(best, 1.0)))))


_known: WeakKeyDictionary[Group, dict[str, Figures]] = WeakKeyDictionary()


def measured(group: Group, device: str) -> Link:
    """What all_reduces of values on a device cost: the figures of the rank with the worst, so the
    same on all, which call this in the same order. The first call takes some 70 all_reduces of up
    to 4 MiB. A function of `lt.jit` that calls it is not replayed: JitError with its
    fullgraph=True."""
    tracing.refuse("measuring what collectives cost", "do it outside: make the module before the "
                   "jitted function is called, or give bucket_cap_mb")
    carry_out()
    known = _known.setdefault(group, {})
    rows = _gathered(group, known.get(device, UNKNOWN))
    if np.isnan(rows).any():  # on one rank at least, as its values are on another device
        trial = _Trial(group, device)
        try:
            known[device] = trial.figures()
        finally:
            trial.end()
        rows = _gathered(group, known[device])
    short, long, left = map(float, rows.max(0))
    return Link.of(short, long, 1 - left)


def _gathered(group: Group, own: Figures) -> np.ndarray[Any, Any]:
    """Those of all ranks."""
    rows = np.empty((group.size, len(own)))
    group.carry_out(Collective("all_gather", group, "cpu"), np.array(own), rows.reshape(-1),
                    f"measured by ranks {list(group.ranks)}", user_location())
    return rows


class _Trial:
    """all_reduces of a group that are timed, in memory that is made before."""

    def __init__(self, group: Group, device: str) -> None:
        self.group, self.runtime, self.device = group, executor(device), device
        self.where, self.words = user_location(), f"measuring of ranks {list(group.ranks)}"
        self.sent, self.received = np.ones(LONG, np.float32), np.ones(LONG, np.float32)
        self.parts: list[Handle] = []

    def figures(self) -> Figures:
        """What this rank measures."""
        long, short = (min(self._seconds(count) for _ in range(rounds))
                       for count, rounds in ROUNDS.items())
        left = median(self._seconds(LONG, busy=long) for _ in range(ROUNDS[LONG]))
        return short, long, min(left / long, 1.0)

    def _seconds(self, count: int, busy: float = 0.0) -> float:
        """How long so many numbers take; or what is left of that, once the host, which calls no
        MPI meanwhile, was busy for so many seconds."""
        self.group.barrier(self.words, self.where)
        start = time.perf_counter()
        end = self._begun(count)
        while time.perf_counter() - start < busy:
            pass
        start += busy
        end()
        self.runtime.synchronize()
        return time.perf_counter() - start

    def _begun(self, count: int) -> Callable[[], object]:
        """Begins it; gives a function that waits for it, or has what is launched later wait."""
        what = Collective("all_reduce", self.group, self.device, "sum")
        agreed = self.group.agreement(what, self.device, float32, f"{self.words}: {count} numbers",
                                      self.where)
        if agreed.joined is None:
            return self.group.start(what, self.sent[:count], self.received[:count], agreed).wait
        sent, received = self._memory()
        return agreed.joined.begin(what, float32, [Part(sent, count)], Part(received, count),
                                   agreed.place)

    def _memory(self) -> list[Handle]:
        """The device's own, where it carries collectives out itself."""
        while len(self.parts) < 2:
            self.parts.append(self.runtime.alloc(self.sent.nbytes))
            self.runtime.copy_in(self.parts[-1], self.sent)
        return self.parts

    def end(self) -> None:
        """Give the device's memory back."""
        for memory in self.parts:
            self.runtime.free(memory)
