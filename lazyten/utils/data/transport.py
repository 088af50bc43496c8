"""Tensors and errors on their way between processes.

What goes through a pipe is pickled by the sender and read by its own child or parent alone, so
nothing foreign is ever unpickled. Tensors, whose pickling is refused elsewhere, go as arrays.
"""
from __future__ import annotations

import copyreg
import io
import pickle
import traceback
from dataclasses import dataclass
from multiprocessing.reduction import ForkingPickler
from typing import Any

import numpy as np

from lazyten.frontend.complexes.tensors import ComplexTensor, of_parts
from lazyten.frontend.tensor import Tensor
from lazyten.ir import dtype as dt
from lazyten.ir import ops
from lazyten.nn.parameter import Parameter
from lazyten.random import Generator
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


def _parts(t: Tensor) -> tuple[Any, ...]:
    """How to make a tensor again: its values as stored, type, device, and whether it is a leaf."""
    values = ops.encode(t.detach()._as_array(), t.dtype)
    return _rebuilt, (type(t), values, t.dtype.name, str(t.device),
                      t.requires_grad and t.is_leaf)


def _rebuilt(kind: type[Tensor], values: Any, name: str, device: str, is_leaf: bool) -> Tensor:
    dtype = dt.BY_NAME[name]
    made = Tensor._copy_of(ops.decode(np.asarray(values), dtype), dtype, device)
    if kind is Parameter:
        return Parameter(made, is_leaf)
    return made.requires_grad_() if is_leaf else made


def _parts_of_complex(t: ComplexTensor) -> tuple[Any, ...]:
    return of_parts, (t._parts,)


def _generator_parts(generator: Generator) -> tuple[Any, ...]:
    return _rebuilt_generator, (generator.get_state(),)


def _rebuilt_generator(state: tuple[int, int]) -> Generator:
    made = Generator(0)
    made.set_state(state)
    return made


REDUCERS: dict[type, Any] = {Tensor: _parts, Parameter: _parts, ComplexTensor: _parts_of_complex,
                             Generator: _generator_parts}
for _kind, _reducer in REDUCERS.items():  # also what a spawned process is given
    ForkingPickler.register(_kind, _reducer)


def packed(value: Any) -> bytes:
    """A value as bytes."""
    out = io.BytesIO()
    pickler = pickle.Pickler(out, pickle.HIGHEST_PROTOCOL)
    pickler.dispatch_table = {**copyreg.dispatch_table, **REDUCERS}
    pickler.dump(value)
    return out.getvalue()


def unpacked(data: bytes) -> Any:
    """The value of bytes that another process of this program has packed."""
    return pickle.loads(data)
