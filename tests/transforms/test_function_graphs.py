"""Graphs that a Function's backward() makes, and differentiates, itself."""
from __future__ import annotations

from typing import Any

import pytest

import lazyten as lt
from lazyten import nn
from lazyten.autodiff.gradient import reach_leaves


def adjoint_step(layer: nn.Linear) -> Any:
    """A step through a Function that goes back in time by a graph of its own, which depends on the
    gradient that it was given, and on parameters that the Function's value depends on, too."""

    class Solve(lt.autograd.Function):
        calls = 0

        @staticmethod
        def forward(ctx: Any, x: lt.Tensor, flat: lt.Tensor) -> lt.Tensor:
            z = layer(x)
            ctx.save_for_backward(z, flat)
            return z

        @staticmethod
        def backward(ctx: Any, g: lt.Tensor) -> Any:
            Solve.calls += 1
            assert Solve.calls < 4, "its own graph leads back to it"
            z, _ = ctx.saved_tensors
            state = lt.cat([layer(z), g], 1)
            with lt.enable_grad():
                value = state[:, :3].detach().requires_grad_()
                weight = g.clone().detach().requires_grad_()
                out = (layer(value) * weight).tanh()
                dz, dw, *dp = lt.autograd.grad(out, [value, weight, *layer.parameters()], g)
            return dz + dw, lt.cat([p.flatten() for p in dp])

    def step(x: lt.Tensor) -> lt.Tensor:
        flat = lt.cat([p.flatten() for p in layer.parameters()])
        loss = Solve.apply(x, flat).pow(2).sum()
        loss.backward()
        return loss

    return step


def test_what_backward_differentiates_leads_to_nothing_behind_its_gradient() -> None:
    grads = []
    for wrap in (lambda step: step, lt.jit):
        lt.manual_seed(0)
        layer = nn.Linear(3, 3)
        wrap(adjoint_step(layer))(lt.ones(2, 3))
        assert layer.weight.grad is not None
        grads.append(layer.weight.grad.tolist())
    assert grads[0] == [[pytest.approx(x, rel=1e-5) for x in row] for row in grads[1]]


def test_a_hook_under_jit_sees_a_gradient_without_a_graph() -> None:
    w = lt.ones(2, requires_grad=True)
    seen = []

    def hook(g: lt.Tensor) -> None:
        with lt.enable_grad():
            leaf = (g * 1).detach().requires_grad_()
            seen.append(lt.autograd.grad((leaf * 3).sum(), [leaf, w], allow_unused=True)[1])

    @lt.jit
    def step(x: lt.Tensor) -> lt.Tensor:
        y = x * w
        y.register_hook(hook)
        (y * y).sum().backward()
        return y

    step(lt.ones(2))
    assert seen and all(g is None for g in seen)


def test_a_gradient_for_an_argument_that_needs_none_is_left_out() -> None:
    class Scale(lt.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: lt.Tensor, times: lt.Tensor) -> lt.Tensor:
            ctx.save_for_backward(times)
            return x * times.sum()

        @staticmethod
        def backward(ctx: Any, g: lt.Tensor) -> Any:
            times, = ctx.saved_tensors
            return g * times.sum(), lt.zeros(5, 7, 1)  # of no argument's shape

    x = lt.ones(2, requires_grad=True)
    Scale.apply(x, lt.ones(3)).sum().backward()
    assert x.grad is not None and x.grad.tolist() == [3, 3]
    with pytest.raises(lt.GradientError, match=r"Scale.backward gave float32 \(5, 7, 1\)"):
        Scale.apply(x, lt.ones(3, requires_grad=True)).sum().backward()


def test_a_copy_to_another_device_has_no_graph_under_no_grad() -> None:
    w = lt.ones(2, requires_grad=True)
    with lt.no_grad():
        copied = w.to("interpreter")
    assert not copied.requires_grad and reach_leaves([copied.node]) == [False]
    assert w.to("interpreter").requires_grad and copied.tolist() == [1, 1]


def test_detach_in_place_stops_a_leaf_from_collecting() -> None:
    p = nn.Parameter(lt.ones(2))
    assert p.detach_() is p and not p.requires_grad
    y = (nn.Parameter(lt.ones(2)) * 2)
    assert y.detach_() is y and not y.requires_grad and y.tolist() == [2, 2]
