"""New tensors like this one, as methods: on its device, of its dtype unless another is given."""
from __future__ import annotations

from typing import Any

from lazyten.frontend.methods.tensor_like import T
from lazyten.ir import dtype as dt
from lazyten.ir.dtype import DType, Scalar
from lazyten.ir.node import const
from lazyten.operators.math import shapes
from lazyten.storage import data as _data
from lazyten.storage.placement import canonical


class CreationMethods:
    """New tensors of a tensor's dtype and device."""

    __slots__ = ()

    def new_full(self: T, size: Any, fill_value: Scalar, dtype: Any = None,
                 device: str | None = None) -> T:
        """Every element `fill_value`."""
        kind = _kind(self, dtype)
        number = shapes.as_element(fill_value, kind, "new_full")
        return self._fresh(const(number, kind, shapes.new_shape([size], "new_full")), device)

    def new_zeros(self: T, *size: Any, dtype: Any = None, device: str | None = None) -> T:
        """Every element 0."""
        shape = shapes.new_shape(size, "new_zeros")
        return self._fresh(const(0, _kind(self, dtype), shape), device)

    def new_ones(self: T, *size: Any, dtype: Any = None, device: str | None = None) -> T:
        """Every element 1."""
        shape = shapes.new_shape(size, "new_ones")
        return self._fresh(const(1, _kind(self, dtype), shape), device)

    def new_empty(self: T, *size: Any, dtype: Any = None, device: str | None = None) -> T:
        """A tensor whose values do not matter; here they are 0."""
        shape = shapes.new_shape(size, "new_empty")
        return self._fresh(const(0, _kind(self, dtype), shape), device)

    def new_tensor(self: T, data: Any, dtype: Any = None, device: str | None = None) -> T:
        """A copy of `data`; numbers and lists get this tensor's dtype, arrays and tensors keep
        theirs."""
        where = self.device if device is None else canonical(device)
        given = None if dtype is None else dt.as_dtype(dtype)
        if hasattr(data, "node"):
            return self._fresh(data.detach().to(dtype=given, device=where).node, where)
        if given is None and not _data.has_numpy(data):
            given = self.dtype
        return self._fresh(_data.buffer_node(data, given, where), where)

    def type_as(self: T, other: T) -> T:
        """This tensor in another's dtype."""
        return self._cast(self._tensor(other, "type_as").dtype)

    def short(self: T) -> T:
        """In int16."""
        return self._cast(dt.int16)

    def char(self: T) -> T:
        """In int8."""
        return self._cast(dt.int8)

    def byte(self: T) -> T:
        """In uint8."""
        return self._cast(dt.uint8)


def _kind(x: T, dtype: Any) -> DType:
    return x.dtype if dtype is None else dt.as_dtype(dtype)
