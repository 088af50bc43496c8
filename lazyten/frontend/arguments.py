"""Checks that what a function takes for tensors are tensors, all on one device.

`takes_tensors` wraps the functions of `lazyten` and `lazyten.nn.functional`, so that a list or an
array where a tensor belongs is named before anything is done with it.
"""
from __future__ import annotations

import sys
from collections.abc import Callable
from functools import cache, wraps
from types import FunctionType
from typing import Any, ParamSpec, TypeVar, cast

from lazyten.frontend.core.forms import OUT, by_form, form, is_complex
from lazyten.frontend.core.keywords import aliases_of, parameters, renamed
from lazyten.frontend.core.overriding import (
    NOT_TAKEN,
    is_attribute_of,
    meet,
    offered,
    taken_over,
    takers,
)
from lazyten.frontend.recorded.joining import joining, joins
from lazyten.frontend.recorded.lookup import gives_tensors, recorded
from lazyten.frontend.recorded.mistakes import kind_error
from lazyten.frontend.tensor import Tensor
from lazyten.ir import dtype as dt
from lazyten.support.errors import (
    ArgumentError,
    ComplexError,
    DTypeError,
    FormError,
    GradientError,
    two_devices,
)
from lazyten.support.location import is_found_by_name

P = ParamSpec("P")
R = TypeVar("R")
NUMBER_FIRST = frozenset({
    "add", "bitwise_and", "bitwise_left_shift", "bitwise_or", "bitwise_right_shift", "bitwise_xor",
    "div", "divide", "float_power", "floor_divide", "mul", "multiply", "pow", "remainder", "rsub",
    "sub", "subtract", "true_divide", "xlogy"})
"""Functions whose first operand may be a number, if the second is a tensor."""
OF_FLOATS = frozenset({"div", "divide", "true_divide", "xlogy"})
"""Those which make floats of integers, so that the number need not fit the tensor's type."""
NUMBERS_ALONE = frozenset({"add", "div", "divide", "floor_divide", "mul", "multiply", "sub",
                           "subtract", "true_divide"})
"""Those which two numbers may be given to; they give a zero-dim tensor."""


def takes_tensors(function: Callable[P, R]) -> Callable[P, R]:
    """`checks_tensors`, and what gives tensors is looked up before it is run."""
    if gives_tensors(function):
        return recorded(_checking(function))
    return checks_tensors(function)


def name_functions(module: str, names: dict[str, Any]) -> None:
    """Have a module's functions that were made of others say that they are its own, by the names
    that they have there: a pickle holds nothing else of a function."""
    for name, value in names.items():
        if isinstance(value, FunctionType) and not is_found_by_name(value):
            given: str = value.__name__
            own = given if names.get(given) is value else name
            value.__module__, value.__name__, value.__qualname__ = module, own, own


def checks_tensors(function: Callable[P, R], complex_too: bool = False) -> Callable[P, R]:
    """`function`, which first checks every parameter that is annotated as a Tensor, and `self`.
    complex_too: it is written for complex numbers as for real ones, and needs no form for them.

    `self` may be named input, as in PyTorch, and what `*dims` takes may be given as dims=. `out`
    is a tensor, or a tuple of them, that the result is written to. Raises DTypeError for what is no
    tensor, and DeviceError for tensors on different devices.
    """
    checked = _checking(function, complex_too)

    @wraps(function)
    def done(*args: P.args, **kwargs: P.kwargs) -> R:
        taken = taken_over(done, args, kwargs) if takers else NOT_TAKEN
        if taken is not NOT_TAKEN:
            return cast(R, taken)
        try:
            return checked(*args, **kwargs)
        except FormError:
            pass
        except Exception as error:
            if meet(args, kwargs):
                return done(*args, **kwargs)
            told = kind_error(function, args, kwargs, error)
            if told is not None:
                raise told from error
            raise
        return cast(R, by_form(function, args, kwargs))
    return done


def _checking(function: Callable[P, R], complex_too: bool = False) -> Callable[P, R]:
    """The same without what it does with complex numbers."""
    operation = function.__name__
    positional, named, several = parameters(function)
    places = _places_of_tensors(function)
    takes_input = "input" in positional or "input" in named
    takes_out = "out" in positional or "out" in named
    aliases = aliases_of(function)
    number_first = operation in NUMBER_FIRST
    in_order = getattr(function, "in_order", None)

    @wraps(function)
    def checked(*args: Any, **kwargs: Any) -> R:
        out = None
        if kwargs:
            out = None if takes_out else kwargs.pop("out", None)
            kwargs = renamed(kwargs, aliases)
            if "input" in kwargs and not takes_input:
                args = (kwargs.pop("input"), *args)
            if several in kwargs:
                args = (*args, kwargs.pop(several))
        if in_order is not None and len(args) > 3:
            args, kwargs = in_order(args, kwargs)
        if number_first and len(args) == 2 and isinstance(args[0], bool | int | float | complex):
            whole = operation not in OF_FLOATS or kwargs.get("rounding_mode") is not None
            args = (_beside(args[0], args[1], operation, whole), args[1])
        first: Tensor | None = None
        for place, name, optional in places:
            if place >= len(args) and name not in kwargs:
                continue
            value = args[place] if place < len(args) else kwargs[name]
            if value is None and optional:
                continue
            if not isinstance(value, Tensor):
                if place == 0 and args and is_attribute_of(value, function):
                    return checked(*args[1:], **kwargs)
                what = "the operand" if name == "self" else name
                raise DTypeError(f"{operation}: {what} is {type(value).__name__} {value!r:.40}, "
                                 f"not a tensor; wrap it in lazyten.tensor()")
            if first is None:
                first = value
            if complex_too and (is_complex(first) or is_complex(value)):
                if value.device != first.device:
                    raise two_devices(operation, first.device, value.device)
            else:
                first._operand(value, operation)
        result = function(*args, **kwargs)
        return result if out is None else cast(R, written(result, out, operation))

    return cast("Callable[P, R]", checked)


