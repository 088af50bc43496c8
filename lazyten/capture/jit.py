"""`lt.jit`, the decorator, under PyTorch's name as well."""
from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar, overload

from lazyten.capture.dims import Dynamic
from lazyten.capture.donation import Donate
from lazyten.capture.jitted import Jitted
from lazyten.nn.module import Module
from lazyten.pytorch.torchscript import TorchScript

P = ParamSpec("P")
R = TypeVar("R")


class ScriptModule(Module):
    """A module that PyTorch would compile; here one as any other."""


class _Jit(TorchScript):
    """The function, traced at its first call and then replayed without running its Python.

    Use it as a decorator, with or without options, or on a method or a module. It is traced again
    whenever the signature changes, or Python state that it is seen to depend on.

    check: trace at every call, and raise JitError if that gives another program; without it, that
    is done once, at the second call.

    fullgraph: raise JitError for what a replay cannot do, such as reading a value. Without it the
    function goes on in Python from there, and later calls like it run in Python altogether, as
    without jit; DEBUG=1 tells why.

    dynamic: for arguments, by name or position, the axes whose sizes vary, each with its
    `lt.Dim`: {"x": {0: lt.Dim("batch", 1, 512)}}. Kernels serve all of these sizes; a new one is
    recorded, and nothing compiled, or little. ShapeError for a size out of range, before anything
    is done. See docs/shapes.md.

    donate: names or positions of arguments whose tensors, also those in lists, tuples and dicts,
    are not needed after a call: results may take their memory. Using one afterwards, or a view of
    it, is a JitError, unless the function gives it back or changes it in place.
    """

    ScriptModule = ScriptModule

    @overload
    def __call__(self, function: Callable[P, R], *, check: bool = False, donate: Donate = (),
                 fullgraph: bool = False, dynamic: Dynamic | None = None) -> Jitted[P, R]: ...
    @overload
    def __call__(self, function: None = None, *, check: bool = False, donate: Donate = (),
                 fullgraph: bool = False, dynamic: Dynamic | None = None,
                 ) -> Callable[[Callable[P, R]], Jitted[P, R]]: ...

    def __call__(self, function: Callable[P, R] | None = None, *, check: bool = False,
                 donate: Donate = (), fullgraph: bool = False,
                 dynamic: Dynamic | None = None) -> Any:
        if function is None:
            return functools.partial(self, check=check, donate=donate, fullgraph=fullgraph,
                                     dynamic=dynamic)
        return Jitted(function, check, donate, fullgraph, dynamic)


jit = _Jit()
