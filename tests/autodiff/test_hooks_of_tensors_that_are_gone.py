"""Hooks are called as long as something is computed by what they are of, whoever has the tensor."""
from collections.abc import Callable
from typing import Any

import pytest

import lazyten as lt
from lazyten.autodiff import hooks

LEAVES: dict[str, Callable[[], lt.Tensor]] = {
    "constant": lambda: lt.ones(8, requires_grad=True),
    "memory": lambda: lt.tensor([1.0] * 8, requires_grad=True),
    "computed": lambda: (lt.ones(8) * 1).requires_grad_(),
}


def another_frame() -> lt.Tensor:
    return (lt.ones(3) + 1).sum()


def by_a_view(w: lt.Tensor, hook: Callable[[lt.Tensor], None]) -> Any:
    v = w.reshape(2, 4)[:, :3]
    v.register_hook(hook)
    return v.T.sum()


def by_a_view_of_the_view(w: lt.Tensor, hook: Callable[[lt.Tensor], None]) -> Any:
    v = w[:3]
    v.register_hook(hook)
    x = v[1:]
    del v
    another_frame().item()
    return x.exp().sum()


def by_a_view_made_before(w: lt.Tensor, hook: Callable[[lt.Tensor], None]) -> Any:
    v = w[:3]
    x = v[1:]
    v.register_hook(hook)
    del v
    another_frame().item()
    return x.exp().sum()


def by_a_view_of_a_product(w: lt.Tensor, hook: Callable[[lt.Tensor], None]) -> Any:
    u = w * 2
    u.sum().item()
    other = another_frame()
    v = u[:3]
    v.register_hook(hook)
    x = v[1:]
    del v
    loss = x.exp().sum()
    loss.item()
    return loss, other


def by_what_was_computed_before(w: lt.Tensor, hook: Callable[[lt.Tensor], None]) -> Any:
    u = w * 2
    v = u[:3]
    loss = v.exp().sum()
    loss.item()
    other = another_frame()
    v.register_hook(hook)
    return loss, other


def by_what_alone_is_left(w: lt.Tensor, hook: Callable[[lt.Tensor], None]) -> Any:
    return by_what_was_computed_before(w, hook)[0]


def by_what_was_computed_in_a_frame_before(w: lt.Tensor, hook: Callable[[lt.Tensor], None]) -> Any:
    u = w * 2
    loss = u.exp().sum()
    loss.item()
    another_frame()
    (u * 3).sum().item()
    u.register_hook(hook)
    return loss


COURSES = (by_a_view, by_a_view_of_the_view, by_a_view_made_before, by_a_view_of_a_product,
           by_what_was_computed_before, by_what_alone_is_left,
           by_what_was_computed_in_a_frame_before)


@pytest.mark.parametrize("leaf", LEAVES)
@pytest.mark.parametrize("course", COURSES, ids=lambda course: str(course.__name__))
def test_a_hook_is_called_though_nobody_has_the_tensor(
        course: Callable[[lt.Tensor, Callable[[lt.Tensor], None]], Any], leaf: str) -> None:
    for _ in range(3):
        w, told = LEAVES[leaf](), list[lt.Tensor]()
        loss = course(w, told.append)
        (loss[0] if isinstance(loss, tuple) else loss).backward()
        assert len(told) == 1


@pytest.mark.parametrize("is_held", [False, True])
def test_a_hook_of_a_view_reaches_what_was_computed_in_another_frame(is_held: bool) -> None:
    w, told = LEAVES["memory"](), list[lt.Tensor]()
    u = w * 2
    v = u[:3]
    loss = v.exp().sum()
    loss.item()
    other = another_frame()
    v.register_hook(told.append)
    if not is_held:
        del v
    loss.backward()
    assert len(told) == 1
    assert other.item() == 6


@pytest.mark.parametrize("is_view", [False, True])
def test_a_gradient_is_retained_of_what_another_frame_went_on_with(is_view: bool) -> None:
    w = LEAVES["memory"]()
    u = w * 2
    v = u[:3] if is_view else u
    loss = v.exp().sum()
    loss.item()
    other = another_frame()
    tripled = (u * 3).sum()
    v.retain_grad()
    loss.backward()
    assert v.grad is not None
    assert other.item() + tripled.item() == 54


def test_views_that_are_gone_with_all_that_is_made_of_them_are_forgotten() -> None:
    w = LEAVES["memory"]()
    another_frame().item()
    before = len(hooks.of_values())
    for _ in range(5):
        by_a_view(w, lambda gradient: None).backward()
    another_frame().item()
    assert len(hooks.of_values()) <= before + 1
