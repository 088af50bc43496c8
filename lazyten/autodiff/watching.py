"""What runs code of the user's, and what runs none: a trace is told what the first calls.

A trace has Python tell of every call of a built-in function (capture/state/purity.py), as the
user's code may print or read a clock. Most calls are lazyten's own. So the hook is put aside while
something runs that calls no code of the user's (`unwatched`), and comes back where that does after
all (`watched`): rules and hooks of gradients.
"""
from __future__ import annotations

import sys
from collections.abc import Callable
from functools import wraps
from threading import local
from typing import Any, ParamSpec, TypeVar

P = ParamSpec("P")
R = TypeVar("R")
Hook = Callable[[Any, str, Any], None]
_OPERATIONS = "lazyten.ir.", "lazyten.operators."


class Watch(local):
    """Of each thread. hook: what is told of calls now; aside: what is not, until the end of what
    runs."""

    hook: Hook | None = None
    aside: Hook | None = None


watch = Watch()


def unwatched(function: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
    """Call what runs no code of the user's, but for what is `watched`."""
    hook = watch.hook
    if hook is None:
        return function(*args, **kwargs)
    watch.hook, watch.aside = None, hook
    sys.setprofile(None)
    try:
        return function(*args, **kwargs)
    finally:
        if watch.aside is hook:  # the trace has not ended meanwhile
            watch.hook, watch.aside = hook, None
            sys.setprofile(hook)


def runs_none(function: Callable[P, R]) -> Callable[P, R]:
    """A function that runs no code of the user's, but for what is `watched`."""
    @wraps(function)
    def inside(*args: P.args, **kwargs: P.kwargs) -> R:
        return unwatched(function, *args, **kwargs)
    return inside


def watched(function: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
    """Call what may be code of the user's, from within what runs none else. (A rule for the
    gradients of an operation, a function or a dataclass, is lazyten's own.)"""
    hook = watch.aside
    if hook is None or str(getattr(function, "__module__", "")).startswith(_OPERATIONS):
        return function(*args, **kwargs)
    watch.hook, watch.aside = hook, None
    sys.setprofile(hook)
    try:
        return function(*args, **kwargs)
    finally:
        if watch.hook is hook:
            watch.hook, watch.aside = None, hook
            sys.setprofile(None)
