"""Index moves: which element below a movement op each of its elements comes from, as expressions.

In: a movement op and an index expression an axis of its result. Out: an index expression an axis of
its source, simplified, and where a PAD may read outside it, the condition that it does not.
`codegen/loops/lower.py` walks graphs with `source_indices`; `view.py` builds indices from the same
parts.
"""
from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from lazyten.ir import dtype as dt
from lazyten.ir.movement import Shape
from lazyten.ir.node import Node, const, elementwise, index
from lazyten.ir.ops import Op
from lazyten.symbolic.bounds import bounds
from lazyten.symbolic.simplify import simplify, simplify_all

Indices = Sequence[Node]
Group = tuple[list[int], list[int]]


def source_indices(op: Op, in_shape: Shape, arg: Any,
                   indices: Indices) -> tuple[tuple[Node, ...], Node | None]:
    """(an index an axis of `in_shape`, validity) of the element of a movement at `indices`.

    The result of `op` with `arg` on an array of `in_shape` is at `indices` what its source is at
    the indices given back. Validity is None where that always holds; else where it is false, the
    result is 0 and the indices may be outside the source. What is new is simplified; an index that
    is passed on is the same node. In an array without elements every index is 0.
    """
    if op is Op.PAD:
        return _pad(in_shape, arg, indices)
    if 0 in in_shape:
        return (index(0),) * len(in_shape), None
    return _simplified(_MOVES[op](in_shape, arg, indices), indices), None


# ---- a function a movement: in_shape, arg, indices -> indices of the source, not simplified ------

def _reshape(in_shape: Shape, shape: Shape, indices: Indices) -> list[Node]:
    below = [index(0)] * len(in_shape)
    for old, new in axis_groups(in_shape, shape):
        if len(old) == len(new) == 1:
            below[old[0]] = indices[new[0]]
            continue
        flat = flatten([shape[a] for a in new], [indices[a] for a in new])
        for axis, i in zip(old, unflatten(flat, [in_shape[a] for a in old]), strict=True):
            below[axis] = i
    return below


def _permute(in_shape: Shape, order: Sequence[int], indices: Indices) -> list[Node]:
    below = [index(0)] * len(order)
    for i, axis in zip(indices, order, strict=True):
        below[axis] = i
    return below


def _expand(in_shape: Shape, shape: Shape, indices: Indices) -> list[Node]:
    return [index(0) if n == 1 else i for n, i in zip(in_shape, indices, strict=True)]


def _shrink(in_shape: Shape, ranges: Sequence[tuple[int, int]], indices: Indices) -> list[Node]:
    return [_plus(i, start) for i, (start, _) in zip(indices, ranges, strict=True)]


def _flip(in_shape: Shape, axes: Sequence[int], indices: Indices) -> list[Node]:
    return [elementwise(Op.SUB, index(n - 1), i) if axis in axes else i
            for axis, (n, i) in enumerate(zip(in_shape, indices, strict=True))]


def _shear(in_shape: Shape, arg: tuple[int, int, int, int, int], indices: Indices) -> list[Node]:
    axis, by, factor, offset, _ = arg
    below = list(indices)
    below[axis] = _plus(elementwise(Op.ADD, below[axis], _times(below[by], factor)), offset)
    return below


_MOVES: dict[Op, Callable[[Shape, Any, Indices], list[Node]]] = {
    Op.RESHAPE: _reshape, Op.PERMUTE: _permute, Op.EXPAND: _expand, Op.SHRINK: _shrink,
    Op.FLIP: _flip, Op.SHEAR: _shear,
}


def _pad(in_shape: Shape, widths: Sequence[tuple[int, int]],
         indices: Indices) -> tuple[tuple[Node, ...], Node | None]:
    if 0 in in_shape:
        return (index(0),) * len(in_shape), const(False, dt.bool_)
    conditions = [condition for n, (before, _), i in zip(in_shape, widths, indices, strict=True)
                  for condition in inside(i, before, before + n)]
    below = [_plus(i, -before) for i, (before, _) in zip(indices, widths, strict=True)]
    return _simplified(below, indices), every(conditions)


def _simplified(below: Indices, given: Indices) -> tuple[Node, ...]:
    """`below` with the new expressions in it simplified; most axes just pass a given one on."""
    new = [i for i in below if i.op is not Op.CONST and i not in given]
    simple = dict(zip(new, simplify_all(new), strict=True)) if new else {}
    return tuple(simple.get(i, i) for i in below)


# ---- parts ---------------------------------------------------------------------------------------

def axis_groups(old: Shape, new: Shape) -> list[Group]:
    """The fewest axes of `old` and `new` that a reshape mixes: ([axes of old], [axes of new]), ...

    Both sides of a group have equally many elements, and no group can be split further. Axes of
    size 1 are in no group. Neither shape may have a 0.

        (2, 3, 1, 20) -> (6, 4, 5): [([0, 1], [0]), ([3], [1, 2])]
    """
    left = [a for a, n in enumerate(old) if n != 1]
    right = [a for a, n in enumerate(new) if n != 1]
    groups: list[Group] = []
    i = j = 0
    while i < len(left):
        first_i, first_j = i, j
        have, want = old[left[i]], new[right[j]]
        i, j = i + 1, j + 1
        while have != want:
            if have < want:
                have, i = have * old[left[i]], i + 1
            else:
                want, j = want * new[right[j]], j + 1
        groups.append((left[first_i:i], right[first_j:j]))
    return groups


def flatten(shape: Sequence[int], indices: Indices) -> Node:
    """The row-major position of `indices` in an array of `shape`."""
    flat = index(0)
    for n, i in zip(shape, indices, strict=True):
        flat = elementwise(Op.ADD, _times(flat, n), i)
    return flat


def unflatten(flat: Node, shape: Sequence[int]) -> list[Node]:
    """The indices in an array of `shape` (without a 0) of row-major position `flat`.

    The first axis longer than 1 takes no MOD: `flat` must be inside.
    """
    indices = []
    below, above = math.prod(shape), 1
    for n in shape:
        below //= n
        i = elementwise(Op.IDIV, flat, index(below)) if below > 1 else flat
        indices.append(index(0) if n == 1
                       else i if above == 1 else elementwise(Op.MOD, i, index(n)))
        above *= n
    return indices


def inside(i: Node, start: int, stop: int) -> list[Node]:
    """The comparisons that say start <= i < stop; those that hold for every value are left out."""
    interval = bounds(i)
    assert interval is not None
    conditions = []
    if interval[0] < start:
        conditions.append(elementwise(Op.CMPLT, index(start - 1), i))
    if interval[1] >= stop:
        conditions.append(elementwise(Op.CMPLT, i, index(stop)))
    return conditions


def every(conditions: Sequence[Node]) -> Node | None:
    """The AND of conditions, simplified; None where it always holds."""
    if not conditions:
        return None
    both = conditions[0]
    for condition in conditions[1:]:
        both = elementwise(Op.AND, both, condition)
    both = simplify(both)
    return None if both.op is Op.CONST and both.value else both


def both(a: Node | None, b: Node | None) -> Node | None:
    """Where two validities hold, simplified; None is everywhere, the constant False nowhere."""
    if a is None or b is None or a is b:
        return a if b is None else b
    return simplify(elementwise(Op.AND, a, b))


def _plus(i: Node, constant: int) -> Node:
    return elementwise(Op.ADD, i, index(constant)) if constant else i


def _times(i: Node, factor: int) -> Node:
    return i if factor == 1 else elementwise(Op.MUL, i, index(factor))
