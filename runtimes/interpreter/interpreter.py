"""The NumPy interpreter: a runtime that evaluates kernels with the op table's own meanings.

Slow and simple on purpose. It shares no code with the compiled runtimes below the GRAPH level, so
it is the oracle that all of them are tested against.
"""
from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import Any

import numpy as np

from lazyten.devices.executor import Executor, MemoryStats
from lazyten.devices.program import Program
from lazyten.ir import ops
from lazyten.ir.dtype import DType
from lazyten.ir.evaluation import evaluate
from lazyten.ir.inspection import dump
from lazyten.ir.kernel import Kernel
from lazyten.runtimes.checks.origins import findings
from lazyten.runtimes.checks.violations import raise_first
from lazyten.support import forking
from lazyten.support.errors import OutOfMemoryError

Array = np.ndarray[Any, Any]

def _elements(memory: Array, dtype: DType, size: int) -> Array:
    """The elements of an argument; those past the end of its memory, which starts later than it
    might, are not used."""
    here = memory[:size * dtype.itemsize]
    missing = size * dtype.itemsize - here.nbytes
    whole = np.concatenate([here, np.zeros(missing, np.uint8)]) if missing else here
    return whole.view(dtype.numpy)


class InterpretedProgram(Program):
    """A kernel that is evaluated anew at each launch."""

    def __init__(self, kernel: Kernel) -> None:
        self.kernel, self.name = kernel, kernel.name
        self.source = dump(kernel.outputs)

    def launch(self, buffers: Sequence[Array]) -> None:
        outputs = self.kernel.outputs
        slots = len(outputs)
        leaves = {slots + i: _elements(buffers[slots + i], dtype, size)
                  for i, (dtype, size) in enumerate(self.kernel.inputs)}
        values = evaluate(outputs, leaves)
        for buffer, node, value in zip(buffers, outputs, values, strict=False):
            stored = ops.encode(value, node.dtype).reshape(-1)
            buffer[:stored.nbytes] = stored.view(np.uint8)
        if self.kernel.checks:
            stored = {i: ops.encode(v, o.dtype).reshape(-1)
                      for i, (v, o) in enumerate(zip(values, outputs, strict=True))}
            raise_first(self.kernel, findings(self.kernel, leaves), (stored | leaves).__getitem__)


class InterpreterRuntime(Executor):
    """Device 'interpreter': memory is NumPy byte arrays, counted and never kept for reuse."""

    has_offsets = True
    alignment = 1

    def __init__(self, index: int = 0) -> None:
        super().__init__(index)
        self._lock = forking.lock()
        self._freed: deque[int] = deque()  # sizes that `free`, which must not wait, noted
        self._in_use = self._peak = 0

    def alloc(self, nbytes: int) -> Array:
        try:
            memory = np.empty(nbytes, np.uint8)
        except (MemoryError, ValueError) as error:  # ValueError: more than an address can say
            raise OutOfMemoryError(
                f"interpreter: cannot allocate {nbytes:,} bytes, more than this machine has; free "
                f"some tensors, or work on smaller pieces") from error

        with self._lock:
            self._count_freed()
            self._in_use += nbytes
            self._peak = max(self._peak, self._in_use)
        return memory

    def free(self, handle: Array) -> None:
        self._freed.append(handle.nbytes)

    def _count_freed(self) -> None:
        while self._freed:
            self._in_use -= self._freed.popleft()

    def memory_stats(self) -> MemoryStats:
        with self._lock:
            self._count_freed()
            return MemoryStats(self._in_use, 0, self._peak)

    def reset_peak(self, at_least: int = 0) -> None:
        with self._lock:
            self._count_freed()
            self._peak = max(self._in_use, at_least)

    def copy_in(self, handle: Array, source: Array) -> None:
        handle[:source.nbytes] = source.reshape(-1).view(np.uint8)

    def copy_out(self, target: Array, handle: Array) -> None:
        target.reshape(-1).view(np.uint8)[:] = handle[:target.nbytes]

    def view(self, handle: Array, nbytes: int) -> Array:
        return handle[:nbytes]

    def with_offset(self, handle: Array, nbytes: int) -> Array:
        return handle[nbytes:]

    def build(self, kernels: Sequence[Kernel]) -> list[Program]:
        return [InterpretedProgram(kernel) for kernel in kernels]

    def synchronize(self) -> None:
        pass
