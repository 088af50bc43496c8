"""What a run of the suite shows: its line of progress, and why tests were skipped."""
from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
import reporting
from slow_rows import slow_but

TESTS = """
import pytest

def test_a(): pass

@pytest.mark.skip(reason="there is no moon")
@pytest.mark.parametrize("n", range(3))
def test_b(n): pass

def test_c(): assert False
"""


def test_a_line_tells_how_far_the_run_is_and_when_it_may_end() -> None:
    assert reporting.line(250, 1000, 0, 61.5) == \
        " 25%  250 of 1,000 tests, none failed, 1:01, about 3:04 left"
    assert reporting.line(1000, 1000, 2, 240) == "100%  1,000 of 1,000 tests, 2 failed, 4:00"


def test_what_is_skipped_for_one_reason_is_one_line() -> None:
    given = [("no torch", False)] * 1200 + [("no torch", True)] + [("no moon", True)] * 2
    assert reporting.skipped(given) == ["1,200 tests and 1 file skipped: no torch",
                                        "2 files skipped: no moon"]


@pytest.mark.parametrize("processes", slow_but(["0", "2"], "2"))
def test_a_run_shows_failures_and_skips_and_no_dots(processes: str, tmp_path: Path) -> None:
    (tmp_path / "conftest.py").write_text("""
import reporting
def pytest_addoption(parser): parser.addoption("--progress", action="store_true")
def pytest_sessionstart(session): reporting.start(session.config)
def pytest_terminal_summary(terminalreporter): reporting.summarize(terminalreporter)
""")
    (tmp_path / "test_it.py").write_text(TESTS)
    done = subprocess.run([sys.executable, "-m", "pytest", "--progress", "-q", "-n", processes,
                           "-p", "no:cacheprovider", "test_it.py"], cwd=tmp_path, text=True,
                          capture_output=True,
                          env={"PYTHONPATH": str(Path(reporting.__file__).parent), "PATH": ""})
    lines = done.stdout.splitlines()
    assert "FAILED test_it.py::test_c" in lines  # at once
    assert any(text.startswith("FAILED test_it.py::test_c - ") for text in lines)
    assert any(text.startswith("100%  5 of 5 tests, 1 failed, 0:") for text in lines)
    assert "3 tests skipped: there is no moon" in lines
    assert not any(text.startswith(".") for text in lines), done.stdout
