"""The values of a tensor: computed, read and printed; and memory of them that others know."""
from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any, Self, TypeVar

import numpy as np

from lazyten.execution import frame_runs
from lazyten.execution import realization as _realization
from lazyten.frontend.core import printing
from lazyten.frontend.core.handle import Handle
from lazyten.ir import dtype as dt
from lazyten.ir import ops
from lazyten.ir.dtype import Scalar
from lazyten.ir.movement import in_a_row
from lazyten.ir.node import Shape
from lazyten.ir.ops import Op
from lazyten.storage import tracing
from lazyten.storage.device import executor
from lazyten.storage.frames import refuse_values
from lazyten.storage.placement import default_device, has_values
from lazyten.storage.storage import READING, Buffer, Storage
from lazyten.support.errors import ArgumentError, DTypeError, ShapeError, TransformError
from lazyten.support.grad_mode import no_grad
from lazyten.symbolic.view import moved_array

Array = np.ndarray[Any, Any]
Tensor = TypeVar("Tensor", bound="Values[Any]")


def filled(number: Scalar, shape: Shape, dtype: dt.DType) -> Array:
    """An array of one number, as a type holds it. (NumPy's zeros take no memory until they are
    looked at.)"""
    if number == 0 and math.copysign(1, number) > 0:
        return np.zeros(shape, dtype.compute)
    return np.full(shape, ops.round_to(np.asarray(number, dtype.compute), dtype), dtype.compute)


class Values(Handle[Tensor]):
    """What computes."""

    __slots__ = ()

    def realize(self) -> Self:
        """Compute the value now; gives this tensor."""
        frame_runs.look(self._storage)
        return self

    def numpy(self, *, force: bool = False) -> Array:
        """The values as a new NumPy array (bfloat16 as float32, which NumPy lacks), also of what
        requires gradients, so `force` is not needed. DTypeError for 8-bit floats."""
        if self.dtype.is_stored:
            raise DTypeError(f"numpy of {self.dtype.name}: NumPy has no such type; use "
                             f".float().numpy()")
        return self._as_array()

    def _as_array(self) -> Array:
        """The values as a new NumPy array, of float32 where NumPy lacks the type."""
        tracing.refuse(*READING)
        number = self._storage.number
        if number is not None and has_values(self.device):
            executor(self._storage.device)  # which may be missing
            values = filled(number, self.shape, self.dtype)
        else:
            self.realize()
            values = self._storage.read(self._moves)
        return values.astype(np.float16) if self.dtype is dt.float16 else values

    def tolist(self) -> Any:
        """The values as nested lists of Python numbers; a number for a zero-dim tensor."""
        return self._as_array().tolist()

    def item(self) -> Scalar:
        """The value of a tensor of one element. ShapeError for any other."""
        value = self._first()
        if value is None and self.numel() != 1:
            raise ShapeError(f"item of a tensor of shape {self.shape}: it has {self.numel()} "
                             f"elements, and item() is for one; use tolist()")
        return self._as_array().item() if value is None else value

    def _first(self) -> Scalar | None:
        """The only element, where that can be read from memory at once; else None."""
        storage = self._storage
        outline = storage.outline
        row = in_a_row(outline.shape, self._moves) if self._moves else (0, math.prod(outline.shape))
        if row is None or row[1] != 1:
            return None
        if tracing.active is not None:
            tracing.refuse(*READING)
        if outline.op is Op.CONST or storage.shared is not None:
            return None
        buffer = frame_runs.look(storage)
        if tracing.active is not None:
            tracing.touched(storage)
        return buffer.element(row[0]) if isinstance(buffer, Buffer) else None

    def __bool__(self) -> bool:
        if self.numel() != 1:
            raise ShapeError(f"bool of a tensor of shape {self.shape}: the truth of "
                             f"{self.numel()} elements is ambiguous; use any() or all()")
        return bool(self.item())

    def __int__(self) -> int:
        value = self.item()
        if not math.isfinite(value):
            raise ArgumentError(f"int of a tensor that holds {value}: it is not a whole number; "
                                f"use float()")
        return int(value)

    def __float__(self) -> float:
        return float(self.item())

    def __index__(self) -> int:
        if not (self.dtype.is_int or self.dtype is dt.bool_):
            raise DTypeError(f"a tensor of {self.dtype.name} cannot be an index: it must be an "
                             f"integer; convert with .long()")
        return int(self.item())

    def _shows_dtype(self) -> bool:
        """Whether the numbers alone do not tell their type."""
        default = (dt.default_float, dt.default_int, dt.bool_)
        return self.dtype not in default if self.numel() and has_values(self.device) else \
            self.dtype is not dt.default_float

    def __repr__(self) -> str:
        shows_values = has_values(self.device)
        with no_grad():
            values = self.detach()._as_array() if shows_values else None
        suffixes = []
        if values is None or not values.size and values.ndim != 1:
            suffixes.append(f"size={tuple(self.shape)}")
        if self._shows_dtype():
            suffixes.append(f"dtype={self.dtype}")
        if self.device != default_device():
            suffixes.append(f"device='{self.device}'")
        if self.requires_grad:
            suffixes.append("requires_grad=True")
        return printing.format_tensor(values, suffixes)

    def __format__(self, spec: str) -> str:
        return super().__format__(spec) if self.shape else format(self.item(), spec)


