"""PyTorch's old name of a tensor that knows its gradient."""
from __future__ import annotations

from typing import Any

from lazyten.frontend.tensor import Tensor
from lazyten.support.errors import DTypeError


class _VariableType(type):
    """The class of Variable, whose instances are tensors."""

    def __call__(cls, data: Tensor | None = None, requires_grad: bool = False,
                 volatile: bool = False) -> Tensor:
        if data is None:
            data = Tensor()
        if not isinstance(data, Tensor):
            raise DTypeError(f"Variable of {type(data).__name__} {data!r:.40}: give a tensor; "
                             f"lazyten.tensor() makes one")
        return data.detach().requires_grad_(requires_grad)

    def __instancecheck__(cls, x: object) -> bool:
        return isinstance(x, Tensor)

    def __getattr__(cls, name: str) -> Any:
        return getattr(Tensor, name)


class Variable(metaclass=_VariableType):
    """Variable(data, requires_grad=False) is data.detach(): a tensor that shares memory with
    `data`, and is a leaf. (With requires_grad it has a copy, as a storage requires gradients, not a
    view.) Every tensor is one. volatile means nothing any more, as in PyTorch. DTypeError for what
    is no tensor."""
