"""simplify: LOOP expressions with the same values and less work.

In: nodes of shape (). Out: nodes of shape (). Called by lowering and by every pass of codegen that
replaces loop variables. One pass from the sources up, each node in this order: folding constants
(by the reference semantics of ops.py), the rules of `algebra.py`, its bounds, and for int64 the
index algebra and the comparisons. What a rule makes is simplified as it is made, so one pass is
enough; a sum is taken as a whole, by its terms.

Nodes are interned and never change, so a result is kept in its node (`Node.simple`).
"""
from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from lazyten.ir import dtype as dt
from lazyten.ir import ops
from lazyten.ir.dtype import DType
from lazyten.ir.node import Node, const, make, rebuild, set_simple, toposort
from lazyten.ir.ops import ELEMENTWISE, SPECS, Op
from lazyten.symbolic import comparisons, index_algebra
from lazyten.symbolic.affine import SUMS, Affine, added, affine, build
from lazyten.symbolic.algebra import ALGEBRA
from lazyten.symbolic.bounds import bounds, limits

APPROXIMATED = frozenset({Op.EXP, Op.EXP2, Op.LOG2, Op.SIN, Op.COS, Op.POW, Op.MULACC})
"""Ops whose results on floats are within some units in the last place: other bits in NumPy than in
a kernel. All others are rounded alike everywhere."""


def simplify(node: Node) -> Node:
    """An expression with the values of `node` for every value of its ranges."""
    return simplify_all((node,))[0]


def simplify_all(roots: Sequence[Node]) -> list[Node]:
    """`simplify` of several expressions that may share parts."""
    for node in toposort(roots, _parts):
        if node.simple is None:
            _keep(node, _visit(node))
    return [_simple(root) for root in roots]


def _keep(node: Node, simple: Node) -> Node:
    set_simple(simple, True)
    if simple is not node:
        set_simple(node, simple)
    return simple


def _simple(node: Node) -> Node:
    return node if node.simple is True else node.simple


def _parts(node: Node) -> Sequence[Node]:
    """The nodes to simplify before `node`: of a sum its terms, not the sums that it is made of."""
    if node.simple is not None:
        return ()
    if node.dtype is dt.INDEX and node.op in SUMS:
        terms = affine(node)[0]
        if node not in terms:
            return tuple(terms)
    return node.src


def _visit(node: Node) -> Node:
    """A node whose parts are simplified."""
    if node.dtype is dt.INDEX and node.op in SUMS:
        terms, constant = affine(node)
        if node not in terms:
            return _sum(terms, constant)
    return _improve(rebuild(node, tuple(map(_simple, node.src)))) if node.src else node


def _sum(terms: dict[Node, int], constant: int) -> Node:
    if any(_simple(t) is not t for t in terms):
        total: Affine = {}, constant
        for term, factor in terms.items():
            total = added(total, affine(_simple(term)), factor)
    else:
        total = terms, constant
    return build(*index_algebra.join(total))


def _make(op: Op, dtype: DType, src: tuple[Node, ...]) -> Node:
    """What rules make their nodes with: `src` is simplified, and so is the result."""
    node = make(op, dtype, src)
    return _keep(node, _improve(node)) if node.simple is None else _simple(node)


def _improve(node: Node) -> Node:
    """A node whose sources are simplified."""
    if node.op not in ELEMENTWISE:
        return _memory(node)
    if all(s.op is Op.CONST for s in node.src):
        return folded(node)
    if SPECS[node.op].commutes and node.src[0].op is Op.CONST:
        node = make(node.op, node.dtype, node.src[::-1])
    if node.dtype is dt.INDEX and node.op in SUMS:
        form = affine(node)
        if node not in form[0]:
            return build(*index_algebra.join(form))
    better = ALGEBRA.apply(node, _make)
    if better is None and not node.dtype.is_float:
        better = _by_bounds(node)
    return better or node


def folded(node: Node) -> Node:
    """The constant that an elementwise operation on constants gives; the operation itself where a
    device may round otherwise: elements that are constants in one kernel and none in another must
    have the same bits in both."""
    if node.src[0].dtype.is_float and node.op in APPROXIMATED:
        return node
    dtypes = [s.dtype for s in node.src]
    values = [ops.round_to(np.asarray(s.value, s.dtype.compute), s.dtype) for s in node.src]
    return const(np.asarray(ops.evaluate(node.op, node.dtype, values, dtypes)).item(), node.dtype,
                 node.shape)


def _memory(node: Node) -> Node:
    """Loads and stores without a condition that is always met; 0 for a load that never happens."""
    gate = {Op.LOAD: 2, Op.STORE: 3}.get(node.op)
    if gate is None or len(node.src) == gate or node.src[gate].op is not Op.CONST:
        return node
    if node.src[gate].value:
        return make(node.op, node.dtype, node.src[:gate], node.arg)
    return const(0, node.dtype) if node.op is Op.LOAD else node


def _cast_at_once(node: Node) -> Node | None:
    """A CAST of a CAST of what fits the type between."""
    middle = node.src[0]
    source, kind = middle.src[0], middle.dtype
    found = bounds(source)
    if found is None or kind.is_float or kind is dt.bool_:
        return None
    fits = limits(kind)[0] <= found[0] and found[1] <= limits(kind)[1]
    return _make(Op.CAST, node.dtype, (source,)) if fits else None


def _by_bounds(node: Node) -> Node | None:
    """Integers and bools: decided by bounds, or by the index algebra."""
    limits = bounds(node)
    if limits is not None and limits[0] == limits[1]:
        return const(limits[0], node.dtype)
    if node.dtype is dt.bool_ and node.op in (Op.AND, Op.OR):
        return comparisons.both(node)
    if node.op is Op.CAST and node.src[0].op is Op.CAST:
        return _cast_at_once(node)
    if len(node.src) != 2 or node.src[0].dtype is not dt.INDEX:
        return None
    a, b = affine(node.src[0]), affine(node.src[1])
    if node.op is Op.CMPLT:
        return comparisons.less(a, b)
    if node.op is Op.CMPNE:
        return comparisons.differ(a, b)
    form = None
    if node.op is Op.MAX:
        form = comparisons.greatest(a, b)
    elif not b[0] and b[1] > 0 and node.op in (Op.IDIV, Op.MOD):
        form = (index_algebra.divide if node.op is Op.IDIV else index_algebra.modulo)(a, b[1])
    return None if form is None else build(*index_algebra.join(form))
