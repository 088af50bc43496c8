"""lt.tune: it finds what computes the same, outlives hanging and crashing candidates, keeps to its
time, and what it writes serves the next process. No test depends on which candidate is faster."""
from __future__ import annotations

import io
import os
import pickle
import subprocess
import sys
import textwrap
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from decided_kernels import LINE, kernels, kernels_of, product, some

import lazyten as lt
from lazyten.execution import trial
from lazyten.execution.plans import making
from lazyten.execution.trial import GUARD, Bench, Trial, agree, tolerance
from lazyten.ir.kernel import Given, Kernel, from_plain, structure, to_plain
from lazyten.ir.node import Node
from lazyten.storage.device import executor
from lazyten.support import observers
from lazyten.tuning import records, tuning, tuning_search
from lazyten.tuning.tuning_process import Worker, WorkerError
from lazyten.tuning.tuning_search import Found, Search
from lazyten.tuning.tuning_worker import Handler


@pytest.fixture(autouse=True)
def fresh(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """No test leaves decisions to another. They are about the cpu's kernels."""
    monkeypatch.setenv("DEVICE", "cpu")
    yield
    records.restore({})
    making.rebuild_plans()


class InProcess:
    """Answers as a worker does, in this process; candidates are as fast as `ratios` says, as fast
    as the kernel itself if it does not say."""

    def __init__(self, ratios: dict[str, float], lines: tuple[str, ...] = (LINE,)) -> None:
        self.ratios, self.lines, self.starts = ratios, lines, 1
        self.handler = Handler()
        self.asked: list[str] = []

    def ask(self, seconds: float, *request: Any) -> Any:
        self.asked.append(request[0])
        if request[0] == "candidates":
            return list(self.lines)
        answer = self.handler.answer(*pickle.loads(pickle.dumps(request)))
        if request[0] == "trial" and not answer.problem:
            return Trial(1.0, self.ratios.get(request[1], 1.0))
        return answer


def search(worker: Any, kernel: Kernel, seconds: float = 60.0) -> Found:
    end = time.perf_counter() + seconds
    return Search(worker, "cpu", kernel, 1e-5, end, end, lambda: None).run()


# ---- the search ----------------------------------------------------------------------------------

def test_the_fastest_right_candidate_wins() -> None:
    lines = ("plain loops", LINE, "vector(i1:4)")
    found = search(InProcess({LINE: 0.5, "vector(i1:4)": 0.7}, lines), product(20)[2])
    assert (found.decisions, found.before, found.after, found.tried) == (LINE, 1.0, 0.5, 3)
    assert found.problems == {}


def test_what_saves_too_little_does_not_win() -> None:
    found = search(InProcess({LINE: 0.98}), product(20)[2])
    assert found.decisions == "" and found.tried == 1


@pytest.mark.slow
def test_a_candidate_with_wrong_results_is_rejected(monkeypatch: pytest.MonkeyPatch) -> None:
    device, kernel = executor("cpu"), product(21)[2]
    build = type(device).build

    def wrong(self: Any, made: list[Kernel]) -> Any:
        """Builds a program that sums the wrong way for candidates."""
        x, y = some(21, 21), some(21, 21)
        other = kernels_of(x @ y.t())[0]
        return build(self, [k if k.decisions is None else other for k in made])

    assert search(InProcess({LINE: 0.5}), kernel).decisions == LINE
    monkeypatch.setattr(type(device), "build", wrong)
    found = search(InProcess({LINE: 0.5}), kernel)
    assert found.decisions == ""
    assert found.problems == {LINE: "its results are wrong"}


def test_a_candidate_that_does_not_compile_is_rejected() -> None:
    found = search(InProcess({}, ("tile(i0:999)",)), product(20)[2])
    assert "999 times 1 lanes are more than its extent" in found.problems["tile(i0:999)"]


class Faulty(InProcess):
    """Some candidates end the process."""

    def ask(self, seconds: float, *request: Any) -> Any:
        if request[0] == "trial" and "plain" in request[1]:
            self.starts += 1
            self.handler = Handler()
            raise WorkerError("the process ended with code -11")
        return super().ask(seconds, *request)


def test_the_search_goes_on_after_a_candidate_that_crashes() -> None:
    worker = Faulty({LINE: 0.5}, ("plain loops", LINE))
    found = search(worker, product(20)[2])
    assert found.decisions == LINE
    assert found.problems == {"plain loops": "the process ended with code -11"}
    assert worker.asked.count("open") == 2


def test_a_kernel_whose_candidates_keep_crashing_is_left_alone() -> None:
    worker = Faulty({}, tuple(f"plain {n}" for n in range(20)))
    assert search(worker, product(20)[2]).tried == tuning_search.MOST_FAILURES


# ---- the worker ----------------------------------------------------------------------------------

@pytest.mark.few(2)
@pytest.mark.parametrize(("program", "message"), [
    ("import time; time.sleep(60)", "no answer within 1.0 s"),
    ("import os; os._exit(3)", "ended with code 3"),
    ("print('not a reply')", "the process ended"),
])
def test_a_process_that_gives_no_answer_is_ended(program: str, message: str) -> None:
    worker = Worker((sys.executable, "-c", program))
    start = time.perf_counter()
    for count in (1, 2):
        with pytest.raises(WorkerError, match=message):
            worker.ask(1.0 if "sleep" in program else 30.0, "open", bytes(1 << 20))
        assert worker.starts == count and worker._process is None
    assert time.perf_counter() - start < 30


def test_a_worker_outlives_a_request_that_fails() -> None:
    worker = Worker()
    try:
        with pytest.raises(WorkerError, match="KeyError"):
            worker.ask(60, "no such request")
        kernel = product(22)[2]
        worker.ask(60, "open", "cpu", to_plain(kernel), 1)
        assert worker.ask(60, "candidates", to_plain(kernel)) == executor("cpu").candidates(kernel)
        assert worker.ask(60, "trial", LINE, 0.01).problem == ""
        assert worker.starts == 1
    finally:
        worker.stop()


def test_a_kernel_is_the_same_in_another_process() -> None:
    for kernel in kernels():
        decided = replace(kernel, decisions=Given("x", "y"))
        for k in (kernel, decided):
            again = from_plain(pickle.loads(pickle.dumps(to_plain(k))))
            assert structure(again) == structure(k)
            assert again.outputs == k.outputs and again.decisions == k.decisions


# ---- results -------------------------------------------------------------------------------------

class Meddling:
    """A program that does what it should, and then something to a buffer."""

    def __init__(self, program: Any, buffer: int, at: int) -> None:
        self.program, self.buffer, self.at = program, buffer, at

    def launch(self, buffers: list[int]) -> None:
        self.program.launch(buffers)
        executor("cpu").copy_in(buffers[self.buffer] + self.at, np.full(1, 7, np.uint8))


@pytest.mark.few(3)
@pytest.mark.parametrize(("buffer", "at", "problem"), [
    (0, 0, "its results are wrong"), (0, 20 * 20 * 4, "it writes past the end of an output"),
    (0, 20 * 20 * 4 + GUARD - 1, "it writes past the end of an output"),
    (1, 30, "it changes an input"), (2, 1599, "it changes an input")])
def test_every_byte_that_a_candidate_must_not_change_is_checked(buffer: int, at: int,
                                                               problem: str) -> None:
    bench = Bench("cpu", product(20)[2])
    assert bench.difference(bench.program) == ""
    if problem == "its results are wrong":
        at = 3  # the sign and exponent of the first element
    meddling: Any = Meddling(bench.program, buffer, at)
    assert bench.difference(meddling) == problem
    assert bench.difference(bench.program) == ""  # inputs are as they were
    bench.close()


def reduction(size: int, dtype: lt.DType) -> tuple[Node, ...]:
    return kernels_of(some(4, size, dtype=dtype).sum(1))[-1].outputs


def test_sums_may_differ_by_rounding_only() -> None:
    limit = tolerance(reduction(1000, lt.float32))
    assert 1e-6 < limit < 1e-3
    assert tolerance(reduction(1000, lt.float64)) < 1e-11
    assert tolerance(reduction(1000, lt.int32)) == 0
    x = np.random.default_rng(0).normal(size=(4, 1000)).astype(np.float32)
    exact = x.astype(np.float64).sum(1).astype(np.float32)
    assert agree(exact, np.add.accumulate(x, 1)[:, -1], limit)
    assert not agree(exact, exact * np.float32(1.01), limit)
    assert not agree(exact, np.where(np.arange(4) == 1, np.nan, exact), limit)


def test_whole_numbers_must_be_equal() -> None:
    assert agree(np.array([1, 2]), np.array([1, 2]), 0.1)
    assert not agree(np.array([1000, 2]), np.array([1001, 2]), 0.1)


# ---- lt.tune -------------------------------------------------------------------------------------

def always_better(monkeypatch: pytest.MonkeyPatch, *lines: str) -> None:
    """Let the tuner believe that these candidates, which are all there are, take half the time."""
    monkeypatch.setattr(tuning, "Worker", lambda: _Stoppable(dict.fromkeys(lines, 0.5), lines))


class _Stoppable(InProcess):
    def stop(self) -> None:
        pass


@pytest.mark.slow
def test_winners_are_written_and_used(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    always_better(monkeypatch, LINE)
    a, b, kernel = product(23)
    expected = (a @ b).numpy()
    report = lt.tune(lambda: a @ b, seconds=20, path=tmp_path / "d.txt")
    key = f"{records.key_of(kernel)} {executor('cpu').target_label}: {LINE}"
    assert (tmp_path / "d.txt").read_text().splitlines()[2] == key
    tuned, = report.kernels
    assert (tuned.kernel.name, tuned.launches, tuned.found.decisions) == (kernel.name, 1, LINE)
    assert LINE in str(report).splitlines()[1] and str(report).startswith("kernel ")
    seen: list[str] = []
    with observers.told(observers.OnRun(
            lambda _, plan: seen.extend(p.describe() for p in plan.programs))):
        np.testing.assert_allclose((a @ b).numpy(), expected, rtol=1e-4, atol=1e-4)
    assert [s.split("\n")[0] for s in seen] == [f"{LINE} (given)"]


@pytest.mark.slow
def test_a_new_process_uses_the_file(tmp_path: Path) -> None:
    path = tmp_path / "d.txt"
    a, b, kernel = product(24)
    records.append(path, kernel, executor("cpu").target_label, LINE, "-")
    lt.load_decisions(path)
    np.save(tmp_path / "a.npy", a.numpy())
    np.save(tmp_path / "b.npy", b.numpy())
    program = tmp_path / "program.py"
    program.write_text(textwrap.dedent("""
        import numpy as np, lazyten as lt
        a, b = (lt.tensor(np.load(f"{name}.npy")) for name in "ab")
        np.save("c.npy", (a @ b).numpy())
    """))
    done = subprocess.run([sys.executable, program], cwd=tmp_path, check=True, text=True,
                          capture_output=True,
                          env={**os.environ, "LAZYTEN_DECISIONS": str(path), "DEBUG": "3"})
    assert f"{LINE} (given)" in done.stdout
    assert np.load(tmp_path / "c.npy").tobytes() == (a @ b).numpy().tobytes()


def test_the_kernels_of_a_jitted_function_are_found() -> None:
    a, b, _ = product(25)
    step = lt.jit(lambda x, y: (x @ y).relu())
    for _ in range(4):
        step(a, b)
    first, = tuning.launches_of(lambda: [step(a, b), step(b, a)])
    assert first.launches == 2
    assert first.device == "cpu" and "25_25" in first.kernel.name


def test_the_interpreter_has_nothing_to_decide() -> None:
    x = lt.tensor([1.0, 2.0], device="interpreter")
    assert lt.tune(lambda: x + 1, seconds=1).kernels == []


@pytest.mark.slow
def test_a_real_search_keeps_its_time_and_the_values() -> None:
    a, b, _ = product(48)
    step = lt.jit(lambda x, y: (x @ y).exp().sum(1))
    expected = [step(a, b).numpy() for _ in range(3)][-1]
    for seconds in (3, 30, 120):  # a busy machine may start no worker in three seconds
        start = time.perf_counter()
        report = lt.tune(lambda: step(a, b), seconds=seconds)
        assert time.perf_counter() - start < seconds + 17  # patience with a busy machine
        if sum(t.found.tried for t in report.kernels):
            break
    assert sum(t.found.tried for t in report.kernels) > 0
    assert not [t.found.problems for t in report.kernels if "wrong" in str(t.found.problems)]
    np.testing.assert_allclose(step(a, b).numpy(), expected, rtol=1e-4)


@pytest.mark.slow
def test_a_hanging_worker_costs_no_more_than_the_budget(monkeypatch: pytest.MonkeyPatch) -> None:
    sleeping = (sys.executable, "-c", "import time; time.sleep(100)")
    monkeypatch.setattr(tuning, "Worker", lambda: Worker(sleeping))
    a, b, _ = product(26)
    start = time.perf_counter()
    report = lt.tune(lambda: a @ b, seconds=1.5)
    assert time.perf_counter() - start < 20
    assert "no answer within" in report.kernels[0].found.problems["the kernel as it is"]


def test_an_error_of_the_function_comes_through() -> None:
    with pytest.raises(ZeroDivisionError):
        lt.tune(lambda: 1 // 0, seconds=1)
    assert observers.nobody()


@pytest.mark.few(1)
@pytest.mark.parametrize(("arguments", "message"), [
    ((3,), r"tune\(3\): give a function"), ((print, 0), "seconds=0.*above 0"),
    ((print, "long"), "seconds='long'"), ((print, float("nan")), "seconds=nan"),
    ((print, True), "seconds=True")])
def test_mistakes_are_named(arguments: Any, message: str) -> None:
    with pytest.raises(lt.ArgumentError, match=message):
        lt.tune(*arguments)


def test_a_file_that_cannot_be_read_is_found_before_the_search(tmp_path: Path) -> None:
    (tmp_path / "d.txt").write_text("what?\n")
    with pytest.raises(lt.ArgumentError, match=r"d\.txt:1"):
        lt.tune(lambda: None, path=tmp_path / "d.txt")


def test_tuning_inside_a_jitted_function_is_refused() -> None:
    with pytest.raises(lt.JitError, match=r"lt\.tune"):
        lt.jit(fullgraph=True)(lambda x: (lt.tune(lambda: x, seconds=1), x)[1])(some(2))


class Terminal(io.StringIO):
    """What tqdm takes for a terminal."""

    def isatty(self) -> bool:
        return True


def drawn(stream: io.StringIO) -> str:
    """What a search of 10 seconds, which have passed, shows at its begin and end."""
    progress = tuning.Progress(stream)
    progress.start -= 10
    progress.begin("reduce_3", 0, 2, progress.start + 10)
    progress.show()
    progress.end()
    return stream.getvalue()


def test_the_bar_says_how_far_the_search_is() -> None:
    assert "100%" in drawn(Terminal())
    assert "10/10 s kernel 1 of 2: reduce_3" in drawn(Terminal())


def test_no_bar_is_shown_where_there_is_no_terminal() -> None:
    assert drawn(io.StringIO()) == ""


def test_no_bar_is_shown_where_tqdm_is_not_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tuning, "tqdm", None)
    assert drawn(Terminal()) == ""


def test_random_inputs_are_of_the_kernels_types() -> None:
    rng = np.random.default_rng(0)
    for dtype in (lt.float16, lt.bfloat16, lt.float64, lt.int8, lt.uint64, lt.bool_):
        values = trial.random_values(rng, dtype, 100)
        assert values.dtype == dtype.numpy and values.shape == (100,)
        assert len(np.unique(values)) > 1
