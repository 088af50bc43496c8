"""The cpu runtime: LLVM IR text to machine code in this process, through llvmlite.

Each kernel becomes one LLVM module and one file of object code, which is kept on disk; those of one
`build` are loaded by one engine. The code generator has done what IR passes would do, so none runs;
LLVM selects instructions, schedules them and allocates registers.
Large kernels share their work among the threads of thread_pool.py.
"""
from __future__ import annotations

import ctypes
from collections.abc import Callable, Mapping, Sequence
from functools import cache, cached_property, partial
from itertools import chain, dropwhile, zip_longest
from struct import Struct
from typing import Any

import llvmlite.binding as llvm
import numpy as np

from lazyten.codegen.generated import Generated
from lazyten.device import Argument, Launch
from lazyten.errors import CompileError
from lazyten.kernel import Kernel
from lazyten.runtimes import own_code, thread_pool
from lazyten.runtimes.code_cache import open_cache
from lazyten.runtimes.contract import Capabilities, LoadedProgram
from lazyten.runtimes.host import compiler_version, host_machine, host_target
from lazyten.runtimes.memory_pool import HOST, MemoryPool
from lazyten.runtimes.pooled import PooledRuntime
from lazyten.runtimes.sequence import SEQUENCE, packed

OPTIMIZATION = 1
"""LLVM's level of code generation, 0 to 3. From 1 on kernels are equally fast (2 or more times as
fast as at 0), and 1 compiles quickest."""

BLOCK_SHARE = 2
"""How much of the second cache a block of held values takes: with fewer rows, register tiles do
not fit them well, and only one part's operands are in use at a time."""

Array = np.ndarray[Any, Any]
ENTRY = ctypes.CFUNCTYPE(None, ctypes.c_char_p)
"""void kernel(table of pointers). The table travels as a bytes object: making one is cheaper than
any other way to pass pointers, and it belongs to one launch, so threads share nothing."""
RUN_LIST = ctypes.CFUNCTYPE(None, ctypes.c_char_p, ctypes.c_char_p)
"""See sequence.py."""


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


def parse(kernel: Generated) -> llvm.ModuleRef:
    """A kernel's LLVM module. CompileError, with LLVM's message, if LLVM refuses it."""
    try:
        module = llvm.parse_assembly("\n".join([*kernel.declares, kernel.source, ""]))
        module.verify()
    except RuntimeError as error:
        raise CompileError(f"LLVM refuses kernel {kernel.name} (from {kernel.where}): "
                           f"{str(error).strip()}. This is a bug in lazyten: please report it with "
                           "the text that DEBUG=2 prints") from error
    return module


class CpuRuntime(PooledRuntime[int]):
    """Device 'cpu'. A handle is an address; launches are done when they return."""

    has_offsets = True
    alignment = 1

    def __init__(self, index: int = 0) -> None:
        super().__init__(index)
        target = host_target()
        self.capabilities = Capabilities(
            "cpu", vector_bytes=target.vector_bytes, vector_registers=target.vector_registers,
            l1_bytes=target.l1_bytes, l1_ways=target.l1_ways, l2_bytes=target.l2_bytes,
            threads=True)
        self.block_bytes = BLOCK_SHARE * target.l2_bytes
        self.pool = MemoryPool(HOST)
        self.code = open_cache(f"{compiler_version(OPTIMIZATION)}\n{self.capabilities.target}")

    # ---- memory ----

    def copy_in(self, handle: int, source: Array) -> None:
        ctypes.memmove(handle, source.ctypes.data, source.nbytes)

    def copy_out(self, target: Array, handle: int) -> None:
        ctypes.memmove(target.ctypes.data, handle, target.nbytes)

    def view(self, handle: int, nbytes: int) -> Array:
        memory: Any = (ctypes.c_byte * nbytes).from_address(handle)
        return np.frombuffer(memory, np.uint8)

    # ---- code ----

    def translate(self, kernels: Mapping[str, Kernel]) -> tuple[list[Generated], list[bytes]]:
        """Text and object code of kernels, from disk where they were compiled before."""
        generated, code = self.code.translate(kernels, self.generate, self.compile)
        thread_pool.start_for(generated)
        return generated, code

    def compile(self, kernels: Sequence[Generated]) -> list[bytes]:
        """The object code of each kernel."""
        machine = host_machine(OPTIMIZATION)
        return [machine.emit_object(parse(kernel)) for kernel in kernels]

    def load(self, compiled: Sequence[bytes], names: Sequence[str]) -> list[CpuFunction]:
        """Make object code callable. These functions share an engine, which goes with the last."""
        engine = llvm.create_mcjit_compiler(llvm.parse_assembly(""), host_machine(OPTIMIZATION))
        for code in compiled:
            engine.add_object_file(llvm.ObjectFileRef.from_data(code))
        engine.finalize_object()
        return [CpuFunction(engine.get_function_address(name), engine) for name in names]

    def launch(self, function: CpuFunction, buffers: Sequence[int]) -> None:
        function.call(packer(len(buffers))(*buffers))

    def later(self, handle: int, nbytes: int) -> int:
        return handle + nbytes

    def sequence(self, launches: Sequence[Launch]) -> Callable[[Sequence[int]], None]:
        """Machine code goes through the list of programs: one call from Python for all.

        They share the scratch memory, whose pointers come first in the table.
        """
        in_order = list(chain.from_iterable(launches))
        programs = [p for p, _ in in_order if isinstance(p, LoadedProgram)]
        if len(programs) < len(in_order):  # some of another kind
            return super().sequence(launches)
        needed = [p.generated.scratch for p in programs]
        sizes = [max(group) for group in zip_longest(*needed, fillvalue=0)]
        calls = [(function.address, [*(Argument(n + len(sizes), offset) for n, offset in arguments),
                                     *map(Argument, range(len(scratch)))])
                 for program, scratch, (_, arguments) in zip(programs, needed, in_order,
                                                             strict=True)
                 for function in program.functions]
        largest = max(programs, key=lambda p: sum(p.generated.scratch), default=None)
        name = "" if largest is None else largest.name
        return partial(self._launch_all, self._run_list, packed(calls), sizes, name, programs)

    @cached_property
    def _run_list(self) -> Callable[[bytes, bytes], None]:
        """The code of sequence.py."""
        self._list_code = own_code.load(SEQUENCE)  # an attribute, which keeps it alive
        return RUN_LIST(self._list_code.get_function_address("sequence"))

    def _launch_all(self, run: Callable[[bytes, bytes], None], calls: bytes, sizes: Sequence[int],
                    largest: str, programs: Sequence[LoadedProgram],
                    buffers: Sequence[int]) -> None:
        """Call a sequence. largest: the kernel that needs most scratch memory, for messages.
        programs: its kernels, which live as long as it does."""
        if not sizes:
            run(calls, packer(len(buffers))(*buffers))
            return
        scratch = self.workspace(sizes, largest)
        try:
            table = (*scratch, *buffers)
            run(calls, packer(len(table))(*table))
        finally:
            for handle in scratch:
                self.free(handle)

    def assembly(self, kernel: Generated) -> str:
        """The kernel's instructions and labels, without the assembler's directives."""
        lines = host_machine(OPTIMIZATION).emit_assembly(parse(kernel)).splitlines()
        starts = {label for entry in kernel.entries for label in (f"{entry}:", f"{entry}.chunk:")}
        body = dropwhile(lambda line: line.lstrip("_") not in starts, lines)
        unwanted = ("\t.", ".Lfunc_end")
        return "\n".join(line for line in body if line and not line.startswith(unwanted))

    def synchronize(self) -> None:
        pass
