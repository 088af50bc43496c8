"""Optimizers that a user has written: their steps, alone and in jitted functions."""
from __future__ import annotations

import copy
from typing import Any

import numpy as np
import pytest
from own_optimizers import MAKERS, own_adam, problem
from tensor_values import counted_plans
from torch_if_there import torch

import lazyten as lt
from lazyten.optim.optimizer import (
    register_optimizer_step_post_hook,
    register_optimizer_step_pre_hook,
)
from lazyten.storage.history import history_of

STEPS = 12


class Run:
    """A problem, an optimizer of it and a function that makes a step."""

    def __init__(self, T: Any, name: str, **options: Any) -> None:
        self.w, self.b, self.loss = problem(T)
        self.opt = MAKERS[name](T)([self.w, self.b], **options)

    def step(self) -> Any:
        self.opt.zero_grad()
        loss = self.loss()
        loss.backward()
        self.opt.step()
        return loss.detach()

    def cleared_after(self) -> Any:
        loss = self.loss()
        loss.backward()
        self.opt.step()
        self.opt.zero_grad()
        return loss.detach()

    def values(self, step: Any) -> list[float]:
        found = []
        for number in range(STEPS):
            self.opt.param_groups[0]["lr"] = 0.05 if number < 6 else 0.01
            found.append(step().item())
        return [*found, *self.w.detach().numpy().reshape(-1), *self.b.detach().numpy()]


def made(name: str, order: str, jitted: bool, T: Any = lt) -> list[float]:
    run = Run(T, name, **({"lr": 0.05, "momentum": 0.9} if name == "sgd" else {}))
    step = getattr(run, order)
    return run.values(lt.jit(step) if jitted else step)


@pytest.mark.torch
@pytest.mark.parametrize("jitted", [False, True], ids=["eager", "jit"])
@pytest.mark.parametrize("order", ["step", "cleared_after"])
@pytest.mark.parametrize("name", MAKERS)
def test_own_steps_are_pytorchs(name: str, order: str, jitted: bool) -> None:
    np.testing.assert_allclose(made(name, order, jitted), made(name, order, False, torch),
                               rtol=2e-5, atol=1e-6)


@pytest.mark.parametrize("name", MAKERS)
def test_a_jitted_own_step_is_the_step(name: str) -> None:
    np.testing.assert_allclose(made(name, "step", True), made(name, "step", False), rtol=1e-6)


@pytest.mark.parametrize("jitted", [False, True], ids=["eager", "jit"])
def test_numbers_of_own_steps_compile_nothing_once_they_have_changed(jitted: bool) -> None:
    run = Run(lt, "adam")
    step = lt.jit(run.step) if jitted else run.step
    for number in range(5):
        run.opt.param_groups[0]["lr"] = 0.1 / (number + 1)
        step()
    with counted_plans() as plans:
        for number in range(20):
            run.opt.param_groups[0]["lr"] = 0.01 / (number + 1)
            step()
    assert not plans
    assert run.opt.state[run.w]["step"] == 25


def test_a_number_that_comes_back_to_what_it_was_stays_an_input() -> None:
    w = lt.tensor([1.0], requires_grad=True)

    class Plain(lt.optim.Optimizer):
        def step(self, closure: Any = None) -> Any:
            with lt.no_grad():
                w.add_(w.grad, alpha=-self.param_groups[0]["lr"])

    opt = Plain([w], {"lr": 0.0})
    w.grad = lt.ones(1)
    rates = [0.5, 0.25, 0.25, 0.125, 0.125, 0.0, 0.25]
    with counted_plans() as plans:
        for rate in rates:
            opt.param_groups[0]["lr"] = rate
            opt.step()
    assert len(plans) == 4  # of a gradient that is a constant, of three rates, and of any
    assert w.item() == 1 - sum(rates)


