"""The benchmarks' table and checks, on a tiny case and made-up timings: no clock decides a test."""
from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

import lazyten as lt
from benchmarks import decisions, programs, worker
from benchmarks.__main__ import main
from benchmarks.case import Case, expression
from benchmarks.cases import CASES, convolve, input_gradient, lenet, weight_gradient
from benchmarks.frameworks import NUMPY, REFERENCE, load, usable_cores
from benchmarks.lenet import initial_weights
from benchmarks.lenet_numpy import NumpyLenet
from benchmarks.measure import (
    NOT_WRITTEN,
    Row,
    Timing,
    calibrate,
    enough,
    interleave,
    measure,
    rotated,
)
from benchmarks.models import MODELS
from benchmarks.roofline import CHAINS, compiled, lanes, multiply_add_code
from benchmarks.table import table_lines
from benchmarks.worker import Runner


@pytest.fixture(autouse=True)
def settled(monkeypatch: pytest.MonkeyPatch) -> None:
    """What conftest.py has settled stays so: a Runner, which is alone in its process, has all
    objects looked at before each case, and here a hundred thousand are of other tests."""
    monkeypatch.setattr(worker, "gc", SimpleNamespace(collect=int, freeze=int, unfreeze=int))


TINY = Case("tiny", expression(lambda f, a, b: f.relu(a @ b), (3, 4), (4, 2)))


class FakeTimer:
    """A framework whose every call takes `seconds`, by its own account."""

    def __init__(self, seconds: float, problem: str = "") -> None:
        self.seconds = seconds
        self.problem = problem
        self.asked: list[int] = []

    def prepare(self, name: str) -> str:
        return self.problem

    def time(self, loops: int) -> float:
        self.asked.append(loops)
        return self.seconds


def cells(line: str) -> list[str]:
    return re.split(r" {2,}", line)


def test_the_table_shows_medians_minima_rates_and_which_is_faster() -> None:
    row = Row("multiply", {"lazyten": Timing((0.004, 0.001, 0.002)), "numpy": Timing((0.005,)),
                           "torch": Timing((0.001,))}, work=4e6, unit="FLOP")
    heading, rule, line = table_lines([row], ["lazyten", "numpy", "torch"])[:3]
    assert cells(heading) == ["median (minimum)", "lazyten", "numpy", "torch",
                              "lazyten / numpy", "lazyten / torch"]
    assert set(rule) == {"-"}
    assert cells(line) == ["multiply", "2 ms (1 ms) 2 GFLOP/s", "5 ms (5 ms) 0.8 GFLOP/s",
                           "1 ms (1 ms) 4 GFLOP/s", "0.40, 2.5x faster", "2.00, 2.0x slower"]
    assert heading.index("torch ") == line.index("1 ms (1 ms) 4"), "columns are aligned"


def test_a_framework_that_failed_has_its_error_in_the_cell_and_in_one_note() -> None:
    rows = [Row(name, {"lazyten": "ValueError: no\nsuch thing", "numpy": Timing((1e-6,))})
            for name in ("one", "two")]
    lines = table_lines(rows, ["lazyten", "numpy"])
    assert cells(lines[2]) == ["one", "ValueError: no such thing", "1 us (1 us)", "-"]
    assert lines[-1:] == ["note: lazyten: ValueError: no such thing [one; two]"]


def test_rates_are_shown_as_shares_of_the_machines_limits() -> None:
    rows = [Row("copy", {"numpy": Timing((0.002,))}, work=4e6, unit="B"),
            Row("multiply", {"numpy": Timing((0.002,))}, work=4e6, unit="FLOP")]
    lines = table_lines(rows, ["numpy"], {"FLOP": 8e9, "B": 4e9})
    assert cells(lines[2])[1] == "2 ms (2 ms) 2 GB/s 50%"
    assert cells(lines[3])[1] == "2 ms (2 ms) 2 GFLOP/s 25%"
    assert lines[-2].startswith("100% is 8 GFLOP/s, multiply-adds in registers, or 4 GB/s")


def test_a_row_that_a_framework_does_not_have_is_a_dash_without_a_note() -> None:
    lines = table_lines([Row("one", {"numpy": NOT_WRITTEN})], ["numpy"])
    assert cells(lines[2]) == ["one", "-"]
    assert not any("note" in line for line in lines)


def test_the_multiply_adds_of_the_roofline_are_computed() -> None:
    engine, peak = compiled(multiply_add_code(lanes()))
    # One step makes n / 2 + 1 of each start n = 0..CHAINS-1; the first counts twice.
    assert peak(1) == sum(n / 2 + 1 for n in range(CHAINS)) + 1
    assert engine is not None


