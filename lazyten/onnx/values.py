"""Values of a model that runs: tensors, NumPy arrays, sequences, maps, None for what is absent.

A value is on the host if it is known as arrays: a constant, a shape and what follows from it, a
string, a type that lazyten lacks. All others are tensors.
"""
from __future__ import annotations

import math
from collections.abc import Hashable
from functools import lru_cache
from typing import Any

import ml_dtypes
import numpy as np

import lazyten as lt
from lazyten.storage import tracing
from lazyten.support.errors import ArgumentError

Array = np.ndarray[Any, Any]
Value = Any
"""lt.Tensor | Array | Constant | list[Value] | dict of numbers or texts | None"""

FOLDING = "interpreter"
"""The device that computes what is known beforehand: it compiles nothing."""
FOLD_LIMIT = 1 << 26
"""Elements of a value that is computed beforehand; larger ones are made when they are used."""
SIZE_LIMIT = 1 << 31
"""Elements of any value: what a file asks for beyond that is a mistake."""

TYPES: dict[str, lt.DType] = {name: getattr(lt, name) for name in (
    "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float16",
    "bfloat16", "float32", "float64")} | {"bool": lt.bool_}
"""Names of NumPy's types to those of lazyten that compute; others stay on the host."""
KEPT_TYPES = 64
FEW = 8
"""Elements of an array that follows from sizes which are recorded each."""
FEW_KEPT = 1024
"""Elements of a weight whose array stays beside its tensor."""
MOST_KNOWN = 64
"""Elements at most of a constant that sizes may be compared with."""


class Constant:
    """A weight: an array, and one tensor that all who use it share."""

    __slots__ = ("_array", "_blocks", "_tensor", "dtype", "shape")

    def __init__(self, array: Array) -> None:
        self._array: Array | None = array
        self.dtype, self.shape = array.dtype, array.shape
        self._tensor: lt.Tensor | None = None
        self._blocks: dict[tuple[int, int], Constant] = {}

    def __reduce__(self) -> tuple[type[Constant], tuple[Array]]:
        return type(self), (self.array,)

    @property
    def array(self) -> Array:
        """Its elements, for the host."""
        array = self._array
        if array is not None:
            return array
        if self._tensor is not None:
            return to_array(self._tensor)
        (axis, _), blocks = next(iter(self._blocks.items()))
        return _from_blocks(blocks.array, axis)

    def blocks(self, axis: int, width: int) -> Constant:
        """Its elements of shape (n / width, all axes but this one of n elements, width): made once,
        for all who ask; this one's own are let go if they are many, and made of those."""
        found = self._blocks.get((axis, width))
        if found is None:
            found = Constant(_in_blocks(self.array, axis, width))
            self._blocks[axis, width] = found
            if math.prod(self.shape) > FEW_KEPT:
                self._array = None
        return found

    def tensor(self, device: str | None) -> lt.Tensor:
        """Its tensor, made once; the array is let go then, if it is large, and made of the tensor
        should it be asked for."""
        if device == FOLDING:
            return make_tensor(self.array, device)
        if self._tensor is None:
            with tracing.listening(None):  # a weight, not something that a traced call makes
                self._tensor = make_tensor(self.array, device)
            if self._tensor.numel() > FEW_KEPT:
                self._array = None
        return self._tensor


def _in_blocks(array: Array, axis: int, width: int) -> Array:
    last = np.moveaxis(array, axis, -1)
    cut = last.reshape(*last.shape[:-1], -1, width)
    return np.ascontiguousarray(np.moveaxis(cut, -2, 0))


def _from_blocks(blocks: Array, axis: int) -> Array:
    cut = np.moveaxis(blocks, 0, -2)
    return np.ascontiguousarray(np.moveaxis(cut.reshape(*cut.shape[:-2], -1), -1, axis))


class OfSizes(Constant):
    """An array that follows from sizes: as a tensor it is recorded, a number each, or by its first
    one and its step."""

    __slots__ = ()

    def tensor(self, device: str | None) -> lt.Tensor:
        """See Constant."""
        array = self.array
        made = None if device == FOLDING else _recorded(array, device)
        return super().tensor(device) if made is None else made


def of_sizes(value: Value) -> Value:
    """A value that follows from sizes, if it is on the host."""
    return OfSizes(value.array) if isinstance(value, Constant) else value


