"""nn.utils and nn.init beside PyTorch's: `utils_checks.py`."""
from __future__ import annotations

import inspect
from typing import Any

import numpy as np
import pytest
from utils_checks import DRAWN, PROGRAMS

import lazyten as lt

torch = pytest.importorskip("torch")

pytestmark = [pytest.mark.torch, pytest.mark.filterwarnings(
    "ignore:.torch.nn.utils.weight_norm", "ignore:.nn.utils.spectral_norm",
    "ignore:.torch.nn.utils.spectral_norm")]


def assert_alike(found: Any, expected: Any, where: str) -> None:
    if isinstance(expected, torch.Tensor):
        assert tuple(found.shape) == tuple(expected.shape), where
        np.testing.assert_allclose(found.detach().numpy(), expected.detach().numpy(), rtol=1e-6,
                                   atol=1e-12, err_msg=where)
    elif isinstance(expected, list | tuple):
        assert len(found) == len(expected), where
        for i, (a, b) in enumerate(zip(found, expected, strict=True)):
            assert_alike(a, b, f"{where}[{i}]")
    else:
        assert found == expected, where


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_program_does_what_it_does_with_torch(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DEVICE", "interpreter")
    assert_alike(PROGRAMS[name](lt), PROGRAMS[name](torch), name)


@pytest.mark.parametrize("name", DRAWN)
def test_what_is_drawn_is_distributed_as_torchs(name: str) -> None:
    """Mean, deviation, limits, zeros; products of rows that are to be orthogonal."""
    make, shape = DRAWN[name]
    lt.manual_seed(3)
    torch.manual_seed(3)
    weight = lt.empty(*shape)
    assert make(lt.nn.init)(weight) is weight
    ours, theirs = weight.numpy().astype(float), make(torch.nn.init)(torch.empty(*shape)).numpy()
    theirs = theirs.astype(float)
    assert abs(ours.mean() - theirs.mean()) < 6 * theirs.std() / np.sqrt(ours.size)
    assert ours.std() == pytest.approx(theirs.std(), rel=0.02)
    for limit in (np.min, np.max):
        assert limit(ours) == pytest.approx(limit(theirs), rel=0.25, abs=1e-3)
    assert ((ours == 0).sum(0) == (theirs == 0).sum(0)).all()
    if name.startswith("orthogonal_"):
        a, b = (np.reshape(x, (shape[0], -1)) for x in (ours, theirs))
        a, b = (x @ x.T if x.shape[0] < x.shape[1] else x.T @ x for x in (a, b))
        np.testing.assert_allclose(a, b, atol=1e-5)


def names(module: Any) -> list[str]:
    return [n for n in dir(module) if not n.startswith("_") and inspect.isfunction(
        getattr(module, n))]


@pytest.mark.parametrize(("home", "name"), [
    (home, name) for home in ("nn.functional", "nn.init", "nn.utils", "nn.utils.parametrize",
                              "nn.utils.parametrizations")
    for name in names(eval(f"lt.{home}", {"lt": lt}))
    if inspect.isfunction(getattr(eval(f"torch.{home}", {"torch": torch}), name, None))])
def test_a_function_takes_what_torchs_takes(home: str, name: str) -> None:
    """Where PyTorch says what it takes: not of functions written in C++, of those with two forms
    and of the older names of init."""
    ours, theirs = (getattr(eval(f"m.{home}", {"m": m}), name) for m in (lt, torch))
    found, expected = ([(p.name, p.kind, p.default) for p in inspect.signature(
        f).parameters.values()] for f in (ours, theirs))
    assert found == expected or expected[0][0] == "args"
