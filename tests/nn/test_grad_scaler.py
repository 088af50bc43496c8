"""GradScaler beside PyTorch's, on sequences with overflows, with and without lt.jit."""
from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from torch_if_there import torch

import lazyten as lt
from lazyten.amp import GradScaler

W, B = np.random.default_rng(0).normal(size=(3, 4)).astype(np.float32), np.zeros(4, np.float32)
X = np.random.default_rng(1).normal(size=(5, 3)).astype(np.float32)
OPTIONS = {"init_scale": 8.0, "growth_factor": 4.0, "backoff_factor": 0.5, "growth_interval": 2}
OVERFLOWS = [1, 1, math.inf, 1, 1, 1, math.nan, math.inf, 1, 1, 1, 1]
Factors = Sequence[float]
Optimizers: dict[str, Callable[[Any, Any], Any]] = {
    "sgd": lambda lib, p: lib.optim.SGD(p, lr=0.1),
    "momentum": lambda lib, p: lib.optim.SGD(p, lr=0.1, momentum=0.9, nesterov=True),
    "dampening": lambda lib, p: lib.optim.SGD(p, lr=0.1, momentum=0.9, dampening=0.5),
    "adam": lambda lib, p: lib.optim.Adam(p, lr=0.1, weight_decay=0.1),
    "adam without means": lambda lib, p: lib.optim.Adam(p, lr=0.1, betas=(0.0, 0.9)),
    "adamw": lambda lib, p: lib.optim.AdamW(p, lr=0.1)}
by_optimizer = pytest.mark.parametrize("kind", Optimizers)


def torch_run(kind: str, factors: Factors) -> list[list[Any]]:
    """After each step: the scale, the growth tracker and the parameters."""
    w, b = torch.tensor(W, requires_grad=True), torch.tensor(B, requires_grad=True)
    optimizer = Optimizers[kind](torch, [w, b])
    scaler = torch.amp.GradScaler("cpu", **OPTIONS)
    found = []
    for factor in factors:
        optimizer.zero_grad()
        loss = (torch.tensor(X) @ w + b).square().mean() * factor
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        found.append([scaler.get_scale(), scaler.state_dict()["_growth_tracker"],
                      w.detach().numpy().copy(), b.detach().numpy().copy()])
    return found


class Run:
    """The same with lazyten."""

    def __init__(self, kind: str, jitted: bool, device: str | None = None) -> None:
        self.x = lt.tensor(X, device=device)
        self.w = lt.tensor(W, requires_grad=True, device=device)
        self.b = lt.tensor(B, requires_grad=True, device=device)
        self.optimizer = Optimizers[kind](lt, [self.w, self.b])
        self.scaler = GradScaler(self.x.device, **OPTIONS)
        self.step = lt.jit(self._step) if jitted else self._step

    def _step(self, factor: lt.Tensor) -> lt.Tensor:
        self.optimizer.zero_grad()
        loss = (self.x @ self.w + self.b).square().mean() * factor
        self.scaler.scale(loss).backward()
        self.scaler.step(self.optimizer)
        self.scaler.update()
        return loss.detach()

    def values(self, factors: Factors) -> list[list[Any]]:
        found = []
        for factor in factors:
            self.step(lt.tensor(float(factor), device=self.x.device))
            found.append([self.scaler.get_scale(), self.scaler.state_dict()["_growth_tracker"],
                          self.w.detach().numpy(), self.b.detach().numpy()])
        return found


def assert_alike(found: list[list[Any]], expected: list[list[Any]]) -> None:
    for number, (mine, theirs) in enumerate(zip(found, expected, strict=True)):
        assert mine[:2] == theirs[:2], number
        for a, b in zip(mine[2:], theirs[2:], strict=True):
            np.testing.assert_allclose(a, b, rtol=2e-5, atol=2e-6, err_msg=f"step {number}")


@pytest.mark.torch
@by_optimizer
@pytest.mark.parametrize("jitted", [False, True], ids=["eager", "jit"])
def test_steps_with_overflows_are_pytorchs(kind: str, jitted: bool) -> None:
    run = Run(kind, jitted)
    assert_alike(run.values(OVERFLOWS), torch_run(kind, OVERFLOWS))
    if jitted:
        assert run.step.cache_size == 1  # type: ignore[attr-defined]


@pytest.mark.torch
@by_optimizer
def test_a_first_step_may_be_skipped(kind: str) -> None:
    factors = [math.inf, 1, 1]
    for jitted in (False, True):
        assert_alike(Run(kind, jitted).values(factors), torch_run(kind, factors))


@pytest.mark.torch
@given(bad=st.lists(st.sampled_from([1.0, 1.0, 0.5, math.inf, -math.inf, math.nan]), max_size=7),
       kind=st.sampled_from(list(Optimizers)))
@settings(max_examples=8)
def test_random_overflows_are_handled_as_pytorchs(bad: list[float], kind: str) -> None:
    assert_alike(Run(kind, False).values(bad), torch_run(kind, bad))


