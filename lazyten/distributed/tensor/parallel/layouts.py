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
from lazyten.operators.math.gradients import with_gradient
from lazyten.support.errors import ShapeError

Layout = Callable[[Tensor, Group, int], Tensor]


@dataclass(frozen=True, slots=True)
class _By:
    """A gradient that another function makes."""

    function: Layout
    group: Group
    device: str
    axis: int

    def __call__(self, g: Node, node: Node) -> tuple[Node]:
        return self.function(Tensor._of(g, self.device, True), self.group, self.axis).node,


def _tied(value: Tensor, x: Tensor, back: Layout, group: Group, axis: int = 0) -> Tensor:
    """A value of x, whose gradient `back` takes to x."""
    rule = _By(back, group, x._storage.device, axis)
    return Tensor._result(with_gradient(value.node, (x.node,), rule), x)


def entered(x: Tensor, group: Group, axis: int = 0) -> Tensor:
    """What all ranks have, where each goes on to compute something else of it. (summed)"""
    return x if group.size == 1 else _tied(x.detach(), x, summed, group)


def summed(x: Tensor, group: Group, axis: int = 0) -> Tensor:
    """The sum of the ranks' values, for all of them. (entered)"""
    if group.size == 1:
        return x
    return _tied(functional.all_reduce(x.detach(), "sum", group), x, entered, group)


def gathered(x: Tensor, group: Group, axis: int) -> Tensor:
    """The ranks' parts of an axis joined, for all of them. (own_part)"""
    return x if group.size == 1 else _tied(_joined(x.detach(), group, axis), x, own_part, group,
                                           axis)


def own_part(x: Tensor, group: Group, axis: int) -> Tensor:
    """Of what all ranks have this one's part of an axis. (gathered)"""
    if group.size == 1:
        return x
    length = _length(x, group, axis)
    part = x.detach().narrow(axis, group.rank * length, length)
    return _tied(part, x, gathered, group, axis)


def joined(x: Tensor, group: Group, axis: int) -> Tensor:
    """The ranks' parts of an axis joined, where each goes on to compute something else of it.
    (sum_parts)"""
    return x if group.size == 1 else _tied(_joined(x.detach(), group, axis), x, sum_parts, group,
                                           axis)


def sum_parts(x: Tensor, group: Group, axis: int) -> Tensor:
    """Of the sum of the ranks' values this one's part of an axis. (joined)"""
    if group.size == 1:
        return x
    _length(x, group, axis)
    at = axis % x.ndim
    rows = x.detach().unflatten(at, (group.size, -1)).movedim(at, 0)
    return _tied(functional.reduce_scatter(rows, "sum", group), x, joined, group, axis)


def _joined(x: Tensor, group: Group, axis: int) -> Tensor:
    at = axis % x.ndim
    return functional.all_gather(x, group).movedim(0, at).flatten(at, at + 1)


def _length(x: Tensor, group: Group, axis: int) -> int:
    """That of a rank's part. ShapeError where ranks cannot share the axis out evenly."""
    if not -x.ndim <= axis < x.ndim or x.shape[axis] % group.size:
        raise ShapeError(f"Shard({axis}) of shape {x.shape}: the axis must be there, and of a "
                         f"size that the {group.size} ranks share out evenly")
    return x.shape[axis] // group.size
