"""`lt.compiler`: marks of what is to be compiled, which change nothing: `lt.compile` gives the
function itself, as everything is compiled as it is."""
from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from lazyten.frontend.settings import compile as compile
from lazyten.pytorch.refusals import class_of_nothing

_REASON = "functions are compiled as they are, and stay functions"
OptimizedModule = class_of_nothing("OptimizedModule", _REASON)

__all__ = ["allow_in_graph", "assume_constant_result", "compile",
           "cudagraph_mark_step_begin", "disable", "is_compiling", "is_dynamo_compiling",
           "is_exporting", "list_backends", "reset", "set_stance"]


def is_compiling() -> bool:
    """False: functions run as Python while they are recorded."""
    return False


is_dynamo_compiling = is_exporting = is_compiling


def is_compile_supported(device_type: Any) -> bool:
    """False: there is nothing that a package would have to have compiled."""
    return False


def disable(fn: Any = None, recursive: bool = True, *, reason: str | None = None) -> Any:
    """The function itself, or a decorator that gives it."""
    return (lambda given: given) if fn is None else fn


def allow_in_graph(fn: Any) -> Any:
    """The function itself."""
    return fn


assume_constant_result = allow_in_graph


def reset(*args: Any, **options: Any) -> None:
    """Nothing: `lt.compile` keeps nothing, and looks at no marks of tensors."""


cudagraph_mark_step_begin = mark_dynamic = maybe_mark_dynamic = mark_static = reset
mark_static_address = mark_unbacked = reset
config = SimpleNamespace()
"""What programs set for PyTorch's compiler; nothing reads it."""


def list_backends(exclude_tags: Any = ()) -> list[str]:
    """What `lt.compile` may be asked for by backend=; it means nothing."""
    return []


class TransformGetItemToIndex:
    """For `with`, under transforms: indexing by a batched number is an operation as it is."""

    def __enter__(self) -> None:
        """Nothing."""

    def __exit__(self, *raised: object) -> None:
        """Nothing."""


class set_stance:
    """Nothing: there is nothing to compile later, or not at all. A call, or `with`."""

    def __init__(self, stance: str = "default", **options: Any) -> None:
        self.stance = stance

    def __enter__(self) -> None:
        """Nothing."""

    def __exit__(self, *raised: object) -> None:
        """Nothing."""


def is_dynamo_supported() -> bool:
    """False: functions are compiled by lt.jit, without PyTorch's reading of Python's bytecode."""
    return False
