"""The entries of PyTorch's database, and the functions that lazyten has for them."""
from __future__ import annotations

import types
from collections.abc import Callable
from functools import cache
from typing import Any

import torch

import lazyten as lt


class Missing(Exception):
    """lazyten has no function of this name."""


@cache
def variants() -> dict[str, Any]:
    """PyTorch's entries by name, of which a function has one for each of its forms."""
    from torch.testing._internal.common_methods_invocations import op_db
    return {entry.formatted_name: entry for entry in op_db}


def element_type(entry: Any) -> torch.dtype:
    """float32 where the function takes it, else the first of others that it takes."""
    wanted = (torch.float32, torch.float64, torch.int64, torch.bool)
    return next((kind for kind in wanted if kind in entry.dtypes), torch.complex64)


def ours(entry: Any) -> Callable[..., Any]:
    """What an entry calls, of lazyten: the function of the same name, or, where PyTorch's tests
    wrote one of their own, that one with lazyten for PyTorch."""
    function = entry.op
    if isinstance(function, types.FunctionType) and function.__module__.startswith("torch.testing"):
        return rebound(function)
    for home in (lt, lt.Tensor):
        found: Any = home
        for word in entry.name.split("."):
            found = getattr(found, word, None)
        if callable(found):
            return found  # type: ignore[no-any-return]
    raise Missing(entry.name)


def rebound(function: types.FunctionType) -> Callable[..., Any]:
    """A function of PyTorch's tests, for which `torch` is lazyten."""
    names = {**function.__globals__, "torch": lt, "wrapper_set_seed": _seeded}
    return types.FunctionType(function.__code__, names, function.__name__, function.__defaults__,
                              function.__closure__)


def _seeded(function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    lt.manual_seed(42)
    return function(*args, **kwargs)
