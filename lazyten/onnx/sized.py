"""A program whose inputs' sizes vary, as a function that records all of its nodes at any size.

What follows from sizes is computed on the host, where nodes need it there: a shape, a number of
steps. All else is recorded, also what follows from sizes alone, as a range of positions or a mask
does: an array made beforehand would be another at each size.
"""
from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence

import numpy as np

import lazyten as lt
from lazyten.onnx.evaluation import fold
from lazyten.onnx.graph import Node
from lazyten.onnx.table import Operator
from lazyten.onnx.values import FOLDING, Array, Constant, Value
from lazyten.storage import tracing

FEW = 8
"""Elements of an array that follows from sizes which are recorded each."""
MOST_KNOWN = 64
"""Whole numbers of a model's constants that sizes may be compared with, of a constant at most."""


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


def on_host(nodes: Sequence[Node], known: Iterable[str] = ()) -> set[str]:
    """Names of values that some node needs on the host, or that these, or known ones, follow from.
    """
    wanted = {*known}
    for node in reversed(nodes):
        row = node.meaning
        if not isinstance(row, Operator) or row.shapes and not row.host:
            continue
        whole = any(name in wanted for name in node.outputs if name)
        wanted.update(name for i, name in enumerate(node.inputs)
                      if name and (whole or row.is_host(i)))
    return wanted


def folded(node: Node, values: Sequence[Value], wanted: Iterable[str]) -> list[Constant] | None:
    """A node on constants alone: what it gives, if that is to be on the host; else None."""
    row = node.meaning
    assert isinstance(row, Operator)
    varies = any(isinstance(x, OfSizes) for x in values)
    if varies and not row.shapes and not any(name in wanted for name in node.outputs):
        return None
    with tracing.listening(None):  # a number, not something that a traced call makes
        found = fold(node, values)
    if found is None or not varies:
        return found
    return list(map(of_sizes, found))


def numbers_of_sizes(values: Iterable[Value]) -> list[int]:
    """Whole numbers of what follows from sizes and is on the host; of arrays of few."""
    return [int(n) for x in values if isinstance(x, OfSizes) and x.dtype.kind in "iu"
            and math.prod(x.shape) <= FEW for n in x.array.reshape(-1)]


def numbers_in(constants: Mapping[str, Constant], nodes: Sequence[Node]) -> list[int]:
    """Whole numbers that a model has in small constants, attributes and shapes."""
    found: set[int] = set()
    for constant in constants.values():
        found.update(constant.shape)
        if constant.dtype.kind in "iu" and np.prod(constant.shape) <= MOST_KNOWN:
            found.update(map(int, constant.array.reshape(-1)))
    for node in nodes:
        for value in node.attributes.values():
            found.update(x for x in (value if isinstance(value, list | tuple) else [value])
                         if type(x) is int)
    return sorted(x for x in found if abs(x) < 1 << 40)
