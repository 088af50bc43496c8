"""One process alone: rank 0 of 1, without MPI; and what the environment of launchers means."""
from __future__ import annotations

import subprocess
import sys

import pytest
from simulated_ranks import Simulated

import lazyten as lt
from lazyten.distributed.job import as_torchrun_says, launched

ALONE = """
import sys
import lazyten as lt
assert "lazyten.distributed" not in sys.modules
sys.modules["mpi4py"] = None  # as if it were not installed
from lazyten import distributed as dist
from lazyten.distributed import functional as F
dist.init()
assert (dist.rank(), dist.size()) == (0, 1) and dist.is_initialized()
x = lt.tensor([1.0, 2.0], requires_grad=True)
for op in ("sum", "mean", "max", "min"):
    assert F.all_reduce(x, op).tolist() == [1.0, 2.0]
assert F.all_gather(x).tolist() == [[1.0, 2.0]] == F.all_to_all(x[None]).tolist()
assert F.reduce_scatter(x[None]).tolist() == [1.0, 2.0] == F.broadcast(x).tolist()
assert F.exchange(x, None, None).tolist() == [0.0, 0.0]
assert F.halo(x, 0, 2, 1).tolist() == [0.0, 0.0, 1.0, 2.0, 0.0]
(F.all_reduce(x) * 3).sum().backward()
assert x.grad.tolist() == [3.0, 3.0]
dist.all_reduce(x.detach())
net = lt.nn.parallel.DistributedDataParallel(lt.nn.Linear(2, 1))
net(lt.ones(1, 2)).sum().backward()
dist.barrier()
dist.destroy()
"""


def test_a_group_names_its_ranks() -> None:
    with pytest.raises(lt.DistributedError, match="has joined no others"):
        lt.distributed.get_process_group_ranks()
    assert lt.distributed.ReduceOp.RedOpType is str


def test_one_process_needs_no_mpi_and_is_a_job_of_its_own() -> None:
    subprocess.run([sys.executable, "-c", ALONE], check=True)


@pytest.mark.parametrize(("environment", "found"), [
    ({}, (1, "")), ({"PMI_SIZE": "4"}, (4, "mpiexec")), ({"PMI_SIZE": "1"}, (1, "mpiexec")),
    ({"OMPI_COMM_WORLD_SIZE": "2"}, (2, "mpiexec")), ({"PMIX_RANK": "0"}, (0, "mpiexec")),
    ({"SLURM_NTASKS": "8"}, (1, "")), ({"SLURM_NTASKS": "8", "SLURM_PROCID": "3"}, (8, "srun")),
    ({"WORLD_SIZE": "2", "RANK": "0"}, (2, "torchrun"))])
def test_launchers_are_known_by_what_they_set(environment: dict[str, str],
                                              found: tuple[int, str]) -> None:
    assert launched(environment) == found


TORCHRUN = {"RANK": "1", "WORLD_SIZE": "4", "LOCAL_RANK": "0", "LOCAL_WORLD_SIZE": "2",
            "MASTER_ADDR": "localhost", "MASTER_PORT": "29500"}


@pytest.mark.parametrize(("environment", "found"), [
    ({}, {}), ({"WORLD_SIZE": "4", "RANK": "1"}, {}),
    ({"PMI_SIZE": "4", "PMI_RANK": "1", "MPI_LOCALRANKID": "0", "MPI_LOCALNRANKS": "2"}, TORCHRUN),
    ({"OMPI_COMM_WORLD_SIZE": "4", "OMPI_COMM_WORLD_RANK": "1", "OMPI_COMM_WORLD_LOCAL_RANK": "0",
      "OMPI_COMM_WORLD_LOCAL_SIZE": "2", "PMIX_RANK": "1"}, TORCHRUN),
    ({"SLURM_NTASKS": "4", "SLURM_PROCID": "1", "SLURM_LOCALID": "0",
      "SLURM_NTASKS_PER_NODE": "2"}, TORCHRUN),
    ({"PMI_SIZE": "4", "PMI_RANK": "1", "MASTER_PORT": "1"},
     {"RANK": "1", "WORLD_SIZE": "4", "MASTER_ADDR": "localhost"})])
