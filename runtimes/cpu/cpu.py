"""The cpu runtime: LLVM IR text to machine code in this process, through llvmlite.

A few kernels become one LLVM module and one piece of object code, which is kept on disk; those of
one `build` are loaded by one engine. The code generator has done what IR passes would do, so none
runs; LLVM selects instructions, schedules them and allocates registers.
Large kernels share their work among the threads of thread_pool.py.
"""
from __future__ import annotations

import ctypes
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cache, cached_property, partial
from hashlib import sha256
from itertools import chain, dropwhile, zip_longest
from struct import Struct
from typing import Any, NamedTuple

import llvmlite.binding as llvm
import numpy as np

from lazyten.codegen.targets.generated import Generated
from lazyten.codegen.targets.target import Target
from lazyten.devices.program import Argument, Launch, Limit
from lazyten.ir.kernel import Kernel, nameless
from lazyten.runtimes.code_cache import open_cache
from lazyten.runtimes.contract import LoadedProgram, program_text
from lazyten.runtimes.cpu import own_code, thread_pool
from lazyten.runtimes.cpu.sequence import SEQUENCE, Call, packed
from lazyten.runtimes.host.host import compiler_version, host_machine, host_target
from lazyten.runtimes.memory.memory_pool import HOST, MemoryPool
from lazyten.runtimes.memory.pooled import PooledRuntime
from lazyten.support import observers
from lazyten.support.errors import CompileError

OPTIMIZATION = 1
"""LLVM's level of code generation, 0 to 3. From 1 on kernels are equally fast (2 or more times as
fast as at 0), and 1 compiles quickest."""

TOGETHER = 4
"""Kernels in an LLVM module. LLVM takes a millisecond for a module of one empty function, and a
sixth less for four kernels together than one by one; more gain nothing."""

TAG_BYTES = 16
"""Of what tells the functions of one module from those of others, which may have the same names."""

BLOCK_SHARE = 0.5
"""How much of the second cache a block of held values takes: what a part makes is there still when
the next one reads it. With a quarter some attention takes 1.8 times as long, as register tiles do
not fit so few rows; with twice the cache all but small matrices took up to a tenth longer."""

FEW_BYTES = 4096
"""Up to so many bytes of an array are copied twice: asking for its address takes longer."""

Array = np.ndarray[Any, Any]
ENTRY = ctypes.CFUNCTYPE(None, ctypes.c_char_p)
"""void kernel(table of pointers). The table travels as a bytes object: making one is cheaper than
any other way to pass pointers, and it belongs to one launch, so threads share nothing."""
RUN_LIST = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_char_p, ctypes.c_char_p)
"""See sequence.py."""


class CpuFunction:
    """A kernel's entry point. Keeps the engine, and so the machine code, alive."""

    __slots__ = ("address", "call", "engine")

    def __init__(self, address: int, engine: llvm.ExecutionEngine) -> None:
        self.address = address
        self.call: Callable[[bytes], None] = ENTRY(address)
        self.engine = engine


def _behind(first: Sequence[object], arguments: Sequence[Argument]) -> list[Argument]:
    """The same memory in a table that begins with other things."""
    return [Argument(number + len(first), offset) for number, offset in arguments]


@cache
def packer(count: int) -> Callable[..., bytes]:
    """Makes the table of `count` addresses."""
    return Struct(f"{count}P").pack


class Compiled(NamedTuple):
    """What `compile` gives for a kernel, and which of its functions are the kernel's, by the names
    that they had when they were compiled."""

    code: bytes
    entries: tuple[str, ...]


