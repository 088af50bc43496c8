"""Devices of a group's ranks that carry out collectives themselves, joined when they are needed.

Ranks must all do it in one way, or they would wait for each other for ever. So with the check of
each collective travels a number, this rank's way: HOST, where its device does not take it or cannot
be joined; NEW, where its device would have to be joined first; or which of the group's joined
devices it is. Where all say the same, that is done; otherwise it goes by way of the host's memory.
"""
from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from lazyten.distributed.waiting import wait_until
from lazyten.execution import debug
from lazyten.ir.collective import KINDS, Collective
from lazyten.ir.dtype import DType
from lazyten.storage.device import executor
from lazyten.storage.joining import Joined, Refused
from lazyten.support.errors import DistributedError

if TYPE_CHECKING:
    from lazyten.distributed.group import Group

HOST, NEW, FIRST = 0, 1, 2


class Devices:
    """Those of a group."""

    def __init__(self, group: Group) -> None:
        self.group = group
        self._numbers: dict[str, int] = {}
        self._made: list[Joined | Refused] = []

    def way(self, what: Collective, device: str, dtype: DType) -> int:
        """How this rank would do a collective of elements of this type on a device."""
        job = self.group.job
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
        job, ranks = self.group.job, list(self.group.ranks)
        found = executor(device).join(_Seen(self.group, place), place)
        if isinstance(found, Refused):
            if job.devices == "1":
                raise job.fail(DistributedError(f"{place}: LAZYTEN_NCCL=1, but {found.reason}"))
            words = f"the host's memory and MPI: {found.reason}"
        else:
            job.joined.append(found)
            words = found.name
        if debug.level():
            debug.show_way(f"collectives of ranks {ranks} on {device} go by {words}")
        return found


class _Seen:
    """The ranks of a group, as a runtime sees them that is to be joined."""

    def __init__(self, group: Group, place: str) -> None:
        self.group, self.place = group, place
        self.rank, self.size = group.rank, group.size

    def gathered(self, own: bytes) -> list[bytes]:
        """What each of them gives, as many bytes everywhere."""
        group, sent = self.group, np.frombuffer(own, np.uint8)
        rows = np.empty((group.size, sent.size), np.uint8)
        request = group.texts.Iallgather(sent, rows)
        wait_until(request.Test, group.job, group.ranks, self.place)
        return [row.tobytes() for row in rows]

    def wait(self, done: Callable[[], bool], place: str) -> None:
        """Return once `done()`, within the time limit."""
        wait_until(done, self.group.job, self.group.ranks, place)

    def failed(self, text: str) -> DistributedError:
        """Nothing is done together any more."""
        return self.group.job.fail(DistributedError(text))
