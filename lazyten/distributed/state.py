"""Whether this process has joined a job, and its groups: `init`, `rank`, `size`, `new_group`.

All ranks call these functions in the same order.
"""
from __future__ import annotations

import atexit
from collections.abc import Sequence
from datetime import timedelta

from lazyten.distributed import job as jobs
from lazyten.distributed.group import Group
from lazyten.execution.realization import carry_out
from lazyten.storage import tracing
from lazyten.support.errors import ArgumentError, DistributedError
from lazyten.support.location import user_location

_world: Group | None = None


def init(timeout: float | timedelta | None = None, deterministic: bool = False) -> Group:
    """Join the other processes that mpiexec or srun has started with this one; alone, this process
    is rank 0 of 1. Gives the group of all ranks. Once joined, it only gives that.

    timeout: seconds (or a timedelta) that a rank waits for others before an error says who is
    missing; 30 minutes if left out. deterministic: sums are added up in the order of ranks, for the
    same bits on any number of nodes, at the price of size times the traffic.
    """
    global _world
    if _world is None:
        found = jobs.joined(timeout, deterministic)
        _world = Group(found, tuple(range(found.size)), found.world)
        atexit.register(_finish)
    return _world


def is_initialized() -> bool:
    """Whether init() was called."""
    return _world is not None


def destroy() -> None:
    """Carry out what is left, wait for all ranks, and leave the job; init() joins it again."""
    global _world
    if _world is not None:
        barrier()
        _world = None


def _finish() -> None:
    """At the end of the program other ranks may still wait for what was recorded."""
    if _world is not None and _world.job.failed is None:
        carry_out()


def world() -> Group:
    """The group of all ranks. DistributedError before init()."""
    if _world is None:
        raise DistributedError("distributed: this process has joined no others; call "
                               "lazyten.distributed.init() first")
    return _world


def group_of(group: Group | None, operation: str) -> Group:
    """The group that is meant, of which this process is one: all ranks, if none is given."""
    found = world() if group is None else group
    if not isinstance(found, Group):
        raise ArgumentError(f"{operation}: group={found!r:.40}; give what new_group() gave")
    found.check_member(operation)
    return found


def rank(group: Group | None = None) -> int:
    """This process's number in a group, or among all; -1 where it is not in the group."""
    return world().rank if group is None else group.rank


def size(group: Group | None = None) -> int:
    """How many ranks a group has, or there are."""
    return world().size if group is None else group.size


def get_process_group_ranks(group: Group | None = None) -> list[int]:
    """The numbers in the job of a group's ranks: of all, without a group."""
    return list(group_of(group, "get_process_group_ranks").ranks)


def get_backend(group: Group | None = None) -> str:
    """'mpi', which joins all groups."""
    group_of(group, "get_backend")
    return "mpi"


def barrier(group: Group | None = None) -> None:
    """Return when all ranks of the group have called it, and have carried out what was recorded
    before."""
    tracing.refuse("distributed.barrier()", "call it outside; collectives wait for each other "
                   "themselves")
    found = group_of(group, "barrier")
    carry_out()
    found.barrier(f"barrier of ranks {list(found.ranks)}", user_location())


def new_group(ranks: Sequence[int] | None = None) -> Group:
    """A group of these ranks, or of all. All ranks call it, those that are not in it, too, whose
    rank there is -1."""
    whole = world()
    chosen = tuple(range(whole.size)) if ranks is None else tuple(sorted(ranks))
    if not chosen or len(set(chosen)) < len(chosen) or not set(chosen) <= set(whole.ranks):
        raise ArgumentError(f"new_group: ranks={list(chosen)}; give different numbers from 0 to "
                            f"{whole.size - 1}")
    carry_out()
    whole.barrier(f"new_group of ranks {list(chosen)}", user_location())
    if whole.job.mpi is None:
        return Group(whole.job, chosen, None)
    return Group(whole.job, chosen, whole.data.Create(whole.data.Get_group().Incl(chosen)))

