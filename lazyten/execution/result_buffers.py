"""Memory for the results of a jitted function, which serves again once nobody reads it any more.

`segment.py` asks for it at each call. Whether it is free is seen from reference counts.
"""
from __future__ import annotations

from collections.abc import Callable, Sequence
from operator import attrgetter, is_
from sys import getrefcount

from lazyten.ir import dtype as dt
from lazyten.ir.dtype import DType
from lazyten.ir.node import Node, Shape, unshaped
from lazyten.ir.ops import Op
from lazyten.storage.placeholder import Placeholder
from lazyten.storage.storage import Buffer


class ResultBuffer:
    """Memory for one result, with the node that reads it."""

    __slots__ = ("base", "buffer", "node")

    def __init__(self, device: str, dtype: DType, size: int, shape: Shape) -> None:
        self.buffer = Buffer(device, dtype, size)
        self.node = self.buffer.node(shape)
        self.base = unshaped(self.node)


class ResultBuffers:
    """Memory for each result of one call. It is free while nobody but this knows it: a tensor or a
    recorded operation that still reads it holds a reference."""

    __slots__ = ("_buffers", "_counts", "_known", "handles", "nodes")

    def __init__(self, count: int, make: Callable[[int], ResultBuffer]) -> None:
        self._buffers = [make(number) for number in range(count)]
        self._note()

    def _note(self) -> None:
        self.nodes = [h.node for h in self._buffers]
        self.handles = tuple([h.buffer.handle for h in self._buffers])
        self._known = [x for h in self._buffers for x in (h.node, h.base, h.buffer)]
        self._counts = list(map(getrefcount, self._known))

    @property
    def are_free(self) -> bool:
        """Whether there are no more references than when they were made."""
        return list(map(getrefcount, self._known)) == self._counts

    def renew(self, make: Callable[[int], ResultBuffer]) -> None:
        """Leave what is in use to its users, and take new memory in its place."""
        counts = list(map(getrefcount, self._known))
        if counts != self._counts:
            for number in range(len(self._buffers)):
                here = slice(3 * number, 3 * number + 3)
                if counts[here] != self._counts[here]:
                    self._buffers[number] = make(number)
            self._note()


# ---- memory that one tensor has to itself --------------------------------------------------------

def are_alone(nodes: Sequence[Node], buffers: Sequence[Buffer | Placeholder]) -> list[bool]:
    """For values that are in memory: whether a storage knows each, and nobody else.

    nodes: the storages' own, which still are expressions where these are kept for gradients;
    buffers: where the values are. Both lists are new ones of the caller, who holds each buffer in
    one more, and nothing else.
    """
    found = _references(nodes, buffers)
    if found == [_ALONE[len(node.shape) == 1] for node in nodes]:
        return [True] * len(nodes)
    return [seen in _ALONE for seen in found]


def _references(nodes: Sequence[Node], buffers: Sequence[Buffer | Placeholder]) -> list[
        tuple[int, int, int, bool, Op]]:
    """How many references there are to each node, to the flat one that it reshapes, if any, and to
    the memory; and whether it is flat itself, and what the flat one is."""
    shaped = Op.RESHAPE
    flat = [node.src[0] if node.op is shaped else node for node in nodes]
    return list(zip(map(getrefcount, nodes), map(getrefcount, flat), map(getrefcount, buffers),
                    map(is_, nodes, flat), map(_OP, flat), strict=True))


def _references_if_alone(shape: Shape) -> tuple[int, int, int, bool, Op]:
    sources = [Placeholder("source", 0, dt.uint8, 4)]
    storages = [sources[0].node(shape)]
    return _references(list(storages), list(sources))[0]


_OP = attrgetter("op")
_ALONE = _references_if_alone((2, 2)), _references_if_alone((4,))
