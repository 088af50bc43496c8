"""LOOP expressions of windows and quotients."""
from __future__ import annotations

from lazyten.ir import dtype as dt
from lazyten.ir.arguments import Range
from lazyten.ir.node import Node, elementwise, index, make
from lazyten.ir.ops import Op


def loop(order: int, extent: int, kind: str = "loop") -> Node:
    return make(Op.RANGE, dt.INDEX, (), Range((order,), extent, kind))


def divided(r: Node, by: int, op: Op) -> Node:
    return elementwise(op, r, index(by))


def total(*terms: Node) -> Node:
    result = terms[0]
    for t in terms[1:]:
        result = elementwise(Op.ADD, result, t)
    return result


def times(r: Node, factor: int) -> Node:
    return elementwise(Op.MUL, r, index(factor))
