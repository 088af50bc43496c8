"""What listens while a model's operators are recorded as graphs.

A trace (storage/tracing.py) under which operations become nodes over their inputs, which nobody
computes. `Listener` minds nothing; `as_graphs` is how the planner asks what comes out of a node:
its shape and type, or that it cannot tell without values, which then are computed.
"""
from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from lazyten.ir.dtype import DType
from lazyten.ir.node import Node
from lazyten.storage import levels, tracing
from lazyten.storage.storage import Buffer
from lazyten.support.errors import JitError


class Listener(tracing.Observer):
    """All happens as without a trace; where that takes values, the trace is over."""

    def refused(self, error: JitError) -> None:
        """What happens next needs values, or Python at each call."""
        self.ended = error.with_traceback(None)
        tracing.stop_listening(self)

    def host_input(self, refresh: Callable[[], tracing.Array], dtype: DType, size: int,
                   device: str, name: str = "") -> Node:
        """Random numbers, and counters of optimizers."""
        return Buffer.from_numpy(refresh(), dtype, device).node((size,))

    def action(self, run: Callable[[], None], keep: tracing.Keep | None = None) -> None:
        """Something Python has to do at each call."""
        run()

    def afterwards(self, run: Callable[[], None], owner: object, changes: Iterable[Any]) -> None:
        """Something Python has to do behind each call."""
        run()

    def to_be_written(self, storage: Any) -> None:
        """A storage is about to be written."""

    def created(self, storage: Any) -> None:
        """A storage was made."""

    def touched(self, storage: Any) -> None:
        """A storage is read."""

    def gradient_used(self, tensor: Any, how: tracing.GradientUse) -> None:
        """A gradient is read."""

    def acts_afterwards(self, owner: object) -> bool:
        """Nothing is done behind the call."""
        return False

    def observe(self, look: Callable[[], object]) -> None:
        """What is recorded depends on what holds now."""

    def undo(self, run: Callable[[], None]) -> None:
        """How to take something back."""

    def assigning(self, holder: dict[str, Any], value: object) -> bool:
        """Whether a module's table may be given a value."""
        return True

    def array_shared(self, storage: Any, array: Any) -> None:
        """A storage is to share an array's memory."""

    def is_new(self, thing: object) -> bool:
        """Everything may be changed."""
        return True

    def made(self, thing: object) -> None:
        """A module or a view was made."""


@contextmanager
def as_graphs() -> Iterator[None]:
    """Within this block operations are graphs that nobody computes, as they are anyway in a trace
    or a transform that is under way."""
    if tracing.current() is not None or levels.under_way():
        yield
        return
    with tracing.turn, tracing.listening(Listener()):
        yield
