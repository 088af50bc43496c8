"""Schedulers beside PyTorch's: the rates and momenta of 60 steps, with options and states."""
from __future__ import annotations

import copy
import math
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import lazyten as lt

torch = pytest.importorskip("torch")

pytestmark = [pytest.mark.torch, pytest.mark.filterwarnings("ignore::UserWarning")]

STEPS = 60
Make = Callable[[Any, Any], Any]


class Halved:
    """A factor that is an object."""

    def __init__(self, every: int) -> None:
        self.every = every

    def __call__(self, epoch: int) -> float:
        return 0.5 ** (epoch // self.every)


def own(S: Any) -> Any:
    class Zigzag(S.LRScheduler):  # type: ignore[misc]
        def __init__(self, optimizer: Any, high: float) -> None:
            self.high = high
            super().__init__(optimizer)

        def get_lr(self) -> Any:
            return [self.high if self.last_epoch % 3 else base for base in self.base_lrs]
    return Zigzag


SCHEDULERS: dict[str, Make] = {
    "LambdaLR": lambda S, o: S.LambdaLR(o, lambda e: 0.95**e),
    "LambdaLR, a list": lambda S, o: S.LambdaLR(o, [Halved(7), lambda e: 1 / (1 + e)]),
    "MultiplicativeLR": lambda S, o: S.MultiplicativeLR(o, lambda e: 0.95 + e / 1000),
    "StepLR": lambda S, o: S.StepLR(o, 7, gamma=0.5),
    "MultiStepLR": lambda S, o: S.MultiStepLR(o, [3, 10, 10, 40]),
    "ConstantLR": lambda S, o: S.ConstantLR(o, factor=0.25, total_iters=9),
    "LinearLR": lambda S, o: S.LinearLR(o, start_factor=0.2, end_factor=0.8, total_iters=20),
    "LinearLR, down": lambda S, o: S.LinearLR(o, 1.0, 0.0, 30),
    "ExponentialLR": lambda S, o: S.ExponentialLR(o, 0.9),
    "PolynomialLR": lambda S, o: S.PolynomialLR(o, total_iters=25, power=1.7),
    "CosineAnnealingLR": lambda S, o: S.CosineAnnealingLR(o, 13, eta_min=0.01),
    "CosineAnnealingLR, once": lambda S, o: S.CosineAnnealingLR(o, T_max=STEPS),
    "CosineAnnealingWarmRestarts": lambda S, o: S.CosineAnnealingWarmRestarts(o, 5, 2, 0.001),
    "CosineAnnealingWarmRestarts, alike": lambda S, o: S.CosineAnnealingWarmRestarts(o, 8),
    "CyclicLR": lambda S, o: S.CyclicLR(o, 0.01, 0.1, step_size_up=6, step_size_down=9),
    "CyclicLR, lower": lambda S, o: S.CyclicLR(o, [0.01, 0.02], 0.1, 5, mode="triangular2"),
    "CyclicLR, by powers": lambda S, o: S.CyclicLR(
        o, 0.01, 0.1, 5, mode="exp_range", gamma=0.98, base_momentum=[0.5, 0.6]),
    "CyclicLR, scaled": lambda S, o: S.CyclicLR(
        o, 0.01, 0.1, 5, scale_fn=lambda x: 1 / (1 + x), scale_mode="iterations",
        cycle_momentum=False),
    "OneCycleLR": lambda S, o: S.OneCycleLR(o, 0.5, total_steps=STEPS),
    "OneCycleLR, straight": lambda S, o: S.OneCycleLR(
        o, [0.5, 0.2], epochs=7, steps_per_epoch=9, pct_start=0.4, anneal_strategy="linear"),
    "OneCycleLR, three phases": lambda S, o: S.OneCycleLR(
        o, 0.5, total_steps=STEPS, three_phase=True, cycle_momentum=False, div_factor=10),
    "SequentialLR": lambda S, o: S.SequentialLR(o, [
        S.LinearLR(o, 0.1, total_iters=10), S.CosineAnnealingLR(o, 20),
        S.ConstantLR(o, 0.5, 5)], [10, 30]),
    "ChainedScheduler": lambda S, o: S.ChainedScheduler([
        S.ConstantLR(o, 0.1, total_iters=5), S.ExponentialLR(o, 0.95)]),
    "ChainedScheduler, of sequences": lambda S, o: S.ChainedScheduler([
        S.SequentialLR(o, [S.ConstantLR(o, 0.1, 4), S.StepLR(o, 5)], [8]),
        S.ExponentialLR(o, 0.9)]),
    "a scheduler of one's own": lambda S, o: own(S)(o, 0.75),
    "SWALR": lambda S, o: S.SWALR(o, 0.05, anneal_epochs=20),
    "SWALR, straight": lambda S, o: S.SWALR(o, [0.05, 0.3], 10, "linear"),
    "SWALR, at once": lambda S, o: S.SWALR(o, 0.05, anneal_epochs=0),
}
PLATEAUS: dict[str, dict[str, Any]] = {
    "min": {"patience": 3}, "max": {"mode": "max", "patience": 2, "cooldown": 3},
    "abs": {"threshold_mode": "abs", "threshold": 0.05, "patience": 1, "factor": 0.5},
    "max abs": {"mode": "max", "threshold_mode": "abs", "threshold": 0.5, "patience": 0},
    "least": {"patience": 0, "min_lr": [0.01, 0.2], "factor": 0.7}}


class Names:
    """The schedulers of a library under one roof."""

    def __init__(self, library: Any) -> None:
        self.library = library

    def __getattr__(self, name: str) -> Any:
        where = self.library.optim.swa_utils if name == "SWALR" else self.library.optim.lr_scheduler
        return getattr(where, name)


def optimizer(library: Any, kind: str = "SGD") -> Any:
    params = [library.ones(2, requires_grad=True) for _ in range(2)]
    options = {"momentum": 0.9} if kind == "SGD" else {}
    return getattr(library.optim, kind)([
        {"params": params[:1]}, {"params": params[1:], "lr": 0.4}], lr=0.1, **options)


def seen(opt: Any, scheduler: Any) -> list[Any]:
    return [[float(g["lr"]), g.get("momentum"), *g.get("betas", ())] for g in opt.param_groups] + [
        [float(rate) for rate in scheduler.get_last_lr()]]


def plain(value: Any) -> Any:
    """What is equal to a state but for the last digits."""
    if isinstance(value, dict):
        return {k: plain(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return type(value)([plain(v) for v in value])
    return pytest.approx(value, rel=1e-9, nan_ok=True) if isinstance(value, float) else value


@pytest.mark.parametrize("kind", ["SGD", "Adam"])
@pytest.mark.parametrize("name", SCHEDULERS)
def test_sixty_steps_are_torchs(name: str, kind: str) -> None:
    found, states = [], []
    for library in (lt, torch):
        opt = optimizer(library, kind)
        scheduler = SCHEDULERS[name](Names(library), opt)
        rows = [seen(opt, scheduler)]
        for _ in range(STEPS):
            scheduler.step()
            rows.append(seen(opt, scheduler))
        found.append(rows)
        states.append((scheduler.state_dict(), [{k: v for k, v in g.items() if k != "params"}
                                                for g in opt.param_groups]))
    for mine, other in zip(*found, strict=True):
        assert mine == plain(other)
    assert states[0][0] == plain(states[1][0])
    assert states[0][1] == plain(states[1][1])


@pytest.mark.parametrize("name", SCHEDULERS)
def test_a_saved_scheduler_goes_on(name: str) -> None:
    opt = optimizer(lt)
    scheduler = SCHEDULERS[name](Names(lt), opt)
    for _ in range(17):
        scheduler.step()
    saved = copy.deepcopy((scheduler.state_dict(), opt.state_dict()))
    other = optimizer(lt)
    restored = SCHEDULERS[name](Names(lt), other)
    restored.load_state_dict(saved[0])
    other.load_state_dict(saved[1])
    for _ in range(17):
        scheduler.step()
        restored.step()
        assert seen(opt, scheduler) == seen(other, restored)


@pytest.mark.parametrize("name", PLATEAUS)
def test_plateaus_are_torchs(name: str) -> None:
    rng = np.random.default_rng(1)
    metrics = np.exp(-np.arange(40) / 8) + rng.normal(size=40) * 0.05
    metrics[35:] = math.nan
    found = []
    for library in (lt, torch):
        opt = optimizer(library)
        scheduler = library.optim.lr_scheduler.ReduceLROnPlateau(opt, **PLATEAUS[name])
        rows = []
        for metric in metrics:
            scheduler.step(library.tensor(metric))
            rows.append(seen(opt, scheduler))
        found.append((rows, scheduler.state_dict()))
    assert found[0] == plain(found[1])


def test_what_a_plateau_does_to_the_rate_may_be_replaced() -> None:
    for library in (lt, torch):
        scheduler = library.optim.lr_scheduler.ReduceLROnPlateau(optimizer(library), patience=0)
        epochs: list[int] = []
        scheduler._reduce_lr = epochs.append
        for metric in (1.0, 2.0, 0.5, 3.0):
            scheduler.step(metric)
        assert epochs == [2, 4]


@pytest.mark.parametrize("epochs", [[0.0, 0.5, 3.5, 5.0, 7.25, 16.0, 30.5], [4, 2, 11]])
def test_parts_of_epochs_may_be_given_to_warm_restarts(epochs: list[float]) -> None:
    rates = []
    for library in (lt, torch):
        opt = optimizer(library)
        scheduler = library.optim.lr_scheduler.CosineAnnealingWarmRestarts(opt, 5, 2)
        for epoch in epochs:
            scheduler.step(epoch)
            rates.append(seen(opt, scheduler))
    assert rates[:len(epochs)] == plain(rates[len(epochs):])


@pytest.mark.parametrize("name", ["StepLR", "MultiStepLR", "LinearLR", "ExponentialLR",
                                  "PolynomialLR", "CosineAnnealingLR", "ConstantLR"])
def test_an_epoch_may_be_given(name: str) -> None:
    rates = []
    for library in (lt, torch):
        opt = optimizer(library)
        scheduler = SCHEDULERS[name](Names(library), opt)
        for epoch in (12, 3, 40):
            scheduler.step(epoch)
            rates.append(seen(opt, scheduler))
    assert rates[:3] == plain(rates[3:])


def test_a_rate_that_is_a_tensor_is_set_in_place() -> None:
    rates = []
    for library in (lt, torch):
        rate = library.tensor(0.5)
        opt = library.optim.SGD([library.ones(2, requires_grad=True)], lr=rate)
        scheduler = library.optim.lr_scheduler.ExponentialLR(opt, 0.5)
        scheduler.step()
        assert opt.param_groups[0]["lr"] is rate
        rates.append((rate.item(), float(scheduler.get_last_lr()[0]),
                      float(opt.param_groups[0]["initial_lr"])))
    assert rates[0] == rates[1] == (0.25, 0.25, 0.5)


AVERAGES: dict[str, Callable[[Any], dict[str, Any]]] = {
    "mean": lambda S: {}, "ema": lambda S: {"avg_fn": S.get_ema_avg_fn(0.7)},
    "many ema": lambda S: {"multi_avg_fn": S.get_ema_multi_avg_fn(0.7), "use_buffers": True},
    "many means": lambda S: {"multi_avg_fn": S.get_swa_multi_avg_fn()},
    "own": lambda S: {"avg_fn": lambda mean, now, count: 0.25 * mean + 0.75 * now}}


@pytest.mark.parametrize("jitted", [False, True], ids=["eager", "jit"])
@pytest.mark.parametrize("name", AVERAGES)
def test_averages_of_models_are_torchs(name: str, jitted: bool) -> None:
    values = [np.random.default_rng(i).normal(size=(3, 2)).astype("f") for i in range(5)]
    found = []
    for library in (lt, torch):
        net = library.nn.Sequential(library.nn.Linear(2, 3, bias=False), library.nn.BatchNorm1d(3))
        mean = library.optim.swa_utils.AveragedModel(
            net, **AVERAGES[name](library.optim.swa_utils))
        update = mean.update_parameters
        update = lt.jit(lambda u=update, n=net: u(n)) if jitted and library is lt else \
            lambda u=update, n=net: u(n)
        for value in values:
            with library.no_grad():
                net[0].weight.copy_(library.tensor(value))
                net[1].running_mean.copy_(library.tensor(value[:, 0]))
            update()
        state = {k: v.numpy() for k, v in mean.state_dict().items()}
        x = library.tensor(np.ones((4, 2), "f"))
        found.append((state, mean.eval()(x).detach().numpy()))
    assert found[0][0].keys() == found[1][0].keys()
    for key, value in found[1][0].items():
        np.testing.assert_allclose(found[0][0][key], value, rtol=1e-5, err_msg=key)
    np.testing.assert_allclose(found[0][1], found[1][1], rtol=1e-5)


def test_statistics_of_batches_are_torchs() -> None:
    batches = [np.random.default_rng(i).normal(size=(4 + i, 3)).astype("f") for i in range(3)]
    found = []
    for library in (lt, torch):
        net = library.nn.Sequential(library.nn.BatchNorm1d(3), library.nn.ReLU())
        net.eval()
        loader = [(library.tensor(b), 1) for b in batches]
        library.optim.swa_utils.update_bn(loader, net)
        assert not net.training and net[0].momentum == 0.1
        found.append((net[0].running_mean.numpy(), net[0].running_var.numpy()))
    for mine, other in zip(*found, strict=True):
        np.testing.assert_allclose(mine, other, rtol=1e-5)


def test_a_step_before_the_optimizers_warns() -> None:
    for library in (lt, torch):
        opt = optimizer(library)
        scheduler = library.optim.lr_scheduler.StepLR(opt, 3)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            scheduler.step()
        assert any("optimizer.step()" in str(w.message) for w in caught)
        opt = optimizer(library)
        scheduler = library.optim.lr_scheduler.StepLR(opt, 3)
        opt.step()
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            scheduler.step()
        assert not caught