def _symbol(function: str, tag: str) -> str:
    """The name of a function in object code."""
    return f"{function}.{tag}"


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
    """Device 'cpu'. A handle is an address; launches are done when they return.

    Kernels are written for the vectors of `target`, if one is given, and compiled for this machine.
    """

    has_offsets = True
    has_varying = True
    is_host = True
    alignment = 1

    def __init__(self, index: int = 0, target: Target | None = None) -> None:
        super().__init__(index)
        self.target = replace(target or host_target(), name="cpu", threads=True)
        self.block_bytes = int(BLOCK_SHARE * self.target.l2_bytes)
        self.pool = MemoryPool(HOST)
        self.code = open_cache(f"{compiler_version(OPTIMIZATION)}\n{self.target}")
        self.kept = self.code.kept

    # ---- memory ----

    def copy_in(self, handle: int, source: Array) -> None:
        nbytes = source.nbytes
        given = source.tobytes() if nbytes <= FEW_BYTES else source.ctypes.data
        ctypes.memmove(handle, given, nbytes)

    def copy_out(self, target: Array, handle: int) -> None:
        nbytes = target.nbytes
        if nbytes:  # what is empty has no address
            start = ctypes.c_char.from_buffer(target)  # type: ignore[arg-type]  # arrays are buffers
            ctypes.memmove(ctypes.addressof(start), handle, nbytes)

    def peek(self, handle: int, nbytes: int) -> bytes:
        return ctypes.string_at(handle, nbytes)

    def view(self, handle: int, nbytes: int) -> Array:
        memory: Any = (ctypes.c_byte * nbytes).from_address(handle)
        return np.frombuffer(memory, np.uint8)

    # ---- code ----

    def translate(self, kernels: Mapping[str, Kernel]) -> tuple[list[Generated], list[Compiled]]:
        """Text and object code of kernels, from disk where they were compiled before, under
        whatever names."""
        keys = list(map(nameless, kernels))
        given = dict(zip(keys, kernels.values(), strict=True))
        generated, code = self.code.translate(given, self.generate, self.compile, TOGETHER)
        thread_pool.start_for(generated)
        made = dict(zip(given, zip(generated, code, strict=True), strict=True))
        texts = [made[key][0].called(kernel.name, kernel.where)
                 for key, kernel in zip(keys, kernels.values(), strict=True)]
        return texts, [Compiled(made[key][1], made[key][0].entries) for key in keys]

    def compile(self, kernels: Sequence[Generated]) -> list[bytes]:
        """For each kernel the tag and the object code of one module, which has them all."""
        text = program_text(kernels)
        tag = sha256(text.encode()).hexdigest()[:TAG_BYTES]
        try:
            module = llvm.parse_assembly(text)
            module.verify()
        except RuntimeError:
            for kernel in kernels:
                parse(kernel)
            raise
        for function in module.functions:
            if not function.is_declaration:
                function.name = _symbol(function.name, tag)
        return [tag.encode() + self._compiler.emit_object(module)] * len(kernels)

    @cached_property
    def _compiler(self) -> llvm.TargetMachine:
        """Made when there is something to compile; llvmlite lets one thread at a time use it."""
        return host_machine(OPTIMIZATION)

    def varying(self) -> Any:
        from lazyten.codegen.templates import Templates
        return Templates()

    def compile_own(self, text: Generated) -> list[Compiled]:
        def compiled(whole: str) -> bytes:
            return observers.compiling(self.compile)([text])[0]
        thread_pool.start_for([text])
        return [Compiled(self.code.translate_own(program_text([text]), compiled), text.entries)]

    def load(self, compiled: Sequence[Compiled], names: Sequence[str]) -> list[CpuFunction]:
        """Make object code callable. These functions share an engine, which goes with the last."""
        engine = llvm.create_mcjit_compiler(llvm.parse_assembly(""), host_machine(OPTIMIZATION))
        for code in dict.fromkeys(c.code for c in compiled):
            engine.add_object_file(llvm.ObjectFileRef.from_data(code[TAG_BYTES:]))
        engine.finalize_object()
        symbols = [_symbol(entry, c.code[:TAG_BYTES].decode())
                   for c in compiled for entry in c.entries]
        return [CpuFunction(engine.get_function_address(symbol), engine)
                for symbol, _ in zip(symbols, names, strict=True)]

    def launch(self, function: CpuFunction, buffers: Sequence[int]) -> None:
        function.call(packer(len(buffers))(*buffers))

    def with_offset(self, handle: int, nbytes: int) -> int:
        return handle + nbytes

    def sequence(self, launches: Sequence[Launch]) -> Callable[[Sequence[int]], object]:
        return self._steps(launches, (), ()) or super().sequence(launches)

    def guarded(self, before: Sequence[Launch], limits: Sequence[Limit],
                after: Sequence[Launch]) -> Callable[[Sequence[int]], bool]:
        return self._steps(before, limits, after) or super().guarded(before, limits, after)

    def _steps(self, before: Sequence[Launch], limits: Sequence[Limit],
               after: Sequence[Launch]) -> Callable[[Sequence[int]], bool] | None:
        """Machine code goes through the list of programs: one call from Python for all.

        They share the scratch memory, whose pointers come first in the table, before those of the
        programs' constants. None if some program has no machine code.
        """
        first, rest = (list(chain.from_iterable(part)) for part in (before, after))
        programs = [p for p, _ in (*first, *rest) if isinstance(p, LoadedProgram)]
        if len(programs) < len(first) + len(rest):
            return None
        needed = [p.generated.scratch for p in programs]
        sizes = [max(group) for group in zip_longest(*needed, fillvalue=0)]
        constants = list(dict.fromkeys(c for p in programs for c in p.constants))
        place = {c: len(sizes) + i for i, c in enumerate(constants)}
        own = (*sizes, *constants)
        calls = [[Call(function.address, [*_behind(own, arguments),
                                          *map(Argument, range(len(scratch))),
                                          *(Argument(place[c]) for c in program.constants)])
                  for function in program.functions]
                 for program, scratch, (_, arguments) in zip(programs, needed, (*first, *rest),
                                                             strict=True)]
        steps: list[Call | Limit] = [
            *chain.from_iterable(calls[:len(first)]),
            *(Limit(_behind(own, [memory])[0], below) for memory, below in limits),
            *chain.from_iterable(calls[len(first):])]
        largest = max(programs, key=lambda p: sum(p.generated.scratch), default=None)
        name = "" if largest is None else largest.name
        return partial(self._launch_all, self._run_list, packed(steps), sizes, constants, name,
                       programs)

    @cached_property
    def _run_list(self) -> Callable[[bytes, bytes], int]:
        """The code of sequence.py."""
        self._list_code = own_code.load(SEQUENCE)  # an attribute, which keeps it alive
        return RUN_LIST(self._list_code.get_function_address("sequence"))

    def _launch_all(self, run: Callable[[bytes, bytes], int], steps: bytes, sizes: Sequence[int],
                    constants: Sequence[int], largest: str, programs: Sequence[LoadedProgram],
                    buffers: Sequence[int]) -> bool:
        """Take the steps of a sequence: whether all were taken. largest: the kernel that needs most
        scratch memory, for messages. programs: its kernels, which live as long as it does."""
        if not sizes:
            table: Sequence[int] = (*constants, *buffers) if constants else buffers
            return run(steps, packer(len(table))(*table)) == 0
        scratch = self.workspace(sizes, largest)
        try:
            table = (*scratch, *constants, *buffers)
            return run(steps, packer(len(table))(*table)) == 0
        finally:
            for handle in scratch:
                self.free(handle)

    def assembly(self, kernel: Generated) -> str:
        """The kernel's instructions and labels, without the assembler's directives."""
        lines = self._compiler.emit_assembly(parse(kernel)).splitlines()
        starts = {label for entry in kernel.entries for label in (f"{entry}:", f"{entry}.chunk:")}
        body = dropwhile(lambda line: line.lstrip("_") not in starts, lines)
        unwanted = ("\t.", ".Lfunc_end")
        return "\n".join(line for line in body if line and not line.startswith(unwanted))

    def synchronize(self) -> None:
        pass
