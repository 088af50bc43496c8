"""A graph's values by NumPy, node by node, where that costs less than compiling it.

In: a graph and the memory it reads. Out: the values of its roots; and about how long that takes.

What is the same along an axis may have one element there, or no axes at all: NumPy's operations
repeat it. A sum of products that nothing else reads is a product of matrices (of whole numbers in
float64, where that is exact), and what slides along an axis is a view. So a network's layers take
about as long as NumPy's.
"""
from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from typing import NamedTuple
from weakref import WeakKeyDictionary

import numpy as np

from lazyten.execution.plans.graph import Graph
from lazyten.ir import dtype as dt
from lazyten.ir import ops
from lazyten.ir.evaluation import Array, value_of
from lazyten.ir.node import Node, toposort
from lazyten.ir.ops import MOVEMENT, Op
from lazyten.storage.storage import Buffer

NODE, ELEMENT, FUNCTION, PLACE, PRODUCT = 6.0, 0.002, 0.005, 0.02, 0.00006
"""Microseconds to interpret a node, and each element of it; of functions and of places, more; of
products in a sum, less. These are about what it took for the graphs of tests/programs."""

_FREE = (MOVEMENT - {Op.PAD, Op.RESHAPE}) | {Op.BUFFER, Op.CONST}
"""What copies nothing; nor do most reshapes, but those of what was moved."""
_PLAIN = {op: getattr(spec.numpy, "__wrapped__", spec.numpy) for op, spec in ops.SPECS.items()
          if op not in (Op.CAST, Op.BITCAST)}
_NATIVE = frozenset(t for t in dt.ALL if t.numpy == t.compute)
"""Types that NumPy computes in as they are stored."""
_COSTS = {**dict.fromkeys((Op.EXP, Op.EXP2, Op.LOG2, Op.SIN, Op.COS), FUNCTION),
          **dict.fromkeys((Op.POW, Op.MOD, Op.IDIV, Op.GATHER, Op.SCATTER), PLACE)}
"""Of an element."""
_OF_MATRICES = frozenset(t for t in _NATIVE if t.is_float or t.is_int)
EXACT = 2.0 ** 53
"""Float64 has all whole numbers below this."""


# ---- how long it takes ---------------------------------------------------------------------------

def work(order: Sequence[Node]) -> float:
    """About how many microseconds the elements of these nodes take."""
    sums = products(order)
    factors, found = set(sums.values()), 0.0
    for node in order:
        if node.op is Op.SCAN:
            found += len(node.arg.steps) * work(toposort(node.arg.outputs))
        elif node in sums:
            found += node.src[0].numel * PRODUCT + node.numel * ELEMENT
        elif node.op is Op.REDUCE:
            found += node.src[0].numel * ELEMENT
        elif node in factors:
            found += sum(map(_copied, node.src)) * ELEMENT
        elif node.op is Op.RESHAPE:
            found += node.numel * ELEMENT * (node.src[0].op in _FREE - {Op.BUFFER})
        elif node.op not in _FREE or node.op is Op.BUFFER and node.dtype not in _NATIVE:
            found += node.numel * _COSTS.get(node.op, ELEMENT)
    return found


def count(order: Sequence[Node]) -> int:
    """How many nodes are interpreted: those of a scan in each of its steps."""
    return len(order) + sum(len(node.arg.steps) * count(toposort(node.arg.outputs))
                            for node in order if node.op is Op.SCAN)


def _copied(node: Node) -> int:
    """How many elements a factor of a product of matrices has, that differ."""
    while node.op is Op.EXPAND:
        node = node.src[0]
    return node.numel


# ---- values --------------------------------------------------------------------------------------

class Recipe(NamedTuple):
    """How a graph is interpreted: sums of products; of each node, in order, what it reads; and how
    often each is read. work: about how many microseconds their elements take; time: all of it."""

    sums: Mapping[Node, Node]
    reads: Mapping[Node, Sequence[Node]]
    uses: Counter[Node]
    work: float
    time: float


_recipes: WeakKeyDictionary[Graph, Recipe] = WeakKeyDictionary()


def recipe_of(graph: Graph) -> Recipe:
    """How a graph is interpreted, worked out once."""
    found = _recipes.get(graph)
    if found is None:
        passed, sums = graph.passed, products(graph.order, graph.roots, graph.passed)
        factors = set(sums.values())
        reads = {node: (passed[node],) if node in passed else sums.get(node, node).src
                 for node in graph.order if node not in factors}
        uses = Counter(chain(graph.roots, *reads.values()))
        elements = work(graph.order)
        time = elements + NODE * count(graph.order)
        found = _recipes[graph] = Recipe(sums, reads, uses, elements, time)
    return found


def values(graph: Graph, inputs: Sequence[Buffer]) -> list[Array]:
    """The values of the roots; inputs: what stands for the graph's buffers."""
    given, found = iter(inputs), dict[Node, Array]()
    passed, (sums, reads, uses, *_) = graph.passed, recipe_of(graph)
    left = uses.copy()
    for node, sources in reads.items():
        found[node] = _contents(next(given)) if node.op is Op.BUFFER and node not in passed \
            else _value(node, found, passed, sums)
        for s in sources:
            left[s] -= 1
            if not left[s]:
                del found[s]
    return [whole(found[root], root) for root in graph.roots]


