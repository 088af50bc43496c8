"""Whether operations are recorded for gradients: `no_grad()`, `enable_grad()`."""
from __future__ import annotations

import functools
import inspect
import threading
from collections.abc import Callable, Generator
from typing import Any, ParamSpec, TypeVar, cast

P = ParamSpec("P")
R = TypeVar("R")


class _Mode(threading.local):
    enabled = True
    stops_tangents = False


_mode = _Mode()


def is_grad_enabled() -> bool:
    """Whether results remember how to compute gradients, in this thread."""
    return _mode.enabled


def stops_tangents() -> bool:
    """Whether forward mode ends here, too, in this thread."""
    return _mode.stops_tangents


class _GradMode:
    """Within this block, or within the function it decorates, record for gradients or not.
    stops_tangents: whether forward mode ends there; None: as it was."""

    def __init__(self, enabled: bool, stops_tangents: bool | None = None) -> None:
        self.enabled, self.stops_tangents = enabled, stops_tangents
        self._before: list[tuple[bool, bool]] = []

    def __enter__(self) -> None:
        self._before.append((_mode.enabled, _mode.stops_tangents))
        _mode.enabled = self.enabled
        if self.stops_tangents is not None:
            _mode.stops_tangents = self.stops_tangents

    def __exit__(self, *exc: object) -> None:
        _mode.enabled, _mode.stops_tangents = self._before.pop()

    def __call__(self, function: Callable[P, R]) -> Callable[P, R]:
        if inspect.isgeneratorfunction(function):
            return cast(Callable[P, R], self._each_step(function))

        @functools.wraps(function)
        def inside(*args: P.args, **kwargs: P.kwargs) -> R:
            with _GradMode(self.enabled, self.stops_tangents):
                return function(*args, **kwargs)
        return inside

    def _each_step(self, function: Callable[..., Generator[Any, Any, Any]]) -> Any:
        """A generator function whose body, and not what is between its values, is in the mode."""
        @functools.wraps(function)
        def inside(*args: Any, **kwargs: Any) -> Generator[Any, Any, Any]:
            steps = function(*args, **kwargs)
            advance: Callable[[Any], Any] = steps.send
            given: Any = None
            while True:
                try:
                    with _GradMode(self.enabled, self.stops_tangents):
                        value = advance(given)
                except StopIteration as end:
                    return end.value
                try:
                    given, advance = (yield value), steps.send
                except GeneratorExit:
                    steps.close()
                    raise
                except BaseException as error:
                    given, advance = error, steps.throw
        return inside


class no_grad(_GradMode):
    """Within this block, or the function it decorates (also as @no_grad, without brackets), nothing
    is recorded for gradients: results do not require them. Tangents of forward mode go on."""

    def __new__(cls, function: Callable[..., Any] | None = None) -> Any:
        return super().__new__(cls) if function is None else cls()(function)

    def __init__(self) -> None:
        super().__init__(False)


class enable_grad(_GradMode):
    """Within this block, or the function it decorates, gradients are recorded again, inside a
    no_grad."""

    def __new__(cls, function: Callable[..., Any] | None = None) -> Any:
        return super().__new__(cls) if function is None else cls()(function)

    def __init__(self) -> None:
        super().__init__(True)


def of_backward(create_graph: bool) -> _GradMode:
    """The mode in which backward() calls functions of the user's: they are recorded only if its
    gradients can be differentiated."""
    return _GradMode(create_graph)


class inference_mode(_GradMode):
    """no_grad(), in which tangents of forward mode are not recorded either, nor inside a no_grad()
    within it; also as @inference_mode. inference_mode(False) ends it, and no_grad() as well."""

    def __new__(cls, mode: Any = True) -> Any:
        return cls()(mode) if callable(mode) else super().__new__(cls)

    def __init__(self, mode: bool = True) -> None:
        super().__init__(not mode, bool(mode))


class set_grad_enabled(_GradMode):
    """Record for gradients or not: from here on; as a block, only within it; and decorating a
    function, only within that."""

    def __init__(self, mode: bool) -> None:
        super().__init__(mode)
        self._outside = _mode.enabled
        _mode.enabled = mode

    def __enter__(self) -> None:
        super().__enter__()
        self._before[-1] = self._outside, self._before[-1][1]

    def __call__(self, function: Callable[P, R]) -> Callable[P, R]:
        _mode.enabled = self._outside
        return super().__call__(function)
