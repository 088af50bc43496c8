"""Kernels that are kept in a folder on disk, and what was compiled for them."""
from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from lazyten.ir import dtype as dt
from lazyten.ir.kernel import Kernel, Slot
from lazyten.ir.node import const, expand, make, reshape
from lazyten.ir.ops import Op
from lazyten.runtimes import code_cache
from lazyten.runtimes.cpu.cpu import CpuRuntime

SIZE = 8


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache folder, and source files that are as old as they are in an installation."""
    monkeypatch.setenv("LAZYTEN_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(code_cache, "IMPORTED", time.time() + 60)
    code_cache.code_version.cache_clear()
    yield tmp_path / "cache"
    code_cache.code_version.cache_clear()


def scale(by: float, name: str = "scale") -> Kernel:
    """out[i] = in[i] * by"""
    factor = expand(reshape(const(by, dt.float32), (1,)), (SIZE,))
    given = make(Op.BUFFER, dt.float32, (), Slot(1, SIZE))
    return Kernel(name, (make(Op.MUL, dt.float32, (given, factor)),), ((dt.float32, SIZE),))


class Counting(CpuRuntime):
    """A cpu runtime of its own, as a new process has, that counts what it compiles."""

    def __init__(self) -> None:
        super().__init__()
        self.compiled: list[str] = []
        self.batches: list[int] = []

    def compile(self, kernels: Any) -> list[bytes]:
        self.compiled += [kernel.name for kernel in kernels]
        self.batches.append(len(kernels))
        return super().compile(kernels)


def use(by: float = 3.0, name: str = "scale") -> list[str]:
    """Build a kernel in a new runtime, check what it computes, and say what was compiled."""
    runtime = Counting()
    program, = runtime.build([scale(by, name)])
    values = np.arange(SIZE, dtype=np.float32)
    given, out = runtime.alloc(values.nbytes), runtime.alloc(values.nbytes)
    runtime.copy_in(given, values)
    program.launch([out, given])
    result = np.empty_like(values)
    runtime.copy_out(result, out)
    assert_array_equal(result, values * np.float32(by))
    return runtime.compiled


def only_entry(folder: Path) -> Path:
    entry, = folder.glob("*.entry")
    return entry
