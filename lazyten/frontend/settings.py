"""PyTorch's settings of how it computes, for programs that set them: here most change nothing."""
from __future__ import annotations

from typing import Any

from lazyten.frontend.core.mixed_precision import (
    autocast_dtype,
    is_autocast_enabled,
    set_autocast_dtype,
    set_autocast_enabled,
)
from lazyten.frontend.limits import set_default_dtype
from lazyten.frontend.methods.conversion import kind_of
from lazyten.frontend.tensor import Tensor
from lazyten.ir.dtype import DType
from lazyten.storage.placement import set_default_device
from lazyten.support.errors import ArgumentError, DTypeError
from lazyten.support.grad_mode import is_grad_enabled

_deterministic = _warn_only = _warn_always = False


def use_deterministic_algorithms(mode: bool, *, warn_only: bool = False) -> None:
    """Keeps what was set. Results are the same from run to run either way, on one machine."""
    global _deterministic, _warn_only
    _deterministic, _warn_only = bool(mode), bool(warn_only)


def are_deterministic_algorithms_enabled() -> bool:
    """What was set; False if nothing was."""
    return _deterministic


def is_deterministic_algorithms_warn_only_enabled() -> bool:
    """What was set; False if nothing was."""
    return _warn_only


def set_deterministic_debug_mode(debug_mode: int | str) -> None:
    """The same by another name: 0 or 'default', 1 or 'warn', 2 or 'error'. ArgumentError for
    others."""
    modes = {0: 0, 1: 1, 2: 2, "default": 0, "warn": 1, "error": 2}
    if not isinstance(debug_mode, int | str) or debug_mode not in modes:
        raise ArgumentError(f"set_deterministic_debug_mode({debug_mode!r:.40}): give one of "
                            f"'default', 'warn' and 'error'")
    use_deterministic_algorithms(modes[debug_mode] > 0, warn_only=modes[debug_mode] == 1)


def get_deterministic_debug_mode() -> int:
    """0, 1 or 2: see set_deterministic_debug_mode."""
    return (1 if _warn_only else 2) if _deterministic else 0


def set_warn_always(b: bool) -> None:
    """Keeps what was set: Python's `warnings` say how often a warning is shown."""
    global _warn_always
    _warn_always = bool(b)


def is_warn_always_enabled() -> bool:
    """What was set; False if nothing was."""
    return _warn_always


def is_inference_mode_enabled() -> bool:
    """Whether nothing is recorded for gradients: inference_mode() is no_grad()."""
    return not is_grad_enabled()


def get_autocast_dtype(device_type: str) -> DType:
    """What autocast casts to on a device: bfloat16, or what was set, or that of the block which
    this is in."""
    return autocast_dtype(device_type)


def get_autocast_cpu_dtype() -> DType:
    """get_autocast_dtype('cpu')."""
    return autocast_dtype("cpu")


def get_autocast_gpu_dtype() -> DType:
    """get_autocast_dtype('cuda')."""
    return autocast_dtype("cuda")


def is_autocast_cpu_enabled() -> bool:
    """is_autocast_enabled('cpu')."""
    return is_autocast_enabled("cpu")


def set_autocast_cpu_enabled(enabled: bool) -> None:
    """set_autocast_enabled('cpu', enabled)."""
    set_autocast_enabled("cpu", enabled)


def set_autocast_cpu_dtype(dtype: DType | str) -> None:
    """set_autocast_dtype('cpu', dtype)."""
    set_autocast_dtype("cpu", dtype)


def set_autocast_gpu_dtype(dtype: DType | str) -> None:
    """set_autocast_dtype('cuda', dtype)."""
    set_autocast_dtype("cuda", dtype)


def typename(obj: Any) -> str:
    """The name of a tensor's kind, such as 'lazyten.FloatTensor', or of another object's class."""
    if isinstance(obj, Tensor):
        return str(obj.type())
    kind = obj if isinstance(obj, type) else type(obj)
    return kind.__qualname__ if kind.__module__ == "builtins" else \
        f"{kind.__module__}.{kind.__qualname__}"


def set_default_tensor_type(t: Any) -> None:
    """`lt.set_default_dtype` and, for 'torch.cuda.FloatTensor' and its kind,
    `lt.set_default_device`. DTypeError for what names no kind of tensors."""
    found = kind_of(t)
    if found is None:
        raise DTypeError(f"set_default_tensor_type({t!r:.60}): give a name such as "
                         f"'torch.FloatTensor', or lazyten.FloatTensor")
    set_default_dtype(found[0])
    set_default_device(found[1])


def get_num_interop_threads() -> int:
    """1: kernels are launched one after the other. `lt.get_num_threads` is about what is inside."""
    return 1


def set_num_interop_threads(count: int) -> None:
    """Changes nothing: kernels are launched one after the other."""


def compile(model: Any = None, **options: Any) -> Any:
    """The model itself, or the function: what is eager here is fused and compiled as it is. A whole
    step as one call is `lt.jit`'s. PyTorch's options change nothing. DTypeError for what cannot be
    called."""
    if model is not None and not callable(model):
        raise DTypeError(f"compile: {type(model).__name__} {model!r:.40} cannot be called; give a "
                         f"function or a module")
    return (lambda given: given) if model is None else model


def set_flush_denormal(mode: bool) -> bool:
    """False: numbers below the normal ones are computed with as any other, whatever is asked."""
    return False
