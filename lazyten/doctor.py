"""A quick self-test of a device: does it copy, compute, and train? Called by `python -m lazyten`.

The conformance kit (docs/porting.md) checks much more, and needs pytest.
"""
from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

import lazyten as lt
from lazyten import nn, optim

STEPS = 3


def copies(device: str) -> None:
    """Bytes come back as they went."""
    values = np.random.default_rng(0).integers(0, 255, 100_003, dtype=np.uint8)
    _require(np.array_equal(lt.tensor(values, device=device).numpy(), values),
             "what was copied to the device came back changed")


def computes(device: str) -> None:
    """Elementwise kernels, views and reductions agree with NumPy."""
    values = np.arange(-5000, 5000, dtype=np.float32).reshape(100, 100)
    x = lt.tensor(values, device=device)
    y = (x.T * 2 + 1)[::3].amax(1)
    _require(np.array_equal(y.numpy(), (values.T * 2 + 1)[::3].max(1)),
             "a kernel gave other values than NumPy")


def multiplies(device: str) -> None:
    """A product of matrices of whole numbers is exact. (NumPy's is one of integers, which no BLAS
    computes: those have faults of their own on some processors.)"""
    values = (np.arange(130 * 70) % 7).reshape(130, 70)
    x = lt.tensor(values.astype(np.float32), device=device)
    _require(np.array_equal((x @ x.T).numpy(), values @ values.T),
             "a product of matrices gave other values than NumPy")


def trains(device: str) -> None:
    """A few steps of a small net give the interpreter's losses."""
    here, there = _losses(device), _losses("interpreter")
    _require(np.allclose(here, there, rtol=1e-4), f"a net's losses are {here}, not {there}")


CHECKS: tuple[Callable[[str], None], ...] = (copies, computes, multiplies, trains)


def problems(device: str) -> Iterator[str]:
    """What is wrong with a device, by check; nothing if it is well. Stops at the first."""
    for check in CHECKS:
        try:
            check(device)
        except Exception as error:
            yield f"{check.__name__}: {error or type(error).__name__}"
            return


def _losses(device: str) -> list[float]:
    weights = np.random.default_rng(1).normal(size=(3, 12)).astype(np.float32) / 4
    first, last = nn.Linear(12, 3), nn.Linear(3, 3)
    model = nn.Sequential(first, nn.ReLU(), last)
    for layer, given in ((first, weights), (last, weights[:, :3])):
        layer.weight.detach().copy_(lt.tensor(given))
        if layer.bias is not None:
            layer.bias.detach().fill_(0.1)
    model.to(device)
    optimizer = optim.SGD(model.parameters(), lr=0.1)
    x = lt.tensor(np.linspace(-1, 1, 96, dtype=np.float32).reshape(8, 12), device=device)
    y = lt.tensor(np.arange(8) % 3, device=device)
    losses = []
    for _ in range(STEPS):
        loss = nn.functional.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


def _require(condition: bool, otherwise: str) -> None:
    if not condition:
        raise AssertionError(otherwise)