def test_every_framework_has_one_turn_a_round_and_none_always_goes_first() -> None:
    order: list[str] = []
    interleave({name: lambda name=name: order.append(name) or 1.0 for name in "abc"},
               rounds={"a": 3, "b": 3, "c": 3})
    assert "".join(order) == "abcbcacab"


def test_a_slow_framework_has_fewer_rounds_and_at_least_three() -> None:
    assert enough(9, turn_s=0.03, seconds=0.03) == 9
    assert enough(9, turn_s=0.03, seconds=0.1) == 5
    assert enough(9, turn_s=0.03, seconds=5.0) == 3
    results = interleave({"fast": lambda: 1.0, "slow": lambda: 2.0}, {"fast": 4, "slow": 2})
    assert results == {"fast": Timing((1.0,) * 4), "slow": Timing((2.0,) * 2)}


def test_a_rotation_of_nothing_is_nothing() -> None:
    assert rotated([], 3) == []


@pytest.mark.parametrize(("seconds", "loops"), [(0.001, 30), (1.0, 1), (float("nan"), 1)])
def test_a_turn_is_filled_with_calls_but_has_at_least_one(seconds: float, loops: int) -> None:
    counted, turn = calibrate(FakeTimer(seconds), turn_s=0.0301)
    assert (counted, turn) == (loops, pytest.approx(loops * seconds, nan_ok=True))


def test_a_wrong_or_failing_framework_is_never_timed() -> None:
    wrong, dying = FakeTimer(1e-9, problem="not equal"), FakeTimer(float("nan"))
    timers = {"right": FakeTimer(0.5), "wrong": wrong, "dying": dying}
    results = measure("tiny", timers, rounds=2, turn_s=0.01)
    assert results == {"right": Timing((0.5, 0.5)), "wrong": "not equal", "dying": "failed"}
    assert wrong.asked == []


@pytest.mark.slow
def test_a_right_result_is_accepted_and_a_wrong_one_is_named() -> None:
    cases = {"tiny": TINY}
    assert Runner(NUMPY, cases).prepare("tiny") == ""
    wrong = replace(NUMPY, relu=lambda x: np.maximum(x, 0) + np.float32(1e-3))
    assert Runner(wrong, cases).prepare("tiny").startswith("AssertionError: \nNot equal")


def test_a_result_of_another_shape_is_wrong_even_if_it_broadcasts() -> None:
    grown = replace(NUMPY, relu=lambda x: np.maximum(x, 0)[None])
    assert "shapes" in Runner(grown, {"tiny": TINY}).prepare("tiny")


def test_numpys_lenet_gradients_are_the_slopes_of_its_loss() -> None:
    random = np.random.default_rng(2)
    images, labels = random.random((3, 1, 28, 28)), random.integers(0, 10, 3)
    model = NumpyLenet([REFERENCE.array(w) for w in initial_weights().values()], 0.1, 0.9)
    _, gradients = model.loss_and_gradients(images, labels)
    for weight, gradient in zip(model.weights, gradients, strict=True):
        direction = random.standard_normal(weight.shape)
        losses = []
        for step in (1e-6, -2e-6):  # there and back past the start
            weight += step * direction
            losses.append(model.loss_and_gradients(images, labels)[0])
        weight += 1e-6 * direction
        slope = (losses[0] - losses[1]) / 2e-6
        np.testing.assert_allclose(slope, (gradient * direction).sum(), rtol=1e-4, atol=1e-7)


FRAMEWORKS = [pytest.param("torch", marks=pytest.mark.torch), "lazyten"]


@pytest.mark.few(1)
@pytest.mark.parametrize("operation", [convolve, input_gradient, weight_gradient])
@pytest.mark.parametrize("framework", FRAMEWORKS)
@pytest.mark.parametrize("options", [(1, 0), (2, 1), (1, 2)])
def test_convolutions_and_their_gradients_are_numpys(
    framework: str, operation: Callable[..., object], options: tuple[int, int],
) -> None:
    stride, padding = options
    size = (9 + 2 * padding - 3) // stride + 1
    inputs = [(2, 3, 9, 9), (4, 3, 3, 3)]
    if operation is not convolve:
        inputs = [(2, 4, size, size), *inputs]
    case = Case("conv", expression(partial(operation, options), *inputs))
    assert Runner(load(framework, threads=1), {"conv": case}).prepare("conv") == ""


