"""Which sizes of a model's inputs vary, as its user says it, and the sizes to look at.

In: the option `dynamic` of `export`. Out: the Dims, and which axes have them; and sizes in their
ranges: those by which expressions are found, and those at which functions tend to differ.
"""
from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from lazyten.capture.dims import Dim, VaryingSizes, like
from lazyten.frontend.tensor import Tensor
from lazyten.ir.node import Shape
from lazyten.support.errors import ArgumentError

Sizes = tuple[int, ...]
RUN = 18
"""So many sizes in a row: all that a floor by MOST_DIVISOR can leave are among them."""
FAR = (31, 64, 100, 257, 1021, 4099)
MOST = 1 << 20
"""Larger sizes are not looked at."""
MOST_DIMS = 4
FEW = 64
"""If there are no more sizes than this, all are looked at."""


class Axes:
    """The axes of a model's inputs that vary. given: the tensors of an example."""

    def __init__(self, function: Callable[..., Any], given: Sequence[Tensor],
                 names: Sequence[str], dynamic: Mapping[Any, Any]) -> None:
        called = getattr(function, "__qualname__", type(function).__name__)
        self._sizes = VaryingSizes(function, _with_dims(dynamic, names), called, "onnx.export",
                                   "onnx.export of")
        self._given = given
        found = self._sizes.sizes(given, {})
        self.dims = [dim for name, dim in self._sizes.dims.items() if name in found]
        if len(self.dims) < len(self._sizes.dims) or len(self.dims) > MOST_DIMS:
            raise ArgumentError(f"onnx.export(dynamic={dynamic!r:.80}) of {called}: give axes of "
                                f"inputs, and up to {MOST_DIMS} Dims")
        self.example: Sizes = tuple(found[dim.name].size for dim in self.dims)

    @property
    def names(self) -> list[str]:
        """Of the Dims."""
        return [dim.name for dim in self.dims]

    def words(self, sizes: Sizes) -> str:
        """Which sizes these are."""
        return ", ".join(f"{name} is {n}" for name, n in zip(self.names, sizes, strict=True))

    def shapes(self, sizes: Sizes) -> list[Shape]:
        """Those of all inputs at some sizes."""
        made, _ = self._sizes.resized(self._given, {}, dict(zip(self.names, sizes, strict=True)),
                                      like)
        return [tuple(x.shape) for x in made]

    def places(self) -> list[list[int | None]]:
        """For each axis of each input the number of its Dim, or None."""
        one, other = self.shapes((2,) * len(self.dims)), [
            self.shapes(tuple(3 if i == n else 2 for i in range(len(self.dims))))
            for n in range(len(self.dims))]
        return [[next((d for d, shapes in enumerate(other) if shapes[number][axis] != size), None)
                 for axis, size in enumerate(shape)] for number, shape in enumerate(one)]


def _with_dims(dynamic: Any, names: Sequence[str]) -> Any:
    """Names of inputs as their positions, and words as Dims of that name."""
    if not isinstance(dynamic, Mapping):
        return dynamic
    dims = {dim.name: dim for axes in dynamic.values() if isinstance(axes, Mapping)
            for dim in axes.values() if isinstance(dim, Dim)}
    found = {}
    for key, axes in dynamic.items():
        if isinstance(axes, list | tuple):
            axes = {axis: f"{key}_{axis}" for axis in axes}
        if isinstance(axes, Mapping):
            axes = {axis: dims.get(dim) or Dim(dim) if isinstance(dim, str) else dim
                    for axis, dim in axes.items()}
        found[names.index(key) if key in names else key] = axes
    return found


class Looks(NamedTuple):
    """Sizes to look at. ordinary: those by which expressions are found; special: with sizes of 1,
    or ends of several ranges at once. points: where expressions must be whole. whole: whether there
    are no others."""

    ordinary: list[Sizes]
    special: list[Sizes]
    points: list[Sizes]
    whole: bool


def looks(dims: Sequence[Dim], example: Sizes, numbers: Collection[int]) -> Looks:
    """Sizes in the ranges of Dims. numbers: that a size might be compared with."""
    lows = [min(max(dim.min, 2), dim.max) for dim in dims]
    some = [_of_one(dim, low, size, numbers) for dim, low, size in
            zip(dims, lows, example, strict=True)]
    whole = math.prod(dim.max - low + 1 for dim, low in zip(dims, lows, strict=True)) <= FEW
    ordinary = list(itertools.product(*some)) if whole else list(dict.fromkeys(_mixed(some)))
    points = list(_mixed([range(low, min(dim.max, low + FEW - 1) + 1)
                          for dim, low in zip(dims, lows, strict=True)]))
    ones = [(1, *values[:max(3 - len(dims), 0)], values[len(values) // 3]) if dim.min == 1 < dim.max
            else (values[0],) for dim, values in zip(dims, some, strict=True)]
    special = [sizes for sizes in itertools.product(*ones) if 1 in sizes]
    special += [sizes for sizes in dict.fromkeys(_corners(some)) if sizes not in ordinary]
    return Looks(ordinary, special, points, whole)


def _of_one(dim: Dim, low: int, example: int, numbers: Collection[int]) -> list[int]:
    near = {n + d for n in numbers for d in (-1, 0, 1)}
    found = {*range(low, low + RUN), *FAR, *near, dim.max, example}
    return sorted(n for n in found if low <= n <= min(dim.max, max(MOST, low + RUN)))


def _corners(some: Sequence[Sequence[int]]) -> Iterator[Sizes]:
    """Of several Dims the least sizes with each other, and with the greatest."""
    if len(some) > 1:
        yield from itertools.product(*(values[:3 if len(some) < 4 else 2] for values in some))
        yield from itertools.product(*((values[0], values[-1]) for values in some))


def _mixed(some: Sequence[Sequence[int]]) -> Iterator[Sizes]:
    """Each value of each Dim, with values of the others that differ from turn to turn."""
    count = max(map(len, some)) + (0 if len(some) == 1 else 8 * len(some))
    steps = [next(n for n in (1 + 6 * i, 5 + 6 * i, 7 + 6 * i, 1) if math.gcd(n, len(values)) == 1)
             for i, values in enumerate(some)]
    for turn in range(count):
        yield tuple(values[(turn * step + 3 * i) % len(values)]
                    for i, (values, step) in enumerate(zip(some, steps, strict=True)))
