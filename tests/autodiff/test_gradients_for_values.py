"""Gradients of gradients for values that are no leaves: users may ask for that of any tensor they
have, and it is as if the tensor were a leaf."""
from __future__ import annotations

from collections.abc import Callable

import pytest
from numpy.testing import assert_allclose

import lazyten as lt

Function = Callable[[lt.Tensor], lt.Tensor]
MADE: dict[str, Function] = {
    "scaled": lambda x: x * 2, "negated": lambda x: -x, "turned": lambda x: x.t() * 1.0,
    "averaged": lambda x: x.mean(0, keepdim=True), "of a logarithm": lambda x: (x + 3).log(),
    "expanded": lambda x: x[:1].expand(2, 2), "padded": lambda x: x[:1].pad((0, 1)),
    "sum": lambda x: x.sum(0, keepdim=True)}
USED: dict[str, Function] = {
    "squared": lambda y: y * y, "negated": lambda y: -y * y, "cubed": lambda y: y ** 3,
    "times its sum": lambda y: y.sum() * y, "product": lambda y: y @ y.t(),
    "quotient": lambda y: y / (y * y + 2), "turned": lambda y: (y.t() * y.t().sum()).t(),
    "repeated": lambda y: (y.sum(0) * y).expand(3, *y.shape) * y,
    "flipped": lambda y: y.flip(0) * y.t().sum()}


@pytest.mark.parametrize("made", MADE)
@pytest.mark.parametrize("used", USED)
def test_a_gradient_depends_on_a_value_as_on_a_leaf(made: str, used: str) -> None:
    """Not on what the value was computed by, past it."""
    def slopes(y: lt.Tensor) -> list[lt.Tensor]:
        first, = lt.autograd.grad(USED[used](y).sum(), y, create_graph=True)
        second, = lt.autograd.grad((first * y).sum(), y, create_graph=True)
        third, = lt.autograd.grad(first, y, y, allow_unused=True, materialize_grads=True)
        return [first, second, third]

    x = lt.tensor([[0.5, -0.75], [1.5, 0.25]], dtype=lt.float64, requires_grad=True,
                  device="interpreter")
    value = MADE[made](x)
    for found, expected in zip(slopes(value), slopes(value.detach().clone().requires_grad_()),
                               strict=True):
        assert_allclose(found.detach().numpy(), expected.detach().numpy(), rtol=1e-12)


def test_retained_gradients_are_of_gradients_too() -> None:
    x = lt.tensor([2.0, 3.0], requires_grad=True)
    y = x * 1
    y.retain_grad()
    (y * y).sum().backward(create_graph=True)
    assert y.grad is not None and y.grad.requires_grad
    slope, = lt.autograd.grad(y.grad.sum(), x)
    assert slope.tolist() == [2, 2]
    y.grad = None
    first, = lt.autograd.grad((y * y).sum(), y, create_graph=True)
    y.grad = None
    (first * 3 + (y + y) * 5).sum().backward()
    assert y.grad is not None and y.grad.tolist() == [16, 16]


def test_zeros_for_what_nothing_depends_on_can_be_differentiated() -> None:
    x, y = lt.ones(2, requires_grad=True), lt.ones(2, requires_grad=True)
    zeros, = lt.autograd.grad(x.sum(), y, create_graph=True, materialize_grads=True)
    (zeros * 3).sum().backward()
    assert zeros.requires_grad and zeros.tolist() == [0, 0]
    assert zeros.grad is not None and zeros.grad.tolist() == [3, 3]
    assert not lt.autograd.grad(x.sum(), y, materialize_grads=True)[0].requires_grad


@pytest.mark.parametrize("when", ["before", "between", "after"])
@pytest.mark.parametrize("is_used", [True, False])
@pytest.mark.parametrize("weighted", [True, False])
def test_what_a_gradient_is_made_of_is_no_value_of_the_users(
        when: str, is_used: bool, weighted: bool) -> None:
    """Though it may be computed alike: y * y is in the gradient of y ** 3."""
    x = lt.tensor([2.0, 3.0], requires_grad=True)
    y, seen = x * 1, []
    v = y * 1 if weighted else lt.ones(2)

    def square() -> lt.Tensor:
        q = v * y if weighted else y * y
        q.register_hook(lambda g: seen.append(g.tolist()))
        q.register_hook(lambda g: g * 10)
        return q
    if when == "before":
        q = square()
    cube = (q if is_used and when == "before" else y * y) * y
    if when == "between":
        q = square()
    slope, = lt.autograd.grad(cube, y, v if weighted else lt.ones(2), create_graph=True)
    seen.clear()
    if when == "after":
        q = square()
    first, = lt.autograd.grad(slope.sum(), x, retain_graph=True)
    through = len(seen)
    assert through == (is_used and when == "before")
    seen.clear()
    both, = lt.autograd.grad(slope.sum() + q.sum(), x)
    if not through:
        assert seen == [[1, 1]]
        assert first.tolist() == ([36, 81] if weighted else [12, 18])
        assert both.tolist() == ([76, 141] if weighted else [52, 78])
