"""jvp() of a user's Function, which forward mode goes by where there is one."""
from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import lazyten as lt


class Scaled(lt.autograd.Function):
    """x * y * k and 2 x, with a tangent that is said to be ten times as large for the second."""

    @staticmethod
    def forward(ctx: Any, x: lt.Tensor, y: lt.Tensor, k: float) -> tuple[lt.Tensor, lt.Tensor]:
        ctx.save_for_forward(x, y)
        ctx.save_for_backward(y)
        ctx.k = k
        return x * y * k, 2 * x

    @staticmethod
    def backward(ctx: Any, first: lt.Tensor, second: lt.Tensor) -> tuple[lt.Tensor, None, None]:
        y, = ctx.saved_tensors
        return first * y * ctx.k + 2 * second, None, None

    @staticmethod
    def jvp(ctx: Any, x_t: lt.Tensor, y_t: lt.Tensor, k_t: None) -> tuple[lt.Tensor, lt.Tensor]:
        assert k_t is None and len(ctx.saved_for_forward) == 2
        x, y = ctx.saved_tensors
        return ctx.k * (x_t * y + x * y_t), 20 * x_t


X, Y = np.float32([1, 2, 3]), np.float32([4, 5, 6])
T, U = np.float32([1, 0, 2]), np.float32([0, 1, 1])


def test_forward_mode_goes_by_jvp(device: str) -> None:
    x, y, t, u = (lt.tensor(a, device=device) for a in (X, Y, T, U))
    values, tangents = lt.func.jvp(lambda x, y: Scaled.apply(x, y, 3.0), (x, y), (t, u))
    np.testing.assert_allclose(values[0].numpy(), 3 * X * Y)
    np.testing.assert_allclose(tangents[0].numpy(), 3 * (T * Y + X * U))
    np.testing.assert_allclose(tangents[1].numpy(), 20 * T)
    _, one = lt.func.jvp(lambda x: Scaled.apply(x, y, 3.0)[0].exp(), (0.1 * x,), (t,))
    np.testing.assert_allclose(one.numpy(), np.exp(0.3 * X * Y) * 3 * T * Y, rtol=1e-5)


def test_reverse_mode_still_goes_by_backward() -> None:
    x = lt.tensor(X, requires_grad=True)
    first, second = Scaled.apply(x, lt.tensor(Y), 3.0)
    (first + second).sum().backward()
    assert x.grad is not None
    np.testing.assert_allclose(x.grad.numpy(), 3 * Y + 2)


def test_forward_mode_of_all_examples_goes_by_jvp() -> None:
    """vmap within forward mode, whose batched operations have that tangent, too."""
    x, y, t, u = (lt.tensor(np.stack([a, 2 * a])) for a in (X, Y, T, U))
    second = lt.func.vmap(lambda x, y: Scaled.apply(x, y, 3.0)[1])
    np.testing.assert_allclose(lt.func.jvp(second, (x, y), (t, u))[1].numpy(), 20 * t.numpy())
    first = lt.func.vmap(lambda x, y: Scaled.apply(x, y, 3.0)[0].exp(), in_dims=(0, None))
    found = lt.func.jvp(lambda x: first(x, y[0]), (0.01 * x,), (t,))[1]
    np.testing.assert_allclose(found.numpy(), first(0.01 * x, y[0]).numpy() * 3 * t.numpy() * Y,
                               rtol=1e-5)
    twice = lt.func.vmap(second)
    np.testing.assert_allclose(lt.func.jvp(lambda x: twice(x, y[None]), (x[None],), (t[None],)
                                           )[1].numpy(), 20 * t.numpy()[None])


def test_jvp_alone_is_enough_for_forward_mode() -> None:
    class Exp(lt.autograd.Function):
        """exp, without backward()."""

        @staticmethod
        def forward(ctx: Any, x: lt.Tensor) -> lt.Tensor:
            ctx.result = x.exp()
            return ctx.result

        @staticmethod
        def jvp(ctx: Any, tangent: lt.Tensor) -> lt.Tensor:
            return tangent * ctx.result

    x, t = lt.tensor(X), lt.tensor(T)
    value, tangent = lt.func.jvp(lambda x: Exp.apply(2 * x).sum(), (x,), (t,))
    np.testing.assert_allclose(tangent.item(), (2 * np.exp(2 * X) * T).sum(), rtol=1e-5)
    np.testing.assert_allclose(value.item(), np.exp(2 * X).sum(), rtol=1e-5)
    columns = lt.func.jacfwd(Exp.apply)(x)
    np.testing.assert_allclose(columns.numpy(), np.diag(np.exp(X)), rtol=1e-5)


def test_a_tangent_that_does_not_fit_says_so() -> None:
    class Wrong(lt.autograd.Function):
        """Gives what `given` says as tangents."""

        given: Any = None

        @staticmethod
        def forward(ctx: Any, x: lt.Tensor) -> lt.Tensor:
            return x * 1

        @staticmethod
        def jvp(ctx: Any, tangent: lt.Tensor) -> Any:
            return Wrong.given

    x = lt.tensor(X)
    for given, message in ((lt.ones(2), r"gave float32 \(2,\) on .* of float32 \(3,\)"),
                           ((x, x), "gave 2 tangents for 1 outputs"), (3, "gave 3 for an output")):
        Wrong.given = given
        with pytest.raises(lt.GradientError, match=message):
            lt.func.jvp(Wrong.apply, (x,), (x,))
    Wrong.given = None
    assert lt.func.jvp(Wrong.apply, (x,), (x,))[1].tolist() == [0, 0, 0]
