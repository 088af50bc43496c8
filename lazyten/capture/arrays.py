"""A captured call that only computes, of arrays and to arrays: no tensor is made of either.

`jitted.py` makes one for a call that it knows; loaded models ask for them (lazyten/onnx), whose
callers have NumPy's arrays.
"""
from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import Any

import numpy as np

from lazyten.capture.captured import TensorSpec
from lazyten.capture.replay import Replay, buffers_of
from lazyten.frontend.setting_table import trace_key
from lazyten.frontend.tensor import Tensor
from lazyten.ir import dtype as dt
from lazyten.ir.movement import Moves
from lazyten.ir.node import Node, unshaped
from lazyten.storage import levels, tracing
from lazyten.storage.storage import Buffer, Storage
from lazyten.symbolic.view import moved_array

Array = np.ndarray[Any, Any]


class _Given:
    """Memory for what is in a tensor's place; `view` is an array over it, where the host has it."""

    __slots__ = ("buffer", "view")

    def __init__(self, x: Tensor) -> None:
        node = x._storage._node
        self.buffer = Buffer(x._storage.device, node.dtype, node.numel)
        flat = self.buffer.view()
        self.view = None if flat is None else flat.reshape(node.shape)

    def fill(self, array: Array) -> None:
        """Copy an array's elements into it."""
        if self.view is None:
            self.buffer.fill(array)
        else:
            self.view[...] = array


class _Result:
    """Reads a result. `view`: an array over the memory of the last, which often is that of the
    next; it keeps none, so that results find theirs free."""

    __slots__ = ("handle", "moves", "view")

    def __init__(self, moves: Moves) -> None:
        self.moves = moves
        self.handle: Any = None
        self.view: Array | None = None

    def read(self, node: Node) -> Array:
        """The value of a node in memory, as an array of its own."""
        buffer: Buffer = unshaped(node).arg
        if self.handle is not buffer.handle:
            flat = buffer.view()
            self.view = None if flat is None else self._shown(flat, node)
            self.handle = buffer.handle
        found = self._shown(buffer.numpy(), node) if self.view is None else self.view
        return found.copy()

    def _shown(self, flat: Array, node: Node) -> Array:
        return moved_array(flat.reshape(node.shape), self.moves)


class ArrayCall:
    """Arrays in the places of the tensors of a captured call, which has memory of its own for them.
    """

    def __init__(self, replay: Replay, tensors: Sequence[Tensor],
                 lock: AbstractContextManager[Any]) -> None:
        """tensors: of a call that `replay` holds for, if it `only_computes`. lock: held while it
        runs, as others may use the same memory for results."""
        self.replay, self.lock, self.settings = replay, lock, trace_key()
        self.given = [_Given(x) for x in tensors]
        self.at = [(number, self.given[argument].buffer) for number, argument in replay.given]
        self.storages: list[Storage | None] = list(replay.storages)
        self.fixed = [number for number, s in enumerate(replay.storages) if s is not None]
        self.results = [(replay.new[x.number][0], _Result(x.moves))
                        for x in replay.captured.leaves if isinstance(x, TensorSpec)]

    def __call__(self, arrays: Sequence[Array]) -> list[Array] | None:
        """The results for arrays of the tensors' shapes and types, as arrays of their own; None
        where the captured call does not hold any more, or is to be part of something larger."""
        if tracing.active is not None or levels.under_way():
            return None
        replay = self.replay
        with self.lock:
            if self.settings != trace_key() or not replay.holds(()):
                return None
            for place, array in zip(self.given, arrays, strict=True):
                place.fill(array)
            nodes = replay.segments[0].run(self._sources(), self.storages)
            return [result.read(nodes[number]) for number, result in self.results]

    def _sources(self) -> list[Buffer]:
        found: list[Any] = [None] * len(self.storages)
        if self.fixed:
            known = buffers_of(self.replay.fixed)
            for number, buffer in zip(self.fixed, known, strict=True):
                found[number] = buffer
        for number, buffer in self.at:
            found[number] = buffer
        return found


def only_computes(replay: Replay) -> bool:
    """Whether a captured call does nothing but compute new values, of its arguments and what is
    always the same; all of types that are in memory as NumPy has them."""
    captured = replay.captured
    whole = all(isinstance(x, TensorSpec) and x.kind == "new" and not x.is_complex
                for x in captured.leaves)
    does_more = (captured.written, captured.script, captured.afterwards, captured.gradients,
                 captured.assigned, replay.donated, replay.looked_up)
    return whole and not any(does_more) and not replay.is_joint and replay.tape is None \
        and len(replay.segments) == 1 and all(_is_plain(n.node) for n in captured.new)


def is_plain_argument(x: Tensor) -> bool:
    """Whether an array may be in a tensor's place: it is the whole of its memory, and no gradient
    is asked for."""
    return type(x) is Tensor and not x._moves and not x.requires_grad \
        and _is_plain(x._storage._node)


def _is_plain(node: Node) -> bool:
    return node.dtype is not dt.bfloat16 and not node.dtype.is_stored and node.numel > 0
