"""Ranks whose devices carry out collectives themselves: what a runtime is given for it, and gives.

`Executor.takes` says which collectives a runtime would carry out, `Executor.join` joins it to those
of other ranks. What a runtime does not take goes by way of the host's memory. Whoever calls these
(lazyten/distributed/devices.py) has made sure that all ranks of a group do the same.
"""
from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Protocol

from lazyten.ir.collective import Collective
from lazyten.ir.dtype import DType


class Ranks(Protocol):
    """Processes that join their devices, each with a number from 0 on."""

    @property
    def rank(self) -> int:
        """This process's number."""

    @property
    def size(self) -> int:
        """How many they are."""

    def gathered(self, own: bytes) -> list[bytes]:
        """What each of them gives, as many bytes everywhere; all call it, in one order."""

    def wait(self, done: Callable[[], bool], place: str) -> None:
        """Return once `done()`. DistributedError at the end of the time limit, with the place: what
        is waited for, and where."""

    def failed(self, text: str) -> Exception:
        """The error to raise: nothing is done together any more, for this reason."""


class Part(NamedTuple):
    """Device memory of so many elements."""

    handle: Any
    size: int


class Joined(ABC):
    """A device joined to those of other ranks. name: by what, for people."""

    name: str

    @abstractmethod
    def begin(self, what: Collective, dtype: DType, sent: Sequence[Part], received: Part,
              place: str) -> Callable[[], None]:
        """Queue a collective, after all launches before; the parts that are sent are one array,
        one after the other. Gives a function that lets later launches come after it: until that is
        called they may run beside it, and the memory is in use. place: what it is, for errors."""

    @abstractmethod
    def leave(self) -> None:
        """No more collectives: all have ended, on all ranks."""

    @abstractmethod
    def abort(self) -> None:
        """Nothing is done together any more; what is queued ends somehow. Raises nothing."""


class Refused(NamedTuple):
    """Ranks that cannot join their devices, though their runtime could: why, in words."""

    reason: str
