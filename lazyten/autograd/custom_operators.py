"""Operators that programs name themselves: `lt.library` and `lt.ops`, under PyTorch's names.

An operator is a function of Python with a name such as "geometry::nms"; calling it records what
the function does. There are no functions of other devices, shapes or batches to choose among: one
function serves, and what programs register for those is kept and not called.
"""
from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from itertools import chain
from typing import Any, NoReturn

from lazyten.autograd.custom_function import Function
from lazyten.frontend.tensor import Tensor
from lazyten.pytorch.modules import function_named
from lazyten.support.errors import ArgumentError, GradientError, NotDefinedError
from lazyten.support.grad_mode import is_grad_enabled, no_grad
from lazyten.support.trees import Branch, flatten, unflatten

__all__ = ["CustomOpDef", "Library", "custom_op", "define", "impl", "register_autocast",
           "register_autograd", "register_fake", "register_kernel", "register_torch_dispatch",
           "register_vmap"]

_THROUGH = ("", "CompositeImplicitAutograd")
"""Keys of functions that are differentiated through, as they are made of operations."""
_UNUSED = ("Meta", "Autocast", "FuncTorch", "Functionalize", "Python", "BackendSelect")
"""How keys begin of functions that tell of an operator, or stand around it."""
Gradient = Callable[..., Any] | None


class CustomOpDef:
    """An operator: what `lt.library.custom_op` gives, and an attribute of `lt.ops`. A call takes
    what its function takes; NotImplementedError without a function."""

    def __init__(self, name: str) -> None:
        self._qualname, self._mutates = name, False
        self._through: Callable[..., Any] | None = None
        self._kernel: Callable[..., Any] | None = None
        self._gradient: Gradient = None
        self._setup: Gradient = None
        self.__name__ = name.partition("::")[2]
        self._function = _Applied.of(self)

    def __call__(self, *args: Any, **options: Any) -> Any:
        if self._through is not None:
            return self._through(*args, **options)
        kernel = self._kernel
        if kernel is None:
            raise NotDefinedError(f"{self._qualname}: the operator has no function; give it "
                                  f"one of lazyten's operations, by lazyten.library.impl")
        if self._mutates:
            return self._written(kernel, args, options)
        given = inspect.signature(kernel).bind(*args, **options)
        count = len(given.args)
        given.apply_defaults()
        leaves, structure = flatten(given.args)
        assert structure is not None
        return self._function.apply(structure, count, given.kwargs, *leaves)

    def _written(self, kernel: Callable[..., Any], args: Any, options: Any) -> Any:
        """What an operator that writes to its arguments gives: no gradient flows through that."""
        given = flatten([*args, *options.values()])[0]
        if is_grad_enabled() and any(isinstance(x, Tensor) and x.requires_grad for x in given):
            raise GradientError(f"{self._qualname} writes to its arguments, which no gradient "
                                f"flows through, and one requires gradients; detach() it, or call "
                                f"the operator within no_grad()")
        with no_grad():
            return kernel(*args, **options)

    def _decorated(self, kept: str | None, func: Any) -> Any:
        """The function, kept as this attribute; without one, what decorates it."""
        if func is None:
            return partial(self._decorated, kept)
        if kept is not None:
            setattr(self, kept, func)
        return func

    def register_kernel(self, device_types: Any, func: Any = None, /) -> Any:
        """Let a function compute it, on all devices."""
        return self._decorated("_kernel", func)

    def register_fake(self, func: Any = None, /) -> Any:
        """The function itself, unused: shapes follow from what the operator computes."""
        return self._decorated(None, func)

    register_vmap = register_fake

    def register_torch_dispatch(self, torch_dispatch_class: Any, func: Any = None, /) -> Any:
        """The function itself, unused: no class takes operations over."""
        return self._decorated(None, func)

    def register_autograd(self, backward: Callable[..., Any], /, *,
                          setup_context: Gradient = None) -> None:
        """Its gradient: backward(ctx, *gradients of the outputs), with what
        setup_context(ctx, inputs, output) has left in ctx, gives one for each argument, or None."""
        self._gradient, self._setup = backward, setup_context

    def overloads(self) -> list[str]:
        """What it is called by below itself."""
        return ["default"]

    def __getattr__(self, name: str) -> CustomOpDef:
        """The operator itself: PyTorch has several of a name, such as add.Tensor, of which one
        function is all."""
        if name.startswith("_"):
            raise AttributeError(name)
        return self

    def __repr__(self) -> str:
        return f"<operator {self._qualname}>"


