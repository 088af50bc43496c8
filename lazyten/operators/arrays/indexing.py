"""Indexing: what stands between the brackets, as movement ops.

In: an index as NumPy and PyTorch know it (integers, slices, None, Ellipsis). Out: a chain of
movement ops, so the result is a view. Index arrays are in `index_arrays.py`.
"""
from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

from lazyten.ir import dtype as dt
from lazyten.ir.movement import Moves, Shape, out_shape
from lazyten.ir.node import Node, iota, moved_or_made
from lazyten.ir.number_tape import Number, numbers
from lazyten.ir.ops import Op
from lazyten.operators.math import elementwise as ew
from lazyten.support.errors import IndexingError, SliceError, SlicePartError


class Chain:
    """Movement ops in the making, and the shape they have led to."""

    def __init__(self, shape: Shape) -> None:
        self.shape = shape
        self.moves: list[tuple[Op, Any]] = []

    def move(self, op: Op, arg: Any) -> None:
        """Append one."""
        self.shape = out_shape(op, self.shape, arg)
        self.moves.append((op, arg))

    def on_axis(self, op: Op, axis: int, arg: Any, other: Callable[[int], Any]) -> None:
        """SHRINK or PAD one axis."""
        self.move(op, tuple(arg if a == axis else other(n) for a, n in enumerate(self.shape)))

    def shrink(self, axis: int, start: int, stop: int) -> None:
        """Keep start <= i < stop of an axis."""
        if (start, stop) != (0, self.shape[axis]):
            self.on_axis(Op.SHRINK, axis, (start, stop), lambda n: (0, n))

    def cut(self, axis: int, start: int, stop: int) -> Moves:
        """The moves so far, and start <= i < stop of an axis."""
        self.shrink(axis, start, stop)
        return tuple(self.moves)

    def every(self, axis: int, step: int) -> None:
        """Keep every `step`-th element, the first included."""
        n = self.shape[axis]
        if step == 1 or n <= 1:
            return
        groups = -(-n // step)
        if groups * step != n:
            self.on_axis(Op.PAD, axis, (0, groups * step - n), lambda n: (0, 0))
        before, after = self.shape[:axis], self.shape[axis + 1:]
        self.move(Op.RESHAPE, (*before, groups, step, *after))
        self.shrink(axis + 1, 0, 1)
        self.move(Op.RESHAPE, (*before, groups, *after))


_WHOLE = (int, type(None))


def simple(index: Any, shape: Shape) -> Moves | None:
    """The moves of an index of Python's integers, and slices of neighbours, that are all inside and
    show something; None for any other."""
    given = index if index.__class__ is tuple else (index,)
    spans, kept = [], []
    for entry, n in zip(given, shape, strict=False):
        if entry.__class__ is int:
            start = entry + n if entry < 0 else entry
            stop = start + 1
        elif entry.__class__ is slice and entry.start.__class__ in _WHOLE \
                and entry.stop.__class__ in _WHOLE and entry.step.__class__ in _WHOLE \
                and entry.step in (None, 1):
            start, stop, _ = entry.indices(n)
            kept.append(stop - start)
        else:
            return None
        if start < 0 or start >= stop or stop > n:
            return None
        spans.append((start, stop))
    used = len(spans)
    if used < len(given):
        return None
    rest = shape[used:]
    now = (*[stop - start for start, stop in spans], *rest)
    moves = () if now == shape else ((Op.SHRINK, (*spans, *[(0, n) for n in rest])),)
    shown = (*kept, *rest)
    return moves if shown == now else (*moves, (Op.RESHAPE, shown))


def basic(index: Any, shape: Shape) -> Moves:
    """The moves of an index of integers, slices, None and Ellipsis. IndexingError if it is off."""
    found = simple(index, shape)
    if found is not None:
        return found
    chain = Chain(shape)
    result: list[int] = []
    axis = 0
    for entry in entries(index, shape):
        if entry is None:
            result.append(1)
            continue
        if isinstance(entry, slice):
            _slice(chain, axis, entry, shape)
            result.append(chain.shape[axis])
        else:
            number = position(entry, axis, shape)
            chain.shrink(axis, number, number + 1)
        axis += 1
    if tuple(result) != chain.shape:
        chain.move(Op.RESHAPE, tuple(result))
    return tuple(chain.moves)


def entries(index: Any, shape: Shape) -> list[Any]:
    """One entry an axis, and the Nones between them; Ellipsis and missing ones spelled out."""
    given = list(index) if isinstance(index, tuple) else [index]
    dots = [i for i, e in enumerate(given) if e is Ellipsis]
    if len(dots) > 1:
        raise IndexingError(f"index {index!r} has {len(dots)} ellipses; one can stand for all "
                            f"axes that are left out")
    used = sum(e is not None and e is not Ellipsis for e in given)
    if used > len(shape):
        raise IndexingError(f"index {index!r} has {used} entries, but the tensor of shape {shape} "
                            f"has {len(shape)} axes; leave some out")
    at = dots[0] if dots else len(given)
    missing = [slice(None)] * (len(shape) - used)
    return given[:at] + missing + given[at + len(dots):]


def position(entry: Any, axis: int, shape: Shape) -> int:
    """The position that one integer means, counted from the start. IndexingError if outside."""
    if isinstance(entry, bool) or not hasattr(entry, "__index__"):
        raise IndexingError(f"index {entry!r} on axis {axis}: use integers, slices, None, ... or "
                            f"a tensor of integers or bools")
    number, n = int(entry.__index__()), shape[axis]
    if not -n <= number < n:
        raise IndexingError(f"index {number} is outside axis {axis} of a tensor of shape {shape}: "
                            f"it has size {n}" + (f", so {-n} to {n - 1} are inside" if n else ""))
    return number % n


def places(index: Any, shape: Shape) -> list[Any] | None:
    """An index with positions, as nodes, where it has Numbers, which differ from time to time. None
    where it has none, an array too, or a slice by them beside others, and where it is off."""
    if numbers.node is None or not _has_numbers(index):
        return None
    found: list[Any] = []
    axis = 0
    for entry in entries(index, shape):
        place = _place(entry, shape[axis]) if _is_varying(entry) else None
        if _is_varying(entry) and place is None:
            return None
        found.append(entry if place is None else place)
        axis += entry is not None
    nodes = [x.shape for x in found if isinstance(x, Node)]
    return found if len(nodes) == 1 or () in nodes and not any(nodes) else None


def _place(entry: Any, n: int) -> Node | None:
    """The positions of an integer or a slice, each of which is inside; None if one is not."""
    if not isinstance(entry, slice):
        if not (isinstance(entry, int) and -n <= entry < n):
            return None
        return numbers.node and numbers.node(entry, dt.int64)
    start, stop = 0 if entry.start is None else entry.start, n if entry.stop is None else entry.stop
    if entry.step is not None or not (isinstance(start, int) and isinstance(stop, int)):
        return None
    start, stop = (x + n if x < 0 else x for x in (start, stop))
    if not 0 <= start < stop <= n:
        return None
    first = numbers.node and numbers.node(start, dt.int64)
    return first and ew.add(iota(operator.index(stop - start)), first)


def _has_numbers(index: Any) -> bool:
    return any(map(_is_varying, index if isinstance(index, tuple) else (index,)))


def _is_varying(entry: Any) -> bool:
    return type(entry) is Number or type(entry) is slice and any(
        type(x) is Number for x in (entry.start, entry.stop, entry.step))


def _slice(chain: Chain, axis: int, entry: slice, shape: Shape) -> None:
    for part in (entry.start, entry.stop, entry.step):
        if part is not None and not hasattr(part, "__index__"):
            raise SlicePartError(f"slice {entry} on axis {axis}: its parts are whole numbers or "
                                 f"left out, not {part!r}")
    if entry.step is not None and entry.step.__index__() == 0:
        raise SliceError(f"slice {entry} on axis {axis}: the step is 0; use 1 or more, or a "
                         f"negative one to go backwards")
    start, stop, step = entry.indices(shape[axis])
    count = len(range(start, stop, step))
    if count == 0:
        first = start if step > 0 else 0
        chain.shrink(axis, first, first)
    elif step > 0:
        chain.shrink(axis, start, start + (count - 1) * step + 1)
    else:
        chain.shrink(axis, start + (count - 1) * step, start + 1)
        chain.move(Op.FLIP, (axis,))
    chain.every(axis, abs(step))


def apply(moves: Moves | list[tuple[Op, Any]], x: Node) -> Node:
    """A chain of movement ops on a node."""
    for op, arg in moves:
        x = moved_or_made(op, x.dtype, (x,), arg)
    return x
