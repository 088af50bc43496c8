"""Ranks that do something else, too little, or nothing any more: an error within the time limit."""
from __future__ import annotations

import time
from pathlib import Path

import pytest
from ranks import error_of, left_over, needs_mpi

pytestmark = needs_mpi


@pytest.mark.parametrize("where", ["eagerly", "jit"])
@pytest.mark.parametrize("case", ["kind", "reduction", "root", "shape", "type", "order"])
def test_different_collectives_are_named_with_their_lines(case: str, where: str) -> None:
    found = error_of(2, "failures:fail", case, where)
    assert "DistributedError: ranks do different collectives" in found
    assert "rank 0: " in found and "rank 1: " in found and "at failures.py:" in found


def test_a_pair_that_does_not_fit_is_named_by_who_receives() -> None:
    found = error_of(2, "failures:fail", "pair")
    assert "gets something else from rank" in found and "float32[2] at failures.py:" in found


@pytest.mark.parametrize("where", ["eagerly", "jit"])
def test_rows_that_are_not_awaited_are_named(where: str) -> None:
    found = error_of(2, "failures:fail", "rows", where)
    assert "all_to_all_parts of float32[..] at failures.py:" in found
    assert "which awaits" in found and "what one sends must be" in found


def test_lists_of_different_shapes_are_named_with_their_lines() -> None:
    found = error_of(2, "failures:fail", "list")
    assert "ranks do different collectives" in found
    assert "shapes [(1,), (3,)]" in found and "shapes [(1,), (2,)]" in found


@pytest.mark.parametrize("case", ["sleep", "exit"])
def test_a_rank_that_does_not_come_is_named_at_the_end_of_the_limit(case: str) -> None:
    began = time.monotonic()
    found = error_of(2, "failures:fail", case)
    assert "rank 0 has waited 2 s in all_reduce sum of float32[3] at failures.py:" in found
    assert "rank 1 gave no sign" in found
    assert time.monotonic() - began < 40


def test_a_barrier_with_a_limit_names_who_is_missing() -> None:
    found = error_of(2, "failures:fail", "monitored")
    assert "waited 2 s in monitored_barrier of ranks [0, 1] at failures.py:" in found
    assert "rank 1 gave no sign" in found


def test_objects_and_tensors_are_told_apart() -> None:
    found = error_of(2, "failures:fail", "object")
    assert "all_gather_object of ranks [0, 1]" in found
    assert "all_reduce sum of float32[3] at failures.py:" in found


@pytest.mark.parametrize("case", ["part", "hidden"])
@pytest.mark.parametrize("where", ["eagerly", "jit"])
def test_ranks_that_look_at_other_values_of_a_dtensor_are_named(case: str, where: str) -> None:
    found = error_of(2, "failures:fail", case, where)
    assert "all ranks look at alike" in found and "failures.py:" in found


def test_of_several_ranks_the_one_that_is_gone_is_named() -> None:
    assert "rank 1 gave no sign" in error_of(4, "failures:fail", "sleep")


@pytest.mark.parametrize(("case", "words"), [
    ("receive", "exchange of float32[3] at failures.py:"),
    ("barrier", "barrier of ranks [0, 1] at failures.py:")])
def test_a_rank_that_waits_for_something_else_says_where(case: str, words: str) -> None:
    found = error_of(2, "failures:fail", case)
    assert words in found and "all_reduce sum of float32[3] at failures.py:" in found


@pytest.mark.skipif(not Path("/proc/self/environ").exists(), reason="there is no /proc to look in")
@pytest.mark.parametrize("case", ["sleep", "kill", "raise", "type", "rows"])
def test_no_process_is_left_when_a_job_has_failed(case: str) -> None:
    error_of(2, "failures:fail", case)
    deadline = time.monotonic() + 20
    while left_over() and time.monotonic() < deadline:
        time.sleep(0.1)
    assert left_over() == []


def test_an_error_of_one_rank_ends_the_job_and_is_printed() -> None:
    began = time.monotonic()
    assert "ValueError: my own mistake" in error_of(2, "failures:fail", "raise")
    assert time.monotonic() - began < 40


def test_a_killed_rank_ends_the_job() -> None:
    found = error_of(2, "failures:fail", "kill")
    assert "BAD TERMINATION" in found and "Killed (signal 9)" in found
