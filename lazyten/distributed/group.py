"""`Group`: ranks that do collectives together, and how each kind of collective is carried out.

STARTS has a function a kind, which makes MPI's non-blocking call. Beside each collective travels a
number made of what it is: if that is not the same everywhere, no rank gets a result, and all get an
error with the lines of those that differ.
"""
from __future__ import annotations

from collections.abc import Callable
from functools import cache
from hashlib import blake2b
from typing import Any

import numpy as np

from lazyten.distributed.devices import Devices
from lazyten.distributed.job import Job
from lazyten.distributed.waiting import WORDS, note_of, text_of, wait_until
from lazyten.ir.collective import Array, Collective, Joined
from lazyten.ir.dtype import DType, from_numpy
from lazyten.support.errors import ArgumentError, DistributedError
from lazyten.support.location import Location

_FOLDS: dict[str, Callable[..., Array]] = {"sum": np.add, "max": np.maximum, "min": np.minimum}
NOT_IN = -1
ALL_BITS = (1 << 64) - 1


@cache
def _number(words: str) -> int:
    """Of 64 bits, the same in each process."""
    return int.from_bytes(blake2b(words.encode(), digest_size=8).digest(), "little")


class Group:
    """Some ranks of a job. ranks: their numbers in it. rank: this process's number among them, or
    -1 if it is none of them. Made by new_group()."""

    def __init__(self, job: Job, ranks: tuple[int, ...], comm: Any) -> None:
        self.job, self.ranks, self.data = job, ranks, comm  # which the job holds
        self.checks: Any = None
        self.texts: Any = None
        if job.mpi is not None and comm != job.mpi.COMM_NULL:
            self.checks, self.texts = job.held(comm.Dup()), job.held(comm.Dup())
        self._rank = ranks.index(job.rank) if job.rank in ranks else NOT_IN
        self.devices = Devices(job, ranks, self._rank, self.texts)

    @property
    def rank(self) -> int:
        """This process's number among the group's, or -1."""
        return self._rank

    @property
    def size(self) -> int:
        """How many ranks there are."""
        return len(self.ranks)

    def check_member(self, operation: str) -> None:
        """ArgumentError unless this process is in the group; DistributedError where nothing is done
        together any more."""
        if self.job.failed is not None:
            raise self.job.failed
        if self._rank == NOT_IN:
            raise ArgumentError(f"{operation}: rank {self.job.rank} is not in the group of ranks "
                                f"{list(self.ranks)}; only these call it")

    def agreement(self, what: Collective, device: str, dtype: DType, words: str,
                  where: Location | None) -> Agreement:
        """The check that all ranks do this collective, under way; where this rank's device could
        carry it out by itself it is over, and says whether all do so."""
        if self.job.failed is not None:
            raise self.job.failed
        said = words if what.kind == "exchange" else f"{words}{_roots(what)}"
        place = f"{said} at {where or 'an unknown line'}"
        way = self.devices.way(what, device, dtype)
        check = _check(self, what, said, place, way)
        if way and isinstance(check, _Same):
            wait_until(check.is_there, self.job, self.ranks, place)
            check.joined = self.devices.joined(device, check.way, place)
        return check

    def start(self, what: Collective, sent: Array, received: Array, agreement: Agreement
              ) -> Flight:
        """Begin a collective of flat arrays; they are in use until its end."""
        if what.kind == "exchange" and what.ranks[1] == NOT_IN:
            received[...] = 0
        kind = STARTS[what.kind]
        return Flight(self, agreement, lambda: kind(self, what, sent, received))

    def carry_out(self, what: Collective, sent: Array, received: Array, words: str,
                  where: Location | None) -> None:
        """Return when a collective of flat arrays on the host is done."""
        host = self.agreement(what, "cpu", from_numpy(sent.dtype), words, where)
        self.start(what, sent, received, host).wait()

    def barrier(self, words: str, where: Location | None) -> None:
        """Wait for all ranks of the group. words: the same for all."""
        if self.job.failed is not None:
            raise self.job.failed
        if self.job.mpi is not None:
            check = _Same(self, words, f"{words} at {where or 'an unknown line'}")
            Flight(self, check, lambda: ([self.data.Ibarrier()], None)).wait()

    def whoever_sends(self, words: str, where: Location | None) -> int:
        """The number of a rank whose exchange comes, and that nothing awaits yet: the words that
        travel before it are there."""
        if self.job.failed is not None:
            raise self.job.failed
        if self.job.mpi is None:
            raise ArgumentError(f"{words} at {where}: no other rank is there that could send")
        mpi, status = self.job.mpi, self.job.mpi.Status()
        wait_until(lambda: self.checks.Iprobe(mpi.ANY_SOURCE, mpi.ANY_TAG, status), self.job,
                   self.ranks, f"{words} at {where or 'an unknown line'}")
        return int(status.Get_source())

    def __repr__(self) -> str:
        return f"Group(ranks={list(self.ranks)}, rank={self.rank})"


