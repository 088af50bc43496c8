"""What a program without Python is made of, whatever it is written in: records.

A `Traced` is a function as a graph over named arrays; a `Program` is the same as calls of kernels
on memory, which the writers of C and of LLVM IR spell.
"""
from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np

from lazyten.codegen.targets.generated import Generated
from lazyten.ir.dtype import DType
from lazyten.ir.node import Node

Contents = np.ndarray[Any, Any]

ALIGNMENT = 64
"""Of arrays inside a block of memory, in bytes: a cache line."""


@dataclass(frozen=True, slots=True)
class Array:
    """One array of the interface: its name in C, its type, its shape."""

    name: str
    dtype: DType
    shape: tuple[int, ...]

    @property
    def size(self) -> int:
        """Elements."""
        return prod(self.shape)

    @property
    def nbytes(self) -> int:
        """Bytes."""
        return self.size * self.dtype.itemsize

    def __str__(self) -> str:
        return f"{self.dtype.name}[{', '.join(map(str, self.shape))}]"


@dataclass(frozen=True, slots=True, eq=False)
class Kept:
    """An array that is there before a call: its first contents, flat, as stored."""

    array: Array
    contents: Contents


@dataclass(frozen=True, slots=True)
class Source:
    """What a graph reads: an array of 'input', 'state' or 'constant', by number."""

    kind: str
    number: int


@dataclass(frozen=True, slots=True, eq=False)
class Traced:
    """A function as a graph.

    roots: the values that it computes, first the outputs, then what `written` is set to. reads:
    what each memory that the graph reads stands for, by the argument of its BUFFER node. written:
    inputs and states that have another value after a call.
    """

    name: str
    device: str
    inputs: tuple[Array, ...]
    outputs: tuple[Array, ...]
    states: tuple[Kept, ...]
    constants: tuple[Kept, ...]
    roots: tuple[Node, ...]
    reads: dict[Any, Source]
    written: tuple[Source, ...]


@dataclass(frozen=True, slots=True)
class Place:
    """Memory: byte `offset` of region 'input' or 'output' `number`, of 'constant' `number`, of the
    block 'state', of block `number` of the 'workspace'."""

    region: str
    number: int = 0
    offset: int = 0


@dataclass(frozen=True, slots=True)
class Call:
    """Run a kernel's function: as often as there are work items, on these arguments."""

    kernel: str
    function: str
    work_items: int
    arguments: tuple[Place, ...]


@dataclass(frozen=True, slots=True)
class Check:
    """The int64 at a place must be from 0 to below `size`, or the program ends, having kept
    nothing. about: what it is, in words."""

    place: Place
    size: int
    about: str


@dataclass(frozen=True, slots=True)
class Copy:
    """Copy bytes from one place to another."""

    source: Place
    target: Place
    nbytes: int


@dataclass(frozen=True, slots=True, eq=False)
class Program:
    """A function as calls of kernels, in order, and at the end copies. After the first `checked`
    calls indices are looked at.

    blocks: the bytes of each block of the workspace. offsets: where each state begins in the block
    of states. written: numbers of inputs that a call changes.
    """

    name: str
    inputs: tuple[Array, ...]
    outputs: tuple[Array, ...]
    states: tuple[Kept, ...]
    constants: tuple[Kept, ...]
    written: frozenset[int]
    offsets: tuple[int, ...]
    blocks: tuple[int, ...]
    calls: tuple[Call, ...]
    checked: int
    checks: tuple[Check, ...]
    copies: tuple[Copy, ...]
    kernels: tuple[Generated, ...]

    @property
    def state_bytes(self) -> int:
        """Of the block of all states."""
        return packed([k.array.nbytes for k in self.states])[1]

    @property
    def weights_bytes(self) -> int:
        """Of the block of all constants."""
        return packed([k.array.nbytes for k in self.constants])[1]

    @property
    def workspace_bytes(self) -> int:
        """Of all blocks of the workspace."""
        return packed(self.blocks)[1]

    def starts(self) -> dict[str, tuple[int, ...]]:
        """Where each 'constant' begins in the block of weights, each block in the 'workspace'."""
        return {"constant": packed([k.array.nbytes for k in self.constants])[0],
                "workspace": packed(self.blocks)[0]}


def packed(sizes: Sequence[int]) -> tuple[tuple[int, ...], int]:
    """Where arrays of so many bytes begin in one block, and its bytes."""
    offsets, end = [], 0
    for nbytes in sizes:
        offsets.append(end)
        end += -(-nbytes // ALIGNMENT) * ALIGNMENT
    return tuple(offsets), end


def contents(kept: Sequence[Kept]) -> bytes:
    """What arrays hold, as one block."""
    offsets, size = packed([k.array.nbytes for k in kept])
    block = bytearray(size)
    for k, offset in zip(kept, offsets, strict=True):
        block[offset:offset + k.array.nbytes] = k.contents.tobytes()
    return bytes(block)
