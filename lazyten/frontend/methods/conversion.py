"""Other types, devices and layouts, and new tensors like this one."""
from __future__ import annotations

import math
import re
from typing import Any, TypeAlias, overload

from lazyten.frontend.core import handle
from lazyten.frontend.core.handle import DTypeLike, Handle
from lazyten.frontend.core.keywords import MemoryFormat, looks_like, making, preserve_format
from lazyten.frontend.core.size import Size
from lazyten.frontend.core.tensor_core import Tensor, TensorCore
from lazyten.ir import dtype as dt
from lazyten.ir.dtype import DType, Scalar
from lazyten.ir.node import cast, const, make
from lazyten.ir.ops import Op
from lazyten.operators.math import elementwise as ew
from lazyten.operators.math import shapes
from lazyten.storage import data as _data
from lazyten.storage.placement import canonical, gpu
from lazyten.support.errors import DTypeError, ShapeError

Flag: TypeAlias = bool  # in this class bool is a method
KINDS = {"Half": dt.float16, "BFloat16": dt.bfloat16, "Float": dt.float32, "Double": dt.float64,
         "Byte": dt.uint8, "Char": dt.int8, "Short": dt.int16, "Int": dt.int32, "Long": dt.int64,
         "Bool": dt.bool_}
"""Element types by PyTorch's names of tensors of them."""


def kind_of(tensor_type: object) -> tuple[DType, str | None] | None:
    """The element type, and the device if it says one, of PyTorch's name of a kind of tensors, or
    of what has such a name; None if it is none."""
    if isinstance(tensor_type, DType):
        return None
    named = re.fullmatch(r"(?:torch|lazyten)\.(cuda)?\.?([A-Z]\w*)Tensor", str(tensor_type))
    return None if named is None or named[2] not in KINDS else (KINDS[named[2]], named[1])


def where_to(args: tuple[Any, ...], dtype: Any, device: Any, copy: bool = False
             ) -> tuple[Any, Any, bool]:
    """What to() is asked for, by name or by position: an element type, a device, and `copy`, which
    comes after non_blocking. A tensor stands for its type and its device, None for nothing."""
    flags = [arg for arg in args if arg is True or arg is False]
    for arg in args[:len(args) - len(flags)]:
        if isinstance(arg, Handle):
            dtype, device = arg.dtype, arg.device
        elif isinstance(arg, str) and arg not in dt.BY_NAME:
            device = arg
        elif arg is not None:
            dtype = arg
    return dtype, device, flags[1] if len(flags) > 1 else copy


