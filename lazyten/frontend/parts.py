"""What one rank has of a tensor: boxes of its elements, and tensors that say which.

A part of a tensor is a box (an interval of each axis), or several: a row of a tensor's elements,
one after the other, is cut into boxes, at most two for each axis and one more. So whoever saves and
loads parts knows of boxes alone.
"""
from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from lazyten.frontend.tensor import Tensor
from lazyten.ir.node import Shape


@dataclass(frozen=True, slots=True)
class Box:
    """The elements from offsets[axis] on, sizes[axis] of them, of each axis."""

    offsets: Shape
    sizes: Shape

    @property
    def count(self) -> int:
        """How many elements there are."""
        return math.prod(self.sizes)

    def shared(self, other: Box) -> Box | None:
        """The elements that are in both; None if there are none."""
        starts = tuple(map(max, self.offsets, other.offsets))
        ends = tuple(min(a + n, b + m) for a, n, b, m in zip(
            self.offsets, self.sizes, other.offsets, other.sizes, strict=True))
        sizes = tuple(end - start for start, end in zip(starts, ends, strict=True))
        return Box(starts, sizes) if all(n > 0 for n in sizes) else None

    def slices(self, of: Box) -> tuple[slice, ...]:
        """Where these elements are in an array of another box's."""
        return tuple(slice(a - b, a - b + n) for a, n, b in zip(
            self.offsets, self.sizes, of.offsets, strict=True))


@dataclass(frozen=True, slots=True)
class Piece:
    """A box of a tensor. start: where its elements begin in what this rank has, which is flat."""

    start: int
    box: Box


@dataclass(frozen=True, slots=True)
class Placement:
    """Of which tensor a rank has a part, and which part: no elements, or those of the pieces. What
    it has besides them is nobody's."""

    whole_shape: Shape
    pieces: tuple[Piece, ...]


def whole(shape: Shape) -> Placement:
    """All of a tensor."""
    return sliced(shape, Box((0,) * len(shape), shape))


def sliced(shape: Shape, box: Box) -> Placement:
    """A box of a tensor."""
    return Placement(shape, (Piece(0, box),) if box.count else ())


def row(shape: Shape, rank: int, size: int) -> Placement:
    """One of `size` rows of a tensor's elements, all of one length; the last may have more room
    than elements."""
    count = math.prod(shape)
    length = -(-count // size)
    pieces, start = [], 0
    for box in _boxes(shape, min(rank * length, count), min((rank + 1) * length, count)):
        pieces.append(Piece(start, box))
        start += box.count
    return Placement(shape, tuple(pieces))


def _boxes(shape: Shape, start: int, stop: int) -> Iterator[Box]:
    """The elements from `start` to `stop` of an array's, in order, as boxes."""
    if start >= stop:
        return
    if not shape:
        yield Box((), ())
        return
    inner = math.prod(shape[1:])
    (first, before), (last, after) = divmod(start, inner), divmod(stop, inner)
    if first == last or before:
        end = after if first == last else inner
        yield from (_in_row(first, box) for box in _boxes(shape[1:], before, end))
        first += 1
    if first < last:
        yield Box((first, *(0 for _ in shape[1:])), (last - first, *shape[1:]))
    if first <= last and after:
        yield from (_in_row(last, box) for box in _boxes(shape[1:], 0, after))


def _in_row(number: int, box: Box) -> Box:
    return Box((number, *box.offsets), (1, *box.sizes))


class Part(Tensor):
    """A tensor that shares the memory of another, and is a part of one that ranks share out.
    placement: which part."""

    __slots__ = ("placement",)

    def __init__(self, held: Tensor, placement: Placement) -> None:
        value = held.detach()
        self._hold(value._storage, value._moves)
        self.placement = placement

    def __deepcopy__(self, memo: dict[int, Any]) -> Part:
        result = Part(super().__deepcopy__(memo), self.placement)
        memo[id(self)] = result
        return result


def part_like(value: Tensor, parameter: object) -> Tensor:
    """A tensor of a parameter's shape, which is a part as the parameter is, if it is; any other as
    it is."""
    placement = getattr(parameter, "placement", None)
    if not isinstance(placement, Placement) or value.shape != getattr(parameter, "shape", None):
        return value
    return Part(value, placement)


def placement_of(value: Tensor) -> Placement:
    """Which part of which tensor this is: all of it, unless it says otherwise."""
    found = getattr(value, "placement", None)
    return found if isinstance(found, Placement) else whole(tuple(value.shape))
