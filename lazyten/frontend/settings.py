"""PyTorch's settings of how it computes, for programs that set them: here most change nothing."""
from __future__ import annotations

from typing import Any

from lazyten.frontend.limits import set_default_dtype
from lazyten.frontend.methods.conversion import kind_of
from lazyten.storage.placement import set_default_device
from lazyten.support.errors import DTypeError

_deterministic = False


def use_deterministic_algorithms(mode: bool, *, warn_only: bool = False) -> None:
    """Keeps what was set. Results are the same from run to run either way, on one machine."""
    global _deterministic
    _deterministic = bool(mode)


def are_deterministic_algorithms_enabled() -> bool:
    """What was set; False if nothing was."""
    return _deterministic


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
    step as one call is `lt.jit`'s. PyTorch's options change nothing."""
    return (lambda given: given) if model is None else model


def set_flush_denormal(mode: bool) -> bool:
    """False: numbers below the normal ones are computed with as any other, whatever is asked."""
    return False
