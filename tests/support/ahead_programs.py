"""Programs of `lt.export`, run in each way that there is: as C, as machine code, in wasmtime.

`run` gives what a call gives: its status, and all arrays of the interface after it.
"""
from __future__ import annotations

import ctypes
import math
import shutil
import subprocess
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import llvmlite.binding as llvm
import numpy as np
import pytest

from lazyten.ahead.exporting import Exported
from lazyten.runtimes.host.host import host_machine

Array = np.ndarray[Any, Any]
Memory = dict[str, Array]

needs_cc = pytest.mark.skipif(shutil.which("cc") is None, reason="there is no C compiler")
needs_wasmtime = pytest.mark.skipif(find_spec("wasmtime") is None,
                                    reason="the package wasmtime is not installed")
AS_C = pytest.param(".c", marks=needs_cc)
AS_WASM = pytest.param(".wasm", marks=needs_wasmtime)
WAYS = [AS_C, ".o", AS_WASM]
"""Endings of files that this machine can run."""


def memory_for(made: Exported, inputs: Mapping[str, Array]) -> Memory:
    """Arrays for a call: inputs, copied, and room for all else."""
    found = {a.name: np.array(inputs[a.name], a.dtype.numpy).reshape(-1) for a in made.inputs}
    found |= {a.name: np.full(a.size, 77, a.dtype.numpy) for a in made.outputs}
    for path in made.files[2:]:
        found[path.suffixes[-2][1:]] = np.frombuffer(path.read_bytes(), np.uint8).copy()
    if made.state_bytes and "state" not in found:
        found["state"] = np.zeros(made.state_bytes, np.uint8)
    return found


class Loaded:
    """A program that can be called on arrays by name."""

    def __init__(self, made: Exported, workspace: bool = False) -> None:
        self.made, self.workspace = made, workspace
        path = made.files[0]
        start = {".c": self._compile, ".o": self._load}.get(path.suffix)
        if start is None:
            self._instantiate(path)
        else:
            self.native = start(path)

    def _compile(self, path: Path) -> Any:
        library = path.with_suffix(".so")
        subprocess.run(["cc", "-std=c11", "-O1", "-Wall", "-Wno-unknown-pragmas", "-Werror",
                        "-shared", "-fPIC", "-o", library, path, "-lm"], check=True)
        return lambda name: getattr(ctypes.CDLL(str(library)), name)

    def _load(self, path: Path) -> Any:
        engine = llvm.create_mcjit_compiler(llvm.parse_assembly(""), host_machine(1))
        engine.add_object_file(llvm.ObjectFileRef.from_data(path.read_bytes()))
        engine.finalize_object()
        self.engine = engine
        return lambda name: ctypes.CFUNCTYPE(ctypes.c_int)(engine.get_function_address(name))

    def _instantiate(self, path: Path) -> None:
        import wasmtime

        self.store = wasmtime.Store()
        module = wasmtime.Module.from_file(self.store.engine, str(path))
        kinds = {"fmodf": wasmtime.ValType.f32(), "fmod": wasmtime.ValType.f64()}
        given = [wasmtime.Func(self.store, wasmtime.FuncType([kind, kind], [kind]), math.fmod)
                 for kind in (kinds[i.name or ""] for i in module.imports)]
        self.exports = wasmtime.Instance(self.store, module, given).exports(self.store)

    def _names(self, memory: Memory) -> list[str]:
        names = [a.name for a in (*self.made.inputs, *self.made.outputs)]
        names += [n for n in ("state", "weights") if n in memory]
        if self.workspace:
            memory.setdefault("workspace", np.zeros(self.made.workspace_bytes + 8, np.uint8))
            names.append("workspace")
        return names

    def initialize(self, memory: Memory) -> None:
        """Fill the block of states."""
        self._call(f"{self.made.name}_initialize", ["state"], memory)

    def run(self, memory: Memory) -> int:
        """Call it: its status. The arrays have what it wrote."""
        return self._call(self.made.name, self._names(memory), memory)

    def _call(self, name: str, names: list[str], memory: Memory) -> int:
        if self.made.files[0].suffix != ".wasm":
            return int(self.native(name)(*[memory[n].ctypes.data_as(ctypes.c_void_p)
                                           for n in names]) or 0)
        places = [self.exports[n].value(self.store) for n in names]
        whole = self.exports["memory"]
        for n, place in zip(names, places, strict=True):
            whole.write(self.store, memory[n].tobytes(), place)
        status = self.exports[name](self.store, *places)
        for n, place in zip(names, places, strict=True):
            content = whole.read(self.store, place, place + memory[n].nbytes)
            memory[n][:] = np.frombuffer(content, memory[n].dtype)
        return int(status or 0)


def call(made: Exported, **inputs: Array) -> Memory:
    """All arrays after one call, which must succeed."""
    memory = memory_for(made, inputs)
    assert Loaded(made).run(memory) == 0
    return memory
