"""PyTorch's older names of tensors by their element type: `lt.FloatTensor` and the like."""
from __future__ import annotations

from typing import Any

from lazyten.frontend.tensor import KINDS, Tensor
from lazyten.ir.dtype import DType, package


class TensorType(type):
    """The type of such classes: one makes tensors of one element type, by their sizes or of data as
    `Tensor` does, and is what such tensors are instances of. device: the kind of device they are
    on; any if None."""

    dtype: DType
    device: str | None

    def __new__(cls, kind: str, device: str | None = None) -> TensorType:
        """The class of a kind such as "Float"."""
        return type.__new__(cls, f"{kind}Tensor", (), {
            "__module__": "lazyten", "__doc__": f"Tensors of {KINDS[kind].name}.",
            "dtype": KINDS[kind], "device": device})

    def __init__(cls, kind: str, device: str | None = None) -> None:
        """Nothing: `__new__` has made the class."""

    def __call__(cls, *data: Any, device: str | None = None) -> Tensor:
        return Tensor(*data, dtype=cls.dtype, device=device or cls.device)

    def __instancecheck__(cls, x: object) -> bool:
        return isinstance(x, Tensor) and x.dtype is cls.dtype \
            and (cls.device is None or x.device.type == cls.device)

    def __repr__(cls) -> str:
        return f"{package()}.{cls.device + '.' if cls.device else ''}{cls.__name__}"


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
