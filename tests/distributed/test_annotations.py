"""Programs whose values ranks share out by `lt.shard`: losses are those of one rank."""
from __future__ import annotations

from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from ranks import error_of, needs_mpi, printed

LINES = [{"batch": "rows", "model": "columns"}, {"batch": "columns", "model": "rows"},
         {"batch": "rows"}, {"model": "rows"}, {"sequence": "rows", "model": "columns"},
         {"batch": "rows", "sequence": "columns"}]
NAMED: list[dict[str, Any]] = [
    {"model": model, "jit": jit, "lines": lines, "columns": 1 + jit, "seed": 1, "dtype": "float64"}
    for model in ("Perceptron", "Convolutions", "Attention", "Recurrence")
    for jit, lines in ((False, LINES[2]), (True, LINES[0]))]
SPEC = st.fixed_dictionaries({
    "model": st.sampled_from(["Perceptron", "Convolutions", "Attention", "Recurrence"]),
    "jit": st.booleans(), "lines": st.sampled_from(LINES), "columns": st.sampled_from([1, 2]),
    "seed": st.integers(0, 99), "dtype": st.sampled_from(["float64", "float32"])})


@needs_mpi
@pytest.mark.parametrize("size", [2, 4])
def test_models_learn_as_on_one_rank(size: int) -> None:
    assert printed(size, "sharding:equal", NAMED).count("done") == size


@needs_mpi
@settings(max_examples=1, suppress_health_check=list(HealthCheck))
@given(specs=st.lists(SPEC, min_size=4, max_size=4))
def test_random_annotations_learn_as_on_one_rank(specs: list[dict[str, Any]]) -> None:
    for size, some in ((2, specs[:2]), (4, specs[2:])):
        assert printed(size, "sharding:equal", some).count("done") == size


@needs_mpi
@pytest.mark.parametrize("size", [1, 2])
def test_annotations_keep_their_promises(size: int) -> None:
    assert printed(size, "sharding:promises").count("done") == size


@needs_mpi
def test_a_rank_that_looks_alone_is_an_error_and_no_hang() -> None:
    words = error_of(2, "sharding:looking")
    assert "ranks do different collectives" in words and "all ranks look at alike" in words
