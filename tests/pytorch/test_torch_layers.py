"""Each layer of `layer_cases.py` beside PyTorch's with the same weights: results, gradients,
buffers, names of the state, text."""
from __future__ import annotations

import inspect
from typing import Any

import numpy as np
import pytest
from layer_cases import ALL, LAZY, Array, is_drawn, made

import lazyten as lt

torch = pytest.importorskip("torch")

pytestmark = [pytest.mark.torch, pytest.mark.filterwarnings(
    "ignore:size_average and reduce", "ignore:reduction. 'mean' divides", "ignore:.NLLLoss2d",
    "ignore:keyword argument", "ignore:Lazy modules")]


def fill(layer: Any) -> None:
    """Parameters and statistics that are not as at first."""
    random = np.random.default_rng(3)
    for name, value in layer.state_dict().items():
        if value.is_floating_point() and "weight" != name[-6:] or name == "weight":
            low = 0.5 if name.endswith("var") else -1.0
            value.copy_(torch.from_numpy(random.uniform(low, 1.5, tuple(value.shape))))


ONE_GRADIENT = ("SoftMarginLoss", "MultiLabelSoftMarginLoss")
"""Losses of which PyTorch has no gradient for the target."""
LESS_EXACT = {"Hardsigmoid()": 1e-7}
"""Where PyTorch takes 1/6 as a float32."""


def plain(x: Any) -> Any:
    return x.detach().numpy()


def outputs(result: Any) -> list[Any]:
    return list(result) if isinstance(result, tuple) else [result]


def results(T: Any, layer: Any, make: Any, arrays: tuple[Array, ...]) -> dict[str, Any]:
    """All that two calls, a gradient and a call in use show."""
    inputs = [make(array) for array in arrays]
    for x in inputs[:1 if type(layer).__name__ in ONE_GRADIENT else None]:
        x.requires_grad_(bool(x.is_floating_point()))
    found: dict[str, Any] = {}
    for call in ("first", "second"):
        made_now = outputs(layer(*inputs))
        found |= {f"{call} {i}": plain(y) for i, y in enumerate(made_now)}
    y = made_now[0]
    if y.requires_grad:
        weight = np.random.default_rng(5).uniform(0.5, 1.5, tuple(y.shape))
        y.backward(make(np.asarray(weight)))
    found |= {f"gradient {i}": plain(x.grad) for i, x in enumerate(inputs) if x.grad is not None}
    found |= {f"gradient of {n}": plain(p.grad) for n, p in layer.named_parameters()
              if p.grad is not None}
    found |= {f"frozen {n}": np.array(p.requires_grad) for n, p in layer.named_parameters()}
    layer.eval()
    with T.no_grad():
        found |= {f"in use {i}": plain(y) for i, y in enumerate(outputs(layer(*inputs)))}
    return found | {n: plain(b) for n, b in layer.named_buffers()}


@pytest.mark.parametrize("text", LAZY)
def test_a_lazy_layer_becomes_what_torchs_becomes(text: str, monkeypatch: pytest.MonkeyPatch
                                                  ) -> None:
    """By a call, or by loading a state before one."""
    monkeypatch.setenv("DEVICE", "interpreter")
    called, loaded, theirs = made(lt, text), made(lt, text), made(torch, text)
    assert repr(called) == repr(theirs)
    held = list(called.parameters())
    called(*(lt.tensor(array) for array in LAZY[text]))
    theirs(*(torch.tensor(array) for array in LAZY[text]))
    assert all(p is q for p, q in zip(held, called.parameters(), strict=True))
    assert type(called).__name__ == type(theirs).__name__ and repr(called) == repr(theirs)
    fill(theirs)
    state = {n: lt.tensor(v.numpy().copy()) for n, v in theirs.state_dict().items()}
    loaded.load_state_dict(state)
    called.load_state_dict(state)
    expected = results(torch, theirs, torch.tensor, LAZY[text])
    for ours in (called, loaded):
        found = results(lt, ours, lt.tensor, LAZY[text])
        assert repr(ours) == repr(theirs) and found.keys() == expected.keys()
        for what, value in expected.items():
            np.testing.assert_allclose(found[what], value, rtol=1e-8, atol=1e-10, err_msg=what)


