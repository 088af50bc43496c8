"""Going on for real in the middle of a trace, where Python needs what a replay cannot give it.

In: a `Recording` that has met a value to be read, a `print`, or anything else that Python must do
at each call. What was recorded until there becomes what was done, exactly once: stand-ins get the
memory that they stood for, what was put off is done, and the function runs on as if nobody had
listened. Later calls like this one run the function's Python (jitted.py), and what it records is
compiled once, as without jit.
"""
from __future__ import annotations

import gc
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from lazyten.autodiff import hooks
from lazyten.capture.captured import HostInput
from lazyten.capture.recording import Before, Recording
from lazyten.capture.state.environment import Environment
from lazyten.execution.realization import computed, realize
from lazyten.frontend.core.handle import forget_with, leaves
from lazyten.frontend.tensor import Tensor
from lazyten.ir.node import toposort, unshaped
from lazyten.ir.ops import Op
from lazyten.storage import collectives
from lazyten.storage.placeholder import Placeholder
from lazyten.storage.storage import Buffer, Storage
from lazyten.support.errors import JitError
from lazyten.support.trees import flatten, unflatten

_SLOT: Any = next(vars(part)["_grad"] for part in Tensor.__mro__ if "_grad" in vars(part))
"""Where a stand-in, which has no gradient of its own, keeps the argument."""


def _forwarded(name: str) -> property:
    def get(self: Any) -> Any:
        return getattr(_SLOT.__get__(self), name)

    def put(self: Any, value: Any) -> None:
        setattr(_SLOT.__get__(self), name, value)
    return property(get, put)


@dataclass(frozen=True, slots=True, eq=False)
class InPython:
    """A call that was not recorded to the end, as calls like it are not: of the same signature, in
    the same environment. reason: what ended it. result: what it gave."""

    environment: Environment
    reason: JitError
    result: Any = None

    def holds(self, arguments: Sequence[Tensor]) -> bool:
        """Whether a call with these arguments is like it."""
        return not self.environment.has_changed


class NotBegun(JitError):
    """A function cannot be recorded with its arguments, and was not called."""


class StandIn(Tensor):
    """What the function has in place of an argument, once it goes on for real: all that it is, and
    all that becomes of it, is the argument's."""

    __slots__ = ()
    _storage = _forwarded("_storage")
    _moves = _forwarded("_moves")
    _lineage = _forwarded("_lineage")
    _grad = _forwarded("_grad")
    _hooked = _forwarded("_hooked")
    _retains = _forwarded("_retains")

    @property
    def is_leaf(self) -> bool:
        """Whether no recorded operation made the argument."""
        return bool(argument_of(self).is_leaf)

    def _own_leaf(self) -> None:
        argument_of(self)._own_leaf()


def argument_of(tensor: Any) -> Any:
    """The argument that a tensor stands in for; anything else as it is, also in containers."""
    if type(tensor) is StandIn:
        return _SLOT.__get__(tensor)
    if not isinstance(tensor, list | tuple | dict):
        return tensor
    found, structure = flatten(tensor)
    if not any(type(x) is StandIn for x in found):
        return tensor
    return unflatten(iter([argument_of(x) if type(x) is StandIn else x for x in found]), structure)


def go_on(capture: Recording) -> None:
    """Let everything be as if the function had run until here without a trace. Nobody listens any
    more when this is called."""
    now = {storage: _State(storage) for storage in capture.before}
    for storage, before in capture.before.items():
        before.give_back(storage)
    _give_memory(capture)
    for storage, before in capture.before.items():
        real = capture.real.get(storage, storage)
        _take_over(real, storage, now[storage], before)
    _share(capture)
    _give_gradients(capture)
    for shadow, argument in zip(capture.shadows, capture.arguments, strict=True):
        if type(shadow) is not StandIn:
            _SLOT.__set__(shadow, argument)
            shadow.__class__ = StandIn
    _join(capture)
    for node in toposort([storage._node for storage in capture.collectives]):
        if node.op is Op.COLLECTIVE:
            collectives.note(node)
    for act in capture.captured.afterwards:
        act()


class _State:
    """What the trace has made of a storage."""

    __slots__ = ("companions", "keeps_graph", "leaf_id", "node", "was_freed")

    def __init__(self, storage: Storage) -> None:
        self.node, self.keeps_graph = storage._node, storage.keeps_graph
        self.leaf_id, self.companions = storage.leaf_id, storage.companions
        self.was_freed = storage.was_freed


def _give_memory(capture: Recording) -> None:
    """Bind the placeholders to the memory of what they stand for: values as they were before the
    call, and what Python computes for each."""
    reals = [capture.real.get(storage, storage) for storage in capture.before]
    for real in reals:
        real.refresh()
    realize(reals)
    for real, before in zip(reals, capture.before.values(), strict=True):
        unshaped(before.stand_in).arg.bind(real.buffer)
    for item in capture.captured.script:
        if isinstance(item, HostInput):
            values = np.ascontiguousarray(item.refresh(), item.dtype.numpy)
            capture.hosts[item.number].bind(Buffer.from_numpy(values, item.dtype, item.device))
        else:
            item()


def _take_over(real: Storage, storage: Storage, now: _State, before: Before) -> None:
    """What was written to a storage, or its stand-in, the real one has."""
    if storage is real:
        real.leaf_id = now.leaf_id
    elif now.leaf_id is not None:
        _join_leaves(real, now.leaf_id)
    if now.node is not before.stand_in:
        node = now.node
        if real.shared is not None:
            node = computed(node, real.device, now.keeps_graph)
        real.assign(node, now.keeps_graph)
        real.companions = now.companions
    real.was_freed, real.keeps_graph = now.was_freed, now.keeps_graph
    if now.leaf_id is None:
        real.cease_to_be_leaf()
    if storage is not real:  # somebody may be about to read it
        storage._node, storage.keeps_graph = real._node, real.keeps_graph
        storage.leaf_id, storage.was_freed = real.leaf_id, real.was_freed


def _join_leaves(real: Storage, leaf_id: int) -> None:
    """What the trace has read through its LEAF for a storage is read of the storage's own."""
    if real.leaf_id is None:
        real.leaf_id = leaf_id
        return
    owner = leaves.get(real.leaf_id)
    if owner is not None:
        leaves[leaf_id] = owner
    hooks.is_also(real.leaf_id, leaf_id)
    forget_with(real, leaf_id)


def _share(capture: Recording) -> None:
    """Tensors share the memory of the arrays that they were made of."""
    for storage, array in capture.sharing.items():
        storage.share(array)


def _give_gradients(capture: Recording) -> None:
    for used in capture.gradients.values():
        number = capture.numbers.get(id(used.tensor))
        tensor = used.tensor if number is None else capture.arguments[number]
        final = used.tensor._grad
        tensor._grad = used.before if final is used.stand_in and not used.replaced else final


def _join(capture: Recording) -> None:
    """Views of stand-ins become views of what these stand for."""
    storages: Sequence[Storage] = list(capture.real)
    for holder in gc.get_referrers(*storages) if storages else ():
        if isinstance(holder, Tensor) and type(holder) is not StandIn:
            holder._storage = capture.real.get(holder._storage, holder._storage)
    for storage in capture.fresh:
        flat = unshaped(storage._node)
        if flat.op is Op.BUFFER and isinstance(flat.arg, Placeholder):
            storage._node = flat.arg.node(storage._node.shape)
