"""Models whose layers ranks share out learn as one process does; ranks that go wrong are named."""
from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from ranks import error_of, needs_mpi, printed

from lazyten.distributed.pipelining.programs import (
    Compute,
    Pass,
    forwards,
    gpipe,
    interleaved,
    one_forward_one_backward,
    ticks,
    with_passes,
)
from lazyten.support.errors import ArgumentError

Order = Callable[[int, int, int, int], list[Compute]]
NAMED: list[dict[str, Any]] = [
    {"model": model, "schedule": schedule, "jit": jit, "count": count, "batch": 12, "seed": 1,
     "optimizer": "Adam", "frozen": frozen} for model, schedule, jit, count, frozen in (
        ("gpt", "1f1b", True, 4, 0), ("two", "gpipe", False, 3, 1), ("two", "1f1b", True, 4, 1),
        ("mlp", "1f1b", True, 1, 0), ("mlp", "gpipe", True, 6, 1))]
CHUNKED = [{**NAMED[0], "model": model, "schedule": schedule, "jit": jit, "count": count,
            "frozen": frozen, "chunks": chunks} for model, schedule, jit, count, frozen, chunks in (
    ("gpt", "interleaved", True, 4, 0, 2), ("two", "interleaved", False, 3, 1, 3),
    ("two", "bfs", True, 6, 3, 2), ("mlp", "interleaved", True, 12, 0, 1),
    ("mlp", "interleaved", True, 1, 2, 2))]
SPEC = st.fixed_dictionaries({
    "model": st.sampled_from(["mlp", "two"]), "jit": st.booleans(),
    "count": st.sampled_from([1, 2, 3, 4, 6]), "batch": st.just(12),
    "seed": st.integers(0, 99), "optimizer": st.sampled_from(["SGD", "Adam", "RMSprop"]),
    "frozen": st.integers(0, 3)})
KINDS = st.sampled_from([("gpipe", 1), ("1f1b", 1), ("bfs", 2), ("interleaved", 2),
                         ("interleaved", 3)])


@needs_mpi
@pytest.mark.parametrize("size", [1, 2, 4])
def test_stages_learn_as_one_process_does(size: int) -> None:
    assert printed(size, "pipelines:equal", NAMED).count("done") == size


@needs_mpi
@pytest.mark.parametrize("size", [1, 2, 4])
def test_several_stages_a_rank_learn_as_one_process_does(size: int) -> None:
    assert printed(size, "pipelines:equal", CHUNKED).count("done") == size


@needs_mpi
@settings(max_examples=1, suppress_health_check=list(HealthCheck))
@given(found=st.lists(st.tuples(SPEC, KINDS), min_size=8, max_size=8))
def test_random_stages_learn_as_one_process_does(
        found: list[tuple[dict[str, Any], tuple[str, int]]]) -> None:
    specs = [{**spec, "schedule": schedule, "chunks": chunks} for spec, (schedule, chunks) in found]
    for size, some in ((2, specs[:4]), (4, specs[4:])):
        assert printed(size, "pipelines:equal", some).count("done") == size


@needs_mpi
def test_ranks_may_have_the_same_stages_besides() -> None:
    specs = [{**spec, "replicas": 2, "frozen": 0, "count": 3} for spec in
             (*NAMED[1:3], {**CHUNKED[0], "jit": False}, {**CHUNKED[2], "jit": True})]
    assert printed(4, "pipelines:equal", specs).count("done") == 4


@needs_mpi
def test_ranks_with_the_same_stages_may_have_parts_of_parameters() -> None:
    """Whose gradients are shared out once a step."""
    specs = [{**spec, "replicas": 2, "frozen": 0, "count": 3, "model": "mlp", "replica": replica}
             for spec, replica in ((NAMED[1], "unit"), (NAMED[2], "unit"), (NAMED[2], "class"),
                                   ({**CHUNKED[2], "jit": False}, "class"))]
    assert printed(4, "pipelines:equal", specs).count("done") == 4


@needs_mpi
@pytest.mark.parametrize("program", ["memory", "scaled", "refused"])
def test_what_pipelines_promise_holds(program: str) -> None:
    assert printed(2, f"pipelines:{program}").count("done") == 2


@needs_mpi
@pytest.mark.parametrize(("case", "words"), [
    ("shape", ["pipeline stage 0 of 2, micro-batch 0, gives float32[3, 3], but the next stage "
               "awaits float32[6, 3]"]),
    ("module", ["pipeline stage 1 of 2, micro-batch 0, forward of float32[6, 3]: "]),
    ("schedules", ["gets something else from rank", "of micro-batch 0 by stage 1) of float32[6"]),
    ("example", ["pipeline stage 1 of 2: stage 0 gives it float32[6, 3], but input_args says "
                 "float32[2, 4], for one micro-batch"]),
    ("sleep", ["rank 0 has waited 2 s in exchange (forward of micro-batch 1 by stage 0, backward "
               "of micro-batch 0 by stage 1) of float32[6, 3] at pipelines.py:",
               "rank 1 gave no sign"]),
    ("kill", ["BAD TERMINATION", "Killed (signal 9)"])])
