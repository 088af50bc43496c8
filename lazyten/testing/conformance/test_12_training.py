"""Stage 12: small nets train, eagerly and jitted, as they do on the interpreter."""
from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import lazyten as lt
from lazyten import nn, optim
from lazyten.testing.diagnosis import Nonconformance
from lazyten.testing.kit import advice

STEPS = 12
CLOSE = 2e-3
"""What a loss may differ by, relatively, after so few steps."""
WHOLE = ("Everything before passed, so look at what is new here: many kernels in one launch, "
         "memory that values share by lifetime, parameters that are updated in place.")


def points() -> tuple[Any, Any]:
    """Two classes that no line divides."""
    rng = np.random.default_rng(12)
    x = rng.uniform(-1, 1, (64, 2)).astype(np.float32)
    return x, (x[:, 0] * x[:, 1] > 0).astype(np.int64)


def images() -> tuple[Any, Any]:
    """Noise with a bright row or column."""
    rng = np.random.default_rng(13)
    x, y = rng.normal(size=(16, 1, 12, 12)).astype(np.float32), np.arange(16) % 2
    x[y == 0, :, 5] += 3
    x[y == 1, :, :, 5] += 3
    return x, y


def perceptron() -> nn.Module:
    return nn.Sequential(nn.Linear(2, 24), nn.Tanh(), nn.Linear(24, 2))


def convolutional() -> nn.Module:
    return nn.Sequential(nn.Conv2d(1, 4, 3), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(),
                         nn.LayerNorm(100), nn.Linear(100, 2))


def losses(make: Callable[[], nn.Module], data: tuple[Any, Any], device: str,
           jitted: bool = False) -> list[float]:
    """The loss before each step of Adam, from the same parameters on every device."""
    lt.manual_seed(5)
    model = make()
    rng = np.random.default_rng(14)
    for parameter in model.parameters():
        spread = 1 / np.sqrt(max(parameter.shape[-1], 1))
        given = rng.uniform(-spread, spread, parameter.shape).astype(np.float32)
        parameter.detach().copy_(lt.tensor(given, device=parameter.device))
    model.to(device)
    optimizer = optim.Adam(model.parameters(), lr=0.02)
    x, y = (lt.tensor(values, device=device) for values in data)

    def step() -> lt.Tensor:
        loss = nn.functional.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss.detach()
    run = lt.jit(step) if jitted else step
    return [run().item() for _ in range(STEPS)]


@advice(WHOLE)
@pytest.mark.parametrize("jitted", [False, True], ids=["eager", "jitted"])
@pytest.mark.parametrize(("net", "data"), [(perceptron, points), (convolutional, images)],
                         ids=["perceptron", "convolutional"])
def test_a_net_trains(device: str, net: Callable[[], nn.Module],
                      data: Callable[[], tuple[Any, Any]], jitted: bool) -> None:
    got, want = losses(net, data(), device, jitted), losses(net, data(), "interpreter")
    for step, (here, there) in enumerate(zip(got, want, strict=True)):
        if not abs(here - there) <= CLOSE * abs(there):
            raise Nonconformance(f"the loss before step {step} is {here}, and {there} on the "
                                 f"interpreter")
    if not got[-1] < got[0]:
        raise Nonconformance(f"the loss did not fall: {got[0]} -> {got[-1]}")
