"""Hooks that were registered outside of a jitted function are called with gradients that it finds,
whenever they were registered, and until they are removed."""
from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import lazyten as lt

Reached = Callable[[lt.Tensor], lt.Tensor]
REACHED: dict[str, Reached] = {
    "leaf": lambda w: w, "part": lambda w: w[:1], "the same": lambda w: w.view_as(w)}


def gradients(jit: bool, of: Reached, by_name: bool, when: int, after: bool = False) -> list[Any]:
    """What is in `.grad` after each of seven calls; before call `when` a hook is registered, and
    taken away again three calls later."""
    w = lt.ones(2, requires_grad=True)
    known = of(w)

    def step(given: lt.Tensor | None = None) -> None:
        reached = known if given is None else given
        (reached * reached * 5).sum().backward()
    call = lt.jit(step) if jit else step
    found = []
    for number in range(7):
        if number == when:
            handle = known.register_post_accumulate_grad_hook(
                lambda p: p.grad.mul_(2)) if after else known.register_hook(lambda g: g + 1)
        if number == when + 3:
            handle.remove()
        call(*[] if by_name else [known])
        assert w.grad is not None
        found.append(w.grad.tolist())
    return found


@pytest.mark.parametrize("of", REACHED)
@pytest.mark.parametrize("by_name", [True, False])
@pytest.mark.parametrize("when", [0, 2])
def test_hooks_are_called_as_without_jit(of: str, by_name: bool, when: int) -> None:
    assert gradients(True, REACHED[of], by_name, when) == \
        gradients(False, REACHED[of], by_name, when)


@pytest.mark.parametrize("by_name", [True, False])
def test_what_waits_for_the_gradient_is_called_as_without_jit(by_name: bool) -> None:
    assert gradients(True, REACHED["leaf"], by_name, 2, True) == \
        gradients(False, REACHED["leaf"], by_name, 2, True)


def test_the_gradient_of_an_argument_with_hooks_cannot_be_replayed() -> None:
    w = lt.ones(2, requires_grad=True)
    w.register_hook(lambda g: g + 1)

    def step(given: lt.Tensor) -> None:
        given.sum().backward()
    with pytest.raises(lt.JitError, match=r"registered for an argument outside"):
        lt.jit(step, fullgraph=True)(w)
    with pytest.raises(lt.JitError, match=r"a view has hooks"):
        view = lt.ones(2, requires_grad=True)[:1]
        view.register_hook(lambda g: g + 1)
        lt.jit(step, fullgraph=True)(view)


def test_hooks_do_not_keep_a_function_without_gradients_from_being_replayed() -> None:
    w = lt.ones(2, requires_grad=True)
    w.register_hook(lambda g: g + 1)
    with lt.no_grad():
        double = lt.jit(lambda given: given * 2, fullgraph=True)
        assert double(w).tolist() == double(w).tolist() == [2, 2]
    assert double.cache_size == 1
