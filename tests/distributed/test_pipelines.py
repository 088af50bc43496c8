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
    one_forward_one_backward,
    with_passes,
)

Order = Callable[[int, int, int], list[Compute]]
NAMED: list[dict[str, Any]] = [
    {"model": model, "schedule": schedule, "jit": jit, "count": count, "batch": 12, "seed": 1,
     "optimizer": "Adam", "frozen": frozen} for model, schedule, jit, count, frozen in (
        ("gpt", "1f1b", True, 4, 0), ("two", "gpipe", False, 3, 1), ("two", "1f1b", True, 4, 1),
        ("mlp", "1f1b", True, 1, 0), ("mlp", "gpipe", True, 6, 1))]
SPEC = st.fixed_dictionaries({
    "model": st.sampled_from(["mlp", "two"]), "schedule": st.sampled_from(["gpipe", "1f1b"]),
    "jit": st.booleans(), "count": st.sampled_from([1, 2, 3, 4, 6]), "batch": st.just(12),
    "seed": st.integers(0, 99), "optimizer": st.sampled_from(["SGD", "Adam", "RMSprop"]),
    "frozen": st.integers(0, 1)})


@needs_mpi
@pytest.mark.parametrize("size", [1, 2, 4])
def test_stages_learn_as_one_process_does(size: int) -> None:
    assert printed(size, "pipelines:equal", NAMED).count("done") == size


@needs_mpi
@settings(max_examples=1, suppress_health_check=list(HealthCheck))
@given(specs=st.lists(SPEC, min_size=6, max_size=6))
def test_random_stages_learn_as_one_process_does(specs: list[dict[str, Any]]) -> None:
    for size in (2, 4):
        assert printed(size, "pipelines:equal", specs).count("done") == size


@needs_mpi
def test_ranks_may_have_the_same_stages_besides() -> None:
    specs = [{**spec, "replicas": 2, "frozen": 0, "count": 3} for spec in NAMED[1:3]]
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


@pytest.mark.parametrize("order", [forwards, gpipe, one_forward_one_backward])
def test_no_two_stages_wait_for_each_other(order: Order) -> None:
    """Even where whoever sends waits until somebody receives it."""
    for stages in range(1, 7):
        for batches in range(1, 10):
            orders = [order(s, stages, batches) for s in range(stages)]
            programs = [with_passes(orders, s) for s in range(stages)]
            assert [[x for x in p if isinstance(x, Compute)] for p in programs] == orders
            _carried_out(programs)


def _carried_out(programs: list[list[Compute | Pass]]) -> None:
    """Run programs whose exchanges happen where both are at them; each has what it computes of."""
    stages, at = len(programs), [0] * len(programs)
    has: list[set[tuple[str, int]]] = [set() for _ in programs]  # what came, or was computed
    done = False
    while not done:
        done = True
        for s, program in enumerate(programs):
            step = program[at[s]] if at[s] < len(program) else None
            if isinstance(step, Compute):
                edge = s == 0 if step.kind == "forward" else s == stages - 1
                assert edge or (f"{step.kind} came", step.batch) in has[s]
                assert step.kind == "forward" or ("forward", step.batch) in has[s]
                has[s].add((step.kind, step.batch))
            elif step is not None:
                peer = s + step.peer
                other = programs[peer][at[peer]] if at[peer] < len(programs[peer]) else None
                if other != Pass(-step.peer, step.received, step.sent):
                    continue
                for what, a, b in ((step.sent, s, peer), (step.received, peer, s)):
                    if what is not None:
                        assert (what.kind, what.batch) in has[a]
                        has[b].add((f"{what.kind} came", what.batch))
                at[peer] += 1
            else:
                continue
            at[s] += 1
            done = False
    assert at == [len(p) for p in programs], "some wait for each other"


@pytest.mark.parametrize("stages", range(1, 6))
def test_a_stage_of_1f1b_keeps_as_many_micro_batches_as_stages_follow(stages: int) -> None:
    for stage in range(stages):
        kept = most = 0
        for what in one_forward_one_backward(stage, stages, 20):
            kept += 1 if what.kind == "forward" else -1
            most = max(most, kept)
        assert kept == 0 and most == stages - stage
