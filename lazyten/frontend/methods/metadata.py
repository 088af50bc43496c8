"""What a tensor says about itself: sizes in bytes, identity of storage, how it came to be; copies
of it, and how other libraries see it."""
from __future__ import annotations

import math
from collections.abc import Sequence
from multiprocessing.context import get_spawning_popen
from typing import Any, Self

import numpy as np

from lazyten.autodiff import gradient
from lazyten.autodiff.functions_back import GradFn
from lazyten.frontend.core import pickling
from lazyten.frontend.core.handle import leaves
from lazyten.frontend.core.keywords import Layout, MemoryFormat, channels_last, strided
from lazyten.frontend.core.tensor_core import Tensor, TensorCore
from lazyten.ir import dtype as dt
from lazyten.ir.node import toposort
from lazyten.ir.ops import Op
from lazyten.operators.math import shapes
from lazyten.storage import tracing
from lazyten.storage.placement import has_values
from lazyten.storage.shared_memory import between_processes
from lazyten.storage.storage import Storage
from lazyten.storage.untyped import TypedStorage, UntypedStorage
from lazyten.support.errors import (
    ArgumentError,
    DeviceError,
    DTypeError,
    GradientError,
    NotDefinedError,
    ShapeError,
)
from lazyten.support.grad_mode import is_grad_enabled

Array = np.ndarray[Any, Any]
CPU = (1, 0)
"""DLPack's name of a CPU's memory."""


