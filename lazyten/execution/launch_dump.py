"""Launches kept in files: the environment variable LAZYTEN_DUMP, and `lt.dump_kernels`.

A file is written before each launch, so that of a crash there is one, too. launch_file.py writes
it; few programs want that, so it is imported then.
"""
from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any

import numpy as np

from lazyten.devices.program import Argument, Handle
from lazyten.ir.collective import collective_of
from lazyten.ir.kernel import Kernel
from lazyten.schedule.schedule import Schedule
from lazyten.storage.device import executor
from lazyten.support import observers
from lazyten.support.forking import undivided
from lazyten.support.observers import Launch, Observer
from lazyten.support.paths import path_of
from lazyten.support.variables import EnvVar

DUMP = EnvVar("LAZYTEN_DUMP")


class Dump(Observer):
    """Keeps each launch in a file of `folder`."""

    needs_launches = True

    def __init__(self, folder: str) -> None:
        self.folder = folder

    @undivided
    def launching(self, launch: Launch, handles: Mapping[int, Handle]) -> None:
        from lazyten.execution import launch_file
        device, plan = launch.device, launch.plan
        for kernel, program, at in launch.kernels:
            if collective_of(kernel) is not None:  # what it gives is not of its inputs alone
                continue
            inputs = _inputs_of(device, plan.schedule, kernel, at, handles)
            launch_file.dump(self.folder, device, plan.options.applied(kernel), program, inputs)


class dump_kernels:
    """Within this block each launch, in any thread, is kept in a file of `folder`."""

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        self.folder = str(path_of(folder, "dump_kernels", "a folder"))
        self._blocks: list[AbstractContextManager[None]] = []

    def __enter__(self) -> None:
        self._blocks.append(observers.told(Dump(self.folder)))
        self._blocks[-1].__enter__()

    def __exit__(self, *exc: Any) -> None:
        self._blocks.pop().__exit__(*exc)


def asked() -> Dump | None:
    """Who keeps launches where LAZYTEN_DUMP says so."""
    folder = DUMP.text if DUMP.is_set() else ""
    return Dump(folder) if folder else None


def _inputs_of(device: str, made: Schedule, kernel: Kernel, at: Sequence[Argument],
               handles: Mapping[int, Handle]) -> list[np.ndarray[Any, Any]]:
    """The inputs of a launch as they are stored; 0 past the end of memory, which is not read."""
    runtime = executor(device)
    inputs = []
    for argument, (dtype, size) in zip(at[len(kernel.outputs):], kernel.inputs, strict=True):
        stored, count = made.arrays[argument.number]
        there = (stored.itemsize * count - argument.offset) // dtype.itemsize
        values = np.zeros(size, dtype.numpy)
        runtime.copy_out(values[:there], runtime.resolved(handles, [argument])[0])
        inputs.append(values)
    return inputs
