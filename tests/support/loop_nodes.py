"""Short names for LOOP nodes."""
from __future__ import annotations

from lazyten.ir import dtype as dt
from lazyten.ir.arguments import Range
from lazyten.ir.node import Node, const, elementwise, make
from lazyten.ir.ops import Op


def loop(number: int, extent: int) -> Node:
    return make(Op.RANGE, dt.INDEX, (), Range((number,), extent, "loop"))


def op(which: Op, *operands: Node | int) -> Node:
    dtype = next(o for o in operands if isinstance(o, Node)).dtype
    return elementwise(which, *[o if isinstance(o, Node) else const(o, dtype) for o in operands])