def test_own_steps_leave_nothing_recorded() -> None:
    run = Run(lt, "adam")
    for _ in range(3):
        run.step()
    state = run.opt.state[run.w]
    for tensor in (run.w, run.b, state["exp_avg"], state["exp_avg_sq"]):
        assert history_of(tensor._storage.value).depth == 0


@pytest.mark.parametrize("use", [
    lambda run: run.w.sum().detach(), lambda run: run.b.grad.sum(),
    lambda run: setattr(run.w, "grad", None), lambda run: run.opt.step(None)])
def test_what_an_own_step_changes_is_not_used_after_it_in_a_jitted_function(use: Any) -> None:
    run = Run(lt, "adam")
    before = run.w.tolist()

    @lt.jit(fullgraph=True)
    def step() -> Any:
        run.step()
        return use(run)

    with pytest.raises(lt.JitError, match=r"OwnAdam.step\(\)"):
        step()
    assert run.w.tolist() == before and not run.opt.state

    plain, jitted = Run(lt, "adam"), Run(lt, "adam")
    call = lt.jit(lambda: (jitted.step(), use(jitted))[1])
    for _ in range(3):
        plain.step()
        expected, found = use(plain), call()
        assert (found is None) == (expected is None)
        # The same in other kernels: what goes on in Python after a trace is no part of one program.
        assert found is None or found.tolist() == pytest.approx(expected.tolist(), rel=1e-5)
        np.testing.assert_allclose(jitted.w.numpy(), plain.w.numpy(), rtol=1e-5)


def test_a_jitted_function_sees_an_own_optimizers_new_attributes() -> None:
    """Its Python runs at each call, so nothing of it is compared."""
    run = Run(lt, "adam")
    step = lt.jit(run.step)
    step()
    run.opt.anything = 3
    for group in run.opt.param_groups:
        group["weight_decay"] = 0.0
    other = Run(lt, "adam")
    other.step()
    other.opt.param_groups[0]["weight_decay"] = 0.0
    for _ in range(2):
        step()
        other.step()
    assert step.cache_size == 1
    np.testing.assert_allclose(run.w.tolist(), other.w.tolist(), rtol=1e-6)


def test_a_state_that_is_a_host_number_keeps_its_value_until_the_next_step() -> None:
    """ASGD writes such numbers to its state as they are."""
    for jitted in (False, True):
        w = lt.tensor([1.0], requires_grad=True)
        opt = lt.optim.ASGD([w], lr=0.5, lambd=0.0, alpha=1.0)

        def step(w: lt.Tensor = w, opt: Any = opt) -> None:
            opt.zero_grad()
            w.sum().backward()
            opt.step()

        run = lt.jit(step) if jitted else step
        for rate in (0.5, 0.25, 0.125):
            opt.param_groups[0]["lr"] = rate
            run()
        assert w.item() == 1 - 0.5 - 0.5 - 0.25


def test_a_gradient_scaler_skips_own_steps() -> None:
    run = Run(lt, "adam")
    scaler = lt.amp.GradScaler(init_scale=8.0)
    before = run.w.tolist()
    for factor in (float("inf"), 1.0):
        run.opt.zero_grad()
        scaler.scale(run.loss() * factor).backward()
        scaler.step(run.opt)
        scaler.update()
        if factor != 1.0:
            assert run.w.tolist() == before and scaler.get_scale() == 4.0
    assert run.w.tolist() != before
    assert run.opt.state[run.w]["step"] == 1


def test_an_optimizer_around_another_needs_no_init_of_its_base_class() -> None:
    class Twice(lt.optim.Optimizer):
        def __init__(self, inner: lt.optim.Optimizer) -> None:
            self.inner, self.param_groups = inner, inner.param_groups

        def step(self, closure: Any = None) -> None:
            self.inner.step()
            self.inner.step()

    p = lt.ones(1, requires_grad=True)
    (p * 2).sum().backward()
    Twice(lt.optim.SGD([p], 0.1)).step()
    assert p.item() == pytest.approx(0.6)


