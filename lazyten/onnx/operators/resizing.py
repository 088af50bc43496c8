"""Weights of Resize: what each new element of an axis is made of."""
from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from lazyten.onnx.values import Array, check_size
from lazyten.support.errors import ArgumentError, ShapeError


def sizes_of(shape: tuple[int, ...], axes: Sequence[int], scales: Array | None,
             sizes: Array | None, policy: str) -> list[tuple[float, int]]:
    """The scale and the new size of each axis. Raises for a call with both or neither."""
    old = [shape[axis] for axis in axes]
    if sizes is not None and sizes.size:
        new = [int(n) for n in sizes]
        if len(new) != len(old):
            raise ShapeError(f"sizes {new} of {len(old)} axes")
        if any(n and not o for n, o in zip(new, old, strict=True)):
            raise ShapeError(f"sizes {new} of axes of {old}: an axis without elements has none to "
                             f"be made of")
        ratios = [n / o if o else 1.0 for n, o in zip(new, old, strict=True)]
        if policy != "stretch":
            ratio = min(ratios) if policy == "not_larger" else max(ratios)
            ratios = [ratio] * len(old)
            new = [math.floor(ratio * o + 0.5) for o in old]
        found = list(zip(ratios, new, strict=True))
    elif scales is not None and scales.size:
        if len(scales) != len(old):
            raise ShapeError(f"scales {scales.tolist()} of {len(old)} axes")
        found = [(float(s), math.floor(np.float32(o) * np.float32(s)))  # 3 of 7 / 3 are 7 so
                 for s, o in zip(scales, old, strict=True)]
    else:
        raise ArgumentError("it needs sizes or scales")
    check_size([new for _, new in found], "resize")
    return found


def _places(old: int, new: int, scale: float, mode: str, region: tuple[float, float],
            rounds: bool) -> Array:
    """Where in the old axis each new element lies; if that is rounded, in 32 bits, where
    3.5 / .7 is 5."""
    at: Array = np.arange(new).astype(np.float32 if rounds else np.float64)
    exact = scale * old
    if mode == "asymmetric":
        return at / scale
    if mode == "align_corners":
        return np.zeros(new) if exact == 1 else at * (old - 1) / (exact - 1)
    if mode == "tf_crop_and_resize":
        start, end = map(np.float32, region)  # in 32 bits, where .1 * 3 + .3 * 4 is half of 3
        if exact <= 1 or new <= 1:
            return np.full(new, 0.5 * (start + end) * (old - 1))
        at = at.astype(np.float32)
        return start * (old - 1) + at * (end - start) * (old - 1) / np.float32(exact - 1)
    places = (at + 0.5) / scale - 0.5
    if mode == "pytorch_half_pixel":
        return places if exact > 1 else np.full(new, -0.5)
    if mode == "half_pixel_symmetric":
        centre = old / 2 * (1 - new / exact)
        return centre + places
    if mode == "tf_half_pixel_for_nn":
        return (at + 0.5) / scale
    if mode != "half_pixel":
        raise ArgumentError(f"coordinate_transformation_mode {mode!r} is not supported")
    return places


def _rounded(places: Array, mode: str) -> Array:
    rounding: dict[str, Callable[[Array], Array]] = {
        "round_prefer_floor": lambda x: np.ceil(x - 0.5),
        "round_prefer_ceil": lambda x: np.floor(x + 0.5),
        "floor": np.floor, "ceil": np.ceil}
    if mode not in rounding:
        raise ArgumentError(f"nearest_mode {mode!r}: {sorted(rounding)} are there")
    return np.asarray(rounding[mode](places)).astype(np.int64)


def _linear(x: Array) -> Array:
    return np.asarray(np.maximum(0, 1 - np.abs(x)))


def _cubic(a: float) -> Any:
    def weight(x: Array) -> Array:
        x = np.abs(x)
        near = ((a + 2) * x - (a + 3)) * x * x + 1
        far = ((a * x - 5 * a) * x + 8 * a) * x - 4 * a
        return np.where(x <= 1, near, np.where(x < 2, far, 0.0))
    return weight


def matrices(old: int, new: int, scale: float, mode: str, transformation: str, nearest_mode: str,
             a: float, exclude: int, antialias: int, region: tuple[float, float],
             ) -> tuple[Array | None, Array]:
    """What makes the new axis of the old one: positions, or weights [new, old], or None for an
    axis that stays; and which new elements lie outside."""
    places = _places(old, new, scale, transformation, region, mode == "nearest")
    outside = (places < 0) | (places > old - 1)
    if old == new and scale == 1 and np.array_equal(places, np.arange(new)):
        return None, outside
    if mode == "nearest":
        nearest_mode = nearest_mode or ("ceil" if scale < 1 else "floor")
        return _rounded(places, nearest_mode).clip(0, old - 1), outside
    if mode not in ("linear", "cubic"):
        raise ArgumentError(f"mode {mode!r}: nearest, linear and cubic are the ones there are")
    check_size([new, old], "weights")
    kernel = _linear if mode == "linear" else _cubic(a)
    shrink = min(scale, 1.0) if antialias else 1.0
    reach = math.ceil((1 if mode == "linear" else 2) / shrink)
    weights = np.zeros((new, old))
    first = np.floor(places).astype(np.int64)
    taps = first[:, None] + np.arange(-reach + 1, reach + 1)
    values = kernel((taps - places[:, None]) * shrink)
    if exclude:
        values = np.where((taps < 0) | (taps >= old), 0.0, values)
    sums = values.sum(1, keepdims=True)
    values = values / np.where(sums == 0, 1, sums)  # 0 where all that is near is excluded
    np.add.at(weights, (np.arange(new)[:, None], taps.clip(0, old - 1)), values)
    return weights, outside
