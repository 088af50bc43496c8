"""Memory for the results of a jitted function, which serves again once nobody reads it any more.

`segment.py` asks for it at each call. Whether it is free is seen from reference counts.
"""
from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from operator import attrgetter, is_, sub
from sys import getrefcount

from lazyten.ir import dtype as dt
from lazyten.ir.dtype import DType
from lazyten.ir.node import Node, Shape, unshaped
from lazyten.ir.ops import Op
from lazyten.storage.placeholder import Placeholder
from lazyten.storage.storage import Buffer


class ResultBuffer:
    """Memory for one result, with the node that reads it.

    references: how many there are to the node, to the flat one that it reshapes, and to the
    memory, while nobody else knows them: counted when it is made, as later threads come and go.
    """

    __slots__ = ("base", "buffer", "node", "references")

    def __init__(self, device: str, dtype: DType, size: int, shape: Shape) -> None:
        self.buffer = Buffer(device, dtype, size)
        self.node = self.buffer.node(shape)
        self.base = unshaped(self.node)
        found = list(map(getrefcount, [self.node, self.base, self.buffer]))
        self.references = list(map(sub, found, (2, 2, 1) if self.is_flat else (1, 1, 1)))

    @property
    def is_flat(self) -> bool:
        """Whether the node is the flat one itself."""
        return self.node is self.base

    def references_in(self, sets: int) -> list[int]:
        """The same with those of so many ResultBuffers."""
        each = (3, 3, 1) if self.is_flat else (2, 1, 1)
        return [own + sets * more for own, more in zip(self.references, each, strict=True)]


class ResultBuffers:
    """Memory for each result of one call. It is free while nobody but this knows it: a tensor or a
    recorded operation that still reads it holds a reference."""

    __slots__ = ("_counts", "_known", "buffers", "handles", "nodes")

    def __init__(self, buffers: Sequence[ResultBuffer]) -> None:
        self.buffers = buffers
        self.nodes = [h.node for h in buffers]
        self.handles = tuple([h.buffer.handle for h in buffers])
        self._known = [x for h in buffers for x in (h.node, h.base, h.buffer)]
        self._counts: list[int] = []

    @property
    def are_free(self) -> bool:
        """Whether there are no more references than ResultSets has."""
        return list(map(getrefcount, self._known)) == self._counts

    def in_use(self) -> set[ResultBuffer]:
        """Memory that somebody knows."""
        more = list(map(sub, map(getrefcount, self._known), self._counts))
        parts = zip(self.buffers, zip(more[::3], more[1::3], more[2::3], strict=True), strict=True)
        return {buffer for buffer, counts in parts if any(counts)}

    def note(self, sets: Counter[ResultBuffer]) -> None:
        """Note how many references there are if nobody else knows the memory. sets: which have it.
        """
        self._counts = [n for h in self.buffers for n in h.references_in(sets[h])]


class ResultSets:
    """Memory for results, call by call: one set serves as long as nobody keeps any of it, else two
    by turns, which share what is free."""

    def __init__(self, count: int, make: Callable[[int], ResultBuffer], alternate: bool) -> None:
        """make: new memory for result number n. alternate: whether what a call gave is sure to be
        in use in the next."""
        self._make, self._alternate = make, alternate
        self._now = ResultBuffers([make(number) for number in range(count)])
        self._other: ResultBuffers | None = None
        self._now.note(Counter(self._now.buffers))

    def take(self) -> ResultBuffers:
        """Memory that nothing uses any more, or new memory."""
        if not self._alternate and self._now.are_free:
            return self._now
        if self._other is None or not self._other.are_free:
            self._renew()
        assert self._other is not None
        self._now, self._other = self._other, self._now
        return self._now

    def _renew(self) -> None:
        """Make another set, of what is free and new memory in place of the rest, which is left to
        its users."""
        in_use, given = self._now.in_use(), self._now.buffers
        if self._other is not None:
            in_use |= self._other.in_use()
            given = self._other.buffers
        self._other = ResultBuffers([self._make(number) if buffer in in_use else buffer
                                     for number, buffer in enumerate(given)])
        sets = Counter([*self._now.buffers, *self._other.buffers])
        self._now.note(sets)
        self._other.note(sets)


# ---- memory that one tensor has to itself --------------------------------------------------------

def are_alone(nodes: Sequence[Node], buffers: Sequence[Buffer | Placeholder],
              held: int = 0) -> list[bool]:
    """For values that are in memory: whether a storage knows each, and nobody else.

    nodes: the storages' own, which still are expressions where these are kept for gradients;
    buffers: where the values are. Both lists are new ones of the caller, who holds each buffer in
    one more, and nothing else but what `held` counts.
    """
    found = _references(nodes, buffers, held)
    if found == [_ALONE[len(node.shape) == 1] for node in nodes]:
        return [True] * len(nodes)
    return [seen in _ALONE for seen in found]


def _references(nodes: Sequence[Node], buffers: Sequence[Buffer | Placeholder],
                held: int) -> list[tuple[int, int, int, bool, Op]]:
    """How many references there are to each node, to the flat one that it reshapes, if any, and to
    the memory, but for those held; and whether it is flat itself, and what the flat one is."""
    shaped = Op.RESHAPE
    flat = [node.src[0] if node.op is shaped else node for node in nodes]
    of_buffers = list(map(getrefcount, buffers))
    return list(zip(map(getrefcount, nodes), map(getrefcount, flat),
                    of_buffers if held == 0 else [count - held for count in of_buffers],
                    map(is_, nodes, flat), map(_OP, flat), strict=True))


def _references_if_alone(shape: Shape) -> tuple[int, int, int, bool, Op]:
    sources = [Placeholder("source", 0, dt.uint8, 4)]
    storages = [sources[0].node(shape)]
    return _references(list(storages), list(sources), 0)[0]


_OP = attrgetter("op")
_ALONE = _references_if_alone((2, 2)), _references_if_alone((4,))
