"""Tensors and errors on their way between processes.

What goes through a pipe is pickled by the sender and read by its own child or parent alone, so
nothing foreign is ever unpickled. Of a view of more memory than it shows its elements alone go.
"""
from __future__ import annotations

import pickle
import traceback
from dataclasses import dataclass
from multiprocessing.reduction import ForkingPickler
from typing import Any

from lazyten.frontend.core import pickling
from lazyten.frontend.tensor import Tensor
from lazyten.support.errors import WorkerError


@dataclass(frozen=True, slots=True)
class Stop:
    """A worker's data set has no more examples."""


@dataclass(frozen=True, slots=True)
class Failure:
    """An error in a worker: its class, if it can be known elsewhere, and what it said."""

    kind: type[BaseException]
    text: str

    @staticmethod
    def of(error: BaseException, where: str) -> Failure:
        """An error that was caught."""
        kind = type(error)
        try:
            pickle.dumps(kind)
        except Exception:  # a class of a function's own, say
            kind = WorkerError
        return Failure(kind, f"Caught {type(error).__name__} {where}.\nOriginal "
                             f"{''.join(traceback.format_exception(error))}")

    def reraise(self) -> None:
        """Raise the error again here, with the worker's traceback in its text."""
        kind = type("KeyError", (_Spoken, KeyError), {}) if self.kind is KeyError else self.kind
        try:
            error = kind(self.text)
        except Exception:  # its class wants other arguments
            error = WorkerError(self.text)
        raise error


class _Spoken(Exception):
    """A KeyError would show its text in quotes, on one line."""

    def __str__(self) -> str:
        return str(self.args[0])


def _of_its_own(t: Tensor) -> tuple[Any, ...]:
    """A tensor without the rest of the memory that it may be a view of."""
    return pickling.reduced(t, is_alone=True)


ForkingPickler.register(Tensor, _of_its_own)  # also of what a spawned process is given


def packed(value: Any) -> bytes:
    """A value as bytes."""
    return bytes(ForkingPickler.dumps(value, pickle.HIGHEST_PROTOCOL))


def unpacked(data: bytes) -> Any:
    """The value of bytes that another process of this program has packed."""
    return pickle.loads(data)
