"""Memory for small arrays that the host computes anew each time, such as numbers of a step."""
from __future__ import annotations

from sys import getrefcount

from lazyten.ir.dtype import DType
from lazyten.storage.storage import Array, Buffer

MOST = 64
"""Bytes: larger memory is not held, as there may be some for each of very many operations."""


class HeldMemory:
    """Memory that serves again, with other values, unless somebody still knows it with those from
    before, such as what was recorded and is not computed."""

    __slots__ = ("_buffer",)

    def __init__(self) -> None:
        self._buffer: Buffer | None = None

    def filled(self, values: Array, dtype: DType, device: str) -> Buffer:
        """Memory with these values: each time as many, of one type, on one device."""
        buffer = self._buffer  # which each thread that asks holds, so that no two get it
        if buffer is None or getrefcount(buffer) > _ALONE:
            buffer = Buffer.from_numpy(values, dtype, device)
            if values.nbytes <= MOST:
                self._buffer = buffer
        else:
            buffer.fill(values)
        return buffer

    @property
    def present(self) -> Buffer:
        """The memory as it was filled last."""
        assert self._buffer is not None, "it is filled, and small"
        return self._buffer

    def _references(self) -> int:
        """How many references there are to the memory, as `filled` counts them."""
        buffer = self._buffer
        return getrefcount(buffer)


def _references_if_alone() -> int:
    held = HeldMemory()
    held._buffer = object.__new__(Buffer)
    return held._references()


_ALONE = _references_if_alone()
