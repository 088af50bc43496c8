"""Nothing grows with time: memory in use, nodes, plans and Python objects stay what they were."""
from __future__ import annotations

import copy
import gc
import itertools
import sys
import weakref
from collections import OrderedDict
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest

import lazyten as lt
from lazyten.capture import jitted
from lazyten.execution import frame_runs
from lazyten.execution.plans import making
from lazyten.frontend.recorded import gradients, lookup
from lazyten.ir import node
from lazyten.runtimes.contract import Runtime
from lazyten.storage.device import executor
from lazyten.storage.storage import REALIZED
from lazyten.support.remembered import Remembered

pytestmark = pytest.mark.frees_nodes
Act = Callable[[], object]
OPTIMIZERS: list[Any] = [partial(lt.optim.SGD, lr=0.01, momentum=0.9),
                         partial(lt.optim.AdamW, lr=0.001)]


def counters(device: str) -> dict[str, int]:
    """What a leak would make grow. Garbage that waits for the collector is none, nor is what is
    remembered of operations: that is bounded."""
    lookup.forget()
    gradients.forget()
    gc.collect()
    return {"bytes in use": lt.memory_stats(device).in_use, "nodes": len(node._interned),
            "realized": sum(map(len, REALIZED.values())), "plans": len(making._plans),
            "objects": len(gc.get_objects()), "allocations": sys.getallocatedblocks()}


SLACK = {"objects": 60, "allocations": 1000}
"""Python's own tables grow a little at some time or other."""


def growth(act: Act, times: int, device: str = "cpu", warm_up: int = 20) -> dict[str, int]:
    """The counters that grew by more than SLACK in so many calls, after some more."""
    for _ in range(2):  # what is forgotten comes again
        for _ in range(warm_up):
            act()
        before = counters(device)
    for _ in range(times):
        act()
    after = counters(device)
    return {name: after[name] - value for name, value in before.items()
            if after[name] - value > SLACK.get(name, 0)}


def training(optimizer: Any, device: str, jit: bool) -> Act:
    """A step of training a tiny model on new data."""
    lt.manual_seed(0)
    model = lt.nn.Sequential(lt.nn.Linear(3, 4), lt.nn.ReLU(), lt.nn.Dropout(0.1),
                             lt.nn.LayerNorm(4), lt.nn.Linear(4, 2)).to(device)
    optimize = optimizer(model.parameters())
    rng = np.random.default_rng(0)

    def step(x: lt.Tensor, y: lt.Tensor) -> lt.Tensor:
        optimize.zero_grad()
        loss = lt.nn.functional.mse_loss(model(x), y)
        loss.backward()
        optimize.step()
        return loss.detach() if jit else loss
    run = lt.jit(step) if jit else step
    return lambda: run(lt.tensor(rng.normal(size=(5, 3)).astype(np.float32), device=device),
                       lt.tensor(rng.normal(size=(5, 2)).astype(np.float32), device=device)).item()


# ---- training ------------------------------------------------------------------------------------

@pytest.mark.few(1)
@pytest.mark.parametrize(("optimizer", "steps"), [(OPTIMIZERS[0], 10_000), (OPTIMIZERS[1], 1500)],
                         ids=["sgd", "adamw"])
def test_thousands_of_jitted_steps_leave_nothing_behind(optimizer: Any, steps: int) -> None:
    assert growth(training(optimizer, "cpu", jit=True), steps) == {}


@pytest.mark.parametrize(("optimizer", "steps"), [(OPTIMIZERS[0], 300), (OPTIMIZERS[1], 70)],
                         ids=["sgd", "adamw"])
def test_hundreds_of_steps_without_jit_leave_nothing_behind(optimizer: Any, steps: int) -> None:
    assert growth(training(optimizer, "cpu", jit=False), steps) == {}


@pytest.mark.parametrize("jit", [False, True], ids=["lazy", "jit"])
def test_steps_on_the_interpreter_leave_nothing_behind(jit: bool) -> None:
    assert growth(training(OPTIMIZERS[0], "interpreter", jit), 70, "interpreter") == {}


