"""The device 'meta': a runtime that computes nothing, so that a model is there before its weights.

Operations are recorded as on any device, which works out shapes and types; there is no memory, and
what a program would read is an error.
"""
from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NoReturn

import numpy as np

from lazyten.devices.executor import Executor, MemoryStats
from lazyten.devices.program import Handle, Launch, Limit, Program
from lazyten.ir.kernel import Kernel
from lazyten.support.errors import NoValuesError


class NoProgram(Program):
    """A kernel that is not run."""

    source = ""

    def __init__(self, name: str) -> None:
        self.name = name

    def launch(self, buffers: Sequence[Handle]) -> None:
        """Nothing."""


class MetaRuntime(Executor):
    """Device 'meta': a handle is nothing, and nothing is written to it."""

    has_offsets = True
    alignment = 1

    def alloc(self, nbytes: int) -> None:
        """Nothing."""

    def free(self, handle: None) -> None:
        """Nothing."""

    def memory_stats(self) -> MemoryStats:
        return MemoryStats(0, 0, 0)

    def reset_peak(self, at_least: int = 0) -> None:
        """Nothing."""

    def copy_in(self, handle: None, source: np.ndarray[Any, Any]) -> None:
        """Nothing."""

    def copy_out(self, target: np.ndarray[Any, Any], handle: None) -> NoReturn:
        raise NoValuesError

    def with_offset(self, handle: None, nbytes: int) -> None:
        """Nothing."""

    def build(self, kernels: Sequence[Kernel]) -> list[Program]:
        return [NoProgram(kernel.name) for kernel in kernels]

    def sequence(self, launches: Sequence[Launch]) -> Callable[[Sequence[Handle]], object]:
        return lambda buffers: None

    def guarded(self, before: Sequence[Launch], limits: Sequence[Limit],
                after: Sequence[Launch]) -> Callable[[Sequence[Handle]], bool]:
        return lambda buffers: True

    def synchronize(self) -> None:
        """Nothing."""
