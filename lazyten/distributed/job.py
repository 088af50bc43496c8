"""The job that this process is a rank of: found in the environment of mpiexec or srun, or alone.

mpi4py is imported where there is something to join, so that one process needs no MPI.
"""
from __future__ import annotations

import importlib.util
import os
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta
from types import TracebackType
from typing import Any

from lazyten.execution import interpreted
from lazyten.ir.collective import Joined
from lazyten.storage import collectives
from lazyten.support.errors import ArgumentError, DistributedError
from lazyten.support.variables import EnvVar

NCCL = EnvVar("LAZYTEN_NCCL")
"""0: no device carries out collectives itself. 1: those that could must, groups of one rank too."""
LIMIT = 1800.0
"""Seconds that a rank waits for others; PyTorch's default, too."""
WAIT = 0.5
"""Seconds that mpiexec gets to pass on what an error has printed."""
LAUNCHERS = {"PMI_SIZE": "mpiexec", "OMPI_COMM_WORLD_SIZE": "mpiexec", "PMIX_RANK": "mpiexec",
             "SLURM_STEP_NUM_TASKS": "srun", "SLURM_NTASKS": "srun", "WORLD_SIZE": "torchrun"}
"""Variables that a program's launcher sets: how many ranks there are (PMIX_RANK: that there are
some), and what sets it."""
_RANKS = ("PMI_RANK", "OMPI_COMM_WORLD_RANK", "PMIX_RANK", "SLURM_PROCID")
_OF_THIS_MACHINE = (("LOCAL_RANK", "MPI_LOCALRANKID", "OMPI_COMM_WORLD_LOCAL_RANK",
                     "SLURM_LOCALID"),
                    ("MPI_LOCALNRANKS", "OMPI_COMM_WORLD_LOCAL_SIZE", "SLURM_NTASKS_PER_NODE"))
"""Variables that say this process's number in the job; and among those of its machine, and how many
these are."""


class Job:
    """All ranks of a program. mpi: mpi4py's module, None for a process alone. limit: seconds that
    a rank waits for others. deterministic: whether sums are added up in the order of ranks.
    devices: what LAZYTEN_NCCL says. joined: devices that carry out collectives themselves. failed:
    why no rank can be relied on any more, or that this process has left the job."""

    def __init__(self, mpi: Any, limit: float, deterministic: bool) -> None:
        self.mpi, self.limit, self.deterministic = mpi, limit, deterministic
        self.devices, self.joined = NCCL.text, list[Joined]()
        self.failed: DistributedError | None = None
        self._communicators: list[Any] = []
        self.world: Any = None if mpi is None else self.held(mpi.COMM_WORLD.Dup())
        self.notes: Any = None if mpi is None else self.held(mpi.COMM_WORLD.Dup())
        self.rank = 0 if mpi is None else int(mpi.COMM_WORLD.Get_rank())
        self.size = 1 if mpi is None else int(mpi.COMM_WORLD.Get_size())

    def held(self, communicator: Any) -> Any:
        """A communicator that was made for this job, which is freed when it is left: MPI has some
        two thousand."""
        self._communicators.append(communicator)
        return communicator

    def leave(self) -> None:
        """Give back what MPI and devices have for this job. All ranks are through with it, and do
        the same; what holds one of its groups gets an error from then on."""
        self.part(lambda device: device.leave())
        self.failed = DistributedError(
            "distributed: this group was made before destroy(), which its ranks have called since; "
            "make it, and what uses it, anew after init()")
        held, self._communicators = self._communicators, []
        for communicator in held:
            if communicator != self.mpi.COMM_NULL:
                communicator.Free()

    def fail(self, error: DistributedError) -> DistributedError:
        """Nothing is done together any more, for this reason."""
        self.failed = self.failed or error
        collectives.give_up()
        self.part(lambda device: device.abort())
        return error

    def part(self, how: Callable[[Joined], None]) -> None:
        """The devices are no longer joined."""
        joined, self.joined = self.joined, []
        for device in joined:
            how(device)


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
    given = LIMIT if limit is None else seconds(limit, "distributed.init")
    if NCCL.text not in ("", "0", "1"):
        raise ArgumentError(f"LAZYTEN_NCCL={NCCL.text!r}: it is 0, 1 or not set")
    count, launcher = launched(os.environ)
    if count == 1 and NCCL.text != "1":
        return Job(None, given, deterministic)
    if importlib.util.find_spec("mpi4py") is None:
        why = f"{launcher} has started {count or 'several'} processes" if launcher else \
            "LAZYTEN_NCCL=1 needs MPI"
        raise DistributedError(f"distributed.init: {why}, and mpi4py is not installed: pip install "
                               f"'lazyten[distributed]'")
    from mpi4py import MPI  # which joins the job
    job = Job(MPI, given, deterministic)
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


def seconds(limit: float | timedelta, operation: str) -> float:
    """A time limit as a number of seconds. ArgumentError unless it is more than 0."""
    found = limit.total_seconds() if isinstance(limit, timedelta) else float(limit)
    if not found > 0:
        raise ArgumentError(f"{operation}: timeout={limit}; give seconds, more than 0")
    return found


def local_rank(environment: Mapping[str, str]) -> int | None:
    """This process's number among those of the job on its machine, as far as the environment
    tells."""
    return _number(environment, _OF_THIS_MACHINE[0])


def as_torchrun_says(environment: Mapping[str, str]) -> dict[str, str]:
    """What torchrun puts into the environment, where mpiexec or srun has started this process, for
    programs that read their rank there; nothing where it is there, or where nothing says it."""
    count, launcher = launched(environment)
    found = {name: _number(environment, names) for name, names in zip(
        ("RANK", "LOCAL_RANK", "LOCAL_WORLD_SIZE"), (_RANKS, *_OF_THIS_MACHINE), strict=True)}
    if launcher not in ("mpiexec", "srun") or found["RANK"] is None:
        return {}
    size = count or _number(environment, ("OMPI_COMM_WORLD_SIZE", "SLURM_NTASKS")) or 1
    values = {"WORLD_SIZE": size, **found, "MASTER_ADDR": "localhost", "MASTER_PORT": 29500}
    return {name: str(value) for name, value in values.items()
            if value is not None and name not in environment}


def _number(environment: Mapping[str, str], names: Sequence[str]) -> int | None:
    return next((int(environment[name]) for name in names if environment.get(name, "").isdigit()),
                None)


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
