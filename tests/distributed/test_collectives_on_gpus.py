"""Collectives that GPUs carry out themselves, by NCCL: on a driver and an NCCL made for tests."""
from __future__ import annotations

import cuda_on_cpu
import pytest
from ranks import error_of, finished, needs_mpi, printed

pytestmark = [needs_mpi, pytest.mark.skipif(cuda_on_cpu.missing() is not None,
                                            reason=str(cuda_on_cpu.missing()))]


@pytest.mark.parametrize("program", ["values", "parts", "order", "gradients", "mixed",
                                     "deterministic"])
def test_what_nccl_carries_out_is_right(program: str) -> None:
    """Beside NumPy; in order with kernels; where some ranks' values are elsewhere."""
    assert printed(2, f"on_gpus:{program}").count("done") == 2


def test_rows_of_three_ranks_go_to_each() -> None:
    assert printed(3, "on_gpus:parts").count("done") == 3


def test_one_rank_is_joined_where_that_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LAZYTEN_NCCL", "1")
    done = finished(1, "on_gpus:alone")
    assert done.stdout.count("done") == 1, done.stderr


@pytest.mark.parametrize(("case", "words"), [
    ("shared", "go by the host's memory and MPI: ranks share a GPU"),
    ("missing", "go by the host's memory and MPI: rank 1 says: nccl4py is not installed"),
    ("off", "")])
def test_where_gpus_cannot_be_joined_the_host_does_it(case: str, words: str) -> None:
    done = finished(2, "on_gpus:by_the_host", case)
    assert done.stdout.count("done") == 2, done.stderr
    assert done.stdout.count(words) >= 2 if words else "distributed:" not in done.stdout


def test_who_requires_nccl_is_told_why_it_is_not_there() -> None:
    found = error_of(2, "on_gpus:by_the_host", "required")
    assert "on_gpus.py:" in found and "LAZYTEN_NCCL=1, but ranks share a GPU" in found


@pytest.mark.parametrize(("case", "words"), [
    ("init", "NCCL says comm_init_rank: NCCL_ERROR_SYSTEM_ERROR (the last error)"),
    ("call", "NCCL says all_reduce: NCCL_ERROR_UNHANDLED_CUDA_ERROR (the last error)"),
    ("asynchronous", "NCCL says error 6 of the stand-in"),
    ("stuck", "has waited 3 s in all_reduce sum of float32[2] at on_gpus.py:"),
    ("mismatch", "ranks do different collectives: rank 0: all_reduce"),
    ("root", "ranks do different collectives: rank 0: broadcast")])
def test_what_goes_wrong_is_an_error_with_the_line(case: str, words: str) -> None:
    found = error_of(2, "on_gpus:fail", case)
    assert "DistributedError" in found and words in found and "on_gpus.py:" in found
    if case in ("call", "asynchronous"):
        assert "rank 1 called ['comm_abort']" in found
