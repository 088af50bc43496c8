"""PyTorch's settings of how it computes, for programs that set them: here they change nothing."""
from __future__ import annotations

from typing import Any

_deterministic = False


def use_deterministic_algorithms(mode: bool, *, warn_only: bool = False) -> None:
    """Keeps what was set. Results are the same from run to run either way, on one machine."""
    global _deterministic
    _deterministic = bool(mode)


def are_deterministic_algorithms_enabled() -> bool:
    """What was set; False if nothing was."""
    return _deterministic


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
