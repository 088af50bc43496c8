"""Optimizers: what they compile, keep, save and refuse."""
from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tensor_values import counted_plans

import lazyten as lt
from lazyten.optim import SGD, Adam, AdamW, Optimizer

Maker = Callable[[list[lt.Tensor]], Optimizer]
MAKERS: dict[str, Maker] = {
    "sgd": lambda ps: SGD(ps, lr=0.1), "adam": lambda ps: Adam(ps, lr=0.1, weight_decay=0.1),
    "momentum": lambda ps: SGD(ps, lr=0.1, momentum=0.9, dampening=0.2, weight_decay=0.1),
    "adamw": lambda ps: AdamW(ps, lr=0.1)}


def parameters(device: str = "cpu") -> list[lt.Tensor]:
    return [lt.tensor(np.linspace(-1, 2, 6).reshape(2, 3), device=device, requires_grad=True),
            lt.tensor([0.5, -0.25], dtype=lt.float64, device=device, requires_grad=True)]


def loss_of(params: list[lt.Tensor]) -> lt.Tensor:
    weight, bias = params
    loss: lt.Tensor = ((weight ** 2).sum(1) + bias).tanh().mean() + bias.square().sum()
    return loss


def train(params: list[lt.Tensor], optimizer: Optimizer, steps: int) -> list[float]:
    values = []
    for _ in range(steps):
        optimizer.zero_grad()
        loss = loss_of(params)
        loss.backward()
        optimizer.step()
        values.append(float(loss.item()))
    return values


@pytest.mark.parametrize("name", MAKERS)
def test_steps_and_changed_rates_compile_nothing_anew(name: str, device: str) -> None:
    params = parameters(device)
    optimizer = MAKERS[name](params)
    first = train(params, optimizer, 3)
    with counted_plans() as made:
        optimizer.param_groups[0]["lr"] = 0.003
        later = train(params, optimizer, 4)
    assert not made
    assert first[0] > first[1] > later[-1]


@pytest.mark.parametrize("name", MAKERS)
def test_a_saved_optimizer_goes_on_as_if_never_stopped(name: str, device: str) -> None:
    params = parameters(device)
    optimizer = MAKERS[name](params)
    train(params, optimizer, 3)
    saved = optimizer.state_dict()
    copies = [p.detach().clone().realize().requires_grad_() for p in params]
    other = MAKERS[name](copies)
    other.load_state_dict(saved)
    straight = train(params, optimizer, 4)
    assert train(copies, other, 4) == straight
    for p, copy in zip(params, copies, strict=True):
        np.testing.assert_array_equal(p.detach().numpy(), copy.detach().numpy())


def test_a_state_goes_through_a_file(tmp_path: Path) -> None:
    params = parameters("interpreter")
    optimizer = Adam(params, lr=0.1, amsgrad=True)
    schedule = lt.optim.lr_scheduler.StepLR(optimizer, 2)
    for _ in range(3):
        train(params, optimizer, 1)
        schedule.step()
    lt.save({"optimizer": optimizer.state_dict(), "schedule": schedule.state_dict()},
            tmp_path / "state")
    saved = lt.load(tmp_path / "state")
    copies = [p.detach().clone().realize().requires_grad_() for p in params]
    other = Adam(copies, amsgrad=True)
    others = lt.optim.lr_scheduler.StepLR(other, 2)
    others.load_state_dict(saved["schedule"])
    other.load_state_dict(saved["optimizer"])
    for _ in range(3):
        assert train(params, optimizer, 1) == train(copies, other, 1)
        schedule.step()
        others.step()
    assert others.get_last_lr() == schedule.get_last_lr()


def test_a_state_dict_names_parameters_by_number() -> None:
    params = parameters()
    optimizer = SGD([{"params": params[:1], "lr": 0.5}, {"params": params[1:]}], momentum=0.9)
    train(params, optimizer, 1)
    saved = optimizer.state_dict()
    assert [g["params"] for g in saved["param_groups"]] == [[0], [1]]
    assert saved["param_groups"][0]["lr"] == 0.5 and sorted(saved["state"]) == [0, 1]
    with pytest.raises(lt.StateError, match="groups"):
        SGD(params, lr=0.1).load_state_dict(saved)


def test_parameters_without_a_gradient_stay() -> None:
    used, unused = parameters()
    before = unused.tolist()
    optimizer = Adam([used, unused], lr=0.1)
    (used * used).sum().backward()
    optimizer.step()
    assert unused.tolist() == before and used.tolist() != before
    optimizer.zero_grad()
    assert used.grad is None
    after = used.tolist()
    optimizer.step()
    assert used.tolist() == after


def test_a_step_keeps_leaves_and_frees_history(device: str) -> None:
    params = parameters(device)
    optimizer = SGD(params, lr=0.1, momentum=0.5)
    train(params, optimizer, 3)
    for p in params:
        assert p.is_leaf and p.requires_grad
        assert p.grad is not None and not p.grad.requires_grad


