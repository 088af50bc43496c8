"""A trace is told what the user's code calls, wherever lazyten calls that, and little else."""
from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import Any

import pytest

import lazyten as lt
from lazyten.autodiff.watching import watch
from lazyten.capture.state import purity

SEEN: list[float] = []


class Doubled(lt.autograd.Function):
    """A gradient that depends on a clock of the test's."""

    @staticmethod
    def forward(ctx: Any, x: lt.Tensor) -> lt.Tensor:
        return x * 1

    @staticmethod
    def backward(ctx: Any, g: lt.Tensor) -> lt.Tensor:
        return g * (time.time() > 0) * 2


class Number:
    """An index that depends on a clock."""

    def __index__(self) -> int:
        return int(time.time() > 0)


def by_rule(x: lt.Tensor) -> Any:
    return lt.autograd.grad(Doubled.apply(x).sum(), x)[0]


def by_hook(x: lt.Tensor) -> Any:
    y = x * 3
    y.register_hook(lambda g: g * (time.time() > 0))
    y.sum().backward()
    return x.grad


def by_hook_of_a_leaf(x: lt.Tensor) -> Any:
    w = x.detach().requires_grad_()
    w.register_hook(lambda g: g * (time.time() > 0))
    (w * 3).sum().backward()
    return w.grad


def after_a_leaf(x: lt.Tensor) -> Any:
    w = x.detach().requires_grad_()
    w.register_post_accumulate_grad_hook(lambda leaf: leaf.grad.mul_(time.time() > 0))
    (w * 3).sum().backward()
    return w.grad


def by_index(x: lt.Tensor) -> Any:
    return x[Number()] * 2


@pytest.mark.parametrize("function", [by_rule, by_hook, by_hook_of_a_leaf, after_a_leaf, by_index])
def test_a_clock_that_code_of_the_users_reads_within_an_operation_is_refused(
        function: Callable[[lt.Tensor], Any]) -> None:
    with pytest.raises(lt.JitError, match="reading a clock"):
        lt.jit(function, fullgraph=True)(lt.ones(3, requires_grad=True))
    assert sys.getprofile() is None and watch.hook is None and watch.aside is None


@pytest.mark.parametrize("function", [by_rule, by_hook, by_hook_of_a_leaf, after_a_leaf, by_index])
def test_a_trace_that_ends_within_an_operation_puts_the_users_profiler_back(
        function: Callable[[lt.Tensor], Any]) -> None:
    def users(frame: Any, event: str, called: Any) -> None:
        """A profiler of the program's."""

    sys.setprofile(users)
    try:
        found = lt.jit(function)(lt.ones(3, requires_grad=True))
        after = sys.getprofile()
    finally:
        sys.setprofile(None)
    assert after is users and watch.hook is None and watch.aside is None
    assert found.tolist() == function(lt.ones(3, requires_grad=True)).tolist()


def test_most_calls_of_a_trace_are_not_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """What lazyten calls for itself would take half of the time."""
    model = lt.nn.Sequential(*[lt.nn.Linear(4, 4) for _ in range(8)])
    original, told = purity._Hook.watch, []

    def counting(hook: Any) -> Any:
        check = original(hook)
        return lambda *given: (told.append(given[1]), check(*given))[1]

    def step(x: lt.Tensor) -> lt.Tensor:
        loss = model(x).sum()
        loss.backward()
        return loss.detach()

    monkeypatch.setattr(purity._Hook, "watch", counting)
    lt.jit(step)(lt.ones(2, 4))
    assert 0 < len(told) < 8 * 300
