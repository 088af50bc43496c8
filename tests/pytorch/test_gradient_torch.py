"""Tensor.backward beside PyTorch's: the same function of equal inputs, gradients compared."""
from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from tensor_values import assert_alike

import lazyten as lt

torch = pytest.importorskip("torch")

pytestmark = pytest.mark.torch


def compare(function: Callable[..., Any], *inputs: Any, atol: float = 1e-6) -> None:
    """Assert that `function`, of lazyten's and of torch's tensors alike, has equal gradients."""
    arrays = [np.asarray(x, np.float32) for x in inputs]
    ours = [lt.tensor(a, requires_grad=True) for a in arrays]
    theirs = [torch.tensor(a, requires_grad=True) for a in arrays]
    expected = function(torch, *theirs)
    found = function(lt, *ours)
    weight = np.random.default_rng(9).uniform(0.5, 1.5, tuple(expected.shape)).astype(np.float32)
    (expected * torch.tensor(weight)).sum().backward()
    (found * lt.tensor(weight)).sum().backward()
    wanted = expected.detach().numpy()
    np.testing.assert_allclose(found.detach().numpy(), wanted, rtol=1e-5, atol=atol)
    for mine, other in zip(ours, theirs, strict=True):
        np.testing.assert_allclose(mine.grad.numpy(), other.grad.numpy(), rtol=1e-4, atol=atol)


def normal(*shape: int, seed: int = 0) -> np.ndarray[Any, Any]:
    return np.random.default_rng(seed).normal(size=shape)


EDGES = [-np.inf, -2.5, -1.0, -0.0, 0.0, 0.5, 1.0, 3.0]

POINTWISE: dict[str, Callable[..., Any]] = {
    "relu": lambda lib, x: x.relu(),
    "sigmoid": lambda lib, x: x.sigmoid(),
    "tanh": lambda lib, x: x.tanh(),
    "abs": lambda lib, x: x.abs(),
    "exp": lambda lib, x: x.exp(),
    "square": lambda lib, x: x ** 2,
    "cube": lambda lib, x: x ** 3,
    "sin": lambda lib, x: x.sin(),
    "cos": lambda lib, x: x.cos(),
    "clip": lambda lib, x: x.clip(-1.0, 1.0),
    "maximum with a number": lambda lib, x: lib.where(x > 0.5, x, x * 2),
}


@pytest.mark.parametrize("name", POINTWISE)
def test_gradients_of_pointwise_functions_match_torch_at_their_edges_too(name):
    compare(POINTWISE[name], EDGES[1:])


# ---- gradients of gradients ----------------------------------------------------------------------

def _weights_of_gradients(lib: Any, x: Any, g: Any) -> list[Any]:
    given, = lib.autograd.grad(x * x * x, x, grad_outputs=g * 2, create_graph=True)
    return [given, *lib.autograd.grad((given ** 2).sum(), [x, g])]


def _dummy_weights(lib: Any, x: Any, g: Any) -> list[Any]:
    u = lib.zeros_like(x, requires_grad=True)  # a tangent by two gradients
    given, = lib.autograd.grad(x.sin() * x, x, u, create_graph=True)
    return [lib.autograd.grad(given, u, g)[0]]


def _collected(lib: Any, x: Any, g: Any) -> list[Any]:
    for _ in range(2):  # a second time, to what is there
        (x ** 3).backward(g, create_graph=True)
    seen = [x.grad, *lib.autograd.grad(x.grad.sum(), [x, g])]
    x.grad = None
    return seen


def _several(lib: Any, x: Any, g: Any) -> list[Any]:
    y = (x * g).sin()
    lib.autograd.backward([y.sum(), (y ** 2).sum()], inputs=[x])
    return [x.grad] if g.grad is None else []


def _penalty(lib: Any, x: Any, g: Any) -> list[Any]:
    ((x * g).tanh() ** 2).sum().backward(create_graph=True)
    norm = (x.grad ** 2).sum()
    x.grad = g.grad = None
    norm.backward()
    return [x.grad, g.grad]


def _function_in_a_function(lib: Any, x: Any, g: Any) -> list[Any]:
    class Product(lib.autograd.Function):
        @staticmethod
        def forward(ctx: Any, a: Any, b: Any) -> Any:
            ctx.save_for_backward(a, b)
            return a * b

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            a, b = ctx.saved_tensors
            return g * b, g * a

    class Square(lib.autograd.Function):
        @staticmethod
        def forward(ctx: Any, a: Any) -> Any:
            ctx.save_for_backward(a)
            return a * a

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            (a,) = ctx.saved_tensors
            assert a.requires_grad
            float(g.sum())  # a look does not take the gradient away
            return Product.apply(g, a) * 2
    given, = lib.autograd.grad((Square.apply(x) ** 2 * g).sum(), x, create_graph=True)
    return [given, *lib.autograd.grad(given.sin().sum(), [x, g])]


@pytest.mark.parametrize("step", [_weights_of_gradients, _dummy_weights, _collected, _several,
                                  _penalty, _function_in_a_function])
@pytest.mark.filterwarnings("ignore:Using backward")
def test_gradients_of_gradients_are_torchs(step: Callable[..., list[Any]]) -> None:
    arrays = normal(2, 3), normal(2, 3, seed=1)
    for _ in range(3):  # anew, and known
        ours, theirs = (step(lib, *[lib.tensor(a, requires_grad=True) for a in arrays])
                        for lib in (lt, torch))
        assert len(ours) == len(theirs) > 0
        for mine, other in zip(ours, theirs, strict=True):
            assert mine.requires_grad is other.requires_grad
            np.testing.assert_allclose(mine.detach().numpy(), other.detach().numpy(), rtol=1e-12)


@pytest.mark.parametrize("is_leaf", [True, False])
def test_hooks_inside_checkpoints_are_told_what_torchs_are(is_leaf: bool) -> None:
    def told(lib: Any) -> list[Any]:
        checkpoint, seen = importlib.import_module(f"{lib.__name__}.utils.checkpoint"), []

        def note(name: str, factor: float) -> Callable[[Any], Any]:
            return lambda g: (seen.append((name, g.tolist())), g * factor)[1]

        def inner(x: Any) -> Any:
            y = x.exp()
            y.register_hook(note("inner", 0.5))
            return y * w

        def outer(x: Any) -> Any:
            y = (x * w).sin()
            y.register_hook(note("outer", 2.0))
            z = checkpoint.checkpoint(inner, y, use_reentrant=False)
            z.register_hook(note("result", 1.0))
            return z.sum()
        w = lib.tensor([1.5, -0.5], dtype=lib.float64, requires_grad=True)
        for _ in range(3):
            x = lib.tensor([0.3, 0.4], dtype=lib.float64, requires_grad=True)
            given = x if is_leaf else x * 1
            given.register_hook(note("argument", 1.0))
            checkpoint.checkpoint(outer, given, use_reentrant=False).backward()
            seen += [x.grad.tolist(), w.grad.tolist()]
        return seen
    assert_alike(told(lt), told(torch), rel=1e-12)
