"""What is said of an operation that has failed: an option of a kind that it does not take.

In: the operation, what it was given, and the error that it met. Out: the error of the option, if
that is to blame: what is of no kind that its annotation names goes wrong somewhere, as a tensor in
the place of a flag does where its truth is asked for.
"""
from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np

from lazyten.frontend.core.handle import Handle
from lazyten.frontend.core.keywords import parameters
from lazyten.support.errors import KindError, LazytenError

_NUMBERS = (int, float, np.number, np.bool_)
_SEVERAL = (list, tuple, range, np.ndarray)
_KINDS: dict[str, tuple[type, ...]] = {
    "bool": (bool, np.bool_), "int": (int, np.integer), "float": _NUMBERS, "str": (str,),
    "Scalar": (*_NUMBERS, complex), "SupportsIndex": (int, np.integer), "None": (type(None),),
    "Sequence[int]": _SEVERAL, "Sequence[float]": _SEVERAL, "tuple[int, ...]": _SEVERAL,
    "Sizes": (int, np.integer, *_SEVERAL),
    **dict.fromkeys(("Axes", "OutputSize", "shapes.Axes"),
                    (int, np.integer, type(None), *_SEVERAL))}
"""What an annotation's words take; of others nothing is said."""
_SINGLE = {"int", "float", "Scalar", "SupportsIndex", "Axes", "Sizes", "shapes.Axes"}
"""Those that a tensor of one number without axes does for, too."""


def kind_error(function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any],
               error: Exception) -> KindError | None:
    """The error of the first option of a wrong kind; None if there is none, or `error` is a
    TypeError, or none of lazyten's."""
    if not isinstance(error, LazytenError) or isinstance(error, TypeError) \
            or hasattr(function, "in_order"):
        return None
    names = parameters(function)[0]
    for name, value in [*zip(names, args, strict=False), *kwargs.items()]:
        annotation = function.__annotations__.get(name)
        if not takes(annotation, value):
            said = str(error)  # by the operation itself, where it looks at the option
            return KindError(said if re.search(rf"\b{name}\b", said) else
                             f"{function.__name__}: {name} is {type(value).__name__} "
                             f"{value!r:.40}; it takes {annotation}")
    return None


def takes(annotation: Any, value: Any) -> bool:
    """Whether an option of an annotation takes a value, as far as its words tell."""
    words = annotation.split(" | ") if isinstance(annotation, str) else [""]
    return any(_is(value, word) for word in words) or any(word not in _KINDS for word in words)


def _is(value: Any, word: str) -> bool:
    """Whether a value is of what a word of an annotation names."""
    if isinstance(value, Handle):
        return word in _SINGLE and not value.ndim
    return isinstance(value, _KINDS.get(word, ()))
