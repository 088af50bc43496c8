"""COLLECTIVE's rows of the tables of derivatives and of vmap, a function a table.

A cotangent is that of the sum of what all ranks differentiate, as every rank walks back through the
same collectives: what several ranks have read of a value comes back to it as a sum.
"""
from __future__ import annotations

from lazyten.autodiff.arithmetic import div, equal, like, mul
from lazyten.ir import dtype as dt
from lazyten.ir.collective import KINDS, Collective, collective
from lazyten.ir.movement import Shape
from lazyten.ir.node import Node, cast, elementwise, move
from lazyten.ir.ops import Op
from lazyten.support.errors import GradientError


def _sum(x: Node, what: Collective) -> Node:
    """The sum over the ranks."""
    return collective(what.again("all_reduce", "sum", ()), x)


def _extreme_share(node: Node) -> Node:
    """1 where this rank has the greatest (least) element, over the number of ranks that do."""
    x, = node.src
    mine = elementwise(Op.WHERE, equal(x, node), like(x, 1.0), like(x, 0.0))
    return div(mine, _sum(mine, node.arg))


TRANSPOSES = {
    "broadcast": ("reduce", "sum"), "reduce": ("broadcast", ""),
    "all_gather": ("reduce_scatter", "sum"), "reduce_scatter": ("all_gather", ""),
    "all_to_all": ("all_to_all", ""), "all_to_all_parts": ("all_to_all_parts", ""),
    "exchange": ("exchange", ""),
}
"""Of kinds that are linear: which kind, and reduction, takes a cotangent back."""


def _check(node: Node) -> Collective:
    what: Collective = node.arg
    if what.kind in ("reduce_scatter", "reduce") and what.reduction != "sum":
        raise GradientError(f"{what.kind} of reduction '{what.reduction}' has no gradient: "
                            f"reduce by the sum, or use all_reduce")
    return what


def vjp(g: Node, node: Node) -> Node:
    """The cotangent of what one rank gave."""
    what = _check(node)
    if what.kind == "all_reduce":
        total = _sum(g, what)
        return total if what.reduction == "sum" else mul(total, _extreme_share(node))
    kind, reduction = TRANSPOSES[what.kind]
    sent = cast(g, dt.float32) if reduction and g.dtype.is_half else g  # which MPI cannot add
    back = collective(what.again(kind, reduction, what.ranks[::-1]), sent)
    return cast(back, g.dtype)


def jvp(t: Node, node: Node) -> Node:
    """The tangent of what the ranks make."""
    what = _check(node)
    if what.kind == "all_reduce" and what.reduction != "sum":
        return _sum(mul(t, _extreme_share(node)), what)
    return collective(what.again(), t)


def vmap(node: Node, src: tuple[Node, ...], size: int) -> Node:
    """The same of many examples at once, whose axis stays behind that of the ranks."""
    what: Collective = node.arg
    kind, (x,) = KINDS[what.kind], src
    if kind.takes:
        x = move(Op.PERMUTE, x, _exchanged(len(x.shape)))
    result = collective(what.again(), x)
    return move(Op.PERMUTE, result, _exchanged(len(result.shape))) if kind.gives else result


def _exchanged(rank: int) -> Shape:
    """The order of axes with the first two exchanged."""
    return (1, 0, *range(2, rank))
