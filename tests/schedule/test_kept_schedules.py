"""Schedules on disk: a second process schedules nothing, and gives the same numbers."""
from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

import lazyten as lt
from lazyten import nn
from lazyten.execution import frame_runs
from lazyten.execution.plans import making, varying
from lazyten.runtimes.code_cache import CodeCache
from lazyten.schedule import kept_schedules
from lazyten.schedule.schedule import Schedule
from lazyten.storage.device import executor
from lazyten.support.disk_cache import DiskCache, pack, unpack


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder, where the device cpu keeps schedules."""
    use_folder(tmp_path / "cache", monkeypatch)
    return tmp_path / "cache"


def use_folder(folder: Path, monkeypatch: pytest.MonkeyPatch, context: str = "version 1") -> None:
    monkeypatch.setattr(executor("cpu"), "kept", CodeCache(context, DiskCache(folder)))


@contextmanager
def counted(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Schedule]]:
    """What is scheduled in this block, which begins as a new process does: with no plans."""
    made: list[Schedule] = []
    original = varying.scheduled

    def scheduled(*given: object) -> Schedule:
        made.append(original(*given))  # type: ignore[arg-type]
        return made[-1]
    making._plans.clear()
    frame_runs.forget()
    with monkeypatch.context() as patch:
        patch.setattr(varying, "scheduled", scheduled)
        yield made


def train(jitted: bool, width: int = 6) -> list[float]:
    """Two steps of a small net; its losses and weights."""
    lt.manual_seed(0)
    model = nn.Sequential(nn.Conv2d(1, 3, 3), nn.BatchNorm2d(3), nn.ReLU(), nn.Flatten(),
                          nn.Linear(3 * 4 * (width - 2), 5)).to("cpu")
    optimizer = lt.optim.Adam(model.parameters(), lr=0.1)
    x, y = lt.rand(4, 1, 6, width, device="cpu"), lt.tensor([0, 1, 2, 3], device="cpu")

    def step() -> lt.Tensor:
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        return loss.detach()
    run = lt.jit(step) if jitted else step
    losses = [run().item() for _ in range(2)]
    return [*losses, *(n for p in model.parameters() for n in p.flatten().tolist())]


def entries(folder: Path) -> list[Path]:
    return sorted(folder.glob("*.entry"))


# ---- what is found -------------------------------------------------------------------------------

@pytest.mark.few(1)
@pytest.mark.parametrize("jitted", [False, True], ids=["eager", "jitted"])
def test_a_second_process_schedules_nothing_large(
        folder: Path, monkeypatch: pytest.MonkeyPatch, jitted: bool) -> None:
    with counted(monkeypatch) as made:
        first = train(jitted)
    assert len(entries(folder)) >= 1
    large = [m for m in made if len(m.steps) > 8]
    assert large
    with counted(monkeypatch) as again:
        second = train(jitted)
    assert second == first
    assert len(again) == len(made) - len(entries(folder))
    assert not [m for m in again if len(m.steps) > 8]


@pytest.mark.slow
def test_what_is_found_runs_kernels_of_the_same_text(
        folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    texts = []
    for _ in "12":
        with counted(monkeypatch):
            train(jitted=False)
            plans = making._plans.values()
            texts.append([[p.source for p in plan.programs] for plan in plans])
    assert texts[0] == texts[1]


@pytest.mark.slow
def test_other_shapes_have_other_entries(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for width in (6, 7):
        before = entries(folder)
        with counted(monkeypatch):
            train(jitted=True, width=width)
        assert len(entries(folder)) > len(before)


def test_other_types_have_other_entries(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for number, dtype in enumerate((lt.float32, lt.float64, lt.int32), 1):
        with counted(monkeypatch):
            x = lt.tensor([1, 2, 3], dtype=dtype, device="cpu").realize()
            for n in range(80):
                x = x * 2 - n
            x.realize()
        assert len(entries(folder)) == number


def test_few_nodes_are_worth_no_file(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with counted(monkeypatch) as made:
        assert (lt.arange(5, device="cpu") * 2 + 1).sum().item() == 25
    assert made and not entries(folder)


@pytest.mark.slow
def test_a_profile_names_the_same_lines(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lines = []
    for _ in "12":
        with counted(monkeypatch), lt.profile() as found:
            train(jitted=False)
        lines.append({(line.where, *sorted(line.kernels)) for line in found.lines})
    assert lines[0] == lines[1] and len(lines[0]) > 2


# ---- what is not trusted -------------------------------------------------------------------------

def damaged(data: bytes, how: str) -> bytes:
    parts = unpack(data)
    assert parts is not None
    return {"empty": b"", "truncated": data[:-9], "flipped": data[:-9] + b"?" + data[-8:],
            "another's": b"\x7fELF" + bytes(400), "no schedule": pack([parts[0], b"{}"]),
            "more parts": pack([*parts, b""]), "no key": pack([b"", parts[1]])}[how]


@pytest.mark.few(1)
@pytest.mark.parametrize("how", ["empty", "truncated", "flipped", "another's", "no schedule",
                                 "more parts", "no key"])
def test_a_damaged_entry_is_scheduled_again_and_replaced(
        folder: Path, monkeypatch: pytest.MonkeyPatch, how: str) -> None:
    with counted(monkeypatch) as made:
        first = train(jitted=False)
    good = {path: path.read_bytes() for path in entries(folder)}
    for path, data in good.items():
        path.write_bytes(damaged(data, how))
    with counted(monkeypatch) as again:
        assert train(jitted=False) == first
    assert len(again) == len(made)
    assert {path: path.read_bytes() for path in entries(folder)} == good


@pytest.mark.slow
def test_the_schedule_of_another_graph_is_not_taken(
        folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with counted(monkeypatch):
        first = train(jitted=True)
    other = folder.parent / "other"
    use_folder(other, monkeypatch)
    with counted(monkeypatch):
        train(jitted=True, width=7)
    wrong = unpack(entries(other)[0].read_bytes())
    assert wrong is not None
    for path in entries(folder):
        parts = unpack(path.read_bytes())
        assert parts is not None
        path.write_bytes(pack([parts[0], wrong[1]]))
    use_folder(folder, monkeypatch)
    with counted(monkeypatch) as again:
        assert train(jitted=True) == first
    assert [m for m in again if len(m.steps) > 8]


def test_a_disk_that_takes_nothing_costs_a_schedule(
        folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder.write_text("not a folder")
    found = []
    for _ in "12":
        with counted(monkeypatch) as made:
            found.append(train(jitted=False))
        assert made
    assert found[0] == found[1]


# ---- what the key says ---------------------------------------------------------------------------

@pytest.mark.slow
def test_another_version_or_device_has_other_entries(
        folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with counted(monkeypatch) as made:
        train(jitted=False)
    use_folder(folder, monkeypatch, "version 2")
    with counted(monkeypatch) as again:
        train(jitted=False)
    assert len(again) == len(made)


@pytest.mark.few(1)
@pytest.mark.parametrize(("says", "value"), [("block_bytes", 1 << 10), ("has_offsets", False),
                                             ("alignment", 64)])
def test_what_a_device_says_of_itself_is_in_the_key(
        folder: Path, monkeypatch: pytest.MonkeyPatch, says: str, value: int) -> None:
    with counted(monkeypatch) as made:
        first = train(jitted=False)
    monkeypatch.setattr(executor("cpu"), says, value)
    with counted(monkeypatch) as again:
        assert train(jitted=False) == pytest.approx(first, rel=1e-4, abs=1e-5)
    assert len(again) == len(made)


@pytest.mark.slow
def test_checked_kernels_are_scheduled_as_ever(
        folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for _ in "12":
        with counted(monkeypatch) as made, lt.check("nan"):
            train(jitted=False)
        assert [m for m in made if len(m.steps) > 8]
    assert not entries(folder)


@pytest.mark.slow
def test_passes_that_are_to_be_printed_run(
        folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    with counted(monkeypatch) as made:
        train(jitted=False)
    monkeypatch.setenv("LAZYTEN_PRINT_AFTER", "fuse")
    with counted(monkeypatch) as again:
        train(jitted=False)
    assert len(again) == len(made)
    assert "; after fuse" in capsys.readouterr().out


def test_parts_of_a_key_that_are_no_text_have_none() -> None:
    runtime = executor("cpu")
    entry = (object(), lt.float32, None, ())
    assert kept_schedules._text(runtime, ((entry,) * 100, (0,))) is None


# ---- processes -----------------------------------------------------------------------------------

PROGRAM = """
from lazyten.runtimes import code_cache
code_cache.IMPORTED += 60
import lazyten as lt
from lazyten.execution.plans import making, varying
made, scheduled = [], varying.scheduled
def counting(*given):
    made.append(scheduled(*given))
    return made[-1]
