"""PyTorch's older names of tensors by their element type: `lt.FloatTensor` and the like."""
from __future__ import annotations

from typing import Any

from lazyten.frontend.tensor import KINDS, Tensor


class TensorType:
    """Makes tensors of one element type, by their sizes or of data as `Tensor` does, and is what
    such tensors are instances of. device: the kind of device they are on; any if None."""

    def __init__(self, kind: str, device: str | None = None) -> None:
        self.__name__, self.dtype, self.device = f"{kind}Tensor", KINDS[kind], device

    def __call__(self, *data: Any, device: str | None = None) -> Tensor:
        return Tensor(*data, dtype=self.dtype, device=device or self.device)

    def __instancecheck__(self, x: object) -> bool:
        return isinstance(x, Tensor) and x.dtype is self.dtype \
            and (self.device is None or x.device.type == self.device)

    def __repr__(self) -> str:
        return f"lazyten.{self.device + '.' if self.device else ''}{self.__name__}"


HalfTensor = TensorType("Half")
BFloat16Tensor = TensorType("BFloat16")
FloatTensor = TensorType("Float")
DoubleTensor = TensorType("Double")
ByteTensor = TensorType("Byte")
CharTensor = TensorType("Char")
ShortTensor = TensorType("Short")
IntTensor = TensorType("Int")
LongTensor = TensorType("Long")
BoolTensor = TensorType("Bool")
