"""What GRAPH nodes are worth, in NumPy: the op table's meanings, and movement by arrays.

Slow and simple on purpose: the oracle that compiled code is tested against. The interpreter runtime
runs kernels with it, and origins.py finds where a value went wrong.
"""
from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from lazyten.ir import ops
from lazyten.ir.node import Node, toposort
from lazyten.ir.ops import ELEMENTWISE, IDENTITY_OPS, Op
from lazyten.ir.scan import Body
from lazyten.support.errors import InternalError

Array = np.ndarray[Any, Any]

_REDUCE = {Op.ADD: np.add, Op.MUL: np.multiply, Op.MAX: np.maximum}


def shear(x: Array, arg: tuple[int, int, int, int, int]) -> Array:
    """SHEAR by an explicit index array (see movement.py)."""
    axis, by, factor, offset, size = arg
    i = np.arange(size).reshape([-1 if a == axis else 1 for a in range(x.ndim)])
    k = np.arange(x.shape[by]).reshape([-1 if a == by else 1 for a in range(x.ndim)])
    shape = [size if a == axis else n for a, n in enumerate(x.shape)]
    grid = [np.arange(n).reshape([-1 if b == a else 1 for b in range(x.ndim)])
            for a, n in enumerate(shape)]
    grid[axis] = i + factor * k + offset
    return x[tuple(grid)] if 0 not in shape else np.zeros(shape, x.dtype)


def move(op: Op, x: Array, arg: Any) -> Array:
    """One movement op on an array."""
    if op is Op.RESHAPE:
        return x.reshape(arg)
    if op is Op.PERMUTE:
        return x.transpose(arg)
    if op is Op.EXPAND:
        return np.broadcast_to(x, arg)
    if op is Op.PAD:
        return np.pad(x, arg) if arg else x
    if op is Op.SHRINK:
        return x[tuple(slice(s, e) for s, e in arg)]
    if op is Op.FLIP:
        return np.flip(x, arg)
    return shear(x, arg)


def reduce(node: Node, x: Array) -> Array:
    """REDUCE; 16-bit floats are combined in float32 and rounded once at the end."""
    combiner, axes = node.arg
    function = np.logical_or if x.dtype == np.bool_ else _REDUCE[combiner]
    with np.errstate(all="ignore"):
        combined = function.reduce(x, axis=axes, keepdims=True, dtype=x.dtype)
    rounded: Array = ops.round_to(combined, node.dtype)
    return rounded


def gather(x: Array, axis: int, positions: Array) -> Array:
    """GATHER: 0 for a position outside."""
    n = x.shape[axis]
    if not n:
        return np.zeros(positions.shape, x.dtype)
    inside = (positions >= 0) & (positions < n)
    safe = np.where(inside, positions, 0).astype(np.int64)
    return np.where(inside, np.take_along_axis(x, safe, axis), np.zeros((), x.dtype))


_UPDATE: dict[Op, np.ufunc] = {Op.ADD: np.add, Op.MUL: np.multiply, Op.MAX: np.maximum}


def scatter(base: Array, axis: int, combiner: Op | None, positions: Array, values: Array) -> Array:
    """SCATTER, one value after the other."""
    result = np.array(base)
    inside = (positions >= 0) & (positions < base.shape[axis])
    where = list(np.nonzero(inside))
    where[axis] = positions[inside].astype(np.int64)
    with np.errstate(all="ignore"):
        if combiner is None:
            result[tuple(where)] = values[inside]
        else:
            _UPDATE[combiner].at(result, tuple(where), values[inside])
    return result


def scan(node: Node, args: Sequence[Array]) -> Array:
    """SCAN, one step after the other; what pads a row is 0."""
    body: Body = node.arg
    given = [ops.encode(a, s.dtype) for a, s in zip(args, node.src, strict=True)]
    rows = np.zeros(node.shape, node.dtype.compute)
    for t in body.steps:
        leaves = {i: a[t] if i < body.xs else a for i, a in enumerate(given)}
        for i, x in enumerate(evaluate(body.outputs, leaves)):
            rows[t, body.starts[i]:body.starts[i] + x.size] = x.ravel()
            if i < body.carried:
                given[body.xs + i] = ops.encode(x.ravel(), node.dtype)
    return rows


def evaluate(outputs: Sequence[Node], leaves: Mapping[int, Array]) -> list[Array]:
    """Values of GRAPH nodes, as compute-type arrays, given those of the BUFFER slots."""
    values = evaluate_all(outputs, leaves)
    return [values[o] for o in outputs]


def evaluate_all(outputs: Sequence[Node], leaves: Mapping[int, Array]) -> dict[Node, Array]:
    """The same of each node under `outputs`, in the order of a toposort."""
    values: dict[Node, Array] = {}
    for node in toposort(outputs):
        values[node] = value_of(node, [values[s] for s in node.src], leaves)
    return values


def value_of(node: Node, args: Sequence[Array], leaves: Mapping[int, Array]) -> Array:
    """The value of one node, given those of its sources."""
    if node.op is Op.BUFFER:
        stored: Array = ops.decode(leaves[node.arg.slot], node.dtype)
        return stored
    if node.op is Op.CONST:
        scalar = ops.round_to(np.asarray(node.value, node.dtype.compute), node.dtype)
        return np.broadcast_to(scalar, node.shape)
    if node.op is Op.IOTA:
        return np.arange(node.arg).astype(node.dtype.compute)
    if node.op in ELEMENTWISE:
        return np.asarray(ops.evaluate(node.op, node.dtype, args, [s.dtype for s in node.src]))
    if node.op is Op.REDUCE:
        return reduce(node, args[0])
    if node.op is Op.GATHER:
        return gather(args[0], node.arg, args[1])
    if node.op is Op.SCATTER:
        return scatter(args[0], *node.arg, *args[1:])
    if node.op is Op.SCAN:
        return scan(node, args)
    if node.op is Op.COLLECTIVE:
        if node.arg.group.size > 1:
            raise InternalError(f"{node.arg} of several ranks is not of what one has alone")
        return np.reshape(args[0], node.shape)
    if node.op in IDENTITY_OPS or node.op in (Op.CONTIGUOUS, Op.COPY):
        return args[0]
    return move(node.op, args[0], node.arg)