def _value(node: Node, found: Mapping[Node, Array], passed: Mapping[Node, Node],
           sums: Mapping[Node, Node]) -> Array:
    op = node.op
    if node in passed:
        return found[passed[node]]
    if op is Op.EXPAND:
        return found[node.src[0]]
    if op is Op.CONST:
        constant: Array = ops.round_to(np.asarray(node.value, node.dtype.compute), node.dtype)
        return constant
    if node in sums:
        a, b = (found[s] for s in sums[node].src)
        made = summed(a, b, node.src[0].shape, node.arg[1])
        return value_of(node, [whole(a * b, node.src[0])], {}) if made is None else made
    if op in _PLAIN and node.dtype in _NATIVE:
        value: Array = _PLAIN[op](*[found[s] for s in node.src])
        return value
    args = [whole(found[s], s) for s in node.src]
    return sliding(args[0], node.arg) if op is Op.SHEAR else value_of(node, args, {})


def whole(value: Array, node: Node) -> Array:
    """A value with all elements of a node."""
    return value if np.shape(value) == node.shape else np.broadcast_to(value, node.shape)


def _contents(buffer: Buffer) -> Array:
    stored = buffer.view()
    decoded: Array = ops.decode(buffer.numpy() if stored is None else stored, buffer.dtype)
    return decoded


def sliding(x: Array, arg: tuple[int, int, int, int, int]) -> Array:
    """SHEAR as a view: a step along `by` is one along `axis`, too, `factor` times."""
    axis, by, factor, offset, size = arg
    if 0 in x.shape or not size:
        return np.zeros([size if a == axis else n for a, n in enumerate(x.shape)], x.dtype)
    strides = list(x.strides)
    strides[by] += factor * strides[axis]
    first = x[tuple(slice(offset, None) if a == axis else slice(None) for a in range(x.ndim))]
    shape = [size if a == axis else n for a, n in enumerate(x.shape)]
    return np.lib.stride_tricks.as_strided(first, shape, strides, writeable=False)


# ---- sums of products ----------------------------------------------------------------------------

def products(order: Sequence[Node], roots: Sequence[Node] = (),
             passed: Mapping[Node, Node] | None = None) -> dict[Node, Node]:
    """Sums of products: each with the product, which nothing else reads."""
    known = passed or {}
    uses = Counter(s for node in order for s in ((known[node],) if node in known else node.src))
    uses.update(roots)
    return {node: product for node, product in _sums(order)
            if uses[product] == 1 and node not in known and product not in known}


def _sums(order: Sequence[Node]) -> Iterator[tuple[Node, Node]]:
    for node in order:
        if node.op is Op.REDUCE and node.arg[0] is Op.ADD and node.dtype in _OF_MATRICES \
                and node.src[0].op is Op.MUL and node.src[0].dtype is node.dtype:
            yield node, node.src[0]


def summed(a: Array, b: Array, shape: Sequence[int], axes: Sequence[int]) -> Array | None:
    """The sum along axes of the product of two arrays, which has this shape; axes along which both
    are the same may have one element. None where it is no product of matrices."""
    a, b = (x if np.ndim(x) == len(shape) else np.broadcast_to(x, shape) for x in (a, b))
    both, left, right, inner = list[int](), list[int](), list[int](), list[int]()
    for axis, size in enumerate(shape):
        has = a.shape[axis] > 1, b.shape[axis] > 1
        if axis in axes:
            if size > 1 and not all(has):
                return None
            if size > 1:
                inner.append(axis)
        elif any(has):
            (both if all(has) else left if has[0] else right).append(axis)
    if not inner or 0 in shape:
        return None
    made = _multiplied(_matrices(a, (both, left, inner)), _matrices(b, (both, inner, right)))
    if made is None:
        return None
    order = (*both, *left, *right)
    places = [order.index(axis) for axis in sorted(order)]
    ordered = made.reshape([shape[axis] for axis in order]).transpose(places)
    found: Array = ordered.reshape([shape[a] if a in order else 1 for a in range(len(shape))])
    return found


def _multiplied(a: Array, b: Array) -> Array | None:
    """The products of matrices; of whole numbers, None if sums may be too large for floats."""
    if a.dtype.kind == "f":
        products: Array = np.matmul(a, b)
        return products
    wide, other = a.astype(np.float64), b.astype(np.float64)
    largest = np.abs(wide).max() * np.abs(other).max() * a.shape[-1]
    return np.matmul(wide, other).astype(np.int64).astype(a.dtype) if largest < EXACT else None


def _matrices(x: Array, parts: Sequence[Sequence[int]]) -> Array:
    """Matrices whose rows are along one list of axes, and columns along another."""
    moved = x.transpose([*(axis for part in parts for axis in part),
                         *(a for a in range(x.ndim) if all(a not in part for part in parts))])
    return moved.reshape([math.prod(x.shape[axis] for axis in part) for part in parts])
