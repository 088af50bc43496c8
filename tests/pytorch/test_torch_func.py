"""lt.func beside torch.func: the same functions of the same numbers."""
from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from lenet_steps import batches, lenet, load, weights

import lazyten as lt
from lazyten.storage.placement import default_device

torch = pytest.importorskip("torch")

pytestmark = pytest.mark.torch
rng = np.random.default_rng(0)


def both(transformed: Callable[[Any], Any], *values: Any, tolerance: float = 1e-10) -> None:
    """`transformed(library)` gives the same for both libraries at these arrays."""
    ours = transformed(lt)(*(lt.tensor(v) for v in values))
    theirs = transformed(torch)(*(torch.tensor(v) for v in values))
    compare(ours, theirs, tolerance)


def compare(ours: Any, theirs: Any, tolerance: float) -> None:
    if isinstance(ours, lt.Tensor):
        assert ours.shape == tuple(theirs.shape)
        assert str(ours.dtype) == str(theirs.dtype).replace("torch", "lazyten")
        np.testing.assert_allclose(ours.detach().numpy(), theirs.detach().numpy(), rtol=tolerance,
                                   atol=tolerance)
        return
    assert type(ours) is type(theirs)
    assert len(ours) == len(theirs)
    keys = list(ours) if isinstance(ours, dict) else range(len(ours))
    for key in keys:
        compare(ours[key], theirs[key], tolerance)


def layered(library: Any) -> Callable[..., Any]:
    """A small multi-layer perceptron of (x, parameters)."""
    def call(x: Any, first: Any, bias: Any, second: Any) -> Any:
        hidden = library.tanh(x @ first + bias)
        return (hidden @ second).softmax(-1)
    return call


MLP = (rng.normal(size=4), rng.normal(size=(4, 5)), rng.normal(size=5), rng.normal(size=(5, 3)))
TRANSFORMS: dict[str, Callable[[Any], Callable[..., Any]]] = {
    "jacrev": lambda L: L.func.jacrev(layered(L), argnums=(0, 1, 3)),
    "jacfwd": lambda L: L.func.jacfwd(layered(L), argnums=(0, 2)),
    "jacrev of one": lambda L: L.func.jacrev(layered(L)),
    "hessian": lambda L: L.func.hessian(lambda *a: layered(L)(*a)[0].log(), argnums=(0, 2)),
    "jacfwd of jacfwd": lambda L: L.func.jacfwd(L.func.jacfwd(layered(L)), 2),
    "jacrev of jacrev": lambda L: L.func.jacrev(L.func.jacrev(layered(L), 2)),
    "grad": lambda L: L.func.grad(lambda *a: layered(L)(*a).max(), argnums=(3, 0)),
    "grad with aux": lambda L: L.func.grad(
        lambda *a: (layered(L)(*a).sum(), {"out": layered(L)(*a)}), has_aux=True),
    "grad_and_value": lambda L: L.func.grad_and_value(
        lambda *a: (layered(L)(*a)[1], (layered(L)(*a),)), argnums=1, has_aux=True),
    "jacrev with aux": lambda L: L.func.jacrev(lambda *a: (layered(L)(*a), a[0] * 2), has_aux=True),
    "jacfwd with aux": lambda L: L.func.jacfwd(lambda *a: (layered(L)(*a), a[0] * 2), has_aux=True),
    "jacobian of a dict": lambda L: L.func.jacrev(
        lambda *a: {"out": layered(L)(*a), "both": (a[0] * 2, a[0].sum())}),
    "vjp": lambda L: lambda *a: L.func.vjp(layered(L), *a)[1](a[0][:3]),
    "vjp of a dict": lambda L: lambda *a: L.func.vjp(
        lambda x: {"a": x.sin(), "b": (x * 2,)}, a[0])[1]({"a": a[0], "b": (a[0] * 3,)}),
    "jvp": lambda L: lambda *a: L.func.jvp(layered(L), a, tuple(x.cos() for x in a)),
    "jvp with aux": lambda L: lambda *a: L.func.jvp(
        lambda x: (x.sin(), x * 2), (a[0],), (a[0],), has_aux=True),
    "linearize": lambda L: lambda *a: L.func.linearize(layered(L), *a)[1](*(x.cos() for x in a)),
    "hessian-vector product": lambda L: lambda *a: L.func.jvp(
        L.func.grad(lambda x: layered(L)(x, *a[1:])[0]), (a[0],), (a[0] * 2,)),
    "vmap of hessian": lambda L: lambda *a: L.func.vmap(
        L.func.hessian(lambda x, w: (x.sin() * w).prod()), in_dims=(1, None), out_dims=2)(
            a[1], a[0]),
    "vmap": lambda L: lambda *a: L.func.vmap(
        lambda p, x: {"sum": x @ p["w"], "x": x}, in_dims=({"w": None}, 1), out_dims=1)(
            {"w": a[3]}, a[3]),
    "nested vmap": lambda L: lambda *a: L.func.vmap(
        L.func.vmap(lambda x, y: x * y, (0, None), 0), (None, 0), 1)(a[0], a[2]),
    "vmap of grad of vmap": lambda L: lambda *a: L.func.vmap(L.func.grad(
        lambda w: L.func.vmap(lambda row: (row * row.exp()).sum())(w.reshape(5, 1)).sum()), 0)(
            a[1]),
    "grad of jvp": lambda L: lambda *a: L.func.grad(
        lambda x: L.func.jvp(L.sin, (x,), (x * x,))[1].sum())(a[0]),
}


