"""Device memory in blocks that are split and merged: what the cuda and opencl runtimes use.

Asking a driver for memory is slow, and giving it back waits for the device. Memory is therefore
taken in large segments. A segment is a row of blocks; a free block that is larger than what is
asked for is split, and one that becomes free is merged with its free neighbours. Small blocks have
segments of their own, so that one that lives long does not keep a large segment in pieces.
"""
from __future__ import annotations

from bisect import bisect_left, insort
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import count
from typing import Generic

from lazyten.runtimes.memory.memory_pool import Block, H, MemoryPool, Source

GRAIN = 512
"""Blocks start at multiples of this, and their sizes are multiples of it."""
SMALL = 1 << 20
"""Blocks of at most this size are in segments of their own."""
SEGMENT = 2 << 20
"""Sizes of segments are multiples of this."""


@dataclass(slots=True, eq=False)
class Piece(Generic[H]):
    """A block of a segment, between its neighbours; `address` is None until it is handed out."""

    segment: Block[H]
    offset: int
    size: int
    serial: int
    is_small: bool
    is_free: bool = False
    address: H | None = None
    before: Piece[H] | None = field(default=None, repr=False)
    after: Piece[H] | None = field(default=None, repr=False)

    @property
    def is_whole(self) -> bool:
        """Whether it is all of its segment."""
        return self.size == self.segment.size


class CachingAllocator(MemoryPool[H]):
    """A MemoryPool that keeps what is freed in segments. within: the handle of bytes from `offset`
    on, so many, of a segment.

    What `stats` calls pooled are all free blocks. Beyond the limit, and by `release`, segments that
    are free as a whole are given back, those first that were so for longest.

    A finalizer may free and allocate at any point of another call in the same thread, when the rows
    of blocks are half changed. What it frees is then sorted in by the next call, and what it
    allocates is a new segment. `_depth` counts the calls under way.
    """

    def __init__(self, source: Source[H], within: Callable[[Block[H], int, int], H],
                 limit: int | None = None) -> None:
        super().__init__(source, limit)
        self.within = within
        self._free_pieces: dict[bool, list[tuple[int, int, Piece[H]]]] = {False: [], True: []}
        self._whole: OrderedDict[int, Piece[H]] = OrderedDict()
        self._pieces: dict[H, Piece[H]] = {}
        self._serials = count()
        self._depth = 0

    def alloc(self, nbytes: int) -> H:
        with self._lock:
            self._sort_freed()
            self._depth += 1
            try:
                return super().alloc(nbytes)
            finally:
                self._depth -= 1

    def release(self) -> None:
        with self._lock:
            self._sort_freed()
            self._depth += 1
            try:
                self._evict(0)
            finally:
                self._depth -= 1

    def _sort_freed(self) -> None:
        if self._depth:
            return
        self._depth += 1
        try:
            super()._sort_freed()
        finally:
            self._depth -= 1

    def _rounded(self, nbytes: int) -> int:
        return max(-(-nbytes // GRAIN), 1) * GRAIN

    def _take(self, size: int) -> Block[H] | None:
        """The free block that fits best, without what it has too much."""
        if self._depth > 1:
            return None
        is_small = size <= SMALL
        free = self._free_pieces[is_small]
        position = bisect_left(free, (size,))
        if position == len(free):
            return None
        piece = free[position][2]
        self._forget(piece)
        self._pooled -= piece.size
        rest = piece.size - size
        if rest > (0 if is_small else SMALL):
            self._split(piece, size)
        return self._handed_out(piece)

    def _split(self, piece: Piece[H], size: int) -> None:
        """Cut a piece after `size` bytes; the rest is free."""
        rest = Piece(piece.segment, piece.offset + size, piece.size - size, next(self._serials),
                     piece.is_small, before=piece, after=piece.after)
        if piece.after is not None:
            piece.after.before = rest
        piece.after, piece.size, piece.address = rest, size, None
        self._pooled += rest.size
        self._remember(rest)

    def _handed_out(self, piece: Piece[H]) -> Block[H]:
        if piece.address is None:
            piece.address = self.within(piece.segment, piece.offset, piece.size)
        self._pieces[piece.address] = piece
        return Block(piece.address, piece.size, piece)

    def _keep(self, block: Block[H]) -> None:
        """Free a block, as one with its free neighbours."""
        piece = self._pieces.pop(block.address)
        self._pooled += piece.size
        if piece.before is not None and piece.before.is_free:
            piece = self._merged(piece.before, piece)
        if piece.after is not None and piece.after.is_free:
            piece = self._merged(piece, piece.after)
        self._remember(piece)

    def _merged(self, left: Piece[H], right: Piece[H]) -> Piece[H]:
        """Two neighbours as one piece, which is not among the free ones yet."""
        for piece in (left, right):
            if piece.is_free:
                self._forget(piece)
        left.size += right.size
        left.after, left.address = right.after, None
        if right.after is not None:
            right.after.before = left
        return left

    def _remember(self, piece: Piece[H]) -> None:
        piece.is_free = True
        insort(self._free_pieces[piece.is_small], (piece.size, piece.serial, piece))
        if piece.is_whole:
            self._whole[piece.serial] = piece

    def _forget(self, piece: Piece[H]) -> None:
        piece.is_free = False
        free = self._free_pieces[piece.is_small]
        del free[bisect_left(free, (piece.size, piece.serial))]
        self._whole.pop(piece.serial, None)

    def _evict(self, limit: int) -> None:
        while self._pooled > limit and self._whole and self._depth == 1:
            piece = next(iter(self._whole.values()))
            self._forget(piece)
            self._pooled -= piece.size

    def _reserve(self, size: int, nbytes: int) -> Block[H]:
        """A block of a new segment."""
        is_small = size <= SMALL
        segment = super()._reserve(-(-size // SEGMENT) * SEGMENT, nbytes)
        piece = Piece(segment, 0, segment.size, next(self._serials), is_small)
        if self._depth == 1 and segment.size - size > (0 if is_small else SMALL):
            self._split(piece, size)
        return self._handed_out(piece)