def test_hooks_are_called_around_steps_and_states() -> None:
    run, called = Run(lt, "adam"), []

    def noting(name: str) -> Any:
        return lambda *args: called.append(name)

    opt = run.opt
    handles = [register_optimizer_step_pre_hook(noting("all before")),
               register_optimizer_step_post_hook(noting("all after")),
               opt.register_step_pre_hook(noting("before")),
               opt.register_step_post_hook(noting("after"))]
    run.step()
    assert called == ["all before", "before", "after", "all after"]
    for handle in handles:
        handle.remove()
    called.clear()
    opt.register_state_dict_pre_hook(noting("packing"))
    opt.register_state_dict_post_hook(lambda o, state: {**state, "more": 1})
    opt.register_load_state_dict_post_hook(noting("loaded"))
    opt.register_load_state_dict_pre_hook(noting("loading"))
    opt.register_load_state_dict_pre_hook(noting("first"), prepend=True)
    state = opt.state_dict()
    assert state["more"] == 1
    opt.load_state_dict(state)
    assert called == ["packing", "first", "loading", "loaded"]


def test_a_hook_may_give_a_step_other_arguments() -> None:
    run = Run(lt, "adam")
    run.opt.register_step_pre_hook(lambda opt, args, kwargs: ((lambda: 5.0,), {}))
    assert run.opt.step() == 5.0
    run.opt.register_step_pre_hook(lambda opt, args, kwargs: 1)
    with pytest.raises(lt.ArgumentError, match="args, kwargs"):
        run.opt.step()


def test_a_copy_goes_on_by_itself() -> None:
    run = Run(lt, "adam")
    run.step()
    other = copy.deepcopy(run)
    copied = other.opt.param_groups[0]["params"][0]
    assert copied is other.w and copied is not run.w
    assert other.opt.state[copied]["step"] == 1
    before = run.w.tolist()
    for p in (other.w, other.b):
        p.grad = lt.ones_like(p)
    other.opt.step()
    assert run.w.tolist() == before and other.w.tolist() != before


def test_groups_are_added_with_all_options() -> None:
    w, b, _ = problem(lt)
    opt = own_adam(lt)([{"params": w, "name": "weights"}], lr=0.5)
    group = {"params": (p for p in [b]), "lr": 0.25}
    opt.add_param_group(group)
    assert opt.param_groups[1] is group and group["params"] == [b]
    assert group["betas"] == (0.9, 0.99) and opt.param_groups[0]["name"] == "weights"
    with pytest.raises(lt.ArgumentError, match="twice"):
        opt.add_param_group({"params": [w]})
    with pytest.raises(lt.JitError, match="add_param_group"):
        lt.jit(fullgraph=True)(lambda: opt.add_param_group({"params": [lt.ones(2)]}))()


def test_an_option_may_have_no_default() -> None:
    required = lt.optim.optimizer.required
    with pytest.raises(lt.ArgumentError, match="'lr', which has no default"):
        lt.optim.Optimizer([lt.ones(2)], {"lr": required})
    opt = lt.optim.Optimizer([{"params": [lt.ones(2)], "lr": 1}], {"lr": required})
    with pytest.raises(lt.NotDefinedError, match="step"):
        opt.step()


@pytest.mark.parametrize("maker", [lt.optim.SGD, lt.optim.AdamW, lt.optim.Adagrad])
def test_a_frozen_parameter_may_be_thawed_later(maker: Any) -> None:
    p, frozen = lt.ones(2).requires_grad_(), lt.ones(2)
    opt = maker([p, frozen], lr=0.5)
    for tensor, moved in ((p, True), (frozen, False)):
        p.grad = lt.ones(2)
        opt.step()
        assert (tensor.tolist() != [1.0, 1.0]) is moved
    frozen.requires_grad_()
    (frozen * 2).sum().backward()
    opt.step()
    assert frozen.tolist() != [1.0, 1.0]


