"""Whether this process has joined a job, and its groups: `init`, `rank`, `size`, `new_group`.

All ranks call these functions in the same order.
"""
from __future__ import annotations

import atexit
import os
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
    """Carry out what is left, wait for all ranks, and leave the job: what MPI has for its groups is
    freed, and they can no longer be used. init() joins it again."""
    global _world
    if _world is not None:
        barrier()
        _world.job.leave()
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
    _wait_for_all(group, "barrier")


def monitored_barrier(group: Group | None = None, timeout: float | timedelta | None = None,
                      wait_all_ranks: bool = False) -> None:
    """barrier() with a time limit of its own. What says who is missing names all of them."""
    found = group_of(group, "monitored_barrier")
    before = found.job.limit
    found.job.limit = before if timeout is None else jobs.seconds(timeout, "monitored_barrier")
    try:
        _wait_for_all(group, "monitored_barrier")
    finally:
        found.job.limit = before


def _wait_for_all(group: Group | None, operation: str) -> None:
    tracing.refuse(f"distributed.{operation}()", "call it outside; collectives wait for each other "
                   "themselves")
    found = group_of(group, operation)
    carry_out()
    found.barrier(f"{operation} of ranks {list(found.ranks)}", user_location())


def new_group(ranks: Sequence[int] | None = None, timeout: float | timedelta | None = None,
              backend: str | None = None, pg_options: object = None,
              use_local_synchronization: bool = False, group_desc: str | None = None) -> Group:
    """A group of these ranks, or of all. All ranks call it, those that are not in it, too, whose
    rank there is -1; with use_local_synchronization those that are in it alone. timeout is that of
    the job, and the backend MPI, whatever is said."""
    whole = world()
    chosen = tuple(range(whole.size)) if ranks is None else tuple(sorted(ranks))
    if not chosen or len(set(chosen)) < len(chosen) or not set(chosen) <= set(whole.ranks):
        raise ArgumentError(f"new_group: ranks={list(chosen)}; give different numbers from 0 to "
                            f"{whole.size - 1}")
    if whole.job.mpi is None:
        return Group(whole.job, chosen, None)
    members = whole.data.Get_group().Incl(chosen)
    if use_local_synchronization:
        own = whole.rank in chosen
        return Group(whole.job, chosen, whole.job.held(whole.data.Create_group(members)) if own
                     else whole.job.mpi.COMM_NULL)
    carry_out()
    whole.barrier(f"new_group of ranks {list(chosen)}", user_location())
    return Group(whole.job, chosen, whole.job.held(whole.data.Create(members)))


def new_subgroups_by_enumeration(ranks_per_subgroup_list: Sequence[Sequence[int]],
                                 timeout: float | timedelta | None = None,
                                 backend: str | None = None, pg_options: object = None,
                                 group_desc: str | None = None) -> tuple[Group | None, list[Group]]:
    """A group of each of these lists of ranks: that which this process is in, and all. All ranks
    call it with the same lists."""
    named = [rank for ranks in ranks_per_subgroup_list for rank in ranks]
    if len(set(named)) < len(named):
        raise ArgumentError(f"new_subgroups_by_enumeration: {ranks_per_subgroup_list!r:.80}; each "
                            f"rank is in one list at most")
    groups = [new_group(ranks) for ranks in ranks_per_subgroup_list]
    return next((group for group in groups if group.rank >= 0), None), groups


def new_subgroups(group_size: int | None = None, group: Group | None = None,
                  timeout: float | timedelta | None = None, backend: str | None = None,
                  pg_options: object = None, group_desc: str | None = None
                  ) -> tuple[Group | None, list[Group]]:
    """Groups of so many ranks that follow each other: that which this process is in, and all. All
    ranks call it. group_size: as many as there are on a machine, if left out."""
    ranks = list(group_of(group, "new_subgroups").ranks)
    length = int(os.environ.get("LOCAL_WORLD_SIZE") or len(ranks)) if group_size is None else \
        group_size
    if length < 1 or len(ranks) % length:
        raise ArgumentError(f"new_subgroups: group_size={length} of {len(ranks)} ranks; give a "
                            f"divisor of that")
    return new_subgroups_by_enumeration([ranks[at:at + length]
                                         for at in range(0, len(ranks), length)])


def get_group_rank(group: Group, global_rank: int) -> int:
    """The number in a group of a rank of the job."""
    if global_rank not in group.ranks:
        raise ArgumentError(f"get_group_rank: rank {global_rank} is not in the group of ranks "
                            f"{list(group.ranks)}")
    return group.ranks.index(global_rank)


def get_global_rank(group: Group, group_rank: int) -> int:
    """The number in the job of a group's rank."""
    if not 0 <= group_rank < group.size:
        raise ArgumentError(f"get_global_rank: rank {group_rank} of a group of {group.size}; give "
                            f"0 to {group.size - 1}")
    return group.ranks[group_rank]


def get_node_local_rank(fallback_rank: int | None = None) -> int:
    """This process's number among those on its machine, by what started it; otherwise
    fallback_rank. ArgumentError without one."""
    found = jobs.local_rank(os.environ)
    if found is None and fallback_rank is None:
        raise ArgumentError("get_node_local_rank: the environment says nothing of it; start the "
                            "program by mpiexec or srun, or give fallback_rank")
    return fallback_rank if found is None else found  # type: ignore[return-value]