def test_memory_at_the_peak_is_the_same_at_every_step() -> None:
    step = training(OPTIMIZERS[1], "cpu", jit=False)
    step()
    peaks = [lt.testing.peak_bytes(step, "cpu") for _ in range(20)]
    assert len(set(peaks[10:])) == 1


# ---- everything else that a program repeats ------------------------------------------------------

def evaluate(device: str) -> Act:
    """A forward pass whose graph is kept for a backward that never comes."""
    w = lt.rand(3, 3, device=device, requires_grad=True)
    return lambda: (lt.rand(4, 3, device=device) @ w).relu().sum().item()


def new_model(device: str) -> Act:
    """A model that is made, trained for a step and dropped."""
    def act() -> None:
        model = lt.nn.Linear(3, 2).to(device)
        optimize = lt.optim.Adam(model.parameters())
        model(lt.ones(4, 3, device=device)).sum().backward()
        optimize.step()
    return act


def copied_model(device: str) -> Act:
    """Models that have the weights of another, trained for a step and dropped."""
    def act() -> None:
        model, other = lt.nn.Linear(3, 2).to(device), lt.nn.Linear(3, 2).to(device)
        other.load_state_dict(model.state_dict())
        for trained in (other, copy.deepcopy(model)):
            trained(lt.ones(4, 3, device=device)).sum().backward()
            lt.optim.SGD(trained.parameters(), lr=0.1).step()
    return act


def new_jitted_function(device: str) -> Act:
    """A jitted function that is made, called twice and dropped."""
    def act() -> None:
        double = lt.jit(lambda x: x * 2)
        double(double(lt.ones(3, device=device))).numpy()
    return act


def refused_calls(device: str) -> Act:
    """Mistakes, in plain calls and inside a trace."""
    @lt.jit(fullgraph=True)
    def reads(x: lt.Tensor) -> float:
        return (x + 1).sum().item()

    def act() -> None:
        x = lt.rand(3, device=device)
        for wrong in (lambda: x @ lt.ones(4, device=device), lambda: reads(x)):
            with pytest.raises(lt.LazytenError):
                wrong()
    return act


def in_place(device: str) -> Act:
    """A tensor that is changed in place and read each time."""
    x = lt.zeros(5, device=device)
    return lambda: x.mul_(0.5).add_(1.0).numpy()


def across_devices(device: str) -> Act:
    """A copy to another device."""
    return lambda: (lt.rand(3, device=device).to("interpreter") + 1).numpy()


@pytest.mark.few(2)
@pytest.mark.parametrize("use", [
    evaluate, new_model, copied_model, new_jitted_function, refused_calls, in_place,
    across_devices], ids=lambda use: use.__name__)
def test_repeating_leaves_nothing_behind(use: Callable[[str], Act]) -> None:
    assert growth(use("cpu"), 70, warm_up=10) == {}


def test_a_graph_is_freed_with_its_last_tensor_without_being_computed() -> None:
    x = lt.rand(1000, device="cpu").realize()
    y = x * 0.5
    before = counters("cpu")
    for i in range(200):
        y = y * 0.5 + i
    assert counters("cpu")["nodes"] >= before["nodes"] + 400
    del y
    after = counters("cpu")
    assert after["nodes"] <= before["nodes"]
    assert after["bytes in use"] == before["bytes in use"]


def test_a_jitted_function_keeps_none_of_its_arguments_alive() -> None:
    first = lt.jit(lambda x: x.sum())
    x = lt.rand(1000, device="cpu").realize()
    gone = weakref.ref(x)
    before = counters("cpu")["bytes in use"]
    result = first(x)
    del x
    gc.collect()
    assert gone() is None
    assert lt.memory_stats("cpu").in_use <= before - 4000 + 1024  # the result, and what it needs
    assert result.item() > 0


# ---- shapes that vary ----------------------------------------------------------------------------

FIRST_SIZE = 227
"""No other test has sizes from here on. Equal nodes are one: those of a plan that was kept for
another test would not count as soon as this one uses them, but their successors would."""


