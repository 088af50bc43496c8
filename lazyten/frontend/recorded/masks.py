"""Elements that a mask chooses of a tensor in memory: read and written by the host, not looked up.

In: a tensor that gradients do not flow through, and a mask of its first axes. Out: the elements, in
memory of their own, or the tensor with others in their place. How many they are is known once the
mask is read, and is another number each time: all that is made of places among the rest would be
another program for each.
"""
from __future__ import annotations

import math
from typing import Any

import numpy as np

from lazyten.execution import realization
from lazyten.frontend.core import handle
from lazyten.frontend.core.handle import Handle
from lazyten.frontend.recorded.regions import EACH_ONCE, in_memory, is_plain
from lazyten.ir.dtype import bool_
from lazyten.storage.device import executor
from lazyten.storage.storage import Buffer, Storage
from lazyten.symbolic.view import moved_array

MOST_BYTES = 1 << 20
"""Of more than so many a kernel takes its part in less time than the host copies it."""


def is_mask_of(index: Any, x: Any) -> bool:
    """Whether an index is a mask of a tensor's first axes, on its device."""
    if index.__class__ is not handle.results or x.__class__ is not handle.results:
        return False
    n = len(index.shape)
    return index.dtype is bool_ and n > 0 and index.shape == x.shape[:n] \
        and index._storage.device == x._storage.device


def chosen(x: Any, index: Any) -> Any:
    """The elements that a mask chooses, as a tensor; None where the host is not to read them."""
    if not is_mask_of(index, x) or not _is_hosts(x):
        return None
    _compute(x, index)
    values = _stored(x)
    return None if values is None else \
        _of_memory(x, np.ascontiguousarray(values[index._as_array()]))


def is_put(x: Any, index: Any, value: Any) -> bool:
    """Whether elements have taken the places that a mask chooses, one each. Nothing is written
    where the host is not to do that."""
    if value.__class__ is not handle.results or not is_mask_of(index, x) \
            or not (_is_hosts(x) and _is_hosts(value)) \
            or value._storage.dtype is not x._storage.dtype \
            or value._storage.device != x._storage.device \
            or not EACH_ONCE.issuperset([op for op, _ in x._moves]):
        return False
    storage = x._storage
    if storage.dtype.itemsize * math.prod(storage.shape) > MOST_BYTES:  # all of it is copied
        return False
    storage.occupy()
    _compute(x, index, value)
    whole, given = in_memory(x), _stored(value)
    if whole is None or given is None:
        return False
    changed, mask = whole.numpy().reshape(storage.shape), index._as_array()
    shown = moved_array(changed, x._moves)
    if given.shape != (np.count_nonzero(mask), *shown.shape[mask.ndim:]) \
            or not np.may_share_memory(shown, changed):  # as a view that is reshaped may not
        return False
    shown[mask] = given
    storage.replace(Buffer.from_numpy(changed, storage.dtype, storage.device).node(storage.shape))
    return True


def _is_hosts(x: Handle[Any]) -> bool:
    storage = x._storage
    return is_plain(x) and storage.shared is None and executor(storage.device).is_host \
        and storage.dtype.itemsize * x.numel() <= MOST_BYTES


def _compute(*tensors: Handle[Any]) -> None:
    """Compute tensors: those that a frame knows alone, at one look."""
    by_frame: dict[Any, list[Storage]] = {}
    for x in tensors:
        by_frame.setdefault(x._storage._frame, []).append(x._storage)
    for storages in by_frame.values():
        realization.realize(dict.fromkeys(storages))


def _stored(x: Handle[Any]) -> np.ndarray[Any, Any] | None:
    """What a tensor shows of the host's memory, as it is stored."""
    whole = in_memory(x)
    flat = None if whole is None else whole.view()
    return None if flat is None else moved_array(flat.reshape(x._storage.shape), x._moves)


def _of_memory(x: Handle[Any], values: np.ndarray[Any, Any]) -> Any:
    """A tensor of these values, as they are stored."""
    own = x._storage
    stored = Buffer.from_numpy(values, own.dtype, own.device).node(values.shape)
    return Handle._view(Storage(stored, own.device), (), None)
