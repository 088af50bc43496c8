"""`lt.overrides` and `lt.types`: what programs ask of classes that stand for tensors, and the types
that their annotations name."""
from __future__ import annotations

import builtins
from collections.abc import Sequence
from typing import Any

from lazyten.frontend.core import overriding
from lazyten.frontend.core.size import Size
from lazyten.frontend.tensor import Tensor
from lazyten.ir.dtype import DType
from lazyten.storage.placement import Device as _Device

TorchFunctionMode = overriding.Mode
Number = builtins.int | builtins.float | builtins.bool
Device = _Device | str | builtins.int | None
Storage = Any
_TensorOrTensors = Tensor | Sequence[Tensor]
_dtype, _device, _size, _int, _float, _bool = (DType, _Device, Size | list[builtins.int],
                                               builtins.int, builtins.float, builtins.bool)


def has_torch_function(relevant_args: Any) -> bool:
    """Whether a class of these, or a mode, takes functions over."""
    return overriding.has_override(relevant_args)


def has_torch_function_unary(tensor: Any) -> bool:
    """The same of one."""
    return overriding.has_override((tensor,))


def has_torch_function_variadic(*tensors: Any) -> bool:
    """The same of these arguments."""
    return overriding.has_override(tensors)


def handle_torch_function(public_api: Any, relevant_args: Any, *args: Any, **kwargs: Any) -> Any:
    """What the first class of these that takes functions over gives for one."""
    overriding.meet(tuple(relevant_args), {})
    return overriding.taken_over(public_api, args, kwargs, relevant_args)


def get_default_nowrap_functions() -> set[Any]:
    """Empty: what gives tensors that keep their class, as `grad` does, asks no class."""
    return set()


def is_tensor_like(inp: Any) -> bool:
    """Whether this is a tensor, or of a class that takes functions over."""
    return isinstance(inp, Tensor) or hasattr(type(inp), overriding.PROTOCOL)
