"""Tensors that share the memory of NumPy arrays, and of other libraries by DLPack."""
from __future__ import annotations

import warnings
from functools import partial
from typing import Any

import numpy as np

from lazyten.frontend.core.forms import in_floats, or_by_form
from lazyten.frontend.core.operands import tensors_given
from lazyten.frontend.core.values import over, stored
from lazyten.frontend.tensor import DTypeLike, Tensor
from lazyten.ir import dtype as dt
from lazyten.ir.dtype import DType
from lazyten.storage.placement import default_device, placed
from lazyten.storage.untyped import FileStorage
from lazyten.support.errors import ArgumentError, ComplexError, DTypeError

Array = np.ndarray[Any, Any]


@or_by_form
def from_numpy(array: Array) -> Tensor:
    """A tensor that shares the memory of a NumPy array: what is written to one shows in the other.

    The array may have any strides and byte order. A read-only one is warned of, as the tensor
    cannot be written then. On a device that is not in the host's memory the values are copied.
    """
    if not isinstance(array, np.ndarray):
        raise DTypeError(f"from_numpy takes a NumPy array, not {type(array).__name__}; "
                         f"use tensor()")
    return _sharing(array, default_device())


@or_by_form
def as_tensor(data: Any, dtype: DTypeLike | None = None, device: str | None = None) -> Tensor:
    """`data` as a tensor, with as little copied as can be: itself if it is a tensor of this dtype
    on this device; sharing its memory if it is an array of this dtype; otherwise a new tensor."""
    if isinstance(data, Tensor):
        return data.to(dtype=dtype, device=device)
    where = placed(device)
    if isinstance(data, FileStorage):
        data = data.content  # only read, as is what shares its memory
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return _sharing(data, where).to(dtype=dtype)
    if isinstance(data, np.generic) or not hasattr(data, "__array__"):
        return Tensor._copy_of(data, dtype, where)
    array = np.asarray(data)
    if array.dtype.kind == "c":
        raise ComplexError
    if dtype is not None and dt.from_numpy(array.dtype) is not dt.as_dtype(dtype):
        return Tensor._copy_of(array, dtype, where)
    return _sharing(array, where)


def asarray(obj: Any, *, dtype: DTypeLike | None = None, device: str | None = None,
            copy: bool | None = None, requires_grad: bool | None = None) -> Tensor:
    """`as_tensor`, which always copies if `copy`, and never if that is False: ArgumentError if it
    would have to. With `requires_grad` False it is detached, with True it has a gradient."""
    made = as_tensor(obj, dtype, device)
    if copy:
        made = made.clone()
    elif copy is not None and not _is_shared(made, obj):
        raise ArgumentError(f"asarray with copy=False of a {type(obj).__name__} on '{made.device}' "
                            f"in {made.dtype.name}: that takes a copy; leave copy= out")
    if requires_grad is None:
        return made
    return made.requires_grad_() if requires_grad else made.detach()


def _is_shared(made: Tensor, obj: Any) -> bool:
    """Whether as_tensor made a tensor of an object without a copy."""
    shared = in_floats(made)._storage.shared
    return made is obj or isinstance(obj, np.ndarray) and shared is not None \
        and np.shares_memory(obj, shared.array)


@or_by_form
def from_dlpack(ext_tensor: Any, *, device: str | None = None,
                copy: bool | None = None) -> Tensor:
    """A tensor that shares the memory of what another library gives by DLPack, on a CPU: an array,
    or a capsule of one. device: where the tensor is to be; copy: it is to have memory of its own,
    or, if that is False, must not (ArgumentError if it would have to)."""
    kind = type(ext_tensor).__name__
    try:
        array = np.from_dlpack(Capsule(ext_tensor) if kind == "PyCapsule" else ext_tensor)
    except (AttributeError, BufferError, RuntimeError, TypeError):
        raise DTypeError(f"from_dlpack of a {kind}: it gives no DLPack capsule in a "
                         f"CPU's memory of a type that NumPy has; convert it first, and detach it "
                         f"from gradients") from None
    made = from_numpy(array).to(placed(device)) if array.dtype.kind == "c" else \
        _sharing(array, placed(device))
    if copy is False and not _is_shared(made, array):
        raise ArgumentError(f"from_dlpack with copy=False to '{made.device}': that takes a copy; "
                            f"leave copy= out")
    return made.clone() if copy else made


class Capsule:
    """A capsule of an array in a CPU's memory, as what gives it, once."""

    def __init__(self, capsule: Any) -> None:
        self._capsule = capsule

    def __dlpack__(self, **options: Any) -> Any:
        return self._capsule

    def __dlpack_device__(self) -> tuple[int, int]:
        return 1, 0


def to_dlpack(tensor: Tensor) -> Any:
    """A tensor's values as a capsule, which `from_dlpack` takes once."""
    tensors_given("to_dlpack", tensor)
    return tensor.__dlpack__()


@or_by_form
def frombuffer(buffer: Any, *, dtype: DTypeLike, count: int = -1, offset: int = 0,
               requires_grad: bool = False) -> Tensor:
    """A tensor of one axis that shares the memory of `buffer`, such as a bytearray or a memoryview:
    `count` elements, or all, from byte `offset` on."""
    kind = dt.as_dtype(dtype)
    try:
        if not memoryview(buffer).nbytes or not count or offset >= memoryview(buffer).nbytes:
            raise ValueError("there is nothing to share; give a buffer with a byte at the offset, "
                             "and a count that is not 0")
        array = np.frombuffer(buffer, kind.numpy, count, offset)
    except (ValueError, TypeError, AttributeError) as error:
        raise ArgumentError(f"frombuffer of {type(buffer).__name__} with dtype={kind.name}, "
                            f"count={count}, offset={offset}: {error}") from None
    shown = dt.from_numpy(array.dtype)
    result = _sharing(array, default_device(), None if shown is kind else kind)
    return result.requires_grad_() if requires_grad else result


def _sharing(array: Array, device: str, kind: DType | None = None) -> Tensor:
    """A tensor over an array's memory, of the type of its elements, or of another of this width
    that NumPy lacks."""
    copied = partial(Tensor._copy_of, device=device) if kind is None else \
        partial(stored, kind=kind, device=device)
    result: Tensor = over(array, copied)
    if result._storage.shared is not None and not array.flags.writeable:
        warnings.warn(f"an array of shape {array.shape} is read-only, so the tensor that shares "
                      f"its memory cannot be written; tensor() makes a copy that can",
                      UserWarning, stacklevel=5)
    return result
