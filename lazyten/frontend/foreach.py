"""`lt._foreach_add_(tensors, ..)` and the like: a method of each of several tensors, which
optimizers of others are written with. lazyten fuses them as it does a loop.

In: such a name. Out: a function of lists of tensors; it takes for each other argument what is for
all, or a list with one for each.
"""
from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

from lazyten.frontend.tensor import Tensor
from lazyten.support.errors import ArgumentError

PREFIX = "_foreach_"
_OF_NUMBERS = {"maximum": "clamp_min", "minimum": "clamp_max"}
"""Methods of two tensors, and those of a tensor and a number."""


@cache
def each(name: str) -> Callable[..., Any] | None:
    """The function of a name such as '_foreach_add_'; None if tensors have no such method. What
    ends in _ writes to the tensors, and gives them; else it gives a tuple of others."""
    method = name.removeprefix(PREFIX)
    plain = method.removesuffix("_")
    if not name.startswith(PREFIX) or plain not in _OF_NUMBERS and not hasattr(Tensor, method):
        return None

    def called(self: Sequence[Any], *args: Any, **options: Any) -> Any:
        if plain == "norm" and "ord" in options:  # as linalg.vector_norm has it
            options["p"] = options.pop("ord")
        args = _renamed(plain, args, options)
        for given in (*args, *options.values()):
            if isinstance(given, list | tuple) and len(given) != len(self):
                raise ArgumentError(f"{name}: {len(given)} values for {len(self)} tensors; give "
                                    f"one for each, or one for all")
        made = [_one(x, plain, method[len(plain):], [_at(a, i) for a in args],
                     {key: _at(a, i) for key, a in options.items()}) for i, x in enumerate(self)]
        return self if method != plain else tuple(made)
    called.__name__ = called.__qualname__ = name
    called.__doc__ = f"`Tensor.{method}` of each of several tensors."
    return called


def _renamed(plain: str, args: tuple[Any, ...], options: dict[str, Any]) -> tuple[Any, ...]:
    """Arguments without what the method has under another name, or by name alone: that is added to
    the options, or to the arguments."""
    numbers = [options.pop(name) for name in ("scalar", "scalars", "weights") if name in options]
    if plain in ("addcdiv", "addcmul"):
        numbers += args[2:]
        args = args[:2]
        if numbers:
            given = numbers.pop()
            options["value"] = given.tolist() if isinstance(given, Tensor) else given
    return (*args, *numbers)


def _at(given: Any, i: int) -> Any:
    return given[i] if isinstance(given, list | tuple) else given


def _one(x: Any, plain: str, ending: str, args: list[Any], options: dict[str, Any]) -> Any:
    """The method of one tensor."""
    if plain in _OF_NUMBERS:
        bound = options.pop("other", args[0] if args else None)
        if not isinstance(bound, Tensor):
            return getattr(x, _OF_NUMBERS[plain] + ending)(bound)
        found = getattr(x, plain)(bound)
        return x.copy_(found) if ending else found
    return getattr(x, plain + ending)(*args, **options)

