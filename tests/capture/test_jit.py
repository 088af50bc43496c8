"""lt.jit: calling the jitted function is the same as calling the function, or it raises."""
from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from example_counts import examples
from hypothesis import given
from hypothesis import strategies as st
from tensor_values import equal

import lazyten as lt
from lazyten import nn
from lazyten.optim import SGD, Adam, AdamW, Optimizer

Array = np.ndarray[Any, Any]
Maker = Callable[[list[lt.Tensor]], Optimizer]
MAKERS: dict[str, Maker] = {
    "sgd": lambda ps: SGD(ps, lr=0.1), "adam": lambda ps: Adam(ps, lr=0.01, weight_decay=0.1),
    "momentum": lambda ps: SGD(ps, lr=0.1, momentum=0.9, nesterov=True),
    "dampening": lambda ps: SGD(ps, lr=0.1, momentum=0.9, dampening=0.2, weight_decay=0.1),
    "adamw": lambda ps: AdamW(ps, lr=0.01)}


def classifier(device: str) -> nn.Module:
    lt.manual_seed(5)
    layers = [nn.Linear(6, 8), nn.ReLU(), nn.Dropout(0.3), nn.Linear(8, 3)]
    return nn.Sequential(*layers).to(device=device)


def trained(name: str, device: str, steps: int, jitted: bool, zero: bool = True) -> list[Array]:
    """Losses, parameters, gradients and optimizer state after some steps."""
    net = classifier(device)
    optimizer = MAKERS[name](list(net.parameters()))

    def step(x: lt.Tensor, y: lt.Tensor) -> lt.Tensor:
        if zero:
            optimizer.zero_grad()
        loss = nn.functional.cross_entropy(net(x), y)
        loss.backward()
        optimizer.step()
        return loss

    call = lt.jit(step) if jitted else step
    rng = np.random.default_rng(0)
    losses = []
    for number in range(steps):
        optimizer.param_groups[0]["lr"] = 0.1 / (1 + number // 3)
        x = lt.tensor(rng.normal(size=(4, 6)).astype(np.float32), device=device)
        losses.append(call(x, lt.tensor(rng.integers(0, 3, 4), device=device)))
    values = [loss.numpy() for loss in losses]
    for p in net.parameters():
        assert p.grad is not None
        values += [p.numpy(), p.grad.numpy()]
        values += [np.asarray(v.numpy() if isinstance(v, lt.Tensor) else v)
                   for v in optimizer.state[p].values()]
    return values


@pytest.mark.few(6)
@pytest.mark.parametrize("name", MAKERS)
def test_training_with_dropout_and_a_schedule_is_the_same_bit_for_bit(
        name: str, device: str) -> None:
    steps = 20 if device == "cpu" else 5
    for a, b in zip(trained(name, device, steps, True), trained(name, device, steps, False),
                    strict=True):
        np.testing.assert_array_equal(a, b)


def test_gradients_add_up_over_calls_if_nobody_clears_them(device: str) -> None:
    for a, b in zip(trained("sgd", device, 4, True, zero=False),
                    trained("sgd", device, 4, False, zero=False), strict=True):
        np.testing.assert_array_equal(a, b)


def test_a_convolutional_network_trains_the_same_bit_for_bit() -> None:
    def run(jitted: bool) -> list[Array]:
        lt.manual_seed(1)
        net = nn.Sequential(nn.Conv2d(1, 4, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
                            nn.Flatten(), nn.Linear(64, 5))
        optimizer = SGD(list(net.parameters()), lr=0.05, momentum=0.9)

        def step(x: lt.Tensor, y: lt.Tensor) -> lt.Tensor:
            optimizer.zero_grad()
            loss = nn.functional.cross_entropy(net(x), y)
            loss.backward()
            optimizer.step()
            return loss

        call = lt.jit(step) if jitted else step
        rng = np.random.default_rng(0)
        losses = [call(lt.tensor(rng.normal(size=(3, 1, 8, 8)).astype(np.float32)),
                       lt.tensor(rng.integers(0, 5, 3))).numpy() for _ in range(6)]
        return losses + [p.numpy() for p in net.parameters()]
    for a, b in zip(run(True), run(False), strict=True):
        np.testing.assert_array_equal(a, b)


# ---- signatures ----------------------------------------------------------------------------------

@pytest.fixture
def counted(monkeypatch: pytest.MonkeyPatch) -> None:
    """sys.counted is 0: state of a module of Python's, into which jit does not look."""
    monkeypatch.setattr(sys, "counted", 0, raising=False)


def count() -> int:
    """Count on, so that nobody can see it coming."""
    sys.counted += 1  # type: ignore[attr-defined]
    return sys.counted  # type: ignore[attr-defined, no-any-return]


@pytest.mark.usefixtures("counted")
def test_a_call_with_the_same_signature_does_not_run_the_function_again() -> None:
    @lt.jit
    def f(x: lt.Tensor) -> lt.Tensor:
        count()
        return x * 2

    results = [f(lt.full((2,), k)) for k in range(6)]
    assert count() == 3  # the second time to check
    assert [r.tolist() for r in results] == [[2 * k, 2 * k] for k in range(6)]


def test_shape_dtype_static_value_nesting_and_grad_mode_each_trace_anew(device: str) -> None:
    @lt.jit
    def f(x: Any, k: Any = 1) -> lt.Tensor:
        x = x if isinstance(x, lt.Tensor) else x["a"] + x["b"][0]
        return x * k

    def ones(*shape: int, dtype: Any = lt.float32) -> lt.Tensor:
        return lt.ones(*shape, dtype=dtype, device=device)

    cases: list[tuple[tuple[Any, ...], Any]] = [
        ((ones(2),), [1, 1]), ((ones(3),), [1, 1, 1]), ((ones(2, dtype=lt.int64),), [1, 1]),
        ((ones(2), 3), [3, 3]), ((ones(2), 3.0), [3, 3]), ((ones(2), True), [1, 1]),
        (({"a": ones(2), "b": (ones(2),)}, 2), [4, 4]),
        (({"a": ones(2), "b": [ones(2)]}, 2), [4, 4])]
    for _ in range(3):
        for arguments, wanted in cases:
            assert equal(f(*arguments), wanted)
    assert f.cache_size == len(cases)
    with lt.no_grad():
        f(ones(2))
    assert f.cache_size == len(cases) + 1


def test_views_of_one_base_and_repeated_arguments_are_told_from_separate_ones() -> None:
    @lt.jit
    def f(a: lt.Tensor, b: lt.Tensor) -> lt.Tensor:
        a += 1
        return a + b

    x = lt.tensor([1.0, 2.0, 3.0, 4.0])
    assert equal(f(x[:2], x[2:]), [5, 7]) and equal(x, [2, 3, 3, 4])
    assert equal(f(x[:2], x[1:3]), [7, 7]) and equal(x, [3, 4, 3, 4])
    assert equal(f(x, x), [8, 10, 8, 10]) and equal(x, [4, 5, 4, 5])
    y = lt.zeros(2)
    assert equal(f(y, lt.ones(2)), [2, 2]) and equal(y, [1, 1])
    assert f.cache_size == 4


def test_an_argument_without_a_hash_is_refused_with_a_remedy() -> None:
    with pytest.raises(lt.JitError, match=r"wrap arrays in lazyten\.tensor"):
        lt.jit(lambda x: x)(np.ones(3))


def test_arguments_that_are_not_computed_yet_are_computed_first() -> None:
    f = lt.jit(lambda x: x * 2)
    for k in range(3):
        assert equal(f(lt.arange(3) + k), (np.arange(3) + k) * 2)


def test_it_decorates_methods_and_wraps_bound_methods_and_modules() -> None:
    class Counter:
        def __init__(self, start: float) -> None:
            self.total, self.step = lt.tensor(start), 1.0

        @lt.jit
        def add(self, x: lt.Tensor) -> lt.Tensor:
            self.total += x * self.step
            return self.total + 0

    a, b = Counter(1.0), Counter(10.0)
    assert [a.add(lt.tensor(2.0)).item() for _ in range(3)] == [3, 5, 7]
    assert b.add(lt.tensor(2.0)).item() == 12
    a.step = 0.5  # an attribute that is read: another trace
    assert a.add(lt.tensor(2.0)).item() == 8
    bound = lt.jit(b.total.add)
    assert bound(lt.tensor(1.0)).item() == 13
    net = nn.Linear(2, 2)
    with lt.no_grad():
        assert equal(lt.jit(net)(lt.ones(1, 2)), net(lt.ones(1, 2)))


@pytest.mark.usefixtures("counted")
def test_python_state_that_cannot_be_watched_is_found_at_the_second_call() -> None:
    f = lt.jit(fullgraph=True)(lambda x: x * count())
    f(lt.ones(2))
    with pytest.raises(lt.JitError, match="does something else when traced again"):
        f(lt.ones(2))
    f = lt.jit(lambda x: x * count())
    assert [f(lt.ones(1)).item() for _ in range(4)] == [3, 4, 5, 6]


# ---- results -------------------------------------------------------------------------------------

def test_results_in_a_list_are_distinct_and_keep_their_structure() -> None:
    @lt.jit
    def f(x: lt.Tensor) -> dict[str, Any]:
        y = x * 2
        return {"y": y, "parts": [y[:1], (y[1:], None)], "rank": 1, "x": x}

    given = [lt.tensor([float(k), k + 1.0]) for k in range(4)]
    results = [f(x) for x in given]
    for k, (x, result) in enumerate(zip(given, results, strict=True)):
        assert equal(result["y"], [2 * k, 2 * k + 2]) and result["rank"] == 1
        assert equal(result["parts"][1][0], [2 * k + 2]) and result["parts"][1][1] is None
        assert result["x"] is x
    results[3]["y"].zero_()  # the parts are views of it
    assert equal(results[3]["parts"][0], [0]) and equal(results[2]["y"], [4, 6])


total = lt.zeros(3)
KEPT: list[Callable[[lt.Tensor], tuple[lt.Tensor, ...]]] = [
    lt.jit(lambda x: (x + 1, x.sum(), x * 3)),
    lt.jit(lambda x: (x + 1, x.sum(), total.add_(x) * 3))]
"""Memory takes turns in another way where a tensor is updated in place."""


@examples(40)
@given(st.sampled_from(KEPT), st.lists(
    st.tuples(st.booleans(), st.booleans(), st.booleans()), min_size=3, max_size=9))
def test_results_that_are_kept_stay_what_they_are_whichever_others_are_dropped(
        function: Callable[[lt.Tensor], tuple[lt.Tensor, ...]],
        kept: list[tuple[bool, ...]]) -> None:
    total.zero_()
    seen: list[tuple[lt.Tensor, list[float]]] = []
    for number, keep in enumerate(kept):
        results = function(lt.full((3,), float(number)))
        last = number * 3 if function is KEPT[0] else sum(range(number + 1)) * 3
        wanted = [number + 1.0] * 3, [3.0 * number], [float(last)] * 3
        for chosen, result, value in zip(keep, results, wanted, strict=True):
            if chosen:
                seen.append((result.reshape(-1) * 1 if number % 2 else result, value))
        del result, results
    for result, value in seen:
        assert result.reshape(-1).tolist() == value


def test_an_argument_or_constant_given_back_is_not_changed_by_later_calls() -> None:
    f = lt.jit(lambda x: (x.reshape(2, 1), lt.tensor([1.0, 2.0])))
    x = lt.tensor([1.0, 2.0])
    view, constant = f(x)
    constant.zero_()
    x.zero_()
    assert equal(view, [[0], [0]]) and equal(f(x)[1], [1, 2])


def test_gradients_of_arguments_and_of_the_owner_of_a_view_are_set() -> None:
    @lt.jit
    def f(x: lt.Tensor) -> lt.Tensor:
        loss = (x * x).sum()
        loss.backward()
        return loss

    for k in (1.0, 2.0, 3.0):
        x = lt.tensor([k, 2 * k], requires_grad=True)
        loss = f(x)
        assert x.grad is not None and equal(x.grad, [2 * k, 4 * k])
        assert loss.requires_grad
        f(x.reshape(2, 1))
        assert equal(x.grad, [4 * k, 8 * k])
    with pytest.raises(lt.GradientError, match="backward was called"):
        loss.backward()


def test_a_saved_gradient_is_not_changed_by_the_next_call() -> None:
    w = lt.tensor([1.0, 2.0], requires_grad=True)

    @lt.jit
    def f(x: lt.Tensor) -> None:
        w.grad = None
        (w * x).sum().backward()

    saved = []
    for k in range(4):
        f(lt.full((2,), float(k)))
        saved.append(w.grad)
    assert [g.tolist() for g in saved if g is not None] == [[k, k] for k in range(4)]


def test_nested_jit_is_one_program() -> None:
    w = lt.zeros(())
    inner = lt.jit(lambda x: w.add_(x) * 2)
    outer = lt.jit(lambda x: inner(x) + inner(x))
    assert outer(lt.tensor(1.0)).item() == 6 and w.item() == 2
    assert outer(lt.tensor(1.0)).item() == 14 and w.item() == 4
    assert inner.cache_size == 0


def test_debug_shows_the_kernels_of_a_replay(capsys: pytest.CaptureFixture[str],
                                             monkeypatch: pytest.MonkeyPatch) -> None:
    f = lt.jit(lambda x: x.exp() * 3)
    x = lt.ones(4).realize()
    f(x), f(x)
    monkeypatch.setenv("DEBUG", "2")
    assert equal(f(x), lt.jit(lambda x: x.exp() * 3)(x))
    assert "schedule on" in capsys.readouterr().out


@pytest.mark.parametrize("name", ["adam", "dampening", "adamw"])
def test_optimizers_may_be_loaded_changed_and_stepped_without_jit_in_between(name: str) -> None:
    def run(jitted: bool) -> list[Array]:
        params = [lt.tensor([1.0, -2.0], requires_grad=True), lt.tensor(0.5, requires_grad=True)]
        optimizer = MAKERS[name](params)

        def step(factor: lt.Tensor, both: bool) -> lt.Tensor:
            optimizer.zero_grad()
            loss = (params[0].square() * factor).sum() + (params[1] ** 3 if both else 0)
            loss.backward()
            optimizer.step()
            return loss

        call = lt.jit(step) if jitted else step
        values = []
        saved = optimizer.state_dict()
        for number in range(12):
            if number == 2:
                saved = optimizer.state_dict()
                saved["state"] = {i: {k: v.clone() if isinstance(v, lt.Tensor) else v
                                      for k, v in s.items()} for i, s in saved["state"].items()}
            if number == 4:
                step(lt.tensor(2.0), False)  # counts for one parameter only
            if number == 6:
                optimizer.load_state_dict(saved)
            if number == 9:
                optimizer.param_groups[0]["weight_decay"] = 0.5
            values.append(call(lt.tensor(1.0 + number / 8), True).numpy())
        return values + [p.detach().numpy() for p in params]
    for a, b in zip(run(True), run(False), strict=True):
        np.testing.assert_array_equal(a, b)