Requests = tuple[list[Any], Callable[[], None] | None]
"""What is under way, and what is to be done once that is there."""


class Flight:
    """A collective under way, and the check that all ranks do the same one."""

    def __init__(self, group: Group, check: Agreement, start: Callable[[], Requests]) -> None:
        self.group, self.check, self.place = group, check, check.place
        try:
            self.requests, self.finish = start()
        except group.job.mpi.Exception as error:
            raise self._failed(error) from error

    def _is_there(self) -> bool:
        """Whether all of it has come. Of ranks that do different things nothing counts."""
        if not self.check.is_there():
            return False
        try:
            return bool(self.group.job.mpi.Request.Testall(self.requests))
        except self.group.job.mpi.Exception as error:
            raise self._failed(error) from error

    def _failed(self, error: Exception) -> DistributedError:
        return self.group.job.fail(DistributedError(f"{self.place}: MPI says {error}"))

    def progress(self) -> None:
        """Let MPI work on it."""
        self._is_there()

    def wait(self) -> None:
        """Return when the result is there. DistributedError for a rank that does not come, or does
        something else."""
        job = self.group.job
        if job.failed is not None:
            raise job.failed
        wait_until(self._is_there, job, self.group.ranks, self.place)
        if self.finish is not None:
            self.finish()


class _Same:
    """Whether all ranks of a group have the same words, and in which way they would do it: the
    least of a number, and of its complement, for each.

    joined: the device that carries it out, joined to those of the others."""

    joined: Joined | None = None

    def __init__(self, group: Group, words: str, place: str, way: int = 0) -> None:
        self.group, self.place = group, place
        numbers = [_number(words), way]
        self.own = np.array([both for n in numbers for both in (n, ~n & ALL_BITS)], np.uint64)
        self.least = np.empty_like(self.own)
        self.request = group.checks.Iallreduce(self.own, self.least, group.job.mpi.MIN)

    def is_there(self) -> bool:
        """Whether it is known. DistributedError if they differ."""
        if not self.request.Test():
            return False
        if self.least[0] != ~self.least[1]:
            raise self.group.job.fail(self._difference())
        return True

    @property
    def way(self) -> int:
        """That in which all ranks would do it; 0 where they differ."""
        return int(self.least[2]) if self.least[2] == ~self.least[3] else 0

    def _difference(self) -> DistributedError:
        group = self.group
        texts = np.empty((group.size, WORDS), np.uint8)
        request = group.texts.Iallgather(note_of(self.place), texts)
        wait_until(request.Test, group.job, group.ranks, self.place)
        ranks: dict[str, list[int]] = {}
        for rank, text in zip(group.ranks, texts, strict=True):
            ranks.setdefault(text_of(text), []).append(rank)
        lines = "; ".join(f"rank{'s' * (len(of) > 1)} {', '.join(map(str, of))}: {text}"
                          for text, of in ranks.items())
        return DistributedError(f"ranks do different collectives: {lines}. All ranks of a group "
                                f"must do the same ones in the same order")


class _SameParts(_Same):
    """Whether each rank sends as many rows as are awaited, besides."""

    def __init__(self, group: Group, what: Collective, words: str, place: str, way: int) -> None:
        super().__init__(group, words, place, way)
        sent, received = what.rows
        self.sent, self.awaited = np.array(sent), np.array(received)
        self.came = np.empty_like(self.sent)
        self.counts = group.checks.Ialltoall(self.sent, self.came)

    def is_there(self) -> bool:
        """Whether it is known. DistributedError if they differ."""
        if not super().is_there() or not self.counts.Test():
            return False
        for rank, sent, awaited in zip(self.group.ranks, self.came, self.awaited, strict=True):
            if sent != awaited:
                raise self.group.job.fail(DistributedError(
                    f"{self.place}: rank {rank} sends {sent} rows to rank {self.group.job.rank}, "
                    f"which awaits {awaited}; what one sends must be what the other awaits"))
        return True


class _SamePair:
    """Whether what is received is what is awaited: its words travel before it."""

    joined = None

    def __init__(self, group: Group, ranks: tuple[int, ...], words: str, place: str) -> None:
        self.group, self.words, self.place, self.source = group, words, place, ranks[1]
        self.sent, self.came = note_of(f"{words}\n{place}"), np.zeros(WORDS, np.uint8)
        self.requests = _pair(group.checks, group, ranks, self.sent, self.came)

    def is_there(self) -> bool:
        """Whether it is known. DistributedError if they differ."""
        if not self.group.job.mpi.Request.Testall(self.requests):
            return False
        words, _, place = text_of(self.came).partition("\n")
        if self.source != NOT_IN and words != self.words[:WORDS]:
            raise self.group.job.fail(DistributedError(
                f"{self.place} gets something else from rank {self.group.ranks[self.source]}: "
                f"{place}. Both must be of one type and shape"))
        return True


