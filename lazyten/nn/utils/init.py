"""A module whose parameters are set later."""
from __future__ import annotations

import inspect
from typing import Any, TypeVar

from lazyten.nn.module import Module
from lazyten.support.errors import ArgumentError

M = TypeVar("M", bound=Module)


def skip_init(module_cls: type[M], *args: Any, **kwargs: Any) -> M:
    """module_cls(*args, **kwargs), whose initial values nobody is to rely on: load a state. (They
    are those that it has anyway.) The class must take `device`, as in PyTorch."""
    if not issubclass(module_cls, Module):
        raise ArgumentError(f"skip_init: {module_cls.__name__} is no class of modules")
    if "device" not in inspect.signature(module_cls).parameters:
        raise ArgumentError(f"skip_init: {module_cls.__name__} does not take `device`")
    return module_cls(*args, **kwargs)