class _Applied(Function):
    """A call of an operator as a Function of the tensors among its arguments, and in lists of them.
    A subclass each operator."""

    operator: CustomOpDef

    @classmethod
    def of(cls, operator: CustomOpDef) -> type[_Applied]:
        """The Function of this operator."""
        return type(operator.__name__, (cls,), {"operator": operator})

    @classmethod
    def forward(cls, ctx: Any, structure: Branch, count: int, options: dict[str, Any],
                *leaves: Any) -> Any:
        """The outputs, for the arguments with these leaves, of which `count` were given, and
        options."""
        ctx.structure, ctx.count, operator = structure, count, cls.operator
        args, more = unflatten(iter(leaves), structure), {}
        assert operator._kernel is not None
        output = operator._kernel(*args, **options)
        if operator._setup is not None:
            if options:
                more["keyword_only_inputs"] = options
            with _needs_by_argument(ctx):
                operator._setup(ctx=ctx, inputs=args, output=output, **more)
        return output

    @classmethod
    def backward(cls, ctx: Any, *gradients: Any) -> tuple[Any, ...]:
        """A gradient for each leaf."""
        name, gradient, items = cls.operator._qualname, cls.operator._gradient, ctx.structure.items
        if gradient is None:
            raise GradientError(f"{name}: the operator has no gradient; give it one by "
                                f"lazyten.library.register_autograd")
        with _needs_by_argument(ctx):
            given = gradient(ctx, *gradients)
        parts = given if isinstance(given, tuple) else (given,)
        if len(parts) not in (ctx.count, len(items)):
            raise GradientError(f"{name}: its gradient gave {len(parts)} values for {len(items)} "
                                f"arguments; give one for each, None where there is none")
        parts += (None,) * (len(items) - len(parts))
        return None, None, None, *chain.from_iterable(map(_leaves, parts, items))


@contextmanager
def _needs_by_argument(ctx: Any) -> Iterator[None]:
    """Within this block ctx.needs_input_grad tells of arguments, not of leaves."""
    before = ctx.needs_input_grad
    ctx.needs_input_grad = unflatten(iter(before[3:]), ctx.structure)
    try:
        yield
    finally:
        ctx.needs_input_grad = before


def _leaves(gradient: Any, structure: Branch | None) -> list[Any]:
    """The gradients of an argument's leaves."""
    return [None] * _count(structure) if gradient is None else flatten(gradient)[0]


def _count(structure: Branch | None) -> int:
    return 1 if structure is None else sum(map(_count, structure.items))


_operators: dict[str, CustomOpDef] = {}


def _operator(name: Any, call: str) -> CustomOpDef:
    """The operator of a name, which is made if there is none. ArgumentError for what is no name."""
    if isinstance(name, CustomOpDef):
        return name
    if not isinstance(name, str) or not re.fullmatch(r"\w+::\w+(\.\w+)?", name):
        raise ArgumentError(f"{call}: {name!r:.60} is no name of an operator; give one such as "
                            f"'geometry::nms'")
    return _operators.setdefault(name, CustomOpDef(name))


def _own(name: str) -> CustomOpDef:
    """PyTorch's operator of a name, such as "aten::clone": the function of lazyten's, if it has one
    of that name."""
    operator, short = CustomOpDef(name), name.partition("::")[2]
    operator._through = function_named(short)
    return operator


def custom_op(name: str, fn: Any = None, /, *, mutates_args: str | Iterable[str],
              device_types: Any = None, schema: str | None = None, tags: Any = None) -> Any:
    """Make a function the operator of a name, 'namespace::name'; without fn a decorator.
    mutates_args: names of the arguments that it writes to; none may be needed for a gradient."""
    if fn is None:
        return partial(custom_op, name, mutates_args=mutates_args)
    operator = CustomOpDef(name)
    _operators[_operator(name, "custom_op")._qualname] = operator
    operator._kernel, operator._mutates = fn, bool(mutates_args)
    operator.__doc__ = fn.__doc__
    return operator


def define(qualname: str, schema: Any = None, *, lib: Any = None, tags: Any = ()) -> None:
    """Name an operator 'namespace::name', with a schema such as '(Tensor x) -> Tensor', in which
    `!` marks an argument that it writes to."""
    operator = _operator(qualname, "define")
    operator._mutates = isinstance(schema, str) and "!" in schema.partition("->")[0]


