"""Texts that ranks tell each other outside of any graph, and errors that all of them get."""
from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np

from lazyten.distributed.group import Group
from lazyten.execution.realization import carry_out
from lazyten.ir.collective import Collective
from lazyten.support.errors import DistributedError, LazytenError
from lazyten.support.location import user_location

Result = TypeVar("Result")


def gathered(text: str, group: Group | None, operation: str) -> list[str]:
    """The texts of all ranks of a group, in their order; all call this. None: of this process
    alone. operation: what it is for, the same on all ranks."""
    return [row.decode() for row in gathered_bytes(text.encode(), group, operation)]


def gathered_bytes(data: bytes, group: Group | None, operation: str) -> list[bytes]:
    """gathered() of bytes."""
    if group is None or group.size == 1:
        return [data]
    carry_out()
    own = np.frombuffer(data, np.uint8)
    lengths = _rows(np.array([len(own)], np.int64), group, operation)[:, 0]
    padded = np.zeros(max(1, int(lengths.max())), np.uint8)
    padded[:len(own)] = own
    rows = _rows(padded, group, operation)
    return [row[:n].tobytes() for row, n in zip(rows, lengths, strict=True)]


def _rows(own: np.ndarray[Any, Any], group: Group, operation: str) -> np.ndarray[Any, Any]:
    """The arrays of all ranks, which are of one length."""
    rows = np.empty((group.size, own.size), own.dtype)
    words = f"{operation} of ranks {list(group.ranks)}"
    group.carry_out(Collective("all_gather", group, "cpu"), own, rows.reshape(-1), words,
                    user_location())
    return rows


def together(group: Group | None, operation: str, do: Callable[[], Result]) -> Result:
    """What `do` gives, once it is done on all ranks of a group, which all call this. An error of
    one rank is an error of all."""
    try:
        result = do()
    except LazytenError as error:
        gathered(str(error) or type(error).__name__, group, operation)
        raise
    for rank, text in enumerate(gathered("", group, operation)):
        if text and group is not None:
            raise DistributedError(f"{operation}: rank {group.ranks[rank]} has failed, so it is "
                                   f"done on none: {text}")
    return result
