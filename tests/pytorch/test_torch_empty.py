"""Tensors without elements among others: what they come from has PyTorch's gradients, of zeros."""
from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import lazyten as lt

torch = pytest.importorskip("torch")

pytestmark = pytest.mark.torch


def no_index(L: Any) -> Any:
    return L.zeros(0, dtype=L.int64)


FORMS: dict[str, Callable[[Any, Any], Any]] = {
    "cat": lambda L, w: L.cat([w[:0], L.ones(1, 2)]),
    "cat of halves": lambda L, w: L.cat([L.ones(1, 2).half(), w.half()[:0]]),
    "cat of nothing": lambda L, w: L.cat([w[:0], w[2:]]),
    "index_add": lambda L, w: L.zeros(3, 2).index_add(0, no_index(L), w[:0]),
    "index_copy": lambda L, w: L.zeros(3, 2).index_copy(0, no_index(L), w[:0]),
    "index_put": lambda L, w: L.zeros(3, 2).index_put((no_index(L),), w[:0]),
    "index_put and base": lambda L, w: (w * 2).index_put((no_index(L),), w[:0]),
    "index_add_": lambda L, w: (w * 3).index_add_(0, no_index(L), w[:0]),
    "scatter_reduce": lambda L, w: L.zeros(3, 2).scatter_reduce(
        0, L.zeros(0, 2, dtype=L.int64), w[:0], "amax"),
    "sum": lambda L, w: w[:0].sum(), "mean of a product": lambda L, w: (w[:0] @ w).sum() + 1,
    "where": lambda L, w: w[w > 5], "gather": lambda L, w: w[no_index(L)],
    "embedding": lambda L, w: L.nn.functional.embedding(no_index(L), w),
    "pooled to nothing": lambda L, w: L.nn.functional.adaptive_avg_pool1d(
        w.detach()[None], 0).sum() + w[0],
    "pad": lambda L, w: L.nn.functional.pad(w[:0], (0, 0, 0, 1)),
    "windows times others": lambda L, w: w.unfold(1, 2, 2)[:0] * L.rand(0, 1, 2),
    "windows of what is computed": lambda L, w: (
        w.repeat(2, 3).unfold(1, 3, 3).split(3)[-1][0:0:3] * L.rand(0, 2, 3)),
}


@pytest.mark.parametrize("name", FORMS)
def test_what_has_no_elements_has_a_gradient(name: str) -> None:
    def gradient(L: Any, wrap: Callable[[Any], Any] = lambda f: f) -> Any:
        w = L.tensor([[1.0, 2.0], [3.0, 4.0]], requires_grad=True)
        wrap(lambda: FORMS[name](L, w).sum().backward())()
        return None if w.grad is None else w.grad.tolist()

    expected = gradient(torch)
    assert expected is not None
    assert gradient(lt) == gradient(lt, lt.jit) == expected


@pytest.mark.parametrize("form", [
    lambda L, x: L.nn.functional.conv_transpose1d(x.reshape(-1, 2, 3)[:0], L.ones(2, 2, 2)),
    lambda L, x: L.nn.functional.conv_transpose1d(x.reshape(-1, 2, 3)[:0], L.ones(2, 2, 3),
                                                  stride=2),
    lambda L, x: L.linalg.matrix_power(x[:, :6].reshape(2, 6, 1) @ x[:, :1].reshape(2, 1, 1).expand(
        2, 1, 6), 0)], ids=["no batch", "no batch of phases", "power 0"])
def test_gradients_of_what_does_not_depend_on_it_are_zeros(form: Callable[[Any, Any], Any]) -> None:
    for L in (torch, lt):
        x = L.ones(2, 6, requires_grad=True)
        form(L, x).sum().backward()
        assert x.grad.tolist() == [[0.0] * 6] * 2


def test_forward_mode_and_vmap_go_through_them() -> None:
    def f(x: lt.Tensor) -> lt.Tensor:
        joined: lt.Tensor = lt.cat([x[:0], x * 2])
        return joined

    x = lt.tensor([1.0, 2.0])
    value, tangent = lt.func.jvp(f, (x,), (lt.ones(2),))
    assert value.tolist() == [2, 4] and tangent.tolist() == [2, 2]
    assert lt.func.vmap(f)(lt.ones(3, 2)).shape == (3, 2)
    assert lt.func.hessian(lambda x: (f(x)**2).sum())(x).tolist() == [[8, 0], [0, 8]]
