"""Operators of element types, those that lazyten lacks too: Constant, Cast, quantization."""
from __future__ import annotations

from typing import Any

import numpy as np
from onnx import numpy_helper

import lazyten as lt
from lazyten.onnx.evaluation import NeedsHost
from lazyten.onnx.operators import on_arrays
from lazyten.onnx.table import operator
from lazyten.onnx.tensors import numpy_type, type_name
from lazyten.onnx.values import TYPES, Array, Value, dtype_of
from lazyten.support.errors import ArgumentError, ShapeError

T = lt.Tensor
F8 = ("float8_e4m3fn", "float8_e4m3fnuz", "float8_e5m2", "float8_e5m2fnuz")


@operator("Constant", shapes=True, foreign=True)
def constant(*, value: Array | None = None, sparse_value: Array | None = None,
             value_float: float | None = None, value_floats: list[float] | None = None,
             value_int: int | None = None, value_ints: list[int] | None = None,
             value_string: str | None = None, value_strings: list[str] | None = None) -> Array:
    """The value that one attribute has."""
    for given, dtype in ((value, None), (sparse_value, None), (value_float, np.float32),
                         (value_floats, np.float32), (value_int, np.int64), (value_ints, np.int64),
                         (value_string, object), (value_strings, object)):
        if given is not None:
            return np.asarray(given, dtype)
    raise ArgumentError("it has no value")


def converted(array: Array, dtype: np.dtype[Any], saturate: int, round_mode: str) -> Array:
    """An array in another type, one of the two not lazyten's."""
    if dtype.kind == "O":
        return _texts(array)
    if array.dtype == object:
        wide = np.array([float(x) if dtype.kind not in "iu" else int(x) for x in array.ravel()])
        return wide.reshape(array.shape).astype(dtype)
    if dtype.name == "float8_e8m0fnu":
        return _powers_of_two(array.astype(np.float32), dtype, bool(saturate), round_mode)
    if dtype.name in F8 and saturate:
        return numpy_helper.saturate_cast(array, dtype)
    return array.astype(dtype)


def _powers_of_two(array: Array, dtype: np.dtype[Any], saturate: bool, round_mode: str) -> Array:
    """Floats as powers of two; what is infinite or too small as the last one, if it saturates."""
    found: Array = numpy_helper.to_float8e8m0(array, saturate, round_mode).astype(dtype)
    if saturate:
        found[array == np.inf] = 2.0**127
        found[(array >= 0) & (array <= 2.0**-127)] = 2.0**-127
    return found


def _texts(array: Array) -> Array:
    """Numbers as texts."""
    texts = array.astype(np.str_) if array.dtype.name in TYPES else array.astype(np.float32)
    return texts.astype(np.str_).astype(object)


def cast_to(x: Value, dtype: np.dtype[Any], saturate: int = 1, round_mode: str = "up") -> Value:
    """A tensor or an array in another type."""
    if isinstance(x, lt.Tensor):
        if dtype.name in TYPES:
            return x.to(TYPES[dtype.name])
        raise NeedsHost
    return converted(x, dtype, saturate, round_mode)


@operator("Cast", since=6, foreign=True, arrays=on_arrays.cast)
def cast(x: Value, *, to: int, saturate: int = 1, round_mode: str = "up") -> Value:
    """Elements in another type."""
    return cast_to(x, numpy_type(to), saturate, round_mode)


@operator("CastLike", foreign=True)
def cast_like(x: Value, target: Value, *, saturate: int = 1, round_mode: str = "up") -> Value:
    """Elements in another value's type."""
    return cast_to(x, _dtype(target), saturate, round_mode)


def _dtype(value: Value) -> np.dtype[Any]:
    import ml_dtypes
    name = dtype_of(value)
    return np.dtype(getattr(ml_dtypes, name, None) or name)


@operator("BitCast", foreign=True)
def bit_cast(x: Value, *, to: int) -> Value:
    """The same bits as another type of the same size."""
    if isinstance(x, lt.Tensor):
        raise NeedsHost
    dtype = numpy_type(to)
    if dtype.itemsize != x.dtype.itemsize:
        raise ArgumentError(f"{x.dtype} as {type_name(to)}: their sizes differ")
    return np.ascontiguousarray(x).view(dtype).reshape(x.shape)


