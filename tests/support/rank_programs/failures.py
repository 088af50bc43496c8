"""Ranks that go wrong: each must end the job with an error that says what happened."""
from __future__ import annotations

import os
import signal
import sys
import time

import lazyten as lt
from lazyten import distributed as dist
from lazyten.distributed import functional as F
from lazyten.distributed.tensor import Shard, distribute_tensor

LIMIT = 2.0


def fail(case: str, where: str = "eagerly") -> None:
    """Do what `case` says on rank 1."""
    world = dist.init(60)
    is_odd = dist.rank() == 1
    x = lt.ones(3)
    F.all_reduce(x).sum().item()  # all are there
    dist.barrier()
    mesh = dist.init_device_mesh("cpu", (world.size,))
    world.job.limit = LIMIT

    def work(x: lt.Tensor) -> lt.Tensor:
        if case == "kind":
            return F.broadcast(x) if is_odd else F.all_reduce(x)
        if case == "reduction":
            return F.all_reduce(x, "max" if is_odd else "sum")
        if case == "root":
            return F.broadcast(x, 1 if is_odd else 0)
        if case == "shape":
            return F.all_reduce(lt.ones(100_000 if is_odd else 3) * x.sum())
        if case == "type":
            return F.all_reduce(x.int() if is_odd else x)
        if case == "order":
            parts = [F.all_reduce(x), F.all_gather(x)] if is_odd else [F.all_gather(x),
                                                                       F.all_reduce(x)]
            return parts[0].sum() + parts[1].sum()
        if case == "object":
            return _objects(is_odd, x)
        if case == "monitored":
            world.job.limit = 60
            dist.monitored_barrier(timeout=LIMIT)
        if case in ("part", "hidden"):
            return _parts(case, is_odd, mesh)
        if case == "pair":
            return F.exchange(x[:2] if is_odd else x, 1 - dist.rank(), 1 - dist.rank())
        if case == "rows":
            return F.all_to_all_parts(x, [1, 2], [1, 1] if not is_odd else [1, 2])
        if case == "list":
            into = [lt.zeros(1), lt.zeros(2 if is_odd else 3)]
            dist.all_gather(into, lt.ones(len(into[dist.rank()])))
            return into[0]
        return F.all_reduce(x)

    if is_odd:
        _go_wrong(case)
    for _ in range(6):
        (lt.jit(work) if where == "jit" else work)(x).sum().item()


def _objects(is_odd: bool, x: lt.Tensor) -> lt.Tensor:
    """Objects are gathered, and a sum is made elsewhere."""
    if is_odd:
        return F.all_reduce(x)
    dist.all_gather_object([None] * dist.size(), "words")
    return x


def _parts(case: str, is_odd: bool, mesh: dist.DeviceMesh) -> lt.Tensor:
    """One rank looks at other values of a DTensor than another, or at none."""
    x = distribute_tensor(lt.arange(8.0), mesh, [Shard(0)])
    if case == "hidden" and is_odd:
        return x.to_local()
    return (x.sum() if is_odd else x).full_tensor()


def _go_wrong(case: str) -> None:
    if case in ("sleep", "monitored"):
        time.sleep(60)
    if case == "exit":
        sys.exit(0)
    if case == "raise":
        raise ValueError("my own mistake")
    if case == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
    if case == "receive":
        dist.recv(lt.ones(3), 0)
        lt.realize(F.all_reduce(lt.ones(1)))
    if case == "barrier":
        dist.barrier()