varying.scheduled = counting
lt.manual_seed(0)
model = lt.nn.Sequential(*(lt.nn.Linear(8, 8) for _ in range(6)), lt.nn.Softmax(1))
optimizer = lt.optim.SGD(model.parameters(), lr=0.1)
loss = model(lt.rand(4, 8)).square().sum()
loss.backward()
optimizer.step()
print(loss.item().hex(), [p.sum().item().hex() for p in model.parameters()])
print(sum(len(m.steps) > 8 for m in made))
"""


def started(folder: Path) -> subprocess.Popen[str]:
    environment = os.environ | {"LAZYTEN_CACHE": str(folder), "DEVICE": "cpu"}
    return subprocess.Popen([sys.executable, "-c", PROGRAM], env=environment, text=True,
                            stdout=subprocess.PIPE, stderr=subprocess.STDOUT)


@pytest.mark.slow
def test_processes_that_write_at_once_and_one_that_reads_agree(tmp_path: Path) -> None:
    writers = [started(tmp_path) for _ in "12"]
    first, second = (process.communicate()[0].splitlines() for process in writers)
    third = started(tmp_path).communicate()[0].splitlines()
    assert first[0] == second[0] == third[0]
    assert int(first[1]) + int(second[1]) > 0, "one may have found what the other has just written"
    assert third[1] == "0"
