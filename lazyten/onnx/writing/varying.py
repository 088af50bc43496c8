"""Numbers of a graph that differ from size to size, as the values that they had at each.

In: arithmetic of rules that write nodes. Out: the same for all sizes at once. What is the same at
all sizes is a plain number.
"""
from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Varying:
    """A whole number at each of the sizes that a graph was recorded at."""

    seen: tuple[int, ...]

    def __add__(self, other: Size) -> Size:
        return _each(operator.add, self, other)

    def __sub__(self, other: Size) -> Size:
        return _each(operator.sub, self, other)

    def __rsub__(self, other: int) -> Size:
        return _each(operator.sub, other, self)

    def __mul__(self, other: Size) -> Size:
        return _each(operator.mul, self, other)

    __radd__, __rmul__ = __add__, __mul__


@dataclass(frozen=True)
class VaryingFloat:
    """A float at each of the sizes."""

    seen: tuple[float, ...]


Size = int | Varying
Number = bool | int | float | Varying | VaryingFloat


def size_of(seen: Sequence[int]) -> Size:
    """A number that was so at each size."""
    return seen[0] if len(set(seen)) == 1 else Varying(tuple(seen))


def at_least(least: int, number: Size) -> Size:
    """The number, or `least` where it is smaller."""
    return _each(max, number, least)


def _each(function: Callable[[int, int], Any], *numbers: Size) -> Size:
    count = next(len(n.seen) for n in numbers if isinstance(n, Varying)) \
        if any(isinstance(n, Varying) for n in numbers) else 1
    columns = [n.seen if isinstance(n, Varying) else (n,) * count for n in numbers]
    return size_of([function(*row) for row in zip(*columns, strict=True)])