@pytest.mark.parametrize("name", TRANSFORMS)
def test_transforms_give_what_torchs_give(name: str) -> None:
    both(TRANSFORMS[name], *MLP)


def loss_of(library: Any, model: Any) -> Callable[..., Any]:
    def loss(parameters: Any, images: Any, labels: Any) -> Any:
        logits = library.func.functional_call(model, parameters, (images,))
        return library.nn.functional.cross_entropy(logits, labels)
    return loss


@pytest.fixture
def models() -> list[tuple[Any, Any, dict[str, Any], Any, Any]]:
    """For each library: it, a LeNet, its parameters, images and labels."""
    values = weights()
    theirs = lenet(torch.nn)
    theirs.load_state_dict({n: torch.tensor(v) for n, v in values.items()})
    ours = load(lenet(lt.nn), default_device(), values)
    images, labels = (a[0] for a in batches(1, 4))
    return [(library, model, {n: p.detach() for n, p in model.named_parameters()},
             library.tensor(images), library.tensor(labels))
            for library, model in ((lt, ours), (torch, theirs))]


def agree(found: list[dict[str, Any]], relative: float) -> None:
    ours, theirs = found
    assert list(ours) == list(theirs)
    for name in ours:
        expected = theirs[name].numpy()
        size = float(np.abs(expected).max())
        np.testing.assert_allclose(ours[name].numpy(), expected, rtol=relative,
                                   atol=relative * size)


def test_lenets_gradients_of_each_example_are_torchs(models: Any) -> None:
    def of(library: Any, model: Any, parameters: Any, images: Any, labels: Any) -> Any:
        gradient = library.func.grad(loss_of(library, model))
        each = lambda p, x, y: gradient(p, x[None], y[None])  # noqa: E731
        return library.func.vmap(each, in_dims=(None, 0, 0))(parameters, images, labels)

    agree([of(*m) for m in models], 1e-4)


def test_lenets_hessian_vector_product_is_torchs(models: Any) -> None:
    directions = {n: rng.normal(size=tuple(p.shape)).astype(np.float32)
                  for n, p in models[1][2].items()}

    def of(library: Any, model: Any, parameters: Any, images: Any, labels: Any) -> Any:
        gradient = library.func.grad(lambda p: loss_of(library, model)(p, images, labels))
        steps = {n: library.tensor(d) for n, d in directions.items()}
        return library.func.jvp(gradient, (parameters,), (steps,))[1]

    agree([of(*m) for m in models], 1e-4)


def test_lenets_second_derivatives_of_a_bias_are_torchs(models: Any) -> None:
    def of(library: Any, model: Any, parameters: Any, images: Any, labels: Any) -> Any:
        loss = lambda b: loss_of(library, model)(  # noqa: E731
            parameters | {"11.bias": b}, images, labels)
        return {"11.bias": library.func.hessian(loss)(parameters["11.bias"])}

    agree([of(*m) for m in models], 1e-4)


def small_lenet(nn: Any) -> Any:
    """LeNet's layers for images of 10 x 10, with 187 parameters."""
    return nn.Sequential(
        nn.Conv2d(1, 2, 3), nn.Tanh(), nn.MaxPool2d(2), nn.Conv2d(2, 3, 3), nn.Sigmoid(),
        nn.Flatten(), nn.Linear(12, 6), nn.Tanh(), nn.Linear(6, 4))


