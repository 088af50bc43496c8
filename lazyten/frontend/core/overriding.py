"""Classes and modes that take operations over: PyTorch's protocol `__torch_function__`.

In: an operation, and its arguments. Out: what the first class among theirs gives for it. A
subclass of Tensor is known from its definition; of another class with the protocol it is learned
when an operation has failed on an instance. Until there is one, an operation asks whether `takers`
is empty, and no more.
"""
from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from inspect import unwrap
from threading import local
from types import FunctionType
from typing import Any, ParamSpec, TypeVar, cast

from lazyten.support.errors import ForeignOperandError, LazytenError
from lazyten.support.location import is_our_class

P = ParamSpec("P")
R = TypeVar("R")
PROTOCOL = "__torch_function__"
NOT_TAKEN = object()
takers: set[type] = set()
"""The classes whose instances are asked; `Mode` among them once one was entered."""


class _Here(local):
    """What this thread does."""

    classes_are_asked = True
    modes: tuple[Any, ...] = ()


_here = _Here()


def disabled(function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
    """The function's result: what a class gives as `__torch_function__` to be left alone."""
    return function(*args, **(kwargs or {}))


def takes_over(kind: type) -> bool:
    """Whether a class has the protocol, and does not leave operations alone."""
    taken = getattr(kind, PROTOCOL, None)
    return taken is not None and getattr(taken, "__func__", taken) is not disabled


def meet(args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    """Whether there are classes with the protocol among the arguments' that were not known."""
    met = {type(x) for x in _operands(args, kwargs) if takes_over(type(x))} - takers
    takers.update(kind for kind in met if not is_our_class(kind))
    return not met.isdisjoint(takers)


def offered(outer: Callable[P, R], inner: Callable[..., Any]) -> Callable[P, R]:
    """`outer`, the function that users call, which is what classes are told of where `inner`, which
    it wraps, asks them: they know functions by what they are."""
    inner.__dict__["offered_as"] = outer
    return outer


def taken_over(function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any],
               relevant: Any = None) -> Any:
    """What a mode or a class (of `relevant` arguments, or any) gives for an operation; NOT_TAKEN if
    there is none. ForeignOperandError if there are, and all give NotImplemented."""
    while "offered_as" in getattr(function, "__dict__", ()):
        function = function.__dict__["offered_as"]
    asked: list[Any] = []
    if _here.classes_are_asked:
        asked = _asked(args, kwargs) if relevant is None else _asked(tuple(relevant), {})
    types = {type(x) for x in asked}
    for mode in reversed(_here.modes):
        with _without_mode(mode):
            result = mode.__torch_function__(function, types, args, kwargs)
        if result is not NotImplemented:
            return result
    if not asked:
        return NOT_TAKEN
    if args and not hasattr(type(args[0]), PROTOCOL) and is_attribute_of(args[0], function):
        args = args[1:]
    for x in asked:
        result = x.__torch_function__(function, types, args, kwargs)
        if result is not NotImplemented:
            return result
    raise ForeignOperandError(
        f"{function.__name__} of {', '.join(sorted(t.__name__ for t in types))}: the "
        f"__torch_function__ of each gave NotImplemented; have one of them take it")


def is_attribute_of(value: Any, function: Callable[..., Any]) -> bool:
    """Whether an object's class has the function as an attribute, which Python then gives the
    object first, as a method: `conv = F.conv2d` in a class. PyTorch's functions are none to it."""
    return any(isinstance(x, FunctionType) and unwrap(x) is unwrap(function)
               for kind in type(value).__mro__ for x in vars(kind).values())


def overridable(function: Callable[P, R]) -> Callable[P, R]:
    """An operation that is not looked up, which classes may take over."""
    @wraps(function)
    def asking(*args: P.args, **kwargs: P.kwargs) -> R:
        taken = taken_over(asking, args, kwargs) if takers else NOT_TAKEN
        if taken is not NOT_TAKEN:
            return cast(R, taken)
        try:
            return function(*args, **kwargs)
        except LazytenError:
            if not meet(args, kwargs):
                raise
        return asking(*args, **kwargs)
    return asking


def has_override(values: Any) -> bool:
    """Whether one of these values, or a mode, takes operations over."""
    return bool(_here.modes) or _here.classes_are_asked and any(
        takes_over(type(x)) and not is_our_class(type(x)) for x in values)


def _operands(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Iterator[Any]:
    """The arguments, and what is in their lists."""
    for x in (*args, *kwargs.values()):
        if isinstance(x, list | tuple):
            yield from x
        else:
            yield x


def _asked(args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[Any]:
    """An instance of each class that is to be asked: from left to right, but a subclass before what
    it is of."""
    found: list[Any] = []
    for x in _operands(args, kwargs):
        kind = type(x)
        if kind in takers and all(type(one) is not kind for one in found):
            before = [at for at, one in enumerate(found) if issubclass(kind, type(one))]
            found.insert(before[0] if before else len(found), x)
    return found


@contextmanager
def _without_mode(mode: Any) -> Iterator[None]:
    """Within this block this mode, and those that were entered after it, are not asked."""
    before = _here.modes
    _here.modes = before[:before.index(mode)]
    try:
        yield
    finally:
        _here.modes = before


class NotAsked:
    """Within this block no class takes operations over, and no mode if `modes_too`."""

    modes_too = False

    def __enter__(self) -> None:
        self._before = _here.classes_are_asked, _here.modes
        _here.classes_are_asked = False
        if self.modes_too:
            _here.modes = ()

    def __exit__(self, *exc: object) -> None:
        _here.classes_are_asked, _here.modes = self._before


class NothingAsked(NotAsked):
    """Within this block neither classes nor modes take operations over."""

    modes_too = True


class Mode:
    """Within a block of it, its `__torch_function__` is asked for each operation: given the
    function, the classes that take it over, and its arguments. Within that it is not asked."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """What an operation gives: itself, unless a class defines this anew."""
        return func(*args, **(kwargs or {}))

    def __enter__(self) -> Mode:
        takers.add(Mode)
        _here.modes = (*_here.modes, self)
        return self

    def __exit__(self, *exc: object) -> None:
        _here.modes = _here.modes[:-1]


def as_class(result: Any, cls: type) -> Any:
    """A result whose tensors are instances of a subclass of Tensor, also those of a tuple."""
    if isinstance(result, list | tuple):
        parts = [as_class(x, cls) for x in result]
        made = getattr(result, "_make", None)
        return made(parts) if made else cast(Any, type(result))(parts)
    is_other = hasattr(result, "as_subclass") and not isinstance(result, cls)
    return result.as_subclass(cls) if is_other else result
