"""Graphs for a device without float64: what is computed in it on the way is computed in float32.

Sums of squares, places and the like are float64 inside, so that they keep their digits. A tensor of
float64 is refused where it is made (storage.py), so of a device without it none is asked for.
"""
from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

import numpy as np

from lazyten.ir import dtype as dt
from lazyten.ir.node import Node, cast, const, moved_or_made, rebuild
from lazyten.ir.ops import Op
from lazyten.storage.device import executor
from lazyten.support.errors import DTypeError

_PLACES = 1 << 24
"""float32 has all whole numbers up to this one."""


def check_narrows(order: Sequence[Node], device: str) -> None:
    """DTypeError where a graph would be another one in float32: it reads float64, its bits, numbers
    that float32 has not, or places that it rounds."""
    rounds_places = any(node.numel > _PLACES for node in order)
    for node in order:
        if _is_float64(node) and not _narrows(node) or rounds_places and _is_place(node):
            raise DTypeError(f"device '{device}' has no float64, which what is computed at "
                             f"{node.where} needs, and float32 is not enough for it; compute it on "
                             f"another device")


def storable(nodes: Iterable[Node], device: str) -> list[Node]:
    """Those that may be stored to be read again: not what is float64 on the way to another type."""
    dtypes = executor(device).dtypes
    return [node for node in nodes if node.dtype in dtypes]


def narrow(node: Node, src: tuple[Node, ...]) -> Node:
    """A node in float32 if it is of float64, on other sources, which are so."""
    dtype = dt.float32 if node.dtype is dt.float64 else node.dtype
    if node.op is Op.CAST:
        return cast(src[0], dtype)
    if dtype is node.dtype:
        return rebuild(node, src)
    if node.op is Op.CONST:
        return const(float(np.float32(node.value)), dtype, node.shape)
    return moved_or_made(node.op, dtype, src, node.arg, node.place)


def _is_float64(node: Node) -> bool:
    return node.dtype is dt.float64 or node.op is Op.BITCAST and node.src[0].dtype is dt.float64


def _is_place(node: Node) -> bool:
    return node.op is Op.CAST and node.src[0].dtype is dt.float64 and not node.dtype.is_float


def _narrows(node: Node) -> bool:
    if node.op is Op.CONST:
        return _is_in_range(node.value)
    return node.op not in (Op.BUFFER, Op.BITCAST, Op.SCAN)


def _is_in_range(value: float) -> bool:
    """Whether a number is one of float32 once it is rounded."""
    limits = np.finfo(np.float32)
    return value == 0 or not math.isfinite(value) \
        or float(limits.tiny) <= abs(value) <= float(limits.max)
