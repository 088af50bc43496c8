"""Functions that look at values under vmap, by their vmap(), beside PyTorch; what is refused."""
from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from torch_if_there import torch

import lazyten as lt

VALUES = np.random.default_rng(0).uniform(0.5, 2.0, (3, 2, 4))


def cube_of(m: Any) -> Any:
    """x ** 3 by NumPy, and what it saves, with PyTorch's or lazyten's Functions."""
    class Times(m.autograd.Function):  # type: ignore[misc]
        @staticmethod
        def forward(x: Any, y: Any) -> Any:
            return m.tensor(x.detach().numpy() * y.detach().numpy())

        @staticmethod
        def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
            ctx.save_for_backward(*inputs)

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            x, y = ctx.saved_tensors
            return Times.apply(g, y), Times.apply(g, x)

        @staticmethod
        def vmap(info: Any, in_dims: Any, x: Any, y: Any) -> Any:
            x, y = [t.unsqueeze(0).expand(info.batch_size, *t.shape) if d is None
                    else t.movedim(d, 0) for t, d in zip((x, y), in_dims, strict=True)]
            return Times.apply(x, y).movedim(0, -1), -1

    class Cube(m.autograd.Function):  # type: ignore[misc]
        @staticmethod
        def forward(x: Any) -> Any:
            a = x.detach().numpy()
            return m.tensor(a ** 3), m.tensor(3 * a ** 2)

        @staticmethod
        def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
            ctx.save_for_backward(inputs[0], output[1])

        @staticmethod
        def backward(ctx: Any, g: Any, of_slope: Any) -> Any:
            x, slope = ctx.saved_tensors
            return Times.apply(g, slope) + 6 * Times.apply(of_slope, x)

        @staticmethod
        def vmap(info: Any, in_dims: Any, x: Any) -> Any:
            return Cube.apply(x), (in_dims[0], in_dims[0])
    return lambda x: Cube.apply(x)[0]


TRANSFORMS: dict[str, Callable[[Any, Any, Any], Any]] = {
    "vmap": lambda v, f, x: v.vmap(f)(x),
    "of the last axis": lambda v, f, x: v.vmap(f, -1, 1)(x),
    "of both axes": lambda v, f, x: v.vmap(v.vmap(f))(x),
    "of what is computed": lambda v, f, x: v.vmap(lambda y: f(y * 2) + y)(x),
    "of gradients": lambda v, f, x: v.vmap(v.grad(lambda y: f(y).sum()))(x),
    "gradient": lambda v, f, x: v.grad(lambda y: (v.vmap(f)(y) ** 2).sum())(x),
    "gradient of both axes": lambda v, f, x: v.grad(
        lambda y: (v.vmap(v.vmap(f))(y) ** 2).sum())(x),
    "of second gradients": lambda v, f, x: v.vmap(v.grad(lambda y: (v.grad(
        lambda z: f(z).sum())(y) ** 2).sum()))(x),
    "jacrev": lambda v, f, x: v.jacrev(f)(x[0, 0]),
    "jacrev in parts": lambda v, f, x: v.jacrev(f, chunk_size=3)(x[0, 0]),
    "of jacrev": lambda v, f, x: v.vmap(v.jacrev(f))(x[0]),
}


@pytest.mark.torch
@pytest.mark.parametrize("name", TRANSFORMS)
def test_a_function_by_numpy_is_transformed_as_in_pytorch(name: str) -> None:
    wanted = TRANSFORMS[name](torch.func, cube_of(torch), torch.tensor(VALUES))
    found = TRANSFORMS[name](lt.func, cube_of(lt), lt.tensor(VALUES))
    assert found.shape == tuple(wanted.shape)
    np.testing.assert_allclose(found.numpy(), wanted.numpy(), 1e-12)


class Saving(lt.autograd.Function):
    """x ** 3, whose gradient is of what it saves."""

    @staticmethod
    def forward(ctx: Any, x: lt.Tensor) -> lt.Tensor:
        ctx.save_for_backward(x)
        return x * x * x

    @staticmethod
    def backward(ctx: Any, g: lt.Tensor) -> lt.Tensor:
        x, = ctx.saved_tensors
        found: lt.Tensor = g * 3 * x * x
        return found


def test_what_a_function_saves_under_vmap_is_there_for_a_gradient_around_it() -> None:
    x = lt.tensor(VALUES, requires_grad=True)
    lt.vmap(lt.vmap(Saving.apply))(x).sum().backward()
    assert x.grad is not None
    np.testing.assert_allclose(x.grad.numpy(), 3 * VALUES ** 2)
    second = lt.func.grad(lambda y: (lt.func.grad(lambda z: lt.vmap(Saving.apply)(z).sum())(
        y)).sum())(lt.tensor(VALUES))
    np.testing.assert_allclose(second.numpy(), 6 * VALUES)


class Mistaken(lt.autograd.Function):
    """The identity."""

    given: Any = None

    @staticmethod
    def forward(x: lt.Tensor) -> lt.Tensor:
        return x

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        """Nothing is kept."""

    @classmethod
    def vmap(cls, info: Any, in_dims: Any, x: lt.Tensor) -> Any:
        return cls.given if cls.given is not None else ((x, x), (0,))


def test_mistakes_of_a_vmap_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    x = lt.tensor(VALUES)
    with pytest.raises(lt.ArgumentError, match=r"Mistaken\.vmap gave 2 outputs and 1 axes"):
        lt.vmap(Mistaken.apply)(x)
    monkeypatch.setattr(Mistaken, "given", x)
    with pytest.raises(lt.ArgumentError, match=r"Mistaken\.vmap gave Tensor; it gives the outputs"):
        lt.vmap(Mistaken.apply)(x)
    monkeypatch.setattr(Mistaken, "setup_context", None)
    with pytest.raises(NotImplementedError, match="needs setup_context"):
        lt.vmap(Mistaken.apply)(x)