def _places_of_tensors(function: Callable[..., Any]) -> list[tuple[int, str, bool]]:
    """Of each argument that is a tensor its position, its name, and whether it may be None."""
    annotations = function.__annotations__
    positional, named, several = parameters(function)
    found = [*enumerate(positional), *((sys.maxsize, name) for name in named)]
    if several:
        found.append((len(positional), several))
    return [(place, name, annotations.get(name) == "Tensor | None") for place, name in found
            if name == "self" or annotations.get(name) in ("Tensor", "Tensor | None")]


def takes_out(function: Callable[P, R]) -> Callable[P, R]:
    """`function`, which takes PyTorch's other names of its arguments, and `out` as well; see
    `takes_tensors`."""
    aliases = aliases_of(function)

    @wraps(function)
    def named(*args: Any, **kwargs: Any) -> R:
        out = kwargs.pop("out", None)
        result = function(*args, **renamed(kwargs, aliases))
        return result if out is None else cast(R, written(result, out, function.__name__))

    whole = cast("Callable[P, R]", named)
    if not gives_tensors(function):
        return whole
    return joining(whole, recorded(whole)) if joins(function) else recorded(whole)


def fills_out(function: Callable[P, R]) -> Callable[P, R]:
    """`function`, which makes a tensor, and takes `out` as well: what is made is of its type and
    on its device, and written to it. DTypeError for another dtype."""
    operation = function.__name__

    @wraps(function)
    def filled(*args: Any, **kwargs: Any) -> R:
        out = kwargs.pop("out", None)
        if not isinstance(out, Tensor):
            return function(*args, **kwargs) if out is None else cast(R, written(
                None, out, operation))
        kind = kwargs.get("dtype") or out.dtype
        if kind is not out.dtype:
            raise DTypeError(f"{operation}: out is {out.dtype.name} and dtype {kind}; leave dtype "
                             f"away")
        kwargs |= {"dtype": kind, "device": out.device}
        return cast(R, written(function(*args, **kwargs), out, operation))
    return offered(cast("Callable[P, R]", filled), function)


@cache
def unattached(function: Callable[..., R]) -> Callable[..., R]:
    """`function`, which is no method of a class that has it as an attribute (`join = lt.cat`):
    where Python gives it the object first, and it can make nothing of that, it goes without."""
    @wraps(function)
    def called(*args: Any, **kwargs: Any) -> R:
        try:
            return function(*args, **kwargs)
        except Exception:
            if args and not isinstance(args[0], Tensor) and is_attribute_of(args[0], called):
                return called(*args[1:], **kwargs)
            raise
    return offered(called, function)


def _beside(number: Any, other: Any, operation: str, whole: bool) -> Any:
    """A number as a tensor that counts as one beside another tensor, or number. whole: integers
    give integers."""
    if isinstance(other, bool | int | float) and operation in NUMBERS_ALONE:
        return Tensor._copy_of(number)
    if not isinstance(other, Tensor):
        return number
    if isinstance(number, complex):
        raise ComplexError
    if operation == "float_power":
        return Tensor._copy_of(number, dt.float64, other.device)
    kind = dt.of_scalar(number)
    same = other.dtype.is_float or kind.is_int and other.dtype.is_int and whole
    return Tensor._copy_of(number, other.dtype if same else kind, other.device)


@form(OUT)
def written(result: Any, out: Any, operation: str) -> Any:
    """`out`, with what an operation gives written to it: in its own memory, of which it becomes a
    row-major view if it has another shape (see resize_). GradientError if gradients are wanted, as
    they do not flow through a write of this kind; DTypeError for what is no tensor, or cannot hold
    the result."""
    if isinstance(result, tuple):
        if not isinstance(out, tuple | list) or len(out) != len(result):
            raise ArgumentError(f"{operation}: out={out!r:.60} must be a tuple of {len(result)} "
                                f"tensors")
        pairs = zip(result, out, strict=True)
        return type(out)([written(value, into, operation) for value, into in pairs])
    if not isinstance(out, Tensor):
        raise DTypeError(f"{operation}: out is {type(out).__name__} {out!r:.40}, not a tensor")
    if result.requires_grad or out.requires_grad:
        raise GradientError(f"{operation}: with out=, gradients do not flow; leave out= away, or "
                            f"call it inside no_grad() with tensors that are detach()ed")
    if dt.category(result.dtype) > dt.category(out.dtype):
        raise DTypeError(f"{operation}: out is {out.dtype.name}, which cannot hold a result of "
                         f"{result.dtype.name}")
    return (out if out.shape == result.shape else out.resize_(result.shape)).copy_(result)