def blocked(values: Value, x: Value, axis: int, block_size: int) -> Value:
    """Scales or zero points in x's shape: one, one for each place of an axis, or for a block."""
    if values.ndim == 0 or tuple(values.shape) == (1,):
        return values.reshape(())
    axis = axis % x.ndim
    if values.ndim == 1 and not block_size:
        return values.reshape([-1 if i == axis else 1 for i in range(x.ndim)])
    if not block_size or values.ndim != x.ndim:
        raise ShapeError(f"scales of shape {tuple(values.shape)} for {tuple(x.shape)}: one, one "
                         f"for each place of axis {axis}, or block_size and as many axes")
    if isinstance(values, lt.Tensor):
        return values.repeat_interleave(block_size, dim=axis).narrow(axis, 0, x.shape[axis])
    return np.take(np.repeat(values, block_size, axis), range(x.shape[axis]), axis)


LIMITS = {"uint8": (0, 255), "int8": (-128, 127), "uint16": (0, 65535), "int16": (-32768, 32767),
          "uint4": (0, 15), "int4": (-8, 7), "uint2": (0, 3), "int2": (-2, 1)}
FAR, UNIT = 2.0 ** 17, 1.5 * 2.0 ** 23
"""No two numbers of 16 bits are so far apart; and a size at which float32 are whole."""


@operator("QuantizeLinear", foreign=True)
def quantize(x: Value, scale: Value, zero: Value = None, *, axis: int = 1, block_size: int = 0,
             output_dtype: int = 0, precision: int = 0, saturate: int = 1) -> Value:
    """x / scale + zero point, rounded to a narrow type."""
    dtype = _dtype(zero) if zero is not None else numpy_type(output_dtype or 2)
    scale = blocked(scale, x, axis, block_size)
    if isinstance(x, lt.Tensor):
        if dtype.name not in LIMITS or dtype.name not in TYPES:
            raise NeedsHost
        wide = TYPES[numpy_type(precision).name] if precision else x.dtype
        if not wide.is_float:
            wide = lt.float32
        found = _whole(x.to(wide) / scale.to(wide))
        offset = 0 if zero is None else blocked(zero, x, axis, block_size).to(lt.int32)
        return (found.to(lt.int32) + offset).clamp(*LIMITS[dtype.name]).to(TYPES[dtype.name])
    wide_type = numpy_type(precision) if precision else x.dtype
    ratio = x.astype(wide_type) / scale.astype(wide_type)
    if dtype.name in LIMITS:
        whole = np.rint(ratio.astype(np.float32).clip(-FAR, FAR)).astype(np.int32)
        if zero is not None:
            whole = whole + blocked(zero, x, axis, block_size).astype(np.int32)
        return np.clip(whole, *LIMITS[dtype.name]).astype(dtype)
    return converted(ratio, dtype, saturate, "up")


def _whole(x: T) -> T:
    """x rounded to whole numbers, halves to the even one; what is beyond a narrow type with any
    zero point stays so. A sum of UNIT's size has no bits for a fraction: adding rounds it."""
    if x.dtype is lt.float64:
        return x.clamp(-FAR, FAR).round()
    return x.to(lt.float32).clamp(-FAR, FAR) + UNIT - UNIT


@operator("DequantizeLinear", foreign=True)
def dequantize(x: Value, scale: Value, zero: Value = None, *, axis: int = 1, block_size: int = 0,
               output_dtype: int = 0) -> Value:
    """(x - zero point) * scale, in the scale's type."""
    dtype = TYPES[numpy_type(output_dtype).name if output_dtype else dtype_of(scale)]
    device = scale.device if isinstance(scale, lt.Tensor) else None

    def wide(value: Value) -> T:
        whole = dtype_of(value) in LIMITS or dtype_of(value) == "int32"
        if isinstance(value, lt.Tensor):
            return value.to(lt.int32 if whole else dtype)
        return lt.tensor(value.astype(np.int32 if whole else np.float32), device=device)
    found = wide(x)
    if zero is not None:
        found = found - wide(blocked(zero, x, axis, block_size))
    factor = scale if isinstance(scale, lt.Tensor) else lt.tensor(scale)
    factor = blocked(factor, x, axis, block_size)
    return (found.to(factor.dtype) * factor).to(dtype)


@operator("DynamicQuantizeLinear")
def dynamic_quantize(x: T) -> tuple[T, T, T]:
    """uint8 over the range of x and 0, with the scale, 1 if all is 0, and the zero point."""
    high, low = x.amax().clamp(min=0), x.amin().clamp(max=0)
    scale = lt.where(high == low, 1.0, (high - low) / 255)
    zero = (0 - low / scale).round().clamp(0, 255)
    found = (_whole(x / scale) + zero).clamp(0, 255).to(lt.uint8)
    return found, scale, zero.to(lt.uint8)


