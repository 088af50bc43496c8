"""Other names that PyTorch takes arguments by: `axis=` for `dim=`, NumPy's `keepdims=`, `size=`,
and what says how a new tensor is stored."""
from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache, wraps
from types import CodeType
from typing import Any, ParamSpec, TypeVar, cast

from lazyten.frontend.core.forms import by_form
from lazyten.frontend.core.overriding import offered
from lazyten.ir.dtype import package
from lazyten.support.errors import ArgumentError, FormError, KindError, ShapeError

P = ParamSpec("P")
R = TypeVar("R")
ALIASES = {"axis": "dim", "keepdims": "keepdim", "split_size_or_sections": "split_size"}


@dataclass(frozen=True, slots=True)
class Layout:
    """How PyTorch stores elements; here they are strided."""

    name: str

    def __repr__(self) -> str:
        return f"{package()}.{self.name}"

    def __reduce__(self) -> str:
        return self.name  # in a pickle, and for copies: the object of this name, below


strided = Layout("strided")
sparse_coo, sparse_csr, sparse_csc = map(Layout, ("sparse_coo", "sparse_csr", "sparse_csc"))
sparse_bsr, sparse_bsc, jagged = map(Layout, ("sparse_bsr", "sparse_bsc", "jagged"))
"""Layouts of PyTorch's that no tensor has here, for programs that compare with them."""


@dataclass(frozen=True, slots=True)
class MemoryFormat:
    """The order in memory of a tensor's elements, as PyTorch names it: that of a copy, whose axes
    are stored in another order, and seen through a view that puts them back. What is computed of
    it is in row-major order again. order: the axes as they follow each other in memory; None:
    row-major, of any number of axes, or for 'preserve_format' whatever it was."""

    name: str
    order: tuple[int, ...] | None = None

    def __repr__(self) -> str:
        return f"{package()}.{self.name}"

    def __reduce__(self) -> str:
        return self.name  # in a pickle, and for copies: the object of this name, below


contiguous_format = MemoryFormat("contiguous_format")
preserve_format = MemoryFormat("preserve_format")
channels_last = MemoryFormat("channels_last", (0, 2, 3, 1))
channels_last_3d = MemoryFormat("channels_last_3d", (0, 2, 3, 4, 1))


def order_of(given: object, rank: int, operation: str) -> tuple[int, ...] | None:
    """The order of the axes in memory; None for row-major. KindError for what is no layout,
    ShapeError if it is for another number of axes."""
    if not isinstance(given, MemoryFormat):
        raise KindError(f"{operation}: memory_format={given!r:.60} is not one of "
                        f"lazyten.contiguous_format, preserve_format, channels_last, "
                        f"channels_last_3d")
    if given.order is not None and len(given.order) != rank:
        raise ShapeError(f"{operation}: {given.name} is for {len(given.order)} axes; this tensor "
                         f"has {rank}")
    return given.order


def looks_like(memory_format: MemoryFormat, shape: Sequence[int], strides: Sequence[int]) -> bool:
    """Whether strides are of a format rather than of others which they would do for as well, where
    axes of size 1 leave several; what PyTorch's to() goes by."""
    formats = [f for f in (channels_last, channels_last_3d) if _are_strides_of(f, shape, strides)]
    return memory_format in formats if memory_format.order else not formats


def _are_strides_of(memory_format: MemoryFormat, shape: Sequence[int],
                    strides: Sequence[int]) -> bool:
    """Whether each axis steps over the one that follows it in memory, and the first axis over more
    than one channel."""
    order = memory_format.order or ()
    if len(order) != len(shape) or 0 in shape or strides[1] == 0:
        return False
    least = 0
    for axis in reversed(order):
        if strides[axis] < least or axis == 0 and least == strides[1]:
            return False
        least = strides[axis] * shape[axis]
    return True


def _numbers_of(args: tuple[Any, ...], count: int) -> list[int]:
    """The places of the numbers among tensors: zero-dim tensors, too, as many as are asked for
    (that in the place of a method's first argument before others)."""
    places = [i for i, x in enumerate(args) if isinstance(x, int | float)]
    if len(places) < count:
        single = [i for i, x in enumerate(args) if i not in places
                  and getattr(x, "ndim", None) == 0]
        places += sorted(single, key=lambda i: (i != 1, i))[:count - len(places)]
    return sorted(places)


