"""Mixed precision: `autocast`, within which products are computed in a low type, and what loses by
that in float32.

POLICY is all of it: which operations, by the names of functions and of tensors' methods. What it
does not name computes in the types that its operands promote to. Operands are cast as they are
given to an operation, by CAST nodes like any: gradients flow through them, and a weight that is
cast twice is one node. `jitted.py` asks for the state, as a trace depends on it.
"""
from __future__ import annotations

import functools
import inspect
import threading
from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar

from lazyten.ir import dtype as dt
from lazyten.ir.dtype import DType
from lazyten.storage.placement import placed
from lazyten.support.errors import DTypeError

P = ParamSpec("P")
R = TypeVar("R")
C = TypeVar("C", bound=type)

LOW, WIDE = "the type of autocast", "float32"

POLICY: dict[str, str] = {
    **dict.fromkeys((
        "matmul", "mm", "bmm", "mv", "addmm", "addmv", "baddbmm", "tensordot", "einsum", "linear",
        "conv1d", "conv2d", "conv3d", "conv_transpose1d", "conv_transpose2d", "conv_transpose3d",
        "scaled_dot_product_attention", "prelu",
    ), LOW),
    **dict.fromkeys((
        "softmax", "log_softmax", "softplus",
        "cross_entropy", "nll_loss", "mse_loss", "l1_loss", "binary_cross_entropy_with_logits",
        "cosine_embedding_loss", "gaussian_nll_loss", "hinge_embedding_loss", "huber_loss",
        "kl_div", "margin_ranking_loss", "multi_margin_loss", "multilabel_margin_loss",
        "poisson_nll_loss", "smooth_l1_loss", "soft_margin_loss", "triplet_margin_loss",
        "cosine_similarity", "pdist", "group_norm", "layer_norm", "norm",
        "sum", "prod", "cumsum", "cumprod",
        "exp", "expm1", "log", "log2", "log10", "log1p", "pow", "__rpow__", "rsqrt", "reciprocal",
        "tan", "asin", "acos", "sinh", "cosh",
    ), WIDE),
}
"""What PyTorch's table for GPUs says, for the operations that there are. Only floats of 16 and 32
bits are cast."""

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


class autocast:
    """Within this block, or within the function it decorates, operations on tensors of one device
    compute in the types that POLICY says: products in `dtype`, bfloat16 or float16.

    enabled=False: computes in the types of the operands, inside another autocast. backward() needs
    none: it computes in the types that were used on the way forward.
    """

    def __init__(self, device_type: str | None = None, dtype: DType | str | None = None,
                 enabled: bool = True) -> None:
        self.device = placed(device_type)
        self.dtype = dt.bfloat16 if dtype is None else dt.as_dtype(dtype)
        if not self.dtype.is_half:
            raise DTypeError(f"autocast to {self.dtype.name}: products can be computed in bfloat16 "
                             f"or float16; for other types convert the model with .to(...)")
        self.enabled = enabled
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

def casting(function: Callable[P, R]) -> Callable[P, R]:
    """`function`, which within autocast gets its tensors in the type that its row of POLICY says;
    itself if it has no row."""
    row = POLICY.get(function.__name__)
    if row is None:
        return function

    @functools.wraps(function)
    def cast_first(*args: P.args, **kwargs: P.kwargs) -> R:
        if not _mode.types:
            return function(*args, **kwargs)
        given: Any = function
        result: R = given(*[_cast(x, row) for x in args],
                          **{name: _cast(x, row) for name, x in kwargs.items()})
        return result

    return cast_first


def casting_methods(owner: C) -> C:
    """A class of which every method with a row in POLICY is `casting`, under all its names."""
    for name, method in inspect.getmembers(owner, inspect.isfunction):
        if method.__name__ in POLICY:
            setattr(owner, name, casting(method))
    return owner


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
