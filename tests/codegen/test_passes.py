"""Passes by name: what each makes of a small text (tests/golden/passes), and how they are printed.

A golden file is a text that goes in, and what LAZYTEN_PRINT_AFTER prints. Its first lines say what
is asked: `print`, the names of passes, and `device`, one of TARGETS for what happens to a kernel,
or else the limits of a device for what happens to a graph. `decisions` and `checks` are as a Kernel
has them. After an empty line comes a graph as `lazyten.ir.kernel.computation` writes it; `...` and
all that follows is what was printed, without the times.
"""
from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest
from golden_text import Golden

import lazyten as lt
from lazyten.codegen import pipeline
from lazyten.codegen.targets.target import AVX2, Target
from lazyten.ir.kernel import Given, Kernel
from lazyten.ir.kernel_text import read_computation
from lazyten.schedule import schedule
from lazyten.schedule.draft import Draft, Limits, Memory, verify_draft
from lazyten.support import passes
from lazyten.support.errors import ArgumentError, InternalError

FOLDER = Path(__file__).parents[1] / "golden" / "passes"
FILES = sorted(FOLDER.glob("*.txt"))
CUDA = Target("cuda", 4, 64, threads=True, language="cuda", most_lanes=1, work_group=256,
              local_memory=48 << 10, tensor_cores=("m16n8k16_f16",))
TARGETS = {"avx2": AVX2, "cuda": CUDA}
TIME = re.compile(r"^(; after \w+), [\d.]+ ms:", re.MULTILINE)


def compiled(given: dict[str, str], computation: str) -> None:
    """Schedule a graph, or generate a kernel's code, as a file asks."""
    outputs, inputs = read_computation(computation)
    if given["device"] in TARGETS:
        decisions = Given(given["decisions"]) if "decisions" in given else None
        kernel = Kernel("example", outputs, inputs, None, decisions,
                        tuple(given.get("checks", "").split()))
        pipeline.generate(kernel, TARGETS[given["device"]])
    else:
        limits = dict(part.split("=") for part in given["device"].split())
        numbers = {name: int(n) for name, n in limits.items() if name != "streams"}
        streams = (lambda kernel: True) if "streams" in limits else None
        schedule.schedule(outputs, inputs, **numbers, streams=streams)


@pytest.mark.parametrize("name", [path.stem for path in FILES])
def test_a_pass_makes_of_a_text_what_its_golden_file_says(
        name: str, pytestconfig: pytest.Config, monkeypatch: pytest.MonkeyPatch,
        capsys: pytest.CaptureFixture[str]) -> None:
    golden = Golden(FOLDER / f"{name}.txt", pytestconfig.getoption("--update-golden"))
    head, computation, *_ = golden.path.read_text("utf8").split("\n\n")
    given = dict(line.split(" ", 1) for line in head.splitlines())
    monkeypatch.setenv("LAZYTEN_PRINT_AFTER", given["print"])
    capsys.readouterr()
    compiled(given, computation)
    printed = TIME.sub(r"\1:", capsys.readouterr().out)
    assert f"{head}\n\n{computation.rstrip()}\n\n...\n\n{printed}" == golden


def test_every_pass_has_a_golden_file_of_its_name() -> None:
    named = {path.stem.partition("-")[0] for path in FILES}
    assert named == passes.NAMES.keys()
    assert all(path.stat().st_size < 6_000 for path in FILES), "too long to be read"


def test_the_tables_of_passes_are_as_they_are_listed() -> None:
    assert [p.name for p in (*schedule.PASSES, *pipeline.PASSES)] == list(passes.NAMES)


def test_the_page_on_debugging_says_what_each_pass_does() -> None:
    page = (Path(__file__).parents[2] / "docs" / "debug.md").read_text("utf8")
    assert re.findall(r"^\| `(\w+)` \| (.*) \|$", page, re.MULTILINE)[:len(passes.NAMES)] == \
        list(passes.NAMES.items())


# ---- printing ------------------------------------------------------------------------------------

def printed_passes(text: str) -> list[str]:
    return re.findall(r"^; after (\w+), [\d.]+ ms: ", text, re.MULTILINE)


def compute(number: float, device: str = "cpu") -> list[float]:
    """A small kernel that was not compiled before, if the number is new."""
    values: list[float] = (lt.tensor([1.0, 2.0, 3.0], device=device) * number + number).tolist()
    return values


