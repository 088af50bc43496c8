"""Numbers of a step that somebody has written in Python, such as Adam's corrections: kernel inputs
where they change from step to step, so that no step compiles what the one before had compiled.

A step makes nodes of its numbers in the same order each time, so the first number of a step stands
where that of the step before stood, and so on. What has changed there is an input from then on;
what never changes stays a constant of its kernel. (Where the order is another, more are inputs.)
"""
from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from functools import wraps
from typing import Any

from lazyten.frontend.tensor import Tensor
from lazyten.ir.dtype import DType, Scalar
from lazyten.ir.node import Node
from lazyten.operators.math.elementwise import numbers
from lazyten.storage import frames


class ChangingNumbers:
    """What is known of one optimizer's numbers."""

    def __init__(self) -> None:
        self._seen: list[tuple[Scalar, bool]] = []  # the last number, and whether it changes
        self._inputs: dict[tuple[Scalar, DType], Tensor] = {}  # of one step
        self._device = ""

    @contextmanager
    def noticed(self, devices: Collection[str]) -> Iterator[None]:
        """Within this block, a step on one device, changing numbers are inputs."""
        if len(devices) != 1:  # a node does not know its device
            yield
            return
        self._device = next(iter(devices))
        before = numbers.node, numbers.place
        numbers.node, numbers.place = self._node, 0
        try:
            yield
        finally:
            numbers.node, numbers.place = before
            self._inputs.clear()

    def outside(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """A function that the step is given, whose numbers are its own affair: a closure."""
        @wraps(function)
        def called(*args: Any, **kwargs: Any) -> Any:
            before, numbers.node = numbers.node, None
            try:
                return function(*args, **kwargs)
            finally:
                numbers.node = before
        return called

    def _node(self, value: Scalar, dtype: DType) -> Node | None:
        """An input for a number; None if it has always been the same, or is not finite."""
        if not (dtype.is_float and math.isfinite(value)):
            return None
        place, numbers.place = numbers.place, numbers.place + 1
        if place == len(self._seen):
            self._seen.append((value, False))
            return None
        last, changes = self._seen[place]
        changes = changes or last != value
        if changes:
            frames.refuse_values()  # an operation of one number is not looked up for the next
        self._seen[place] = value, changes
        if not changes:
            return None
        made = self._inputs.get((value, dtype))
        if made is None:
            made = self._inputs[value, dtype] = Tensor._copy_of(value, dtype, self._device)
        return made.node