Agreement = _Same | _SamePair


def _check(group: Group, what: Collective, words: str, place: str, way: int) -> Agreement:
    """Whether ranks do the same."""
    if what.kind == "exchange":
        return _SamePair(group, what.ranks, words, place)
    if what.kind == "all_to_all_parts":
        return _SameParts(group, what, words, place, way)
    return _Same(group, words, place, way)


# ---- kinds ---------------------------------------------------------------------------------------

def _roots(what: Collective) -> str:
    return f", rank {what.ranks[0]} of the group," if what.kind in ("broadcast", "reduce") else ""


def _bytes(values: Array) -> Array:
    """Values that are only moved."""
    return values.view(np.uint8)


def _is_ordered(group: Group, what: Collective, values: Array) -> bool:
    """Whether the ranks' elements are combined here, in the order of ranks: for the same bits each
    time, and where MPI does not say what it makes of NaN."""
    return group.job.deterministic or values.dtype.kind == "b" \
        or what.reduction != "sum" and values.dtype.kind == "f"


def _folded(what: Collective, rows: Array, received: Array) -> Callable[[], None]:
    """Combines a row of each rank."""
    def fold() -> None:
        with np.errstate(all="ignore"):
            received[...] = rows[0]
            for row in rows[1:]:
                _FOLDS[what.reduction](received, row, out=received)
    return fold


def _mpi_op(group: Group, what: Collective) -> Any:
    return getattr(group.job.mpi, what.reduction.upper())


def _all_reduce(group: Group, what: Collective, sent: Array, received: Array) -> Requests:
    if not _is_ordered(group, what, sent):
        return [group.data.Iallreduce(sent, received, _mpi_op(group, what))], None
    rows = np.empty((group.size, sent.size), sent.dtype)
    return [group.data.Iallgather(_bytes(sent), _bytes(rows))], _folded(what, rows, received)


def _reduce_scatter(group: Group, what: Collective, sent: Array, received: Array) -> Requests:
    if not _is_ordered(group, what, sent):
        return [group.data.Ireduce_scatter_block(sent, received, _mpi_op(group, what))], None
    rows = np.empty((group.size, received.size), sent.dtype)
    return [group.data.Ialltoall(_bytes(sent), _bytes(rows))], _folded(what, rows, received)


def _reduce(group: Group, what: Collective, sent: Array, received: Array) -> Requests:
    if group.rank != what.ranks[0]:
        received[...] = 0
    if not _is_ordered(group, what, sent):
        total = received if group.rank == what.ranks[0] else None
        return [group.data.Ireduce(sent, total, _mpi_op(group, what), what.ranks[0])], None
    rows = np.empty((group.size, sent.size), sent.dtype) if group.rank == what.ranks[0] else None
    requests = [group.data.Igather(_bytes(sent), None if rows is None else _bytes(rows),
                                   what.ranks[0])]
    return requests, None if rows is None else _folded(what, rows, received)


def _all_gather(group: Group, what: Collective, sent: Array, received: Array) -> Requests:
    return [group.data.Iallgather(_bytes(sent), _bytes(received))], None


def _all_to_all(group: Group, what: Collective, sent: Array, received: Array) -> Requests:
    return [group.data.Ialltoall(_bytes(sent), _bytes(received))], None


def _all_to_all_parts(group: Group, what: Collective, sent: Array, received: Array) -> Requests:
    byte, given = group.job.mpi.BYTE, []
    for rows, counts in zip((sent, received), what.rows, strict=True):
        width = rows.nbytes // max(1, sum(counts))
        given.append((_bytes(rows), [n * width for n in counts], byte))
    return [group.data.Ialltoallv(*given)], None


def _broadcast(group: Group, what: Collective, sent: Array, received: Array) -> Requests:
    if group.rank == what.ranks[0]:
        received[...] = sent
    return [group.data.Ibcast(_bytes(received), what.ranks[0])], None


def _exchange(group: Group, what: Collective, sent: Array, received: Array) -> Requests:
    return _pair(group.data, group, what.ranks, _bytes(sent), _bytes(received)), None


def _pair(comm: Any, group: Group, ranks: tuple[int, ...], sent: Array, received: Array
          ) -> list[Any]:
    """Sending to the first rank, and receiving from the second."""
    nobody = group.job.mpi.PROC_NULL
    target, source = (nobody if rank == NOT_IN else rank for rank in ranks)
    return [comm.Irecv(received, source), comm.Isend(sent, target)]


STARTS: dict[str, Callable[[Group, Collective, Array, Array], Requests]] = {
    "all_reduce": _all_reduce,
    "reduce_scatter": _reduce_scatter,
    "reduce": _reduce,
    "all_gather": _all_gather,
    "all_to_all": _all_to_all,
    "all_to_all_parts": _all_to_all_parts,
    "broadcast": _broadcast,
    "exchange": _exchange,
}