@pytest.mark.few(1)
@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_attention_and_its_gradients_are_numpys(framework: str) -> None:
    shapes = [(1, 2, 5, 4)] * 4
    forward = Case("forward", expression(lambda f, *x: f.attention(*x), *shapes[:3]))
    both = Case("both", expression(lambda f, *x: f.attention_gradients(*x), *shapes))
    runner = Runner(load(framework, threads=1), {"forward": forward, "both": both})
    assert (runner.prepare("forward"), runner.prepare("both")) == ("", "")


@pytest.mark.few(1)
@pytest.mark.parametrize("name", ["matmul 64 tn", "conv LeNet 2nd, weight gradient",
                                  "softmax 64x10", "one call of 10 tiny products",
                                  "LeNet step, batch 32"])
def test_lazyten_gives_what_a_row_expects(name: str) -> None:
    cases = {case.name: case for case in CASES}
    assert Runner(load("lazyten", usable_cores()), cases).prepare(name) == ""


def test_rows_have_names_of_their_own() -> None:
    assert len({case.name for case in CASES}) == len(CASES)


@pytest.mark.torch
@pytest.mark.parametrize("name", sorted(MODELS))
def test_a_models_loss_is_torchs(name: str) -> None:
    torch = pytest.importorskip("torch")
    model = MODELS[name]
    x, y = model.batch(np.random.default_rng(1))
    losses = [model.loss(library, {k: framework.array(v) for k, v in model.parameters().items()},
                         framework.array(x), framework.array(y)).item()
              for library, framework in ((lt, load("lazyten", usable_cores())),
                                         (torch, load("torch", threads=1)))]
    assert losses[0] == pytest.approx(losses[1], rel=1e-5)


@pytest.mark.torch
@pytest.mark.parametrize("name", sorted(MODELS))
def test_a_models_flops_are_those_that_torch_counts(name: str) -> None:
    torch = pytest.importorskip("torch")
    counter = pytest.importorskip("torch.utils.flop_counter").FlopCounterMode(display=False)
    framework, model = load("torch", threads=1), MODELS[name]
    p = {k: framework.array(v).requires_grad_() for k, v in model.parameters().items()}
    x, y = (framework.array(a) for a in model.batch(np.random.default_rng(1)))
    with counter:
        model.loss(torch, p, x, y).backward()
    assert model.flops == counter.get_total_flops()


def test_every_row_that_computes_has_a_share_of_the_machines_limit() -> None:
    without = [case.name for case in CASES if not case.work or case.unit not in ("FLOP", "B")]
    # Some measure Python alone; the others are whole programs, whose work nobody has counted.
    small = ["one call of 20 tiny tensors", "one small operation", "a small sum fetched, eager",
             "a small update in place, eager"]
    assert without == [*small, *[case.name for case in programs.rows()]]


@pytest.mark.torch
def test_numpys_training_steps_have_torchs_losses() -> None:
    framework = load("torch", threads=1)
    assert Runner(framework, {"step": lenet(8)}).prepare("step") == ""


def test_the_command_prints_a_row_and_keeps_its_samples(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch,
) -> None:
    for variable in ("OMP_NUM_THREADS", "LAZYTEN_NUM_THREADS", "XLA_FLAGS", "DEVICE"):
        monkeypatch.setenv(variable, "")  # restored afterwards
    output = tmp_path / "samples.json"
    main(["--quick", "--threads", "1", "--rounds", "2", "--frameworks",
          "numpy,absent,numpy:opencl,lazyten:gpu9",
          "--rows", "^softmax 64x10$", "--output", str(output)])
    printed = capsys.readouterr().out.splitlines()
    assert "threads: 1" in printed
    assert "note: absent is not installed: its column is left out" in printed
    assert "note: numpy:opencl is not installed: its column is left out" in printed
    assert sum(line.startswith("softmax 64x10 ") for line in printed) == 1
    [row] = json.loads(output.read_text())["rows"]
    assert len(row["results"]["numpy"]["samples_s"]) == 2
    assert "there is no device 'gpu9'" in row["results"]["lazyten:gpu9"]


def test_kernels_of_a_network_are_timed_as_decided_and_otherwise(
        capsys: pytest.CaptureFixture[str]) -> None:
    threads = lt.get_num_threads()
    try:
        decisions.main(["lenet", "--kernels", "2", "--others", "2"])
    finally:
        lt.set_num_threads(threads)
    _, net, head, *rows = capsys.readouterr().out.splitlines()
    assert net == "lenet" and head.startswith("kernel ") and len(rows) == 2
    for line in rows:
        name, launches, *figures = line.split()[:5]
        assert name.startswith("reduce_") and int(launches) > 0
        assert all(float(figure) > 0 for figure in figures)
