"""`lt.overrides` and `lt.types`: what programs ask of classes that stand for tensors, and the types
that their annotations name."""
from __future__ import annotations

import builtins
from collections.abc import Sequence
from typing import Any

from lazyten.frontend.core.size import Size
from lazyten.frontend.tensor import Tensor
from lazyten.ir.dtype import DType
from lazyten.pytorch.refusals import refused
from lazyten.storage.placement import Device as _Device

globals().update(refused(
    "overrides", "no class takes a function of lazyten over; write functions of tensors",
    "TorchFunctionMode", "handle_torch_function"))

Number = builtins.int | builtins.float | builtins.bool
Device = _Device | str | builtins.int | None
Storage = Any
_TensorOrTensors = Tensor | Sequence[Tensor]
_dtype, _device, _size, _int, _float, _bool = (DType, _Device, Size | list[builtins.int],
                                               builtins.int, builtins.float, builtins.bool)


def has_torch_function(relevant_args: Any) -> bool:
    """False: no class takes functions over."""
    return False


def has_torch_function_unary(tensor: Any) -> bool:
    """False: no class takes functions over."""
    return False


def has_torch_function_variadic(*tensors: Any) -> bool:
    """False: no class takes functions over."""
    return False


def is_tensor_like(inp: Any) -> bool:
    """Whether this is a tensor."""
    return isinstance(inp, Tensor)