class MetadataMethods(TensorCore[Tensor]):
    """Sizes, identity, copies and the way to other libraries."""

    __slots__ = ()

    @property
    def itemsize(self) -> int:
        """Bytes an element."""
        return self.dtype.itemsize

    @property
    def nbytes(self) -> int:
        """Bytes of all elements; the storage of a view may be larger, or smaller."""
        return self.numel() * self.dtype.itemsize

    def nelement(self) -> int:
        """The number of elements."""
        return self.numel()

    def ndimension(self) -> int:
        """The number of axes."""
        return self.ndim

    def dim_order(self, *, ambiguity_check: bool | list[MemoryFormat] = False) -> tuple[int, ...]:
        """The axes as they are in memory, that of the largest stride first; of equal ones, that of
        more elements.

        ambiguity_check: ArgumentError if axes of size 1 or of equal strides could as well be
        elsewhere; of a list of memory formats, only unless the tensor is in one of them alone.
        """
        formats = ambiguity_check if isinstance(ambiguity_check, list) else []
        if not isinstance(ambiguity_check, bool) and not (
                formats and all(isinstance(f, MemoryFormat) for f in formats)):
            raise ArgumentError(f"dim_order: ambiguity_check={ambiguity_check!r:.60} must be a "
                                f"bool or a list of memory formats")
        strides = self.stride()
        many = 1 in self.shape or 0 in strides or len(set(strides)) < self.ndim
        if ambiguity_check and many \
                and sum(self.is_contiguous(f) for f in formats) != 1:
            raise ArgumentError(f"dim_order: axes of shape {self.shape} and strides {strides} "
                                f"could be in several orders")
        if self.is_contiguous():
            return tuple(range(self.ndim))
        if self.ndim == 4 and self.is_contiguous(channels_last):
            return 0, 2, 3, 1
        sizes = self.shape
        return tuple(sorted(range(self.ndim), key=lambda axis: (-strides[axis], -sizes[axis])))

    def is_floating_point(self) -> bool:
        """Whether the elements are floats."""
        return self.dtype.is_float

    def is_complex(self) -> bool:
        """Whether the elements are complex."""
        return False

    @property
    def real(self) -> Tensor:
        """The tensor itself, as its elements are real."""
        return self._same()

    def conj(self) -> Self:
        """The tensor itself, as its elements are real."""
        return self

    conj_physical = conj

    def conj_physical_(self) -> Self:
        """The tensor itself, as its elements are real."""
        return self

    def resolve_conj(self) -> Self:
        """The tensor itself: no tensor shows another's elements as their conjugates."""
        return self

    def resolve_neg(self) -> Self:
        """The tensor itself: no tensor shows another's elements with the other sign."""
        return self

    @property
    def is_cuda(self) -> bool:
        """Whether the values are on an NVIDIA GPU."""
        return self.device.partition(":")[0] == "cuda"

    @property
    def is_cpu(self) -> bool:
        """Whether the device is the cpu."""
        return self.device.partition(":")[0] == "cpu"

    @property
    def is_meta(self) -> bool:
        """Whether it is on 'meta', where no tensor has values."""
        return not has_values(self.device)

    is_mps = is_xpu = is_xla = is_vulkan = is_ipu = is_maia = is_mtia = False
    is_sparse = is_sparse_csr = is_mkldnn = is_nested = is_quantized = False
    """Other devices of PyTorch, and other ways to store elements: never."""

    def is_pinned(self, device: object = None) -> bool:
        """Whether the memory is locked for copies to a GPU: never, they are made from any."""
        return False

    def pin_memory(self, device: object = None) -> Self:
        """The tensor itself; see is_pinned."""
        return self

    def get_device(self) -> int:
        """The number of the device among its kind; -1 for the cpu."""
        index = self.device.index
        return -1 if index is None else index

    def is_signed(self) -> bool:
        """Whether the elements can be below 0."""
        return self.dtype.kind in "ifsc"

    def is_neg(self) -> bool:
        """Whether it shows another's elements with the other sign, which nothing does: never."""
        return False

    def is_conj(self) -> bool:
        """Whether it shows another's elements as their conjugates: never, as numbers are real."""
        return False

    def record_stream(self, stream: Any) -> None:
        """Nothing: memory is used again once what reads it was launched, in one order."""

    @property
    def name(self) -> None:
        """None: gradients' nodes have names, tensors have not."""

    @property
    def output_nr(self) -> int:
        """0: operations that give several tensors are several operations."""
        return 0

    def is_nonzero(self) -> bool:
        """Whether the one element is not 0. ShapeError for another number of elements."""
        return bool(self.item())

    def is_same_size(self, other: Tensor) -> bool:
        """Whether the shapes are equal."""
        return self.shape == self._tensor(other, "is_same_size").shape

    def untyped_storage(self) -> UntypedStorage:
        """The identity of the storage: x.untyped_storage() == y.untyped_storage() says whether a
        write to one may show in the other."""
        tracing.placed(self._storage)
        return UntypedStorage(self._storage)

    def storage(self) -> TypedStorage:
        """What the values live in, as a row of elements; those of a view are among them."""
        return TypedStorage(self.untyped_storage()._storage, self._row())

    def _row(self) -> Tensor:
        """All elements of the storage, in order."""
        whole: Any = self.detach()  # whose method is another part's
        row: Tensor = whole.as_strided((self._storage.value.numel,), (1,), 0)
        return row

    def set_(self, source: Tensor | UntypedStorage | None = None, storage_offset: int = 0,
             size: Sequence[int] | None = None, stride: Sequence[int] | None = None) -> Self:
        """Have this tensor show another's elements, or those of its storage that an offset from its
        first, sizes and strides say; without a source, none. They share memory from then on, unless
        this requires gradients (see `.data`). DTypeError for another element type, ArgumentError or
        ShapeError for elements that the storage has not."""
        given: Any
        if source is None:
            given = self._copy_of([], self.dtype, self.device)
        elif isinstance(source, UntypedStorage):
            given = self._view(source._storage, (), None)
        else:
            given = self._tensor(source, "set_")
        if given.dtype is not self.dtype:
            raise DTypeError(f"set_ of {self.dtype.name} to {given.dtype.name}: the types must be "
                             f"equal; assign to .data, or convert with .to()")
        if isinstance(source, UntypedStorage) or size is not None:
            row = given._row()
            start = shapes.as_int(storage_offset, "set_", "storage_offset")
            if start < 0:
                raise ArgumentError(f"set_: storage_offset {start} is before the first element")
            start += given.storage_offset()
            sizes = (row.numel() - start,) if size is None else shapes.new_shape([size], "set_")
            given = row[start:start + math.prod(sizes)].view(sizes) if stride is None else \
                row.as_strided(sizes, stride, start)
        self.data = given
        return self

    @property
    def layout(self) -> Layout:
        """How the elements are stored: lazyten.strided."""
        return strided

    def is_inference(self) -> bool:
        """Whether it was made in inference mode, which makes no difference here: never."""
        return False

    def is_set_to(self, other: Tensor) -> bool:
        """Whether both are the same elements of one storage, in the same order."""
        self._tensor(other, "is_set_to").storage_offset()
        return (self._storage is other._storage and self.shape == other.shape
                and self.storage_offset() == other.storage_offset()
                and self.stride() == other.stride())

    def share_memory_(self) -> Self:
        """Have its values, and those of its views, in memory that processes which are forked later
        share with this one: what either writes is what both read. Computes the tensor. DeviceError
        where memory is not the host's."""
        storage = _computed(self, "share_memory_")
        if not self.is_shared() and storage.node.numel:
            buffer = storage.buffer
            values = None if buffer is None else buffer.view()
            if values is None:
                raise DeviceError(f"share_memory_: memory of '{self.device}' is not the host's, "
                                  f"which processes share; move the tensor with .cpu()")
            storage.share(between_processes(values.reshape(storage.shape)))
        return self

    def is_shared(self) -> bool:
        """Whether share_memory_() was called of what has these values."""
        shared = self._storage.shared
        return shared is not None and shared.is_between_processes

    def data_ptr(self) -> int:
        """The address of the first element. Computes the tensor. It changes with each write, unless
        memory is shared: to ask whether tensors share memory, compare untyped_storage()."""
        storage = _computed(self, "data_ptr")
        if storage.shared is not None:
            array = _view_of(self, storage.shared.array)
            if array is not None:
                return int(array.ctypes.data)
        address = None if storage.buffer is None else storage.buffer.handle
        if not isinstance(address, int):
            raise ArgumentError(f"data_ptr: memory of '{self.device}' has no addresses; move the "
                                f"tensor with .cpu()")
        return address + self.storage_offset() * self.dtype.itemsize

    @property
    def grad_fn(self) -> GradFn | None:
        """The operation that made this tensor, if gradients flow back through it; None for
        leaves."""
        node = self.node
        if not self.requires_grad or node.op is Op.LEAF:
            return None
        return GradFn(node, leaves.get)

    def describe(self) -> str:
        """What kind of tensor this is, line by line; computes nothing."""
        storage, value = self._storage, self._storage.value
        computed = storage.buffer is not None
        work = 0 if computed else sum(bool(n.src) for n in toposort([value]))
        try:
            strides: object = self.stride()
        except ShapeError:
            strides = "none: not evenly spaced"
        kind = "no" if not self.requires_grad else "yes, a leaf" if self.node.op is Op.LEAF else (
            f"yes, from {gradient.operation_name(self.node)}")
        state = "computed" if computed else f"not computed yet: {work} operations"
        lines = {"shape": self.shape, "dtype": self.dtype, "device": self.device,
                 "strides": strides, "offset": self.storage_offset(),
                 "contiguous": self.is_contiguous(),
                 "storage": f"{value.numel} elements, written to {storage.version} times",
                 "value": state, "gradient": kind, "made at": self.node.where}
        width = max(map(len, lines))
        return "\n".join(f"{name:<{width}}  {value}" for name, value in lines.items())

    # ---- copies ----------------------------------------------------------------------------------

    def __reduce_ex__(self, protocol: Any) -> pickling.Reduced:
        if get_spawning_popen() is not None and self.is_shared():
            raise NotDefinedError(f"a tensor of shape {self.shape} after share_memory_(), for a "
                                  f"process that is spawned: it would get a copy; start processes "
                                  f"by fork (multiprocessing.set_start_method('fork'))")
        return pickling.reduced(self)

    @property
    def _version(self) -> int:
        """How many writes there have been to what this tensor's values live in."""
        return self._storage.version

    # ---- other libraries -------------------------------------------------------------------------

    def __dlpack_device__(self) -> tuple[int, int]:
        """Where __dlpack__ gives the values: in a CPU's memory."""
        return CPU

    def __dlpack__(self, *, stream: Any = None, max_version: Any = None, dl_device: Any = None,
                   copy: bool | None = None) -> Any:
        """The values as a DLPack capsule: memory that the tensor shares from now on, if its device
        is the host and unless `copy`."""
        if self.requires_grad:
            raise ArgumentError("DLPack of a tensor that requires gradients: they cannot be "
                                "followed outside; use detach()")
        if self.dtype is dt.bfloat16 or self.dtype.is_stored:
            raise DTypeError(f"DLPack of {self.dtype.name}: NumPy, which makes the capsule, has no "
                             f"such type; convert with .float()")
        if dl_device not in (None, CPU):
            raise ArgumentError(f"DLPack to device {dl_device}: values are given in a CPU's "
                                f"memory, {CPU}")
        array = self.numpy() if copy else _shared(self, "__dlpack__", copy is False)
        return array.__dlpack__(max_version=max_version)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Array:
        """The values as a NumPy array: a copy, but with copy=False memory that the tensor shares
        from now on. ArgumentError where it cannot."""
        if copy is not False:
            array: Array = self.numpy()
            return array if dtype is None else array.astype(dtype, copy=False)
        array = _shared(self, "__array__", True)
        if self.dtype is dt.bfloat16 or dtype is not None and np.dtype(dtype) != array.dtype:
            raise ArgumentError(f"a tensor of {self.dtype.name} as a NumPy array of another type "
                                f"needs a copy; leave out copy=False")
        return array

    def __array_wrap__(self, array: Array, context: Any = None, return_scalar: bool = False
                       ) -> Tensor:
        """What a function of NumPy gives for a tensor, as a tensor. GradientError where a gradient
        would end there, as NumPy has none."""
        if self.requires_grad and is_grad_enabled() and np.asarray(array).dtype.kind == "f":
            name = context[0].__name__ if context else "a function"
            raise GradientError(f"{name} of NumPy for a tensor that requires gradients: its result "
                                f"has none; use lazyten's function, or give x.detach()")
        return type(self)._copy_of(np.asarray(array), device=self.device)


def _computed(x: TensorCore[Tensor], operation: str) -> Storage:
    tracing.refuse(operation, "call it outside")
    storage = x.realize()._storage
    storage.refresh()
    return storage


def _shared(x: TensorCore[Tensor], operation: str, required: bool) -> Array:
    """An array over memory that the tensor shares from now on, or else, unless required, a copy."""
    storage = _computed(x, operation)
    array = None
    if storage.shared is not None or storage.share():
        assert storage.shared is not None
        array = _view_of(x, storage.shared.array)
    if array is None and required and x.numel():
        raise ArgumentError(f"{operation} without a copy, of a tensor of shape {x.shape} on "
                            f"'{x.device}': it is not evenly spaced in the host's memory; allow a "
                            f"copy")
    return x.numpy() if array is None else array


def _view_of(x: TensorCore[Tensor], whole: Array) -> Array | None:
    """The part that `x` is of its whole storage; None where it is not evenly spaced in it."""
    if not x._moves:
        return whole[...]
    if not whole.flags.c_contiguous or not x.numel():
        return None
    try:
        strides = [s * whole.itemsize for s in x.stride()]
    except ShapeError:
        return None
    return np.ndarray(x.shape, whole.dtype, whole, x.storage_offset() * whole.itemsize, strides)
