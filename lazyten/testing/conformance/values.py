"""Arrays that the checks of several stages compute on, and how a graph is computed."""
from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from lazyten.execution.realization import realize
from lazyten.ir import dtype as dt
from lazyten.ir import ops
from lazyten.ir.dtype import DType
from lazyten.ir.node import Node
from lazyten.ir.ops import Op
from lazyten.storage.storage import Buffer, Storage
from lazyten.testing.diagnosis import Array

SPECIAL = [0.0, -0.0, 1.0, -1.0, 0.5, 2.5, -3.75, 100.0, np.inf, -np.inf, np.nan, 7.0, -7.0, 63.0]
FUNCTIONS = (Op.EXP, Op.EXP2, Op.LOG2, Op.SIN, Op.COS, Op.POW)
"""What is approximated: its exact value is NumPy's in a wider type."""
WIDE = {"float16": np.float64, "bfloat16": np.float64, "float32": np.float64,
        "float64": np.longdouble}
"""A type that is exact, or nearly, where another one rounds."""


def edges(dtype: DType, count: int, seed: int = 0) -> Array:
    """Values of a dtype, of its compute type: limits, zeros, NaN, small numbers, random bits."""
    rng = np.random.default_rng([dtype.bits, seed])
    if dtype is dt.bool_:
        return rng.random(count) < 0.5
    patterns = rng.integers(0, 256, count * dtype.itemsize, dtype=np.uint8).view(dtype.numpy)
    values = ops.decode(patterns, dtype)
    if dtype.is_float:
        special = np.array(SPECIAL, dtype.compute)
        small = ops.round_to((rng.normal(size=count // 2) * 20).astype(dtype.compute), dtype)
    else:
        limits = [0, 1, 2, 3, 7, dtype.max, dtype.min, int(dtype.max) - 1, int(dtype.max) // 2]
        special = np.array(limits, dtype.compute)
        small = rng.integers(0, 12, count // 2).astype(dtype.compute)
    values[:count // 2] = small
    values[:len(special)] = special
    return rng.permutation(values)


def whole(dtype: DType, shape: tuple[int, ...], seed: int = 0) -> Array:
    """Small whole numbers, of which sums and products of a few are exact in every dtype."""
    rng = np.random.default_rng([len(shape), seed])
    if dtype is dt.bool_:
        return np.asarray(rng.random(shape) < 0.5)
    low = 0 if dtype.kind == "u" else -3
    return np.asarray(rng.integers(low, 4, shape)).astype(dtype.compute)


def leaf(values: Array, dtype: DType, device: str) -> Node:
    """A node that reads these values on a device."""
    return Buffer.from_numpy(ops.encode(values, dtype), dtype, device).node(values.shape)


def computed(nodes: Sequence[Node], device: str) -> list[Array]:
    """The values of graphs, of compute type; all are one schedule."""
    storages = [Storage(node, device) for node in nodes]
    realize(storages)
    return [storage.read() for storage in storages]
