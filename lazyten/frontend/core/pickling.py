"""Tensors as Python's pickle takes them.

A storage is written once for all tensors of a pickle that share it, views too, so they share one
when they come back. What a pickle holds of one is plain: an array, a shape, and the names of an
element type and a device. `.grad` and hooks are not in it, as with PyTorch. Reading a pickle runs
what it says, so nothing here reads one: `load` does where the user trusts a file (saving/).
"""
from __future__ import annotations

import copyreg
import math
import warnings
from multiprocessing.context import get_spawning_popen
from typing import Any

from lazyten.autodiff import hooks
from lazyten.execution.lineage import Lineage
from lazyten.frontend.core import handle
from lazyten.ir import dtype as dt
from lazyten.ir import ops
from lazyten.ir.movement import Moves
from lazyten.ir.node import Shape, const
from lazyten.storage.deferred import Deferred
from lazyten.storage.placement import has_values
from lazyten.storage.storage import Storage
from lazyten.storage.untyped import UntypedStorage
from lazyten.support.errors import NotDefinedError

Reduced = tuple[Any, ...]
KINDS: dict[str, type[Any]] = {}
"""Classes that are known in pickles by these names, as `lazyten run` has them say others."""


def reduced(t: Any, is_alone: bool = False) -> Reduced:
    """What a pickle holds of a tensor. One that an operation made, and gradients flow through,
    comes back as a leaf of its own. is_alone: the rest of the memory of which it is a view is left
    out, and nobody shares it. Raises NotDefinedError for one of memory that processes share, which
    a process that is spawned would get a copy of."""
    if t._storage.shared is not None and get_spawning_popen() is not None and t.is_shared():
        raise NotDefinedError(f"a tensor of shape {t.shape} after share_memory_(), for a process "
                              f"that is spawned: it would get a copy; start processes by fork "
                              f"(multiprocessing.set_start_method('fork'))")
    flows, held = t.requires_grad, t
    if flows and not t.is_leaf or is_alone and t.numel() < math.prod(t._storage.shape):
        held = t.detach().clone()
    elif flows and hooks.is_of_leaf(t._leaf_id):
        warnings.warn(f"pickle of a tensor of shape {t.shape} that hooks are registered on: they "
                      f"are not in it; register them where it is read", stacklevel=3)
    is_apart = not flows and held._storage.requires_grad
    kind = next((name for name, named in KINDS.items() if type(t) is named), type(t))
    return _rebuilt, (kind, held._storage, held._moves, flows, is_apart), attributes_of(t)


def _rebuilt(kind: type[Any] | str, storage: Storage, moves: Moves, flows: bool,
             is_apart: bool) -> Any:
    """The tensor again. flows: it is a leaf; is_apart: another that shares its storage is one."""
    result: Any = object.__new__(KINDS[kind] if isinstance(kind, str) else kind)
    result._hold(storage, moves)
    if is_apart:
        result._lineage = Lineage()
    return result.requires_grad_() if flows else result


def attributes_of(t: Any) -> Any:
    """What a program, or a subclass, has noted beside the values; None if that is nothing."""
    kind: Any = type(t)
    if kind.__getstate__ is not object.__getstate__:
        return t.__getstate__()
    own = [part for part in kind.__mro__ if part not in handle.results.__mro__]
    noted = {name: getattr(t, name) for part in own for name in _slots(part) if hasattr(t, name)}
    attributes = vars(t).copy()
    return (attributes, noted) if noted else attributes or None


def _slots(kind: type[Any]) -> list[str]:
    """What instances of a class have besides attributes."""
    found = vars(kind).get("__slots__", ())
    return [name for name in ([found] if isinstance(found, str) else found) if name[:2] != "__"]


def _storage_parts(storage: Storage) -> Reduced:
    """What a pickle, or a copy, has of a storage: its values as they are stored, if it has any."""
    values = None
    if has_values(storage.device):
        storage.refresh()
        whole: Any = handle.Handle._view(storage, (), Lineage())
        values = ops.encode(whole._as_array(), storage.dtype)
    return _rebuilt_storage, (values, storage.shape, storage.dtype.name, str(storage.device))


def _rebuilt_storage(values: Any, shape: Shape, name: str, device: str) -> Storage:
    dtype = dt.BY_NAME[name]
    if values is None:
        return Storage(const(0, dtype, tuple(shape)), device)
    made = handle.results._copy_of(ops.decode(values, dtype), dtype, device)
    storage: Storage = made._storage
    return storage


def _untyped_parts(storage: UntypedStorage) -> Reduced:
    return UntypedStorage, (storage._storage,)


for _kind in (Storage, Deferred):
    copyreg.pickle(_kind, _storage_parts)
copyreg.pickle(UntypedStorage, _untyped_parts)
