"""A compiled kernel, how it is launched, and what tells it from one at other sizes."""
from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Hashable, Sequence
from sys import byteorder
from typing import Any, NamedTuple

import numpy as np

from lazyten.ir.dtype import DType, Scalar
from lazyten.symbolic.formulas import Quantity

Handle = Any
"""Memory: whatever a runtime's alloc gives."""


class Program(ABC):
    """One compiled kernel, ready to launch."""

    name: str
    source: str
    """The text that was compiled, as DEBUG=2 prints it."""
    in_place: frozenset[tuple[int, int]] = frozenset()
    """Outputs and inputs, by the numbers of their arguments, that may be one memory in a launch."""

    @abstractmethod
    def launch(self, buffers: Sequence[Handle]) -> None:
        """Run on these buffers, outputs first. May return before the work is done."""

    def assembly(self) -> str:
        """Machine code as text, for DEBUG=4; empty if the runtime has none."""
        return ""

    def describe(self) -> str:
        """Views, loop nest and decisions, for DEBUG=3; empty if there are none."""
        return ""

    def decided(self) -> str:
        """What was decided for the loops, as a kernel takes it; empty where it takes nothing."""
        return ""

    @property
    def at_size(self) -> AtSize | None:
        """What tells it from programs of the same kernel at other sizes; None where that is not
        only numbers."""
        return None


SLOT_BYTES = 8
"""Of memory for a number that a program reads, of any type."""


def in_slot(number: Scalar, dtype: DType) -> bytes:
    """A number as it is there."""
    if dtype.is_int:
        return (int(number) & (1 << 8 * dtype.itemsize) - 1).to_bytes(SLOT_BYTES, byteorder)
    return np.asarray(number).astype(dtype.numpy).tobytes().ljust(SLOT_BYTES, b"\0")


class AtSize(NamedTuple):
    """A program that serves many sizes, at one of them. form: what programs of its kernel have in
    common; numbers: in what they may differ; kept: the places of those that are in its code, and
    cannot; slots: of what it reads from memory, which numbers, and their types. scratch: bytes that
    it works in. quantities: what numbers may follow from, besides products of sizes."""

    form: Hashable
    numbers: tuple[Scalar, ...]
    kept: Collection[int]
    slots: Sequence[tuple[int, DType]]
    scratch: tuple[int, ...]
    quantities: Sequence[Quantity]


class Argument(NamedTuple):
    """One argument of a launch: memory by number, from byte `offset` on."""

    number: int
    offset: int = 0


Launch = Sequence[tuple[Program, Sequence[Argument]]]
"""Programs, each with its arguments, that may run in any order or at once."""


class Limit(NamedTuple):
    """What an int64 in memory has to be below, and not negative, for further launches."""

    memory: Argument
    below: int


class AtSizes(NamedTuple):
    """Of a computation whose sizes vary: its sizes, and the region of those that have kernels in
    common with it."""

    sizes: tuple[int, ...]
    region: Hashable