@pytest.mark.parametrize("text", ALL)
def test_a_layer_is_what_torchs_is(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DEVICE", "interpreter")
    ours, theirs = made(lt, text), made(torch, text)
    assert repr(ours) == repr(theirs)
    assert [(n, tuple(v.shape), str(v.dtype).rpartition(".")[2])
            for n, v in ours.state_dict().items()] == \
        [(n, tuple(v.shape), str(v.dtype).rpartition(".")[2])
         for n, v in theirs.state_dict().items()]
    fill(theirs)
    ours.load_state_dict({n: lt.tensor(v.numpy().copy()) for n, v in theirs.state_dict().items()})
    if is_drawn(text):
        ours.eval(), theirs.eval()
    found = results(lt, ours, lt.tensor, ALL[text])
    expected = results(torch, theirs, torch.tensor, ALL[text])
    assert found.keys() == expected.keys()
    for what, value in expected.items():
        assert found[what].shape == value.shape and found[what].dtype == value.dtype, what
        np.testing.assert_allclose(found[what], value, atol=1e-10, err_msg=what,
                                   rtol=LESS_EXACT.get(text, 1e-8))


CLASSES = sorted(n for n in lt.nn.modules.__all__ if hasattr(torch.nn, n))


def parameters(function: Any) -> list[tuple[str, Any, Any]]:
    """Name, kind and default of each, but for *args and **kwargs that are not used."""
    return [(p.name, p.kind, p.default) for p in inspect.signature(function).parameters.values()
            if p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)]


@pytest.mark.parametrize("name", CLASSES)
def test_a_layer_takes_what_torchs_takes(name: str) -> None:
    """Arguments of the layer and of a call, and of which other layers it is one."""
    ours, theirs = getattr(lt.nn, name), getattr(torch.nn, name)
    assert parameters(ours.__init__) == parameters(theirs.__init__)
    assert parameters(ours.forward) == parameters(theirs.forward)
    assert {n for n in CLASSES if issubclass(ours, getattr(lt.nn, n))} == \
        {n for n in CLASSES if issubclass(theirs, getattr(torch.nn, n))}
    assert hasattr(ours, "reset_parameters") == hasattr(theirs, "reset_parameters")


INITIAL = ["Linear(60, 50)", "Bilinear(20, 30, 10)", "Conv1d(20, 30, 3)", "Conv2d(10, 20, 5)",
           "Conv3d(4, 10, 3, groups=2)", "ConvTranspose2d(20, 10, 5)", "Embedding(50, 60)",
           "BatchNorm2d(7)", "LayerNorm(7)", "GroupNorm(7, 7)", "RMSNorm(7)", "PReLU(7)",
           "InstanceNorm1d(7, affine=True, track_running_stats=True)"]


@pytest.mark.parametrize("text", INITIAL)
def test_initial_values_are_distributed_as_torchs(text: str) -> None:
    lt.manual_seed(1)
    torch.manual_seed(1)
    ours, theirs = made(lt, text).state_dict(), made(torch, text).state_dict()
    for name, value in theirs.items():
        a, b = plain(ours[name]).astype(float), plain(value).astype(float)
        if b.size < 40:
            assert np.ptp(b) > 0 or (a == b).all(), name
            assert np.abs(a).max() <= 1.6 * np.abs(b).max() + 1e-9, name
            continue
        assert a.std() == pytest.approx(b.std(), rel=0.25 if b.size < 400 else 0.06), name
        assert np.abs(a).max() == pytest.approx(np.abs(b).max(), rel=0.3), name
        assert abs(a.mean() - b.mean()) < 6 * b.std() / np.sqrt(b.size), name
