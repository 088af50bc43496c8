"""DTensors: operations, gradients and training are those of tensors that each rank has whole."""
from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from ranks import needs_mpi, printed

pytestmark = needs_mpi


@settings(max_examples=1, suppress_health_check=list(HealthCheck))
@given(seeds=st.lists(st.integers(0, 9999), min_size=12, max_size=12))
@example(seeds=[12])  # some ranks have nothing of one value, and all of another
def test_random_programs_are_those_of_one_rank(seeds: list[int]) -> None:
    for size in (2, 4):
        assert printed(size, "dtensors:random_programs", seeds).count("done") == size


@pytest.mark.parametrize("size", [1, 2])
def test_checkpoints_know_their_parts(size: int, tmp_path: Path) -> None:
    folder = str(tmp_path / "saved")
    assert printed(size, "dtensors:checkpoints", folder).count("done") == size


@pytest.mark.parametrize("size", [1, 2, 4])
@pytest.mark.parametrize("program", ["promises", "models"])
def test_dtensors_keep_their_promises(size: int, program: str) -> None:
    assert printed(size, f"dtensors:{program}").count("done") == size
