"""A Function with several outputs: its backward() is called once, with the gradients of all."""
from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import lazyten as lt

X, Y = np.array([1.0, 2.0, 3.0]), np.array([0.5, -1.0, 2.0])


def halves(calls: list[Any], materialize: bool = False) -> Any:
    """sin x and x * y of other types, and the sum of x; not linear in how often it is called."""
    class Halves(lt.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: lt.Tensor, y: lt.Tensor) -> Any:
            ctx.set_materialize_grads(materialize)
            ctx.save_for_backward(x, y)
            return x.sin().float(), [x.shape], x * y, x[:0] * 1

        @staticmethod
        def backward(ctx: Any, sine: Any, nothing: None, product: Any, empty: Any) -> Any:
            calls.append([None if g is None else g.dtype.name for g in (sine, product, empty)])
            x, y = ctx.saved_tensors
            gx = x * 0 if sine is None else sine.double() * x.cos()
            if product is None:
                return gx, None
            return gx + product * y, product * x
    return Halves


@pytest.mark.parametrize("wrap", [lambda step: step, lt.jit], ids=["eager", "jit"])
def test_backward_is_called_once_with_the_gradients_of_all(wrap: Any) -> None:
    calls: list[Any] = []

    @wrap
    def step(x: lt.Tensor, y: lt.Tensor) -> Any:
        sine, _, product, _ = halves(calls).apply(x, y)
        return lt.autograd.grad((sine.double() * product).sum(), [x, y])

    x, y = (lt.tensor(a, requires_grad=True) for a in (X, Y))
    gx, gy = step(x, y)
    assert calls == [["float32", "float64", None]]
    np.testing.assert_allclose(gx.numpy(), np.cos(X) * X * Y + np.sin(X) * Y, rtol=1e-6)
    np.testing.assert_allclose(gy.numpy(), np.sin(X) * X, rtol=1e-6)


@pytest.mark.parametrize("materialize", [True, False])
def test_an_output_that_is_not_used_has_none_or_zeros(materialize: bool) -> None:
    calls: list[Any] = []
    x, y = (lt.tensor(a, requires_grad=True) for a in (X, Y))
    halves(calls, materialize).apply(x, y)[0].sum().backward()
    assert calls == [["float32", "float64", "float64"] if materialize else ["float32", None, None]]
    assert x.grad is not None and (y.grad is not None) is materialize
    np.testing.assert_allclose(x.grad.numpy(), np.cos(X), rtol=1e-6)


@pytest.mark.parametrize("wrap", [lambda step: step, lt.jit], ids=["eager", "jit"])
@pytest.mark.parametrize("size", [0, 3])
def test_gradients_of_outputs_that_count_for_nothing_are_zeros(wrap: Any, size: int) -> None:
    """backward() would have nothing but None."""
    @wrap
    def step(x: lt.Tensor, y: lt.Tensor) -> Any:
        _, _, product, _ = halves([]).apply(x, y)
        return lt.autograd.grad((product * 0).sum(), [x, y])

    x, y = (lt.tensor(a[:size], requires_grad=True) for a in (X, Y))
    for gradient in step(x, y):
        assert gradient.tolist() == [0.0] * size and gradient.dtype is lt.float64


@pytest.mark.parametrize("shape", [(0, 0), (0, 2, 2), (2, 2)])
def test_gradients_of_no_eigenvalues_are_empty_and_of_unused_ones_zeros(shape: Any) -> None:
    for values in (lt.linalg.eigvalsh, lt.linalg.svdvals, lambda a: lt.linalg.eigvals(a).abs()):
        a = lt.ones(shape).tril().requires_grad_()
        (values(a) * 0).sum().backward()
        assert a.grad is not None and lt.equal(a.grad, lt.zeros(shape))


def test_transforms_see_all_outputs() -> None:
    def value(x: lt.Tensor, y: lt.Tensor) -> lt.Tensor:
        sine, _, product, _ = halves([]).apply(x, y)
        return (sine.double() * product).sum()

    def plain(x: lt.Tensor, y: lt.Tensor) -> lt.Tensor:
        return (x.sin().float().double() * (x * y)).sum()

    x, y = (lt.tensor(np.stack([a, a[::-1], a ** 2])) for a in (X, Y))
    def done(f: Any) -> list[Any]:
        hessian = lt.func.hessian(lambda x: f(x, y))(x)
        return [*lt.func.vmap(lt.func.grad(f, (0, 1)))(x, y), *lt.func.jvp(f, (x, y), (y, x)),
                *lt.func.jacrev(f, (0, 1))(x, y), hessian]

    for mine, other in zip(done(value), done(plain), strict=True):
        np.testing.assert_allclose(mine.numpy(), other.numpy(), rtol=1e-6, atol=1e-7)


def test_a_part_of_an_output_is_used() -> None:
    x, y = (lt.tensor(a, requires_grad=True) for a in (X, Y))
    _, _, product, _ = halves([]).apply(x, y)
    (product[1:] * 2).sum().backward()
    assert y.grad is not None and y.grad.tolist() == [0, 2 * X[1], 2 * X[2]]