@pytest.mark.torch
@pytest.mark.parametrize("on", ["interpreter", pytest.param("opencl", marks=pytest.mark.opencl)])
def test_other_devices_skip_the_same_steps(on: str) -> None:
    assert_alike(Run("adam", False, on).values(OVERFLOWS[:4]), torch_run("adam", OVERFLOWS[:4]))


@by_optimizer
def test_a_skipped_step_changes_no_bit(kind: str) -> None:
    """Of parameters and of the optimizer's state."""
    run = Run(kind, True)

    def bits() -> list[Any]:
        state = [v for s in run.optimizer.state.values() for v in s.values()]
        return [x.detach().numpy().tobytes() if isinstance(x, lt.Tensor) else x
                for x in (run.w, run.b, *state)]

    run.step(lt.tensor(1.0))
    before = bits()
    run.step(lt.tensor(math.inf))
    assert bits() == before
    run.step(lt.tensor(1.0))
    assert bits() != before


def test_steps_go_on_without_a_scaler() -> None:
    """The number of steps is known to the device alone, and still counts."""
    with_scaler, plain = Run("adam", False), Run("adam", False)
    with_scaler.values([1, math.inf, 1])
    plain.scaler = GradScaler(enabled=False)
    for _ in range(2):
        plain.step(lt.tensor(1.0))
    for run in (with_scaler, plain):
        run.scaler = GradScaler(enabled=False)
        run.step(lt.tensor(1.0))
    np.testing.assert_allclose(with_scaler.w.detach().numpy(), plain.w.detach().numpy(), rtol=1e-5)


def test_an_optimizers_state_with_counted_steps_is_saved_and_loaded() -> None:
    run, other = Run("adam", False), Run("adam", False)
    run.values([1, math.inf, 1])
    other.values([1])
    other.optimizer.load_state_dict(run.optimizer.state_dict())
    other.scaler.load_state_dict(run.scaler.state_dict())
    with lt.no_grad():
        other.w.copy_(run.w)
        other.b.copy_(run.b)
    for a, b in zip(run.values([1, 1]), other.values([1, 1]), strict=True):
        assert a[:2] == b[:2] and a[2].tobytes() == b[2].tobytes()


@pytest.mark.torch
def test_gradients_can_be_clipped_once_unscaled() -> None:
    run = Run("sgd", True)

    @lt.jit
    def step(x: lt.Tensor) -> lt.Tensor:
        run.optimizer.zero_grad()
        loss = (x @ run.w + run.b).square().mean()
        run.scaler.scale(loss).backward()
        run.scaler.unscale_(run.optimizer)
        assert run.w.grad is not None
        unscaled = run.w.grad.clone()
        run.scaler.step(run.optimizer)
        run.scaler.update()
        return unscaled

    w = torch.tensor(W, requires_grad=True)
    (torch.tensor(X) @ w).square().mean().backward()
    assert w.grad is not None
    x = run.x.detach()  # not the tensor that the function could find by name
    np.testing.assert_allclose(step(x).numpy(), w.grad.numpy(), rtol=1e-5, atol=1e-6)
    step(x)
    assert step.cache_size == 1


@pytest.mark.torch
def test_the_end_of_a_step_may_be_outside_of_the_jitted_function() -> None:
    run = Run("adam", False)

    @lt.jit
    def step(factor: lt.Tensor) -> None:
        run.optimizer.zero_grad()
        loss = (run.x @ run.w + run.b).square().mean() * factor
        run.scaler.scale(loss).backward()
        run.scaler.step(run.optimizer)

    expected = torch_run("adam", OVERFLOWS)
    for factor, wanted in zip(OVERFLOWS, expected, strict=True):
        step(lt.tensor(float(factor)))
        run.scaler.update()
        assert run.scaler.get_scale() == wanted[0]
        np.testing.assert_allclose(run.w.detach().numpy(), wanted[2], rtol=2e-5, atol=2e-6)
    assert step.cache_size == 1


def test_changed_options_are_seen_by_a_jitted_step() -> None:
    run = Run("sgd", True)
    run.values([1])
    run.scaler.set_growth_factor(16.0)
    assert run.values([1])[0][0] == 128.0


@pytest.mark.torch
def test_several_optimizers_share_a_scale_as_in_pytorch() -> None:
    def scales(lib: Any, scaler: Any) -> list[float]:
        a, b = [lib.tensor([1.0], requires_grad=True) for _ in range(2)]
        optimizers = [lib.optim.SGD([a], lr=0.1), lib.optim.SGD([b], lr=0.1)]
        found = []
        for factor in (1.0, math.inf, 1.0):
            for o in optimizers:
                o.zero_grad()
            for loss in scaler.scale([a.sum() * factor, b.sum() * 2]):
                loss.backward()
            for o in optimizers:
                scaler.step(o)
            scaler.update()
            found += [scaler.get_scale(), a.item(), b.item()]
        return found

    assert scales(lt, GradScaler(**OPTIONS)) == pytest.approx(
        scales(torch, torch.amp.GradScaler("cpu", **OPTIONS)))


