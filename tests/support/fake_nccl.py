"""A stand-in for nccl4py's low-level bindings, for the device cuda-on-cpu: MPI carries values.

A call is queued on a stream of the driver for tests, where it begins when it is its turn, and is
asked again until MPI is done. `calls` has what was called. Errors are those that a test asks for.
"""
from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable
from types import ModuleType
from typing import Any

import cuda_on_cpu
import numpy as np
from mpi4py import MPI

Array = np.ndarray[Any, Any]
TYPES = {0: np.int8, 1: np.uint8, 2: np.int32, 3: np.uint32, 4: np.int64, 5: np.uint64,
         7: np.float32, 8: np.float64}
OPS = {0: MPI.SUM, 2: MPI.MAX, 3: MPI.MIN}
VERSION = 22809

calls: list[str] = []
"""Names of functions, in order."""
failing: dict[str, str] = {}
"""Functions that fail, and what they say."""
asynchronous: list[int] = []
"""Not empty: the code of an error that a communicator has met."""
stuck: list[str] = []
"""Not empty: what is queued never ends."""
_group: list[Any] | None = None
_alive: list[Any] = []  # what the driver calls
_Call = ctypes.CFUNCTYPE(ctypes.c_int)


class NCCLError(Exception):
    """As nccl4py's."""


class Comm:
    """A communicator, or none."""

    def __init__(self, comm: Any = None) -> None:
        self.comm, self.is_over = comm, False


def _called(name: str) -> None:
    calls.append(name)
    if name in failing:
        raise NCCLError(failing[name])


def get_version() -> int:
    return VERSION


def get_unique_id() -> bytes:
    _called("get_unique_id")
    return MPI.COMM_WORLD.Get_rank().to_bytes(8, "little") + np.random.bytes(120)


def comm_init_rank(size: int, number: bytearray, rank: int) -> Comm:
    """All ranks tell the one that made the number who they are in the world, which tells them."""
    _called("comm_init_rank")
    assert isinstance(number, bytearray), "nccl4py takes nothing that it cannot write to"
    world = MPI.COMM_WORLD
    root, tag = int.from_bytes(bytes(number)[:8], "little"), 1 + bytes(number)[8]
    own = np.array([rank, world.Get_rank()], np.int64)
    ranks = np.zeros(size, np.int64)
    request = world.Isend(own, root, 1000 + tag)
    if rank == 0:
        for _ in range(size):
            came = np.empty(2, np.int64)
            world.Recv(came, MPI.ANY_SOURCE, 1000 + tag)
            ranks[came[0]] = came[1]
        for other in ranks[1:]:
            world.Send(ranks, int(other), 2000 + tag)
    else:
        world.Recv(ranks, root, 2000 + tag)
    request.Wait()
    return Comm(world.Create_group(world.Get_group().Incl(ranks.tolist()), tag))


def comm_destroy(comm: Comm) -> None:
    _called("comm_destroy")
    comm.is_over = True


def comm_abort(comm: Comm) -> None:
    """What was queued ends."""
    _called("comm_abort")
    comm.is_over = True


def comm_get_async_error(comm: Comm) -> int:
    return asynchronous[0] if asynchronous else 0


def get_error_string(code: int) -> str:
    return f"error {code} of the stand-in"


def get_last_error(comm: Comm) -> str:
    assert isinstance(comm, Comm)
    return "the last error" if failing or asynchronous else ""


def _at(address: int, count: int, dtype: int) -> Array:
    kind = np.dtype(TYPES[dtype])
    return np.frombuffer((ctypes.c_char * (count * kind.itemsize)).from_address(address), kind)


def _queue(name: str, comm: Comm, stream: int, begin: Callable[[Any], list[Any]]) -> None:
    """Queue what begins with MPI, alone or with all that is in the group."""
    _called(name)
    if _group is not None:
        _group.append((comm, stream, begin))
    else:
        _queue_all([(comm, stream, begin)])


def _queue_all(parts: list[Any]) -> None:
    requests: list[Any] = []
    begun: list[bool] = []
    comm, stream, _ = parts[0]

    def go_on() -> int:
        if comm.is_over:
            return 1
        if not begun:
            begun.append(True)
            for own, _, begin in parts:
                requests.extend(begin(own.comm))
        return int(not stuck and MPI.Request.Testall(requests))
    call = _Call(go_on)
    _alive.append(call)
    cuda_on_cpu.driver().fake_queue(ctypes.c_void_p(stream), call)


def group_start() -> None:
    global _group
    _called("group_start")
    _group = []


def group_end() -> None:
    global _group
    parts, _group = _group, None
    _called("group_end")
    if parts:
        _queue_all(parts)


def all_reduce(sent: int, received: int, count: int, dtype: int, op: int, comm: Comm, stream: int
               ) -> None:
    _queue("all_reduce", comm, stream, lambda mpi: [mpi.Iallreduce(
        _at(sent, count, dtype), _at(received, count, dtype), OPS[op])])


def reduce(sent: int, received: int, count: int, dtype: int, op: int, root: int, comm: Comm,
           stream: int) -> None:
    _queue("reduce", comm, stream, lambda mpi: [mpi.Ireduce(
        _at(sent, count, dtype), _at(received, count, dtype) if mpi.Get_rank() == root else None,
        OPS[op], root)])


def broadcast(sent: int, received: int, count: int, dtype: int, root: int, comm: Comm, stream: int
              ) -> None:
    def begin(mpi: Any) -> list[Any]:
        if mpi.Get_rank() == root:
            _at(received, count, dtype)[...] = _at(sent, count, dtype)
        return [mpi.Ibcast(_at(received, count, dtype), root)]
    _queue("broadcast", comm, stream, begin)


def all_gather(sent: int, received: int, count: int, dtype: int, comm: Comm, stream: int) -> None:
    _queue("all_gather", comm, stream, lambda mpi: [mpi.Iallgather(
        _at(sent, count, dtype), _at(received, count * mpi.Get_size(), dtype))])


def reduce_scatter(sent: int, received: int, count: int, dtype: int, op: int, comm: Comm,
                   stream: int) -> None:
    _queue("reduce_scatter", comm, stream, lambda mpi: [mpi.Ireduce_scatter_block(
        _at(sent, count * mpi.Get_size(), dtype), _at(received, count, dtype), OPS[op])])


def send(sent: int, count: int, dtype: int, peer: int, comm: Comm, stream: int) -> None:
    _queue("send", comm, stream, lambda mpi: [mpi.Isend(_at(sent, count, dtype), peer)])


def recv(received: int, count: int, dtype: int, peer: int, comm: Comm, stream: int) -> None:
    _queue("recv", comm, stream, lambda mpi: [mpi.Irecv(_at(received, count, dtype), peer)])


def install() -> None:
    """Be the bindings that the cuda runtime imports."""
    package, bindings = ModuleType("nccl"), ModuleType("nccl.bindings")
    bindings.nccl = sys.modules[__name__]  # type: ignore[attr-defined]
    sys.modules.update({"nccl": package, "nccl.bindings": bindings,
                        "nccl.bindings.nccl": sys.modules[__name__]})
    calls.clear()
