"""Mixed precision in hand-written gradients: which types forward() and backward() compute in."""
from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from lazyten.frontend.core.handle import DTypeLike
from lazyten.frontend.core.mixed_precision import autocast, autocast_dtype, is_autocast_enabled
from lazyten.frontend.tensor import Tensor
from lazyten.ir import dtype as dt
from lazyten.support.trees import flatten, unflatten

Method = Callable[..., Any]


def custom_fwd(fwd: Method | None = None, *, device_type: str | None = None,
               cast_inputs: DTypeLike | None = None) -> Any:
    """A decorator of an `autograd.Function`'s forward(), beside `custom_bwd` of its backward().

    cast_inputs: within autocast the tensors that it gets are cast to this type, unless they are
    float64 or no floats, and it computes without autocast. Otherwise it computes as around it.
    """
    if fwd is None:
        return functools.partial(custom_fwd, device_type=device_type, cast_inputs=cast_inputs)

    @functools.wraps(fwd)
    def decorated(ctx: Any, *args: Any, **kwargs: Any) -> Any:
        within = is_autocast_enabled(device_type)
        ctx._autocast = autocast(device_type, autocast_dtype(device_type),
                                 within and cast_inputs is None)
        if not within or cast_inputs is None:
            return fwd(ctx, *args, **kwargs)
        leaves, structure = flatten((args, kwargs))
        wide, named = unflatten((_cast(x, cast_inputs) for x in leaves), structure)
        with autocast(device_type, enabled=False):
            return fwd(ctx, *wide, **named)
    return decorated


def custom_bwd(bwd: Method | None = None, *, device_type: str | None = None) -> Any:
    """A decorator of an `autograd.Function`'s backward(): it computes in the types of forward(),
    which `custom_fwd` decorates."""
    if bwd is None:
        return functools.partial(custom_bwd, device_type=device_type)

    @functools.wraps(bwd)
    def decorated(ctx: Any, *args: Any, **kwargs: Any) -> Any:
        with ctx._autocast:
            return bwd(ctx, *args, **kwargs)
    return decorated


def _cast(x: Any, dtype: DTypeLike) -> Any:
    return x.to(dtype=dtype) if isinstance(x, Tensor) and x.dtype.is_float \
        and x.dtype is not dt.float64 else x
