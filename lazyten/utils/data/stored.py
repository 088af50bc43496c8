"""Values of examples as they are stored: read by the host from several tensors, and made one's."""
from __future__ import annotations

from typing import Any

import numpy as np

from lazyten.frontend.tensor import Tensor
from lazyten.ir import ops
from lazyten.ir.dtype import DType
from lazyten.storage import tracing
from lazyten.storage.storage import READING, Buffer, Storage
from lazyten.symbolic.view import moved_array

Array = np.ndarray[Any, Any]


class Reader:
    """Reads tensors' values as they are stored (bfloat16 as uint16), to be looked at as long as the
    reader lives: without a copy of what is in the host's memory."""

    def __init__(self) -> None:
        tracing.refuse(*READING)
        self._known: dict[Storage, tuple[Buffer, Array]] = {}

    def values(self, t: Tensor) -> Array:
        """Those of one, which are computed if they are not there. (Memory that others write to is
        what they have written.)"""
        storage = t._storage
        if storage.shared is not None:
            return moved_array(storage.shared.array, t._moves)
        known = self._known.get(storage) or self._in_memory(storage)
        return ops.encode(t._as_array(), t.dtype) if known is None else \
            moved_array(known[1], t._moves)

    def _in_memory(self, storage: Storage) -> tuple[Buffer, Array] | None:
        """What holds a value, as an array; None where it is not computed, or not by the host."""
        buffer = storage.buffer
        flat = None if buffer is None else buffer.view()
        if buffer is None or flat is None:
            return None
        known = self._known[storage] = buffer, flat.reshape(storage.shape)
        return known


def tensor_of(stored: Array, dtype: DType, device: str) -> Tensor:
    """A tensor with a copy of values as they are stored."""
    return Tensor._of(Buffer.from_numpy(stored, dtype, device).node(stored.shape), device)
