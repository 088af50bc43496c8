"""Checks of what users give as axes, shapes and sizes, with messages for users.

Every function names the operation it is called for, and raises before anything has changed.
"""
from __future__ import annotations

import math
import operator
from collections.abc import Iterable, Sequence
from typing import Any, SupportsIndex

import numpy as np

from lazyten.ir.dtype import DType, Scalar
from lazyten.ir.movement import Shape
from lazyten.support.errors import (
    ArgumentError,
    ComplexError,
    DTypeError,
    IndexingError,
    ShapeError,
)

Axes = int | Sequence[int] | None
"""One axis or several; None for all."""
Sizes = int | Sequence[int]
"""One size for each axis that is meant, or one for all of them."""
LARGEST = 1 << 62
"""No tensor has more elements: positions are int64."""


def as_int(value: SupportsIndex, operation: str, what: str) -> int:
    """A whole number that the user gave. Raises DTypeError for anything else, floats included."""
    try:
        return operator.index(value)
    except TypeError:
        raise DTypeError(f"{operation}: {what} is a whole number, not {value!r:.60}") from None


def as_number(value: object, operation: str, what: str) -> Scalar:
    """A number that the user gave, also NumPy's or a zero-dim tensor's.

    DTypeError for anything else, and for whole numbers of more than 64 bits.
    """
    if getattr(value, "shape", None) == () and hasattr(value, "item"):
        value = value.item()
    if not isinstance(value, bool | int | float):
        if isinstance(value, complex):
            raise ComplexError
        raise DTypeError(f"{operation}: {what} is a number, not {value!r:.60}")
    if isinstance(value, int) and not -(1 << 63) <= value < 1 << 64:
        raise DTypeError(f"{operation}: {what} {value} has more than 64 bits; use a float")
    return value


def as_float(value: object, operation: str, what: str) -> float:
    """The same as a float."""
    return as_number(value, operation, what) * 1.0  # (of a number that varies it is not looked at)


def as_element(value: object, dtype: DType, operation: str, wraps: bool = True) -> Scalar:
    """A number that becomes an element of type `dtype`. ArgumentError for one that does not fit;
    but with `wraps` -n is taken for 2**bits - n in an unsigned type that holds n."""
    number = as_number(value, operation, "the value")
    if wraps and isinstance(number, int) and dtype.kind == "u" and -dtype.max <= number < 0:
        return number + (1 << dtype.bits)
    if dtype.is_int and not (dtype.min <= number <= dtype.max if isinstance(number, int) else
                             math.isfinite(number) and dtype.min <= int(number) <= dtype.max):
        raise ArgumentError(f"{operation}: {number} does not fit in {dtype.name}, which is "
                            f"{dtype.min} to {dtype.max}; use a wider type")
    return number


def countable(shape: Shape, operation: str) -> Shape:
    """The shape itself. ShapeError for more elements than any tensor can have."""
    if math.prod(shape) > LARGEST:
        raise ShapeError(f"{operation}: shape {shape} has {math.prod(shape):,} elements, more than "
                         f"any memory holds; use smaller sizes")
    return shape


def allocatable(count: int, operation: str) -> None:
    """ArgumentError if the host has no memory for so many numbers, which it makes at once."""
    try:
        np.empty(count, np.float64)
    except (MemoryError, ValueError, OverflowError):
        raise ArgumentError(f"{operation}: the result would have {count:,} elements, more than "
                            f"this machine has memory for") from None


def axis(value: SupportsIndex, rank: int, operation: str) -> int:
    """An axis counted from 0; negative ones count from the end. IndexingError if it is outside."""
    number = value if type(value) is int else as_int(value, operation, "an axis")
    least = rank or 1
    if not -least <= number < least:
        if rank == 0:
            raise IndexingError(f"{operation}: axis {number} of a zero-dim tensor, which has none "
                                f"(0 and -1 are accepted)")
        raise IndexingError(f"{operation}: axis {number} is outside a tensor of {rank} axes; use "
                            f"{-rank} to {rank - 1}")
    return number % least


def sized_axis(value: SupportsIndex, shape: Sequence[int], operation: str) -> tuple[int, int]:
    """An axis counted from 0, and its size. IndexingError if it is outside, or there is none."""
    if not shape:
        raise IndexingError(f"{operation} of a zero-dim tensor, which has no axis; give it one "
                            f"with unsqueeze(0)")
    found = axis(value, len(shape), operation)
    return found, shape[found]


def axes(value: Axes, rank: int, operation: str) -> tuple[int, ...]:
    """Sorted axes; all of them for None or (). IndexingError if one is outside or given twice."""
    if value is None:
        return tuple(range(rank))
    if type(value) is int and rank:
        return (axis(value, rank, operation),)
    given = _values(value, operation, "axes")
    found = [axis(a, rank, operation) for a in given]
    if len(set(found)) != len(found):
        raise IndexingError(f"{operation}: axes {tuple(given)} name an axis twice in a tensor of "
                            f"{rank} axes; name each once")
    if rank == 0 or not found:
        return tuple(range(rank))
    return tuple(sorted(found))


