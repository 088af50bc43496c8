"""A captured call that only computes, of arrays and to arrays: no tensor is made of either.

`jitted.py` makes one for a call that it knows; loaded models ask for them (lazyten/onnx), whose
callers have NumPy's arrays.
"""
from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any, NamedTuple

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


KEPT_BYTES = 1 << 16
"""A result of so many bytes is an array over its memory, which no other call writes to: copying
takes longer than to keep it."""


class _Memory:
    """Keeps a buffer as long as an array over it lives."""

    __slots__ = ("__array_interface__", "buffer")

    def __init__(self, buffer: Buffer, view: Array) -> None:
        self.buffer, self.__array_interface__ = buffer, view.__array_interface__


class _Result:
    """Reads a value that is computed, by its number. `view`: an array over the memory of the last,
    which often is that of the next; it keeps none, so that results find theirs free."""

    __slots__ = ("handle", "moves", "number", "view")

    def __init__(self, number: int, moves: Moves) -> None:
        self.number, self.moves = number, moves
        self.handle: Any = None
        self.view: Array | None = None

    def read(self, nodes: Sequence[Node], arrays: Sequence[Array], used: list[Buffer]) -> Array:
        """The value, as an array of its own. used: memory that others read, to which it adds."""
        node = nodes[self.number]
        buffer: Buffer = unshaped(node).arg
        if self.handle is not buffer.handle:
            flat = buffer.view()
            self.view = None if flat is None else self._shown(flat, node)
            self.handle = buffer.handle
        if self.view is None:
            return self._shown(buffer.numpy(), node).copy()
        if self.view.nbytes >= KEPT_BYTES and self.view.size == buffer.size \
                and self.view.flags.c_contiguous and all(x is not buffer for x in used):
            used.append(buffer)
            return np.asarray(_Memory(buffer, self.view))
        return self.view.copy()

    def _shown(self, flat: Array, node: Node) -> Array:
        return moved_array(flat.reshape(node.shape), self.moves)


class _Shown(NamedTuple):
    """Reads what is a view of an argument."""

    argument: int
    moves: Moves

    def read(self, nodes: Sequence[Node], arrays: Sequence[Array], used: list[Buffer]) -> Array:
        """What is to be seen of it, as an array of its own."""
        return moved_array(arrays[self.argument], self.moves).copy()


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
        known = dict(replay.given)
        self.results = [_Result(replay.new[x.number][0], x.moves) if x.kind == "new" else
                        _Shown(_argument(x, known), x.moves)
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
            nodes: Sequence[Node] = ()
            used = self._sources()
            for segment in replay.segments:  # one at most
                nodes = segment.run(used, self.storages)
            return [result.read(nodes, arrays, used) for result in self.results]

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
    """Whether a captured call does nothing but compute new values, and show parts of arguments, of
    these and what is always the same; all of types that are in memory as NumPy has them."""
    captured, known = replay.captured, dict(replay.given)
    whole = all(isinstance(x, TensorSpec) and not x.is_complex and
                (x.kind == "new" or _argument(x, known) >= 0) for x in captured.leaves)
    does_more = (captured.written, captured.script, captured.afterwards, captured.gradients,
                 captured.layouts, captured.assigned, replay.donated, replay.looked_up)
    return whole and not any(does_more) and not replay.is_joint and replay.tape is None \
        and len(replay.segments) <= 1 and all(_is_plain(n.node) for n in captured.new)


def _argument(spec: TensorSpec, known: Mapping[int, int]) -> int:
    """The argument that a result is, or shows a part of; -1 for another. known: arguments by the
    numbers of their sources."""
    if spec.same is not None:
        return spec.same.argument
    return known.get(spec.number, -1) if spec.kind == "source" else -1


def is_plain_argument(x: Tensor) -> bool:
    """Whether an array may be in a tensor's place: it is the whole of its memory, and no gradient
    is asked for."""
    return type(x) is Tensor and not x._moves and not x.requires_grad \
        and _is_plain(x._storage._node)


def _is_plain(node: Node) -> bool:
    return node.dtype is not dt.bfloat16 and not node.dtype.is_stored and node.numel > 0
