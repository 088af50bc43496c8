"""Graphs taken apart into their numbers and all the rest, and put together with other numbers.

In: a graph, as one of many that differ in nothing but sizes. Out: a skeleton, which these have in
common, and the numbers of each; and the graph that a skeleton is with other numbers.
"""
from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Sequence
from typing import Any, NamedTuple

from lazyten.ir.dtype import DType
from lazyten.ir.node import Node, make, toposort
from lazyten.ir.ops import Op
from lazyten.ir.scan import Body


class Numbers(NamedTuple):
    """Those of a graph, in the order in which they are met."""

    integers: tuple[int, ...]
    floats: tuple[float, ...]


class Entry(NamedTuple):
    """A node of a skeleton: src are numbers of entries before it, and arg has marks for numbers."""

    op: Op
    dtype: DType
    src: tuple[int, ...]
    arg: Hashable


class Skeleton(NamedTuple):
    """A graph without its numbers: its nodes, and which of them are asked for."""

    entries: tuple[Entry, ...]
    roots: tuple[int, ...]


class Taken:
    """Numbers that were taken out of arguments."""

    def __init__(self) -> None:
        self.integers: list[int] = []
        self.floats: list[float] = []

    def without(self, arg: Any) -> Hashable:
        """The argument with a mark, its type, in the place of each number."""
        kind = type(arg)
        if kind is int:
            self.integers.append(arg)
            return int
        if kind is float:
            self.floats.append(arg)
            return float
        if isinstance(arg, tuple):
            return kind, tuple(map(self.without, arg))
        if kind is Body:
            return kind, (taken_apart(arg.outputs, self), *map(self.without, (
                arg.xs, arg.carried, arg.length, arg.reverse)))
        found: Hashable = arg
        return found

    @property
    def numbers(self) -> Numbers:
        return Numbers(tuple(self.integers), tuple(self.floats))


def taken_apart(roots: Sequence[Node], taken: Taken) -> Skeleton:
    """The skeleton of a graph; its numbers are added to `taken`."""
    order = toposort(roots)
    number = {node: i for i, node in enumerate(order)}
    entries = tuple([Entry(n.op, n.dtype, tuple([number[s] for s in n.src]), taken.without(n.arg))
                     for n in order])
    return Skeleton(entries, tuple([number[r] for r in roots]))


def numbers_of(roots: Sequence[Node]) -> tuple[Skeleton, Numbers]:
    """A graph's skeleton and its numbers."""
    taken = Taken()
    return taken_apart(roots, taken), taken.numbers


def put_together(skeleton: Skeleton, integers: Iterator[int], floats: Iterator[float],
                 made: Callable[[Op, DType, tuple[Node, ...], Any], Node] = make) -> list[Node]:
    """The roots of the graph with these numbers.

    InternalError where there is no such graph, as the numbers do not fit each other.
    """
    nodes: list[Node] = []
    for op, dtype, src, arg in skeleton.entries:
        nodes.append(made(op, dtype, tuple([nodes[s] for s in src]),
                          _with_numbers(arg, integers, floats)))
    return [nodes[r] for r in skeleton.roots]


def _with_numbers(arg: Any, integers: Iterator[int], floats: Iterator[float]) -> Any:
    """What `Taken.without` has taken apart, with these numbers."""
    if arg is int:
        return next(integers)
    if arg is float:
        return next(floats)
    if not isinstance(arg, tuple):
        return arg
    kind, parts = arg
    if kind is Body:
        outputs = put_together(parts[0], integers, floats)
        return Body(tuple(outputs), *(_with_numbers(part, integers, floats) for part in parts[1:]))
    made = [_with_numbers(part, integers, floats) for part in parts]
    return tuple(made) if kind is tuple else kind(*made)
