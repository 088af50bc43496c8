"""Random GRAPH expressions for property tests, and how to compute them on a device."""
from __future__ import annotations

import math
from typing import Any

import numpy as np
from hypothesis import strategies as st

from lazyten.execution.realization import realize
from lazyten.ir import dtype as dt
from lazyten.ir import ops
from lazyten.ir.dtype import DType
from lazyten.ir.node import Node, cast, const, elementwise, expand, make, move, reduce, reshape
from lazyten.ir.ops import Op
from lazyten.storage.storage import Buffer, Storage

Array = np.ndarray[Any, Any]
SIZES = st.integers(1, 5) | st.sampled_from([0, 7, 8, 9, 16, 17, 33])
SAFE_FLOAT = (Op.ADD, Op.SUB, Op.MUL, Op.MAX)
SAFE_INT = (Op.ADD, Op.SUB, Op.MUL, Op.MAX, Op.IDIV, Op.MOD, Op.AND, Op.OR, Op.XOR, Op.SHL, Op.SHR)
BOOL = (Op.MAX, Op.AND, Op.OR, Op.XOR)


def compute(node: Node, device: str) -> Array:
    """The value of a graph whose leaves are on `device`."""
    storage = Storage(node, device)
    realize([storage])
    return storage.read()


def leaf(values: Array, dtype: DType, device: str) -> Node:
    """A node that reads `values` (of compute type) on a device."""
    return Buffer.from_numpy(ops.encode(values, dtype), dtype, device).node(values.shape)


@st.composite
def arrays(draw: st.DrawFn, dtype: DType, shape: tuple[int, ...]) -> Array:
    """Small whole numbers, so that sums and products of a few are exact in every dtype."""
    seed = draw(st.integers(0, 2**32 - 1))
    rng = np.random.default_rng(seed)
    if dtype.kind == "b":
        return np.asarray(rng.random(shape) < 0.5)
    limit = 3 if dtype.is_float else 40
    low = 0 if dtype.kind == "u" else -limit
    return np.asarray(rng.integers(low, limit, shape, endpoint=True)).astype(dtype.compute)


@st.composite
def moves(draw: st.DrawFn, shape: tuple[int, ...]) -> tuple[Op, Any]:
    """One movement op that fits `shape`."""
    rank, numel = len(shape), math.prod(shape)
    op = draw(st.sampled_from([
        Op.RESHAPE, Op.PERMUTE, Op.EXPAND, Op.PAD, Op.SHRINK, Op.FLIP, Op.SHEAR]))
    if op is Op.RESHAPE:
        return op, draw(factorizations(numel) if numel else st.permutations(shape).map(tuple))
    if op is Op.PERMUTE:
        return op, tuple(draw(st.permutations(range(rank))))
    if op is Op.EXPAND:
        return op, tuple(draw(st.integers(1, 4)) if n == 1 else n for n in shape)
    if op is Op.PAD:
        return op, tuple(draw(st.tuples(st.integers(0, 2), st.integers(0, 2))) for _ in shape)
    if op is Op.SHRINK:
        ranges = [sorted(draw(st.tuples(st.integers(0, n), st.integers(0, n)))) for n in shape]
        return op, tuple((s, e) for s, e in ranges)
    if op is Op.FLIP or rank < 2:
        return Op.FLIP, tuple(draw(st.sets(st.sampled_from(range(rank))))) if rank else ()
    axis, by = draw(st.permutations(range(rank)))[:2]
    if not shape[axis] or not shape[by]:
        return Op.FLIP, ()
    factor = draw(st.integers(-2, 2))
    reach = factor * (shape[by] - 1)
    room = shape[axis] - abs(reach)
    if room < 1:
        return Op.FLIP, ()
    size = draw(st.integers(1, room))
    offset = draw(st.integers(0, room - size)) - min(reach, 0)
    return op, (axis, by, factor, offset, size)


@st.composite
def factorizations(draw: st.DrawFn, numel: int) -> tuple[int, ...]:
    """A shape of `numel` elements."""
    shape = []
    while numel > 1 and len(shape) < 4:
        shape.append(draw(st.sampled_from([d for d in range(1, numel + 1) if numel % d == 0])))
        numel //= shape[-1]
    return (*shape, numel) if numel > 1 or draw(st.booleans()) else tuple(shape)


@st.composite
def expressions(draw: st.DrawFn, dtype: DType, leaves: list[Node], steps: int = 6) -> Node:
    """A random expression over leaves of one dtype: movement, elementwise ops, reductions."""
    x = draw(st.sampled_from(leaves))
    for _ in range(draw(st.integers(1, steps))):
        kind = draw(st.sampled_from(["move", "move", "unary", "binary", "reduce", "where", "cast"]))
        if kind == "move":
            op, arg = draw(moves(x.shape))
            x = move(op, x, arg)
        elif kind == "reduce" and x.shape:
            axes = draw(st.sets(st.sampled_from(range(len(x.shape))), min_size=1))
            combiner = Op.MAX if dtype is dt.bool_ else draw(st.sampled_from([Op.ADD, Op.MAX]))
            x = reduce(x, combiner, axes)
        elif kind == "unary":
            op = Op.NOT if not dtype.is_float else Op.NEG
            x = elementwise(op, x)
        elif kind == "cast" and dtype is not dt.bool_:
            x = cast(cast(x, dt.float64 if dtype.bits > 16 else dt.float32), dtype)
        elif kind in ("binary", "where"):
            x = draw(_binary(kind, dtype, x, leaves))
        if x.numel > 3000:
            x = move(Op.SHRINK, x, tuple((0, min(n, 3)) for n in x.shape))
    return x


@st.composite
def _binary(draw: st.DrawFn, kind: str, dtype: DType, x: Node, leaves: list[Node]) -> Node:
    other = draw(st.sampled_from([x, *leaves]))
    if other.shape != x.shape:
        total = reduce(other, Op.MAX, range(len(other.shape))) if other.numel else const(1, dtype)
        other = expand(reshape(total, (1,) * len(x.shape)), x.shape)
    if kind == "where":
        return elementwise(Op.WHERE, elementwise(Op.CMPLT, x, other), x, other)
    table = BOOL if dtype is dt.bool_ else SAFE_FLOAT if dtype.is_float else SAFE_INT
    return make(draw(st.sampled_from(table)), dtype, (x, other))
