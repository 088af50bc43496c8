"""Values, dtypes and gradients beside PyTorch's at the points where formulas end."""
from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest
import special_points as sp
from torch_if_there import torch

import lazyten as lt
from lazyten.nn import functional

DTYPES = ("float64", "float32")
TOLERANCE = {"float64": 1e-10, "float32": 2e-5}


def theirs(function: sp.Function, arrays: tuple[sp.Array, ...], dtype: str) -> list[Any]:
    """PyTorch's value and gradients."""
    x = [torch.tensor(a, dtype=getattr(torch, dtype), requires_grad=True) for a in arrays]
    result = function(torch, torch.nn.functional, *x)
    if result.requires_grad:
        result.backward(torch.ones_like(result))
    return [result.detach(), *[t.grad for t in x]]


def ours(function: sp.Function, arrays: tuple[sp.Array, ...], dtype: str,
         device: str) -> list[Any]:
    """Our value and gradients, not computed yet."""
    x = [lt.tensor(a, dtype=dtype, device=device, requires_grad=True) for a in arrays]
    result = function(lt, functional, *x)
    if result.requires_grad:
        result.backward(lt.ones_like(result))
    return [result.detach(), *[t.grad for t in x]]


def differences(name: str, found: list[Any], expected: list[Any], arrays: tuple[sp.Array, ...],
                dtype: str) -> list[str]:
    """What is not alike, in words."""
    if str(found[0].dtype).rpartition(".")[2] != str(expected[0].dtype).rpartition(".")[2]:
        return [f"{name}: {found[0].dtype} for {expected[0].dtype}"]
    odd = sp.ODD.get(name)
    value = np.asarray((expected[0] + 0).numpy(force=True))
    bad = []
    for part, (mine, other) in enumerate(zip(found, expected, strict=True)):
        if mine is None or other is None:
            if (mine is None) != (other is None):
                bad.append(f"{name}: gradient {part} is {mine} for {other}")
            continue
        a, b = np.asarray(mine.numpy()), np.asarray((other + 0).numpy(force=True))
        if a.shape != b.shape:
            bad.append(f"{name}: shape {a.shape} for {b.shape}")
            continue
        same = alike(a, b, TOLERANCE[dtype])
        if part:
            same |= without_meaning(value, b.shape)
        if odd is not None and (part or not odd.gradient_only):
            where = odd.where(*arrays)
            same |= where if where.shape == b.shape else np.zeros(b.shape, bool)
        for at in np.argwhere(~same)[:3]:
            given = [float(x[tuple(at)]) if x.shape == b.shape else x.shape for x in arrays]
            bad.append(f"{name} of {given}, part {part} at {at}: {a[tuple(at)]} for {b[tuple(at)]}")
    return bad


def alike(a: sp.Array, b: sp.Array, tolerance: float) -> sp.Array:
    """Equal, both NaN, or finite and near."""
    if a.dtype.kind != "f":
        return np.asarray(a == b)
    with np.errstate(all="ignore"):
        near = np.abs(a - b) <= tolerance * (np.abs(b) + 1e-3)
        same: sp.Array = (a == b) | (np.isnan(a) & np.isnan(b)) | (
            np.isfinite(a) & np.isfinite(b) & near)
    return same


def without_meaning(value: sp.Array, shape: tuple[int, ...]) -> sp.Array:
    """Where a gradient is one of NaN."""
    if value.dtype.kind != "f":
        return np.zeros(shape, bool)
    missing = np.isnan(value)
    if value.shape != shape and value.ndim == 1 and len(shape) == 2:
        missing = missing[:, None] if len(value) == shape[0] else missing[None, :]
    fits = all(n in (1, m) for n, m in zip(missing.shape[::-1], shape[::-1], strict=False))
    return np.broadcast_to(missing if fits else missing.any(), shape)


def assert_table(table: Mapping[str, sp.Function], arrays: tuple[sp.Array, ...], dtype: str,
                 device: str) -> None:
    found = {name: ours(f, arrays, dtype, device) for name, f in table.items()}
    lt.realize(*[t for parts in found.values() for t in parts if t is not None])
    bad = [line for name, f in table.items() for line in differences(
        name, found[name], theirs(f, arrays, dtype), arrays, dtype)]
    assert not bad, "\n".join(bad)


@pytest.mark.torch
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("part", range(6))
def test_functions_of_one_number_give_pytorchs_values_and_gradients(
        part: int, dtype: str, device: str) -> None:
    table = {name: sp.UNARY[name] for name in list(sp.UNARY)[part::6]}
    assert_table(table, (sp.points(dtype),), dtype, device)


@pytest.mark.torch
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("part", range(3))
def test_functions_of_two_numbers_give_pytorchs_values_and_gradients(
        part: int, dtype: str, device: str) -> None:
    table = {name: sp.BINARY[name] for name in list(sp.BINARY)[part::3]}
    assert_table(table, sp.pairs(dtype), dtype, device)


@pytest.mark.torch
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("part", range(6))
def test_reductions_give_pytorchs_values_and_gradients(part: int, device: str) -> None:
    table = {name: sp.REDUCTIONS[name] for name in list(sp.REDUCTIONS)[part::6]}
    assert_table(table, (sp.ROWS,), "float64", device)


@pytest.mark.torch
def test_ordered_rows_give_pytorchs_values_and_gradients(device: str) -> None:
    assert_table(sp.ORDERED, (sp.TIES_APART,), "float64", device)


@pytest.mark.torch
@pytest.mark.filterwarnings("ignore")
def test_losses_give_pytorchs_values_and_gradients(device: str) -> None:
    shares = np.tile([0.0, 0.5, 1.0, 0.25], (len(sp.ROWS), 1))
    assert_table(sp.LOSSES, (sp.ROWS, sp.ROWS[::-1].copy(), shares), "float64", device)


def test_each_known_difference_is_of_a_function_that_is_compared() -> None:
    names = {**sp.UNARY, **sp.BINARY, **sp.REDUCTIONS, **sp.ORDERED, **sp.LOSSES}
    assert set(sp.ODD) <= set(names)
    assert len(names) > 230
