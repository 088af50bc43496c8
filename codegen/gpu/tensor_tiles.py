"""Tensor cores: the rewrite that puts an instruction in the place of a tile.

In: a SINK whose rows, columns and reduction have 'vector' ranges as long as the instruction's. Out:
MATRIX nodes over what one item holds.
"""
from __future__ import annotations

from collections.abc import Container, Mapping, Sequence, Set

from lazyten.codegen.model.decisions import Tensors
from lazyten.codegen.targets.tensor_cores import TABLE, TensorCore
from lazyten.ir import dtype as dt
from lazyten.ir.node import Node, make, ranges_of, rewrite, substitute, toposort
from lazyten.ir.ops import Op
from lazyten.symbolic.simplify import simplify_all


def operands(total: Node) -> tuple[Node, Node] | None:
    """The factors that an ACCUMULATE adds up products of, without casts of 16-bit floats; None if
    it does something else."""
    value = total.src[0]
    if total.op is not Op.ACCUMULATE or total.arg is not Op.ADD or value.op is not Op.MUL:
        return None
    a, b = (s.src[0] if s.op is Op.CAST and s.src[0].dtype.is_half else s for s in value.src)
    return (a, b) if a.dtype is b.dtype else None


def cores_for(total: Node, names: Sequence[str]) -> list[TensorCore]:
    """The instructions of these names that take the factors of a sum of products."""
    factors = operands(total)
    if factors is None or total.dtype not in (factors[0].dtype, dt.float32):
        return []
    return [TABLE[n] for n in names if TABLE[n].takes is factors[0].dtype]


def are_read_from_local(total: Node, loads: Container[Node]) -> bool:
    """Whether both factors of a sum of products are some of these loads, as an instruction needs
    them that reads local memory by itself."""
    factors = operands(total)
    return factors is not None and all(f in loads for f in factors)


def divides(total: Node, tensors: Tensors, free: Mapping[Node, frozenset[Node]]) -> bool:
    """Whether one factor has the rows, the other the columns, and both the reduction."""
    factors = operands(total)
    if factors is None or tensors.inner not in total.src[1:]:
        return False
    has = [(tensors.row in free[f], tensors.column in free[f], tensors.inner in free[f])
           for f in factors]
    return sorted(has) == [(False, True, True), (True, False, True)]


def vector_of(r: Node, sink: Node) -> Node:
    """The 'vector' range that a range has been split into."""
    return next(n for n in ranges_of([sink]) if n.arg.kind == "vector"
                and n.arg.order[:len(r.arg.order)] == r.arg.order)


def with_matrices(sink: Node, tensors: Tensors, parts: Set[Node]) -> Node:
    """The SINK with a MATRIX in the place of its ACCUMULATE; rows, columns and the reduction have
    'vector' ranges of the instruction's extents. parts: the reduction's ranges that a group has in
    local memory: an instruction that reads that by itself is written out for them, since items
    may do nothing with the results between."""
    core = tensors.core
    row, column, inner = (
        vector_of(r, sink) for r in (tensors.row, tensors.column, tensors.inner))
    total = next(n for n in toposort([sink]) if n.op is Op.ACCUMULATE and inner in n.src[1:])
    factors = operands(total)
    assert factors is not None
    a, b = factors if row in ranges_of([factors[0]]) else factors[::-1]
    between = {inner: core.at(core.inner)}
    if core.is_local:
        between |= {r: make(Op.RANGE, r.dtype, (), r.arg._replace(kind="unroll"))
                    for r in parts if r in total.src[1:] and r is not inner}
    a, = substitute([a], {row: core.at(core.rows), **between})
    b, = substitute([b], {column: core.at(core.columns), **between})
    loops = (between.get(r, r) for r in total.src[1:] if r is not inner)
    own = (core.range(d) for d in core.c)
    matrix = make(Op.MATRIX, total.dtype, (*simplify_all([a, b]), *own, *loops), core)
    stores = rewrite([sink], lambda n: None,
                     {total: matrix, row: core.at(core.own_rows),
                      column: core.at(core.own_columns)})[0].src
    return make(Op.SINK, dt.bool_, tuple(simplify_all(stores)))
