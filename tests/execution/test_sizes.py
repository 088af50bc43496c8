"""Code that is not jitted, at many sizes: right at each, and after a few nothing is scheduled or
compiled any more."""
from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from example_counts import examples
from hypothesis import given
from hypothesis import strategies as st
from sized_programs import (
    FUNCTIONS,
    STEPS,
    Array,
    Attending,
    Function,
    Recurrent,
    convolutional,
    perceptron,
    rows,
    series,
    tensor,
    texts,
    values,
)

import lazyten as lt
from lazyten import CheckError, nn
from lazyten.execution import frame_runs
from lazyten.execution.plans import making, varying
from lazyten.schedule import schedule
from lazyten.storage.device import executor


def agree(function: Function, sizes: list[int], columns: int = 5) -> None:
    """A function is on cpu what it is on the interpreter, at these sizes in this order; jitted,
    too."""
    jitted = lt.jit(function)
    for n in sizes:
        x = values(n, columns, seed=n)
        expected = function(tensor(x, "interpreter")).numpy()
        for mine in (function, jitted):
            np.testing.assert_allclose(mine(tensor(x, "cpu")).numpy(), expected, rtol=1e-4,
                                       atol=1e-5, err_msg=str(n))


MIXED = [37, 64, 48, 20, 33, 50, 63, 16, 21, 40, 41, 36, 60, 5, 1, 9, 31, 32, 128, 90]


@pytest.mark.few(2)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_function_is_right_at_every_size(name: str) -> None:
    agree(FUNCTIONS[name], MIXED)


@pytest.mark.slow
@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_function_is_right_at_sizes_in_any_order(name: str) -> None:
    agree(FUNCTIONS[name], [int(n) for n in
                            np.random.default_rng(2).permutation(np.arange(1, 141))[:60]])


@pytest.mark.slow
@examples(7)
@given(st.lists(st.sampled_from(range(len(STEPS))), min_size=1, max_size=4),
       st.lists(st.integers(1, 70), min_size=8, max_size=14, unique=True))
def test_random_functions_are_right_at_random_sizes(numbers: list[int], sizes: list[int]) -> None:
    def function(x: lt.Tensor) -> lt.Tensor:
        for number in numbers:
            x = STEPS[number](x)
        return x
    agree(function, sizes, 6)


@pytest.mark.slow
@examples(4)
@given(st.lists(st.tuples(st.integers(8, 20), st.integers(8, 40)), min_size=8, max_size=14,
                unique=True))
def test_two_sizes_vary_apart(sizes: list[tuple[int, int]]) -> None:
    for a, b in sizes:
        x, y = values(a, b, seed=a), values(b, 7, seed=b)
        mine, expected = ((p @ q).softmax(1).sum(0) / a + q.mean() for p, q in (
            (tensor(x, d), tensor(y, d)) for d in ("cpu", "interpreter")))
        np.testing.assert_allclose(mine.numpy(), expected.numpy(), rtol=1e-4, atol=1e-5)


def test_a_float_may_be_another_at_one_size() -> None:
    def scaled(x: lt.Tensor) -> lt.Tensor:
        n = x.shape[0]
        return x * (0.7 if n == 37 else 0.5) + (x * (0.0 if n == 41 else 3.0 / n)).sum()
    agree(scaled, [60, 20, 33, 50, 55, 45, 37, 41, 38, 64, 63, 36, 40])


def test_a_whole_number_may_be_another_at_one_size() -> None:
    def shifted(x: lt.Tensor) -> lt.Tensor:
        n = x.shape[0]
        return x + lt.full((n, 1), 7 if n == 37 else n, device=x.device) * 2
    agree(shifted, [60, 20, 33, 50, 55, 45, 37, 41, 38, 64, 63, 36, 40])


@pytest.mark.slow
def test_threads_may_meet_sizes_of_one_family_at_once() -> None:
    sizes = [int(n) for n in np.random.default_rng(3).permutation(np.arange(8, 70))]
    function = FUNCTIONS["causal"]
    expected = {n: function(tensor(values(n, 5, seed=n), "interpreter")).numpy() for n in sizes}

    def wrong(own: list[int]) -> list[int]:
        return [n for n in own if not np.allclose(
            function(tensor(values(n, 5, seed=n), "cpu")).numpy(), expected[n], 1e-4, 1e-5)]
    with ThreadPoolExecutor(4) as pool:
        assert [*pool.map(wrong, (sizes[i:] + sizes[:i] for i in (0, 15, 30, 45)))] == [[]] * 4


def test_a_place_that_varies_is_no_size() -> None:
    x = values(50, 4)
    mine, expected = tensor(x, "cpu"), tensor(x, "interpreter")
    for i in [*range(3, 30), 44, 46, 45]:
        found, wanted = (t[i:i + 4].flip(1).cumsum(0).numpy() for t in (mine, expected))
        np.testing.assert_allclose(found, wanted, rtol=1e-5)