def test_what_is_asked_for_is_printed_and_changes_nothing(
        monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("LAZYTEN_PRINT_AFTER", "fuse, render,lower")
    assert compute(101.0) == [202.0, 303.0, 404.0]
    assert printed_passes(capsys.readouterr().out) == ["fuse", "lower", "render"]
    assert compute(101.0) == [202.0, 303.0, 404.0]
    assert printed_passes(capsys.readouterr().out) == []  # a plan that is there has no passes


def test_debug_5_prints_every_pass_that_ran(
        monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("DEBUG", "5")
    compute(102.0)
    text = capsys.readouterr().out
    ran = printed_passes(text)
    assert ran == [name for name in passes.NAMES if name in ran]
    assert {"store", "share_memory", "lower", "linearize", "render"} <= set(ran)
    assert re.findall(r"(\w+)\s+[\d.]+ ms", text[text.index("\npasses: "):]) == ran


def test_a_device_without_code_has_passes_of_the_schedule_alone(
        monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("LAZYTEN_PRINT_AFTER", "build,render")
    compute(103.0, "interpreter")
    assert printed_passes(capsys.readouterr().out) == ["build"]


def test_a_name_that_no_pass_has_is_refused_with_those_that_there_are(
        monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LAZYTEN_PRINT_AFTER", "lower,linearise")
    with pytest.raises(ArgumentError, match=r"no pass 'linearise'; .* lower, index_sets,"):
        compute(104.0)


def test_explain_shows_the_passes_that_schedule(
        monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    x = lt.tensor([1.0, 2.0], device="cpu") * 105.0
    told = lt.explain(x)
    monkeypatch.setenv("LAZYTEN_PRINT_AFTER", "fuse")
    assert lt.explain(x) == told
    assert printed_passes(capsys.readouterr().out) == ["fuse"]


# ---- times ---------------------------------------------------------------------------------------

def test_a_pass_is_not_charged_for_those_that_it_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    now = iter(range(100))
    monkeypatch.setattr(passes.time, "perf_counter", lambda: next(now))
    driver: passes.Driver[int] = passes.Driver(lambda old, new: None, str, str)
    inner: tuple[passes.Pass[int], ...] = (passes.Pass("merge", passes.always, lambda n: n + 1),)
    outer: passes.Pass[int] = passes.Pass(
        "pack", passes.always, lambda n: driver.run(inner, driver.run(inner, n)))
    with passes.timed() as seconds:
        assert driver.run((outer, *inner), 0) == 3
    assert seconds == {"merge": 3, "pack": 3}  # from 0 to 5, without 1 to 2 and 3 to 4


# ---- proofs of schedules -------------------------------------------------------------------------

def drafted(*tensors: lt.Tensor) -> Draft:
    """The last draft of a schedule."""
    from lazyten.execution.plans.graph import Graph
    graph = Graph([t._storage.value for t in tensors], tensors[0].device)
    inputs = tuple((b.dtype, b.size) for b in graph.buffers)
    return schedule.DRIVER.run(schedule.PASSES, Draft(
        tuple(graph.normalized()), len(inputs), Limits(True, 0, 0, 1), inputs))


def chain() -> Draft:
    """Four products, each of the one before."""
    x = lt.tensor([[0.0] * 64] * 64)
    for _ in range(4):
        x = (x @ x).contiguous()
    return drafted(x)


def test_a_step_before_what_it_reads_is_refused() -> None:
    made = chain()
    verify_draft(Draft((), 0, made.limits, ()), made)
    order = range(len(made.steps))[::-1]
    with pytest.raises(InternalError, match="before they are there"):
        verify_draft(made, made.in_order(order))
    with pytest.raises(InternalError, match="before they are there"):
        verify_draft(made, replace(made, launches=(len(order),)))
    with pytest.raises(InternalError, match="no kernel makes"):
        verify_draft(made, replace(made, steps=made.steps[:-1], launches=made.launches[:-1]))


def test_arrays_in_one_memory_at_a_time_are_refused() -> None:
    made = chain()
    aliases, blocks, sizes = made.memory
    assert {*blocks.values()} == {0, 1} or aliases
    with pytest.raises(InternalError, match="is not alone in block 0"):
        verify_draft(made, replace(made, memory=Memory({}, dict.fromkeys((*blocks, *aliases), 0),
                                                       sizes or (1 << 20,))))
    with pytest.raises(InternalError, match="or larger"):
        verify_draft(made, replace(made, memory=Memory(aliases, blocks, (4,) * len(sizes))))