def test_programs_find_what_torchrun_would_say(environment: dict[str, str],
                                               found: dict[str, str]) -> None:
    assert as_torchrun_says(environment) == found


def test_programs_that_spawn_processes_become_those_that_mpiexec_has_started(
        monkeypatch: pytest.MonkeyPatch) -> None:
    called: list[tuple[int, str]] = []
    monkeypatch.setenv("PMI_SIZE", "4")
    monkeypatch.setenv("PMI_RANK", "3")
    lt.multiprocessing.spawn(lambda rank, word: called.append((rank, word)), ("x",), nprocs=4)
    lt.multiprocessing.spawn(lambda rank, word: called.append((rank, word)), ("x",))
    assert called == [(3, "x"), (0, "x")]
    with pytest.raises(lt.NotDefinedError, match="mpiexec -n 2"):
        lt.multiprocessing.spawn(print, nprocs=2)


def test_ranks_that_cannot_be_joined_are_an_error_that_says_what_to_do() -> None:
    program = ("import sys; sys.modules['mpi4py'] = None; import os; os.environ['PMI_SIZE'] = '2'; "
               "from lazyten import distributed as dist; dist.init()")
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True,
                          check=False)
    assert "pip install 'lazyten[distributed]'" in done.stderr


def test_what_is_asked_before_init_says_so() -> None:
    for call in (lt.distributed.rank, lt.distributed.size, lt.distributed.barrier,
                 lambda: lt.distributed.functional.all_reduce(lt.ones(1))):
        with pytest.raises(lt.DistributedError, match="init"):
            call()


@pytest.mark.parametrize(("given", "words"), [
    ({"backend": "ncll"}, "no backend 'ncll'"), ({"timeout": -1}, "more than 0")])
def test_what_cannot_be_joined_that_way_is_refused(given: dict[str, object], words: str) -> None:
    with pytest.raises(lt.ArgumentError, match=words):
        lt.distributed.init_process_group(**given)  # type: ignore[arg-type]
    assert not lt.distributed.is_initialized()


@pytest.mark.parametrize(("given", "words"), [
    ({"world_size": 2, "rank": 0}, "mpiexec"), ({"backend": "gloo", "rank": 1}, "MPI says 0")])
def test_ranks_that_mpi_does_not_know_are_an_error(given: dict[str, object], words: str) -> None:
    with pytest.raises(lt.ArgumentError, match=words):
        lt.distributed.init_process_group(**given)  # type: ignore[arg-type]
    lt.distributed.destroy_process_group()


@pytest.mark.parametrize("given", [
    {"backend": "gloo", "rank": 0, "world_size": 1}, {"backend": "cpu:gloo,cuda:nccl"},
    {"backend": "nccl", "init_method": "tcp://127.0.0.1:23456", "rank": 0, "world_size": 1}])
def test_programs_that_name_another_library_are_joined_by_mpi(
        given: dict[str, object]) -> None:
    lt.distributed.init_process_group(**given)  # type: ignore[arg-type]
    try:
        assert lt.distributed.get_rank() == 0 and lt.distributed.get_world_size() == 1
    finally:
        lt.distributed.destroy_process_group()


def test_what_is_no_tensor_is_named() -> None:
    with pytest.raises(lt.DTypeError, match="all_reduce"):
        lt.distributed.functional.all_reduce([1.0])  # type: ignore[arg-type]
    with pytest.raises(lt.DTypeError, match="broadcast"):
        lt.distributed.broadcast([1.0], 0)  # type: ignore[arg-type]
    with pytest.raises(lt.DTypeError, match="bxor of float32; integers and bool have bits"):
        lt.distributed.functional.all_reduce(lt.ones(2), "bxor", Simulated(2))
    with pytest.raises(lt.ArgumentError, match=r"Backend\(3\): give a name"):
        lt.distributed.Backend(3)  # type: ignore[arg-type]
