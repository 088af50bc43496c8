"""Every public function beside PyTorch's of the same name: values in each element type, gradients
and second gradients.

Nothing is said of a function here unless it differs: arguments come from `public_functions.py`.
"""
from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from public_functions import OUTSIDE, Arguments, arguments, called, functions, made, named, tensors
from torch_if_there import torch

import lazyten as lt

OWN = ["Tensor.bitcast", "Tensor.describe", "Tensor.gelu", "Tensor.pad", "Tensor.silu",
       "lt.realize"]
"""What PyTorch does not have, or not under this name."""

BY_CHANCE = named("lt", """bernoulli binomial multinomial normal poisson rand randint randn
    _sample_dirichlet _standard_gamma
    rand_like randint_like randn_like randperm pca_lowrank svd_lowrank
    alpha_dropout alpha_dropout_ dropout dropout_ feature_alpha_dropout feature_alpha_dropout_
    feature_dropout feature_dropout_""") | named("F", """
    alpha_dropout dropout dropout1d dropout2d dropout3d feature_alpha_dropout
    gumbel_softmax""") | named("Tensor", """
    bernoulli_ cauchy_ exponential_ geometric_ log_normal_ normal_ random_ uniform_""")
"""What has other values in each library, but the same shapes and types."""

VALUELESS = {"lt.empty", "lt.empty_like", "lt.empty_permuted", "lt.empty_strided",
             "Tensor.new_empty", "Tensor.new_empty_strided", "Tensor.storage",
             "Tensor.untyped_storage", "Tensor.storage_offset"}
"""What gives no values, or some that PyTorch does not define, or an object of its own."""

KEPT = {"Tensor.logical_and_", "Tensor.logical_or_", "Tensor.logical_xor_"}
"""What PyTorch lets gradients through as if nothing had been written; here there are none."""

REVERSED = {"lt.as_strided_scatter", "lt.cholesky_inverse", "lt.cholesky_solve"}
"""Whose gradient PyTorch has where values were written, in place of where they were not; or in a
triangle that is not read."""

NO_SECOND = {"lt.logit", "Tensor.logit_"}
"""Whose second gradients are NaN in PyTorch with an eps that leaves no numbers between."""

APART = {"lt.get_device", "lt.lobpcg", "Tensor.pin_memory", "Tensor.record_stream", "Tensor.type"}
"""What depends on the device, needs a GPU in PyTorch, or takes an element type of its own; or is
a KeyError there for 16 bits (test_torch_factorizations.py has it)."""

NAMES = sorted(set(functions()) - OUTSIDE - APART - set(OWN))
LOW = {"float16": 2e-2, "bfloat16": 1e-1}
KINDS = ["float64", "float32", *LOW, "int64", "int8", "uint8", "bool"]


def plain(result: Any) -> Any:
    """Tensors as their type's name and their values in float64; others as they are."""
    if isinstance(result, lt.Tensor | torch.Tensor):
        wide = result.detach().double() if "bfloat16" in str(result.dtype) else result.detach()
        return str(result.dtype).rpartition(".")[2], wide.numpy().astype(np.float64)
    if isinstance(result, list | tuple):
        return tuple(plain(x) for x in result)
    return str(result).rpartition(".")[2] if "dtype" in type(result).__name__.lower() else result


def assert_alike(found: Any, expected: Any, name: str, tolerance: float) -> None:
    if isinstance(expected, np.ndarray):
        assert found.shape == expected.shape
        if name not in BY_CHANCE | VALUELESS:
            np.testing.assert_allclose(found, expected, tolerance, tolerance)
    elif isinstance(expected, tuple):
        assert len(found) == len(expected)
        for a, b in zip(found, expected, strict=True):
            assert_alike(a, b, name, tolerance)
    elif name not in VALUELESS:
        assert found == expected


