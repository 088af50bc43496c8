"""What operators give of small constants, by NumPy alone: the arithmetic on shapes, which a model
whose sizes vary does anew at each.

In: NumPy arrays. Out: an array, of the same elements as the operator's function gives; None for
what is left to that: other types, what is refused, and what would be large.
"""
from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from lazyten.onnx.tensors import numpy_type
from lazyten.onnx.values import FOLD_LIMIT, Array

Found = Array | None
EXACT = "iub"
"""Kinds of types that NumPy computes with as lazyten does."""


def of_integers(function: Callable[..., Array]) -> Callable[..., Found]:
    """An operator that gives an element for an element of each input, of integers of one type."""
    def apply(*arrays: Array) -> Found:
        if len({x.dtype for x in arrays}) > 1 or arrays[0].dtype.kind not in EXACT \
                or not _are_small(*arrays):
            return None
        return np.asarray(function(*arrays))
    return apply


def divided(a: Array, b: Array) -> Found:
    """Quotients of integers that are not negative."""
    return of_integers(np.floor_divide)(a, b) if _are_counts(a, b) else None


def remainders(a: Array, b: Array, *, fmod: int = 0) -> Found:
    """What division leaves of integers that are not negative."""
    return of_integers(np.remainder)(a, b) if _are_counts(a, b) else None


def cast(x: Array, *, to: int, **rest: Any) -> Found:
    """Integers in another type."""
    dtype = numpy_type(to)
    plain = x.dtype.kind in EXACT and (dtype.kind in EXACT or dtype in (np.float32, np.float64))
    return x.astype(dtype) if plain else None


def chosen(condition: Array, x: Array, y: Array) -> Found:
    """Elements of x where the condition holds, and of y elsewhere."""
    plain = x.dtype == y.dtype and condition.dtype == bool and _are_small(condition, x, y)
    return np.where(condition, x, y) if plain else None


def joined(*arrays: Array, axis: int) -> Found:
    """Arrays one after the other."""
    first = arrays[0]
    at = axis % first.ndim if first.ndim and -first.ndim <= axis < first.ndim else -1
    if at < 0 or any(x.dtype != first.dtype or x.shape[:at] != first.shape[:at]
                     or x.shape[at + 1:] != first.shape[at + 1:] for x in arrays):
        return None
    return np.concatenate(arrays, axis)


def triangle(x: Array, k: Array | None = None, *, upper: int = 1) -> Found:
    """What is above a diagonal, or below it."""
    if x.ndim < 2 or k is not None and k.size != 1:
        return None
    return (np.triu if upper else np.tril)(x, 0 if k is None else int(k.item()))


def _are_small(*arrays: Array) -> bool:
    """Whether shapes go together, and make no large one."""
    try:
        return math.prod(np.broadcast_shapes(*[x.shape for x in arrays])) <= FOLD_LIMIT
    except ValueError:
        return False


def _are_counts(a: Array, b: Array) -> bool:
    return a.dtype.kind in "iu" and b.dtype.kind in "iu" \
        and bool((a >= 0).all()) and bool((b > 0).all())
