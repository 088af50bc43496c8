"""Python and NumPy values to buffers: what `lt.tensor(...)` accepts."""
from __future__ import annotations

from functools import reduce
from typing import Any

import numpy as np

from lazyten.ir import dtype as dt
from lazyten.ir import ops
from lazyten.ir.dtype import DType
from lazyten.ir.node import Node
from lazyten.storage.storage import Buffer
from lazyten.support.errors import ArgumentError, ComplexError, DTypeError, ShapeError

Array = np.ndarray[Any, Any]
MOST_AXES = 64
"""How deep sequences may be nested, as NumPy's may. It would follow one that contains itself."""
_PLAIN = frozenset({bool, int, float})
_NUMPY = frozenset(kind.numpy.type for kind in dt.ARITHMETIC if kind.numpy.kind in "biuf")


def buffer_node(data: Any, dtype: DType | None, device: str) -> Node:
    """A node that reads a copy of `data` on a device.

    Python floats become the default float type and integers int64, arrays keep their type. Raises
    DTypeError and ShapeError for what is not a rectangle of numbers, ArgumentError for Python
    numbers that the dtype cannot hold; arrays are converted as by a cast.
    """
    array, kind = to_array(data, dt.default_float if dtype is None else dt.float64)
    if (dtype or kind).is_complex or kind.is_complex:
        raise ComplexError
    target = dtype or kind
    if target is not kind and target.is_int and not isinstance(data, np.ndarray | np.generic):
        _check_fits(array, target)
    values = ops.cast(array, kind, target) if kind is not target else array
    stored = values if values.dtype == target.numpy else ops.encode(values, target)
    return Buffer.from_numpy(stored, target, device).node(array.shape)


def are_sizes(given: tuple[Any, ...]) -> bool:
    """Whether Tensor(*given) names sizes of axes: whole numbers, or nothing."""
    return all(isinstance(n, int | np.integer) and not isinstance(n, bool) for n in given)


def only_sequence(given: tuple[Any, ...]) -> Any:
    """What Tensor(*given) copies: one tensor, array or sequence. DTypeError for anything else."""
    if len(given) == 1 and not isinstance(given[0], bool | float | str | np.generic | None):
        return given[0]
    shown = ", ".join(map(_short, given))
    raise DTypeError(f"Tensor({shown}): it takes the sizes of a tensor, or one sequence of numbers "
                     f"or array; lazyten.tensor({shown}) takes numbers, and a dtype besides")


def to_array(data: Any, floats: DType) -> tuple[Array, DType]:
    """The values as an array of compute type, and their dtype: `floats` for Python's floats, uint64
    for a list of whole numbers beyond int64."""
    if isinstance(data, np.ndarray | np.generic):
        array = np.asarray(data)
        kind = dt.from_numpy(array.dtype)
        return array.astype(kind.compute, copy=False), kind
    if isinstance(data, complex):
        return np.asarray(data), dt.complex_of(dt.default_float)
    if isinstance(data, bool | int | float):
        kind = floats if isinstance(data, float) else dt.of_scalar(data)
        _check_range(data)
        return np.asarray(data, kind.compute), kind
    kinds: set[DType] = set()
    numbers = _numbers(data, floats, kinds, 0)
    array = _rectangle(data, numbers)
    if array.dtype.kind == "c":
        wide = any(kind.component is dt.float64 for kind in kinds)
        return array, dt.complex_of(dt.float64 if wide else dt.default_float)
    if array.dtype.kind not in "biuf":
        raise DTypeError(f"tensor: cannot make a tensor of {type(data).__name__} "
                         f"{_short(data)}; it takes numbers, bools, nested sequences of them, and "
                         f"NumPy arrays")
    kind = reduce(dt.promote, kinds) if kinds else floats
    if kind is dt.int64 and array.dtype.kind in "uf" and abs(array).max(initial=0) >= 1 << 53:
        return _beyond_int64(numbers), dt.uint64
    return array.astype(kind.compute, copy=False), kind


def _rectangle(data: Any, numbers: Any) -> Array:
    """Nested sequences as an array: of the `numbers` that are in them, or where these do not fit
    together, with the axes that tensors of one element have. ShapeError if neither does."""
    for given in (numbers, data):
        try:
            return np.asarray(given)
        except OverflowError:
            raise DTypeError("tensor: a whole number is outside int64; use floats") from None
        except ValueError:
            continue
    raise ShapeError(f"tensor: the nested sequence {_short(data)} is not a rectangle; all rows "
                     f"of an axis need one length")


def _beyond_int64(numbers: Any) -> Array:
    """Whole numbers of which NumPy has made uint64, or floats that do not hold them."""
    try:
        return np.asarray(numbers, np.uint64)
    except (OverflowError, TypeError, ValueError):
        raise DTypeError("tensor: whole numbers that neither int64 nor uint64 holds together; use "
                         "floats") from None


def _numbers(data: Any, floats: DType, kinds: set[DType], depth: int) -> Any:
    """Nested sequences with a number for each tensor of one element in them, as in PyTorch; kinds:
    gets the types of what is there."""
    if depth > MOST_AXES:
        raise ShapeError(f"tensor: the sequences {_short(data)} are nested deeper than {MOST_AXES} "
                         f"levels, or contain themselves; a tensor of numbers has at most "
                         f"{MOST_AXES} axes")
    if isinstance(data, list | tuple):
        types = set(map(type, data))
        if types <= _PLAIN:
            kinds.update(floats if each is float else dt.of_scalar(each()) for each in types)
            return data
        if all(each in _NUMPY for each in types):
            kinds.update(map(dt.from_numpy, types))
            return data
        return [_numbers(item, floats, kinds, depth + 1) for item in data]
    if isinstance(getattr(data, "dtype", None), DType):  # a tensor
        kinds.add(data.dtype)
        return data.item() if data.numel() == 1 else data
    array = np.asarray(data)
    if hasattr(data, "__array__") or hasattr(data, "__array_interface__"):
        if array.dtype.kind in "biuf":
            kinds.add(dt.from_numpy(array.dtype))
    elif array.size and array.dtype.kind in "biuf":
        kinds.add(floats if array.dtype.kind == "f" else dt.from_numpy(array.dtype))
    return data


def _check_range(value: bool | int | float) -> None:
    if isinstance(value, int) and not -(1 << 63) <= value < 1 << 63:
        raise DTypeError(f"tensor: {value} is outside int64; use a float")


def _check_fits(array: Array, target: DType) -> None:
    """ArgumentError if a Python number would change in an integer type, fractions aside; whole
    numbers below 0 wrap in an unsigned one, as in shapes.as_element."""
    whole = np.trunc(array) if array.dtype.kind == "f" else array
    least = -target.max if target.kind == "u" and array.dtype.kind == "i" else target.min
    wrong = ~((whole >= least) & (whole <= target.max))
    if wrong.any():
        raise ArgumentError(f"tensor: {array[wrong].reshape(-1)[0]} does not fit in {target.name}, "
                            f"which is {target.min} to {target.max}; use a wider type")


def _short(data: Any) -> str:
    text = repr(data)
    return text if len(text) <= 40 else text[:37] + "..."