def numbers_among(*names: str) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """A decorator for a method of three tensors, which then takes numbers among them, too, in the
    order of these names: `x.addcmul_(value, a, b)`, `addmm(beta, x, alpha, a, b)`, as programs
    older than these arguments' names have it."""
    def taking(method: Callable[P, R]) -> Callable[P, R]:
        def in_order(args: tuple[Any, ...], kwargs: dict[str, Any]
                     ) -> tuple[tuple[Any, ...], dict[str, Any]]:
            places = _numbers_of(args, len(args) - 3)
            if len(args) != 3 + len(places) or not 0 < len(places) <= len(names):
                return args, kwargs
            return tuple([x for i, x in enumerate(args) if i not in places]), \
                {**dict(zip(names, [args[i] for i in places], strict=False)), **kwargs}

        @wraps(method)
        def ordered(*args: Any, **kwargs: Any) -> R:
            if len(args) > 3:
                args, kwargs = in_order(args, kwargs)
            return method(*args, **kwargs)
        ordered.__dict__["in_order"] = in_order
        return cast("Callable[P, R]", ordered)
    return taking


@cache
def parameters(function: Callable[..., object]) -> tuple[tuple[str, ...], tuple[str, ...], str]:
    """The names that may be given by position, those that may not, and of the parameter that takes
    several ('' if none does). (inspect.signature would take as long for all functions as a tenth of
    importing lazyten.)"""
    code: CodeType = inspect.unwrap(function).__code__
    positional, named = code.co_argcount, code.co_argcount + code.co_kwonlyargcount
    several = code.co_varnames[named] if code.co_flags & inspect.CO_VARARGS else ""
    return code.co_varnames[:positional], code.co_varnames[positional:named], several


def also_named(**aliases: str) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """A decorator: PyTorch takes parameters of this function by other names, too. aliases: the
    parameter of each such name."""
    def noted(function: Callable[P, R]) -> Callable[P, R]:
        function.__dict__["also_named"] = aliases
        return function
    return noted


def aliases_of(function: Callable[..., object]) -> dict[str, str]:
    """The other names of a function's parameters."""
    positional, named, several = parameters(function)
    names = {*positional, *named, several}
    found = ALIASES | getattr(function, "also_named", {})
    return {a: name for a, name in found.items() if name in names and a not in names}


def taking_aliases(function: Callable[P, R]) -> Callable[P, R]:
    """The function, which takes `axis` for `dim`, `keepdims` for `keepdim`, and by its name what it
    takes several of."""
    aliases, (_, _, several) = aliases_of(function), parameters(function)
    if not aliases and not several:
        return function

    @wraps(function)
    def named(*args: Any, **kwargs: Any) -> R:
        if kwargs:
            kwargs = renamed(kwargs, aliases)
            if several in kwargs:
                args = (*args, kwargs.pop(several))
        return function(*args, **kwargs)
    return cast("Callable[P, R]", named)


def renamed(kwargs: dict[str, Any], aliases: dict[str, str]) -> dict[str, Any]:
    """Arguments by their own names."""
    return {aliases.get(name, name): value for name, value in kwargs.items()}


def making(function: Callable[P, R]) -> Callable[P, R]:
    """A function that makes tensors, which takes what PyTorch's do besides: `size=` for `*size`,
    and `layout`, `pin_memory` and `memory_format`, which change nothing. ArgumentError for a layout
    or a format that there is not."""
    positional, named, several = parameters(function)
    known = {*positional, *named}

    @wraps(function)
    def made(*args: Any, **kwargs: Any) -> R:
        if kwargs:
            if several in kwargs:
                args = (*args, kwargs.pop(several))
            for name, kind in (("layout", Layout), ("pin_memory", bool),
                               ("memory_format", MemoryFormat)):
                if name in kwargs and name not in known:
                    given = kwargs.pop(name)
                    if given is not None and not isinstance(given, kind) \
                            or isinstance(given, Layout) and given is not strided:
                        raise ArgumentError(f"{function.__name__}: {name}={given!r:.60} is not "
                                            f"one that lazyten has")
        try:
            return function(*args, **kwargs)
        except FormError:
            pass
        return cast(R, by_form(function, args, kwargs))
    return offered(cast("Callable[P, R]", made), function)
