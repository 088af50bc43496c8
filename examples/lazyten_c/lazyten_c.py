"""The device `c`: kernels as C, compiled by the system's C compiler, called in this process.

A complete runtime for lazyten in a package of its own; docs/porting.md goes through it.
"""
from __future__ import annotations

import ctypes
import itertools
import os
import shlex
import shutil
import subprocess
import tempfile
from collections import deque
from collections.abc import Sequence
from pathlib import Path
from threading import RLock
from typing import Any

import numpy as np

from lazyten.codegen.render.render_c import function_name
from lazyten.codegen.targets.generated import Generated
from lazyten.codegen.targets.target import Target
from lazyten.devices.executor import MemoryStats
from lazyten.runtimes.contract import Runtime
from lazyten.support.errors import CompileError, DeviceError

Array = np.ndarray[Any, Any]
OPTIONS = ("-x", "c", "-std=c11", "-O2", "-shared", "-fPIC", "-fsigned-char", "-ffp-contract=off",
           "-fno-math-errno")
ALIGNMENT = 64

LIBC = ctypes.CDLL(None)
LIBC.aligned_alloc.argtypes = [ctypes.c_size_t, ctypes.c_size_t]
LIBC.aligned_alloc.restype = ctypes.c_void_p
LIBC.free.argtypes = [ctypes.c_void_p]


class CRuntime(Runtime):
    """A handle is an address; launches are done when they return."""

    contract = 2
    target = Target("c", vector_bytes=4, language="c", most_lanes=1)
    has_offsets = True
    alignment = 1

    def __init__(self, index: int = 0) -> None:
        super().__init__(index)
        self.compiler = shlex.split(os.environ.get("CC", "cc"))
        if shutil.which(self.compiler[0]) is None:
            raise DeviceError(f"device 'c' needs a C compiler, and there is no {self.compiler[0]!r}"
                              ": install gcc or clang, or name one by the variable CC")
        # A library's file stays: the system takes another file with its inode for the same library.
        self._folder = tempfile.TemporaryDirectory(prefix="lazyten-c-")
        self._count = itertools.count()
        self._lock = RLock()
        self._sizes: dict[int, int] = {}
        self._freed: deque[int] = deque()  # `free` must not wait for the lock
        self._in_use = self._peak = 0

    # ---- memory ----

    def alloc(self, nbytes: int) -> int:
        size = max(-(-nbytes // ALIGNMENT), 1) * ALIGNMENT
        with self._lock:
            self._release()
            address: int | None = LIBC.aligned_alloc(ALIGNMENT, size)
            if address is None:
                raise DeviceError(f"c: cannot allocate {nbytes:,} bytes: {self._in_use:,} are in "
                                  "use, and there is no more; free some tensors, or work on "
                                  "smaller pieces")
            self._sizes[address] = size
            self._in_use += size
            self._peak = max(self._peak, self._in_use)
        return address

    def free(self, handle: int) -> None:
        self._freed.append(handle)

    def _release(self) -> None:
        """Give back to the system what was freed."""
        while self._freed:
            address = self._freed.popleft()
            self._in_use -= self._sizes.pop(address)
            LIBC.free(address)

    def memory_stats(self) -> MemoryStats:
        with self._lock:
            self._release()
            return MemoryStats(self._in_use, 0, self._peak)

    def reset_peak(self, at_least: int = 0) -> None:
        self._peak = max(self.memory_stats().in_use, at_least)

    def copy_in(self, handle: int, source: Array) -> None:
        ctypes.memmove(handle, source.ctypes.data, source.nbytes)

    def copy_out(self, target: Array, handle: int) -> None:
        ctypes.memmove(target.ctypes.data, handle, target.nbytes)

    def with_offset(self, handle: int, nbytes: int) -> int:
        return handle + nbytes

    # ---- code ----

    def compile(self, kernels: Sequence[Generated]) -> tuple[ctypes.CDLL, dict[str, int]]:
        """One shared library of all kernels, and how often each function is called."""
        declares = dict.fromkeys(line for kernel in kernels for line in kernel.declares)
        text = "\n".join([*declares, *(kernel.source for kernel in kernels), ""])
        library = Path(self._folder.name, f"{next(self._count)}.so")
        command = [*self.compiler, *OPTIONS, "-", "-o", str(library), "-lm"]
        done = subprocess.run(command, input=text, text=True, capture_output=True)
        if done.returncode:
            for kernel in kernels if len(kernels) > 1 else ():
                self.compile([kernel])  # that which is at fault has the error
            raise CompileError(f"{self.compiler[0]} refuses kernel {kernels[0].name} (from "
                               f"{kernels[0].where}): {done.stderr.strip()}")
        items = {e: n for k in kernels for e, n in zip(k.entries, k.work_items, strict=True)}
        return ctypes.CDLL(str(library)), items

    def load(self, compiled: tuple[ctypes.CDLL, dict[str, int]],
             names: Sequence[str]) -> list[tuple[Any, int]]:
        library, items = compiled
        return [(getattr(library, function_name(name)), items[name]) for name in names]

    def launch(self, function: tuple[Any, int], buffers: Sequence[int]) -> None:
        call, items = function
        pointers = [ctypes.c_void_p(address) for address in buffers]
        for item in range(items):
            call(*pointers, ctypes.c_uint64(item))

    def synchronize(self) -> None:
        pass
