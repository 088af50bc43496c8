"""One NaN or infinity in an input reaches the outputs that depend on it, and no others: all that
slides windows, beside PyTorch."""
from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from torch_if_there import torch

import lazyten as lt
from lazyten.nn import functional

Function = Callable[..., Any]


def convolution(name: str, *options: Any) -> Function:
    return lambda F, x, w: getattr(F, name)(x, w, None, *options)


def pooling(name: str, *options: Any, **more: Any) -> Function:
    return lambda F, x, w: getattr(F, name)(x, *options, **more)


def resized(mode: str, size: int, align: bool | None = None) -> Function:
    return lambda F, x, w: F.interpolate(x, (size, size), mode=mode, align_corners=align)


IMAGE, COLUMNS = (1, 2, 9, 9), (1, 18, 16)
CASES: dict[str, tuple[Function, tuple[int, ...], tuple[int, ...]]] = {
    **{f"conv2d {k} {s} {p} {d}": (convolution("conv2d", s, p, d), IMAGE, (3, 2, k, k))
       for k, s, p, d in ((3, 1, 1, 1), (3, 2, 1, 1), (3, 1, 1, 2), (5, 2, 2, 1), (3, 3, 1, 1))},
    **{f"conv_transpose2d {k} {s} {p} {o} {d}": (
        convolution("conv_transpose2d", s, p, o, 1, d), (1, 2, 7, 7), (2, 3, k, k))
       for k, s, p, o, d in ((3, 1, 1, 0, 1), (2, 2, 0, 0, 1), (3, 2, 1, 0, 1), (3, 2, 1, 1, 1),
                             (4, 3, 1, 2, 1), (5, 2, 2, 1, 1), (2, 3, 0, 0, 1), (1, 2, 0, 1, 1),
                             (3, 2, 0, 0, 2), (4, 2, 1, 0, 1))},
    "conv_transpose2d of groups": (convolution("conv_transpose2d", 2, 1, 1, 2), (1, 4, 7, 7),
                                   (4, 3, 3, 3)),
    "conv_transpose2d of two strides": (convolution("conv_transpose2d", (1, 2), (1, 0)),
                                        (1, 2, 7, 7), (2, 3, 3, 3)),
    "conv_transpose1d": (convolution("conv_transpose1d", 2, 1), (2, 2, 7), (2, 3, 3)),
    "conv_transpose3d": (convolution("conv_transpose3d", 2, 1), (1, 2, 3, 3, 3), (2, 2, 3, 3, 3)),
    "max_pool2d": (pooling("max_pool2d", 3, 2, 1), IMAGE, (1,)),
    "max_pool2d with ceil": (pooling("max_pool2d", 2, ceil_mode=True), IMAGE, (1,)),
    "avg_pool2d": (pooling("avg_pool2d", 3, 2, 1), IMAGE, (1,)),
    "avg_pool2d without padding": (pooling("avg_pool2d", 3, 2, 1, True, False), IMAGE, (1,)),
    "adaptive_avg_pool2d": (pooling("adaptive_avg_pool2d", 4), IMAGE, (1,)),
    "adaptive_max_pool2d": (pooling("adaptive_max_pool2d", 4), IMAGE, (1,)),
    "unfold": (pooling("unfold", 3, 1, 1, 2), IMAGE, (1,)),
    "fold": (pooling("fold", (9, 9), 3, 1, 0, 2), COLUMNS, (1,)),
    **{f"{mode} to {size} {align}": (resized(mode, size, align), IMAGE, (1,))
       for size in (4, 14) for mode, align in (
           ("nearest", None), ("bilinear", False), ("bilinear", True), ("bicubic", False),
           ("area", None))},
    "reflect": (pooling("pad", (1, 1, 1, 1), mode="reflect"), IMAGE, (1,)),
}


@pytest.mark.torch
@pytest.mark.parametrize("special", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("name", CASES)
def test_what_is_not_finite_spreads_as_in_pytorch(name: str, special: float, device: str) -> None:
    function, shape, kernel = CASES[name]
    rng = np.random.default_rng(0)
    values, weights = (np.round(rng.normal(size=s), 2) for s in (shape, kernel))
    values[tuple(n // 2 for n in shape)] = special
    x, w = (torch.tensor(v, requires_grad=True) for v in (values, weights))
    own_x, own_w = (lt.tensor(v, device=device, requires_grad=True) for v in (values, weights))
    y, own = function(torch.nn.functional, x, w), function(functional, own_x, own_w)
    g = rng.normal(size=tuple(y.shape))
    y.backward(torch.tensor(g))
    own.backward(lt.tensor(g, device=device))
    np.testing.assert_allclose(own.numpy(), y.detach().numpy(), rtol=1e-9, atol=1e-9)
    for mine, other in ((own_x, x), (own_w, w)):
        if other.grad is not None:
            assert mine.grad is not None
            np.testing.assert_allclose(mine.grad.numpy(), other.grad.numpy(), rtol=1e-9, atol=1e-9)


@pytest.mark.torch
@pytest.mark.parametrize(("place", "special"), [("weight", math.inf), ("gradient", math.nan)])
@pytest.mark.parametrize("name", [name for name in CASES if name.startswith("conv")])
def test_a_weight_that_is_not_finite_makes_nan_of_zeros_and_never_another_number(
        name: str, place: str, special: float) -> None:
    function, shape, kernel = CASES[name]
    rng = np.random.default_rng(0)
    given = [np.round(rng.normal(size=s), 2) for s in (shape, kernel)]
    given.append(rng.normal(size=tuple(function(torch.nn.functional, *map(
        torch.tensor, given)).shape)))
    changed = given[1 if place == "weight" else 2]
    changed[tuple(0 if place == "weight" else n // 2 for n in changed.shape)] = special
    results = []
    for m, F, where in ((lt, functional, {"device": "interpreter"}),
                        (torch, torch.nn.functional, {})):
        x, w, g = (m.tensor(v, requires_grad=i < 2, **where) for i, v in enumerate(given))
        y = function(F, x, w)
        y.backward(g)
        results.append([t.detach().numpy() for t in (y, x.grad, w.grad)])
    for mine, theirs in zip(*results, strict=True):
        assert np.isnan(mine[np.isnan(theirs)]).all()
        there = ~np.isnan(mine)
        np.testing.assert_allclose(mine[there], theirs[there], rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("mode", ["nearest", "bilinear", "bicubic"])
def test_an_image_resized_to_its_own_size_is_itself(mode: str, device: str) -> None:
    values = np.arange(16.0).reshape(1, 1, 4, 4)
    values[0, 0, 1, 2], values[0, 0, 3, 3] = np.nan, np.inf
    x = lt.tensor(values, device=device)
    np.testing.assert_array_equal(functional.interpolate(x, (4, 4), mode=mode).numpy(), values)


@pytest.mark.torch
def test_a_transposed_convolution_has_pytorchs_second_gradients(device: str) -> None:
    rng = np.random.default_rng(1)
    values = [rng.normal(size=s) for s in ((1, 2, 4, 4), (2, 3, 3, 3))]
    results = []
    for m, F, where in ((lt, functional, {"device": device}), (torch, torch.nn.functional, {})):
        x, w = (m.tensor(v, requires_grad=True, **where) for v in values)
        y = F.conv_transpose2d(x, w, None, 2, 1, 1)
        g, = m.autograd.grad((y * y).sum(), x, create_graph=True)
        (g * g).sum().backward()
        results.append([x.grad.numpy(), w.grad.numpy()])
    for found, expected in zip(*results, strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-9)
