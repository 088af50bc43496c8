"""`Replicate` and `Shard`: how a value lies on ranks."""
from __future__ import annotations

from dataclasses import dataclass


class Placement:
    """How a value lies on the ranks of a group."""


@dataclass(frozen=True, slots=True)
class Replicate(Placement):
    """Each rank has all of it."""


@dataclass(frozen=True, slots=True)
class Shard(Placement):
    """Each rank has a part of axis `dim`, in the order of ranks."""

    dim: int