# ---- memory that others know ---------------------------------------------------------------------

def over(array: Array, copied: Callable[[Array], Any]) -> Any:
    """A tensor over an array's memory; copied: makes one of its elements. Where axes were permuted,
    it is a view of one that is contiguous, so that both have the same strides. On a device that is
    not in the host's memory it stays a copy."""
    straight = array
    if not array.flags.c_contiguous:
        order = sorted(range(array.ndim), key=lambda axis: -array.strides[axis])
        permuted = array.transpose(order)
        straight = permuted if permuted.flags.c_contiguous else array
    result = copied(straight)
    observer = tracing.current()
    if observer is not None:
        observer.array_shared(result._storage, straight)
    else:
        result._storage.share(straight)
    if straight is array:
        return result
    return result.permute([order.index(axis) for axis in range(array.ndim)])


def stored(array: Array, kind: dt.DType, device: str) -> Any:
    """A tensor with a copy of elements that are stored as this type's are."""
    return Handle._of(Buffer.from_numpy(array, kind, device).node(array.shape), device)


def shown_as_type(tensor: Handle[Any], dtype: dt.DType) -> Any:
    """A tensor's memory as another type's: what is written to one shows in the other, and no
    gradient flows. Both share an array from now on, so the device must be in the host's memory
    (DTypeError); what cannot be written, as a file, is copied. ShapeError where the elements do not
    lie in the last axis as the other type's would."""
    refuse_values()
    tracing.refuse(*READING)  # before its storage is looked at, which is another's until then
    what = f"view of {tensor.dtype.name} {tensor.shape} as {dtype.name}"
    try:
        memory = _memory(tensor._storage, what)
    except TransformError:
        raise TransformError(f"{what} under a transform: there is no memory that both could show; "
                             f"bitcast() is a new tensor of the same bits, for types of one "
                             f"width") from None
    array = _part(memory, tensor, what)
    try:
        shown = array.view(dtype.numpy)
    except ValueError as error:
        raise ShapeError(f"{what}: {error}; use contiguous(), or bitcast() for a type of the same "
                         f"width") from None
    if dtype is dt.bool_ and shown.size and shown.view(np.uint8).max() > 1:
        raise DTypeError(f"{what}: some bytes are neither 0 nor 1; use bool() for what is not 0")
    shared = tensor._storage.shared
    copied = partial(stored, kind=dtype, device=tensor.device)
    return over(shown, copied) if shared is not None and shared.is_writable else copied(shown)


def _part(memory: Array, tensor: Handle[Any], what: str) -> Array:
    """What a view shows of its storage's memory, an alias."""
    view, width = tensor._tracker.single, memory.itemsize
    if not tensor.numel():
        return np.empty(tensor.shape, memory.dtype)
    if memory.flags.c_contiguous and view is not None and view.mask is None:
        strides = [width if n == 1 else s * width
                   for n, s in zip(view.shape, view.strides, strict=True)]
        return np.ndarray(view.shape, memory.dtype, memory, view.offset * width, strides)
    part = moved_array(memory, tensor._moves)
    if not np.may_share_memory(part, memory):
        raise ShapeError(f"{what}: NumPy has no such view of the array whose memory the tensor "
                         f"shares; use contiguous()")
    return part


def _memory(storage: Storage, what: str) -> Array:
    """The memory of a storage, which is shared from now on."""
    if storage.shared is None:
        _realization.realize([storage])
        if not storage.node.numel:
            return np.empty(storage.shape, storage.dtype.numpy)
        if not storage.share():
            raise DTypeError(f"{what}: the memory of '{storage.device}' is not the host's, so it "
                             f"has one type; bitcast() makes a new tensor of the same bits")
    assert storage.shared is not None
    return storage.shared.array
