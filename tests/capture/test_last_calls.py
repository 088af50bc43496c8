"""A call that is like the last one is known without a key; one that differs in anything is not."""
from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest

import lazyten as lt
from lazyten.capture import jitted as jitted_module
from lazyten.capture.jitted import Jitted
from lazyten.nn.module_hooks import EVERYWHERE

scale = 2.0


def function(x: lt.Tensor, y: lt.Tensor) -> lt.Tensor:
    """Of a global, too."""
    return x * scale + y


def values(seed: int = 0) -> tuple[lt.Tensor, lt.Tensor]:
    """Two tensors of 3x4."""
    drawn = np.random.default_rng(seed)
    x, y = (drawn.standard_normal((3, 4)).astype(np.float32) for _ in range(2))
    return lt.tensor(x), lt.tensor(y)


def called(call: Any, count: int = 4) -> None:
    """Call a jitted function so often that the last call is what the next is compared with."""
    for seed in range(count):
        x, y = values(seed)
        np.testing.assert_array_equal(call(x, y).numpy(), function(x, y).numpy())


@contextmanager
def without_keys(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Within this block no call of a jitted function is looked up."""
    def refuse(*_: Any) -> None:
        raise AssertionError("a call is looked up")
    with monkeypatch.context() as changed:
        changed.setattr(jitted_module, "Call", refuse)
        yield


def test_a_call_like_the_last_makes_no_key(monkeypatch: pytest.MonkeyPatch) -> None:
    call = lt.jit(function)
    called(call)
    with without_keys(monkeypatch):
        called(call)
        x, y = values(9)
        np.testing.assert_array_equal(call(x + y, y).numpy(), function(x + y, y).numpy())


def _is_computed_alike(call: Jitted[..., Any], *args: Any, **kwargs: Any) -> None:
    found, expected = call(*args, **kwargs), function(*args, **kwargs)
    assert found.dtype is expected.dtype
    assert found.requires_grad is expected.requires_grad
    np.testing.assert_array_equal(found.detach().numpy(), expected.detach().numpy())


OTHERS: dict[str, Callable[[lt.Tensor, lt.Tensor], tuple[Any, ...]]] = {
    "another shape": lambda x, y: (x[:2].clone(), y[:2].clone()),
    "one that is broadcast": lambda x, y: (x, y[0].clone()),
    "another type": lambda x, y: (x, y.double()),
    "a view": lambda x, y: (x, lt.cat([y, y])[3:]),
    "a transposed view": lambda x, y: (x, y.reshape(4, 3).T),
    "a number": lambda x, y: (x, 1.5),
    "the same tensor": lambda x, y: (x, x),
    "two views of one": lambda x, y: (x, x.reshape(12).reshape(3, 4)),
    "a detached tensor": lambda x, y: (x, y.detach()),
    "a leaf": lambda x, y: (x, y.requires_grad_()),
    "what a gradient flows through": lambda x, y: (x, y.requires_grad_() * 2),
    "a detached leaf": lambda x, y: (x, y.requires_grad_().detach()),
    "what is still to be computed": lambda x, y: (x, (y + 1) * 2),
    "an array's memory": lambda x, y: (x, lt.from_numpy(np.ones((3, 4), np.float32))),
}


@pytest.mark.parametrize("name", OTHERS)
def test_arguments_of_another_kind_are_told_apart(name: str) -> None:
    call = lt.jit(function)
    called(call)
    for _ in range(3):
        _is_computed_alike(call, *OTHERS[name](*values(5)))
        called(call, 1)
    called(call)
    for _ in range(3):
        _is_computed_alike(call, *OTHERS[name](*values(6)))


def test_one_tensor_twice_is_told_apart_from_two() -> None:
    call = lt.jit(lambda x, y: x * 2 if x is y else x * y + 1)
    x, y = values()
    for _ in range(4):
        call(x, y)
    assert call(x, x).tolist() == (x * 2).tolist()


def test_arguments_by_name_are_told_apart() -> None:
    call = lt.jit(function)
    called(call)
    x, y = values(5)
    _is_computed_alike(call, y=x, x=y)
    _is_computed_alike(call, x, y=y)


def test_another_setting_is_told_apart() -> None:
    call = lt.jit(lambda x, y: x @ y.T + lt.ones(3))
    x, y = values()
    for _ in range(4):
        call(x, y)
    with lt.autocast("cpu"):
        assert call(x, y).dtype is (x @ y.T + lt.ones(3)).dtype
    lt.set_default_dtype(lt.float64)
    try:
        assert call(x, y).dtype is lt.float64
    finally:
        lt.set_default_dtype(lt.float32)
    assert call(x, y).dtype is lt.float32


def test_a_global_that_changes_is_told_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    call = lt.jit(function)
    called(call)
    monkeypatch.setitem(globals(), "scale", 3.0)
    called(call)
    monkeypatch.setitem(globals(), "scale", 2.0)
    called(call)


def test_hooks_of_all_modules_are_told_apart() -> None:
    net = lt.nn.Linear(4, 2)
    call, seen = lt.jit(lambda x: net(x).detach()), list[Any]()
    x, _ = values()
    for _ in range(4):
        call(x)
    handle = lt.nn.modules.module.register_module_forward_hook(lambda *_: seen.append(1))
    try:
        assert EVERYWHERE
        call(x)
    finally:
        handle.remove()
    assert seen


def test_another_state_of_a_module_is_told_apart() -> None:
    net = lt.nn.Dropout(0.5)
    call = lt.jit(net)
    x = lt.ones(1000)
    for _ in range(4):
        call(x)
    net.eval()
    for _ in range(4):
        assert call(x).tolist() == x.tolist()
    net.train()
    assert call(x).tolist() != x.tolist()


def test_what_is_written_and_given_in_two_ways_is_told_apart() -> None:
    total = lt.zeros(3, 4)

    @lt.jit
    def add(x: lt.Tensor) -> None:
        total.add_(x)
    x = lt.ones(3, 4)
    for _ in range(4):
        add(x)
    assert total.tolist() == np.full((3, 4), 4.0).tolist()
    add(total)
    assert total.tolist() == np.full((3, 4), 8.0).tolist()
    add(x)
    assert total.tolist() == np.full((3, 4), 9.0).tolist()


def test_a_transform_has_the_function_itself() -> None:
    call = lt.jit(function)
    called(call)
    x, y = values()
    found = lt.func.vmap(call)(x, y)
    np.testing.assert_array_equal(found.numpy(), function(x, y).numpy())
