"""Checkpoints: what is computed again in the backward pass, with the same gradients."""
from __future__ import annotations

from functools import partial
from importlib import import_module
from typing import Any

import numpy as np
import pytest
from torch_if_there import torch

import lazyten as lt
from lazyten import autograd
from lazyten.testing import peak_bytes

VALUES = np.array([0.5, -1.5, 2.0])


def leaf(device: str) -> lt.Tensor:
    return lt.tensor(VALUES, device=device, requires_grad=True)


def training_step(checkpointed: bool, device: str, width: int, depth: int) -> Any:
    """A function that gives the loss and all gradients of a deep network."""
    lt.manual_seed(0)
    layers = [lt.nn.Linear(width, width).to(device) for _ in range(depth)]
    parameters = [p for layer in layers for p in layer.parameters()]
    x = lt.rand(16 * width, width, device=device)
    lt.realize(x, *parameters)

    def segment(start: int) -> Any:
        def run(x: lt.Tensor) -> lt.Tensor:
            for layer in layers[start:start + 4]:
                x = lt.nn.functional.dropout(layer(x), 0.1).tanh()
            return x
        return run

    def step() -> list[lt.Tensor]:
        lt.manual_seed(1)
        y = x
        for start in range(0, depth, 4):
            y = lt.checkpoint(segment(start), y) if checkpointed else segment(start)(y)
        loss = (y * y).mean()
        for p in parameters:
            p.grad = None
        loss.backward()
        return [loss, *[p.grad for p in parameters if p.grad is not None]]

    return step


def test_a_checkpointed_network_has_the_same_loss_and_gradients(device: str) -> None:
    plain, again = (training_step(on, device, 8, 8)() for on in (False, True))
    lt.realize(*plain, *again)
    assert len(plain) == len(again) == 17
    for a, b in zip(plain, again, strict=True):
        np.testing.assert_allclose(b.detach().numpy(), a.detach().numpy(), rtol=2e-5, atol=1e-7)


@pytest.mark.slow
def test_a_checkpointed_network_takes_less_memory() -> None:
    plain, again = (training_step(on, "cpu", 128, 24) for on in (False, True))
    assert peak_bytes(again, "cpu") < 0.7 * peak_bytes(plain, "cpu")


def test_checkpoints_can_be_differentiated_twice(device: str) -> None:
    x, y = leaf(device), leaf(device)
    assert autograd.gradgradcheck(lambda a, b: lt.checkpoint(lambda c: (c * b).sin() * c, a),
                                  (x, y))


@pytest.mark.few(1)
@pytest.mark.parametrize("derivative", [1, 2])
def test_checkpoints_that_share_a_weight_each_give_it_a_gradient(device: str,
                                                                 derivative: int) -> None:
    def gradients(call: Any) -> list[Any]:
        w, v, x = leaf(device), leaf(device), leaf(device)

        def layer(y: lt.Tensor) -> lt.Tensor:
            return (y * w).sin() + y

        def two(y: lt.Tensor, z: lt.Tensor) -> lt.Tensor:  # z is made of y
            return y * z.cos() + w * y
        y = call(layer, call(lambda y: y * v.exp(), call(layer, x)))
        found = list(autograd.grad(call(two, y, y * w).sum(), (w, v, x), create_graph=True))
        if derivative == 2:
            found = list(autograd.grad(sum((g * g).sum() for g in found), (w, v, x)))
        return [g.detach().numpy() for g in found]
    for found, expected in zip(gradients(lt.checkpoint), gradients(lambda f, *x: f(*x)),
                               strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-12)


@pytest.mark.parametrize("jitted", [False, True])
def test_a_leaf_that_an_input_was_written_to_has_a_gradient_through_a_checkpoint(
        jitted: bool, device: str) -> None:
    """What it is now is not computed yet, and of the checkpoint's input, too."""
    def trained(checkpoint: Any) -> float:
        x = lt.tensor([1.0, 2.0], device=device)
        w = lt.tensor(0.5, device=device, requires_grad=True)

        def loss(v: lt.Tensor) -> lt.Tensor:
            return (checkpoint(lambda a: (a * w).sin(), v) ** 2).sum()
        call = lt.jit(loss) if jitted else loss
        for _ in range(4):
            call(x).backward()
            assert w.grad is not None
            with lt.no_grad():
                w -= 0.125 * w.grad
            w.grad = None
        return float(w)
    assert trained(lt.checkpoint) == pytest.approx(trained(lambda f, v: f(v)), rel=1e-5)


@pytest.mark.torch
@pytest.mark.parametrize("segments", [1, 2, 3, 5])
def test_segments_of_layers_are_checkpoints(segments: int) -> None:
    def of(m: Any, checkpoint: Any) -> Any:
        weight = m.tensor(VALUES, requires_grad=True)
        layers = [lambda y: y * weight, m.sin, m.cos, lambda y: y + weight, m.exp]
        checkpoint(layers, segments, weight * 2, use_reentrant=False,
                   preserve_rng_state=False).sum().backward()
        return weight.grad.numpy()
    from torch.utils.checkpoint import checkpoint_sequential
    np.testing.assert_allclose(of(lt, lt.utils.checkpoint.checkpoint_sequential),
                               of(torch, checkpoint_sequential), rtol=1e-12)


def test_a_checkpoint_gives_what_its_function_gives(device: str) -> None:
    x = leaf(device)
    a, rest = lt.checkpoint(lambda v, k: (v * k, {"b": [v + 1, 5]}), x, k=2)
    (a.sum() + rest["b"][0].sum()).backward()
    assert x.grad is not None and x.grad.tolist() == [3.0] * 3 and rest["b"][1] == 5


def checkpointed(library: Any, how: str, jitted: bool) -> list[Any]:
    """Losses, the gradient and the statistics of a checkpoint around a batch normalization."""
    again = import_module(f"{library.__name__}.utils.checkpoint")
    batches = np.random.default_rng(0).normal(size=(3, 5, 2)).astype("f4")
    block = library.nn.Sequential(library.nn.Linear(2, 2, bias=False), library.nn.BatchNorm1d(2),
                                  library.nn.Tanh())
    block[0].weight.data.copy_(library.tensor(batches[0, :2]))
    kept = partial(again.checkpoint, use_reentrant=False)
    call = {"module": partial(kept, block), "method": partial(kept, block.forward),
            "closure": partial(kept, lambda x: block(x)), "sequential": lambda x:
            again.checkpoint_sequential(block, 2, x, use_reentrant=False)}[how]

    def step(x: Any) -> Any:
        block.zero_grad()
        loss = call(x).square().sum()
        loss.backward()
        return loss

    run = lt.jit(step) if jitted else step
    losses = [run(library.tensor(x)).item() for x in batches]
    with library.no_grad():
        block(library.tensor(batches[0]))  # without gradients: once
    return [np.array(losses), block[0].weight.grad.numpy(), *(b.numpy() for b in block.buffers())]


@pytest.mark.torch
@pytest.mark.parametrize("how", ["module", "method", "closure", "sequential"])
@pytest.mark.parametrize("jitted", [False, True])
def test_a_checkpoint_updates_statistics_twice_as_in_pytorch(how: str, jitted: bool) -> None:
    for mine, other in zip(checkpointed(lt, how, jitted), checkpointed(torch, how, False),
                           strict=True):
        np.testing.assert_allclose(mine, other, rtol=1e-5, atol=1e-6)
