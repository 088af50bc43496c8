"""Schedulers in jitted functions, and what they refuse. (tests/pytorch has their rates.)"""
from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from own_optimizers import own_adam, problem
from tensor_values import counted_plans

import lazyten as lt
from lazyten.optim import lr_scheduler as S
from lazyten.optim.swa_utils import SWALR, AveragedModel, get_ema_avg_fn

OPTIMIZERS: dict[str, Callable[[Any], Any]] = {
    "SGD": lambda ps: lt.optim.SGD(ps, lr=0.1, momentum=0.9),
    "AdamW": lambda ps: lt.optim.AdamW(ps, lr=0.1), "own": lambda ps: own_adam(lt)(ps, lr=0.1)}


class Zigzag(S.LRScheduler):
    """A scheduler of a user's own."""

    def get_lr(self) -> list[float]:
        return [base * (0.5 if self.last_epoch % 2 else 1.0) for base in self.base_lrs]


SCHEDULERS: dict[str, Callable[[Any], Any]] = {
    "own": Zigzag, "exponential": lambda o: S.ExponentialLR(o, 0.8),
    "one cycle": lambda o: S.OneCycleLR(o, 0.2, total_steps=13),
    "sequential": lambda o: S.SequentialLR(o, [S.ConstantLR(o, 0.5, 2), S.StepLR(o, 2)], [4])}


def trained(optimizer: str, scheduler: str, mode: str) -> tuple[Any, ...]:
    """Parameters after 12 steps, rates, the jitted function and late plans. mode: where the
    scheduler's step is."""
    w, b, loss = problem(lt)
    opt = OPTIMIZERS[optimizer]([w, b])
    schedule = SCHEDULERS[scheduler](opt)

    def step() -> None:
        if mode == "before":
            schedule.step()
        opt.zero_grad()
        loss().backward()
        opt.step()
        if mode in ("eager", "inside"):
            schedule.step()

    run = step if mode == "eager" else lt.jit(step)
    late: list[object] = []
    for number in range(12):
        with counted_plans() as made:
            run()
        if mode == "around":
            schedule.step()
        late += made if number > 4 else []
    return w.detach().numpy(), schedule.get_last_lr(), run, late


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("mode", ["inside", "around", "before"])
@pytest.mark.parametrize(("optimizer", "scheduler"), [
    (o, s) for o in OPTIMIZERS for s in SCHEDULERS if (o, s) != ("own", "one cycle")])
def test_a_scheduler_takes_effect_on_jitted_steps(optimizer: str, scheduler: str,
                                                  mode: str) -> None:
    found, rates, run, late = trained(optimizer, scheduler, mode)
    assert not late
    if mode != "before":
        expected, others, *_ = trained(optimizer, scheduler, "eager")
        np.testing.assert_allclose(found, expected, rtol=1e-5)
        assert rates == pytest.approx(others)
    if scheduler != "one cycle":
        assert run.cache_size == 1


@pytest.mark.filterwarnings("ignore:lr_scheduler.step:UserWarning")
def test_a_scheduler_before_the_step_sets_its_rate() -> None:
    for optimizer in (lambda ps: lt.optim.SGD(ps, lr=1.0), lambda ps: own_adam(lt)(ps, lr=1.0)):
        found = []
        for jitted in (False, True):
            w = lt.tensor([8.0], requires_grad=True)
            opt = optimizer([w])
            schedule = S.ExponentialLR(opt, 0.5)

            def step(w: Any = w, opt: Any = opt, schedule: Any = schedule) -> None:
                opt.zero_grad()
                w.sum().backward()
                schedule.step()
                opt.step()

            run = lt.jit(step) if jitted else step
            for _ in range(3):
                run()
            found.append(w.item())
        assert found[0] == pytest.approx(found[1], rel=1e-6)


@pytest.mark.parametrize(("call", "message"), [
    (lambda o, s: s.get_last_lr(), "read it outside"),
    (lambda o, s: s.state_dict(), "call it outside"),
    (lambda o, s: o.state_dict(), "call it outside"),
    (lambda o, s: o.state, "read it outside"),
    (lambda o, s: S.ReduceLROnPlateau(o).step(lt.ones(1).sum()), "given a tensor"),
    (lambda o, s: S.StepLR(o, 2), "make it outside"),
    (lambda o, s: S.ChainedScheduler([s]), "make it outside")])
def test_what_cannot_be_in_a_jitted_function_is_refused(call: Any, message: str) -> None:
    opt = OPTIMIZERS["SGD"]([lt.ones(1, requires_grad=True)])
    schedule = S.ExponentialLR(opt, 0.5)
    with pytest.raises(lt.JitError, match=message):
        lt.jit(fullgraph=True)(lambda: call(opt, schedule))()
    assert schedule.get_last_lr() == [0.1]


@pytest.mark.parametrize("look", [
    lambda w, o, s: o.state_dict()["param_groups"][0]["lr"],
    lambda w, o, s: o.state_dict()["state"][0]["step"].item(),
    lambda w, o, s: o.state[w]["step"],
    lambda w, o, s: s.state_dict()["_last_lr"]])
