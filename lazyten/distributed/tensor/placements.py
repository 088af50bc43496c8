"""`Replicate` and `Shard`: how a value lies on ranks."""
from __future__ import annotations

from dataclasses import dataclass

from lazyten.pytorch.refusals import class_of_nothing


class Placement:
    """How a value lies on the ranks of a group."""


@dataclass(frozen=True, slots=True)
class Replicate(Placement):
    """Each rank has all of it."""


@dataclass(frozen=True, slots=True)
class Shard(Placement):
    """Each rank has a part of axis `dim`, in the order of ranks."""

    dim: int


@dataclass(frozen=True, slots=True)
class Partial(Placement):
    """On each rank a part of a sum, for programs that name it: nothing lies so between layers."""

    reduce_op: str = "sum"


_StridedShard = class_of_nothing("_StridedShard", "a layer lies on ranks in whole intervals")
