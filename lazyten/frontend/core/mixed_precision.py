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
from operator import itemgetter
from typing import Any, ParamSpec, TypeVar, cast

from lazyten.ir import dtype as dt
from lazyten.ir.dtype import DType
from lazyten.storage import tracing
from lazyten.storage.placement import Device, default_device, placed
from lazyten.support.errors import ArgumentError, DTypeError

P = ParamSpec("P")
R = TypeVar("R")
F = TypeVar("F", bound=Callable[..., Any])

LOW, WIDE = "the type of autocast", "float32"

POLICY: dict[str, str] = {}
"""The rows by the names of operations, as `casting` collects them. They are what PyTorch's table
for GPUs says, for the operations that there are. Only floats of 16 and 32 bits are cast."""

State = tuple[tuple[str, DType], ...]
Before = tuple[bool, DType, bool]


class _Mode(threading.local):
    """types: the devices for which operations are cast, and to what. chosen: what autocast() casts
    to on a device if it is not said, where that is not bfloat16."""

    types: State = ()
    chosen: State = ()
    caches = True
    depth = 0


_mode = _Mode()


def state() -> tuple[State, State]:
    """The devices for which operations are cast in this thread, and to which type; and to which
    autocast() without one would."""
    return _mode.types, _mode.chosen


def _set(device: str, enabled: bool, dtype: DType) -> None:
    """What is done on a device from here on. (bfloat16 is chosen where nothing is.)"""
    for name, there in (("types", enabled), ("chosen", dtype is not dt.bfloat16)):
        others = [pair for pair in getattr(_mode, name) if pair[0] != device]
        setattr(_mode, name, tuple(sorted(others + [(device, dtype)] * there, key=itemgetter(0))))


def is_autocast_enabled(device_type: str | None = None) -> bool:
    """Whether operations on tensors of a device (the default one) are cast, in this thread."""
    device = placed(None) if device_type is None else Device(device_type)
    return any(device == name for name, _ in _mode.types)


def autocast_dtype(device_type: str | None = None) -> DType:
    """What operations on tensors of a device (the default one) are cast to, or, where they are not,
    what autocast() without a type casts to: bfloat16 unless another was set."""
    device = placed(device_type)
    return next((low for name, low in (*_mode.types, *_mode.chosen) if name == device), dt.bfloat16)


# ---- without a block -----------------------------------------------------------------------------

def set_autocast_enabled(device_type: str | bool, enabled: bool | None = None) -> None:
    """Cast operations on tensors of a device, in this thread, from here on, or to the end of the
    device's autocast block which this is in; to what `set_autocast_dtype` says. Without a device,
    of the default one. Use `autocast` where a block will do."""
    tracing.refuse("set_autocast_enabled", "use an autocast block there")
    if isinstance(device_type, bool):
        if enabled is not None:
            raise ArgumentError(f"set_autocast_enabled({device_type}, {enabled!r}): give the name "
                                f"of a device first, as in ('cpu', True)")
        enabled, device_type = device_type, str(default_device())
    device = placed(device_type)
    _set(device, bool(enabled), autocast_dtype(device))


def set_autocast_dtype(device_type: str, dtype: DType | str) -> None:
    """What operations on tensors of a device are cast to, in this thread, from here on, or to the
    end of the device's autocast block which this is in: bfloat16 or float16; DTypeError for
    others."""
    tracing.refuse("set_autocast_dtype", "use an autocast block there")
    device, low = placed(device_type), dt.as_dtype(dtype)
    if not low.is_half:
        raise DTypeError(f"set_autocast_dtype({str(device)!r}, {low.name}): products can be "
                         f"computed in bfloat16 or float16; for other types convert the model with "
                         f".to(...)")
    _set(device, is_autocast_enabled(device), low)


def is_autocast_cache_enabled() -> bool:
    """What was set last, or is asked of the block which this is in; True if nothing was."""
    return _mode.caches


def set_autocast_cache_enabled(enabled: bool) -> None:
    """Keeps what was set: a weight is cast once either way."""
    _mode.caches = bool(enabled)


def autocast_increment_nesting() -> int:
    """Count one more block; how many there are around this in this thread."""
    _mode.depth += 1
    return _mode.depth


def autocast_decrement_nesting() -> int:
    """Count one block less; how many there are around this in this thread."""
    _mode.depth -= 1
    return _mode.depth


def clear_autocast_cache() -> None:
    """Changes nothing: what was cast is a node of the graph, and goes with it."""


# ---- as a block ----------------------------------------------------------------------------------

class autocast:
    """Within this block, or within the function it decorates, operations on tensors of one device
    compute in the types that their rows say: products in `dtype`, bfloat16 or float16.

    enabled=False: computes in the types of the operands, inside another autocast; so does a type
    that is neither, with a warning, as in PyTorch. backward() needs none: it computes in the types
    that were used on the way forward. cache_enabled changes nothing: a weight is cast once. Without
    a dtype it is that of the block around it, or what `set_autocast_dtype` says.
    """

    def __init__(self, device_type: str | None = None, dtype: DType | str | None = None,
                 enabled: bool = True, cache_enabled: bool | None = None) -> None:
        self.device = placed(device_type)
        self.dtype = autocast_dtype(self.device) if dtype is None else dt.as_dtype(dtype)
        self.enabled = enabled and self.dtype.is_half
        if enabled and not self.enabled:
            warnings.warn(f"autocast to {self.dtype.name}: products can be computed in bfloat16 or "
                          f"float16, and this changes nothing; for other types convert the model "
                          f"with .to(...)", stacklevel=2)
        self.cache_enabled = cache_enabled
        self._before: list[Before] = []

    def __enter__(self) -> None:
        dtype = autocast_dtype(self.device)
        self._before.append((is_autocast_enabled(self.device), dtype, _mode.caches))
        _set(self.device, self.enabled, self.dtype if self.dtype.is_half else dtype)
        if self.cache_enabled is not None:
            _mode.caches = self.cache_enabled
        _mode.depth += 1

    def __exit__(self, *exc: object) -> None:
        _mode.depth -= 1
        enabled, dtype, _mode.caches = self._before.pop()
        _set(self.device, enabled, dtype)

    def __call__(self, function: Callable[P, R]) -> Callable[P, R]:
        @functools.wraps(function)
        def inside(*args: P.args, **kwargs: P.kwargs) -> R:
            with autocast(self.device, self.dtype, self.enabled, self.cache_enabled):
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
