"""How the conformance kit runs: its options, the order of its stages, and the scorecard at the end.

Hooks and fixtures of pytest, registered by plugin.py. A stage is one module, `test_03_elementwise`;
once a check of a stage fails, later stages are not run: what they would say is likely to be about
the same mistake.
"""
from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from lazyten.devices.executor import Executor
from lazyten.frontend.recorded import lookup
from lazyten.storage.device import CONTRACT, executor, outside
from lazyten.storage.placement import canonical, default_device
from lazyten.support.errors import LazytenError
from lazyten.testing.diagnosis import Nonconformance
from lazyten.testing.scorecard import Failure, Scorecard, Stage

CARD = pytest.StashKey[Scorecard]()
MODULE = re.compile(r"test_(\d\d)_(\w+)$")


def advice(text: str) -> Callable[[Any], Any]:
    """Marks a check: the likely cause where it fails, if its failure says nothing better."""
    return pytest.mark.advice(text)


# ---- options -------------------------------------------------------------------------------------

def pytest_addoption(parser: pytest.Parser) -> None:
    """The options of the kit."""
    group = parser.getgroup("lazyten", "conformance of lazyten's runtimes")
    group.addoption("--device", metavar="NAME", help="the device to check, by default that of the "
                                                     "variable DEVICE, or 'cpu'")
    group.addoption("--scorecard", metavar="FILE", type=Path,
                    help="write the scorecard, as JSON to *.json and as Markdown to other files")


def pytest_configure(config: pytest.Config) -> None:
    """Start the device; a usage error tells what is in the way."""
    config.addinivalue_line("markers", "advice(text): the likely cause where a check fails")
    if config.getoption("numprocesses", None):
        raise pytest.UsageError("the stages of the conformance kit build on each other: run it "
                                "without -n")
    try:
        name = canonical(config.getoption("--device") or default_device())
        runtime = executor(name)
    except LazytenError as error:
        raise pytest.UsageError(str(error)) from error
    config.stash[CARD] = Scorecard(name, outside(name.partition(":")[0]) or "lazyten", CONTRACT,
                                   runtime.dtypes, runtime.features())


# ---- stages --------------------------------------------------------------------------------------

def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Stages in order, on the card too."""
    items.sort(key=lambda item: item.path.name)  # stable: checks stay in order
    card = config.stash[CARD]
    for item in items:
        number, name = _stage_of(item)
        card.stages.setdefault(number, Stage(number, name))


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Leave out what comes after a stage that failed. What checks before it have recorded is
    forgotten: each is about its own launches."""
    failed = {f.stage for f in item.config.stash[CARD].failures}
    if failed and min(failed) < _stage_of(item)[0]:
        pytest.skip(f"stage {min(failed)} failed")
    lookup.forget()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> Any:
    """Note the result of a check on the card."""
    report: Any = yield
    card = item.config.stash[CARD]
    number, _ = _stage_of(item)
    stage, sentence = card.stages[number], item.name.removeprefix("test_").replace("_", " ")
    if report.failed and call.excinfo is not None:
        error = call.excinfo.value
        marker = item.get_closest_marker("advice")
        known = error.advice if isinstance(error, Nonconformance) else ""
        found = str(error) if isinstance(error, Nonconformance) else call.excinfo.exconly()
        stage.failed += 1
        card.failures.append(Failure(number, sentence, found.strip(),
                                     known or (marker.args[0] if marker else "")))
    elif report.skipped and not {f.stage for f in card.failures} - {number}:
        stage.left_out += 1
        reason = str(call.excinfo.value) if call.excinfo is not None else ""
        stage.notes.append(f"{sentence}: {reason}")
    elif report.passed and call.when == "call":
        stage.passed += 1
    return report


def _stage_of(item: pytest.Item) -> tuple[int, str]:
    match = MODULE.match(item.path.stem)
    assert match is not None, f"{item.path} is no stage of the kit"
    return int(match[1]), match[2]


# ---- what checks take ----------------------------------------------------------------------------

@pytest.fixture(scope="session")
def card(pytestconfig: pytest.Config) -> Scorecard:
    """The scorecard, for what a check measures or finds missing."""
    return pytestconfig.stash[CARD]


@pytest.fixture(scope="session")
def device(card: Scorecard) -> str:
    """The name of the device under test."""
    return card.device


@pytest.fixture(scope="session")
def runtime(device: str) -> Executor:
    """The runtime under test."""
    return executor(device)


# ---- the end -------------------------------------------------------------------------------------

def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter,
                            config: pytest.Config) -> None:
    """Show the card, and write it to a file if asked."""
    card = config.stash[CARD]
    if not any(stage.passed or stage.failed for stage in card.stages.values()):
        return
    terminalreporter.section("scorecard")
    terminalreporter.write_line(card.text())
    path: Path | None = config.getoption("--scorecard")
    if path is not None:
        card.save(path)
        terminalreporter.write_line(f"\nwritten to {path}")
