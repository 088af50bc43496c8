"""Segments of an axis, and losses of affine maps, beside PyTorch's."""
from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from torch_if_there import torch

import lazyten as lt

pytestmark = pytest.mark.torch

CASES: list[tuple[tuple[int, ...], list[Any]]] = [
    ((7,), [2, 0, 4, 1]), ((7, 3), [2, 0, 4, 1]), ((2, 6, 3), [[3, 0, 3], [1, 5, 0]]),
    ((2, 6), [[3, 0, 3], [1, 5, 0]]), ((6, 2, 2), [6]), ((0, 2), [0, 0]),
    ((2, 2, 4), [[[1, 3], [4, 0]], [[0, 4], [2, 2]]])]


@pytest.mark.parametrize("initial", [None, 0.5, -3])
@pytest.mark.parametrize("reduce", ["sum", "mean", "max", "min", "prod"])
@pytest.mark.parametrize(("shape", "lengths"), CASES, ids=str)
def test_segments_are_those_of_pytorch(shape: tuple[int, ...], lengths: list[Any], reduce: str,
                                       initial: float | None) -> None:
    rng = np.random.default_rng(0)
    x, sizes = rng.normal(size=shape), np.array(lengths)
    zero = np.zeros((*sizes.shape[:-1], 1), int)
    for given in ({"lengths": sizes}, {"offsets": np.concatenate([zero, sizes.cumsum(-1)], -1)}):
        results = []
        for library in (lt, torch):
            leaf = library.tensor(x, requires_grad=True)
            out = library.segment_reduce(leaf, reduce, axis=sizes.ndim - 1, initial=initial, **{
                name: library.tensor(value) for name, value in given.items()})
            weights = np.random.default_rng(1).normal(size=tuple(out.shape))
            out.backward(library.tensor(weights))
            results.append((out.detach().numpy(), leaf.grad.numpy()))
        for mine, other in zip(*results, strict=True):
            np.testing.assert_allclose(mine, other, 1e-9, 1e-12)


@pytest.mark.parametrize("reduce", ["max", "min"])
def test_a_nan_is_the_result_of_its_segment(reduce: str) -> None:
    x = np.array([1.0, np.nan, 2.0, 3.0, 4.0])
    mine, other = (library.segment_reduce(library.tensor(x), reduce, initial=2.5,
                                          lengths=library.tensor([3, 2])).numpy()
                   for library in (lt, torch))
    np.testing.assert_array_equal(mine, other)


@pytest.mark.parametrize("dim", [-1, 0, 2])
@pytest.mark.parametrize("pow", [1, 2, 3])
def test_norms_but_of_one_axis_are_those_of_pytorch(pow: int, dim: int) -> None:
    x = np.random.default_rng(0).normal(size=(2, 3, 4))
    mine, other = (library.norm_except_dim(library.tensor(x), pow, dim) for library in (lt, torch))
    np.testing.assert_allclose(mine.numpy(), other.numpy(), 1e-12)


@pytest.mark.parametrize("given", [
    {"shapes": [(5, 4), (3, 4), (2,)]}, {"shapes": [(5, 4), (3, 3), (5,)]},
    {"shapes": [(4,), (3, 2, 4), ()]}, {"shapes": [(5, 4), (4,), (5,)]},
    {"shapes": [(5, 4), (3, 4), (5, 3)], "ignore_index": 1},
    {"shapes": [(5, 4), (3, 4), (5,)], "linear_bias": (4,)}], ids=str)
def test_losses_of_affine_maps_refuse_what_pytorch_refuses(given: dict[str, Any]) -> None:
    shapes, *_ = given.values()
    for library, error in ((lt, lt.LazytenError), (torch, (RuntimeError, ValueError))):
        x, weight = (library.ones(*s) for s in shapes[:2])
        target = library.zeros(shapes[2], dtype=library.float32 if len(shapes[2]) > 1
                               else library.int64)
        options = {name: library.ones(*v) if isinstance(v, tuple) else v
                   for name, v in given.items() if name != "shapes"}
        with pytest.raises(error):
            library.nn.functional.linear_cross_entropy(x, weight, target, **options)


@pytest.mark.parametrize("reduce", ["max", "min"])
def test_equal_ones_share_a_gradient_as_in_pytorch(reduce: str) -> None:
    """Of weights above 0: PyTorch gives each of them all of one below."""
    grads = []
    for library in (lt, torch):
        x = library.tensor([0.0, 0.0, 1.0, 1.0, 1.0, -2.0], requires_grad=True)
        library.segment_reduce(x, reduce, lengths=library.tensor([2, 4])).backward(
            library.tensor([1.0, 2.0]))
        grads.append(x.grad.numpy())
    np.testing.assert_allclose(*grads, 1e-6)
