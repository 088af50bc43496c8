"""Between values that all ranks have whole and those of which each has a part or a summand.

The ranks of a group compute one loss together, each the same. So a gradient is not that of the sum
of what they differentiate, as that of a collective is, but of the one loss: what goes forward as it
is comes back as a sum, and the opposite (Shoeybi et al., 2019, https://arxiv.org/abs/1909.08053, f
and g). Each function here is the gradient of the one named beside it, in both directions.
"""
from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from lazyten.distributed import functional
from lazyten.distributed.group import Group
from lazyten.frontend.tensor import Tensor
from lazyten.ir.node import Node
from lazyten.operators.math.elementwise import with_gradient

Layout = Callable[[Tensor, Group], Tensor]


@dataclass(frozen=True, slots=True)
class _By:
    """A gradient that another function makes."""

    function: Layout
    group: Group
    device: str

    def __call__(self, g: Node, node: Node) -> tuple[Node]:
        return self.function(Tensor._of(g, self.device, True), self.group).node,


def _tied(value: Tensor, x: Tensor, back: Layout, group: Group) -> Tensor:
    """A value of x, whose gradient `back` takes to x."""
    rule = _By(back, group, x._storage.device)
    result: Tensor = Tensor._result(with_gradient(value.node, (x.node,), rule), x)
    return result


def entered(x: Tensor, group: Group) -> Tensor:
    """What all ranks have, where each goes on to compute something else of it. (summed)"""
    return x if group.size == 1 else _tied(x.detach(), x, summed, group)


def summed(x: Tensor, group: Group) -> Tensor:
    """The sum of the ranks' values, for all of them. (entered)"""
    if group.size == 1:
        return x
    return _tied(functional.all_reduce(x.detach(), "sum", group), x, entered, group)


def gathered(x: Tensor, group: Group) -> Tensor:
    """The ranks' parts of the last axis joined, for all of them. (own_part)"""
    return x if group.size == 1 else _tied(_joined(x.detach(), group), x, own_part, group)


def own_part(x: Tensor, group: Group) -> Tensor:
    """Of what all ranks have this one's part of the last axis. (gathered)"""
    if group.size == 1:
        return x
    length = x.shape[-1] // group.size
    part = x.detach()[..., group.rank * length:(group.rank + 1) * length]
    return _tied(part, x, gathered, group)


def joined(x: Tensor, group: Group) -> Tensor:
    """The ranks' parts of the last axis joined, where each goes on to compute something else of
    it. (sum_parts)"""
    return x if group.size == 1 else _tied(_joined(x.detach(), group), x, sum_parts, group)


def sum_parts(x: Tensor, group: Group) -> Tensor:
    """Of the sum of the ranks' values this one's part of the last axis. (joined)"""
    if group.size == 1:
        return x
    rows = x.detach().unflatten(-1, (group.size, -1)).movedim(-2, 0)
    return _tied(functional.reduce_scatter(rows, "sum", group), x, joined, group)


def _joined(x: Tensor, group: Group) -> Tensor:
    return functional.all_gather(x, group).movedim(0, -2).flatten(-2)
