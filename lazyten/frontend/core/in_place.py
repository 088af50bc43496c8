"""In-place twins: `exp_ = in_place(exp)` beside the method whose result is written."""
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

    written.__name__, written.__qualname__ = name, f"Tensor.{name}"
    written.__doc__ = f"{method.__name__}, in place."
    TWINS[name] = written
    return cast(M, written)
