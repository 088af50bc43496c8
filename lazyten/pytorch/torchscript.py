"""TorchScript's names, for programs that have PyTorch compile parts of models.

What compiles gives the function or the module itself, as lazyten fuses and compiles what is eager;
what reads or writes files of TorchScript is refused.
"""
from __future__ import annotations

import types
import typing
from collections.abc import Callable
from contextlib import nullcontext
from typing import Any, NamedTuple, TypeVar

from lazyten.pytorch import futures
from lazyten.pytorch.refusals import Refused, refused

T = TypeVar("T")

_FILES = ("it is a part of TorchScript's files and graphs; keep the program, and save the weights "
          "with lazyten.save(model.state_dict(), path)")
_REFUSED = refused(
    "jit", _FILES, "_get_trace_graph", "CompilationUnit", "ONNXTracedModule", "export_opnames",
    "jit_module_from_flatbuffer", "last_executed_optimized_graph", "load", "save",
    "save_jit_module_to_flatbuffer")


class Attribute(NamedTuple):
    """A value of a module, with its type."""

    value: Any
    type: Any


class _NoInstances(type):
    def __instancecheck__(cls, instance: object) -> bool:
        return False


class Compiled(metaclass=_NoInstances):
    """The class of nothing: there are no compiled functions and modules beside Python's."""


class Error(RuntimeError):
    """What TorchScript raises where it runs; never raised."""


class TracerWarning(Warning):
    """What TorchScript warns of while it traces; never given."""


def _mark(function: Any = None, *args: Any, **options: Any) -> Any:
    """The function itself, or a decorator that gives it."""
    return (lambda given: given) if function is None or isinstance(function, bool) else function


_copy_to_script_wrapper = _overload = _overload_method = export = ignore = unused = _mark


def _nothing(*args: Any) -> None:
    """Nothing: there is nothing to set."""


def _block(*args: Any) -> nullcontext[None]:
    """For `with`, which changes nothing."""
    return nullcontext()


def _is(value: Any, kind: Any) -> bool:
    """Whether a value is of a type as annotations have them, with all that is in it."""
    home, inside = typing.get_origin(kind), typing.get_args(kind)
    if isinstance(kind, tuple) or home in (typing.Union, types.UnionType):
        return any(_is(value, k) for k in (kind if isinstance(kind, tuple) else inside))
    if home is None:
        return bool(kind is Any or isinstance(value, type(None) if kind is None else kind))
    if not isinstance(value, home):
        return False
    if home is dict:
        return all(_is(k, inside[0]) and _is(v, inside[1]) for k, v in value.items())
    if home is tuple and inside[1:] != (...,):
        return len(value) == len(inside) and all(map(_is, value, inside))
    return all(_is(v, inside[0]) for v in value)


class _Annotations:
    """PyTorch's module of this name: what typing has, and lists that may be given as one number."""

    def __getattr__(self, name: str) -> Any:
        return getattr(typing, "List" if name.startswith("BroadcastingList") else name)


class TorchScript:
    """The names of `torch.jit`, for `lt.jit` to have them, too."""

    Attribute, Error, Final, Future = Attribute, Error, typing.Final, futures.Future
    ScriptFunction = RecursiveScriptModule = TopLevelTracedModule = TracedModule = Compiled
    TracerWarning = ScriptWarning = TracerWarning
    TracingCheckError = Error
    annotations = _Annotations()

    @staticmethod
    def script(obj: T, *args: Any, **options: Any) -> T:
        """The same object, for programs that have PyTorch compile parts of models: what is eager
        here is fused and compiled as it is."""
        return obj

    trace = trace_module = freeze = optimize_for_inference = interface = script
    script_method = script_if_tracing = script
    _script_if_tracing = script
    _overload = _overload_method = ignore = export = unused = staticmethod(_mark)
    strict_fusion = fuser = optimized_execution = staticmethod(_block)
    enable_onednn_fusion = set_fusion_strategy = staticmethod(_nothing)
    isinstance = staticmethod(_is)

    @staticmethod
    def annotate(the_type: Any, the_value: T) -> T:
        """The value."""
        return the_value

    @staticmethod
    def fork(func: Callable[..., Any], *args: Any, **kwargs: Any) -> futures.Future[Any]:
        """func(*args, **kwargs), which is called at once."""
        future: futures.Future[Any] = futures.Future()
        future.set_result(func(*args, **kwargs))
        return future

    @staticmethod
    def wait(future: futures.Future[Any]) -> Any:
        """What `fork` called gave."""
        return future.wait()

    @staticmethod
    def is_scripting() -> bool:
        """False: Python always runs as Python."""
        return False

    is_tracing = onednn_fusion_enabled = is_scripting

    def __getattr__(self, name: str) -> Refused:
        if name in _REFUSED:
            return _REFUSED[name]
        raise AttributeError(f"lazyten.jit has no {name!r}; it compiles functions of Python as "
                             f"they are", name=name)

    def __dir__(self) -> list[str]:
        return sorted({*object.__dir__(self), *_REFUSED})
