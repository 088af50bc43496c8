"""JVP: how each op passes a tangent on from its sources, a row an op, a rule a source.

In: a tangent (the slope of a source's value as some number grows) and the node. Out: the node's
tangent as far as it comes through that source, of the node's shape and dtype. `forward_mode.jvp`
walks the graph and adds the parts up.

The Jacobian of an elementwise op, and a SCATTER's for its base, is diagonal, so it is its own
transpose and the row is that of `vjp_rules.py`; movements and sums are linear, so a tangent goes
the way the value goes. Ties and edges are those of the VJP table: the two are transposes of each
other, also there.
"""
from __future__ import annotations

from lazyten.autodiff import collective_rules
from lazyten.autodiff.arithmetic import div, equal, like, mul, sum_over
from lazyten.autodiff.vjp_rules import VJP, Rule, scatter_ties
from lazyten.ir.node import Node, cast, elementwise, expand, gather, make, move, reduce, scatter
from lazyten.ir.ops import ELEMENTWISE, MOVEMENT, Op


def _same(t: Node, node: Node) -> Node:
    return t


def _reduce(t: Node, node: Node) -> Node:
    combiner, axes = node.arg
    if combiner is Op.MAX:
        return _reduce_max(t, node, axes)
    slopes = VJP[Op.REDUCE][0]
    assert slopes is not None
    return sum_over(mul(t, slopes(like(node, 1.0), node)), axes)


def _reduce_max(t: Node, node: Node, axes: tuple[int, ...]) -> Node:
    """The mean of the tangents of the elements that are the maximum."""
    x, = node.src
    below = elementwise(Op.CMPNE, x, expand(node, x.shape))
    ties = reduce(elementwise(Op.WHERE, below, like(x, 0.0), like(x, 1.0)), Op.ADD, axes)
    return div(sum_over(elementwise(Op.WHERE, below, like(x, 0.0), t), axes), ties)


def _moved(t: Node, node: Node) -> Node:
    return move(node.op, t, node.arg)


def _gather(t: Node, node: Node) -> Node:
    return gather(t, node.arg, node.src[1])


def _scatter_values(t: Node, node: Node) -> Node:
    base, positions, values = node.src
    axis, combiner = node.arg
    if combiner is Op.MAX:
        mine = equal(values, gather(node, axis, positions))
        share = div(t, gather(scatter_ties(node), axis, positions))
        t, combiner = elementwise(Op.WHERE, mine, share, like(t, 0.0)), Op.ADD
    elif combiner is Op.MUL:
        slopes = VJP[Op.SCATTER][2]
        assert slopes is not None
        t, combiner = mul(t, slopes(like(node, 1.0), node)), Op.ADD
    return scatter(like(base, 0.0), axis, positions, t, combiner)


def _copy(t: Node, node: Node) -> Node:
    return t if t.op is Op.CONST else make(Op.COPY, t.dtype, (t,), node.arg)


JVP: dict[Op, tuple[Rule | None, ...]] = {
    **{op: rules for op, rules in VJP.items() if op in ELEMENTWISE},
    **{op: (_moved,) for op in VJP if op in MOVEMENT},
    Op.CAST: (lambda t, n: cast(t, n.dtype),),
    Op.REDUCE: (_reduce,),
    Op.GATHER: (_gather, None),
    Op.SCATTER: (VJP[Op.SCATTER][0], None, _scatter_values),
    Op.CONTIGUOUS: (_same,),
    Op.COPY: (_copy,),
    Op.COLLECTIVE: (collective_rules.jvp,),
    Op.SHARD: VJP[Op.SHARD],
    Op.JOINED: VJP[Op.OWN],
    Op.OWN: VJP[Op.JOINED],
    Op.LEAF: (_same,),
}
"""A rule a source, None where VJP has None. CUSTOM_GRADIENT's own rule is transposed."""
