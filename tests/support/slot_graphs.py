"""GRAPH expressions over slots, as the scheduler gets them."""
from __future__ import annotations

from c_kernels import leaf

from lazyten.ir import dtype as dt
from lazyten.ir.dtype import DType
from lazyten.ir.node import Node, elementwise, expand, move, reduce, reshape
from lazyten.ir.ops import Op


def array(slot: int, *shape: int, dtype: DType = dt.float32) -> Node:
    return leaf(slot, shape, dtype)


def matmul(a: Node, b: Node) -> Node:
    m, k, n = *a.shape, b.shape[1]
    left = expand(reshape(a, (m, 1, k)), (m, n, k))
    right = expand(reshape(move(Op.PERMUTE, b, (1, 0)), (1, n, k)), (m, n, k))
    return reshape(reduce(elementwise(Op.MUL, left, right), Op.ADD, [2]), (m, n))
