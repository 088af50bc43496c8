"""Memory that a storage shares with NumPy and other libraries, who write to it unseen.

A storage's own value is a buffer that nothing changes, so what was recorded keeps the value that it
was recorded with. Before a storage with shared memory is read, it asks `holds` whether the memory
is still as its buffer, and takes a new copy if not; what is written to it, it writes to both.
"""
from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from mmap import mmap
from sys import getrefcount
from typing import Any

import numpy as np

from lazyten.support.errors import ArgumentError

Array = np.ndarray[Any, Any]
FEW_BYTES = 1 << 12
"""So many are copied, to be compared, in less time than NumPy takes to begin."""
BLOCK = 1 << 16
"""Elements that are compared at once, which stay in the first caches."""


class SharedMemory:
    """The elements of `array`, of any strides and byte order, also those of its owner."""

    def __init__(self, array: Array) -> None:
        chain = [array]
        while isinstance(chain[-1].base, np.ndarray):
            chain.append(chain[-1].base)
        self._chain = tuple(chain)

    @property
    def array(self) -> Array:
        """The memory."""
        return self._chain[0]

    @property
    def is_private(self) -> bool:
        """Whether nobody but this knows the memory any more, as reference counts tell."""
        references = list(map(getrefcount, self._chain))
        alone = [ALONE] + [ALONE_AS_BASE] * (len(self._chain) - 1)
        return references == alone and self._chain[-1].flags.owndata

    @cached_property
    def is_writable(self) -> bool:
        """Whether every element may be written, and is at a place of its own."""
        array, reach = self.array, 0
        for stride, n in sorted((abs(s), n) for s, n in zip(array.strides, array.shape,
                                                            strict=True)):
            if n > 1 and stride <= reach:
                return False
            reach += stride * (n - 1)
        return array.flags.writeable

    def check_writable(self) -> None:
        """ArgumentError if it is read-only, or shows an element more than once."""
        if not self.is_writable:
            raise ArgumentError(f"writing to a tensor of shape {self.array.shape} that shares the "
                                f"memory of an array, which is read-only or shows elements more "
                                f"than once; clone() the tensor, or make it with tensor()")

    def holds(self, values: Array, part: Callable[[Array], Array] | None = None) -> bool:
        """Whether the memory has the bits of `values`, of its shape; `part` may choose from both,
        given flat, which of them matter."""
        array = self.array
        if part is not None and array.flags.c_contiguous:
            array, values = part(array.reshape(-1)), part(values.reshape(-1))
        return have_same_bits(array, values)

    @property
    def is_between_processes(self) -> bool:
        """Whether processes that are forked from now on have the same memory."""
        owner = self._chain[-1].base
        return isinstance(owner.obj if isinstance(owner, memoryview) else owner, mmap)

    def overlaps(self, other: SharedMemory) -> bool:
        """Whether what is written to one may be seen in the other. (Whether both have a byte is a
        hard question for strides: those within each other's ends count.)"""
        return np.may_share_memory(self.array, other.array)

    def write(self, values: Array) -> None:
        """Let the memory have these values, of its shape."""
        np.copyto(self.array, values, casting="equiv")


def between_processes(values: Array) -> Array:
    """A copy of an array in memory that processes which are forked later share with this one."""
    memory = np.frombuffer(mmap(-1, values.nbytes), values.dtype).reshape(values.shape)
    memory[...] = values
    return memory


def have_same_bits(array: Array, values: Array) -> bool:
    """Whether an array, in any byte order, has the bits of values of the same shape."""
    if not array.dtype.isnative:
        array = array.astype(values.dtype)
    if array.nbytes <= FEW_BYTES:
        return array.tobytes() == values.tobytes()
    bits = np.dtype(f"u{array.itemsize}")
    array, values = array.view(bits), values.view(bits)
    if not (array.flags.c_contiguous and values.flags.c_contiguous):
        return np.array_equal(array, values)
    array, values = array.reshape(-1), values.reshape(-1)
    return all(np.array_equal(array[i:i + BLOCK], values[i:i + BLOCK])
               for i in range(0, array.size, BLOCK))


ALONE, ALONE_AS_BASE = map(getrefcount, SharedMemory(np.empty(2)[1:])._chain)
"""References to an array, and to the owner of its memory, that only a SharedMemory has."""
