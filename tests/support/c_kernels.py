"""Kernels for tests of the dialects of C: every op on every dtype."""
from __future__ import annotations

import numpy as np

from lazyten.ir import dtype as dt
from lazyten.ir.dtype import DType
from lazyten.ir.kernel import Kernel, Slot
from lazyten.ir.node import Node, expand, make, reduce, reshape, substitute, toposort
from lazyten.ir.ops import SPECS, Op


def leaf(slot: int, shape: tuple[int, ...], dtype: DType) -> Node:
    """What kernel argument `slot` holds."""
    return reshape(make(Op.BUFFER, dtype, (), Slot(slot, int(np.prod(shape)))), shape)


def every_op(dtype: DType, size: int) -> list[Kernel]:
    """Kernels that do all elementwise ops on a dtype, and all conversions from it: one for each
    number of operands, and one for those with a condition."""
    kinds: dict[tuple[DType, ...], list[Node]] = {}
    for op, spec in SPECS.items():
        if dtype.kind not in spec.takes:
            continue
        targets = [dtype] if spec.gives == "same" else [dt.bool_]
        if op is Op.CAST:
            targets = [t for t in dt.ALL if t is not dtype]
        elif op is Op.BITCAST:
            targets = [t for t in dt.ALL if t.bits == dtype.bits and t is not dtype]
        operands = (dt.bool_, dtype, dtype) if op is Op.WHERE else (dtype,) * spec.arity
        kinds.setdefault(operands, []).extend(
            make(op, target, tuple(leaf(i, (size,), d) for i, d in enumerate(operands)))
            for target in targets)
    return [Kernel(f"ops_of_{len(operands)}", tuple(_after_outputs(nodes)),
                   tuple((d, size) for d in operands)) for operands, nodes in kinds.items()]


def _after_outputs(nodes: list[Node]) -> list[Node]:
    """The nodes with their leaves numbered after as many outputs."""
    leaves = {n: make(Op.BUFFER, n.dtype, (), Slot(len(nodes) + n.arg.slot, n.arg.size))
              for n in toposort(nodes) if n.op is Op.BUFFER}
    return substitute(nodes, leaves)


def products(m: int, k: int, n: int) -> Node:
    """A matrix product of arguments 1 and 2."""
    a = expand(leaf(1, (m, 1, k), dt.float32), (m, n, k))
    b = expand(make(Op.PERMUTE, dt.float32, (leaf(2, (1, k, n), dt.float32),), (0, 2, 1)),
               (m, n, k))
    return reshape(reduce(make(Op.MUL, dt.float32, (a, b)), Op.ADD, (2,)), (m, n))
