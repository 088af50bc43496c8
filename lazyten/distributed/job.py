"""The job that this process is a rank of: found in the environment of mpiexec or srun, or alone.

mpi4py is imported where there is something to join, so that one process needs no MPI.
"""
from __future__ import annotations

import importlib.util
import os
import sys
import time
from collections.abc import Mapping
from datetime import timedelta
from types import TracebackType
from typing import Any

from lazyten.execution import interpreted
from lazyten.storage import collectives
from lazyten.support.errors import ArgumentError, DistributedError

LIMIT = 1800.0
"""Seconds that a rank waits for others; PyTorch's default, too."""
WAIT = 0.5
"""Seconds that mpiexec gets to pass on what an error has printed."""
LAUNCHERS = {"PMI_SIZE": "mpiexec", "OMPI_COMM_WORLD_SIZE": "mpiexec", "PMIX_RANK": "mpiexec",
             "SLURM_STEP_NUM_TASKS": "srun", "SLURM_NTASKS": "srun", "WORLD_SIZE": "torchrun"}
"""Variables that a program's launcher sets: how many ranks there are (PMIX_RANK: that there are
some), and what sets it."""


class Job:
    """All ranks of a program. mpi: mpi4py's module, None for a process alone. limit: seconds that
    a rank waits for others. deterministic: whether sums are added up in the order of ranks.
    failed: why no rank can be relied on any more."""

    def __init__(self, mpi: Any, limit: float, deterministic: bool) -> None:
        self.mpi, self.limit, self.deterministic = mpi, limit, deterministic
        self.failed: DistributedError | None = None
        self.world: Any = None if mpi is None else mpi.COMM_WORLD.Dup()
        self.notes: Any = None if mpi is None else mpi.COMM_WORLD.Dup()
        self.rank = 0 if mpi is None else int(mpi.COMM_WORLD.Get_rank())
        self.size = 1 if mpi is None else int(mpi.COMM_WORLD.Get_size())

    def fail(self, error: DistributedError) -> DistributedError:
        """Nothing is done together any more, for this reason."""
        self.failed = self.failed or error
        collectives.give_up()
        return error


def launched(environment: Mapping[str, str]) -> tuple[int, str]:
    """How many ranks a launcher has started, as far as the environment tells (0: some), and which
    launcher; 1 and nothing where there is none."""
    for name, launcher in LAUNCHERS.items():
        text = environment.get(name, "")
        if launcher == "srun" and "SLURM_PROCID" not in environment:
            continue  # a batch script's own shell, or a login node
        if text:
            count = 0 if name == "PMIX_RANK" else int(text) if text.isdigit() else 1
            return count, launcher
    return 1, ""


def joined(limit: float | timedelta | None, deterministic: bool) -> Job:
    """The job of this process. DistributedError where a launcher has started others that cannot be
    joined."""
    seconds = LIMIT if limit is None else \
        limit.total_seconds() if isinstance(limit, timedelta) else float(limit)
    if not seconds > 0:
        raise ArgumentError(f"distributed.init: timeout={limit}; give seconds, more than 0")
    count, launcher = launched(os.environ)
    if count == 1:
        return Job(None, seconds, deterministic)
    if importlib.util.find_spec("mpi4py") is None:
        raise DistributedError(f"distributed.init: {launcher} has started {count or 'several'} "
                               f"processes, and mpi4py is not installed: pip install "
                               f"'lazyten[distributed]'")
    from mpi4py import MPI  # which joins the job
    job = Job(MPI, seconds, deterministic)
    if job.size == 1 and count > 1:
        hint = {"torchrun": "start the program by mpiexec -n N, not by torchrun",
                "srun": "use srun --mpi=pmi2 (MPICH) or --mpi=pmix (Open MPI)"}.get(
            launcher, "use the mpiexec of the MPI that mpi4py is made for")
        raise DistributedError(f"distributed.init: {launcher} has started {count} processes, but "
                               f"MPI knows of this one alone: {hint}")
    if job.size > 1:
        interpreted.is_alone = False
        _end_all_with_one(job)
    return job


def _end_all_with_one(job: Job) -> None:
    """An error that ends one rank ends the job, once it is printed: others would wait for it."""
    before = sys.excepthook

    def hook(kind: type[BaseException], error: BaseException,
             traceback: TracebackType | None) -> None:
        before(kind, error, traceback)
        sys.stdout.flush()
        sys.stderr.flush()
        time.sleep(WAIT)
        job.mpi.COMM_WORLD.Abort(1)
    sys.excepthook = hook
