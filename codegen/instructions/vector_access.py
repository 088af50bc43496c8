"""vector_access: accesses of a work item to neighbours in memory become one, where it is aligned.

In: a Function of scalars. Out: the same Function with VectorLoads and VectorStores of 2 or 4
elements, at most 16 bytes, in the place of Loads and Stores that have one base and follow each
other. An access must start at a multiple of its size: arguments do at their first element, unless
they are `unaligned`, and so do the arrays of a group; congruence.py proves it of positions.
Arithmetic stays what it is, so results do. LLVM calls the like its load-store vectorizer.
"""
from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any

from lazyten.codegen.instructions.congruence import ANY, Congruence, congruence, constant
from lazyten.codegen.instructions.instructions import (
    Across,
    Address,
    Barrier,
    Block,
    Compute,
    Constant,
    Copy,
    Function,
    Instruction,
    Load,
    Loop,
    MatrixFence,
    MatrixLoad,
    Store,
    Value,
    VectorLoad,
    VectorStore,
    Wait,
    instructions_of,
)
from lazyten.ir import dtype as dt

WIDTHS = (4, 2)
"""Elements of a vector."""
INDICES = (dt.int32, dt.uint32, dt.int64, dt.uint64)
MOST_BYTES = 16
"""Of one access; what arguments and the arrays of a group are aligned to."""
MOST_SHUFFLED = 4
"""Elements between the lanes of a vector up to which whole vectors are read and shuffled."""
INTERLEAVED = (2, 4)
"""So many vectors whose lanes take turns in memory are stored as wholes, after shuffles."""
LEAST_COPY = 4
"""Bytes that can be copied without going through registers."""


