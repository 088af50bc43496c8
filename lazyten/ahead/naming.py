"""Names in C: of what a function is given and gives, and of what it knows by name in Python."""
from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from types import MethodType
from typing import Any

from lazyten.capture.state.environment import Environment
from lazyten.frontend.tensor import Tensor
from lazyten.nn.module import Module
from lazyten.optim.optimizer import Optimizer
from lazyten.storage.storage import Storage
from lazyten.support.errors import ArgumentError
from lazyten.support.trees import flatten, paths

IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_WORDS = """
    alignas alignof and asm auto bool break case catch char class const constexpr continue default
    delete do double else enum extern false float for friend goto if inline int long mutable
    namespace new nullptr operator or private protected public register restrict return short
    signed sizeof static struct switch template this throw true try typedef typename union unsigned
    using virtual void volatile while xor main state weights workspace memory
    min mulacc as_float as_uint as_double as_ulong uchar ushort uint ulong"""
KEYWORDS = frozenset(_WORDS.split())
"""Words of C and C++, and names that programs have besides."""
_MATH = """
    acos acosh asin asinh atan atan2 atanh cbrt ceil copysign cos cosh erf erfc exp exp2 expm1 fabs
    fdim floor fma fmax fmin fmod frexp hypot ilogb ldexp lgamma llrint llround log log10 log1p log2
    logb lrint lround modf nan nearbyint nextafter nexttoward pow remainder remquo rint round
    scalbln scalbn sin sinh sqrt tan tanh tgamma trunc"""
FUNCTIONS = frozenset(name + kind for name in _MATH.split() for kind in ("", "f", "l"))
"""Functions of <math.h>, which a program calls and so must not be."""


def check_identifier(name: object, what: str) -> str:
    """A name that C can have. ArgumentError for another."""
    if not isinstance(name, str) or not IDENTIFIER.fullmatch(name) or name in KEYWORDS \
            or name.startswith("kernel_"):
        raise ArgumentError(f"export: {what} {name!r} cannot be a name in C here: give letters of "
                            f"English, digits and underscores, no digit first; no word of C or "
                            f"C++, none of state, weights, workspace and memory, and none that "
                            f"begins with kernel_")
    return name


def check_function(name: object, what: str) -> str:
    """A name that a function of a program can have. ArgumentError for another."""
    if name in FUNCTIONS:
        raise ArgumentError(f"export: {what} {name!r} is a function of <math.h>, which programs "
                            f"call: give another")
    return check_identifier(name, what)


def identifiers(names: Iterable[str]) -> tuple[str, ...]:
    """Names as near to these as C allows, all different."""
    found: list[str] = []
    for name in names:
        made = re.sub(r"[^A-Za-z0-9_]+", "_", name).strip("_") or "value"
        made = f"_{made}" if made[0].isdigit() else f"{made}_" if made in KEYWORDS else made
        taken = {n.upper() for n in found}  # constants of the header have them in capitals
        found.append(next(n for n in _candidates(made) if n.upper() not in taken))
    return tuple(found)


def _candidates(name: str) -> Iterator[str]:
    yield name
    number = 2
    while True:
        yield f"{name}_{number}"
        number += 1


def chosen(given: Sequence[str] | None, made: Sequence[str], what: str) -> tuple[str, ...]:
    """The names that a user gave, or else those made. ArgumentError for names that do not fit."""
    if given is None:
        return identifiers(made)
    names = [given] if isinstance(given, str) else list(given)
    for name in names:
        check_identifier(name, f"{what}_names:")
    if len(names) != len(made) or len({n.upper() for n in names}) != len(names):
        raise ArgumentError(f"export: {what}_names={names}, and there are {len(made)} {what}s: "
                            f"give each a name of its own, in capitals, too")
    return tuple(names)


def argument_names(function: Callable[..., Any], args: Sequence[Any],
                   kwargs: dict[str, Any]) -> list[str]:
    """What a function calls each leaf of its arguments."""
    called = function.forward if isinstance(function, Module) else function
    try:
        bound = inspect.signature(called).bind(*args, **kwargs).arguments
    except TypeError as error:
        raise ArgumentError(f"export: the example does not fit the function: {error}; give the "
                            f"arguments of one call, as a tensor, a tuple, or a dict by "
                            f"name") from error
    except ValueError:  # built-in functions do not say
        bound = {f"input_{i}": x for i, x in enumerate(args)} | kwargs
    return [path for name, value in bound.items() for path in paths(flatten(value)[1], name)]


def known_names(function: Callable[..., Any], environment: Environment) -> dict[Storage, str]:
    """What the function calls the tensors that it knows: as modules and optimizers name their own,
    behind the names of those."""
    owner = function.__self__ if isinstance(function, MethodType) else function
    roots = [("", owner), *((w.place.name, w.value) for w in environment.watched)]
    names: dict[Storage, str] = {}
    for name, value in roots:
        if isinstance(value, Module):
            prefix = f"{name}." if name else ""
            for named in (value.named_parameters(), value.named_buffers()):
                for below, tensor in named:
                    names.setdefault(tensor._storage, prefix + below)
    for name, value in roots:
        if isinstance(value, Optimizer):
            for number, (p, state) in enumerate(value._states.items()):
                of = names.get(p._storage, f"{name}.{number}")
                for key, found in state.items():
                    if isinstance(found, Tensor):
                        names.setdefault(found._storage, f"{of}.{key}")
    for storage, key in options(environment):
        names.setdefault(storage, key)
    for name, value in roots:
        if isinstance(value, Tensor):
            names.setdefault(value._storage, name)
    return names


def options(environment: Environment) -> Iterator[tuple[Storage, str]]:
    """The tensors among the options of optimizers, such as a learning rate, with their names."""
    for watched in environment.watched:
        if isinstance(watched.value, Optimizer):
            for group in watched.value.param_groups:
                for key, value in group.items():
                    if isinstance(value, Tensor):
                        yield value._storage, key
