"""What tells a capture (jit) about everything a function does while it is traced.

Storages, tensors, generators and optimizers report here; `capture.py` listens. With no trace under
way `active` is None and a report costs one comparison.
"""
from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from threading import get_ident
from typing import Any, Literal

import numpy as np

from lazyten.ir.dtype import DType
from lazyten.ir.node import Node
from lazyten.support import forking
from lazyten.support.errors import JitError
from lazyten.support.location import user_location

Array = np.ndarray[Any, Any]
GradientUse = Literal["read", "replaced", "cleared"]
Keep = Callable[[], Callable[[], None]]
"""Gives what takes something back that is about to be done."""


class Observer(ABC):
    """Listens to one traced call, in the thread that made it. (Storages and tensors are Any here:
    their modules import this one.)

    without_python: whether no call will run any Python, so that what changes from call to call must
    be in tensors, or a host input with a name. without_bits: whether what is recorded cannot look
    at the bits of numbers. of_any_size: whether it must be the same operations at any size. inside:
    in words, what a call is made of. taken: values of tensors that operations made, which no other
    tensor is to share.
    """

    without_python = False
    without_bits = False
    of_any_size = False
    inside = ("a jitted function, which is recorded once and then replayed without running its "
              "Python")

    def __init__(self) -> None:
        self.thread = get_ident()
        self.ended: JitError | None = None  # why nobody listens any more
        self.taken: set[Node] = set()

    @abstractmethod
    def refused(self, error: JitError) -> None:
        """What happens next no replay can do: the error is raised, or nobody listens any more and
        all that was recorded has been done when this returns."""

    @abstractmethod
    def created(self, storage: Any) -> None:
        """A storage was made."""

    @abstractmethod
    def touched(self, storage: Any) -> None:
        """A storage is about to be read or changed."""

    @abstractmethod
    def to_be_written(self, storage: Any) -> None:
        """A storage is about to be written."""

    @abstractmethod
    def gradient_used(self, tensor: Any, how: GradientUse) -> None:
        """A tensor's `.grad` is about to be read, or to be replaced by another, or by None."""

    def differentiated(self, wanted: Sequence[Any]) -> None:  # noqa: B027  # most do not mind
        """Gradients are about to be found: for these tensors, or for all leaves."""

    @abstractmethod
    def host_input(self, refresh: Callable[[], Array], dtype: DType, size: int,
                   device: str, name: str = "") -> Node:
        """A flat array that the host computes anew for each call, in the order of these calls.
        name: of a number that may be the same in all."""

    @abstractmethod
    def action(self, run: Callable[[], None], keep: Keep | None = None) -> None:
        """Something Python has to do at each call, before host inputs are computed. keep: called
        before that, gives what takes it back if the call fails."""

    @abstractmethod
    def afterwards(self, run: Callable[[], None], owner: object, changes: Iterable[Any]) -> None:
        """Something Python has to do at the end of each call, on behalf of `owner`: it changes
        these tensors, which the traced function therefore must not use from here on."""

    @abstractmethod
    def acts_afterwards(self, owner: object) -> bool:
        """Whether something is done on behalf of `owner` at the end of each call."""

    @abstractmethod
    def observe(self, look: Callable[[], object]) -> None:
        """What was traced depends on `look()`: if it changes, the function is traced again."""

    @abstractmethod
    def undo(self, run: Callable[[], None]) -> None:
        """How to take back something that was done while tracing, should the trace fail."""

    @abstractmethod
    def assigning(self, holder: dict[str, Any], value: object) -> bool:
        """Whether a module's table of attributes may be given this value: each call does it."""

    @abstractmethod
    def array_shared(self, storage: Any, array: Array) -> None:
        """This storage is to share its memory with a NumPy array."""

    def placed(self, storage: Any) -> None:  # noqa: B027  # most do not mind
        """Where in a storage a tensor is, or which storage it is, is about to be looked at."""

    def collective(self, storage: Any) -> None:
        """A storage has what a collective gives, which each call carries out, whatever becomes of
        the storage. Here: no call can."""
        self.refused(JitError(f"a collective of several processes at {user_location()} needs "
                              f"Python to carry it out: call it outside of what is exported"))

    @abstractmethod
    def is_new(self, thing: object) -> bool:
        """Whether this module or detached view was made during the trace."""

    @abstractmethod
    def made(self, thing: object) -> None:
        """A module or detached view was made."""