def test_a_scale_that_would_be_infinite_stays() -> None:
    run = Run("sgd", False)
    run.scaler.update(2.0**127)
    run.w.grad, run.b.grad = lt.ones(3, 4), lt.ones(4)
    run.scaler.set_growth_interval(1)
    run.scaler.step(run.optimizer)
    run.scaler.update()
    assert run.scaler.get_scale() == 2.0**127


def test_float16_trains_with_it() -> None:
    """A loss so small that its gradients are 0 in float16 without a scale."""
    w = lt.tensor(W * 1e-3, requires_grad=True)
    x = lt.tensor(X * 1e-3)

    def gradient(scaler: GradScaler) -> np.ndarray[Any, Any]:
        w.grad = None
        with lt.autocast(dtype=lt.float16):
            loss = (x @ w).sum() * 1e-5
        scaler.scale(loss).backward()
        scaler.unscale_(lt.optim.SGD([w]))
        assert w.grad is not None
        return w.grad.numpy()

    exact = np.broadcast_to((X * 1e-3).sum(0)[:, None] * 1e-5, W.shape)
    np.testing.assert_allclose(gradient(GradScaler()), exact, rtol=1e-2)
    assert not gradient(GradScaler(init_scale=1.0)).any()


# ---- mistakes ------------------------------------------------------------------------------------

def test_a_disabled_scaler_does_nothing() -> None:
    run = Run("sgd", False)
    run.scaler = GradScaler(enabled=False)
    assert run.scaler.scale(run.w) is run.w and run.scaler.get_scale() == 1.0
    assert run.scaler.state_dict() == {} and not run.scaler.is_enabled()
    run.step(lt.tensor(1.0))
    assert run.w.detach().numpy().tobytes() != W.tobytes()


@pytest.mark.parametrize(("option", "value"), [
    ("init_scale", 0.0), ("init_scale", math.inf), ("growth_factor", 1.0), ("backoff_factor", 1.0),
    ("backoff_factor", -0.5), ("growth_interval", 0)])
def test_options_that_make_no_sense_are_refused(option: str, value: float) -> None:
    with pytest.raises(lt.ArgumentError, match=f"{option}={value}"):
        GradScaler(**{option: value})


def test_steps_out_of_order_are_refused() -> None:
    run = Run("sgd", False)
    with pytest.raises(lt.StateError, match="no step was made"):
        run.scaler.update()
    with pytest.raises(lt.StateError, match="no parameter of this SGD has a gradient"):
        run.scaler.step(run.optimizer)
    run.w.grad = lt.ones(3, 4)
    run.scaler.unscale_(run.optimizer)
    with pytest.raises(lt.StateError, match="unscaled already"):
        run.scaler.unscale_(run.optimizer)
    run.scaler.step(run.optimizer)
    with pytest.raises(lt.StateError, match="made its step already"):
        run.scaler.step(run.optimizer)
    run.scaler.update()
    with pytest.raises(lt.StateError, match="is not the state of"):
        run.scaler.load_state_dict({})


def test_gradients_in_float16_are_refused_as_in_pytorch() -> None:
    w = lt.ones(2, dtype=lt.float16, requires_grad=True)
    w.grad = lt.ones(2, dtype=lt.float16)
    with pytest.raises(lt.DTypeError, match=r"shape \(2,\) is float16.*keep parameters in float32"):
        GradScaler().unscale_(lt.optim.SGD([w]))


@pytest.mark.torch
def test_factors_can_be_read_and_changed() -> None:
    scaler = lt.amp.GradScaler()
    theirs = torch.amp.GradScaler("cpu")
    for name, value, bad in (("growth_factor", 3.0, 1.0), ("backoff_factor", 0.25, 1.0),
                             ("growth_interval", 7, 0)):
        assert getattr(scaler, f"get_{name}")() == getattr(theirs, f"get_{name}")()
        getattr(scaler, f"set_{name}")(value)
        assert getattr(scaler, f"get_{name}")() == value
        with pytest.raises(lt.ArgumentError, match=name):
            getattr(scaler, f"set_{name}")(bad)


@pytest.mark.parametrize("optimizer", ["SGD", "Adagrad", "SparseAdam"])
@pytest.mark.parametrize("unscaled", [False, True])
def test_sparse_gradients_are_unscaled_and_steps_of_infinite_ones_skipped(
        optimizer: str, unscaled: bool) -> None:
    def trained(scaled: bool, factors: Factors) -> Any:
        table = lt.nn.Embedding(4, 2, sparse=True)
        lt.nn.init.ones_(table.weight)
        steps = getattr(lt.optim, optimizer)(table.parameters(), lr=0.5)
        scaler = GradScaler(init_scale=8.0, enabled=scaled)
        for factor in factors:
            steps.zero_grad()
            scaler.scale((table(lt.tensor([1, 3, 1])) ** 2).sum() * factor).backward()
            if unscaled:
                scaler.unscale_(steps)
                assert table.weight.grad is not None
                if math.isfinite(factor):
                    assert (table.weight.grad.to_dense().abs() < 8).all()
            scaler.step(steps)
            scaler.update()
        return table.weight.detach().numpy()

    expected = trained(False, [1, 0.5])
    np.testing.assert_allclose(trained(True, [1, math.inf, 0.5]), expected, rtol=1e-6)
