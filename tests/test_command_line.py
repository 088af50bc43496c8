"""`python -m lazyten`: what it lists, tests and clears, run as a process."""
from __future__ import annotations

import configparser
import os
import subprocess
import sys
from pathlib import Path

import pytest
from import_graph import CHECKOUT

from lazyten import __main__ as program
from lazyten.runtimes.cpu.cpu import CpuRuntime
from lazyten.storage import device
from lazyten.storage.device import NEEDS


def run(*arguments: str, code: int = 0, **environment: str) -> str:
    """What the command prints to both outputs."""
    path = os.pathsep.join(filter(None, [environment.pop("PYTHONPATH", ""), str(CHECKOUT)]))
    env = {k: v for k, v in os.environ.items() if k != "DEVICE"}
    done = subprocess.run([sys.executable, "-m", "lazyten", *arguments], text=True,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          env=env | {"PYTHONPATH": path} | environment)
    assert done.returncode == code, done.stdout
    return done.stdout


@pytest.mark.slow
def test_the_summary_lists_runtimes_and_what_they_can_do(tmp_path: Path) -> None:
    text = run(LAZYTEN_CACHE=str(tmp_path), DEVICE="interpreter")
    assert text.startswith("lazyten ")
    assert "default device: interpreter" in text
    for line in ("cpu: ready\n  cpu: this machine\n", "interpreter: ready", "language: llvm"):
        assert line in text
    assert text.endswith(f"cache: {tmp_path}: 0 entries, 0 bytes of at most 268,435,456\n")


def test_the_doctor_tests_devices(tmp_path: Path) -> None:
    lines = run("doctor", "cpu", "interpreter", LAZYTEN_CACHE=str(tmp_path)).splitlines()
    assert [line.partition(" (")[0] for line in lines] == ["cpu: well", "interpreter: well"]


def test_a_device_that_there_is_not_is_an_error() -> None:
    assert "there is no device 'gpu9'" in run("doctor", "gpu9", code=1)


def test_the_cache_is_shown_and_cleared(tmp_path: Path) -> None:
    folder = tmp_path / "cache"
    folder.mkdir()
    (folder / "0123.entry").write_text("not an entry")
    assert f"{folder}: " in run("cache", LAZYTEN_CACHE=str(folder))
    assert "entries removed; 0 entries, 0 bytes" in run("cache", "--clear",
                                                        LAZYTEN_CACHE=str(folder))
    assert "nothing is kept on disk" in run("cache", LAZYTEN_CACHE="0")


def test_what_is_missing_comes_with_the_command_that_installs_it(
        monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(NEEDS, "opencl", "no_such_package")
    assert program.runtime_lines("opencl") == [
        "opencl: not installed, it needs no_such_package: pip install 'lazyten[opencl]'"]


def test_every_package_that_a_runtime_needs_is_in_an_extra_of_its_name() -> None:
    config = configparser.ConfigParser()
    config.read(CHECKOUT / "setup.cfg")
    ours = {kind for kind, where in device.BUILT_IN.items() if where.startswith("lazyten.")}
    assert ours & set(NEEDS) <= set(config["options.extras_require"])


def test_the_doctor_tells_what_is_wrong_with_a_device(monkeypatch: pytest.MonkeyPatch,
                                                      capsys: pytest.CaptureFixture[str]) -> None:
    copy_out = CpuRuntime.copy_out

    def lossy(self: CpuRuntime, target: object, handle: int) -> None:
        copy_out(self, target, handle)  # type: ignore[arg-type]
        target.reshape(-1)[-1:] = 0  # type: ignore[attr-defined]
    monkeypatch.setattr(CpuRuntime, "copy_out", lossy)
    assert program.main(["doctor", "cpu:3", "interpreter"]) == 1
    first, why, second = capsys.readouterr().out.splitlines()
    assert first == "cpu:3: FAILED"
    assert why == "  copies: what was copied to the device came back changed"
    assert second.startswith("interpreter: well")


@pytest.mark.opencl
def test_devices_of_opencl_are_listed_by_name() -> None:
    lines = program.runtime_lines("opencl")
    assert lines[0] == "opencl: ready"
    assert any(line.startswith("  opencl: ") for line in lines[1:])


# ---- runtimes of other packages ------------------------------------------------------------------

PACKAGE = '''
from lazyten.runtimes.interpreter.interpreter import InterpreterRuntime


class Good(InterpreterRuntime):
    contract = 2


class Old(InterpreterRuntime):
    contract = 0


class Silent(InterpreterRuntime):
    pass
'''


@pytest.fixture
def package(tmp_path: Path) -> str:
    """A folder with an installed package of five runtimes, of which one can be used."""
    info = tmp_path / "strange-2.5.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: strange\nVersion: 2.5\n")
    (info / "entry_points.txt").write_text(
        "[lazyten.runtimes]\ngood = strange:Good\nold = strange:Old\nsilent = strange:Silent\n"
        "absent = strange:Absent\nbad = strange_bad:Bad\n")
    (tmp_path / "strange.py").write_text(PACKAGE)
    (tmp_path / "strange_bad.py").write_text("import a_driver_that_is_not_there\n")
    return str(tmp_path)


def test_runtimes_of_other_packages_are_listed_with_what_is_wrong(package: str) -> None:
    text = " ".join(run(PYTHONPATH=package, LAZYTEN_CACHE="0").split())
    assert "good (strange 2.5): ready good: this machine" in text
    for words in (
            "old (strange 2.5): cannot be used device 'old' is of the package strange 2.5, which "
            "was written for version 0 of the contract, and this lazyten has version 2",
            "silent (strange 2.5): cannot be used device 'silent' is of the package strange 2.5, "
            "whose runtime strange:Silent does not say for which version of the contract it was "
            "written: its class needs `contract = 2`",
            "'absent' is of the package strange 2.5, whose runtime strange:Absent cannot be "
            "loaded: AttributeError: module 'strange' has no attribute 'Absent'",
            "'bad' is of the package strange 2.5, whose runtime strange_bad:Bad cannot be loaded: "
            "ModuleNotFoundError: No module named 'a_driver_that_is_not_there'"):
        assert words in text, (words, text)


def test_the_doctor_fails_where_an_installed_runtime_cannot_be_used(package: str) -> None:
    text = run("doctor", "good", "old", code=1, PYTHONPATH=package, LAZYTEN_CACHE="0")
    assert text.startswith("good: well")
    assert "old: FAILED" in text
