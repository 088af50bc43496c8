"""What all tests share: pytest options, fixtures and the hypothesis profiles."""
from __future__ import annotations

import gc
import os
from collections.abc import Iterator, Sequence
from importlib.util import find_spec
from pathlib import Path

import cuda_on_cpu
import opencl_grid
import opencl_if_there
import pytest
import reporting
import slow_rows
from golden_text import Golden
from hypothesis import Phase, settings

from lazyten.autodiff import hooks
from lazyten.execution import interpreted
from lazyten.execution.plans import making
from lazyten.execution.plans.varying import forget_families
from lazyten.storage import frames

os.environ.setdefault("LAZYTEN_VERIFY", "1")  # every pass checks what it is given
os.environ["LAZYTEN_CACHE"] = "0"  # and runs: no test meets the code of an earlier run
os.environ.setdefault("LAZYTEN_INTERPRET", "never")  # kernels are to be run, small as they are

# Examples are few by default so that the suite stays quick, and the same ones every time in CI.
# Look harder with: make test-thorough
settings.register_profile("quick", deadline=None, max_examples=25, print_blob=True)
settings.register_profile("ci", settings.get_profile("quick"), derandomize=True)
settings.register_profile("thorough", settings.get_profile("quick"), max_examples=1000)
settings.register_profile("mutants", settings.get_profile("ci"),  # mutate.py takes any failure
                          phases=(Phase.explicit, Phase.generate))
settings.load_profile("ci" if os.environ.get("CI") else "quick")

opencl_grid.register()
cuda_on_cpu.register()

OPENCL_FILES = frozenset({"test_checks", "test_errors", "test_gather", "test_index_arrays",
                          "test_jit", "test_jit_refusals", "test_jit_values",
                          "test_launch_sequence", "test_memory_stats", "test_runtimes",
                          "test_special"})
"""Where `device` is OpenCL too: what runtimes promise, replay, indices, transcendental functions.
PoCL takes 60 ms to compile a kernel and 200 ms a program, so that the other files would take
minutes; test_opencl.py has their ops, dtypes, views and kinds of kernel in programs of many
kernels. All files pass with DEVICE=opencl."""


CUDA_FILES = frozenset({"test_launch_sequence", "test_memory_stats", "test_runtimes"})
"""Where it is the cuda runtime too, on the CPU. g++ is no quicker than PoCL; test_cuda_kernels.py
has ops, dtypes and kinds of kernel."""


SETTLED = 100
"""So many tests leave enough behind to be worth a look: it is not walked any more afterwards."""
_since_frozen = 0


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--update-golden", action="store_true",
                     help="rewrite tests/golden/ and the outputs shown in README.md and docs/")
    parser.addoption("--devices", help="what tests that take any device run on, for example "
                                       "'opencl' or 'cpu,opencl:1'")
    parser.addoption("--progress", action="store_true",
                     help="show how far the run is in one line, in place of a dot for each test")


def pytest_sessionstart(session: pytest.Session) -> None:
    reporting.start(session.config)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    reporting.summarize(terminalreporter)


@pytest.hookimpl(tryfirst=True)  # before -m chooses
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Skips tests that need PyTorch where it is not installed."""
    slow_rows.mark_slow(items)
    if find_spec("torch") is None:
        for item in items:
            if item.get_closest_marker("torch"):
                item.add_marker(pytest.mark.skip(reason=reporting.NO_TORCH))


def pytest_collection_finish() -> None:
    """Keep modules and ten thousand tests from being walked by each full garbage collection, which
    would be a fifth of the suite's time: they stay anyway."""
    gc.collect()
    gc.freeze()


def pytest_runtest_teardown(item: pytest.Item, nextitem: pytest.Item | None) -> None:
    """The same, between files, of what stays of their tests: reports, caches, what was imported."""
    global _since_frozen
    _since_frozen += 1
    if _since_frozen >= SETTLED and nextitem is not None and item.path != nextitem.path:
        _since_frozen = 0
        pytest_collection_finish()


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """`device`: each device that must give the same results, by name."""
    if "device" in metafunc.fixturenames:
        given: str | None = metafunc.config.getoption("--devices")
        names = given.split(",") if given else [os.environ.get("DEVICE") or "cpu", "interpreter"]
        if not given and metafunc.module.__name__ in OPENCL_FILES:
            names.append("opencl")
        if not given and metafunc.module.__name__ in CUDA_FILES:
            names.append(cuda_on_cpu.NAME)
        metafunc.parametrize("device", [pytest.param(n, marks=_needs(n))
                                        for n in dict.fromkeys(names)], scope="session")


@pytest.fixture
def on_each_device(device: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """New tensors of a test are on each device in turn."""
    monkeypatch.setenv("DEVICE", device)


@pytest.fixture
def interpreting_as_users_do(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Graphs that come once are interpreted, and none is known from another test."""
    monkeypatch.delenv("LAZYTEN_INTERPRET")
    interpreted.forget()
    making._plans.clear()
    yield
    interpreted.forget()


def _needs(name: str) -> Sequence[pytest.MarkDecorator]:
    """Skips a device that is not installed."""
    lacking = cuda_on_cpu.missing() if name == cuda_on_cpu.NAME else None
    if lacking is not None:
        return [pytest.mark.skip(reason=lacking)]
    return [pytest.mark.opencl] if name.startswith("opencl") else []


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Skips tests that need an OpenCL device where none can be used. No test computes what another
    has left pending, which would be due with its own."""
    for frame in (frames.here.current(), *[found() for found in frames.here.others.values()]):
        if frame is not None:
            frames.end(frame)
    # Nor is it called by hooks of what another still holds: steps with hooks are not looked up.
    for table in (hooks._of_leaves, hooks._of_values, hooks._after):
        table.clear()
    forget_families()  # nor are sizes met that others have met before
    reason = opencl_if_there.lacking() if item.get_closest_marker("opencl") else None
    if reason is not None:
        pytest.skip(reason)


@pytest.fixture
def golden(request: pytest.FixtureRequest) -> Golden:
    """The text kept in tests/golden/ for this test; compare with `assert text == golden`."""
    name = request.node.name.replace("[", "-").replace("]", "").replace("/", "-")
    update: bool = request.config.getoption("--update-golden")
    return Golden(Path(__file__).parent / "golden" / f"{name}.txt", update)


def pytest_assertrepr_compare(op: str, left: object, right: object) -> list[str] | None:
    """Show how a text differs from its golden file."""
    if op == "==" and isinstance(left, str) and isinstance(right, Golden):
        return right.explain(left)
    return None
