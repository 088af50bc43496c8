"""What GRAPH nodes are worth, in NumPy: the op table's meanings, and movement by arrays.

The oracle that compiled code is tested against: the interpreter runtime runs kernels with it. What
is not worth compiling is computed with it (execution/interpreted.py), and checked kernels' errors
are traced to their ops.
"""
from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from lazyten.ir import ops
from lazyten.ir.node import Node, toposort
from lazyten.ir.ops import ELEMENTWISE, IDENTITY_OPS, MOVEMENT, Op
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
        return _pad(x, arg)
    if op is Op.SHRINK:
        return x[tuple(slice(s, e) for s, e in arg)]
    if op is Op.FLIP:
        return x[tuple(slice(None, None, -1 if a in arg else 1) for a in range(x.ndim))]
    return shear(x, arg)


def _pad(x: Array, widths: Sequence[tuple[int, int]]) -> Array:
    """np.pad with zeros, in a fifth of the time."""
    whole = np.zeros([n + before + after for n, (before, after) in zip(x.shape, widths,
                                                                       strict=True)], x.dtype)
    whole[tuple(slice(before, before + n) for n, (before, _) in zip(x.shape, widths,
                                                                    strict=True))] = x
    return whole


def reduce(node: Node, x: Array) -> Array:
    """REDUCE; floats of 32 and 16 bits are combined in float64 and rounded once at the end."""
    combiner, axes = node.arg
    function = np.logical_or if x.dtype == np.bool_ else _REDUCE[combiner]
    wide = np.float64 if x.dtype == np.float32 and combiner is not Op.MAX else x.dtype
    with np.errstate(all="ignore"):
        combined = function.reduce(x, axis=axes, keepdims=True, dtype=wide).astype(x.dtype)
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
    op = node.op
    if op is Op.BUFFER:
        stored: Array = ops.decode(leaves[node.arg.slot], node.dtype)
        return stored
    if op in ELEMENTWISE:
        return np.asarray(ops.evaluate(op, node.dtype, args, [s.dtype for s in node.src]))
    return _VALUES[op](node, *args)


def _constant(node: Node) -> Array:
    scalar = ops.round_to(np.asarray(node.value, node.dtype.compute), node.dtype)
    return np.broadcast_to(scalar, node.shape)


def _of_one_rank(node: Node, *args: Array) -> Array:
    if node.arg.group.size > 1:
        raise InternalError(f"{node.arg} of several ranks is not of what one has alone")
    return np.reshape(args[0], node.shape)


_VALUES: dict[Op, Callable[..., Array]] = {
    Op.CONST: _constant,
    Op.IOTA: lambda node: np.arange(node.arg).astype(node.dtype.compute),
    Op.REDUCE: reduce,
    Op.GATHER: lambda node, x, positions: gather(x, node.arg, positions),
    Op.SCATTER: lambda node, base, *others: scatter(base, *node.arg, *others),
    Op.SCAN: lambda node, *args: scan(node, args),
    **dict.fromkeys((Op.COLLECTIVE, Op.JOINED, Op.OWN), _of_one_rank),
    **{op: lambda node, x: move(node.op, x, node.arg) for op in MOVEMENT},
    **{op: lambda node, x, *others: x for op in (*IDENTITY_OPS, Op.CONTIGUOUS, Op.COPY)},
}