def test_what_goes_wrong_is_named_and_ends_the_job(case: str, words: list[str]) -> None:
    began = time.monotonic()
    found = error_of(2, "pipelines:fail", case)
    assert all(part in found for part in words), found
    assert time.monotonic() - began < 40


ORDERS: list[tuple[Order, int]] = [(gpipe, 1), (one_forward_one_backward, 1), (gpipe, 3),
                                   (interleaved, 1), (interleaved, 2), (interleaved, 3)]


@pytest.mark.parametrize("trains", [True, False])
@pytest.mark.parametrize(("order", "chunks"), ORDERS)
def test_no_two_ranks_wait_for_each_other(order: Order, chunks: int, trains: bool) -> None:
    """Even where whoever sends waits until somebody receives it."""
    for ranks in range(1, 7):
        for batches in range(1, 13):
            if order is interleaved and batches % max(1, batches // ranks):
                continue
            orders = [order(rank, ranks, chunks, batches) for rank in range(ranks)]
            if not trains:
                orders = [forwards(own) for own in orders]
            programs = with_passes(orders)
            assert [[x for x in p if isinstance(x, Compute)] for p in programs] == orders
            for own in orders:
                kinds = ("forward", "backward")[:1 + trains]
                assert len(own) == len(set(own)) == len(kinds) * chunks * batches
            _carried_out(programs, ranks * chunks)


def test_rounds_that_do_not_have_as_many_are_refused() -> None:
    with pytest.raises(ArgumentError, match="n_microbatches=7 on 2 ranks makes 3 rounds"):
        interleaved(0, 2, 2, 7)


def _carried_out(programs: list[list[Compute | Pass]], stages: int) -> None:
    """Run programs whose passes happen where both ranks are at them; each has what it computes
    of."""
    at = [0] * len(programs)
    has: list[set[Compute]] = [set() for _ in programs]  # what came, or was computed
    done = False
    while not done:
        done = True
        for rank, program in enumerate(programs):
            step = program[at[rank]] if at[rank] < len(program) else None
            if isinstance(step, Compute):
                edge = step.stage == (0 if step.kind == "forward" else stages - 1)
                assert edge or step.source in has[rank]
                assert step.kind == "forward" or Compute(
                    "forward", step.batch, step.stage) in has[rank]
                has[rank].add(step)
            elif step is not None:
                peer = step.peer
                if peer != rank:
                    other = programs[peer][at[peer]] if at[peer] < len(programs[peer]) else None
                    if other != Pass(rank, step.received, step.sent):
                        continue
                    at[peer] += 1
                for what, a, b in ((step.sent, rank, peer), (step.received, peer, rank)):
                    if what is not None:
                        assert what in has[a]
                        has[b].add(what)
            else:
                continue
            at[rank] += 1
            done = False
    assert at == [len(p) for p in programs], "some wait for each other"


@pytest.mark.parametrize("stages", range(1, 6))
def test_a_stage_of_1f1b_keeps_as_many_micro_batches_as_stages_follow(stages: int) -> None:
    for stage in range(stages):
        assert _most_kept(one_forward_one_backward(stage, stages, 1, 20)) == stages - stage


@pytest.mark.parametrize("chunks", [2, 3])
def test_interleaved_ranks_keep_no_more_than_what_fills_the_pipeline(chunks: int) -> None:
    """However many micro-batches there are: (Narayanan et al., 2021), section 2.2.2."""
    for ranks in range(1, 5):
        for rank in range(ranks):
            most = _most_kept(interleaved(rank, ranks, chunks, 5 * ranks))
            assert most == (chunks - 1) * ranks + 2 * (ranks - rank - 1) + 1


def _most_kept(order: list[Compute]) -> int:
    kept = most = 0
    for what in order:
        kept += 1 if what.kind == "forward" else -1
        most = max(most, kept)
    assert kept == 0
    return most


@pytest.mark.parametrize("chunks", [2, 3])
def test_interleaved_ranks_wait_less(chunks: int) -> None:
    """Where all takes equally long a step is as long as it takes to compute, and ranks - 1 times
    one stage forward and one backward: 1F1B's wait by the number of stages a rank."""
    for ranks in (2, 3, 4):
        batches = 4 * ranks
        orders = [interleaved(rank, ranks, chunks, batches) for rank in range(ranks)]
        assert 1 + max(ticks(orders).values()) == 2 * chunks * batches + 2 * (ranks - 1)
