"""Whether a model that was written gives what its function gives, at sizes that are special."""
from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from onnx import ModelProto

import lazyten as lt
from lazyten.ir.node import Shape
from lazyten.onnx.values import Array
from lazyten.support.errors import ArgumentError, LazytenError
from lazyten.support.trees import flatten

NEAR = 1e-3
NEAR_HALF = 1e-1
"""How far numbers may be off beside the greatest of a tensor, in 32 and in 16 bits."""
MOST_ELEMENTS = 1 << 22
"""Of all inputs together: more take too long."""


def compare(model: ModelProto, function: Callable[..., Any], inputs: Sequence[lt.Tensor],
            shapes: Sequence[Shape], difference: str) -> None:
    """ArgumentError, with what it is that differs, unless both give the same for random inputs of
    these shapes. Integers are those of `inputs`, at random places."""
    random = np.random.default_rng(0)
    arrays = [_like(x, shape, random) for x, shape in zip(inputs, shapes, strict=True)]
    same = sum(a.size for a in arrays) <= MOST_ELEMENTS and _same(model, function, [
        lt.tensor(a, dtype=x.dtype, device=x.device) for a, x in zip(arrays, inputs, strict=True)])
    if not same:
        raise ArgumentError(f"onnx.export(dynamic=...): {difference}")


def _like(tensor: lt.Tensor, shape: Shape, random: np.random.Generator) -> Array:
    if tensor.dtype.is_float:
        return random.standard_normal(shape).astype(np.float32)
    values = tensor.numpy().ravel()
    return values[random.integers(0, max(values.size, 1), shape)]


def _same(model: ModelProto, function: Callable[..., Any], given: Sequence[lt.Tensor]) -> bool:
    try:
        found = lt.onnx.load(model)(list(given))
    except LazytenError:
        return False
    with lt.no_grad():
        wanted = [x for x in flatten(function(*given))[0] if isinstance(x, lt.Tensor)]
    return len(found) == len(wanted) and all(map(_near, found, wanted))


def _near(one: lt.Tensor, other: lt.Tensor) -> bool:
    if one.shape != other.shape or one.dtype is not other.dtype:
        return False
    if not one.dtype.is_float:
        return bool(np.array_equal(one.numpy(), other.numpy()))
    a, b = (x.double().numpy() for x in (one, other))
    near = NEAR_HALF if one.dtype.is_half else NEAR
    scale = np.abs(b[np.isfinite(b)]).max(initial=0)
    return np.allclose(a, b, rtol=near, atol=near * float(scale), equal_nan=True)
