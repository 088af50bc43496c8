"""lt.jit(dynamic=...): one function at many sizes is the function without jit, with few kernels."""
from __future__ import annotations

import gc
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

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
    Recurrent,
    convolutional,
    perceptron,
    rows,
    series,
    tensor,
    texts,
    values,
)
from slow_rows import slow_but

import lazyten as lt
from lazyten import nn
from lazyten.support import observers
from lazyten.support.observers import Observer, Span

N = lt.Dim("n", 1, 64)


class Compiled(Observer):
    """How many kernels a device's compiler was given."""

    def __init__(self) -> None:
        self.kernels = 0

    def compiled(self, names: str, span: Span) -> None:
        self.kernels += len(names.split(", "))


@contextmanager
def counted() -> Iterator[Compiled]:
    found = Compiled()
    with observers.told(found):
        yield found


@pytest.mark.few(2)
@pytest.mark.parametrize("name", slow_but(FUNCTIONS, "elementwise", "sum of rows", "softmax along",
                                          "sorted", "convolved", "gathered", "padded", "causal"))
def test_a_function_gives_at_every_size_what_it_gives_without_jit(name: str, device: str) -> None:
    function = FUNCTIONS[name]
    jitted = lt.jit(lambda x: function(x), dynamic={"x": {0: N}})
    for n in (37, 64, 5, 1, 48, 18, 33, 20, 21, 50, 63, 16, 2):
        x = tensor(values(n, 5, seed=n), device)
        np.testing.assert_allclose(jitted(x).numpy(), function(x).numpy(), rtol=1e-5, atol=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_function_is_right_at_all_sizes_in_any_order(name: str) -> None:
    function = FUNCTIONS[name]
    jitted = lt.jit(lambda x: function(x), dynamic={"x": {0: lt.Dim("n", 1, 140)}})
    for n in np.random.default_rng(1).permutation(np.arange(1, 141)):
        x = tensor(values(int(n), 5, seed=int(n)), "cpu")
        expected = function(x.to("interpreter"))
        np.testing.assert_allclose(jitted(x).numpy(), expected.numpy(), rtol=1e-4, atol=1e-5)


@pytest.mark.slow
@examples(12)
@given(st.lists(st.sampled_from(range(len(STEPS))), min_size=1, max_size=4),
       st.lists(st.integers(1, 64), min_size=2, max_size=7))
def test_random_functions_are_right_at_random_sizes(numbers: list[int], sizes: list[int]) -> None:
    def function(x: lt.Tensor) -> lt.Tensor:
        for number in numbers:
            x = STEPS[number](x)
        return x
    jitted = lt.jit(function, dynamic={"x": {0: N}})
    for n in sizes:
        x = tensor(values(n, 6, seed=n), "cpu")
        expected = function(x.to("interpreter"))  # which compiles nothing
        np.testing.assert_allclose(jitted(x).numpy(), expected.numpy(), rtol=1e-4, atol=1e-5)


@pytest.mark.slow
@examples(8)
@given(st.lists(st.tuples(st.integers(1, 20), st.integers(1, 40)), min_size=3, max_size=8))
def test_two_sizes_vary_apart(sizes: list[tuple[int, int]]) -> None:
    def function(x: lt.Tensor, y: lt.Tensor) -> lt.Tensor:
        return (x @ y).softmax(1).sum(0) / x.shape[0] + y.mean()
    dims = {"x": {0: lt.Dim("a", 1, 20), 1: lt.Dim("b", 1, 40)}, "y": {0: lt.Dim("b", 1, 40)}}
    jitted = lt.jit(function, dynamic=dims)
    for a, b in sizes:
        x, y = tensor(values(a, b, seed=a), "cpu"), tensor(values(b, 7, seed=b), "cpu")
        expected = function(x.to("interpreter"), y.to("interpreter"))
        np.testing.assert_allclose(jitted(x, y).numpy(), expected.numpy(), rtol=1e-5, atol=1e-6)


# ---- training ------------------------------------------------------------------------------------

Batch = Callable[[int], tuple[lt.Tensor, lt.Tensor]]
TRAININGS: dict[str, tuple[Callable[[], nn.Module], Batch, dict[str, dict[int, lt.Dim]]]] = {
    "perceptron": (perceptron, lambda n: rows(n, 7), {"x": {0: N}, "y": {0: N}}),
    "convolutions": (convolutional, lambda n: rows(n, 1, 8, 8), {"x": {0: N}, "y": {0: N}}),
    "attention": (Attending, texts, {"x": {1: N}, "y": {-1: N}}),
    "recurrence": (Recurrent, series, {"x": {1: N}}),
}


def losses(name: str, sizes: list[int], jitted: bool) -> tuple[list[float], list[Array]]:
    """Of a step at each of these sizes, and the parameters afterwards."""
    make, batch, dims = TRAININGS[name]
    lt.manual_seed(4)
    net = make()
    optimizer = lt.optim.SGD(net.parameters(), lr=0.05, momentum=0.9)

    def step(x: lt.Tensor, y: lt.Tensor) -> lt.Tensor:
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(net(x), y.reshape(-1))
        loss.backward()
        optimizer.step()
        return loss
    call = lt.jit(step, dynamic=dims, fullgraph=True) if jitted else step
    found = [float(call(*batch(n)).item()) for n in sizes]
    return found, [p.numpy() for p in (*net.parameters(), *net.buffers())]


@pytest.mark.slow
@pytest.mark.parametrize("name", TRAININGS)
def test_training_with_batches_of_many_sizes_is_training_without_jit(name: str) -> None:
    sizes = [20, 20, 20, 13, 9, 33, 34, 64, 47, 3, 19]
    with lt.device("interpreter"):  # which compiles nothing: tests/execution has eager steps
        eager, expected = losses(name, sizes, False)
    mine, found = losses(name, sizes, True)
    np.testing.assert_allclose(mine, eager, rtol=1e-4)
    for a, b in zip(found, expected, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-3, atol=1e-5)


@pytest.mark.slow
def test_random_numbers_are_those_without_jit() -> None:
    def noisy(x: lt.Tensor) -> lt.Tensor:
        return nn.functional.dropout(x, 0.4) + lt.randn(x.shape[0], 3)
    jitted = lt.jit(noisy, dynamic={0: {0: N}})
    found: list[list[Array]] = []
    for function in (noisy, jitted):
        lt.manual_seed(3)
        found.append([function(lt.ones(n, 3)).numpy() for n in (9, 40, 21, 9, 22)])
    for a, b in zip(*found, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-6, atol=1e-6)


# ---- what it is for ------------------------------------------------------------------------------

@pytest.mark.slow
def test_kernels_are_compiled_for_few_sizes() -> None:
    def function(x: lt.Tensor) -> lt.Tensor:
        return (x @ x.T).softmax(1) @ x
    jitted = lt.jit(function, dynamic={"x": {0: lt.Dim("n", 1, 128)}})
    x = lt.tensor(values(128, 16))
    for n in (40, 41, 42, 44, 48, 64, 100, 127, 128, 33):
        jitted(x[:n])
    with counted() as later:
        for n in (57, 35, 91, 73, 121, 85, 69, 111):
            np.testing.assert_allclose(jitted(x[:n]).numpy(), function(x[:n]).numpy(), rtol=1e-5,
                                       atol=1e-6)
    eager = later.kernels
    with counted() as later:
        for n in (59, 37, 93, 75, 119, 83, 67, 113):
            jitted(x[:n]).numpy()
    assert later.kernels == 0 < eager


def test_a_last_smaller_batch_of_a_region_compiles_nothing() -> None:
    jitted = lt.jit(lambda x: (x.exp() - 1).sum(1), dynamic={"x": {0: lt.Dim("n", 1, 256)}})
    x = lt.tensor(values(256, 10))
    jitted(x[:201])
    with counted() as later:
        found = jitted(x[:97]).numpy()
    assert later.kernels == 0
    np.testing.assert_allclose(found, (np.exp(x.numpy()[:97]) - 1).sum(1), rtol=1e-4, atol=1e-5)


def test_python_may_branch_on_a_size() -> None:
    @lt.jit(dynamic={"x": {0: N}})
    def function(x: lt.Tensor) -> lt.Tensor:
        return x * 2 if x.shape[0] > 30 else x[: x.shape[0] // 2] - 1
    for n in (40, 20, 33, 30, 31, 50, 12):
        x = values(n, 3)
        expected = x * 2 if n > 30 else x[: n // 2] - 1
        np.testing.assert_array_equal(function(lt.tensor(x)).numpy(), expected)


def test_a_float_may_be_another_at_one_size() -> None:
    def scaled(x: lt.Tensor) -> lt.Tensor:
        n = x.shape[0]
        return x * (0.7 if n == 37 else 0.5) + (x * (0.0 if n == 41 else 3.0 / n)).sum()
    by_size = lt.jit(scaled, dynamic={0: {0: N}})
    for n in (60, 20, 33, 50, 37, 41, 38, 40):
        x = lt.tensor(values(n))
        np.testing.assert_allclose(by_size(x).numpy(), scaled(x).numpy(), rtol=1e-5, atol=1e-6)


EMPTY: dict[str, Callable[[lt.Tensor], Any]] = {
    "differences": lambda x: lt.diff(x, dim=0),
    "what is after 20": lambda x: (x[20:] * 2, x.sum(0), x[40:].exp()),
    "two parts": lambda x: lt.cat([x[:-3] * 2, x[9:].sin()]),
    "a matrix of none": lambda x: (x[10:] @ x[10:].T).softmax(-1)}


@pytest.mark.parametrize("name", EMPTY)
def test_what_has_no_elements_at_some_sizes_has_them_at_others(name: str) -> None:
    """Whatever size of a region comes first."""
    function = EMPTY[name]
    for first in (1, 9, 40):
        jitted = lt.jit(function, dynamic={"x": {0: N}})
        for n in (first, 1, 2, 9, 12, 20, 21, 32, 33, 40, 41, 64):
            x = lt.arange(3.0 * n).reshape(n, 3) / 50
            for found, expected in zip(*map(results, (jitted(x), function(x))), strict=True):
                assert found.shape == expected.shape
                np.testing.assert_allclose(found.numpy(), expected.numpy(), rtol=1e-5)


def results(given: lt.Tensor | tuple[lt.Tensor, ...]) -> tuple[lt.Tensor, ...]:
    return given if isinstance(given, tuple) else (given,)


def test_what_breaks_the_graph_runs_in_python_at_each_size() -> None:
    @lt.jit(dynamic={"x": {0: N}})
    def function(x: lt.Tensor) -> lt.Tensor:
        return x / x.max().item()
    for n in (9, 30, 31):
        x = values(n, 3)
        np.testing.assert_allclose(function(lt.tensor(x)).numpy(), x / x.max(), rtol=1e-6)


def test_looking_at_other_sizes_has_no_effects() -> None:
    seen: list[int] = []

    class Counting(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.calls = lt.zeros(())

        def forward(self, x: lt.Tensor) -> lt.Tensor:
            self.calls += 1
            return x.sum(0) * self.calls
    counting = Counting()
    jitted = lt.jit(counting, dynamic={"x": {0: N}})
    for number, n in enumerate((20, 41, 20, 3), 1):
        seen.append(n)
        x = values(n, 2)
        np.testing.assert_allclose(jitted(lt.tensor(x)).numpy(), x.sum(0) * number, rtol=1e-5)
    assert counting.calls.item() == len(seen)


def test_an_update_in_place_of_a_tensor_of_any_size() -> None:
    @lt.jit(dynamic={"x": {0: N}})
    def double(x: lt.Tensor) -> None:
        x *= 2
    for n in (30, 31, 48, 17):
        x = lt.tensor(values(n, 3))
        double(x)
        np.testing.assert_array_equal(x.numpy(), values(n, 3) * 2)


@pytest.mark.slow
def test_many_sizes_do_not_keep_memory_each() -> None:
    jitted = lt.jit(lambda x: ((x @ x.T).softmax(1) @ x).sum(0),
                    dynamic={"x": {0: lt.Dim("n", 1, 512)}})
    gc.collect()
    gc.disable()  # what is kept by a cycle is kept
    try:
        before = lt.memory_stats().in_use
        for n in range(330, 370):
            jitted(lt.ones(n, 4)).numpy()
        assert lt.memory_stats().in_use - before < 20 * 4 * 350 ** 2  # of scores of 40 sizes
    finally:
        gc.enable()


# ---- errors --------------------------------------------------------------------------------------

def add(x: lt.Tensor, y: lt.Tensor) -> lt.Tensor:
    return x + y


@pytest.mark.parametrize(("x", "y", "words"), [
    ((65, 2), (65, 2), "axis 0 of argument 'x' has size 65, but Dim('n', 1, 64) is from 1 to 64"),
    ((5, 2), (4, 2), "axis 0 of argument 'y' has size 4, and axis 0 of argument 'x' 5, but both"),
    ((5, 2), (), "argument 'y' has shape (), without the axis 0 of Dim('n', 1, 64)")])
def test_a_size_that_a_dim_does_not_have_is_an_error(x: tuple[int, ...], y: tuple[int, ...],
                                                     words: str) -> None:
    jitted = lt.jit(add, dynamic={"x": {0: N}, "y": {0: N}})
    with pytest.raises(lt.ShapeError) as caught:
        jitted(lt.ones(*x), y=lt.ones(*y))
    assert words in str(caught.value) and "jitted function add" in str(caught.value)
    assert jitted(lt.ones(3, 2), lt.ones(3, 2)).tolist() == [[2, 2]] * 3


@pytest.mark.parametrize(("make", "words"), [
    (lambda: lt.Dim("n", 0, 4), "at least 1"), (lambda: lt.Dim("n", 5, 4), "least to the greatest"),
    (lambda: lt.Dim("two words"), "its name is a word"), (lambda: lt.Dim("n", 1.0), "is no int"),
    (lambda: lt.Dim("n", True, 3), "is no int"),
    (lambda: lt.jit(add, dynamic={"z": {0: N}}), "there is no such argument of add(x, y)"),
    (lambda: lt.jit(add, dynamic={"x": {0: 5}}), "takes a dict of axes and their lazyten.Dim"),
    (lambda: lt.jit(add, dynamic=N), "give a dict"),
    (lambda: lt.jit(add, dynamic={"x": {0: N}, "y": {0: lt.Dim("n", 1, 9)}}), "one name are one")])
def test_what_is_no_dim_is_an_error(make: Callable[[], object], words: str) -> None:
    with pytest.raises(lt.ArgumentError) as caught:
        make()
    assert words in str(caught.value)


def test_an_argument_that_is_no_tensor_is_an_error() -> None:
    with pytest.raises(lt.ArgumentError, match="argument 'x' has axes in lt"):
        lt.jit(add, dynamic={"x": {0: N}})(3, lt.ones(2))


def test_a_failed_call_leaves_the_next_ones_right() -> None:
    jitted = lt.jit(add, dynamic={"x": {0: N}})
    with pytest.raises(lt.ShapeError):
        jitted(lt.ones(20, 3), lt.ones(20, 4))
    assert jitted(lt.ones(21, 3), lt.ones(3)).sum().item() == 126


# ---- without it ----------------------------------------------------------------------------------

def test_debug_hints_at_it_after_the_fifth_shape(monkeypatch: pytest.MonkeyPatch,
                                                 capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("DEBUG", "1")
    jitted = lt.jit(add)
    for n in range(2, 10):
        jitted(lt.ones(n, 2), lt.ones(n, 2)).numpy()
    lines = [line for line in capsys.readouterr().out.splitlines() if "dynamic" in line]
    assert len(lines) == 1
    assert "add has come with 5 sizes" in lines[0]
    assert "axis 0 of tensor 0, axis 0 of tensor 1" in lines[0]


def test_what_reductions_leave_over_takes_no_kernel_a_remainder() -> None:
    n = lt.Dim("n", 33, 128)
    product = lt.jit(lambda w, x: w @ x, dynamic={0: {1: n}, 1: {0: n}})
    for size in (120, 37, 46, 51, 60, 75, 83, 94, 101):
        w, x = lt.randn(4, size), lt.randn(size, 16)
        np.testing.assert_allclose(product(w, x).numpy(), w.numpy() @ x.numpy(), rtol=1e-4,
                                   atol=1e-4)
    assert product._sizes is not None and len(product._sizes.on("cpu")) <= 2