def whole_accesses(size: int) -> int:
    """So many bytes, or elements, or the few more of whole accesses that begin at multiples."""
    return -(-size // MOST_BYTES) * MOST_BYTES


def vector_widths(itemsize: int) -> list[int]:
    """How many elements of so many bytes one access can have, the most first."""
    return [n for n in WIDTHS if n * itemsize <= MOST_BYTES]


def copy_widths(itemsize: int) -> list[int]:
    """How many elements of so many bytes one Copy can have, the most first."""
    return [n for n in (8, 4, 2) if LEAST_COPY <= n * itemsize <= MOST_BYTES]


def vectorize_accesses(function: Function, unaligned: Collection[int] = ()) -> Function:
    """The function with vectors in memory. unaligned: arguments that may start at any element."""
    return replace(function, body=_Vectorizer(function, unaligned).block(function.body))


class _Vectorizer:
    def __init__(self, function: Function, unaligned: Collection[int]) -> None:
        self.unaligned = unaligned
        self.known: dict[Value, Congruence] = {}
        for item in instructions_of(function.body):
            if isinstance(item, Constant) and item.out.dtype in INDICES:
                self.known[item.out] = constant(int(item.value))
            elif isinstance(item, Compute) and item.out.dtype in INDICES:
                args = [self.known.get(a, ANY) for a in item.args]
                self.known[item.out] = congruence(item.op, args)

    def block(self, block: Block) -> Block:
        """The block with all that can be one access made one: loads where the first of them was,
        stores and copies where the last was."""
        replaced: dict[int, list[Instruction]] = {}
        for run in _copies(block.items):
            for part in self._copied_together(block.items, run):
                replaced |= {i: [] for i in part}
                first = block.items[part[0]]
                assert isinstance(first, Copy)
                replaced[max(part)] = [replace(first, count=len(part))]
        for run in _runs(block.items):
            is_load = isinstance(block.items[run[0]], Load)
            for part in self._parts(block.items, run):
                at = min(part) if is_load else max(part)
                replaced |= {i: [] for i in part}
                replaced[at] = [_vector([block.items[i] for i in part])]
        out = Block(block.depth)
        for i, item in enumerate(block.items):
            inner = replace(item, body=self.block(item.body)) if isinstance(item, Loop) else item
            out.items += replaced.get(i, [inner])
        return out

    def _copied_together(self, items: Sequence[Any], run: Sequence[int]) -> Iterator[list[int]]:
        """Those of a run of Copies that are neighbours on both sides, in order, and aligned."""
        first: Copy = items[run[0]]
        if first.source.slot in self.unaligned:
            return
        by_offset = {items[i].source.offset: i for i in run}
        sides = [self._base(first.source), self._base(first.target)]
        for width in copy_widths(first.dtype.itemsize):
            for start in sorted(by_offset):
                wanted = range(start, start + width)
                if any(offset not in by_offset for offset in wanted):
                    continue
                part = [by_offset[offset] for offset in wanted]
                gaps = {items[i].target.offset - items[i].source.offset for i in part}
                offsets = start, start + min(gaps)
                if len(gaps) == 1 and all(base.is_multiple(width, offset) for base, offset
                                          in zip(sides, offsets, strict=True)):
                    yield [by_offset.pop(offset) for offset in wanted]

    def _base(self, address: Address) -> Congruence:
        return constant(0) if address.base is None else self.known.get(address.base, ANY)

    def _parts(self, items: Sequence[Any], run: Sequence[int]) -> Iterator[list[int]]:
        """Those of a run that are neighbours from a multiple of their number on, in order."""
        address: Address = items[run[0]].address
        base = self._base(address)
        if not address.is_local and address.slot in self.unaligned:
            return
        by_offset = {items[i].address.offset: i for i in run}
        itemsize = _dtype(items[run[0]]).itemsize
        for width in vector_widths(itemsize):
            for start in sorted(by_offset):
                part = range(start, start + width)
                if base.is_multiple(width, start) and all(o in by_offset for o in part):
                    yield [by_offset.pop(o) for o in part]


def _copies(items: Sequence[Instruction]) -> Iterable[list[int]]:
    """The numbers of Copies of one batch that differ in their constant offsets only."""
    found: dict[object, list[int]] = {}
    batch = 0
    for i, item in enumerate(items):
        if isinstance(item, Copy):
            key = _place(item.target), _place(item.source), item.mask, item.when, batch
            found.setdefault(key, []).append(i)
        elif not isinstance(item, Constant | Compute):
            batch += 1
    return found.values()


def _runs(items: Sequence[Instruction]) -> Iterable[list[int]]:
    """The numbers of instructions that may change places with each other: scalar loads, or stores,
    of one base, between which nothing writes what they read or touches what they write."""
    loads: dict[object, list[int]] = {}
    stores: dict[object, list[int]] = {}
    found: list[list[int]] = []
    filled = 0
    for i, item in enumerate(items):
        if isinstance(item, Load) and _is_scalar(item.out, item.address) and item.mask is None:
            when = filled if item.address.is_local else 0
            loads.setdefault((_place(item.address), when), []).append(i)
        key = None
        if isinstance(item, Store) and item.combiner is None and \
                _is_scalar(item.value, item.address):
            key = _place(item.address), item.mask
        touches = isinstance(item, Store | Barrier | Copy | Loop | Across | MatrixLoad
                             | MatrixFence) or \
            isinstance(item, Load) and item.address.is_local
        if touches and key not in stores:
            found += stores.values()
            stores = {}
        if key is not None:
            stores.setdefault(key, []).append(i)
        if isinstance(item, Barrier | Copy | Loop | Across | Wait) or \
                isinstance(item, Store) and item.address.is_local:
            filled += 1
    return [*found, *stores.values(), *loads.values()]


def _is_scalar(value: Value, address: Address) -> bool:
    return value.lanes == 1 and address.vector is None


def _place(address: Address) -> tuple[object, ...]:
    return address.slot, address.is_local, address.base


def _dtype(item: Load | Store) -> dt.DType:
    return item.out.dtype if isinstance(item, Load) else item.value.dtype


def _vector(items: Sequence[Any]) -> Instruction:
    """One access in the place of several, which are neighbours in order."""
    address = items[0].address
    if isinstance(items[0], Load):
        return VectorLoad(tuple(item.out for item in items), address)
    return VectorStore(address, tuple(item.value for item in items), items[0].mask)
