"""Whether a model that was written gives what its function gives, at sizes that are special.

In: a model, and the graph that the function was recorded as at some sizes. Out: an error if numbers
differ. Both are run by the interpreter.
"""
from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from onnx import ModelProto

import lazyten as lt
from lazyten.ir.node import Node, Shape, substitute, toposort
from lazyten.ir.ops import Op
from lazyten.onnx import operators as _operators  # noqa: F401
from lazyten.onnx.model import load
from lazyten.onnx.operators import special as _special  # noqa: F401
from lazyten.onnx.values import Array
from lazyten.storage.placeholder import Placeholder
from lazyten.storage.storage import Buffer, Storage
from lazyten.support.errors import ArgumentError, LazytenError

NEAR = 1e-3
NEAR_HALF = 1e-1
"""How far numbers may be off beside the greatest of a tensor, in 32 and in 16 bits."""
MOST_ELEMENTS = 1 << 24
"""Of a value: more take too long."""
INTEGERS = ("the example's", "0", "rising", "up to the sizes")
"""What integers of inputs are: positions, lengths and starts of parts are all of one of these."""
DEVICE = "interpreter"
"""Which compiles nothing."""


class Comparison:
    """Compares a model with graphs. inputs: of which types are the model's; integers are theirs, at
    random places, and others, as far as the function takes them."""

    def __init__(self, model: ModelProto, inputs: Sequence[lt.Tensor]) -> None:
        self._model, self._inputs = load(model, DEVICE), inputs
        self._random = np.random.default_rng(0)

    def check(self, graphs: Sequence[tuple[Sequence[Node], Sequence[Shape]]],
              difference: str) -> None:
        """ArgumentError, with what it is that differs, unless the model gives what each of these
        graphs does for inputs of its shapes. Of those that differ alike some may be too large to
        be run, but not all."""
        small = [(graph, shapes) for graph, shapes in graphs
                 if all(n.numel <= MOST_ELEMENTS for n in toposort(graph))]
        for graph, shapes in small:
            alike = [self._is_alike(graph, shapes, kind) for kind in INTEGERS]
            if False in alike or True not in alike:
                raise ArgumentError(f"onnx.export(dynamic=...): {difference}")
        if not small:
            raise ArgumentError(f"onnx.export(dynamic=...): {difference} (there it is too much to "
                                f"run, so nobody knows whether it gives the same)")

    def _is_alike(self, graph: Sequence[Node], shapes: Sequence[Shape], kind: str) -> bool | None:
        """Whether the model gives what a graph does for integers of a kind; None where the graph
        does not take them."""
        most = max((n for shape in shapes for n in shape), default=1)
        given = [lt.tensor(_like(x, shape, self._random, kind, most), dtype=x.dtype, device=DEVICE)
                 for x, shape in zip(self._inputs, shapes, strict=True)]
        try:
            wanted = [lt.Tensor._view(Storage(node, DEVICE), (), None).realize()
                      for node in substitute(graph, _memory(graph, given))]
        except LazytenError:
            return None
        return self._gives(given, wanted)

    def _gives(self, given: Sequence[lt.Tensor], wanted: Sequence[lt.Tensor]) -> bool:
        try:
            found = self._model(list(given))
        except LazytenError:
            return False
        return len(found) == len(wanted) and all(map(_near, found, wanted))


def _like(tensor: lt.Tensor, shape: Shape, random: np.random.Generator, kind: str,
          most: int) -> Array:
    if tensor.dtype.is_float:
        return random.standard_normal(shape).astype(np.float32)
    count = math.prod(shape)
    if kind == "0":
        return np.zeros(shape, tensor.dtype.numpy)
    if kind == "rising":
        return (np.arange(count) * most // max(count, 1)).reshape(shape).astype(tensor.dtype.numpy)
    values = tensor.numpy().ravel() if kind == "the example's" else np.arange(most)
    return values[random.integers(0, max(values.size, 1), shape)].astype(tensor.dtype.numpy)


def _memory(graph: Sequence[Node], given: Sequence[lt.Tensor]) -> dict[Node, Node]:
    """For what a graph reads the same on DEVICE."""
    found = {}
    for node in toposort(graph):
        if node.op is Op.BUFFER:
            memory = node.arg
            found[node] = given[memory.number].reshape(node.shape).node \
                if isinstance(memory, Placeholder) \
                else Buffer.from_numpy(memory.numpy(), node.dtype, DEVICE).node(node.shape)
    return found


def _near(one: lt.Tensor, other: lt.Tensor) -> bool:
    if one.shape != other.shape or one.dtype is not other.dtype:
        return False
    if not one.dtype.is_float:
        return bool(np.array_equal(one.numpy(), other.numpy()))
    a, b = (x.double().numpy() for x in (one, other))
    near = NEAR_HALF if one.dtype.is_half else NEAR
    scale = np.abs(b[np.isfinite(b)]).max(initial=0)
    return np.allclose(a, b, rtol=near, atol=near * float(scale), equal_nan=True)
