"""The conformance kit finds what is wrong with a runtime, at the right stage, and says so.

That it passes for the runtimes there are: `make conformance`.
"""
from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from import_graph import CHECKOUT

from lazyten.ir import dtype as dt
from lazyten.ir.ops import Op
from lazyten.testing import diagnosis
from lazyten.testing.diagnosis import Nonconformance, errors_in_ulp, expect, expect_read
from lazyten.testing.scorecard import FAILED, OK, Failure, Scorecard, Stage

KIT = "lazyten.testing.conformance"
FIRST = [f"{KIT}.test_01_memory", f"{KIT}.test_02_launch"]
EXPECTED = {
    "StaleCopies": (1, "copy out gives what was copied in last", "reads the device's memory anew"),
    "Misaligned": (1, "memory is aligned", "Memory starts at a multiple of 64 bytes"),
    "GivesTwice": (1, "handles have memory of their own", "Two handles share memory"),
    "Leaks": (1, "memory is counted", "what alloc has given out and free has not taken back"),
    "Unwaited": (2, "a kernel adds one", "copy_out came before the launch was done"),
    "FreesEarly": (2, "freed memory serves the launches before",
                   "given back while a launch that uses it was queued"),
    "Swaps": (2, "arguments are in order", "Arguments are exchanged"),
    "WrongOffset": (2, "arguments may start later in their memory", "bytes, not elements"),
    "RoundsDown": (2, "every element is computed at any size", "the last block does not run"),
    "KeepsHandles": (2, "a schedule that runs often gives the same", "`sequence` gives other"),
    "NoNan": (3, "every op gives what the op table says[float32]", "-ffast-math"),
    "MasksWithOnes": (4, "every view is read on every dtype[float32]",
                      "one that is masked off gives 0"),
    "KeepsSums": (5, "reductions along all axes[float32]", "starts with the combiner's identity"),
    "OnlyTheLast": (6, "a large product is right everywhere", "launched in order"),
    "LosesAnItem": (7, "every run gives the same bits", "Work items race"),
    "ForgetsOffsets": (8, "parts of a tensor are read in a captured sequence",
                       "with offsets added"),
    "WrongMemoryError": (9, "more memory than there is is a device error",
                         "alloc raises lazyten.DeviceError"),
    "WrongError": (10, "a text that the compiler refuses is a compile error",
                   "raises lazyten.CompileError"),
    "DividesByReciprocals": (11, "functions keep their bounds[DIV-float32]",
                             "IEEE division and square root"),
    "RunsBackwards": (12, "a net trains[perceptron-eager]", "many kernels in one launch"),
}
"""Where each of broken_runtimes.py fails, and words of the advice."""
ONLY = {
    "NoNan": [f"{KIT}.test_03_elementwise", "-k", "float32"],
    "MasksWithOnes": [f"{KIT}.test_04_views", "-k", "every_view and float32"],
    "KeepsSums": [f"{KIT}.test_05_reductions", "-k", "all_axes and float32"],
    "OnlyTheLast": [f"{KIT}.test_06_contractions", "-k", "not of_any_shape"],
    "LosesAnItem": [f"{KIT}.test_07_threads"],
    "ForgetsOffsets": [f"{KIT}.test_08_capture"],
    "WrongMemoryError": [f"{KIT}.test_09_pressure"],
    "WrongError": [f"{KIT}.test_10_errors"],
    "DividesByReciprocals": [f"{KIT}.test_11_accuracy", "-k", "bounds and DIV and float32"],
    "RunsBackwards": [f"{KIT}.test_12_training", "-k", "perceptron"],
}
"""Stages that are reached without those before, to save time."""


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """The scorecards of all broken runtimes, by device: one process checks one after the other."""
    folder = tmp_path_factory.mktemp("kit")
    info = folder / "broken-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: broken\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[lazyten.runtimes]\n" + "\n".join(
        f"{name} = broken_runtimes:{name}" for name in ("Healthy", *EXPECTED)))
    options = {"Healthy": FIRST} | {name: [*ONLY.get(name, FIRST), "-x"] for name in EXPECTED}
    options["StaleCopies"] = FIRST
    path = (str(folder), str(CHECKOUT / "tests/support"), str(CHECKOUT / "examples/lazyten_c"),
            *filter(None, [os.environ.get("PYTHONPATH"), str(CHECKOUT)]))
    env = os.environ | {"PYTHONPATH": os.pathsep.join(path)}
    env.pop("DEVICE", None)
    done = subprocess.run(
        [sys.executable, CHECKOUT / "tests/support/broken_runtimes.py", folder,
         json.dumps(options)],
        cwd=folder, env=env, text=True, capture_output=True)
    assert (folder / "found.json").is_file(), done.stdout[-3000:] + done.stderr[-3000:]
    cards: dict[str, Any] = json.loads((folder / "found.json").read_text())
    return cards