def test_a_closure_computes_the_loss(device: str) -> None:
    params = parameters(device)
    optimizer = SGD(params, lr=0.1)

    def closure() -> lt.Tensor:
        optimizer.zero_grad()
        loss = loss_of(params)
        loss.backward()
        return loss

    losses = [optimizer.step(closure) for _ in range(3)]
    values = [loss.item() for loss in losses if loss is not None]
    assert values[0] > values[1] > values[2]


def test_the_rate_may_be_changed_between_backward_and_step(device: str) -> None:
    x = lt.tensor([1.0], device=device, requires_grad=True)
    optimizer = SGD([x], lr=1.0)
    (x * 3).sum().backward()
    optimizer.param_groups[0]["lr"] = 0.5
    optimizer.step()
    assert x.tolist() == [-0.5]


@pytest.mark.parametrize(("call", "error"), [
    (lambda p: SGD([], lr=0.1), lt.ArgumentError), (lambda p: SGD(p[0], lr=0.1), lt.DTypeError),
    (lambda p: SGD([p[0], p[0]], lr=0.1), lt.ArgumentError),
    (lambda p: SGD([p[0] * 2], lr=0.1), lt.GradientError),
    (lambda p: SGD([1.0], lr=0.1), lt.DTypeError), (lambda p: SGD(p, lr=-1), lt.ArgumentError),
    (lambda p: SGD(p, lr="big"), lt.DTypeError),
    (lambda p: SGD(p, lr=0.1, nesterov=True), lt.ArgumentError),
    (lambda p: SGD(p, momentum=-0.1), lt.ArgumentError),
    (lambda p: Adam(p, betas=(1.0, 0.9)), lt.ArgumentError),
    (lambda p: AdamW(p, eps=-1), lt.ArgumentError),
    (lambda p: SGD([{"params": [p[0]], "lr": -2}], lr=0.1), lt.ArgumentError)])
def test_mistakes_are_explained(call: Callable[[list[lt.Tensor]], Any],
                                error: type[Exception]) -> None:
    with pytest.raises(error):
        call(parameters())


SCHEDULED: dict[str, Callable[[dict[str, Any], float], None]] = {
    "momentum": lambda group, x: group.update(momentum=0.5 + x),
    "weight_decay": lambda group, x: group.update(weight_decay=x),
    "betas": lambda group, x: group.update(betas=(0.5 + x, 0.99 - x / 10))}


@pytest.mark.parametrize("jitted", [False, True], ids=["eager", "jit"])
def test_an_option_that_varies_may_become_0(jitted: bool) -> None:
    w = lt.tensor([1.0], requires_grad=True)
    optimizer = SGD([w], lr=1.0, momentum=0.5)

    def step() -> None:
        optimizer.zero_grad()
        w.sum().backward()
        optimizer.step()

    run = lt.jit(step) if jitted else step
    buffer, expected = 0.0, 1.0
    for momentum in (0.5, 0.25, 0.75, 0.0, 0.5):
        optimizer.param_groups[0]["momentum"] = momentum
        run()
        buffer = buffer * momentum + 1 if momentum else buffer
        expected -= buffer if momentum else 1
        assert w.item() == expected


@pytest.mark.parametrize("jitted", [False, True], ids=["eager", "jit"])
@pytest.mark.parametrize(("option", "maker"), [
    (option, maker) for option, makers in {
        "momentum": ["SGD", "RMSprop"], "weight_decay": ["SGD", "Adam", "AdamW", "Lion"],
        "betas": ["AdamW", "NAdam", "Adamax", "RAdam"]}.items() for maker in makers])
def test_options_on_a_schedule_compile_nothing_anew(option: str, maker: str, jitted: bool) -> None:
    """And give what a new optimizer with the same state gives."""
    found = []
    for fresh in (False, True):
        params = parameters("interpreter")
        start = {"momentum": 0.5} if option == "momentum" else {}
        optimizer = getattr(lt.optim, maker)(params, lr=0.1, **start)

        def step(params: Any = params, optimizer: Any = optimizer) -> None:
            optimizer.zero_grad()
            loss_of(params).backward()
            optimizer.step()

        run = lt.jit(step) if jitted and not fresh else step
        for number in range(8):
            SCHEDULED[option](optimizer.param_groups[0], 0.01 * (number + 1))
            if fresh:
                optimizer._options.clear()
                optimizer._varying = frozenset()
            with counted_plans() as made:
                run()
            assert fresh or number < 3 or not made
        found.append([p.detach().numpy() for p in params])
    for mine, other in zip(*found, strict=True):
        np.testing.assert_allclose(mine, other, rtol=1e-5)


def test_what_an_optimizer_refuses_is_a_value_error() -> None:
    with pytest.raises(ValueError, match="no leaf"):
        SGD([parameters()[0] * 1], lr=0.1)
    two = SGD(parameters(), lr=0.1)
    with pytest.raises(ValueError, match=r"\[2\] parameters, these \[1\]"):
        SGD(parameters()[:1], lr=0.1).load_state_dict(two.state_dict())
