"""Devices of a group's ranks that carry out collectives themselves, joined when they are needed.

Ranks must all do it in one way, or they would wait for each other for ever. So with the check of
each collective travels a number, this rank's way: HOST, where its device does not take it or cannot
be joined; NEW, where its device would have to be joined first; or which of the group's joined
devices it is. Where all say the same, that is done; otherwise it goes by way of the host's memory.
"""
from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from lazyten.distributed.job import Job
from lazyten.distributed.waiting import wait_until
from lazyten.execution import debug
from lazyten.ir.collective import KINDS, Collective, Joined, Refused
from lazyten.ir.dtype import DType
from lazyten.storage.device import executor
from lazyten.support.errors import DistributedError

HOST, NEW, FIRST = 0, 1, 2


class Devices:
    """Those of a group: of these ranks of a job. rank: this process's number among them. comm: by
    which they tell each other what they are."""

    def __init__(self, job: Job, ranks: tuple[int, ...], rank: int, comm: Any) -> None:
        self.job, self.ranks, self.rank, self.comm = job, ranks, rank, comm
        self._numbers: dict[str, int] = {}
        self._made: list[Joined | Refused] = []

    def way(self, what: Collective, device: str, dtype: DType) -> int:
        """How this rank would do a collective of elements of this type on a device."""
        job = self.job
        if job.mpi is None or job.devices == "0" or \
                job.deterministic and KINDS[what.kind].reduces or \
                not executor(device).takes(what, dtype):
            return HOST
        number = self._numbers.get(device)
        if number is None:
            return NEW
        return HOST if isinstance(self._made[number], Refused) else FIRST + number

    def joined(self, device: str, way: int, place: str) -> Joined | None:
        """The device, joined to those of the other ranks; None for the host's way. All ranks have
        said this way. place: what it is for."""
        if way == HOST:
            return None
        if way == NEW:
            self._numbers[device] = len(self._made)
            self._made.append(self._join(device, place))
        found = self._made[self._numbers[device] if way == NEW else way - FIRST]
        return None if isinstance(found, Refused) else found

    def _join(self, device: str, place: str) -> Joined | Refused:
        job = self.job
        found = executor(device).join(_Seen(self, place), place)
        if isinstance(found, Refused):
            if job.devices == "1":
                raise job.fail(DistributedError(f"{place}: LAZYTEN_NCCL=1, but {found.reason}"))
            words = f"the host's memory and MPI: {found.reason}"
        else:
            job.joined.append(found)
            words = found.name
        if debug.level():
            debug.show_way(f"collectives of ranks {list(self.ranks)} on {device} go by {words}")
        return found


class _Seen:
    """The ranks of a group, as a runtime sees them that is to be joined."""

    def __init__(self, of: Devices, place: str) -> None:
        self.of, self.place, self.rank, self.size = of, place, of.rank, len(of.ranks)

    def gathered(self, own: bytes) -> list[bytes]:
        """What each of them gives, as many bytes everywhere."""
        sent = np.frombuffer(own, np.uint8)
        rows = np.empty((self.size, sent.size), np.uint8)
        request = self.of.comm.Iallgather(sent, rows)
        wait_until(request.Test, self.of.job, self.of.ranks, self.place)
        return [row.tobytes() for row in rows]

    def wait(self, done: Callable[[], bool], place: str) -> None:
        """Return once `done()`, within the time limit."""
        wait_until(done, self.of.job, self.of.ranks, place)

    def failed(self, text: str) -> DistributedError:
        """Nothing is done together any more."""
        return self.of.job.fail(DistributedError(text))
