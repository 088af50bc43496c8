"""NCCL, NVIDIA's library of collectives, as much of it as is used: a thin layer over nccl4py.

`queue` says how each kind of collective becomes calls of NCCL. Not taken: kinds that only some
ranks of a group do (NCCL's first send to a rank waits for it, MPI's does not), types that NCCL has
not, and the greatest or least of floats, where NCCL's fmax drops a NaN.
"""
from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import cache
from typing import Any

from lazyten.ir.collective import KINDS, Collective, Part
from lazyten.ir.dtype import DType
from lazyten.support.forking import undivided

SHARED_SINCE = 23000
"""NCCL 2.30: ranks may share a GPU, where this variable is 1."""
SHARING = "NCCL_MULTI_RANK_GPU_ENABLE"
TYPES = {"int8": 0, "uint8": 1, "int32": 2, "uint32": 3, "int64": 4, "uint64": 5, "float32": 7,
         "float64": 8}
"""ncclDataType_t, of elements that are combined."""
BYTES = TYPES["uint8"]
REDUCTIONS = {"sum": 0, "max": 2, "min": 3}
"""ncclRedOp_t."""
IN_PROGRESS = 7  # ncclInProgress


class CallError(Exception):
    """A call that NCCL refused."""


class Api:
    """The functions of nccl4py; what NCCL refuses is a CallError with the call's name."""

    def __init__(self, module: Any) -> None:
        self.module = module
        self.version = int(self.call("get_version"))

    def call(self, name: str, *arguments: Any) -> Any:
        """What a function gives."""
        try:
            return getattr(self.module, name)(*arguments)
        except Exception as error:  # NCCLError, or what says that the library has no such function
            raise CallError(f"{name}: {error}") from error

    def explained(self, error: Exception, comm: Any = None) -> str:
        """An error, with what NCCL says of the last one."""
        try:
            last = self.module.get_last_error(self.module.Comm() if comm is None else comm).strip()
        except Exception:  # the error itself is the one to tell
            last = ""
        return f"NCCL says {error}{f' ({last})' if last else ''}"

    @property
    def version_text(self) -> str:
        """2.28.9 for 22809."""
        return f"{self.version // 10000}.{self.version % 10000 // 100}.{self.version % 100}"

    @property
    def may_share(self) -> bool:
        """Whether ranks may share a GPU."""
        return self.version >= SHARED_SINCE and os.environ.get(SHARING, "") == "1"


@cache
@undivided
def api() -> Api | str:
    """NCCL, or why it cannot be used."""
    try:
        from nccl.bindings import nccl as module
    except ImportError as error:
        return f"nccl4py is not installed ({error}): pip install 'lazyten[nccl]'"
    try:
        return Api(module)
    except CallError as error:
        return (f"nccl4py finds no NCCL (pip install 'lazyten[nccl]', or name the folder of "
                f"libnccl.so.2 in LD_LIBRARY_PATH): {' '.join(str(error).split())}")


def takes(what: Collective, dtype: DType) -> bool:
    """Whether NCCL gives what we promise."""
    if what.kind not in CALLS:
        return False
    if not KINDS[what.kind].reduces:
        return True
    return dtype.name in TYPES and (what.reduction == "sum" or not dtype.is_float)


# ---- kinds ---------------------------------------------------------------------------------------

class Queue:
    """Where one collective's calls go: NCCL's communicator, and a stream by its number."""

    def __init__(self, nccl: Api, comm: Any, stream: int) -> None:
        self.nccl, self.comm, self.stream = nccl, comm, stream

    def call(self, name: str, *arguments: Any) -> None:
        """Queue one."""
        self.nccl.call(name, *arguments, self.comm, self.stream)

    @contextmanager
    def together(self) -> Iterator[None]:
        """Calls that are one: none waits for another."""
        self.nccl.call("group_start")
        try:
            yield
        except CallError:
            with suppress(CallError):  # the first one is the one to tell
                self.nccl.call("group_end")
            raise
        self.nccl.call("group_end")


def _parts(sent: Sequence[Part], received: Part, width: int) -> Iterator[tuple[int, int, int]]:
    """Of several arrays in one: where each is, where its part of the result is, and how many
    elements it has."""
    done = 0
    for handle, count in sent:
        if count:
            yield handle, received.handle + done * width, count
        done += count


def _all_reduce(to: Queue, what: Collective, dtype: DType, sent: Sequence[Part], received: Part
                ) -> None:
    with to.together():
        for source, target, count in _parts(sent, received, dtype.itemsize):
            to.call("all_reduce", source, target, count, TYPES[dtype.name],
                    REDUCTIONS[what.reduction])


def _reduce(to: Queue, what: Collective, dtype: DType, sent: Sequence[Part], received: Part
            ) -> None:
    with to.together():
        for source, target, count in _parts(sent, received, dtype.itemsize):
            to.call("reduce", source, target, count, TYPES[dtype.name],
                    REDUCTIONS[what.reduction], what.ranks[0])


def _broadcast(to: Queue, what: Collective, dtype: DType, sent: Sequence[Part], received: Part
               ) -> None:
    with to.together():
        for source, target, count in _parts(sent, received, dtype.itemsize):
            to.call("broadcast", source, target, count * dtype.itemsize, BYTES, what.ranks[0])


def _reduce_scatter(to: Queue, what: Collective, dtype: DType, sent: Sequence[Part], received: Part
                    ) -> None:
    if received.size:
        to.call("reduce_scatter", sent[0].handle, received.handle, received.size,
                TYPES[dtype.name], REDUCTIONS[what.reduction])


def _all_gather(to: Queue, what: Collective, dtype: DType, sent: Sequence[Part], received: Part
                ) -> None:
    if received.size:
        to.call("all_gather", sent[0].handle, received.handle, sent[0].size * dtype.itemsize,
                BYTES)


def _all_to_all(to: Queue, what: Collective, dtype: DType, sent: Sequence[Part], received: Part
                ) -> None:
    """Rows to each rank and from each: as many, or as many as it says."""
    size = what.group.size
    given, awaited = what.rows if what.kind == "all_to_all_parts" else ((1,) * size, (1,) * size)
    widths = [part.size * dtype.itemsize // max(1, sum(counts))
              for part, counts in ((sent[0], given), (received, awaited))]
    source, target = sent[0].handle, received.handle
    with to.together():
        for rank in range(size):
            for name, address, nbytes in (("send", source, given[rank] * widths[0]),
                                          ("recv", target, awaited[rank] * widths[1])):
                if nbytes:
                    to.call(name, address, nbytes, BYTES, rank)
            source, target = source + given[rank] * widths[0], target + awaited[rank] * widths[1]


CALLS: dict[str, Callable[[Queue, Collective, DType, Sequence[Part], Part], None]] = {
    "all_reduce": _all_reduce,
    "reduce_scatter": _reduce_scatter,
    "reduce": _reduce,
    "all_gather": _all_gather,
    "all_to_all": _all_to_all,
    "all_to_all_parts": _all_to_all,
    "broadcast": _broadcast,
}