def compare_values(name: str, given: Arguments, kind: str) -> None:
    """Or it refuses the type, which PyTorch may take, and says so."""
    try:
        expected = plain(called(torch, name, given, kind))
    except (RuntimeError, TypeError, ValueError, IndexError):
        return
    try:
        found = plain(called(lt, name, given, kind))
    except lt.DTypeError:
        assert kind not in ("float32", "float64") or name == "Tensor.float_power_"
        return
    assert_alike(found, expected, name, LOW.get(kind, 1e-5))


def gradients(library: Any, name: str, given: Arguments) -> tuple[list[Any], list[Any]]:
    """Of a sum in which each element of the results counts differently, for each tensor of floats,
    which are given, too. None where none flows."""
    leaves: list[Any] = []
    result = called(library, name, given, "float64", leaves)
    total = sum((y.double() * y.double() + y.double()).sum() for y in tensors(result)
                if y.requires_grad)
    if isinstance(total, int):
        return [None for _ in leaves], leaves
    return library.autograd.grad(total, leaves, create_graph=True, allow_unused=True), leaves


def second_gradients(library: Any, first: list[Any], leaves: list[Any]) -> list[Any]:
    """Of a sum in which each element of the first ones counts differently."""
    total = sum((g * (0.3 + library.arange(g.numel(), dtype=g.dtype).reshape(g.shape))).sum()
                for g in first if g is not None and g.requires_grad)
    if isinstance(total, int):
        return [None for _ in leaves]
    return list(library.autograd.grad(total, leaves, allow_unused=True))


def assert_equal_gradients(found: list[Any], expected: list[Any]) -> None:
    """None is as good as zeros."""
    for mine, theirs in zip(found, expected, strict=True):
        a = 0.0 if mine is None else mine.detach().numpy()
        b = 0.0 if theirs is None else theirs.numpy(force=True)
        np.testing.assert_allclose(a, b, 1e-6, 1e-9)


def compare_gradients(name: str, given: Arguments) -> None:
    """The first and the second; where PyTorch has no second ones, finite differences tell them."""
    try:
        first, leaves = gradients(torch, name, given)
    except (RuntimeError, TypeError, ValueError):
        return  # it takes no floats, or none that require gradients
    own_first, own_leaves = gradients(lt, name, given)
    assert_equal_gradients(own_first, first)
    if name in NO_SECOND:
        return
    try:
        second = second_gradients(torch, first, leaves)
    except (RuntimeError, TypeError, ValueError):
        check_by_differences(name, given)
    else:
        assert_equal_gradients(second_gradients(lt, own_first, own_leaves), second)


def check_by_differences(name: str, given: Arguments) -> None:
    inputs = made(lt, list(given), "float64")
    for x in inputs:
        if isinstance(x, lt.Tensor) and x.is_floating_point():
            x.requires_grad_()
    assert lt.autograd.gradgradcheck(lambda *args: called(
        lt, name, tuple(x * 1 if isinstance(x, lt.Tensor) else x for x in args), "float64"), inputs)


@pytest.mark.torch
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", NAMES)
def test_a_function_gives_what_pytorch_gives(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DEVICE", "interpreter")
    given = arguments(name, torch)
    assert given is not None, f"PyTorch takes no arguments of {name}: give it a row in SPECIAL"
    for kind in KINDS:
        compare_values(name, given, kind)
    if name not in BY_CHANCE | KEPT | REVERSED:
        compare_gradients(name, given)


@pytest.mark.torch
def test_what_pytorch_lacks_is_known() -> None:
    homes = {"lt": torch, "F": torch.nn.functional, "Tensor": torch.Tensor}
    lacking = [n for n in sorted(set(functions()) - OUTSIDE)
               if not hasattr(homes[n.partition(".")[0]], n.partition(".")[2])]
    assert lacking == OWN


@pytest.mark.torch
def test_methods_that_pytorch_has_as_functions_too_are_functions_here() -> None:
    """But for those that write in place, and some that are known."""
    methods = {n for n in dir(lt.Tensor) if callable(getattr(lt.Tensor, n, None)) and n[0] != "_"}
    lacking = {n for n in methods - set(lt.__all__) if callable(getattr(torch, n, None))}
    assert not {n for n in lacking if not n.endswith("_")}
