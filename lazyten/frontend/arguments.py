"""Checks that what a function takes for tensors are tensors, all on one device.

`takes_tensors` wraps the functions of `lazyten` and `lazyten.nn.functional`, so that a list or an
array where a tensor belongs is named before anything is done with it.
"""
from __future__ import annotations

import inspect
import sys
from collections.abc import Callable
from functools import wraps
from types import CodeType
from typing import Any, ParamSpec, TypeVar, cast

from lazyten.frontend.tensor import Tensor
from lazyten.support.errors import DTypeError

P = ParamSpec("P")
R = TypeVar("R")

def takes_tensors(function: Callable[P, R]) -> Callable[P, R]:
    """`function`, which first checks every parameter that is annotated as a Tensor, and `self`.

    `self` may be named input, as in PyTorch, and what `*dims` takes may be given as dims=. Raises
    DTypeError for what is no tensor, and DeviceError for tensors on different devices.
    """
    operation = function.__name__
    annotations = function.__annotations__
    parameters, several = _parameters(function)
    places = [(place, name, annotations.get(name) == "Tensor | None")
              for place, name in parameters
              if name == "self" or annotations.get(name) in ("Tensor", "Tensor | None")]
    takes_input = any(name == "input" for _, name in parameters)

    @wraps(function)
    def checked(*args: Any, **kwargs: Any) -> R:
        first: Tensor | None = None
        if "input" in kwargs and not takes_input:
            args = (kwargs.pop("input"), *args)
        if several in kwargs:
            args = (*args, kwargs.pop(several))
        for place, name, optional in places:
            if place >= len(args) and name not in kwargs:
                continue
            value = args[place] if place < len(args) else kwargs[name]
            if value is None and optional:
                continue
            if not isinstance(value, Tensor):
                what = "the operand" if name == "self" else name
                raise DTypeError(f"{operation}: {what} is {type(value).__name__} {value!r:.40}, "
                                 f"not a tensor; wrap it in lazyten.tensor()")
            if first is None:
                first = value
            first._operand(value, operation)
        return function(*args, **kwargs)

    return cast(Callable[P, R], checked)


def _parameters(function: Callable[..., object]) -> tuple[list[tuple[int, str]], str]:
    """The parameters, each with the first position that it may be given at, and the name of the one
    that takes several ('' if none does). (inspect.signature would take as long for all functions as
    a tenth of importing lazyten.)"""
    code: CodeType = inspect.unwrap(function).__code__
    positional, named = code.co_argcount, code.co_kwonlyargcount
    found = list(enumerate(code.co_varnames[:positional]))
    found += [(sys.maxsize, name) for name in code.co_varnames[positional:positional + named]]
    if not code.co_flags & inspect.CO_VARARGS:
        return found, ""
    several = code.co_varnames[positional + named]
    return [*found, (positional, several)], several
