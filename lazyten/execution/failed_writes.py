"""Writes in place that cannot be computed, as an index is outside: they are undone.

In: storages, when such an index was found. Out: those of them whose values depend on it have the
values back that were computed last. A program that catches the error goes on with them, as it would
if the operation had failed where it was called, before what was written after it.
"""
from __future__ import annotations

from collections.abc import Callable, Container, Iterable

from lazyten.execution.plans.checks import index_checks
from lazyten.ir.node import Node, toposort, unshaped
from lazyten.ir.ops import Op
from lazyten.storage import frames, history
from lazyten.storage.storage import Storage, changing


def undo(storages: Iterable[Storage], is_refused: Callable[[Node, str], bool]) -> None:
    """Undo the writes to these storages, and to what this thread has written and not computed.

    is_refused: whether the index of a CHECKED node is outside, or depends on one that is.
    """
    known = [s for frame in frames.all_under_way() for s in frame.known_storages()]
    refused: dict[Node, bool] = {}
    for storage in dict.fromkeys([*storages, *known, *history.pending()]):
        if storage._before is None or storage.buffer is not None:
            continue
        node = storage._node
        order = toposort([node])
        checks = index_checks(order)
        for check in checks:
            if check not in refused:
                refused[check] = is_refused(check, storage.device)
        before = storage._before.node() if any(refused[check] for check in checks) else None
        if before is None or _is_memory_of_others(before, order):
            continue
        with changing:
            if storage._node is node:
                storage.replace(before)
                storage._before = None


def _is_memory_of_others(node: Node, order: Container[Node]) -> bool:
    """Whether a value was in memory that a graph does not hold, so that others may have it now."""
    flat = unshaped(node)
    return flat.op is Op.BUFFER and flat not in order
