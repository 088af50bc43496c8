"""Checkpoints of several ranks: read by any number of them, into any kind of model, and whole
whatever is killed."""
from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from ranks import error_of, needs_mpi, printed

pytestmark = needs_mpi
SIZES = [1, 2, 4]


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("checkpoints")
    for size in SIZES:
        assert printed(size, "checkpoints:save_all", str(folder)).count("done") == size
    return folder


@pytest.mark.parametrize("size", SIZES)
def test_any_number_of_ranks_reads_what_any_other_wrote(written: Path, size: int) -> None:
    """Of three kinds of models, each into each: parameters, buffers, states and other data."""
    assert printed(size, "checkpoints:load_all", str(written), SIZES).count("done") == size


def test_each_rank_writes_a_part_and_reads_no_more_than_it_needs(tmp_path: Path) -> None:
    folder = tmp_path / "checkpoint"
    assert printed(4, "checkpoints:own_files", str(folder)).count("done") == 4
    files = sorted(folder.glob("*.safetensors"))
    assert [file.name for file in files] == [f"0-{rank}.safetensors" for rank in range(4)]
    assert len({file.stat().st_size for file in files}) == 1


def test_ranks_that_have_the_same_share_out_the_writing(written: Path) -> None:
    sizes = [file.stat().st_size for file in (written / "ddp-4").glob("*.safetensors")]
    assert len(sizes) == 4 and max(sizes) < 0.5 * sum(sizes)


def test_what_one_rank_finds_wrong_is_an_error_of_all(tmp_path: Path) -> None:
    assert printed(2, "checkpoints:agreed", str(tmp_path / "checkpoint")).count("done") == 2


def _steps(text: str) -> dict[int, str]:
    lines = (line for line in text.splitlines() if line.startswith("[") and line.endswith('"]'))
    return dict(map(json.loads, lines))


@pytest.fixture(scope="module")
def unbroken(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str, int], dict[int, str]]:
    known: dict[tuple[str, int], dict[int, str]] = {}

    def losses(kind: str, size: int) -> dict[int, str]:
        if (kind, size) not in known:
            folder = tmp_path_factory.mktemp("unbroken") / "checkpoint"
            known[kind, size] = _steps(printed(size, "checkpoints:train", str(folder), kind, 8))
        return known[kind, size]
    return losses


@pytest.mark.parametrize(("kind", "size", "place"), [
    ("ddp", 2, "step"), ("zero", 2, "file"), ("shard", 2, "step"), ("shard", 4, "index"),
    ("zero", 2, "before"), ("ddp", 2, "after")])
def test_training_goes_on_from_the_last_checkpoint_after_a_kill(
        tmp_path: Path, unbroken: Callable[[str, int], dict[int, str]], kind: str, size: int,
        place: str) -> None:
    """With the same bits, as sums are added up in the order of ranks."""
    folder, began = tmp_path / "checkpoint", time.monotonic()
    text = error_of(size, "checkpoints:train", str(folder), kind, 8, 5, place)
    assert "BAD TERMINATION" in text and "Killed (signal 9)" in text
    assert time.monotonic() - began < 60
    before = _steps(text)
    assert max(before) == (4 if place == "step" else 5)
    after = _steps(printed(size, "checkpoints:train", str(folder), kind, 8))
    assert min(after) == (6 if place == "after" else 4)
    assert {**before, **after} == unbroken(kind, size)
    assert all(before[number] == after[number] for number in before.keys() & after.keys())
    assert [path.name for path in tmp_path.iterdir()] == ["checkpoint"]


@pytest.mark.parametrize("size", [1, 2])
def test_states_by_name_are_whole_or_in_parts(size: int) -> None:
    assert printed(size, "checkpoints:by_names").count("done") == size
