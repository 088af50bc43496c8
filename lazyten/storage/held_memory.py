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

    __slots__ = ("_held",)

    def __init__(self) -> None:
        self._held: tuple[Buffer | None, Array | None] = None, None

    def filled(self, values: Array, dtype: DType, device: str) -> Buffer:
        """Memory with these values: each time as many, of one type, on one device."""
        buffer, view = self._held  # which each thread that asks holds, so that no two get it
        if buffer is None or getrefcount(buffer) > _ALONE:
            buffer = Buffer.from_numpy(values, dtype, device)
            if values.nbytes <= MOST:
                self._held = buffer, buffer.view()
        elif view is None:  # it is not in the host's memory
            buffer.fill(values)
        else:
            view[:] = values.reshape(-1)
        return buffer

    @property
    def present(self) -> Buffer:
        """The memory as it was filled last."""
        buffer, _ = self._held
        assert buffer is not None, "it is filled, and small"
        return buffer

    def _references(self) -> int:
        """How many references there are to the memory, as `filled` counts them."""
        buffer, _ = self._held
        return getrefcount(buffer)


def _references_if_alone() -> int:
    held = HeldMemory()
    held._held = object.__new__(Buffer), None
    return held._references()


_ALONE = _references_if_alone()
