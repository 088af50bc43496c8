"""What linearize knows while it goes: the loops that are open, and the values in them.

A node depends on some ranges. Of those that are unrolled it has an instance for each assignment;
its lanes are the vector range's; its loops decide in which block its value is.
"""
from __future__ import annotations

import itertools
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from lazyten.codegen.instructions.builder import Builder
from lazyten.codegen.instructions.instructions import Block, Loop, Value
from lazyten.codegen.loops.ranges import free_ranges
from lazyten.ir import dtype as dt
from lazyten.ir.node import Node
from lazyten.ir.ops import Op

Instance = tuple[int, ...]
Env = dict[Node, int]


class Places(NamedTuple):
    """What the addresses of one position have in common, in whatever instance: a sum of terms, and
    constants by lane; or, if its lanes are `computed`, a vector."""

    terms: dict[Node, int]
    offset: int
    by_lane: tuple[int, ...]
    computed: bool = False


class Scopes(ABC):
    """Blocks and values of the nodes under `sink`. stops: of a loop that may end before its
    range does, after how many iterations. strides, group, masked_loads: see linearize."""

    def __init__(self, sink: Node, group: int, strides: Mapping[Node, int],
                 masked_loads: bool) -> None:
        self.build = Builder()
        self.group, self.strides, self.masked_loads = group, strides, masked_loads
        self.arrays: dict[Node, int] = {}
        self.outer: dict[Block, tuple[Node, Block]] = {}
        self.free = free_ranges(sink)
        self.loaded = _loaded(self.free)
        self.to_cores = any(n.op is Op.MATRIX and n.arg.is_local for n in self.free)
        unrolled = {free: sorted_unrolled(free) for free in set(self.free.values())}
        self.unrolled = {n: unrolled[free] for n, free in self.free.items()}
        self.counter: dict[Node, Value] = {}
        self.stops: dict[Node, Value] = {}
        self.open: list[Node] = []
        self.values: dict[tuple[Node, Instance], Value] = {}
        self.done: set[Node] = set()
        self.places: dict[tuple[Node, int], Places] = {}
        self.across: dict[Node, Node | None] = {}
        self.transposed: dict[tuple[Node, Instance], list[Value]] = {}

    @abstractmethod
    def _need(self, root: Node) -> None:
        """Emit every instance of `root` and of what it is made from."""

    # ---- loops ----

    def _innermost(self) -> Block:
        return self.build.home[self.counter[self.open[-1]]] if self.open else self.build.root

    def _enter(self, r: Node, parent: Block) -> Block:
        """A new loop body inside `parent`, and its counter."""
        body = Block(parent.depth + 1)
        self.outer[body] = r, parent
        self.counter[r] = self.build.value(dt.INDEX, 1, body)
        return body

    def close_loops(self, keep: int) -> None:
        """Close the innermost loops, leaving `keep` open."""
        while len(self.open) > keep:
            r = self.open.pop()
            body = self.build.home[self.counter[r]]
            self._innermost().items.append(Loop(self.counter[r], r.arg.extent, body,
                                                parallel=r.arg.kind == "parallel"))

    # ---- instances ----

    def _instances(self, node: Node) -> list[Env]:
        """Every assignment of the unrolled ranges that a node depends on."""
        return assignments(self.unrolled[node])

    def _value(self, node: Node, env: Env) -> Value:
        return self.values[node, tuple([env[r] for r in self.unrolled[node]])]

    def _lanes(self, node: Node) -> int:
        return next((r.arg.extent for r in self.free[node] if r.arg.kind == "vector"), 1)


def sorted_unrolled(ranges: Iterable[Node]) -> tuple[Node, ...]:
    """Those of the ranges that are unrolled, the outermost first."""
    return tuple(sorted((r for r in ranges if r.arg.kind == "unroll"), key=lambda r: r.arg.order))


def is_loop(r: Node) -> bool:
    """Whether a range becomes a loop."""
    return r.arg.kind in ("parallel", "loop", "apart", "block", "reduce", "serial")


def assignments(ranges: Iterable[Node]) -> list[Env]:
    """All values of these ranges together, the last changing fastest."""
    ranges = tuple(ranges)
    return [dict(zip(ranges, values, strict=True))
            for values in itertools.product(*(range(r.arg.extent) for r in ranges))]


def _loaded(order: Iterable[Node]) -> set[Node]:
    """Those of the nodes that are not known before memory is read."""
    found: set[Node] = set()
    for node in order:
        if node.op is Op.LOAD or not found.isdisjoint(node.src):
            found.add(node)
    return found
