"""Programs of kernels that were compiled with checks: each launch is looked at before it counts."""
from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np

from lazyten.codegen.checks.report import WORD, WORDS, read_key
from lazyten.devices.executor import Executor
from lazyten.devices.program import Handle, Program
from lazyten.ir.kernel import Kernel
from lazyten.runtimes.checks.violations import raise_first

Array = np.ndarray[Any, Any]


class Launchable(Protocol):
    """What a CheckedProgram launches."""

    name: str
    source: str

    def launch(self, buffers: Sequence[Handle]) -> None: ...
    def assembly(self) -> str: ...
    def describe(self) -> str: ...
    def decided(self) -> str: ...


class CheckedProgram(Program):
    """A program whose last argument is a report of so many records (codegen/checks/report.py)."""

    def __init__(self, executor: Executor, kernel: Kernel, program: Launchable,
                 records: int) -> None:
        self.name, self.source = program.name, program.source
        self.executor, self.kernel, self.program, self.records = executor, kernel, program, records

    def launch(self, buffers: Sequence[Handle]) -> None:
        """Run and wait. CheckError for the first thing that was found."""
        report = np.zeros((self.records, WORDS), np.int64)
        handle = self.executor.alloc(report.nbytes)
        try:
            self.executor.copy_in(handle, report.reshape(-1))
            self.program.launch([*buffers, handle])
            self.executor.copy_out(report, handle)
        finally:
            self.executor.free(handle)
        keys = report.max(0)
        found = {kind: read_key(int(keys[n])) for kind, n in WORD.items() if keys[n]}
        if found:
            raise_first(self.kernel, found, lambda slot: self._contents(buffers, slot))

    def _contents(self, buffers: Sequence[Handle], slot: int) -> Array:
        """An argument's elements, as stored."""
        outputs = [(o.dtype, o.numel) for o in self.kernel.outputs]
        dtype, size = [*outputs, *self.kernel.inputs][slot]
        contents = np.empty(size, dtype.numpy)
        self.executor.copy_out(contents, buffers[slot])
        return contents

    def assembly(self) -> str:
        return self.program.assembly()

    def describe(self) -> str:
        return self.program.describe()

    def decided(self) -> str:
        return self.program.decided()
