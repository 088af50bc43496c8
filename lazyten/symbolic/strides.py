"""Arithmetic of strides and boxes, on plain integers. `view.py` calls it.

A box is a (start, stop) an axis: the points inside all of them.
"""
from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

Box = tuple[tuple[int, int], ...]


class Axis(NamedTuple):
    """One axis of an array in a flat buffer, and what of it is not masked out."""

    size: int
    stride: int
    span: tuple[int, int]


def row_major(shape: Sequence[int]) -> tuple[int, ...]:
    """Strides of a contiguous array."""
    strides = []
    below = 1
    for n in reversed(shape):
        strides.append(below)
        below *= max(n, 1)
    return tuple(reversed(strides))


def coordinates(flat: int, shape: Sequence[int]) -> list[int]:
    """The indices in an array of `shape` of row-major position `flat`, which is inside."""
    result = []
    for below in row_major(shape):
        i, flat = divmod(flat, below)
        result.append(i)
    return result


def coalesced(shape: Sequence[int], strides: Sequence[int], box: Box) -> list[Axis]:
    """The fewest axes with the same elements in the same row-major order; none of size 1.

    An axis joins the next one where walking over the end of that one is a step of its own, and the
    mask of both is an interval of the joined axis.
    """
    axes: list[Axis] = []
    for n, s, span in zip(shape, strides, box, strict=True):
        if n == 1:
            continue
        if axes and axes[-1].stride == n * s and span == (0, n):
            outer = axes.pop()
            n, span = outer.size * n, (outer.span[0] * n, outer.span[1] * n)
        axes.append(Axis(n, s, span))
    return axes


def reach(box: Box, steps: Sequence[int], base: int) -> tuple[int, int]:
    """The least and greatest base + sum(step * i) for i in a box that is not empty."""
    ends = [(step * start, step * (stop - 1))
            for step, (start, stop) in zip(steps, box, strict=True)]
    return base + sum(map(min, ends)), base + sum(map(max, ends))


def narrowed(box: Box, steps: Sequence[int], base: int, span: tuple[int, int]) -> Box | None:
    """The points i of `box` with start <= base + sum(step * i) < stop; None if they are no box.

    Each axis gives up the points that fail whatever the other axes do. If then all that are left
    pass, they are the answer. (Two passes: the second sees what the other axes gave up. A further
    one would hardly find more, and can be many.)
    """
    start, stop = span
    for _ in range(2):
        for axis, step in enumerate(steps):
            if step == 0 or any(a >= b for a, b in box):
                continue
            others = [*steps[:axis], 0, *steps[axis + 1:]]
            low, high = reach(box, others, base)
            least, most = start - high, stop - 1 - low  # least <= step * i <= most
            if step < 0:
                least, most = -most, -least
            first, last = -(-least // abs(step)), most // abs(step)
            a, b = box[axis]
            box = (*box[:axis], (max(a, first), min(b, last + 1)), *box[axis + 1:])
    if any(a >= b for a, b in box):
        return box
    low, high = reach(box, steps, base)
    return box if start <= low and high < stop else None
