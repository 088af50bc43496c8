"""PyTorch's functions of `torch.distributed` on MPI, beside PyTorch's own ones on gloo."""
from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
import torch.distributed as gloo

import lazyten as lt
from lazyten import distributed as dist

Case = Callable[[Any, Any, Callable[..., Any], np.random.Generator], Sequence[Any]]
"""(the package, its distributed functions, a new tensor of this rank's by its shape, numbers that
all ranks have) -> what this rank has then."""


def _zeros(pkg: Any, *shapes: Any) -> list[Any]:
    return [pkg.zeros(*shape, dtype=pkg.float64) for shape in shapes]


def _reductions(pkg: Any, d: Any, new: Any, same: Any) -> Sequence[Any]:
    found = []
    for op in ("SUM", "MAX", "MIN", "PRODUCT"):
        for call in (lambda x, op: d.all_reduce(x, op=op), lambda x, op: d.reduce(x, 1, op=op),
                     lambda x, op: d.reduce(x, group_dst=0, op=op)):
            found.append(x := new(2, 3))
            call(x, getattr(d.ReduceOp, op))
    for op in ("BAND", "BOR", "BXOR"):
        found.append(x := new(5).long())
        d.all_reduce(x, op=getattr(d.ReduceOp, op))
    # what others than dst have is left open
    return [x for i, x in enumerate(found) if i >= 12 or d.get_rank() == (None, 1, 0)[i % 3]
            or i % 3 == 0]


def _all_to_all_single(pkg: Any, d: Any, new: Any, same: Any) -> Sequence[Any]:
    rank, size = d.get_rank(), d.get_world_size()
    counts = same.integers(0, 4, (size, size)).tolist()
    sent, received = counts[rank], [row[rank] for row in counts]
    out, even = *_zeros(pkg, (sum(received), 2)), *_zeros(pkg, (2 * size,))
    d.all_to_all_single(out, new(sum(sent), 2), received, sent)
    work = d.all_to_all_single(even, new(2 * size), async_op=True)
    work.wait()
    again = _zeros(pkg, (size, 3))[0]
    d.all_to_all_single(again, new(size, 3), [1] * size, [1] * size)
    return [out, even, again]


def _lists(pkg: Any, d: Any, new: Any, same: Any) -> Sequence[Any]:
    rank, size = d.get_rank(), d.get_world_size()
    into, every = _zeros(pkg, *[(2,)] * size), _zeros(pkg, *[(2, 2)] * size)
    d.all_gather(into, new(2))
    d.gather(new(2, 2), every if rank == 1 else None, dst=1)
    own, other = _zeros(pkg, (3,), (3,))
    d.scatter(own, [new(3) for _ in range(size)] if rank == 0 else None)
    d.scatter(other, [new(3) for _ in range(size)] if rank == 1 else None, group_src=1)
    whole = _zeros(pkg, (2 * size, 2))[0]
    d.all_gather_into_tensor(whole, new(2, 2))
    part = _zeros(pkg, (2, 2))[0]
    d.reduce_scatter_tensor(part, new(2 * size, 2))
    summed = _zeros(pkg, (4,))[0]
    d.reduce_scatter(summed, [new(4) for _ in range(size)], op=d.ReduceOp.MAX)
    return [*into, *every, own, other, whole, part, summed]


def _pairs(pkg: Any, d: Any, new: Any, same: Any) -> Sequence[Any]:
    rank, size = d.get_rank(), d.get_world_size()
    after, before = (rank + 1) % size, (rank - 1) % size
    came, tagged, last = _zeros(pkg, (3,), (2,), (4,))
    works = d.batch_isend_irecv([d.P2POp(d.isend, new(3), after), d.P2POp(d.irecv, came, before)])
    works += [d.isend(new(2), after, tag=7), d.irecv(tagged, before, tag=7)]
    for work in works:
        work.wait()
    if rank == 0:
        d.send(new(4), group_dst=size - 1)
    elif rank == size - 1:
        assert d.recv(last) == 0
    d.barrier()  # a rank that is ahead would send what this one takes from anyone
    return [came, tagged, last]


def _coalesced(pkg: Any, d: Any, new: Any, same: Any) -> Sequence[Any]:
    size = d.get_world_size()
    sums = [new(2), new(3, 1)]
    d.all_reduce_coalesced(sums)
    every = [_zeros(pkg, (2,), (1, 3)) for _ in range(size)]
    d.all_gather_coalesced(every, [new(2), new(1, 3)])
    return [*sums, *(t for own in every for t in own)]


CASES: dict[str, Case] = {"reductions": _reductions, "all_to_all_single": _all_to_all_single,
                          "lists": _lists, "pairs": _pairs, "coalesced": _coalesced}


def _results(pkg: Any, d: Any, case: Case, seed: int) -> list[Any]:
    own = np.random.default_rng([seed, d.get_rank()])

    def new(*shape: int) -> Any:
        return pkg.tensor(own.integers(-9, 9, shape).astype(np.float64))
    found = case(pkg, d, new, np.random.default_rng(seed))
    return [x.numpy() for x in found]


def equal(port: int, seeds: list[int]) -> None:
    """Each case gives what PyTorch gives."""
    dist.init(60)
    gloo.init_process_group("gloo", f"tcp://127.0.0.1:{port}", rank=dist.rank(),
                            world_size=dist.size())
    for name, case in CASES.items():
        for seed in seeds:
            wanted = _results(torch, gloo, case, seed)
            for a, b in zip(_results(lt, dist, case, seed), wanted, strict=True):
                np.testing.assert_array_equal(a, b, f"{name}, {seed}")
    gloo.destroy_process_group()
    dist.barrier()
    print("done")
