"""PyTorch's older names of sparse tensors by their element type: `lt.sparse.FloatTensor`."""
from __future__ import annotations

from typing import Any

from lazyten.frontend.tensor import KINDS, Tensor
from lazyten.ir.dtype import DType
from lazyten.sparse.coordinates import CooTensor
from lazyten.sparse.making import sparse_coo_tensor


class SparseTensorType(type):
    """The type of such classes: one makes tensors in coordinates, and is what those of its element
    type are instances of."""

    dtype: DType

    def __instancecheck__(cls, instance: object) -> bool:
        return isinstance(instance, CooTensor) and instance.dtype is cls.dtype

    def __call__(cls, *args: Any, device: str | None = None) -> CooTensor:
        """FloatTensor(indices, values, size): values keep their type, as in PyTorch. And
        FloatTensor(2, 3): zeros of this shape."""
        if args and isinstance(args[0], Tensor | list):
            return sparse_coo_tensor(*args, device=device)
        size = args[0] if len(args) == 1 and isinstance(args[0], tuple) else args
        return sparse_coo_tensor(size, dtype=cls.dtype, device=device)

    def __repr__(cls) -> str:
        return f"lazyten.sparse.{cls.__name__}"


TYPES: dict[str, Any] = {
    f"{kind}Tensor": SparseTensorType(f"{kind}Tensor", (), {
        "__module__": "lazyten.sparse", "__doc__": f"Tensors in coordinates of {dtype.name}.",
        "dtype": dtype})
    for kind, dtype in KINDS.items()}
