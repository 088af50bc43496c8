"""autograd.grad and backward() where nothing is recorded: inside no_grad(), and in the backward()
of a hand-written operation, of what was computed before. PyTorch is the oracle."""
from __future__ import annotations

from itertools import product
from typing import Any

import pytest
from tensor_values import assert_alike
from torch_if_there import torch

import lazyten as lt

LOOKS = [*product((False, True), repeat=3)]


def of_what_was_computed(m: Any, looks: tuple[bool, ...]) -> Any:
    """Gradients for values within, each of which was looked at or not."""
    x = m.tensor([1.0, 2.0], requires_grad=True)
    inner = x * 0.5
    middle = inner.exp()
    outer = middle * inner
    for value, is_looked_at in zip((inner, middle, outer), looks, strict=True):
        if is_looked_at:
            value.tolist()
    weight = m.tensor([3.0, 4.0])
    with m.no_grad():
        found = m.autograd.grad(outer, [x, inner, middle], weight, retain_graph=True)
        again, = m.autograd.grad(outer, inner, weight, create_graph=True)
    second, = m.autograd.grad(again.sum(), x, retain_graph=True)
    with m.no_grad():
        outer.backward(weight)
    return found, again.detach(), again.requires_grad, second, x.grad


def of_what_a_function_reads(m: Any, looks: tuple[bool, ...]) -> Any:
    """An inverse whose backward() asks for the gradients of what it inverts, for what that was made
    of outside: implicit differentiation, which is once_differentiable."""
    def backward(ctx: Any, g: Any) -> Any:
        x, inner = ctx.saved_tensors
        with m.enable_grad():
            x = x.detach().requires_grad_()
            y = ctx.function(x)
        slope, = m.autograd.grad(y, x, m.ones_like(y), retain_graph=True)
        for_inner, = m.autograd.grad(y, inner, -g / slope, retain_graph=True)
        return None, g / slope, None, None, for_inner

    def forward(ctx: Any, function: Any, y: Any, low: Any, high: Any, inner: Any) -> Any:
        x = (low + high) / 2  # a search that finds it at once
        ctx.function = function
        ctx.save_for_backward(x, inner)
        return x

    body = {"forward": staticmethod(forward),
            "backward": staticmethod(m.autograd.function.once_differentiable(backward))}
    inverse = type("Inverse", (m.autograd.Function,), body)
    w = m.ones(2).requires_grad_()
    given = (m.ones(2) / 3).requires_grad_()
    inner = w * 0.1
    factor = inner.exp()
    ends = m.full_like(given, -1.0), m.full_like(given, 5.0)
    x = inverse.apply(lambda x: x * factor, given, *ends, inner)
    for value, is_looked_at in zip((inner, factor, x), looks, strict=True):
        if is_looked_at:
            value.tolist()
    x.sum().backward()
    return x.detach(), w.grad, given.grad


@pytest.mark.torch
@pytest.mark.parametrize("looks", LOOKS, ids=str)
@pytest.mark.parametrize("check", (of_what_was_computed, of_what_a_function_reads))
def test_gradients_are_pytorchs(check: Any, looks: tuple[bool, ...], device: str) -> None:
    with lt.device(device):
        found = check(lt, looks)
    assert_alike(plain(found), plain(check(torch, looks)), 1e-5)


def plain(value: Any) -> Any:
    if isinstance(value, lt.Tensor | torch.Tensor):
        return value.tolist()
    return [plain(v) for v in value] if isinstance(value, list | tuple) else value
