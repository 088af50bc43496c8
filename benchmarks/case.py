"""What a row of the table is, and how one is made of an expression or of a training step.

cases.py lists the rows, measure.py times them, and worker.py checks, before anything is timed, that
every framework's result is the reference's. An expression is written once for all frameworks,
against the `Framework` record.
"""
from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from benchmarks.frameworks import REFERENCE, Framework, Tensor
from benchmarks.numpy_operations import Array

Input = tuple[int, ...] | Array
"""A shape, for random float32 numbers in [-0.5, 1), or the array itself."""


@dataclass(frozen=True)
class Case:
    """One row of the table.

    `prepare(framework)` builds the inputs and returns the call that is timed. `work` is what one
    call, or one of its `parts`, does, in `unit`: floating-point operations (FLOP) or bytes read and
    written (B). `parts` divides the time of a call, for rows that report one operation of many.
    Where `waits` is false, a call's result is not waited for. `checked` calls in a row are compared
    with NumPy's in float64, or with `expected(checked)`, to a tolerance relative to the largest
    expected value.
    `heavy` rows are left out of a quick run.
    """

    name: str
    prepare: Callable[[Framework], Callable[[], Tensor]]
    work: float = 0
    unit: str = ""
    parts: int = 1
    waits: bool = True
    checked: int = 1
    tolerance: float = 1e-5
    expected: Callable[[int], Sequence[Array]] | None = None
    heavy: bool = False

    def reference(self) -> list[Array]:
        """What each of the first `checked` calls must give."""
        if self.expected is not None:
            return list(self.expected(self.checked))
        call = self.prepare(REFERENCE)
        return [flat(call()) for _ in range(self.checked)]


def flat(result: Tensor, to_numpy: Callable[[Tensor], Array] = np.asarray) -> Array:
    """One call's result as one array: a step's loss is a float, some results are tuples."""
    if isinstance(result, tuple):
        return np.concatenate([to_numpy(part).reshape(-1) for part in result])
    return np.asarray(result if isinstance(result, float) else to_numpy(result))


def expression(run: Callable[..., Tensor], *inputs: Input,
               compiled: bool = True) -> Callable[[Framework], Callable[[], Tensor]]:
    """A case's `prepare` for `run(framework, *tensors)`."""

    def prepare(framework: Framework) -> Callable[[], Tensor]:
        random = np.random.default_rng(0)
        tensors = [framework.array(
            (random.random(given, dtype=np.float32) * 3 - 1) / 2 if isinstance(given, tuple)
            else given) for given in inputs]

        def bound(*tensors: Tensor) -> Tensor:
            return run(framework, *tensors)

        call = framework.compile(bound) if compiled else bound
        return lambda: call(*tensors)

    return prepare
