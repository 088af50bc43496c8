"""The cpu runtime: LLVM IR text to machine code in this process, through llvmlite.

The kernels of one `build` become one LLVM module and one engine. The code generator has done what
IR passes would do, so none runs; LLVM selects instructions, schedules them and allocates registers.
"""
from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from functools import cache
from itertools import dropwhile, takewhile
from struct import Struct
from typing import Any

import llvmlite.binding as llvm
import numpy as np

from lazyten.codegen.generated import Generated
from lazyten.device import Program
from lazyten.errors import CompileError
from lazyten.runtimes.contract import Capabilities, LoadedProgram, Runtime
from lazyten.runtimes.host import host_machine, host_target
from lazyten.runtimes.memory_pool import MemoryPool, PoolStats

OPTIMIZATION = 1
"""LLVM's level of code generation, 0 to 3. From 1 on kernels are equally fast (2 or more times as
fast as at 0), and 1 compiles quickest."""

Array = np.ndarray[Any, Any]
ENTRY = ctypes.CFUNCTYPE(None, ctypes.c_char_p)
"""void kernel(table of pointers). The table travels as a bytes object: making one is cheaper than
any other way to pass pointers, and it belongs to one launch, so threads share nothing."""


class CpuFunction:
    """A kernel's entry point. Keeps the engine, and so the machine code, alive."""

    __slots__ = ("address", "call", "engine")

    def __init__(self, address: int, engine: llvm.ExecutionEngine) -> None:
        self.address = address
        self.call: Callable[[bytes], None] = ENTRY(address)
        self.engine = engine


@cache
def packer(count: int) -> Callable[..., bytes]:
    """Makes the table of `count` addresses."""
    return Struct(f"{count}P").pack


def module_text(kernels: Sequence[Generated]) -> str:
    """One module of several kernels, each declaration once."""
    declares = dict.fromkeys(line for kernel in kernels for line in kernel.declares)
    return "\n".join([*declares, *(kernel.source for kernel in kernels), ""])


def parse(kernels: Sequence[Generated]) -> llvm.ModuleRef:
    """The LLVM module of these kernels; RuntimeError with LLVM's message if it refuses them."""
    module = llvm.parse_assembly(module_text(kernels))
    module.verify()
    return module


class CpuRuntime(Runtime):
    """Device 'cpu'. A handle is an address; launches are done when they return."""

    def __init__(self, index: int = 0) -> None:
        super().__init__(index)
        llvm.initialize_native_target()
        llvm.initialize_native_asmprinter()
        target = host_target()
        self.capabilities = Capabilities("cpu", vector_bytes=target.vector_bytes,
                                         vector_registers=target.vector_registers)
        self.pool = MemoryPool()

    # ---- memory ----

    def alloc(self, nbytes: int) -> int:
        return self.pool.alloc(nbytes)

    def free(self, handle: int) -> None:
        self.pool.free(handle)

    def copy_in(self, handle: int, source: Array) -> None:
        ctypes.memmove(handle, source.ctypes.data, source.nbytes)

    def copy_out(self, target: Array, handle: int) -> None:
        ctypes.memmove(target.ctypes.data, handle, target.nbytes)

    def memory_stats(self) -> PoolStats:
        """How much memory tensors hold, and how much is kept for reuse."""
        return self.pool.stats()

    # ---- code ----

    def compile(self, kernels: Sequence[Generated]) -> llvm.ModuleRef:
        """The kernels' LLVM module; its machine code is made by `load`."""
        try:
            return parse(kernels)
        except RuntimeError as error:
            raise refused(kernels, error) from error

    def load(self, compiled: llvm.ModuleRef, names: Sequence[str]) -> list[CpuFunction]:
        """Make machine code. A module's functions share an engine, which goes with the last one."""
        engine = llvm.create_mcjit_compiler(compiled, host_machine(OPTIMIZATION))
        engine.finalize_object()
        return [CpuFunction(engine.get_function_address(name), engine) for name in names]

    def launch(self, function: CpuFunction, buffers: Sequence[int]) -> None:
        function.call(packer(len(buffers))(*buffers))

    def sequence(self, launches: Sequence[tuple[Program, Sequence[int]]]) -> Callable[
            [Sequence[int]], None]:
        """Machine code that calls the kernels one after the other: one call from Python for all."""
        functions: list[CpuFunction] = [p.function for p, _ in launches
                                        if isinstance(p, LoadedProgram)]
        if len(functions) < len(launches):  # a program of another kind
            return super().sequence(launches)
        calls = [(f.address, numbers) for f, (_, numbers) in zip(functions, launches, strict=True)]
        driver = self.load(llvm.parse_assembly(sequence_text(calls)), ["sequence"])[0]

        def launch_all(buffers: Sequence[int], kept: list[CpuFunction] = functions) -> None:
            driver.call(packer(len(buffers))(*buffers))
        return launch_all

    def assembly(self, kernel: Generated) -> str:
        """The kernel's instructions and labels, without the assembler's directives."""
        lines = host_machine(OPTIMIZATION).emit_assembly(parse([kernel])).splitlines()
        body = dropwhile(lambda line: line.lstrip("_") != f"{kernel.name}:", lines)
        return "\n".join(line for line in takewhile(lambda line: "func_end" not in line, body)
                         if line and not line.startswith("\t."))

    def synchronize(self) -> None:
        pass


def sequence_text(calls: Sequence[tuple[int, Sequence[int]]]) -> str:
    """LLVM IR of `sequence`, which calls the kernels at these addresses, each with a table of the
    pointers of these numbers in its own table."""
    longest = max((len(numbers) for _, numbers in calls), default=0)
    lines = ["define void @sequence(ptr %table) {", f"  %arguments = alloca ptr, i64 {longest + 1}"]
    count = 0
    for address, numbers in calls:
        for position, number in enumerate(numbers):
            lines += [f"  %from{count} = getelementptr ptr, ptr %table, i64 {number}",
                      f"  %pointer{count} = load ptr, ptr %from{count}",
                      f"  %to{count} = getelementptr ptr, ptr %arguments, i64 {position}",
                      f"  store ptr %pointer{count}, ptr %to{count}"]
            count += 1
        lines.append(f"  call void inttoptr (i64 {address} to ptr)(ptr %arguments)")
    return "\n".join([*lines, "  ret void", "}", ""])


def refused(kernels: Sequence[Generated], error: RuntimeError) -> CompileError:
    """The error for the first of these kernels that LLVM refuses alone, or for all together."""
    culprits = [f"{kernel.name} (from {kernel.where})" for kernel in kernels]
    for kernel, culprit in zip(kernels, culprits, strict=True):
        try:
            parse([kernel])
        except RuntimeError as own:
            error, culprits = own, [culprit]
            break
    return CompileError(f"LLVM refuses kernel {', '.join(culprits)}: {str(error).strip()}. This is "
                        "a bug in lazyten: please report it with the text that DEBUG=2 prints")
