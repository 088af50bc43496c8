"""Mixed precision: `autocast`, within which products are computed in a low type, and what loses by
that in float32.

`@casting(LOW)` or `@casting(WIDE)` where an operation is defined is all of it. What has no such row
computes in the types that its operands promote to. Operands are cast as they are given to an
operation, by CAST nodes like any: gradients flow through them, and a weight that is cast twice is
one node. `jitted.py` asks for the state, as a trace depends on it.
"""
from __future__ import annotations

import functools
import threading
import warnings
from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar, cast

from lazyten.ir import dtype as dt
from lazyten.ir.dtype import DType
from lazyten.storage.placement import placed

P = ParamSpec("P")
R = TypeVar("R")
F = TypeVar("F", bound=Callable[..., Any])

LOW, WIDE = "the type of autocast", "float32"

POLICY: dict[str, str] = {}
"""The rows by the names of operations, as `casting` collects them. They are what PyTorch's table
for GPUs says, for the operations that there are. Only floats of 16 and 32 bits are cast."""

State = tuple[tuple[str, DType], ...]


class _Mode(threading.local):
    types: State = ()


_mode = _Mode()


def state() -> State:
    """The devices for which operations are cast in this thread, and to which type."""
    return _mode.types


def is_autocast_enabled(device_type: str | None = None) -> bool:
    """Whether operations on tensors of a device (the default one) are cast, in this thread."""
    device = placed(device_type)
    return any(device == name for name, _ in _mode.types)


def autocast_dtype(device_type: str | None = None) -> DType:
    """What operations on tensors of a device (the default one) are cast to; bfloat16, which
    autocast() without a type casts to, where they are not."""
    device = placed(device_type)
    return next((low for name, low in _mode.types if name == device), dt.bfloat16)


class autocast:
    """Within this block, or within the function it decorates, operations on tensors of one device
    compute in the types that their rows say: products in `dtype`, bfloat16 or float16.

    enabled=False: computes in the types of the operands, inside another autocast; so does a type
    that is neither, with a warning, as in PyTorch. backward() needs none: it computes in the types
    that were used on the way forward. cache_enabled changes nothing: a weight is cast once.
    """

    def __init__(self, device_type: str | None = None, dtype: DType | str | None = None,
                 enabled: bool = True, cache_enabled: bool | None = None) -> None:
        self.device = placed(device_type)
        self.dtype = dt.bfloat16 if dtype is None else dt.as_dtype(dtype)
        self.enabled = enabled and self.dtype.is_half
        if enabled and not self.enabled:
            warnings.warn(f"autocast to {self.dtype.name}: products can be computed in bfloat16 or "
                          f"float16, and this changes nothing; for other types convert the model "
                          f"with .to(...)", stacklevel=2)
        self._before: list[State] = []

    def __enter__(self) -> None:
        before = _mode.types
        self._before.append(before)
        own = ((self.device, self.dtype),) * self.enabled
        _mode.types = tuple(pair for pair in before if pair[0] != self.device) + own

    def __exit__(self, *exc: object) -> None:
        _mode.types = self._before.pop()

    def __call__(self, function: Callable[P, R]) -> Callable[P, R]:
        @functools.wraps(function)
        def inside(*args: P.args, **kwargs: P.kwargs) -> R:
            with autocast(self.device, self.dtype, self.enabled):
                return function(*args, **kwargs)
        return inside


# ---- applying the policy -------------------------------------------------------------------------

def casting(row: str) -> Callable[[F], F]:
    """A decorator: within autocast the function, or the method under all its names, gets its
    tensors in the type that the row says, LOW or WIDE."""
    def decorated(function: F) -> F:
        POLICY[function.__name__] = row

        @functools.wraps(function)
        def cast_first(*args: Any, **kwargs: Any) -> Any:
            if not _mode.types:
                return function(*args, **kwargs)
            return function(*[_cast(x, row) for x in args],
                            **{name: _cast(x, row) for name, x in kwargs.items()})

        return cast(F, cast_first)

    return decorated


def _cast(x: Any, row: str) -> Any:
    """An argument as an operation gets it: tensors cast, also those in a list. (Tensors are Any:
    their module imports this one.)"""
    if not hasattr(x, "_cast"):
        tensors = isinstance(x, list | tuple) and any(hasattr(item, "_cast") for item in x)
        return [_cast(item, row) for item in x] if tensors else x
    low = dict(_mode.types).get(x.device)
    if low is None or not (x.dtype.is_half or x.dtype is dt.float32):
        return x
    return x._cast(low if row is LOW else dt.float32)