def _recorded(array: Array, device: str | None) -> lt.Tensor | None:
    """An array as an expression of few numbers; None where it is none."""
    dtype = lt.tensor(array[:0].copy() if array.ndim else np.zeros(0, array.dtype)).dtype
    flat = array.reshape(-1)
    if flat.size == 0:
        return None
    if (flat == flat[0]).all():
        return lt.full(array.shape, flat[0].item(), dtype=dtype, device=device)
    step = flat[1] - flat[0] if array.dtype.kind in "iu" else 0
    if step and (np.diff(flat) == step).all():
        first, step = int(flat[0]), int(step)
        return lt.arange(first, first + step * flat.size, step, dtype=dtype,
                         device=device).reshape(array.shape)
    if flat.size > FEW:
        return None
    return lt.stack([lt.full((), x.item(), dtype=dtype, device=device)
                     for x in flat]).reshape(array.shape)


def is_plain(array: Array | Constant) -> bool:
    """Whether lazyten computes with arrays of this type."""
    return _is_of_types(array.dtype)


@lru_cache(KEPT_TYPES)
def _is_of_types(dtype: np.dtype[Any]) -> bool:
    return dtype.name in TYPES  # NumPy makes the name anew each time


def make_tensor(array: Array, device: str | None = None) -> lt.Tensor:
    """A tensor with a copy of an array. Raises DTypeError for types that lazyten lacks."""
    if not is_plain(array):
        raise lt.DTypeError(f"{array.dtype} is a type that lazyten does not compute with; models "
                            f"may move, cast and quantize it")
    return lt.tensor(array, device=device)


def to_array(value: Value) -> Array:
    """A value's elements as NumPy has them (bfloat16 as ml_dtypes has it); computes it."""
    if isinstance(value, Constant):
        return value.array
    if isinstance(value, lt.Tensor):
        array = value.numpy()
        return array.astype(ml_dtypes.bfloat16) if value.dtype is lt.bfloat16 else array
    if isinstance(value, np.ndarray):
        return value
    raise ArgumentError(f"a tensor is needed, this is {describe(value)}")


def to_host(value: Value) -> Value:
    """A value, sequences too, as arrays."""
    if isinstance(value, list):
        return [to_host(x) for x in value]
    return value if value is None or isinstance(value, dict) else to_array(value)


def to_tensor(value: Value, device: str | None) -> Value:
    """A value as a tensor, unless its type is one that lazyten lacks."""
    if isinstance(value, Constant):
        return value.tensor(device) if is_plain(value) else value.array
    if isinstance(value, np.ndarray) and is_plain(value):
        return make_tensor(value, device)
    return value


def are_maps(sequence: list[Value]) -> bool:
    """Whether a sequence, whose elements are of one kind, has maps."""
    return bool(sequence) and isinstance(sequence[0], dict)


def is_known(value: Value) -> bool:
    """Whether a value is on the host, computed."""
    if isinstance(value, list):
        return all(map(is_known, value))
    return not isinstance(value, lt.Tensor)


def is_foreign(value: Value) -> bool:
    """Whether only operators that run by themselves take it: a sequence, nothing, another type."""
    return not isinstance(value, lt.Tensor) and not (
        isinstance(value, np.ndarray | Constant) and is_plain(value))


def shape_of(value: Value) -> tuple[int, ...]:
    """The shape of a tensor or an array."""
    if isinstance(value, lt.Tensor | np.ndarray | Constant):
        return tuple(value.shape)
    raise ArgumentError(f"a tensor is needed, this is {describe(value)}")


def dtype_of(value: Value) -> str:
    """The name of a value's element type, as NumPy names it."""
    return str(value.dtype.name) if isinstance(value, lt.Tensor) else str(value.dtype)


def key_of(value: Value) -> Hashable:
    """What a program depends on: a tensor's shape and type, an array's elements."""
    if isinstance(value, lt.Tensor):
        return value.shape, value.dtype.name, value._storage.device
    if isinstance(value, list):
        return tuple(map(key_of, value))
    if isinstance(value, np.ndarray):
        content = repr(value.tolist()) if value.dtype == object else value.tobytes()
        return value.shape, str(value.dtype), content
    return id(value) if isinstance(value, Constant) else value


def describe(value: Value) -> str:
    """A value in words, for errors."""
    if value is None:
        return "an input that is left out"
    if isinstance(value, dict):
        return f"a map of {len(value)}"
    if isinstance(value, list):
        return f"a sequence of {len(value)}"
    return f"{dtype_of(value)} {list(shape_of(value))}"


def check_size(shape: Any, what: str) -> tuple[int, ...]:
    """A shape that a model asks for. Raises ShapeError for negative sizes and absurd ones."""
    sizes = tuple(int(n) for n in shape)
    if any(n < 0 for n in sizes) or math.prod(sizes) > SIZE_LIMIT:
        raise lt.ShapeError(f"{what} of shape {sizes}: sizes must be at least 0, and {SIZE_LIMIT} "
                            f"elements at most")
    return sizes