def sizes(given: Sequence[Any], operation: str) -> Shape:
    """A shape given as separate sizes or as one sequence: (2, 3) and ((2, 3),) are the same."""
    values = given[0] if len(given) == 1 and _is_sequence(given[0]) else given
    if not isinstance(values, Iterable):
        raise DTypeError(f"{operation}: sizes are whole numbers or a sequence of them, not "
                         f"{values!r:.60}")
    return tuple(as_int(n, operation, "a size") for n in listed(values, operation, "sizes"))


def _is_sequence(value: Any) -> bool:
    """Whether there are numbers in something, and it is no number itself, as a zero-dim tensor or
    array is."""
    return isinstance(value, Iterable) and getattr(value, "shape", None) != ()


def _values(value: Any, operation: str, what: str) -> list[Any]:
    """What is in a sequence, or one number alone."""
    return listed(value, operation, what) if _is_sequence(value) else [value]


def listed(value: Iterable[Any], operation: str, what: str) -> list[Any]:
    """What is in something iterable, which may turn out to be none. DTypeError then."""
    try:
        return list(value)
    except Exception:  # also of what only looks as if
        raise DTypeError(f"{operation}: {what} are whole numbers or a sequence of them, not "
                         f"{value!r:.60}") from None


def new_shape(given: Sequence[Any], operation: str) -> Shape:
    """The shape of a new tensor. ShapeError for a negative size, or far too many elements."""
    shape = sizes(given, operation)
    for number, n in enumerate(shape):
        if n < 0:
            raise ShapeError(f"{operation} {shape}: axis {number} has the negative size {n}; sizes "
                             f"are 0 or more")
    return countable(shape, operation)


def broadcast(shapes: Sequence[Shape], operation: str) -> Shape:
    """The common shape: axes are matched from the last, a size of 1 or a missing axis repeats."""
    if shapes and shapes.count(shapes[0]) == len(shapes):
        return shapes[0]
    rank = max((len(s) for s in shapes), default=0)
    result = [1] * rank
    for shape in shapes:
        for place, n in enumerate(shape, rank - len(shape)):
            if n != 1 and result[place] not in (1, n):
                raise ShapeError(
                    f"{operation}: shapes {' and '.join(map(str, shapes))} do not broadcast: axis "
                    f"{place - rank} has sizes {result[place]} and {n}; sizes must be equal, or "
                    f"one of them 1 (reshape or unsqueeze to line axes up)")
            result[place] = n if n != 1 else result[place]
    return countable(tuple(result), operation)


def reshaped(shape: Shape, wanted: Sequence[Any], operation: str = "reshape") -> Shape:
    """`wanted` with its -1, if it has one, worked out. ShapeError if the elements do not fit."""
    new = sizes(wanted, operation)
    unknown = [i for i, n in enumerate(new) if n == -1]
    if len(unknown) > 1 or any(n < -1 for n in new):
        raise ShapeError(f"{operation} {shape} -> {new}: one axis may be -1 (worked out), and no "
                         f"size may be below that")
    count = math.prod(shape)
    if unknown:
        rest = math.prod(n for n in new if n != -1)
        if rest == 0 or count % rest:
            raise ShapeError(f"{operation} {shape} -> {new}: {count} elements cannot be divided "
                             f"into groups of {rest} to work out axis {unknown[0]}")
        new = tuple(count // rest if n == -1 else n for n in new)
    if math.prod(new) != count:
        raise ShapeError(f"{operation} {shape} -> {new}: {count} elements do not fill a shape of "
                         f"{math.prod(new)}; keep the product of the sizes, or give one as -1")
    return new


def expanded(shape: Shape, wanted: Sequence[Any]) -> Shape:
    """The shape after expand: -1 keeps a size, new axes come in front, only size 1 can grow."""
    new = sizes(wanted, "expand")
    extra = len(new) - len(shape)
    if extra < 0:
        raise ShapeError(f"expand {shape} -> {new}: the new shape has fewer axes; give all "
                         f"{len(shape)}, with -1 for those that stay")
    result = []
    for place, n in enumerate(new):
        have = shape[place - extra] if place >= extra else 1
        if n == -1 and place >= extra:
            n = have
        if n < 0:
            raise ShapeError(f"expand {shape} -> {new}: axis {place} is new and has no size to "
                             f"keep; give its size")
        if have not in (1, n):
            raise ShapeError(f"expand {shape} -> {new}: axis {place} has size {have}, and only "
                             f"size 1 can grow to {n}; use repeat() to copy data, or reshape so "
                             f"that axis {place} is 1")
        result.append(n)
    return countable(tuple(result), "expand")


def pair(value: int | Sequence[int], count: int, operation: str, what: str,
         least: int = 1) -> tuple[int, ...]:
    """One whole number for all `count` spatial axes, also alone in a sequence, or one each.
    ArgumentError below `least`."""
    given = _values(value, operation, what)
    given = given * count if len(given) == 1 else given
    numbers = tuple(as_int(v, operation, what) for v in given)
    if len(numbers) != count:
        raise ArgumentError(f"{operation}: {what} {value} needs one number, or {count}, one for "
                            f"each spatial axis")
    if any(v < least for v in numbers):
        raise ArgumentError(f"{operation}: {what} {value} is below {least}; give {least} or more")
    if any(v > LARGEST >> 20 for v in numbers):  # products of some of them are positions, too
        raise ArgumentError(f"{operation}: {what} {value} is far more than there are elements; "
                            f"give {LARGEST >> 20} or less")
    return numbers
