"""Timing decisions for one kernel, on buffers of its own, once their results are known to be right.

In: a device, a kernel and decisions as text. Out: a `Trial`. tuning_worker.py does this in a
process of its own; tuning.py asks it to, and uses the timing part itself.
"""
from __future__ import annotations

import itertools
import math
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from lazyten.devices.program import Handle, Program
from lazyten.ir import ops
from lazyten.ir.dtype import DType
from lazyten.ir.kernel import Given, Kernel
from lazyten.ir.node import Node, toposort
from lazyten.ir.ops import Op
from lazyten.storage.device import executor
from lazyten.support.errors import LazytenError

Array = np.ndarray[Any, Any]
GUARD = 256
"""Bytes after each output that no kernel may change."""
BATCH_SECONDS = 100e-6
"""A timing covers as many launches as take about so long."""
FEWEST_ROUNDS, MOST_ROUNDS = 4, 40
"""Of timings in turns; of timings of one kernel alone."""
HOPELESS = 1.25
"""A candidate that is slower by this after a few rounds is not timed any further."""


@dataclass(frozen=True, slots=True)
class Trial:
    """Seconds a launch, of the kernel as it is and with the candidate's decisions, taken in turns;
    or what is wrong with the candidate."""

    before: float = math.inf
    after: float = math.inf
    problem: str = ""


class Bench:
    """Random inputs for a kernel, and what it makes of them as it is."""

    def __init__(self, device: str, kernel: Kernel, program: Program | None = None) -> None:
        self.executor, self.kernel = executor(device), kernel
        self.program = self.executor.build([kernel])[0] if program is None else program
        rng = np.random.default_rng(0)
        self.values = [random_values(rng, dtype, size) for dtype, size in kernel.inputs]
        self.sizes = [o.numel * o.dtype.itemsize for o in kernel.outputs]
        self.handles: list[Handle] = []
        for nbytes in (*(size + GUARD for size in self.sizes), *(v.nbytes for v in self.values)):
            self.handles.append(self.executor.alloc(nbytes))
        for handle, value in zip(self._inputs, self.values, strict=True):
            self.executor.copy_in(handle, value)

    @property
    def _inputs(self) -> list[Handle]:
        return self.handles[len(self.sizes):]

    def close(self) -> None:
        """Give the memory back."""
        for handle in self.handles:
            self.executor.free(handle)
        self.handles = []

    def seconds(self, program: Program, launches: int = 1) -> float:
        """Seconds a launch."""
        self.executor.synchronize()
        start = time.perf_counter()
        for _ in range(launches):
            program.launch(self.handles)
        self.executor.synchronize()
        return (time.perf_counter() - start) / launches

    def own_seconds(self, limit: float) -> float:
        """Seconds a launch of the kernel as it is: the least of a few, within `limit` seconds."""
        start = time.perf_counter()
        least = self.seconds(self.program)
        for _ in range(MOST_ROUNDS):
            if time.perf_counter() - start > limit:
                break
            least = min(least, self.seconds(self.program))
        return least

    def trial(self, line: str, limit: float) -> Trial:
        """Compile a candidate, check its results, and time it in about `limit` seconds."""
        decided = replace(self.kernel, decisions=Given(line, "candidate"))
        try:
            candidate, = self.executor.build([decided])
        except LazytenError as error:
            return Trial(problem=str(error))
        problem = self.difference(candidate)
        return Trial(problem=problem) if problem else self._race(candidate, limit)

    def _race(self, candidate: Program, limit: float) -> Trial:
        start = time.perf_counter()
        before, after = self.seconds(self.program), self.seconds(candidate)
        launches = max(int(BATCH_SECONDS / max(before, 1e-9)), 1)
        for number in itertools.count():
            if number >= FEWEST_ROUNDS and (time.perf_counter() - start > limit
                                            or after > HOPELESS * before):
                break
            before = min(before, self.seconds(self.program, launches))
            after = min(after, self.seconds(candidate, launches))
        return Trial(before, after)

    # ---- results ----

    def difference(self, candidate: Program) -> str:
        """What a program does that the kernel does not; empty if it does the same."""
        wanted = self._results(self.program)
        got = self._results(candidate)
        for handle, value in zip(self._inputs, self.values, strict=True):
            now = np.empty_like(value)
            self.executor.copy_out(now, handle)
            if now.tobytes() != value.tobytes():
                self.executor.copy_in(handle, value)
                return "it changes an input"
        for output, size, a, b in zip(self.kernel.outputs, self.sizes, wanted, got, strict=True):
            if a[size:].tobytes() != b[size:].tobytes():
                return "it writes past the end of an output"
            first, second = (ops.decode(x[:size].view(output.dtype.numpy), output.dtype)
                             for x in (a, b))
            if not agree(first, second, tolerance(self.kernel.outputs)):
                return "its results are wrong"
        return ""

    def _results(self, program: Program) -> list[Array]:
        """The bytes of the outputs, guards with them."""
        outputs = list(zip(self.handles, self.sizes, strict=False))
        for handle, size in outputs:
            self.executor.copy_in(handle, np.full(size + GUARD, 0xA5, np.uint8))
        program.launch(self.handles)
        results = [np.empty(size + GUARD, np.uint8) for _, size in outputs]
        for result, (handle, _) in zip(results, outputs, strict=True):
            self.executor.copy_out(result, handle)
        return results


def random_values(rng: np.random.Generator, dtype: DType, size: int) -> Array:
    """Inputs as they are stored: floats around 0, small whole numbers."""
    drawn: Array = rng.normal(size=size) if dtype.is_float else rng.integers(0, 10, size)
    if dtype.kind == "b":
        drawn = drawn < 5
    stored: Array = ops.encode(drawn.astype(dtype.compute), dtype)
    return stored


def tolerance(outputs: Sequence[Node]) -> float:
    """How far two right results may be apart, relative to the largest value: rounding errors of
    sums in different orders grow with the square root of their length."""
    order = toposort(outputs)
    epsilon = max((_epsilon(n.dtype) for n in order if n.dtype.is_float), default=0.0)
    longest = max((n.src[0].numel // max(n.numel, 1) for n in order if n.op is Op.REDUCE),
                  default=0)
    return 16 * epsilon * (1 + math.sqrt(longest))


def _epsilon(dtype: DType) -> float:
    return 2.0 ** (1 - dtype.significand_bits)


def agree(wanted: Array, got: Array, tolerance: float) -> bool:
    """Whether floats are equal but for rounding, and anything else exactly."""
    if wanted.dtype.kind != "f":
        return np.array_equal(wanted, got)
    finite = np.abs(wanted[np.isfinite(wanted)])
    scale = float(finite.max()) if finite.size else 0.0
    return np.allclose(got, wanted, rtol=tolerance, atol=tolerance * scale, equal_nan=True)
