"""Tensors that carry tangents (lt.autograd.forward_ad), and what ends forward mode."""
from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

import numpy as np
import pytest

import lazyten as lt
from lazyten import nn
from lazyten.autograd import forward_ad as ad  # type: ignore[attr-defined]

X = lt.tensor([[1.0, 2.0], [3.0, 4.0]])
T = lt.tensor([[1.0, 0.5], [0.25, 2.0]])


def near(x: Any, expected: Any) -> None:
    np.testing.assert_allclose(x.detach().numpy(), np.asarray(expected), rtol=1e-6)


def tangent(function: Callable[[lt.Tensor], lt.Tensor]) -> lt.Tensor:
    with ad.dual_level():
        found: lt.Tensor = ad.unpack_dual(function(ad.make_dual(X, T))).tangent
    return found


def by_block(function: Callable[[lt.Tensor], lt.Tensor]) -> Any:
    return tangent(function).numpy()


def by_jvp(function: Callable[[lt.Tensor], lt.Tensor]) -> Any:
    return lt.func.jvp(function, (X,), (T,))[1].numpy()


def by_linearize(function: Callable[[lt.Tensor], lt.Tensor]) -> Any:
    return lt.func.linearize(function, X)[1](T).numpy()


def by_jacobian(function: Callable[[lt.Tensor], lt.Tensor]) -> Any:
    return lt.tensordot(lt.func.jacfwd(function)(X), T, 2).numpy()


def squared_unrecorded(x: lt.Tensor) -> lt.Tensor:
    with lt.no_grad():
        y = x * x
    return y + x


def read_unrecorded(x: lt.Tensor) -> lt.Tensor:
    with lt.no_grad():
        y = x * x
        assert y.sum().item() > 0
        return y.reshape(4)[1:] * 2


def written_through_a_view(x: lt.Tensor) -> lt.Tensor:
    with lt.no_grad():
        y = x.clone()
        y[0].mul_(3)
        y.T.add_(x)
    return y * x


def written_into_zeros(x: lt.Tensor) -> lt.Tensor:
    with lt.no_grad():
        z = lt.zeros(2, 2)
        z.add_(x)
        z[1] = x[0] * x[1]
    return z * x.detach()


x, t = X.numpy(), T.numpy()
y, slope = x * [[3], [1]] + x.T, t * [[3], [1]] + t.T
CASES = {squared_unrecorded: 2 * x * t + t, read_unrecorded: (4 * x * t).reshape(4)[1:],
         written_through_a_view: slope * x + y * t,
         written_into_zeros: x * [t[0], t[0] * x[1] + x[0] * t[1]]}


@pytest.mark.parametrize("way", [by_block, by_jvp, by_linearize, by_jacobian])
@pytest.mark.parametrize("function", CASES)
def test_no_grad_does_not_end_forward_mode(function: Any, way: Any) -> None:
    np.testing.assert_allclose(way(function), CASES[function], rtol=1e-6)


@pytest.mark.parametrize("inner", [nullcontext, lt.no_grad, lambda: lt.set_grad_enabled(False)])
@pytest.mark.parametrize("way", [by_jvp, by_linearize, by_jacobian])
def test_inference_mode_and_detach_do(way: Any, inner: Any) -> None:
    def inferred(x: lt.Tensor) -> lt.Tensor:
        with lt.inference_mode(), inner():
            y = x * x
        return y + x
    np.testing.assert_allclose(way(inferred), t)
    np.testing.assert_allclose(way(lambda x: x.detach() * x), x * t)
    with lt.no_grad(), ad.dual_level():
        assert ad.unpack_dual(ad.make_dual(X, T).detach()).tangent is None


def test_gradients_pass_by_what_is_written_where_only_tangents_are_recorded() -> None:
    def function(x: lt.Tensor) -> lt.Tensor:
        square = x * x
        with lt.no_grad():
            square.mul_(x)
        return square.sum()
    gradient, slope = lt.func.jvp(lt.func.grad(function), (X,), (T,))
    near(gradient, 2 * x)
    near(slope, 2 * t)
    near(lt.func.jvp(function, (X,), (T,))[1], (3 * x * x * t).sum())
    near(lt.func.grad(lambda x: lt.func.jvp(function, (x,), (T,))[1])(X), 2 * t)