@pytest.mark.slow
@pytest.mark.parametrize("broken", EXPECTED)
def test_the_kit_finds_what_is_broken(broken: str, found: dict[str, Any]) -> None:
    stage, check, words = EXPECTED[broken]
    first = found[broken]["failures"][0]
    assert (first["stage"], first["check"]) == (stage, check), first
    assert words in first["advice"], first
    assert not found[broken]["passed"]


@pytest.mark.slow
def test_the_example_that_is_not_broken_passes(found: dict[str, Any]) -> None:
    card = found["Healthy"]
    assert card["failures"] == []
    assert card["passed"]
    assert [s["number"] for s in card["stages"]] == [1, 2]
    assert all(s["passed"] > 9 for s in card["stages"])
    assert card["package"] == "broken 1.0"
    assert {"copy to the device", "copy from the device", "x + 1 of 16 MiB"} < set(card["rates"])


@pytest.mark.slow
def test_stages_after_one_that_failed_are_not_run(found: dict[str, Any]) -> None:
    memory, launch = found["StaleCopies"]["stages"]
    assert memory["failed"] and memory["passed"]
    assert (launch["passed"], launch["failed"]) == (0, 0)


# ---- diagnosis -----------------------------------------------------------------------------------

def advice_for(got: Any, want: Any, later: Any = None) -> str:
    """What is said of a result, and of what a second look finds."""
    reads = iter([got, got if later is None else later])
    with pytest.raises(Nonconformance) as caught:
        expect_read(lambda: next(reads), np.asarray(want), "it")
    return caught.value.advice


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(diagnosis, "SECONDS", 0.0)


COUNTING = np.arange(100.0)


def test_what_is_wrong_with_an_array_tells_the_cause() -> None:
    some_nan = np.where(COUNTING % 7, COUNTING, np.nan)
    assert advice_for(COUNTING, some_nan) == diagnosis.NAN_LOST
    assert advice_for(np.zeros(100), COUNTING) == diagnosis.ONLY_ZEROS
    assert advice_for(np.zeros(100), COUNTING, COUNTING) == diagnosis.NOT_WAITED
    assert "3 elements too early" in advice_for(COUNTING + 3, COUNTING)
    assert "first 90 of 100" in advice_for(np.where(COUNTING < 90, COUNTING, 777), COUNTING)
    assert advice_for(np.where(COUNTING < 2, COUNTING, 777), COUNTING) == ""
    assert advice_for(COUNTING[::-1], COUNTING) == ""
    assert advice_for(COUNTING[:3], COUNTING) == ""


def test_equal_arrays_are_as_expected() -> None:
    expect(np.array([np.nan, 1.0, -np.inf]), np.array([np.nan, 1.0, -np.inf]), "it")
    with pytest.raises(Nonconformance, match=r"it: 1 of 2 values.*first at \[1\]: .*2.0.*not"):
        expect(np.array([np.nan, 2.0]), np.array([np.nan, 1.0]), "it")


@pytest.mark.parametrize(("name", "unit"), [("float16", 2.0**-10), ("bfloat16", 2.0**-7),
                                            ("float32", 2.0**-23), ("float64", 2.0**-52)])