class TellsTraces:
    """Base of objects whose methods tell traces what they do to Python's state, and what a call
    reads of it: jit compares none of their attributes between calls."""


turn = forking.lock()
"""Held by a trace: one at a time, as while one is under way storages hold stand-ins."""

active: Observer | None = None
"""The trace under way, of whichever thread; use `current()` except to compare with None."""

replacements = 0
"""How often a tensor was given other storage (`Module.to`): what was captured before is stale."""


def current() -> Observer | None:
    """The trace under way in this thread, or None."""
    return active if active is not None and active.thread == get_ident() else None


def created(storage: Any) -> None:
    """Tell the trace under way, if there is one, of a new storage."""
    observer = current()
    if observer is not None:
        observer.created(storage)


def of_any_size() -> bool:
    """Whether what is recorded must be the same operations at any size."""
    observer = current()
    return observer is not None and observer.of_any_size


def touched(storage: Any) -> None:
    """Tell the trace under way, if there is one, that a storage is about to be used."""
    observer = current()
    if observer is not None:
        observer.touched(storage)


def to_be_written(storage: Any) -> None:
    """Tell the trace under way, if there is one, that a storage is about to be written."""
    observer = current()
    if observer is not None:
        observer.to_be_written(storage)


def placed(storage: Any) -> None:
    """Tell the trace under way, if there is one, that where in a storage a tensor is, or which it
    is, is about to be looked at."""
    observer = current()
    if observer is not None:
        observer.placed(storage)


def gradient_used(tensor: Any, how: GradientUse = "read") -> None:
    """Tell the trace under way, if there is one, that a tensor's `.grad` is about to be used."""
    observer = current()
    if observer is not None:
        observer.gradient_used(tensor, how)


def differentiated(wanted: Sequence[Any] = ()) -> None:
    """Tell the trace under way, if there is one, that gradients are about to be found: for these
    tensors, or for all leaves."""
    observer = current()
    if observer is not None:
        observer.differentiated(wanted)


def made(thing: object) -> None:
    """Tell the trace under way, if there is one, that it has made this."""
    observer = current()
    if observer is not None:
        observer.made(thing)


def refuse_unless_made(thing: object, what: str) -> None:
    """JitError, naming the user's line, for a change of what the trace under way has not made."""
    observer = current()
    if observer is not None and not observer.is_new(thing):
        refuse(what, "do it outside")


def storage_replaced() -> None:
    """A tensor is about to be given another storage, which no trace can follow."""
    global replacements
    refuse("giving a tensor another dtype or device in place (Module.to)",
           "do it before the jitted function is called")
    replacements += 1


def refuse(what: str, remedy: str) -> None:
    """End the trace under way in this thread, if there is one: with a JitError that names the
    user's line, or by going on for real."""
    observer = current()
    if observer is not None:
        observer.refused(JitError(
            f"{what} at {user_location()} is inside {observer.inside}: {remedy}"))


def refused(words: str) -> None:
    """The same with all the words of the error."""
    observer = current()
    if observer is not None:
        observer.refused(JitError(words))


def stop_listening(observer: Observer) -> None:
    """Tell this one nothing any more."""
    global active
    if active is observer:
        active = None


@contextmanager
def listening(observer: Observer | None) -> Iterator[None]:
    """Within this block `observer` is told what happens; with None, nobody is."""
    global active
    before, active = active, observer
    try:
        yield
    finally:
        active = before
