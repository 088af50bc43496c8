"""Optimizers beside PyTorch's: 20 steps on a small problem, with every option."""
from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import lazyten as lt

torch = pytest.importorskip("torch")

pytestmark = pytest.mark.torch

RNG = np.random.default_rng(0)
INPUT, TARGET = RNG.normal(size=(16, 3)), RNG.normal(size=(16, 2))
WEIGHT, BIAS = RNG.normal(size=(3, 2)), RNG.normal(size=(2,))

CASES: list[tuple[str, dict[str, Any]]] = [
    ("SGD", {"lr": 0.1}), ("SGD", {"lr": 0.05, "momentum": 0.9}),
    ("SGD", {"lr": 0.05, "momentum": 0.9, "nesterov": True}),
    ("SGD", {"lr": 0.05, "momentum": 0.8, "dampening": 0.3}),
    ("SGD", {"lr": 0.05, "momentum": 0.8, "dampening": 1.0}),
    ("SGD", {"lr": 0.1, "weight_decay": 0.2}),
    ("SGD", {"lr": 0.05, "momentum": 0.9, "weight_decay": 0.1, "nesterov": True}),
    ("Adam", {"lr": 0.02}), ("Adam", {"lr": 0.02, "betas": (0.5, 0.8), "eps": 1e-3}),
    ("Adam", {"lr": 0.02, "weight_decay": 0.3}), ("Adam", {"lr": 0.02, "betas": (0.0, 0.9)}),
    ("AdamW", {"lr": 0.02}), ("AdamW", {"lr": 0.02, "weight_decay": 0.5})]


def losses(library: Any, optimizer: str, groups: Any, options: dict[str, Any], device: str,
           steps: int = 20) -> tuple[list[float], list[Any]]:
    """The losses of each step and the parameters at the end; the rate halves midway."""
    where = {} if library is torch else {"device": device}
    make = lambda a: library.tensor(a, dtype=library.float64, **where)  # noqa: E731
    weight, bias = make(WEIGHT).requires_grad_(), make(BIAS).requires_grad_()
    x, y = make(INPUT), make(TARGET)
    opt = getattr(library.optim, optimizer)(groups(weight, bias), **options)
    found = []
    for step in range(steps):
        if step == steps // 2:
            for group in opt.param_groups:
                group["lr"] /= 2
        opt.zero_grad()
        loss = ((x @ weight + bias - y) ** 2).mean()
        loss.backward()
        opt.step()
        found.append(loss.item())
    return found, [t.detach().numpy() for t in (weight, bias)]


@pytest.mark.parametrize(("optimizer", "options"), CASES)
def test_twenty_steps_are_torchs(optimizer: str, options: dict[str, Any], device: str) -> None:
    both = [losses(library, optimizer, lambda w, b: [w, b], options, device)
            for library in (lt, torch)]
    np.testing.assert_allclose(both[0][0], both[1][0], rtol=1e-10)
    for mine, other in zip(both[0][1], both[1][1], strict=True):
        np.testing.assert_allclose(mine, other, rtol=1e-9)


def test_parameter_groups_have_their_own_options(device: str) -> None:
    def groups(w: Any, b: Any) -> list[dict[str, Any]]:
        return [{"params": [w], "lr": 0.01}, {"params": [b], "momentum": 0.5}]

    both = [losses(library, "SGD", groups, {"lr": 0.1}, device) for library in (lt, torch)]
    np.testing.assert_allclose(both[0][0], both[1][0], rtol=1e-10)