def test_what_a_jitted_function_gives_of_a_step_is_what_it_is_after_it(look: Any) -> None:
    found: list[list[Any]] = []
    for wrap in (lambda call: call, lt.jit):
        w = lt.ones(2, requires_grad=True)
        opt = lt.optim.Adam([w], lr=0.1)
        schedule = S.ExponentialLR(opt, 0.5)

        def call(x: lt.Tensor, w: Any = w, opt: Any = opt, schedule: Any = schedule) -> Any:
            opt.zero_grad()
            (w * x).sum().backward()
            opt.step()
            schedule.step()
            return look(w, opt, schedule)

        run = wrap(call)
        found.append([run(lt.full((2,), i + 1.0)) for i in range(4)])
    assert found[0] == found[1] and len({str(each) for each in found[0]}) == 4


@pytest.mark.parametrize(("call", "error", "message"), [
    (lambda o: S.StepLR([1], 2), lt.DTypeError, "give the optimizer"),
    (lambda o: S.StepLR(o, 2, last_epoch=3), lt.StateError, "initial_lr"),
    (lambda o: S.LambdaLR(o, [abs, abs]), lt.ArgumentError, "2 values.*1 groups"),
    (lambda o: S.LambdaLR(o, 0.5), lt.DTypeError, "function of the epoch"),
    (lambda o: S.ConstantLR(o, 1.5), lt.ArgumentError, "factor=1.5"),
    (lambda o: S.LinearLR(o, 0.0), lt.ArgumentError, "start_factor=0.0"),
    (lambda o: S.LinearLR(o, 0.5, 2.0), lt.ArgumentError, "end_factor=2.0"),
    (lambda o: S.CyclicLR(o, 0.1, 0.2, mode="up"), lt.ArgumentError, "triangular2"),
    (lambda o: S.CyclicLR(lt.optim.Adagrad([lt.ones(1)]), 0.1, 0.2), lt.ArgumentError,
     "cycle_momentum=False"),
    (lambda o: S.OneCycleLR(o, 0.1), lt.ArgumentError, "give total_steps"),
    (lambda o: S.OneCycleLR(o, 0.1, total_steps=0), lt.ArgumentError, "total_steps=0"),
    (lambda o: S.OneCycleLR(o, 0.1, 5, pct_start=2.0), lt.ArgumentError, "pct_start=2.0"),
    (lambda o: S.OneCycleLR(o, 0.1, 5, anneal_strategy="x"), lt.ArgumentError, "'cos'"),
    (lambda o: [s := S.OneCycleLR(o, 0.1, 2), o.step(), *(s.step() for _ in range(3))],
     lt.ArgumentError, "step 3 of total_steps=2"),
    (lambda o: S.CosineAnnealingWarmRestarts(o, 0), lt.ArgumentError, "T_0=0"),
    (lambda o: S.CosineAnnealingWarmRestarts(o, 2).step(-1), lt.ArgumentError, "epoch=-1"),
    (lambda o: S.ReduceLROnPlateau(o, "low"), lt.ArgumentError, "'low'"),
    (lambda o: S.ReduceLROnPlateau(o, factor=1.0), lt.ArgumentError, "factor=1.0"),
    (lambda o: S.ReduceLROnPlateau(o).step(), lt.ArgumentError, "metric"),
    (lambda o: S.SequentialLR(o, [], []), lt.ArgumentError, "no schedulers"),
    (lambda o: S.SequentialLR(o, [S.StepLR(o, 2)], [3]), lt.ArgumentError, "one fewer"),
    (lambda o: S.ChainedScheduler([S.ReduceLROnPlateau(o)]), lt.ArgumentError, "metric"),
    (lambda o: S.ChainedScheduler([S.StepLR(o, 2)], lt.optim.SGD([lt.ones(1)])),
     lt.ArgumentError, "another optimizer"),
    (lambda o: S.LRScheduler(o), lt.NotDefinedError, "get_lr"),
    (lambda o: S.StepLR(o, 2).load_state_dict(3), lt.StateError, "no scheduler's state"),
    (lambda o: SWALR(o, 0.1, anneal_epochs=-1), lt.ArgumentError, "anneal_epochs=-1"),
    (lambda o: get_ema_avg_fn(2.0), lt.ArgumentError, "decay=2.0"),
    (lambda o: AveragedModel(lt.nn.Linear(1, 1), avg_fn=min, multi_avg_fn=min),
     lt.ArgumentError, "give one")])
def test_mistakes_are_explained(call: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        call(OPTIMIZERS["SGD"]([lt.ones(1, requires_grad=True)]))


def test_moving_averages_compile_nothing_anew() -> None:
    net = lt.nn.Linear(3, 2)
    mean = AveragedModel(net)
    for _ in range(3):
        mean.update_parameters(net)
    with counted_plans() as made:
        for _ in range(5):
            mean.update_parameters(net)
    assert not made and mean.n_averaged.item() == 8
