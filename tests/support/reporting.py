"""How a run of the suite is shown: with `--progress` one line that is kept up to date, or in a log
one line now and then; failures as they come; and at the end what was skipped, one line a reason.

conftest.py registers it. Where pytest-xdist runs tests in processes, only the first one shows.
"""
from __future__ import annotations

import time
from collections import Counter
from collections.abc import Sequence

import pytest

NO_TORCH = "PyTorch is not installed (make test-torch)"
REDRAWN, LOGGED = 0.2, 30.0
"""Seconds between two lines: in a terminal, where the second replaces the first, and in a log."""


def clock(seconds: float) -> str:
    """As in 4:05."""
    return f"{int(seconds) // 60}:{int(seconds) % 60:02}"


def line(done: int, total: int, failed: int, seconds: float) -> str:
    """How far a run is, and when it may end if the tests to come are like those that were."""
    left = f", about {clock(seconds / done * (total - done))} left" if done < total else ""
    return (f"{done / total:4.0%}  {done:,} of {total:,} tests, "
            f"{f'{failed:,} failed' if failed else 'none failed'}, {clock(seconds)}{left}")


def skipped(reasons: Sequence[tuple[str, bool]]) -> list[str]:
    """Lines about what was skipped, most first: of each its reason, and whether it is a file."""
    tests = Counter(reason for reason, whole in reasons if not whole)
    files = Counter(reason for reason, whole in reasons if whole)
    lines = []
    for reason, _ in (tests + files).most_common():
        counts = [f"{n:,} {what}{'s' * (n > 1)}"
                  for n, what in ((tests[reason], "test"), (files[reason], "file")) if n]
        lines.append(f"{' and '.join(counts)} skipped: {reason}")
    return lines


def reason_of(report: pytest.TestReport | pytest.CollectReport) -> str:
    """Why something was skipped, the same words wherever PyTorch is what lacks."""
    given = report.longrepr
    text = given[2] if isinstance(given, tuple) else str(given)
    text = text.removeprefix("Skipped: ").splitlines()[0]
    return NO_TORCH if text.startswith("could not import 'torch") else text


class Progress:
    """Shows how far the run is, in place of a dot for each test."""

    def __init__(self, reporter: pytest.TerminalReporter) -> None:
        self.reporter = reporter
        self.total = self.done = self.failed = 0
        self.started = self.shown = time.monotonic()
        self.is_over = False

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        self.total = len(session.items)

    @pytest.hookimpl(optionalhook=True)
    def pytest_xdist_node_collection_finished(self, ids: Sequence[str]) -> None:
        """All processes have the same tests."""
        self.total = len(ids)

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_report_teststatus(self) -> tuple[str, str, object]:
        category, _, word = yield
        return category, "", word if self.is_over else ""  # the summary names it

    @pytest.hookimpl(trylast=True)
    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            self.failed += 1
            self._erase()
            self.reporter.write_line(f"FAILED {report.nodeid}", red=True)
            self.reporter.flush()
        self.done += report.when == "teardown"
        now = time.monotonic()
        if now - self.shown >= (REDRAWN if self.reporter.isatty else LOGGED) and self.done:
            self.shown = now
            self._show(now)

    def _show(self, now: float) -> None:
        text = line(self.done, max(self.total, self.done), self.failed, now - self.started)
        if self.reporter.isatty:
            self.reporter.rewrite(text, erase=True)
        else:
            self.reporter.write_line(text)
            self.reporter.flush()

    def _erase(self) -> None:
        if self.reporter.isatty:
            self.reporter.rewrite("", erase=True)

    def pytest_sessionfinish(self) -> None:
        self.is_over = True
        if self.done:
            self._erase()
            self._show(time.monotonic())
            self.reporter.write_line("")


def start(config: pytest.Config) -> None:
    """Show progress if the option is given and this is the process that shows."""
    reporter = config.pluginmanager.get_plugin("terminalreporter")
    if config.getoption("--progress") and reporter is not None \
            and not hasattr(config, "workerinput"):
        config.pluginmanager.register(Progress(reporter), "lazyten-progress")


def summarize(reporter: pytest.TerminalReporter) -> None:
    """One line for each reason that something was skipped for."""
    reports = reporter.getreports("skipped")
    if reports:
        reporter.section("skipped")
        for text in skipped([(reason_of(r), isinstance(r, pytest.CollectReport))
                             for r in reports]):
            reporter.write_line(text)
