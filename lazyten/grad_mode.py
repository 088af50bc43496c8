"""Whether operations are recorded for gradients: `no_grad()`, `enable_grad()`."""
from __future__ import annotations

import functools
import threading
from collections.abc import Callable
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
R = TypeVar("R")


class _Mode(threading.local):
    enabled = True


_mode = _Mode()


def is_grad_enabled() -> bool:
    """Whether results remember how to compute gradients, in this thread."""
    return _mode.enabled


class set_grad_enabled:
    """Within this block, or within the function it decorates, record for gradients or not."""

    def __init__(self, enabled: bool) -> None:
        self.enabled = enabled
        self._before: list[bool] = []

    def __enter__(self) -> None:
        self._before.append(_mode.enabled)
        _mode.enabled = self.enabled

    def __exit__(self, *exc: object) -> None:
        _mode.enabled = self._before.pop()

    def __call__(self, function: Callable[P, R]) -> Callable[P, R]:
        @functools.wraps(function)
        def inside(*args: P.args, **kwargs: P.kwargs) -> R:
            with set_grad_enabled(self.enabled):
                return function(*args, **kwargs)
        return inside


class no_grad(set_grad_enabled):
    """Within this block nothing is recorded for gradients: results do not require them."""

    def __init__(self) -> None:
        super().__init__(False)


class enable_grad(set_grad_enabled):
    """Within this block gradients are recorded again, inside a no_grad."""

    def __init__(self) -> None:
        super().__init__(True)
