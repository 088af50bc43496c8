"""A GPU joined to those of other ranks by NCCL.

Collectives, of whichever group, have a stream of their own: one waits by an event for what was
queued before it, and what needs its result waits for it by another, so kernels that do not need it
run beside it. The host waits for neither. A rank that never comes would block the stream for ever;
so as long as something is under way, whoever waits for the GPU looks at the time and at NCCL's
errors.
"""
from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any

from lazyten.ir.collective import Collective, Joined, Part, Ranks, Refused
from lazyten.ir.dtype import DType
from lazyten.runtimes.cuda import nccl
from lazyten.runtimes.cuda.driver import Context, DriverError
from lazyten.support import forking

LONGEST = 239
"""Bytes of the words in which a rank says why it cannot be joined."""
UNIQUE = 128  # NCCL_UNIQUE_ID_BYTES


class UnderWay:
    """A collective that is queued. came: the event of its end; is_over: whether what is queued
    later waits for that."""

    def __init__(self, came: Any, place: str) -> None:
        self.came, self.place, self.is_over = came, place, False


class JoinedGpu(Joined):
    """One rank's part of NCCL's communicator."""

    def __init__(self, context: Context, api: nccl.Api, ranks: Ranks, comm: Any) -> None:
        self.context, self.nccl, self.ranks, self.comm = context, api, ranks, comm
        self.stream = context.beside()
        self.under_way: deque[UnderWay] = deque()
        self.is_left = False
        self._lock = forking.lock()
        self.name = f"NCCL {api.version_text}"
        context.watchers.append(self.patiently)

    def begin(self, what: Collective, dtype: DType, sent: Sequence[Part], received: Part,
              place: str) -> Callable[[], None]:
        if self.is_left:
            raise self.ranks.failed(f"{place}: its GPUs are not joined any more, since "
                                    f"distributed.destroy(); make the group anew")
        context, queue = self.context, nccl.Queue(self.nccl, self.comm, int(self.stream))
        with self._failing(place), self._lock:
            context.use()
            self._forget_old()
            ready, came = context.event(), context.event()
            context.record(ready)
            context.hold(ready, self.stream)
            context.destroy_event(ready)
            if what.kind == "reduce" and self.ranks.rank != what.ranks[0] and received.size:
                context.clear(received.handle, received.size * dtype.itemsize, self.stream)
            nccl.CALLS[what.kind](queue, what, dtype, sent, received)
            context.record(came, self.stream)
            begun = UnderWay(came, place)
            self.under_way.append(begun)

        def end() -> None:
            begun.is_over = True
            if not self.is_left:
                with self._failing(place):
                    context.use()
                    context.hold(came)
        return end

    @contextmanager
    def _failing(self, place: str) -> Iterator[None]:
        """What NCCL or the driver refuses is a DistributedError."""
        try:
            yield
        except nccl.CallError as error:
            raise self.ranks.failed(f"{place}: {self.nccl.explained(error, self.comm)}") from error
        except DriverError as error:
            raise self.ranks.failed(f"{place}: {error}") from error

    def _forget_old(self) -> None:
        while self.under_way and self.under_way[0].is_over and \
                self.context.has_come(self.under_way[0].came):
            self.context.destroy_event(self.under_way.popleft().came)

    def patiently(self, done: Callable[[], bool]) -> None:
        """Return once `done()`, or if it does not depend on other ranks. DistributedError for what
        NCCL meets meanwhile, and at the end of the time limit."""
        with self._lock:
            places = [b.place for b in self.under_way if not self.context.has_come(b.came)]
        if not places:
            return

        def is_there() -> bool:
            if done():
                return True
            self._look(places[0])
            return False
        self.ranks.wait(is_there, places[0])

    def _look(self, place: str) -> None:
        """DistributedError if the communicator has met a mistake."""
        with self._failing(place):
            code = int(self.nccl.call("comm_get_async_error", self.comm))
            if code not in (0, nccl.IN_PROGRESS):
                raise nccl.CallError(self.nccl.call("get_error_string", code))

    def leave(self) -> None:
        for begun in list(self.under_way):
            self.context.wait_for(begun.came)
        self._end("comm_destroy")

    def abort(self) -> None:
        with suppress(nccl.CallError, DriverError):
            self._end("comm_abort")

    def _end(self, call: str) -> None:
        if self.is_left:
            return
        self.is_left = True
        self.under_way.clear()
        self.context.watchers.remove(self.patiently)
        self.context.use()
        self.nccl.call(call, self.comm)


def join(context: Context, gpu: bytes, ranks: Ranks, place: str) -> Joined | Refused:
    """Join a GPU to those of the ranks. gpu: 16 bytes that tell it from all others. Refused where
    ranks cannot be joined, and all of them see that; DistributedError where NCCL fails."""
    api = nccl.api()
    missing = api.encode()[:LONGEST] if isinstance(api, str) else b""
    shares = not isinstance(api, str) and api.may_share
    notes = ranks.gathered(gpu + bytes([shares]) + missing.ljust(LONGEST))
    for rank, note in enumerate(notes):
        if note[17:].strip():
            return Refused(f"rank {rank} says: {note[17:].decode(errors='replace').strip()}")
    if len({note[:16] for note in notes}) < ranks.size and not all(note[16] for note in notes):
        return Refused(f"ranks share a GPU, which NCCL takes from 2.30 on, where {nccl.SHARING} is "
                       f"1; give each a GPU of its own, for example by "
                       f"lt.set_default_device(f'cuda:{{lt.distributed.get_node_local_rank()}}')")
    assert not isinstance(api, str)
    return JoinedGpu(context, api, ranks, _communicator(context, api, ranks, place))


def _communicator(context: Context, api: nccl.Api, ranks: Ranks, place: str) -> Any:
    """NCCL's communicator, made by all ranks at once; in a thread of its own, so that there is a
    time limit."""
    made: list[Any] = []
    failed: list[Exception] = []
    try:
        own = bytes(api.call("get_unique_id")) if ranks.rank == 0 else bytes(UNIQUE)
    except nccl.CallError as error:
        raise ranks.failed(f"{place}: {api.explained(error)}") from error
    number = ranks.gathered(own)[0]

    def make() -> None:
        try:
            context.use()
            made.append(api.call("comm_init_rank", ranks.size, bytearray(number), ranks.rank))
        except Exception as error:
            failed.append(error)
    thread = threading.Thread(target=make, daemon=True)
    thread.start()
    ranks.wait(lambda: not thread.is_alive(), f"joining GPUs by NCCL for {place}")
    if failed:
        raise ranks.failed(f"{place}: {api.explained(failed[0])}") from failed[0]
    return made[0]