def impl(qualname: str, types: Any = "", func: Any = None, *, lib: Any = None) -> Any:
    """Let a function compute an operator; without it a decorator. types: 'default', devices, or
    PyTorch's key. NotImplementedError for a key of gradients."""
    key = types if isinstance(types, str) else ""
    if key.startswith("Autograd"):
        raise NotDefinedError(f"impl: a function of {qualname} for the key {key}; give its "
                              f"gradient by lazyten.library.register_autograd")
    kept = "_through" if key in _THROUGH else None if key.startswith(_UNUSED) else "_kernel"
    return _operator(qualname, "impl")._decorated(kept, func)


def register_kernel(op: Any, device_types: Any, func: Any = None, /, *, lib: Any = None) -> Any:
    """Let a function compute an operator, on all devices; without it a decorator."""
    return _operator(op, "register_kernel").register_kernel(device_types, func)


def register_fake(op: Any, func: Any = None, /, *, lib: Any = None, **options: Any) -> Any:
    """The function itself, unused: shapes follow from what the operator computes."""
    return _operator(op, "register_fake").register_fake(func)


def register_vmap(op: Any, func: Any = None, /, *, lib: Any = None) -> Any:
    """The function itself, unused: what an operator does is batched."""
    return _operator(op, "register_vmap").register_vmap(func)


def register_torch_dispatch(op: Any, torch_dispatch_class: Any, func: Any = None, /, *,
                            lib: Any = None) -> Any:
    """The function itself, unused: no class takes operations over."""
    return _operator(op, "register_torch_dispatch").register_torch_dispatch(None, func)


def register_autocast(op: Any, device_type: str, cast_inputs: Any, /, *, lib: Any = None) -> None:
    """Nothing: an operator computes in the types that its operations have under autocast."""
    _operator(op, "register_autocast")


def register_autograd(op: Any, backward: Callable[..., Any], /, *,
                      setup_context: Gradient = None, lib: Any = None) -> None:
    """Give an operator its gradient: CustomOpDef.register_autograd."""
    _operator(op, "register_autograd").register_autograd(backward, setup_context=setup_context)


class Library:
    """Operators of one namespace. kind: 'DEF', 'FRAGMENT' or 'IMPL'; dispatch_key: of functions
    for which none is given."""

    def __init__(self, ns: str, kind: str, dispatch_key: str = "") -> None:
        if kind not in ("DEF", "FRAGMENT", "IMPL"):
            raise ArgumentError(f"Library: kind={kind!r}; give 'DEF', 'FRAGMENT' or 'IMPL'")
        self.ns, self.kind, self.dispatch_key = ns, kind, dispatch_key

    def define(self, schema: str, alias_analysis: str = "", *, tags: Any = ()) -> str:
        """Name an operator by a schema such as 'nms(Tensor boxes, float limit) -> Tensor'; gives
        its name."""
        name = schema.partition("(")[0].strip()
        define(f"{self.ns}::{name}", schema[len(name):])
        return name

    def impl(self, op_name: Any, fn: Callable[..., Any], dispatch_key: str = "", *,
             with_keyset: bool = False, allow_override: bool = False) -> None:
        """Let a function compute an operator: lazyten.library.impl."""
        name = op_name._qualname if isinstance(op_name, CustomOpDef) else str(op_name)
        whole = name if "::" in name else f"{self.ns}::{name}"
        impl(whole, dispatch_key or self.dispatch_key, fn)


class _Namespace:
    """`lt.ops.geometry`: the operators of a namespace."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, name: str) -> CustomOpDef:
        whole = f"{self._name}::{name}"
        found = _operators.get(whole)
        if found is None and self._name == "aten" and not name.startswith("__"):
            found = _operators[whole] = _own(whole)
        if found is None:
            raise AttributeError(f"no operator {self._name}::{name}: programs name theirs by "
                                 f"lazyten.library.custom_op, and those of libraries in C++ are "
                                 f"not there", name=name)
        return found

    def __dir__(self) -> list[str]:
        return [n.partition("::")[2] for n in _operators if n.startswith(f"{self._name}::")]


class Operators:
    """`lt.ops`: operators by namespace and name, such as `lt.ops.geometry.nms`."""

    def __getattr__(self, name: str) -> _Namespace:
        if name.startswith("__"):
            raise AttributeError(name)
        return _Namespace(name)

    def load_library(self, path: Any) -> NoReturn:
        """Not to be had: OSError, as for a library that cannot be read."""
        raise OSError(f"ops.load_library({str(path)!r:.200}): libraries of PyTorch's C++ are not "
                      f"for lazyten; write the operators in Python, by lazyten.library.custom_op")


ops = Operators()