def test_no_gradient_flows_where_only_tangents_do() -> None:
    def function(x: lt.Tensor) -> lt.Tensor:
        with lt.no_grad():
            square, turned = x * x, x.T
        return (square * x + turned * x).sum()
    near(lt.func.jvp(lt.func.grad(function), (X,), (T,))[1], 2 * x * t + t.T)
    near(lt.func.jacfwd(function)(X), 3 * x * x + x.T + x.T)
    w = lt.tensor([2.0], requires_grad=True)
    with ad.dual_level():
        dual = ad.make_dual(w, lt.ones(1))
        with lt.no_grad():
            cut = dual * dual
        value, slope = ad.unpack_dual(cut * dual)
        slope.backward()
        near(slope, [12.0])
    near(w.grad, [4.0])
    assert value.requires_grad


def test_what_is_computed_may_be_looked_at_in_between() -> None:
    def looking(x: lt.Tensor) -> lt.Tensor:
        hidden = (x @ x).tanh()
        assert hidden.sum().item() > 0
        return hidden * 2 if (hidden > 0).all() else hidden
    near(tangent(looking), 2 * (1 - np.tanh(x @ x)**2) * (t @ x + x @ t))


def test_a_module_with_dual_parameters_and_statistics() -> None:
    layer = nn.Sequential(nn.Linear(2, 3), nn.BatchNorm1d(3), nn.Tanh())
    given = {name: p.detach() for name, p in layer.named_parameters()}
    moved = {name: lt.ones_like(p) for name, p in given.items()}

    def called(parameters: dict[str, lt.Tensor]) -> lt.Tensor:
        found: lt.Tensor = lt.func.functional_call(layer, parameters, X)
        return found
    with ad.dual_level():
        found = ad.unpack_dual(called({n: ad.make_dual(p, moved[n])
                                       for n, p in layer.named_parameters()}))
        assert found.primal.requires_grad
    step = 1e-3
    ends = [called({n: p + sign * step for n, p in given.items()}) for sign in (1, -1)]
    np.testing.assert_allclose(found.tangent.detach().numpy(),
                               (ends[0] - ends[1]).detach().numpy() / (2 * step), atol=2e-3)
    assert not any(b.requires_grad for b in layer.buffers())


def test_jitted_functions_and_own_gradients_carry_tangents() -> None:
    class Exp(lt.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: lt.Tensor) -> lt.Tensor:
            ctx.result = x.exp()
            return ctx.result  # type: ignore[no-any-return]

        @staticmethod
        def jvp(ctx: Any, given: Any) -> Any:
            return given * ctx.result
    square = lt.jit(lambda x: x * x)
    near(tangent(square), 2 * x * t)
    near(tangent(Exp.apply), np.exp(x) * t)
    near(square(X), x * x)


def test_a_dual_has_memory_of_its_own_and_ends_with_the_level() -> None:
    with ad.dual_level():
        dual = ad.make_dual(X, T)
        near(dual, X.numpy())
        assert ad.unpack_dual(X).tangent is None and ad.unpack_dual(X).primal is X
        again = ad.make_dual(dual * 2, T)
        near(ad.unpack_dual(again * dual).tangent, 2 * x * t + x * t)
    assert ad.unpack_dual(dual).tangent is None
    with ad.dual_level():
        assert ad.unpack_dual(dual).tangent is None


def test_under_vmap_each_example_has_its_tangent() -> None:
    def along(direction: lt.Tensor) -> lt.Tensor:
        found: lt.Tensor = ad.unpack_dual((ad.make_dual(X, direction) ** 2).sum(1)).tangent
        return found
    with ad.dual_level():
        near(lt.func.vmap(along)(lt.stack([T, 2 * T])),
             [(2 * x * t).sum(1), (4 * x * t).sum(1)])


def test_mistakes() -> None:
    with pytest.raises(lt.StateError, match="no dual level was entered"):
        ad.make_dual(X, T)
    with pytest.raises(lt.StateError, match="no dual level was entered"):
        ad.exit_dual_level()
    with ad.dual_level():
        for given, error, words in (
                ((X, T[0]), lt.ShapeError, "tangent .*2.*must be equal"),
                ((X.int(), T), lt.GradientError, "int32"),
                ((X, T.double()), lt.DTypeError, "float64"), ((X, 1.0), lt.KindError, "float 1.0")):
            with pytest.raises(error, match=words):
                ad.make_dual(*given)
        with pytest.raises(lt.StateError, match="dual_level within dual_level"):
            ad.enter_dual_level()
        with pytest.raises(lt.ArgumentError, match="level=1"):
            ad.unpack_dual(X, level=1)
