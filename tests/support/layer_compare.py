"""Layers of PyTorch and of lazyten with the same weights on the same inputs: names, outputs, and
gradients of inputs and parameters."""
from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import lazyten as lt

torch = pytest.importorskip("torch")
Run = Callable[[Any, Any, list[Any], dict[str, Any]], Any]


def call(T: Any, layer: Any, inputs: list[Any], options: dict[str, Any]) -> Any:
    """The plain way: layer(*inputs, **options)."""
    return layer(*inputs, **options)


def mapped(value: Any, change: Callable[[Any], Any]) -> Any:
    """A tree of tuples, lists and dicts with its arrays changed."""
    if isinstance(value, dict):
        return {k: mapped(v, change) for k, v in value.items()}
    if isinstance(value, tuple | list):
        return type(value)(mapped(v, change) for v in value)
    return change(value) if isinstance(value, np.ndarray) else value


def flat(value: Any) -> list[Any]:
    """The tensors of a tree of tuples and lists."""
    if isinstance(value, tuple | list):
        return [leaf for v in value for leaf in flat(v)]
    return [] if value is None else [value]


def results(T: Any, layer: Any, inputs: Any, options: Any, run: Run, jit: bool) -> list[Any]:
    """Outputs, and gradients of inputs and parameters, for a loss that weighs all that is given."""
    leaves = [x for x in flat(inputs) if x.is_floating_point()]

    def step(*given: Any) -> list[Any]:
        rest = iter(given)
        replaced = rebuilt(inputs, lambda x: next(rest) if x.is_floating_point() else x)
        outputs = [x for x in flat(run(T, layer, replaced, options)) if x.is_floating_point()]
        total = sum(((x * T.cos(T.arange(x.numel(), dtype=x.dtype, device=x.device)
                                ).reshape(x.shape)).sum() for x in outputs), start=0.0)
        total.backward()
        return [x.detach() for x in outputs]
    outputs = (lt.jit(step) if jit else step)(*leaves)
    found = [*outputs, *(x.grad for x in leaves), *(p.grad for p in layer.parameters())]
    if T is lt:
        lt.realize(*(x for x in found if x is not None))
    return [None if x is None else x.detach().numpy() for x in found]


def rebuilt(value: Any, change: Callable[[Any], Any]) -> Any:
    """A tree of tuples and lists with its tensors changed."""
    if isinstance(value, tuple | list):
        return type(value)(rebuilt(v, change) for v in value)
    return None if value is None else change(value)


def compare_layers(name: str, arguments: dict[str, Any], inputs: Any, options: dict[str, Any],
                   run: Run = call, training: bool = True, device: str = "interpreter",
                   jit: bool = False) -> None:
    """Assert that a layer of both packages, in float64, has the same names and printed form, and
    gives the same. inputs: arrays, in tuples and lists; options: of the call."""
    torch.manual_seed(0)
    theirs = getattr(torch.nn, name)(**arguments, dtype=torch.float64).train(training)
    with torch.no_grad():  # biases of zero would hide themselves
        for p in theirs.parameters():
            p.add_(torch.rand(p.shape, dtype=p.dtype) * 0.2)
    ours = getattr(lt.nn, name)(**arguments, dtype=lt.float64, device=device).train(training)
    assert list(ours.state_dict()) == list(theirs.state_dict())
    assert repr(ours) == repr(theirs)
    ours.load_state_dict({n: lt.tensor(p.numpy()) for n, p in theirs.state_dict().items()})

    def tensor(x: Any) -> lt.Tensor:
        return lt.tensor(x, device=device, requires_grad=x.dtype.kind == "f")

    found = results(lt, ours, mapped(inputs, tensor), mapped(
        options, lambda x: lt.tensor(x, device=device)), run, jit)
    expected = results(torch, theirs, mapped(inputs, lambda x: torch.tensor(
        x, requires_grad=x.dtype.kind == "f")), mapped(options, torch.tensor), run, False)
    assert len(found) == len(expected)
    for number, (mine, its) in enumerate(zip(found, expected, strict=True)):
        if its is None:
            assert mine is None, number
        else:
            assert mine is not None and mine.shape == its.shape, number
            np.testing.assert_allclose(mine, its, rtol=1e-8, atol=1e-10, err_msg=str(number))