def test_what_goes_wrong_at_sizes_that_nobody_asked_for_is_nobodys_error(
        monkeypatch: pytest.MonkeyPatch) -> None:
    looked = []

    def failing(*args: object) -> None:
        looked.append(args)
        raise ZeroDivisionError
    monkeypatch.setattr(varying, "_look_at", failing)
    agree(FUNCTIONS["softmax along"], list(range(33, 48)))
    assert looked


def test_what_checks_at_every_size_finds_what_is_wrong_at_each() -> None:
    def function(x: lt.Tensor) -> lt.Tensor:
        return (x.abs() + 1).log().sum(1) + (x.amax() - 1).sqrt() * 0.5
    sizes = MIXED[:12]
    for n in sizes:
        function(lt.ones(n, 5)).realize()
    for n in sizes:
        with lt.check("nan"):
            assert function(lt.ones(n, 5)).numpy().shape == (n,)
            with pytest.raises(CheckError, match="is nan"):
                function(lt.zeros(n, 5) * n).realize()


# ---- training, and what it costs ----------------------------------------------------------------

def work_at(step: Callable[[int], object], sizes: list[int]) -> tuple[int, int]:
    """How many kernels are scheduled and how many texts compiled at these sizes."""
    compiled: list[object] = []
    scheduled: list[object] = []
    runtime = type(executor("cpu"))

    def noted(function: Callable[..., object], of: list[object]) -> Callable[..., object]:
        def noting(*args: object, **kwargs: object) -> object:
            of.append(args)
            return function(*args, **kwargs)
        return noting
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(runtime, "compile", noted(runtime.compile, compiled))
        patch.setattr(schedule, "make_step", noted(schedule.make_step, scheduled))
        for n in sizes:
            step(n)
    return len(scheduled), len(compiled)


def generating() -> Callable[[int], object]:
    lt.manual_seed(1)
    net = Attending().eval()

    def step(n: int) -> None:
        with lt.no_grad():
            net(lt.tensor(np.arange(n)[None] % 11)).argmax(-1).numpy()
    return step


def training(make: Callable[[], nn.Module], batch: Callable[[int], tuple[lt.Tensor, lt.Tensor]],
             ) -> Callable[[int], object]:
    lt.manual_seed(4)
    net = make()
    optimizer = lt.optim.SGD(net.parameters(), lr=0.05, momentum=0.9)

    def step(n: int) -> Array:
        x, y = batch(n)
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(net(x), y.reshape(-1))
        loss.backward()
        optimizer.step()
        return loss.numpy()
    return step


def jitted_training() -> Callable[[int], object]:
    lt.manual_seed(4)
    net = perceptron()
    optimizer = lt.optim.AdamW(net.parameters(), lr=0.01)

    @lt.jit
    def step(x: lt.Tensor, y: lt.Tensor) -> lt.Tensor:
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(net(x), y)
        loss.backward()
        optimizer.step()
        return loss
    return lambda n: step(*rows(n, 7)).numpy()


STEPS_AT: dict[str, Callable[[], Callable[[int], object]]] = {
    "a text that grows": generating,
    "texts": lambda: training(Attending, texts),
    "batches": lambda: training(perceptron, lambda n: rows(n, 7)),
    "batches of images": lambda: training(convolutional, lambda n: rows(n, 1, 8, 8)),
    "jitted batches": jitted_training,
    "series": lambda: training(Recurrent, series),
}


def forget_plans() -> None:
    making._plans.clear()
    frame_runs.forget()


@pytest.mark.slow
@pytest.mark.parametrize("name", [n for n in STEPS_AT if n != "a text that grows"])
def test_training_at_many_sizes_is_that_of_the_interpreter(name: str) -> None:
    sizes = [20, 33, 9, 50, 31, 47, 12, 28, 60, 64, 3, 20, 21]  # from the seventh on by formulas
    if name == "series":  # which is, from the seventeenth on
        sizes += [19, 44, 30, 36, 61, 13, 24, 16]
    found = list(map(STEPS_AT[name](), sizes))
    with lt.device("interpreter"):
        expected = list(map(STEPS_AT[name](), sizes))
    np.testing.assert_allclose(found, expected, rtol=1e-3)


@pytest.mark.slow
def test_a_plan_by_formulas_can_be_looked_at(tmp_path: Path) -> None:
    step = STEPS_AT["batches"]()
    for n in range(40, 62):
        step(n)
    with lt.profile() as profile:
        step(61)
    assert "reduce" in profile.table()
    page = tmp_path / "page.html"
    lt.view(lambda: step(61), str(page))
    assert "reduce" in page.read_text("utf8")


@pytest.mark.slow
@pytest.mark.parametrize("name", [n for n in STEPS_AT if n != "series"])
def test_after_some_sizes_nothing_is_scheduled_or_compiled(name: str) -> None:
    forget_plans()  # of other tests, which would leave few sizes to be met
    step = STEPS_AT[name]()
    for n in (*range(40, 60), *range(64, 72)):
        step(n)
    assert work_at(step, list(range(73, 110))) == (0, 0)
