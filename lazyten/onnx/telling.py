"""What nodes on the host tell of sizes: numbers that decide what a model does at others.

In: a node that computes of sizes, its values and what it gave. Out: whole numbers. If formulas say
all of them at a further size, and each is to every other there as where they were seen (equal,
less, more), the node gives what formulas say; NotRecorded for nodes of which that is not so, as a
table that is read at a size may have anything there.
"""
from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from lazyten.onnx.graph import Node
from lazyten.onnx.scanning import NotRecorded
from lazyten.onnx.values import FEW, MOST_KNOWN, Array, Constant, OfSizes, Value

LEAST_BYTES = 4
"""Of types in which numbers of sizes do not wrap around."""
BY_COMPARISONS = frozenset((
    "Identity", "Concat", "Add", "Sub", "Mul", "Neg", "Abs", "Sign", "Min", "Max", "Sum", "Clip",
    "Equal", "Less", "Greater", "LessOrEqual", "GreaterOrEqual", "And", "Or", "Xor", "Not", "Where"))
"""Of numbers they give sums and products, or choose one as others compare."""
OF_DATA = frozenset((
    "Cast", "Gather", "Slice", "Split", "Reshape", "Squeeze", "Unsqueeze", "Flatten", "Transpose",
    "Expand", "Tile", "Floor", "Ceil", "Round", "ReduceMax", "ReduceMin", "ReduceSum", "ReduceProd",
    "ConstantOfShape"))
"""The same of their first input, if the others are not of sizes."""
EXACT = tuple(sign << bits for bits in (24, 31) for sign in (1, -1))
"""Whole numbers up to these are exact as floats and integers of 32 bits."""


def told_by(node: Node, values: Sequence[Value], found: Sequence[Constant]) -> list[int]:
    """The numbers that a node on constants tells, some of which are of sizes."""
    given = [x for x in values if isinstance(x, Constant)]
    sized = [i for i, x in enumerate(values) if isinstance(x, OfSizes)]
    kind = None if node.domain else node.kind
    told = [n for x in found for n in _numbers(x)] if kind != "Range" else []
    if kind in BY_COMPARISONS or kind in ("Div", "Range") and sized[-1] < len(values) - 1 \
            or kind == "Mod" and sized == [0] and not node.attributes.get("fmod", 0):
        told += [n for x in given for n in _numbers(x)]
    elif kind in OF_DATA and sized == [0]:
        told += _numbers(given[0])
    elif kind not in ("Shape", "Size"):
        raise NotRecorded
    return [*told, *EXACT, *_left(node.kind, [x.array for x in given], found[0].array)]


def _left(kind: str, given: Sequence[Array], found: Array) -> list[int]:
    """What a division gives besides: what is left, or how often the divisor is in it. If both are
    formulas, and what is left is less than the divisor, they are the only ones."""
    are_whole = all(x.dtype.kind in "iu" for x in given)
    if kind == "Range":
        if not are_whole:
            raise NotRecorded
        start, limit, step = [int(x.reshape(())) for x in given]
        return [found.size, limit - start, found.size * step - (limit - start)]
    if kind not in ("Div", "Mod") or not are_whole:
        return []
    a, b = given
    return _numbers(OfSizes(a - found * b if kind == "Div" else (a - found) // b))


def _numbers(constant: Constant) -> list[int]:
    """Whole numbers of a constant, and those on both sides of a fraction. What is true or not
    tells nothing that its operands do not."""
    is_sized, kind = isinstance(constant, OfSizes), constant.dtype.kind
    if math.prod(constant.shape) > (FEW if is_sized else MOST_KNOWN) or kind not in "iufb" \
            or kind != "b" and is_sized and constant.dtype.itemsize < LEAST_BYTES:
        raise NotRecorded
    flat = constant.array.reshape(-1)
    if kind == "b":
        return []
    if is_sized and not (np.isfinite(flat) & (flat == np.floor(flat))).all():
        raise NotRecorded
    return [round_to(x.item()) for x in flat if math.isfinite(x)
            for round_to in ((math.floor,) if is_sized else (math.floor, math.ceil))]
