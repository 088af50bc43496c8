"""VMAP: how each op is done for many examples at once, a row an op.

In: a node of one example, its sources with an axis of examples in front, and how many there are.
Out: the node's values for all examples, with that axis in front. `batching.batch` walks the graph
and calls only the rows of nodes that differ between examples.
"""
from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from lazyten.autodiff import collective_rules
from lazyten.autodiff.arithmetic import behind
from lazyten.ir.node import Node, gather, make, move, reduce, scatter
from lazyten.ir.ops import ELEMENTWISE, MOVEMENT, SHARING_OPS, Op

Rule = Callable[[Node, tuple[Node, ...], int], Node]
"""rule(node of one example, sources of all, number of examples) -> the node of all."""


def _alike(node: Node, src: tuple[Node, ...], size: int) -> Node:
    return make(node.op, node.dtype, src, node.arg)


def _first(node: Node, src: tuple[Node, ...], size: int) -> Node:
    return src[0]


def _moved(node: Node, src: tuple[Node, ...], size: int) -> Node:
    return move(node.op, src[0], behind((size,), node))


def _reduce(node: Node, src: tuple[Node, ...], size: int) -> Node:
    combiner, axes = node.arg
    return reduce(src[0], combiner, [a + 1 for a in axes])


def _gather(node: Node, src: tuple[Node, ...], size: int) -> Node:
    return gather(src[0], node.arg + 1, src[1])


def _scatter(node: Node, src: tuple[Node, ...], size: int) -> Node:
    axis, combiner = node.arg
    return scatter(src[0], axis + 1, src[1], src[2], combiner)


def _shard(node: Node, src: tuple[Node, ...], size: int) -> Node:
    axis = node.arg.axis
    return make(node.op, node.dtype, src, replace(
        node.arg, axis=None if axis is None else axis + 1))


VMAP: Mapping[Op, Rule] = {
    **dict.fromkeys(ELEMENTWISE, _alike),
    **dict.fromkeys(MOVEMENT, _moved),
    Op.REDUCE: _reduce,
    Op.GATHER: _gather,
    Op.SCATTER: _scatter,
    Op.COPY: _alike,
    Op.COLLECTIVE: collective_rules.vmap,
    **dict.fromkeys(SHARING_OPS, _shard),
    Op.CONTIGUOUS: _alike,
    Op.CHECKED: _alike,
    Op.DETACH: _alike,
    Op.LEAF: _first,  # one that the function made: nobody outside can ask for its gradient
}
"""CUSTOM_GRADIENT is batching.py's, with its rule."""

SAME_FOR_ALL = frozenset({Op.BUFFER, Op.CONST, Op.IOTA})
"""Ops without sources, which do not differ between examples."""
