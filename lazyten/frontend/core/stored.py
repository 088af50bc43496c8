"""Values as they are stored: read by the host from several tensors, and made a tensor's."""
from __future__ import annotations

from typing import Any

import numpy as np

from lazyten.frontend.core.values import Values
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

    def values(self, t: Values[Any]) -> Array:
        """Those of one, which are computed if they are not there."""
        known = self._known.get(t._storage) or self._in_memory(t._storage)
        return ops.encode(t._as_array(), t.dtype) if known is None else \
            moved_array(known[1], t._moves)

    def _in_memory(self, storage: Storage) -> tuple[Buffer, Array] | None:
        """Memory of a value that is computed, as an array; None where the host cannot look at it,
        or others may have written it."""
        buffer = storage.buffer if storage.shared is None else None
        flat = None if buffer is None else buffer.view()
        if buffer is None or flat is None:
            return None
        known = self._known[storage] = buffer, flat.reshape(storage.shape)
        return known


def tensor_of(stored: Array, dtype: DType, device: str) -> Any:
    """A tensor with a copy of values as they are stored."""
    return Values._of(Buffer.from_numpy(stored, dtype, device).node(stored.shape), device)
