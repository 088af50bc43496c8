"""What one rank of several has of a parameter: `ShardedParameter`, a row of its elements, and
`SplitParameter`, an interval of one axis."""
from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any, Self

from lazyten.distributed.functional import all_gather
from lazyten.distributed.group import Group
from lazyten.frontend import parts
from lazyten.frontend.functions import cat
from lazyten.frontend.tensor import Tensor
from lazyten.ir.node import Shape
from lazyten.nn.parameter import Parameter
from lazyten.support.errors import ArgumentError


class PartialParameter(Parameter):
    """What one rank of a group has of a parameter.

    whole_shape: the parameter's shape. group: who has the other parts.
    """

    whole_shape: Shape
    group: Group

    @classmethod
    def _part(cls, own: Tensor, whole: Tensor, group: Group) -> Self:
        made = cls(own, requires_grad=whole.requires_grad)
        made.whole_shape, made.group = tuple(whole.shape), group
        return made

    def __deepcopy__(self, memo: dict[int, Any]) -> PartialParameter:
        result = super().__deepcopy__(memo)
        assert isinstance(result, PartialParameter)
        result.whole_shape, result.group = self.whole_shape, self.group
        return result

    @property
    def placement(self) -> parts.Placement:
        """Which elements of the parameter these are."""
        raise NotImplementedError

    def whole_of_part(self, part: Tensor) -> Tensor:
        """All of a tensor of which ranks have parts as of this parameter; all call this."""
        raise NotImplementedError

    def part_of(self, whole: Tensor) -> Tensor:
        """Of a tensor of the parameter's shape what this rank has of the parameter."""
        raise NotImplementedError

    def full_tensor(self) -> Tensor:
        """The whole parameter, on all ranks, which all call this."""
        return self.whole_of_part(self)


class ShardedParameter(PartialParameter):
    """A row of a parameter that is cut into rows of one length, one for each rank of a group.

    The elements of the parameter stand one after the other; the last row is filled up with zeros.
    """

    @classmethod
    def of(cls, whole: Tensor, group: Group) -> ShardedParameter:
        """This rank's row of a tensor that all ranks have."""
        return cls._part(row_of(whole, group.rank, group.size), whole, group)

    @property
    def placement(self) -> parts.Placement:
        """Which elements of the parameter are in this row."""
        return parts.row(self.whole_shape, self.group.rank, self.group.size)

    def whole_of_part(self, part: Tensor) -> Tensor:
        """See PartialParameter."""
        return whole_of(all_gather(part, self.group), self.whole_shape)

    def part_of(self, whole: Tensor) -> Tensor:
        """See PartialParameter."""
        return row_of(whole, self.group.rank, self.group.size)


class SplitParameter(PartialParameter):
    """An interval of one axis of a parameter, of which each rank of a group has one: see
    interval()."""

    axis: int

    @classmethod
    def of(cls, whole: Tensor, group: Group, axis: int) -> SplitParameter:
        """This rank's interval of a tensor that all ranks have."""
        start, stop = interval(whole.shape[axis], group.rank, group.size)
        made = cls._part(whole.detach().narrow(axis, start, stop - start), whole, group)
        made.axis = axis
        return made

    def __deepcopy__(self, memo: dict[int, Any]) -> SplitParameter:
        result = super().__deepcopy__(memo)
        assert isinstance(result, SplitParameter)
        result.axis = self.axis
        return result

    @property
    def placement(self) -> parts.Placement:
        """Which elements of the parameter are in this interval."""
        start, _ = interval(self.whole_shape[self.axis], self.group.rank, self.group.size)
        offsets = [0] * self.ndim
        offsets[self.axis] = start
        return parts.sliced(self.whole_shape, parts.Box(tuple(offsets), tuple(self.shape)))

    def part_of(self, whole: Tensor) -> Tensor:
        """See PartialParameter."""
        start, stop = interval(whole.shape[self.axis], self.group.rank, self.group.size)
        return whole.detach().narrow(self.axis, start, stop - start)

    def whole_of_part(self, part: Tensor) -> Tensor:
        """See PartialParameter."""
        size, length = self.group.size, self.whole_shape[self.axis]
        first = part.movedim(self.axis, 0)
        room = -(-length // size) - len(first)
        rows = all_gather(cat([first, first.new_zeros((room, *first.shape[1:]))]), self.group)
        ends = [interval(length, rank, size) for rank in range(size)]
        own = [rows[rank, :stop - start] for rank, (start, stop) in enumerate(ends)]
        return cat(own).movedim(0, self.axis)


def own_part(p: Any) -> Any:
    """What this rank stores of a DTensor that is trained; of another parameter, that itself."""
    found = getattr(p, "_own", None)
    return p if found is None else found


def interval(length: int, rank: int, size: int) -> tuple[int, int]:
    """Where a rank's part of an axis begins and ends: parts have one length, rounded up; the last
    have less, or nothing."""
    most = -(-length // size)
    return min(rank * most, length), min((rank + 1) * most, length)


def row_of(whole: Tensor, rank: int, size: int) -> Tensor:
    """One of `size` rows of a tensor's elements, detached."""
    flat = whole.detach().reshape(-1)
    length = -(-flat.numel() // size)
    own = flat[rank * length:(rank + 1) * length]
    return cat([own, own.new_zeros(length - own.numel())]) if own.numel() < length else own


def whole_of(rows: Tensor, shape: Shape) -> Tensor:
    """The tensor of this shape whose rows these are."""
    return rows.reshape(-1)[:math.prod(shape)].reshape(shape)


def check_whole(parameters: Iterable[Any], group: Group, operation: str) -> None:
    """ArgumentError if a parameter is shared out among ranks of this group, which the operation
    would take for copies of one."""
    for p in parameters:
        if isinstance(p, PartialParameter) and len({*p.group.ranks} & {*group.ranks}) > 1:
            raise ArgumentError(f"{operation}: ranks {list(group.ranks)} must have the same "
                                f"parameters, but one of shape {p.whole_shape} is shared out among "
                                f"ranks {list(p.group.ranks)}; give process_group=, of ranks that "
                                f"have the same part")


def shared_out(parameters: Iterable[Any]) -> list[tuple[Group | None, list[Any]]]:
    """The parameters by the group that has the rest of them; None: each is whole here. Rows must
    all be of one group: of whole ones beside them nothing is known."""
    found: dict[int, tuple[Group | None, list[Any]]] = {}
    for p in parameters:
        group = p.group if isinstance(p, PartialParameter) else None
        found.setdefault(id(group), (group, []))[1].append(p)
    groups = list(found.values())
    if len(groups) > 1 and any(isinstance(p, ShardedParameter) for _, own in groups for p in own):
        raise ArgumentError("some parameters are shared out among ranks, and some are not, or "
                            "among others, so nothing of all of them can be known: shard the "
                            "whole module by one fully_shard() more")
    return groups
