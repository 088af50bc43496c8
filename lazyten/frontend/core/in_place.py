"""In-place twins, beside the method of which they are: `exp_ = in_place(exp)` writes what it gives,
and with `t_ = shown_as(t)` the tensor becomes what it gives, a view."""
from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, TypeVar, cast

M = TypeVar("M", bound=Callable[..., Any])

TWINS: dict[str, Callable[..., Any]] = {}
"""The methods that write to their tensor what another gives, by name."""


def in_place(method: M) -> M:
    """The method `name`_: what method `name` gives, written to the tensor and so seen by all views
    of its storage. The result must have the tensor's shape, and a dtype that fits in its own."""
    name = f"{method.__name__}_"

    @wraps(method)
    def written(self: Any, *args: Any, **kwargs: Any) -> Any:
        new = method(self, *args, **kwargs)
        given = [a for a in (*args, *kwargs.values()) if hasattr(a, "_storage")]
        return self._update(name, new.node, *given)

    TWINS[name] = written
    return cast(M, _named(written, name, f"{method.__name__}, in place."))


def shown_as(method: M) -> M:
    """The method `name`_: the tensor itself becomes the view that method `name` gives."""
    name = f"{method.__name__}_"

    @wraps(method)
    def shown(self: Any, *args: Any, **kwargs: Any) -> Any:
        return self._shown_as(method(self, *args, **kwargs), name)

    return cast(M, _named(shown, name, f"{method.__name__}, of this tensor itself."))


def _named(method: Any, name: str, meaning: str) -> Any:
    method.__name__, method.__qualname__, method.__doc__ = name, f"Tensor.{name}", meaning
    return method
