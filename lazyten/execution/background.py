"""Computing values that nobody has asked for, before too much hangs on them.

`Tensor` calls `made` after each operation that makes or writes a storage, `before_graph` before an
operation reads a parameter, and `before_sum` before a gradient is added to another. What is
computed here is computed for good, with all that shares its history and is due (history.py), so a
loop repeats one plan. Errors, such as of an index outside, come from the operation at which the
bound is reached; they name the operation at fault.
"""
from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from threading import local

from lazyten.execution.realization import carry_out, realize_beside
from lazyten.ir.node import Node, make
from lazyten.ir.ops import Op
from lazyten.storage import collectives, history, levels, tracing
from lazyten.storage.frames import here
from lazyten.storage.history import history_of
from lazyten.storage.storage import NEVER, REALIZED, Storage

MANY, BATCH = 1024, 256
"""When so many storages are pending, the older half of them is computed (a list of losses, say), so
many in one plan."""


class _Pause(local):
    on = False


_pause = _Pause()


@contextmanager
def paused() -> Iterator[None]:
    """Within this block nothing is computed in the background: what it makes is one unit, which is
    computed at its end."""
    before, _pause.on = _pause.on, True
    try:
        yield
    finally:
        _pause.on = before


def is_paused() -> bool:
    """Whether this thread is within such a block."""
    return _pause.on


def made(storage: Storage) -> None:
    """An operation has made or written this storage.

    What keeps its graph stays, as gradients may be asked for: that is the user's own memory. So do
    stand-ins, on which an operation is recorded: what is made of them has a frame that bounds it.
    """
    if here.first_serial is not None:
        return
    past = history.note(storage)
    if past is None or _pause.on:
        return
    if collectives.are_many():
        carry_out()
    if not storage.keeps_graph and history.is_long(past):
        _compute(storage)
    elif history.is_full():
        _thin_out()


def _compute(storage: Storage) -> None:
    """Compute a value with a long history, and what else hangs on that: what is made next of any of
    them has a short one."""
    realize_beside([storage], history.beside([storage], history_of(storage._node).depth // 2))


def summed(gradients: Sequence[Storage]) -> None:
    """backward() has made or written these, to be computed together."""
    if gradients and history.is_long(history_of(gradients[0]._node)):
        _end_step(gradients[0])


def _thin_out() -> None:
    """Compute the older half of what is pending, if that is much. What is made of constants alone
    holds no memory, and stays as it is."""
    found = history.pending()
    if len(found) < MANY:
        return
    waiting = [s for s in found if history_of(s._node).since != NEVER]
    old = waiting[:MANY // 2] if len(waiting) >= MANY else []
    history.forget([*old, *(s for s in found if history_of(s._node).since == NEVER)])
    for device in dict.fromkeys(s.device for s in old):
        group = [s for s in old if s.device == device]
        for start in range(0, len(group), BATCH):
            realize_beside([s for s in group[start:start + BATCH] if history.is_pending(s)], [])


def before_graph(storage: Storage) -> None:
    """An operation is about to read a parameter, to be differentiated: if the value is an update,
    compute it with all that the step before has made. So no step's graph holds another step."""
    past = history_of(storage._node)
    if past.depth > 0 and past.parametric and tracing.active is None and not levels.under_way():
        _end_step(storage)


def without_graph(storage: Storage) -> Node:
    """The value of a storage that keeps its graph, for what no gradient flows through: a read of
    memory if it is computed, so that nothing there holds the graph; which it is if it is long."""
    node = storage.value
    if tracing.active is None and not levels.under_way() and history.is_long(history_of(node)):
        _compute(storage)
    stored = REALIZED[storage.device].get(node)
    return make(Op.DETACH, node.dtype, (node,)) if stored is None else stored


def before_sum(storage: Storage) -> None:
    """A gradient is about to be added to another: compute what the first is of, unless its graph is
    kept, and so perhaps shared."""
    if tracing.active is not None or levels.under_way() or not history.is_pending(storage):
        return
    root = storage.companions[0]() if storage.companions else None
    if root is None or root.was_freed:
        _end_step(storage)


def _end_step(storage: Storage) -> None:
    others = history.beside([storage], step=True)
    history.looked([storage])
    realize_beside([storage], others)
