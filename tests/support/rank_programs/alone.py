"""What one process computes, for ranks that compare what they compute together with it."""
from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from lazyten import distributed as dist

T = TypeVar("T")


def on_one_rank(compute: Callable[[], T]) -> T:
    """What a function that does no collectives gives on rank 0, numbers and arrays, on all ranks:
    there are more of these than cores, and all would compute the same."""
    found: list[T | None] = [compute() if dist.rank() == 0 else None]
    dist.broadcast_object_list(found)
    result = found[0]
    assert result is not None
    return result