class ConversionMethods(TensorCore[Tensor]):
    """This tensor in another form, and others of its form."""

    __slots__ = ()

    def to(self, *args: Any, dtype: DTypeLike | None = None, device: str | None = None,
           memory_format: MemoryFormat = preserve_format, non_blocking: Flag = False,
           copy: Flag = False) -> Tensor:
        """This tensor in another dtype, on another device, in another layout, or all of them:
        to('interpreter'), to(lt.float64), to(other_tensor), each with non_blocking and copy after
        it. Itself if nothing changes, unless `copy`. Nothing waits for what is computed, so
        non_blocking makes no difference."""
        dtype, device, copy = where_to(args, dtype, device, copy)
        result: TensorCore[Tensor] = self
        if dtype is not None and dt.as_dtype(dtype) is not self.dtype:
            result = self._result(cast(self.node, dt.as_dtype(dtype)), self)
        if device is not None and canonical(device) != result.device:
            result = result._copied_to(canonical(device))
        if memory_format is not preserve_format:
            result = result.contiguous(memory_format)
            if not looks_like(memory_format, self.shape, result.stride()):
                result, copy = result.clone(memory_format), False
        return result.clone(memory_format) if copy and result is self else result._same()

    def cpu(self, memory_format: MemoryFormat = preserve_format) -> Tensor:
        """This tensor on the cpu."""
        return self.to(device="cpu", memory_format=memory_format)

    def cuda(self, device: str | int | None = None, non_blocking: bool = False,
             memory_format: MemoryFormat = preserve_format) -> Tensor:
        """This tensor on an NVIDIA GPU: the first, or that of a number or name. (non_blocking
        changes nothing: copies wait for nothing but the value.)"""
        return self.to(device=gpu(device), memory_format=memory_format)

    @overload
    def type(self) -> str: ...
    @overload
    def type(self, dtype: DTypeLike, non_blocking: bool = False) -> Tensor: ...

    def type(self, dtype: DTypeLike | None = None,
             non_blocking: bool = False) -> Tensor | str:
        """This tensor in another dtype; without one, the name of its kind: 'lazyten.FloatTensor',
        'lazyten.cuda.FloatTensor' (and 'torch.' in a program that is run as PyTorch's).

        dtype may be PyTorch's name of such a kind, too, or the kind itself: 'torch.FloatTensor',
        lazyten.FloatTensor, lazyten.cuda.FloatTensor. Tensor itself is the default float type."""
        if dtype is not None:
            kind, device = kind_of(dtype) or (dtype, None)
            return self.to(dtype=dt.default_float if kind is handle.results else kind,
                           device=device)
        names = [name for name, kind in KINDS.items() if kind is self.dtype]
        place = "cuda." if self.device.type == "cuda" else ""
        return f"{dt.package()}.{place}{(names or [self.dtype.name.capitalize()])[0]}Tensor"

    def float(self, memory_format: MemoryFormat = preserve_format) -> Tensor:
        """In float32."""
        return self.to(dtype=dt.float32, memory_format=memory_format)

    def double(self, memory_format: MemoryFormat = preserve_format) -> Tensor:
        """In float64."""
        return self.to(dtype=dt.float64, memory_format=memory_format)

    def half(self, memory_format: MemoryFormat = preserve_format) -> Tensor:
        """In float16."""
        return self.to(dtype=dt.float16, memory_format=memory_format)

    def bfloat16(self, memory_format: MemoryFormat = preserve_format) -> Tensor:
        """In bfloat16."""
        return self.to(dtype=dt.bfloat16, memory_format=memory_format)

    def int(self, memory_format: MemoryFormat = preserve_format) -> Tensor:
        """In int32."""
        return self.to(dtype=dt.int32, memory_format=memory_format)

    def long(self, memory_format: MemoryFormat = preserve_format) -> Tensor:
        """In int64."""
        return self.to(dtype=dt.int64, memory_format=memory_format)

    def bool(self, memory_format: MemoryFormat = preserve_format) -> Tensor:
        """In bool: whether not 0."""
        return self.to(dtype=dt.bool_, memory_format=memory_format)

    def bitcast(self, dtype: DTypeLike) -> Tensor:
        """The same bits as another dtype of the same width. DTypeError if the widths differ."""
        target = dt.as_dtype(dtype)
        if target.bits != self.dtype.bits or dt.bool_ in (target, self.dtype):
            raise DTypeError(f"bitcast {self.dtype.name} -> {target.name}: both need the same "
                             f"number of bits ({self.dtype.bits} and {target.bits} here)")
        return self._result(make(Op.BITCAST, target, (self.node,)), self)

    # ---- new tensors -----------------------------------------------------------------------------

    @making
    def new_full(self, size: Any, fill_value: Scalar, dtype: Any = None,
                 device: str | None = None, requires_grad: Flag = False) -> Tensor:
        """Every element `fill_value`."""
        kind = _kind(self, dtype)
        number = shapes.as_element(fill_value, kind, "new_full")
        return self._fresh(ew.as_node(number, kind, shapes.new_shape([size], "new_full")), device,
                           requires_grad)

    @making
    def new_zeros(self, *size: Any, dtype: Any = None, device: str | None = None,
                  requires_grad: Flag = False) -> Tensor:
        """Every element 0."""
        shape = shapes.new_shape(size, "new_zeros")
        return self._fresh(const(0, _kind(self, dtype), shape), device, requires_grad)

    @making
    def new_ones(self, *size: Any, dtype: Any = None, device: str | None = None,
                 requires_grad: Flag = False) -> Tensor:
        """Every element 1."""
        shape = shapes.new_shape(size, "new_ones")
        return self._fresh(const(1, _kind(self, dtype), shape), device, requires_grad)

    @making
    def new_empty(self, *size: Any, dtype: Any = None, device: str | None = None,
                  requires_grad: Flag = False) -> Tensor:
        """A tensor whose values do not matter; here they are 0."""
        shape = shapes.new_shape(size, "new_empty")
        return self._fresh(const(0, _kind(self, dtype), shape), device, requires_grad)

    @making
    def new_empty_strided(self, size: Any, stride: Any, dtype: Any = None,
                          device: str | None = None, requires_grad: Flag = False) -> Tensor:
        """new_empty in memory of its own, with these strides."""
        shape = shapes.new_shape([size], "new_empty_strided")
        steps = shapes.sizes([stride], "new_empty_strided")
        if len(steps) != len(shape) or any(s < 0 for s in steps):
            raise ShapeError(f"new_empty_strided: stride={steps} for size={shape}; give a stride "
                             f"of 0 or more for each axis")
        count = 1 + sum((n - 1) * s for n, s in zip(shape, steps, strict=True))
        memory: Any = self.new_empty(count if math.prod(shape) else 0, dtype=dtype, device=device)
        made: Tensor = memory.as_strided(shape, steps, 0)
        return made.requires_grad_() if requires_grad else made

    @making
    def new_tensor(self, data: Any, dtype: Any = None, device: str | None = None,
                   requires_grad: Flag = False) -> Tensor:
        """A copy of `data` in this tensor's dtype, or another."""
        where = self.device if device is None else canonical(device)
        given = self.dtype if dtype is None else dt.as_dtype(dtype)
        if hasattr(data, "node"):
            return self._fresh(data.detach().to(dtype=given, device=where).node, where,
                               requires_grad)
        return self._fresh(_data.buffer_node(data, given, where), where, requires_grad)

    def new(self, *data: Any, device: str | None = None) -> Tensor:
        """PyTorch's old way to a tensor of this one's dtype: of these sizes, with zeros where
        PyTorch has no values, or with the numbers of a list or another tensor."""
        sizes = data[0] if len(data) == 1 and isinstance(data[0], Size) else data
        if all(isinstance(n, int) for n in sizes):
            return self.new_zeros(tuple(sizes) or (0,), device=device)
        return self.new_tensor(data[0], self.dtype, device)

    def type_as(self, other: Tensor) -> Tensor:
        """This tensor in another's dtype."""
        return self._cast(self._tensor(other, "type_as").dtype)

    def short(self, memory_format: MemoryFormat = preserve_format) -> Tensor:
        """In int16."""
        return self.to(dtype=dt.int16, memory_format=memory_format)

    def char(self, memory_format: MemoryFormat = preserve_format) -> Tensor:
        """In int8."""
        return self.to(dtype=dt.int8, memory_format=memory_format)

    def byte(self, memory_format: MemoryFormat = preserve_format) -> Tensor:
        """In uint8."""
        return self.to(dtype=dt.uint8, memory_format=memory_format)


def _kind(x: TensorCore[Any], dtype: Any) -> DType:
    return x.dtype if dtype is None else dt.as_dtype(dtype)
