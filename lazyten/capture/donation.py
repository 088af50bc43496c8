"""Which tensors a call of a jitted function donates: those of some arguments, by position or name.

In: the option `donate` of `lt.jit`. Out: the storages whose memory results may take, and errors for
what cannot be donated. Called by jitted.py; dims.py finds arguments as this does.
"""
from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from inspect import Parameter
from typing import Any

from lazyten.frontend.core.forms import in_floats
from lazyten.frontend.tensor import Tensor
from lazyten.nn.module import Module
from lazyten.storage.storage import Storage
from lazyten.support.errors import ArgumentError, JitError
from lazyten.support.trees import flatten

Donate = int | str | Sequence[int | str]


class Donation:
    """The arguments of `function` that are donated. ArgumentError for what it does not have."""

    def __init__(self, function: Callable[..., Any], donate: Donate) -> None:
        asked = (donate,) if isinstance(donate, int | str) else tuple(donate)
        self.function = function
        self.places: set[int | str] = set()
        for place in asked:
            self.places.update(aliases(function, place, "donate"))

    @property
    def name(self) -> str:
        """The function's, for messages."""
        return getattr(self.function, "__qualname__", type(self.function).__name__)

    def storages(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> set[Storage]:
        """What a call with these arguments donates. JitError if another argument has it too."""
        given: dict[int | str, Any] = dict(enumerate(args))
        given.update(kwargs)
        donated, kept = set[Storage](), set[Storage]()
        for place, value in given.items():
            (donated if place in self.places else kept).update(
                in_floats(x)._storage for x in flatten(value)[0] if isinstance(x, Tensor))
        for both in donated & kept:
            raise JitError(f"a tensor of shape {both._node.shape} that is donated to jitted "
                           f"function {self.name}, or a view of it, is another argument of the "
                           f"call too: clone() it for one of them, or donate both")
        return donated


def aliases(function: Callable[..., Any], place: object, option: str,
            of: str = "jit") -> set[int | str]:
    """The position and name under which a call may give the argument that is meant. option, and
    what it is `of`, for messages."""
    called = function.forward if isinstance(function, Module) else function
    parameters = list(inspect.signature(called).parameters.values())
    positions = [p for p in parameters
                 if p.kind in (Parameter.POSITIONAL_ONLY, Parameter.POSITIONAL_OR_KEYWORD)]
    names = {p.name for p in parameters
             if p.kind in (Parameter.POSITIONAL_OR_KEYWORD, Parameter.KEYWORD_ONLY)}
    kinds = {p.kind for p in parameters}
    found: set[int | str] = set()
    for number, p in enumerate(positions):
        if place in (number, p.name) and not isinstance(place, bool):
            found |= {number, p.name} if p.name in names else {number}
    if isinstance(place, str) and (place in names or Parameter.VAR_KEYWORD in kinds):
        found.add(place)
    if type(place) is int and place >= len(positions) and Parameter.VAR_POSITIONAL in kinds:
        found.add(place)
    if not found:
        raise ArgumentError(f"{of}({option}={place!r:.40}): there is no such argument of "
                            f"{getattr(function, '__qualname__', function)}"
                            f"({', '.join(p.name for p in parameters)}); give positions or names")
    return found