def varying(device: str) -> Act:
    """Forward and backward of a shape that was not there before."""
    sizes = itertools.count(FIRST_SIZE)

    def act() -> None:
        x = lt.rand(next(sizes), 3, device=device, requires_grad=True)
        (x @ x.T).softmax(1).square().sum().backward()
        assert x.grad is not None
        x.grad.realize()
    return act


def varying_jitted(device: str) -> Act:
    """A jitted function of a shape that was not there before."""
    sizes = itertools.count(FIRST_SIZE)
    function = lt.jit(lambda x: (x * 2).sum(0))
    return lambda: function(lt.rand(next(sizes), 3, device=device)).numpy()


def varying_numbers(device: str) -> Act:
    """A number in the program that was not there before."""
    numbers = itertools.count(2)
    x = lt.rand(3, device=device).realize()
    return lambda: (x * next(numbers)).numpy()


def varying_operations(device: str) -> Act:
    """Operations that were not there before, in a size of this test's own: no kernel of theirs is
    another test's."""
    numbers = itertools.count(2)
    x = lt.rand(FIRST_SIZE - 1, device=device).realize()

    def act() -> None:
        y = x
        for bit in f"{next(numbers):b}":
            y = y.sin() if bit == "1" else y.sqrt()
        y.numpy()
    return act


def _load(given: list[lt.Tensor]) -> object:
    model = lt.nn.Sequential(lt.nn.Linear(2, 2), lt.nn.Linear(2, 2))
    return model.load_state_dict(dict(zip(model.state_dict(), [
        x[0] if name.endswith("bias") else x for name, x in zip(model.state_dict(), given,
                                                                strict=True)], strict=True)))


@pytest.mark.parametrize("act", [_load, lt.linalg.multi_dot], ids=["load_state_dict", "multi_dot"])
def test_what_was_given_to_a_function_goes_without_the_collector(act: Any) -> None:
    given = [lt.ones(2, 2) * n for n in range(4)]
    gone = [weakref.ref(x._storage) for x in given]
    gc.disable()
    try:
        act(given)
        del given
        assert [x() for x in gone] == [None] * 4
    finally:
        gc.enable()


@pytest.fixture
def few_plans(monkeypatch: pytest.MonkeyPatch) -> None:
    """Caches so small that the oldest entries go all the time."""
    monkeypatch.setattr(making, "PLAN_LIMIT", 4)
    monkeypatch.setattr(making, "_plans", OrderedDict())
    monkeypatch.setattr(frame_runs, "_programs", Remembered(4, 2))
    monkeypatch.setattr(frame_runs, "_in_frames", Remembered(4, 2))
    monkeypatch.setattr(jitted, "CACHE_LIMIT", 4)


@pytest.mark.few(1)
@pytest.mark.usefixtures("few_plans")
@pytest.mark.parametrize("use", [varying, varying_jitted, varying_numbers],
                         ids=lambda use: use.__name__)
def test_what_is_kept_for_shapes_that_vary_is_bounded(use: Callable[[str], Act]) -> None:
    act = use("interpreter")
    rounds = [growth(act, 60, "interpreter", warm_up=10) for _ in range(2)]
    grown = {name: min(by, rounds[1][name]) for name, by in rounds[0].items() if name in rounds[1]}
    assert len(making._plans) == 4
    # 60 plans have more than 160 nodes, 1900 objects and 700 bytes of memory. (The four that are
    # kept may grow a little, as the shapes do.)
    limits = {"nodes": 80, "objects": 900, "bytes in use": 350, "allocations": 1400}
    assert {name: by for name, by in grown.items() if by > limits.get(name, 0)} == {}


@pytest.mark.usefixtures("few_plans")
def test_machine_code_goes_with_the_plan_that_needed_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LAZYTEN_INTERPRET", "never")
    runtime = executor("cpu")
    assert isinstance(runtime, Runtime)
    gc.collect()
    before = set(runtime._programs)
    act = varying_operations("cpu")
    for _ in range(12):
        act()
    gc.collect()
    assert len(set(runtime._programs) - before) == 4
