"""`ShardedParameter`: what one rank of several has of a parameter."""
from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

from lazyten.distributed.functional import all_gather
from lazyten.distributed.group import Group
from lazyten.frontend import parts
from lazyten.frontend.functions import cat
from lazyten.frontend.tensor import Tensor
from lazyten.ir.node import Shape
from lazyten.nn.parameter import Parameter
from lazyten.support.errors import ArgumentError


class ShardedParameter(Parameter):
    """A row of a parameter that is cut into rows of one length, one for each rank of a group.

    The elements of the parameter stand one after the other; the last row is filled up with zeros.
    whole_shape: the parameter's shape. group: who has the other rows.
    """

    whole_shape: Shape
    group: Group

    @classmethod
    def of(cls, whole: Tensor, group: Group) -> ShardedParameter:
        """This rank's row of a tensor that all ranks have."""
        row = row_of(whole, group.rank, group.size)
        made = cls(row, requires_grad=whole.requires_grad)
        made.whole_shape, made.group = tuple(whole.shape), group
        return made

    def __deepcopy__(self, memo: dict[int, Any]) -> ShardedParameter:
        result = super().__deepcopy__(memo)
        assert isinstance(result, ShardedParameter)
        result.whole_shape, result.group = self.whole_shape, self.group
        return result

    @property
    def placement(self) -> parts.Placement:
        """Which elements of the parameter are in this row."""
        return parts.row(self.whole_shape, self.group.rank, self.group.size)

    def full_tensor(self) -> Tensor:
        """The whole parameter, on all ranks, which all call this."""
        return whole_of(all_gather(self, self.group), self.whole_shape)


def row_of(whole: Tensor, rank: int, size: int) -> Tensor:
    """One of `size` rows of a tensor's elements, detached."""
    flat = whole.detach().reshape(-1)
    length = -(-flat.numel() // size)
    own = flat[rank * length:(rank + 1) * length]
    return cat([own, own.new_zeros(length - own.numel())]) if own.numel() < length else own


def whole_of(rows: Tensor, shape: Shape) -> Tensor:
    """The tensor of this shape whose rows these are."""
    return rows.reshape(-1)[:math.prod(shape)].reshape(shape)


def sharing(parameters: Iterable[Any]) -> Group | None:
    """The group that has the rest of these parameters, if they are rows; all must be of one then.
    """
    groups = {id(p.group) if isinstance(p, ShardedParameter) else None: getattr(p, "group", None)
              for p in parameters}
    if len(groups) > 1:
        raise ArgumentError("some parameters are shared out among ranks, and some are not, or "
                            "among others, so nothing of all of them can be known: shard the "
                            "whole module by one fully_shard() more")
    found: Group | None = next(iter(groups.values()), None)
    return found
