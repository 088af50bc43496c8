"""A leaf that a jitted function reaches as an argument and by its name is one leaf: gradients and
hooks are of all that is read of it, as they are without jit."""
from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import lazyten as lt

Function = Callable[..., Any]
WAYS = pytest.mark.parametrize("jit", [False, True])
ORDERS = pytest.mark.parametrize("order", ["pqppq", "qqpqp"])


def leaf(value: float) -> lt.Tensor:
    return lt.tensor([value], dtype=lt.float64, requires_grad=True)


def made(jit: bool, function: Function) -> Function:
    return lt.jit(function) if jit else function


@WAYS
@ORDERS
@pytest.mark.parametrize("by_name", [True, False])
def test_a_gradient_inside_is_of_all_that_is_read(jit: bool, order: str, by_name: bool) -> None:
    p, q = leaf(3), leaf(5)
    f = made(jit, lambda a: lt.autograd.grad((a * p).sum(), p if by_name else a)[0])
    found = [f(p if name == "p" else q).item() for name in order]
    assert found == [6 if name == "p" else 5 if by_name else 3 for name in order]


@WAYS
@ORDERS
def test_backward_for_the_argument_is_for_the_closed_over_too(jit: bool, order: str) -> None:
    p, q = leaf(3), leaf(5)

    def f(a: lt.Tensor) -> None:
        (a * p).sum().backward(inputs=[a])
    step = made(jit, f)
    for name in order:
        given = p if name == "p" else q
        given.grad = None
        step(given)
        assert given.grad is not None and given.grad.item() == (6 if name == "p" else 3)


@WAYS
def test_a_view_as_argument_flows_to_the_leaf_that_is_closed_over(jit: bool) -> None:
    w, q = lt.tensor([1.0, 2.0, 3.0], requires_grad=True), lt.tensor([5.0], requires_grad=True)
    f = made(jit, lambda a: lt.autograd.grad((a * w[:1]).sum(), w)[0])
    assert [f(x).tolist() for x in (q, w[1:2], w[1:2], q)] == [
        [5, 0, 0], [2, 1, 0], [2, 1, 0], [5, 0, 0]]


@WAYS
def test_gradients_of_what_a_function_gives_are_of_one_leaf(jit: bool) -> None:
    p = leaf(3)
    seen: list[float] = []
    p.register_hook(lambda g: seen.append(g.item()))
    p.register_hook(lambda g: g.clamp(-4, 4))
    f = made(jit, lambda a: a * p)
    for _ in range(3):
        p.grad = None
        y = f(p)
        assert lt.autograd.grad(y.sum(), p, retain_graph=True)[0].item() == 4
        y.sum().backward()
        assert p.grad is not None and p.grad.item() == 4
    assert seen == [6] * 6


@WAYS
def test_a_graph_from_before_a_call_is_of_the_same_leaf(jit: bool) -> None:
    p = leaf(3)
    y, f = p * p, made(jit, lambda a: a * 2)
    z = f(p)
    hook = p.register_hook(lambda g: g * 10)
    assert lt.autograd.grad(y.sum(), p, retain_graph=True)[0].item() == 60
    assert lt.autograd.grad((y + z).sum(), p, retain_graph=True)[0].item() == 80
    hook.remove()
    assert lt.autograd.grad((y + z + f(p)).sum(), p)[0].item() == 10


def test_what_cannot_be_recorded_is_said() -> None:
    p = leaf(3)
    f = lt.jit(lambda a: lt.autograd.grad((a * p).sum(), p)[0], fullgraph=True)
    with pytest.raises(lt.JitError, match="reaches in two ways"):
        f(p)


@WAYS
def test_new_data_is_of_the_same_leaf(jit: bool) -> None:
    p = leaf(3)
    f = made(jit, lambda a: a * a)
    y = f(p)
    seen: list[float] = []
    p.register_hook(lambda g: seen.append(g.item()))
    p.data = p.data * 10
    assert lt.autograd.grad((y * 2 + p).sum(), p, retain_graph=True)[0].item() == 13
    p.data = p.data * 10
    (y + p * p).sum().backward()
    assert p.grad is not None and p.grad.item() == 606
    assert seen == [13, 606]


def test_gradients_of_new_data_of_a_view_go_on_to_the_leaf() -> None:
    p = lt.tensor([1.0, 2.0], requires_grad=True)
    view = p[:1]
    y = view * 3
    view.data = lt.tensor([7.0])
    (y.sum() + (p * 2).sum()).backward()
    assert p.grad is not None and p.grad.tolist() == [5, 2]
    (view * view).sum().backward()
    assert p.grad.tolist() == [19, 2] and p.tolist() == [1, 2]