@pytest.mark.parametrize("jitted", [False, True], ids=["eager", "jit"])
@pytest.mark.parametrize("maker", [lt.optim.SGD, lt.optim.Adam, lt.optim.RAdam])
def test_a_learning_rate_may_be_a_tensor(maker: Any, jitted: bool) -> None:
    found = []
    for lr in (0.25, lt.tensor(0.25)):
        w, b, loss = problem(lt)
        opt = maker([w, b], lr=lr)

        def step(loss: Any = loss, opt: Any = opt) -> None:
            opt.zero_grad()
            loss().backward()
            opt.step()

        run = lt.jit(step) if jitted else step
        for number in range(3):
            if number == 2:
                group = opt.param_groups[0]
                group["lr"] = group["lr"].fill_(0.125) if isinstance(lr, lt.Tensor) else 0.125
            run()
        found.append(w.detach().numpy())
    np.testing.assert_allclose(*found, rtol=1e-5)


@pytest.mark.parametrize("maker", [lt.optim.ASGD, lt.optim.Rprop])
def test_a_state_that_begins_with_a_rate_is_made_where_the_rate_can_be_read(maker: Any) -> None:
    w = lt.tensor([1.0], requires_grad=True)
    w.grad = lt.ones(1)
    opt = maker([w], lr=lt.tensor(0.25))
    step = lt.jit(fullgraph=True)(lambda: opt.step())
    with pytest.raises(lt.JitError, match="first step outside"):
        step()
    opt.step()
    before = w.item()
    step()
    assert w.item() < before


def lion(p: Any, g: Any, s: Any, t: int) -> Any:
    direction = np.sign(s.get("m", 0) * 0.9 + g * 0.1)
    s["m"] = s.get("m", 0) * 0.99 + g * 0.01
    return p * (1 - 0.1 * 0.2) - 0.1 * direction


def lamb(p: Any, g: Any, s: Any, t: int) -> Any:
    s["m"] = s.get("m", 0) * 0.9 + g * 0.1
    s["v"] = s.get("v", 0) * 0.999 + g * g * 0.001
    change = s["m"] / (1 - 0.9**t) / (np.sqrt(s["v"] / (1 - 0.999**t)) + 1e-6) + p * 0.2
    return p - 0.1 * np.linalg.norm(p) / np.linalg.norm(change) * change


def sophia(p: Any, g: Any, s: Any, t: int) -> Any:
    s["h"] = s.get("h", 0) * 0.99 + g * g * 0.01
    s["m"] = s.get("m", 0) * 0.965 + g * 0.035
    ratio = np.minimum(np.abs(s["m"]) / (0.04 * 64 * s["h"] + 1e-15), 1)
    return p * (1 - 0.1 * 0.2) - 0.1 * np.sign(s["m"]) * ratio


@pytest.mark.parametrize(("maker", "rule"), [
    (lt.optim.Lion, lion), (lt.optim.LAMB, lamb), (lt.optim.Sophia, sophia)])
def test_optimizers_that_pytorch_lacks_follow_their_papers(maker: Any, rule: Any) -> None:
    rng = np.random.default_rng(0)
    expected, state = rng.normal(size=(3, 4)), {}
    p = lt.tensor(expected, requires_grad=True)
    more = {"batch_size": 64} if maker is lt.optim.Sophia else {}
    opt = maker([p], lr=0.1, weight_decay=0.2, **more)
    for t in range(1, 5):
        gradient = rng.normal(size=(3, 4))
        p.grad = lt.tensor(gradient)
        if more:
            opt.update_hessian()
        with counted_plans() as plans:
            opt.step()
        assert t < 3 or not plans
        expected = rule(expected, gradient, state, t)
        np.testing.assert_allclose(p.tolist(), expected, rtol=1e-9)
