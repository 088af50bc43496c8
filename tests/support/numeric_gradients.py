"""Numeric checks of gradients at GRAPH level: leaves, evaluation in float64, finite differences."""
from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from lazyten.autodiff.gradient import vjp
from lazyten.ir import dtype as dt
from lazyten.ir.evaluation import evaluate
from lazyten.ir.inspection import verify
from lazyten.ir.kernel import Slot
from lazyten.ir.node import Node, make, reshape
from lazyten.ir.ops import Op

Array = np.ndarray[Any, Any]


class Inputs:
    """Float64 leaves and the values they have."""

    def __init__(self) -> None:
        self.leaves: list[Node] = []
        self.values: list[Array] = []

    def array(self, values: Array) -> Node:
        """A node that reads `values`, without a LEAF: nothing asks for its gradient."""
        slot = len(self.values)
        self.values.append(np.asarray(values, np.float64))
        flat = make(Op.BUFFER, dt.float64, (), Slot(slot, self.values[slot].size))
        return reshape(flat, self.values[slot].shape)

    def leaf(self, values: Array) -> Node:
        """A node that reads `values` and whose gradient is checked."""
        node = make(Op.LEAF, dt.float64, (self.array(values),), len(self.values))
        self.leaves.append(node)
        return node

    def slot(self, leaf: Node) -> int:
        """The position of a leaf's values in `values`."""
        source = leaf.src[0]
        found: int = (source if source.op is Op.BUFFER else source.src[0]).arg.slot
        return found

    def evaluate(self, nodes: Sequence[Node], values: Sequence[Array] | None = None) -> list[Array]:
        """Values of nodes, at `values` instead of the inputs' own ones if given."""
        given = self.values if values is None else values
        return evaluate(nodes, {i: np.ravel(v) for i, v in enumerate(given)})

    def gradients(self, output: Node, cotangent: Array) -> list[Array]:
        """vjp's answers for all leaves, zeros for None; also verifies the nodes it made."""
        seed = self.array(cotangent)
        nodes = vjp(output, seed, self.leaves)
        verify([n for n in nodes if n is not None], "graph")
        found = iter(self.evaluate([n for n in nodes if n is not None]))
        return [np.zeros(leaf.shape) if n is None else next(found)
                for leaf, n in zip(self.leaves, nodes, strict=True)]

    def moved(self, leaf: Node, step: Array) -> list[Array]:
        """The values with `step` added to one leaf's."""
        slot = self.slot(leaf)
        return [v + step if i == slot else v for i, v in enumerate(self.values)]


def numeric_gradient(inputs: Inputs, output: Node, cotangent: Array, leaf: Node,
                     h: float = 1e-6) -> Array:
    """d sum(cotangent * output) / d leaf by central differences, an element at a time."""
    result = np.zeros(leaf.shape)
    for position in np.ndindex(*leaf.shape):
        step = np.zeros(leaf.shape)
        step[position] = h
        high, = inputs.evaluate([output], inputs.moved(leaf, step))
        low, = inputs.evaluate([output], inputs.moved(leaf, -step))
        result[position] = np.sum(cotangent * (high - low)) / (2 * h)
    return result


def check_gradients(inputs: Inputs, output: Node, seed: int = 0) -> None:
    """Assert that vjp's gradients of `output` for every leaf agree with central differences."""
    cotangent = np.random.default_rng(seed).uniform(0.5, 1.5, output.shape)
    for leaf, found in zip(inputs.leaves, inputs.gradients(output, cotangent), strict=True):
        expected = numeric_gradient(inputs, output, cotangent, leaf)
        np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-8)
