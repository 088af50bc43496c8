"""Tensor cores for a streamed sum: what one product gives is a factor of the next.

In: a SINK whose rows, columns and both reductions have 'vector' ranges as long as the
instruction's. Out: MATRIX nodes. Of the first product's results an item holds rows (ch, g) and
columns (t, cl) of 8; of the second's factor it holds rows (ah, g) and elements (kh, t, kl) of 16
of the reduction. So two results beside each other, numbered by a digit in the place of kh, are that
factor, with ch for ah and cl for kl: no item needs what another has, but for a row's maximum, which
is among the items of t.
"""
from __future__ import annotations

from lazyten.codegen.gpu.tensor_tiles import operands, vector_of
from lazyten.codegen.model.decisions import Tensors
from lazyten.codegen.targets.tensor_cores import TensorCore
from lazyten.ir import dtype as dt
from lazyten.ir.node import Node, elementwise, index, make, ranges_of, rebuild, substitute, toposort
from lazyten.ir.ops import Op
from lazyten.symbolic.index_moves import flatten
from lazyten.symbolic.simplify import simplify, simplify_all


def with_streamed_matrices(sink: Node, tensors: Tensors) -> Node:
    """The SINK with a MATRIX in the place of each of its two sums of products."""
    core, under = tensors.core, tensors.under
    assert under is not None
    row, column, inner, depth = (
        vector_of(r, sink) for r in (tensors.row, tensors.column, tensors.inner, under))
    half, *digits = (core.passed(d) for d in (core.inner[0], *core.own_columns))
    beside = simplify(flatten([r.arg.extent for r in (half, *digits)], (half, *digits)))
    order = toposort([sink])
    totals = [n for n in order if n.op is Op.ACCUMULATE and operands(n) is not None]
    scores = next(n for n in totals if depth in n.src[1:])
    total = next(n for n in totals if inner in n.src[1:])
    made = _matrix(core, scores, depth, (row, core.at(core.rows)),
                   (inner, simplify(elementwise(Op.ADD, elementwise(
                       Op.MUL, half, index(core.shape[1])), core.at(core.columns)))))
    done: dict[Node, Node] = {scores: made, row: core.at(core.own_rows),
                              column: core.at(core.own_columns), inner: beside}
    for node in order:
        if node in done:
            continue
        if node is total:
            done[node] = _streamed(core, node, inner, column, (half, *digits), done)
        elif node.op is Op.ACCUMULATE:
            ranges = [r for old in node.src[1:] for r in ranges_of([done[old]])]
            done[node] = make(node.op, node.dtype, (done[node.src[0]], *ranges), node.arg)
        else:
            done[node] = rebuild(node, tuple(done[s] for s in node.src)) if node.src else node
    return make(Op.SINK, dt.bool_, tuple(simplify_all(done[sink].src)))


def _matrix(core: TensorCore, scores: Node, depth: Node, rows: tuple[Node, Node],
            columns: tuple[Node, Node]) -> Node:
    """The product whose results are on their way to another one."""
    factors = operands(scores)
    assert factors is not None
    a, b = factors if rows[0] in ranges_of([factors[0]]) else factors[::-1]
    along = core.at(core.inner)
    a, = substitute([a], {rows[0]: rows[1], depth: along})
    b, = substitute([b], {columns[0]: columns[1], depth: along})
    loops = (r for r in scores.src[1:] if r is not depth)
    own = (core.passed(d) if d in core.own_columns else core.range(d) for d in core.c)
    return make(Op.MATRIX, scores.dtype, (*simplify_all([a, b]), *own, *loops), core)


def _streamed(core: TensorCore, total: Node, inner: Node, column: Node,
              passed: tuple[Node, ...], done: dict[Node, Node]) -> Node:
    """The product that takes those; `done` has what its rows have become."""
    factors = operands(total)
    assert factors is not None
    a, b = factors if column in ranges_of([factors[1]]) else factors[::-1]
    b, = substitute([b], {column: core.at(core.columns), inner: core.at(core.inner)})
    loops = (r for r in total.src[1:] if r is not inner)
    own = (core.range(d) for d in core.c)
    sources = (*simplify_all([done[a], b]), *own, *passed, *loops)
    return make(Op.MATRIX, total.dtype, sources, core)