@pytest.fixture
def small_models() -> list[tuple[Any, Any, dict[str, Any], Any, Any]]:
    """For each library: it, a small LeNet in float64, its parameters, images and labels."""
    theirs = small_lenet(torch.nn).double()
    ours = small_lenet(lt.nn).to(dtype=lt.float64)
    values = {n: rng.normal(size=tuple(p.shape)) for n, p in theirs.named_parameters()}
    theirs.load_state_dict({n: torch.tensor(v) for n, v in values.items()})
    ours.load_state_dict({n: lt.tensor(v) for n, v in values.items()})
    images, labels = rng.normal(size=(3, 1, 10, 10)), np.array([0, 3, 1])
    return [(library, model, {n: p.detach() for n, p in model.named_parameters()},
             library.tensor(images), library.tensor(labels))
            for library, model in ((lt, ours), (torch, theirs))]


def product_with_hessian(library: Any, loss: Callable[..., Any]) -> Callable[..., Any]:
    def of(p: Any, x: Any, y: Any) -> Any:
        gradient = library.func.grad(lambda p: loss(p, x, y))
        return library.func.jvp(gradient, (p,), ({n: v.cos() for n, v in p.items()},))[1]
    return of


SECOND_ORDER: dict[str, Callable[..., Callable[..., Any]]] = {
    "the whole Hessian": lambda library, loss: library.func.hessian(loss),
    "a Hessian-vector product": product_with_hessian,
    "gradients of each example": lambda library, loss: library.func.vmap(library.func.grad(
        lambda p, x, y: loss(p, x[None], y[None])), in_dims=(None, 0, 0)),
    "the Hessian's diagonal block of each example": lambda library, loss: library.func.vmap(
        lambda p, x, y: library.func.hessian(
            lambda b: loss(p | {"8.bias": b}, x[None], y[None]))(p["8.bias"]),
        in_dims=(None, 0, 0))}


@pytest.mark.parametrize("name", SECOND_ORDER)
def test_all_derivatives_of_a_small_lenets_loss_are_torchs_also_with_jit(
        name: str, small_models: Any) -> None:
    (_, *ours), (_, *theirs) = small_models
    expected = SECOND_ORDER[name](torch, loss_of(torch, theirs[0]))(*theirs[1:])
    function = SECOND_ORDER[name](lt, loss_of(lt, ours[0]))
    found = function(*ours[1:])
    compare(found, expected, 1e-9)
    jitted = lt.jit(function)
    for _ in range(3):
        compare(jitted(*ours[1:]), expected, 1e-9)
    assert jitted.cache_size == 1


def test_lenets_losses_and_tangents_are_torchs(models: Any) -> None:
    def of(library: Any, model: Any, parameters: Any, images: Any, labels: Any) -> Any:
        loss = lambda x: library.nn.functional.cross_entropy(model(x), labels)  # noqa: E731
        with library.no_grad():
            value, slope = library.func.jvp(loss, (images,), (images.sin(),))
        return {"value": value.detach(), "slope": slope.detach()}

    agree([of(*m) for m in models], 1e-4)


def unrecorded(library: Any) -> Callable[[Any], Any]:
    """A function that computes without recording gradients, in several ways."""
    def call(x: Any) -> Any:
        with library.no_grad():
            y = x * x
            z = library.zeros(4, dtype=library.float64)
            z.add_(x)
            z[1:3] = y[:2]
        return y * x + z.sin() + y.flip(0).detach()
    return call


@pytest.mark.parametrize("transformed", [
    lambda L: lambda x: L.func.jvp(unrecorded(L), (x,), (x * 2,)),
    lambda L: L.func.jacfwd(unrecorded(L)), lambda L: L.func.jacrev(unrecorded(L)),
    lambda L: L.func.hessian(lambda x: unrecorded(L)(x).sum()),
    lambda L: L.func.jacfwd(L.func.jacfwd(unrecorded(L))),
    lambda L: lambda x: L.func.linearize(unrecorded(L), x)[1](x.cos()) if L is lt else L.func.jvp(
        unrecorded(L), (x,), (x.cos(),))[1]])
def test_functions_that_compute_without_gradients_in_between(transformed: Any) -> None:
    both(transformed, rng.normal(size=4))


def duals(library: Any) -> Callable[[Any, Any], Any]:
    """A network of a tensor with a tangent, in and out of no_grad."""
    ad = library.autograd.forward_ad

    def call(x: Any, direction: Any) -> Any:
        layer = library.nn.BatchNorm1d(3, dtype=library.float64)
        with ad.dual_level():
            dual = ad.make_dual(x, direction)
            hidden = layer(dual @ dual.T)
            with library.no_grad():
                other = hidden.softmax(1)[0].relu()
            out = (hidden * other).tanh()
            found = [*ad.unpack_dual(out), *ad.unpack_dual(out.sum() + other.prod())]
        return (*found, layer.running_mean, ad.unpack_dual(x)[0])
    return call


def test_tensors_that_carry_tangents() -> None:
    both(duals, rng.normal(size=(3, 3)), rng.normal(size=(3, 3)))