def test_errors_are_counted_in_units_in_the_last_place(name: str, unit: float) -> None:
    dtype = dt.BY_NAME[name]
    exact = np.array([1.0, 1.0, 4.0, np.nan, np.inf, 0.0, 1.0], np.longdouble)
    got = np.array([1 + unit, 1, 4 + 8 * unit, np.nan, np.inf, 0.0, np.nan], dtype.compute)
    assert errors_in_ulp(got, exact, dtype).tolist() == [1, 0, 2, 0, 0, 0, np.inf]
    least = {"float16": -24, "bfloat16": -133, "float32": -149, "float64": -1074}[name]
    tiny = np.ldexp(np.ones(1, np.longdouble), least)
    assert errors_in_ulp((3 * tiny).astype(dtype.compute), tiny, dtype).tolist() == [2]


# ---- the scorecard -------------------------------------------------------------------------------

def card() -> Scorecard:
    made = Scorecard("toy", "toy 1.0", 1, frozenset(dt.ALL) - {dt.float64})
    made.stages = {1: Stage(1, "memory", passed=9), 2: Stage(2, "launch", passed=3, failed=1)}
    made.failures = [Failure(2, "a kernel adds one", "it is wrong", "try again")]
    made.ops = {(Op.ADD, dt.int8): OK, (Op.ADD, dt.float32): FAILED}
    made.ulp, made.bounds = {"EXP": {"float32": 0.75}}, {"EXP": 1.5}
    made.rates = {"copies": "1.5 GB/s"}
    made.note_unsupported("float64")
    return made


def test_a_scorecard_tells_all_that_was_found(tmp_path: Path) -> None:
    text = card().text()
    for line in ("conformance of device 'toy' (toy 1.0), contract 1: FAILED",
                 " 2 launch       3 passed, 1 FAILED", "ops: 1 ok, 1 failed", "copies: 1.5 GB/s",
                 "unsupported: float64", "1. stage 2: a kernel adds one", "   it is wrong",
                 "   Likely cause: try again", "EXP              0.75      1.5"):
        assert line in text
    card().save(tmp_path / "card.json")
    data = json.loads((tmp_path / "card.json").read_text())
    assert data["ops"] == {"ADD": {"int8": "ok", "float32": "failed"}}
    assert "float64" not in data["dtypes"]
    card().save(tmp_path / "card.md")
    assert (tmp_path / "card.md").read_text().startswith("# lazyten: conformance of device 'toy'")


def test_a_stage_that_was_not_run_does_not_pass() -> None:
    made = card()
    made.failures.clear()
    assert made.passes
    made.stages[3] = Stage(3, "elementwise")
    assert not made.passes


# ---- how it is run -------------------------------------------------------------------------------

def kit(*options: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-m", "pytest", "-p", "lazyten.testing.plugin",
                           "--pyargs", *options], cwd=cwd, text=True, capture_output=True,
                          env=os.environ | {"PYTHONPATH": str(CHECKOUT)})


@pytest.mark.slow
def test_an_unknown_device_is_a_usage_error(tmp_path: Path) -> None:
    done = kit(FIRST[0], "--device", "gpu9", cwd=tmp_path)
    assert done.returncode == 4
    assert "there is no device 'gpu9'" in done.stderr


@pytest.mark.slow
def test_other_runs_of_pytest_know_nothing_of_the_kit(tmp_path: Path) -> None:
    """A project's own --device option, for example, does not clash with the kit's."""
    (tmp_path / "conftest.py").write_text(
        "def pytest_addoption(parser):\n    parser.addoption('--device')\n")
    (tmp_path / "test_it.py").write_text(
        "def test_it(pytestconfig):\n    assert pytestconfig.getoption('--device') == 'mine'\n")
    done = kit("test_it.py", "--device", "mine", cwd=tmp_path)
    assert (done.returncode, "scorecard" in done.stdout) == (0, False), done.stdout


# ---- docs/porting.md -----------------------------------------------------------------------------

def test_the_page_about_porting_quotes_the_example() -> None:
    page = (CHECKOUT / "docs/porting.md").read_text()
    folder = CHECKOUT / "examples/lazyten_c"
    for language, file in (("py", "lazyten_c.py"), ("toml", "pyproject.toml")):
        quotes = re.findall(rf"```{language}\n(.*?)```", page, re.DOTALL)
        assert quotes
        for quote in quotes:
            assert quote in (folder / file).read_text(), quote


def test_the_example_is_short() -> None:
    lines = (CHECKOUT / "examples/lazyten_c/lazyten_c.py").read_text().splitlines()
    assert len(lines) < 150
