"""Where operations that meet complex or sparse tensors are looked up: their forms, by name.

Operations are written for dense tensors of real numbers. One that is given another raises a
FormError when it asks for the tensor's node or storage, and those that wrap it (recorded/lookup.py,
arguments.py, keywords.py) then have its form do it, which complexes/ and lazyten/sparse/ have put
here. What has no form is refused, so that pairs of numbers are never taken for numbers, nor the
values of a sparse tensor for all of its elements.
"""
from __future__ import annotations

import inspect
from collections import ChainMap
from collections.abc import Callable, Collection
from functools import wraps
from typing import Any, TypeVar, cast

from lazyten.support.errors import ForeignOperandError, FormError, not_complex, not_sparse
from lazyten.support.trees import Parted

F = TypeVar("F", bound=Callable[..., Any])

FORMS: dict[str, Callable[..., Any]] = {}
"""What operations do with complex numbers."""
OUT = "out="
"""The entry that writes a result to `out`."""


class Complex:
    """What complex tensors are instances of, for those who only need to know that, and that they
    hold a real tensor, of pairs of floats."""

    __slots__ = ()
    _parts: Any


def in_floats(x: Any) -> Any:
    """The pairs of floats of a complex tensor; a real tensor itself."""
    return x._parts if isinstance(x, Complex) else x


def form(*names: str) -> Callable[[F], F]:
    """A decorator: what the operations of these names do with complex numbers."""
    def noted(function: F) -> F:
        FORMS.update(dict.fromkeys(names, function))
        return function
    return noted


def made_of_others(function: F) -> F:
    """A decorator, innermost: an operation that other ones make up does that with complex numbers,
    too. (Not for a formula that is another one of complex numbers, as that of a variance is.)"""
    FORMS[name_of(function)] = function
    return function


def is_complex(x: object) -> bool:
    """Whether an argument is, or has in it, a complex tensor or number."""
    if isinstance(x, list | tuple):
        return any(map(is_complex, x))
    return isinstance(x, Complex | complex)


def name_of(function: Callable[..., Any]) -> str:
    """What an operation's form is found by: its name, with its room if that is not the frontend, as
    linalg.norm is not what tensors call norm."""
    room = function.__module__.split(".")[1]
    return function.__name__ if room == "frontend" else f"{room}.{function.__name__}"


def form_of(operation: Callable[..., Any]) -> Callable[..., Any] | None:
    """What an operation does with complex numbers; None if it has no form. A method that takes what
    the function of its name takes in another order, as x.where(mask, y), has one of its own."""
    name = name_of(operation)
    is_method = "." in operation.__qualname__
    return is_method and FORMS.get(f"Tensor.{name}") or FORMS.get(name)


def in_complex(operation: Callable[..., Any], args: tuple[Any, ...],
               kwargs: dict[str, Any]) -> Any:
    """What an operation gives by its form. DTypeError, with its name, if it has none."""
    name = name_of(operation)
    args, others = _as_declared(operation, args, kwargs)
    out = others.pop("out", None)
    only_out = is_complex(out) and not is_complex([*args, *others.values()])
    function = operation if only_out else form_of(operation)
    if function is None:
        raise not_complex(name)
    result = function(*args, **others)
    return result if out is None else FORMS[OUT](result, out, name)


def _as_declared(operation: Callable[..., Any], args: tuple[Any, ...],
                 kwargs: dict[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """The arguments by an operation's own names for them, its input by place."""
    names: dict[str, str] = getattr(operation, "also_named", {})
    others = {names.get(given, given): value for given, value in kwargs.items()}
    return ((others.pop("input"), *args) if "input" in others else args), others


def or_by_form(function: F) -> F:
    """The function, or its form where it meets complex or sparse tensors."""
    @wraps(function)
    def either(*args: Any, **kwargs: Any) -> Any:
        try:
            return function(*args, **kwargs)
        except FormError:
            pass
        return by_form(function, args, kwargs)
    return cast(F, either)


# ---- sparse tensors ------------------------------------------------------------------------------

SPARSE_FORMS: dict[str, Callable[..., Any]] = {}
"""What operations do with sparse tensors, by name; lazyten/sparse/ has put it here."""


class Sparse(Parted):
    """What sparse tensors are instances of, for those who only need to know that."""

    __slots__ = ()


def is_sparse(x: object, within: tuple[int, ...] = ()) -> bool:
    """Whether an argument is, or has in it, a sparse tensor. within: the ids of the lists that it
    is in, one of which it may be."""
    if isinstance(x, list | tuple):
        return id(x) not in within and any(is_sparse(item, (*within, id(x))) for item in x)
    return isinstance(x, Sparse)


def sparse_form(*names: str) -> Callable[[F], F]:
    """A decorator: what the operations of these names do with sparse tensors."""
    def noted(function: F) -> F:
        SPARSE_FORMS.update(dict.fromkeys(names, function))
        return function
    return noted


def by_form(operation: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """What an operation gives by its form, after it has raised a FormError. An error with its name,
    if it has none."""
    if is_sparse([*args, *kwargs.values()]):
        return _in_sparse(operation, args, kwargs)
    return in_complex(operation, args, kwargs)


def _in_sparse(operation: Callable[..., Any], args: tuple[Any, ...],
               kwargs: dict[str, Any]) -> Any:
    name, function = operation.__name__, SPARSE_FORMS.get(name_of(operation))
    args, others = _as_declared(operation, args, kwargs)
    out = others.pop("out", None)
    if function is None or out is not None:
        raise not_sparse(name if function is None else f"{name} with out=")
    return function(*args, **others)


def handles_of(x: Any) -> list[Any]:
    """The dense tensors of real numbers that hold a tensor's elements."""
    if isinstance(x, Sparse):
        return [handle for part in x.taken_apart()[0] for handle in handles_of(part)]
    return [x._parts if isinstance(x, Complex) else x]


# ---- methods of classes that have forms --------------------------------------------------------

def install_forms(kind: type, base: type, kept: Collection[str],
                  form: Callable[[str, Callable[..., Any]], Callable[..., Any] | None],
                  refusal: Callable[[str], Exception]) -> None:
    """Give a class of tensors its methods: each that `base` has is its form, or a refusal, but for
    those `kept` and those that the class has itself. form: of a name and dense tensors' method."""
    of_tensors = ChainMap(*[dict(vars(part)) for part in base.__mro__])
    for name in sorted(of_tensors):
        method = of_tensors[name]
        if name in kept or name in vars(kind) or not inspect.isfunction(method) \
                or name.startswith("_") and not name.startswith("__"):
            continue
        setattr(kind, name, as_method(kind, method, name, form(name, method)
                                      or _refused(refusal, name)))


def _refused(refusal: Callable[[str], Exception], name: str) -> Callable[..., Any]:
    def refused(self: Any, *args: Any, **kwargs: Any) -> Any:
        raise refusal(name)
    return refused


def as_method(kind: type, base: Any, name: str, function: Callable[..., Any]) -> Callable[..., Any]:
    """The function as a method of a class, documented as that of dense tensors, `base`; an operator
    leaves the work to an operand of a class that has its own."""
    def method(self: Any, *args: Any, **kwargs: Any) -> Any:
        try:
            return function(self, *args, **kwargs)
        except ForeignOperandError:
            if name.startswith("__"):
                return NotImplemented
            raise
    method.__name__, method.__qualname__ = name, f"{kind.__name__}.{name}"
    method.__doc__ = base.__doc__
    return method
