"""Random numbers: with a seed the same ones at each call, without one lazyten's generator's."""
from __future__ import annotations

from typing import Any

import lazyten as lt
from lazyten.onnx.table import operator
from lazyten.onnx.tensors import numpy_type
from lazyten.onnx.values import TYPES, check_size
from lazyten.support.errors import DTypeError

T = lt.Tensor


def _type(number: int | None, like: T | None = None) -> lt.DType:
    if number is None:
        return lt.float32 if like is None else like.dtype
    name = numpy_type(number).name
    if name not in TYPES:
        raise DTypeError(f"random numbers of type {name}")
    return TYPES[name]


def _draw(kind: str, shape: Any, dtype: lt.DType, seed: float | None,
          device: Any = None) -> T:
    generator = None
    if seed is not None:
        generator = lt.Generator()
        generator.manual_seed(hash(seed) & (2 ** 63 - 1))
    function = lt.rand if kind == "uniform" else lt.randn
    wide = dtype if dtype.is_float else lt.float32
    return function(check_size(shape, "random numbers"), generator=generator, dtype=wide,
                    device=device)


@operator("RandomUniform", eager=True, pure=False)
def random_uniform(*, shape: list[int], dtype: int = 1, high: float = 1.0, low: float = 0.0,
                   seed: float | None = None) -> T:
    """Even numbers between low and high."""
    return _draw("uniform", shape, _type(dtype), seed) * (high - low) + low


@operator("RandomNormal", eager=True, pure=False)
def random_normal(*, shape: list[int], dtype: int = 1, mean: float = 0.0, scale: float = 1.0,
                  seed: float | None = None) -> T:
    """Numbers of a normal distribution."""
    return _draw("normal", shape, _type(dtype), seed) * scale + mean


@operator("RandomUniformLike", eager=True, pure=False)
def random_uniform_like(x: T, *, dtype: int | None = None, high: float = 1.0, low: float = 0.0,
                        seed: float | None = None) -> T:
    """Even numbers between low and high, in x's shape."""
    return _draw("uniform", x.shape, _type(dtype, x), seed, x.device) * (high - low) + low


@operator("RandomNormalLike", eager=True, pure=False)
def random_normal_like(x: T, *, dtype: int | None = None, mean: float = 0.0, scale: float = 1.0,
                       seed: float | None = None) -> T:
    """Numbers of a normal distribution, in x's shape."""
    return _draw("normal", x.shape, _type(dtype, x), seed, x.device) * scale + mean


@operator("Bernoulli", eager=True, pure=False)
def bernoulli(x: T, *, dtype: int | None = None, seed: float | None = None) -> T:
    """1 with the probability x, else 0."""
    kind = _type(dtype, x)
    return (_draw("uniform", x.shape, x.dtype, seed, x.device) < x).to(kind)


@operator("Multinomial", eager=True, pure=False)
def multinomial(x: T, *, dtype: int = 6, sample_size: int = 1, seed: float | None = None) -> T:
    """Classes drawn with probabilities whose logarithms are given, up to a constant."""
    total = x.softmax(-1).cumsum(-1)
    drawn = _draw("uniform", (x.shape[0], sample_size), x.dtype, seed, x.device)
    found = (drawn[:, :, None] >= total[:, None, :-1]).sum(-1)
    return found.to(_type(dtype))
