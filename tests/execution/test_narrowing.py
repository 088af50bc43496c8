"""A device without float64: what is float64 on the way is float32, and its tensors are not."""
from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import lazyten as lt
import lazyten.nn.functional as F
from lazyten.execution.plans import narrowing
from lazyten.ir import dtype as dt
from lazyten.runtimes.cpu.cpu import CpuRuntime
from lazyten.runtimes.host.host import host_target
from lazyten.storage import device

NAME = "narrow"
X = np.random.default_rng(0).normal(2, 1, (5, 40)).astype(np.float32)


class Narrow(CpuRuntime):
    """The processor without float64."""

    def __init__(self, index: int = 0) -> None:
        target = host_target()
        super().__init__(index, replace(target, dtypes=target.dtypes - {dt.float64}))


@pytest.fixture(autouse=True)
def _device(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(device.BUILT_IN, NAME, f"{__name__}:Narrow")


FUNCTIONS: dict[str, Callable[[Any], Any]] = {
    "var": lambda x: x.var(1),
    "std": lambda x: x.std(),
    "norm": lambda x: x.norm(2, 1),
    "third norm": lambda x: x.norm(3, 0),
    "normalize": lambda x: F.normalize(x),
    "cdist": lambda x: lt.cdist(x, x + 1),
    "nanquantile": lambda x: x.nanquantile(0.3, 1),
    "lgamma": lambda x: (x.abs() + 1).lgamma(),
    "erfinv": lambda x: (x / 10).erfinv(),
    "digamma": lambda x: (x.abs() + 2).digamma(),
    "sin": lambda x: (1e4 * x).sin(),
    "powers": lambda x: x.abs() ** 2.5 + x ** 5 + 2 ** -x,
    "bessel": lambda x: lt.special.bessel_j0(x),
    "linspace": lambda x: lt.linspace(1, 2, 7, device=x.device),
    "arange": lambda x: lt.arange(1, 2, 0.3, device=x.device),
    "log_prob": lambda x: lt.distributions.Poisson(x.abs() + 1).log_prob(x.abs().round()),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions_that_are_float64_inside_are_float32_there(name: str) -> None:
    results = []
    for on in (NAME, "cpu"):
        x = lt.tensor(X, device=on, requires_grad=True)
        value = FUNCTIONS[name](x)
        if value.requires_grad:
            (value * value).sum().backward()
        results.append([value.detach().numpy()] + ([] if x.grad is None else [x.grad.numpy()]))
    for found, expected in zip(*results, strict=True):
        np.testing.assert_allclose(found, expected, rtol=2e-5, atol=1e-5)


def test_draws_and_a_training_step() -> None:
    lt.manual_seed(0)
    drawn = lt.multinomial(lt.tensor([0.0, 1.0, 3.0], device=NAME), 4000, replacement=True)
    assert 0.7 < (drawn == 2).float().mean().item() < 0.8 and drawn.amin().item() == 1
    w = lt.nn.init.trunc_normal_(lt.empty(50, 50, device=NAME))
    assert w.abs().amax().item() <= 2 and 0.8 < w.std().item() < 0.95
    model = lt.nn.Sequential(lt.nn.Linear(40, 8), lt.nn.LayerNorm(8), lt.nn.GELU(),
                             lt.nn.Linear(8, 1)).to(NAME)
    optimizer = lt.optim.AdamW(model.parameters(), lr=0.05)
    losses = []
    for _ in range(8):
        optimizer.zero_grad()
        loss = model(lt.tensor(X, device=NAME)).var()
        loss.backward()
        lt.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < losses[0]


@pytest.mark.parametrize("make", [
    lambda: lt.zeros(3, dtype=lt.float64, device=NAME),
    lambda: lt.tensor(X.astype(np.float64), device=NAME),
    lambda: lt.tensor(X, device=NAME).double(),
    lambda: lt.tensor(X, device=NAME).sum(dtype=lt.float64).float(),
    lambda: lt.tensor(X.astype(np.float64)).to(NAME),
])
def test_a_tensor_of_float64_is_refused_where_it_is_made(make: Callable[[], Any]) -> None:
    with pytest.raises(lt.DTypeError, match=r"'narrow' has no float64.*test_narrowing.py"):
        make()


def test_what_float32_cannot_say_is_refused() -> None:
    x = lt.tensor(X, device=NAME)
    with pytest.raises(lt.DTypeError, match="has no float64"):  # looks for numbers below 1e-300
        lt.special.modified_bessel_k0(x.abs()).numpy()


def test_places_that_float32_rounds_stay_float64(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(narrowing, "_PLACES", 100)
    assert lt.tensor(X[:2, :5], device=NAME).nanquantile(0.2, 1).numpy().shape == (2,)
    with pytest.raises(lt.DTypeError, match="has no float64"):
        lt.tensor(X, device=NAME).nanquantile(0.2, 1).numpy()
