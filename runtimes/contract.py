"""What a new device must provide: subclass `Runtime`, and lazyten runs on it.

A package makes its runtime known by an entry point; `DEVICE=toy` then finds it:

    [project.entry-points."lazyten.runtimes"]
    toy = "toy_package:ToyRuntime"

Its class says `contract = 2`: the version (`lazyten.storage.device.CONTRACT`) that it was written
for. docs/porting.md goes through all of this with an example, and through the kit that checks a
runtime. Realizing (`lazyten.execution.realization`) calls `build` once for the kernels of a new
graph, then launches programs on buffers in order. A runtime with an `__init__` calls that of
`Runtime` in it. Where a program can fail because of what the user did, raise a LazytenError:
DeviceError for memory and the device itself, CompileError for a refused kernel. A device that takes
kernels as graphs instead of text, as the interpreter does, subclasses
`lazyten.devices.executor.Executor` and writes `build` itself.

The code generator is imported where it is asked for: a process that finds all its kernels on disk
does without, and starts in half the time. Whatever imports or compiles is `undivided`: a fork by
another thread waits for its end, as the child would wait for ever for what that thread holds.
"""
from __future__ import annotations

import weakref
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any
from weakref import WeakValueDictionary

import numpy as np

from lazyten.codegen.targets.generated import Generated
from lazyten.codegen.targets.target import Target
from lazyten.devices.executor import Executor
from lazyten.devices.program import AtSize, AtSizes, Handle, Program
from lazyten.ir import dtype as dt
from lazyten.ir.dtype import DType
from lazyten.ir.kernel import Kernel, nameless, structure
from lazyten.ir.node import toposort
from lazyten.support import observers
from lazyten.support.errors import CompileError, DeviceError, DTypeError
from lazyten.support.forking import undivided
from lazyten.tuning.records import given_for

Compiled = Any  # whatever a runtime's compile gives
Function = Any  # whatever a runtime's load gives for one kernel


class LoadedProgram(Program):
    """A kernel that a Runtime has compiled and loaded; keeps its function alive."""

    def __init__(self, runtime: Runtime, generated: Generated,
                 functions: Sequence[Function]) -> None:
        self.name, self.source = generated.name, generated.source
        self.runtime, self.generated, self.functions = runtime, generated, functions
        self.in_place = frozenset(generated.in_place)
        self.constants: tuple[Handle, ...] = ()
        """Memory that is an argument of each launch, after all others."""

    def launch(self, buffers: Sequence[Handle]) -> None:
        """Run on these buffers, outputs first."""
        scratch = self.runtime.workspace(self.generated.scratch, self.name)
        try:
            for function in self.functions:
                self.runtime.launch(function, [*buffers, *scratch, *self.constants])
        finally:
            for handle in scratch:
                self.runtime.free(handle)

    def assembly(self) -> str:
        """The machine code as text."""
        return self.runtime.assembly(self.generated)

    def describe(self) -> str:
        """The optimizer's decisions and the loop nest."""
        return self.generated.loops

    def decided(self) -> str:
        """The optimizer's decisions or a user's, where they are for one nest."""
        return self.generated.decided


class VaryingProgram(LoadedProgram):
    """A kernel at one of many sizes, whose code reads what is of this size in memory. filled: the
    kernel (codegen/templates.py)."""

    def __init__(self, runtime: Runtime, generated: Generated, functions: Sequence[Function],
                 filled: Any) -> None:
        super().__init__(runtime, generated, functions)
        self.filled, self.places = filled, filled.template.places
        numbers: bytes = filled.memory
        self.constants = (runtime.alloc(len(numbers)),)
        weakref.finalize(self, runtime.free, self.constants[0])
        runtime.copy_in(self.constants[0], np.frombuffer(numbers, np.uint8))

    @property
    def at_size(self) -> AtSize | None:
        filled = self.filled
        if not filled.is_sure:
            return None
        form, numbers = filled.taken_apart
        return AtSize(form, numbers, filled.in_text(self.places), filled.slots(self.places),
                      self.generated.scratch, filled.quantities)


class Runtime(Executor):
    """A device that runs generated code. A subclass sets `target` and fills in the methods.

    Memory (alloc, free, copy_in, copy_out, described in `lazyten.devices.executor.Executor`):

    - Memory starts at a multiple of 64 bytes, or of `target.vector_bytes` if that is more.
      Kernels may read its first element whatever its size: an access that is masked off goes there.
    - A handle is any object; only this runtime looks inside. It lives until `free`, which comes
      once, in any thread and inside any garbage collection, so `free` must not wait for a lock; at
      the end of the process it does not come. Launches queued before it still use the memory.
    - alloc raises DeviceError, with the bytes asked for and there, when memory is out. An alloc of
      0 bytes gives a handle like any other.
    - memory_stats, reset_peak and empty_cache are what `lazyten.memory_stats` and its like ask; a
      runtime without them cannot be measured.
    - copy_in may return before the copy is done, but the array belongs to the caller again on
      return. copy_out waits for all launches and copies before it.

    Launches run as if one after the other, in the order of the calls of one thread.
    """

    target: Target

    def __init__(self, index: int = 0) -> None:
        super().__init__(index)
        self._programs: WeakValueDictionary[str, Program] = WeakValueDictionary()
        self._nameless: WeakValueDictionary[str, LoadedProgram] = WeakValueDictionary()

    @property
    def dtypes(self) -> frozenset[DType]:
        return self.target.dtypes

    @property
    @undivided
    def items(self) -> int:
        target = self.target
        if target.work_group == 1 or not target.local_memory:
            return 0
        return target.busy_warps * target.warp

    @undivided
    def streams(self, kernel: Kernel) -> bool:
        from lazyten.codegen.gpu.gpu_stream import pays, streamed_loops
        return pays(streamed_loops(kernel, self.target), self.target)

    @property
    @undivided
    def has_tf32(self) -> bool:
        if not self.target.tensor_cores:
            return False
        from lazyten.codegen.targets.tensor_cores import TABLE
        return any(TABLE[name].takes is dt.float32 for name in self.target.tensor_cores)

    def features(self) -> dict[str, str]:
        has = self.target
        language = has.language if isinstance(has.language, str) else has.language.name
        return {"name": has.name, "language": language,
                "vectors": f"{has.vector_registers} of {has.vector_bytes} bytes",
                "threads": "yes" if has.threads else "no",
                "work group": f"{has.work_group:,}", "local memory": f"{has.local_memory:,} bytes",
                "memory counted": "yes" if self._counts else "no",
                "offsets": "yes" if self.has_offsets else "no"}

    @property
    def _counts(self) -> bool:
        return type(self).memory_stats is not Executor.memory_stats

    @abstractmethod
    def compile(self, kernels: Sequence[Generated]) -> Compiled:
        """Turn texts into whatever `load` takes; names are distinct.

        Raises CompileError with the kernel's name, the user's line (`where`) and the compiler's
        message if the text of one is refused.
        """

    @abstractmethod
    def load(self, compiled: Compiled, names: Sequence[str]) -> Sequence[Function]:
        """The functions of these names, ready to launch. Each must stay valid as long as it is
        referenced, whatever becomes of the others."""

    @abstractmethod
    def launch(self, function: Function, buffers: Sequence[Handle]) -> None:
        """Run a function on these buffers, or queue it.

        Called from several threads at once, for the same function too. A mistake that shows only
        later is raised by `synchronize` or `copy_out`.
        """

    def assembly(self, kernel: Generated) -> str:
        """The machine code of a kernel as text; empty if the device's compiler shows none."""
        return ""

    def translate(self, kernels: Mapping[str, Kernel]) -> tuple[list[Generated], Compiled]:
        """Generate and compile kernels, given by their structure. A runtime may override this to
        find what was made before; see `code_cache`."""
        generated = self.generate(list(kernels.values()))
        return generated, observers.compiling(self.compile)(generated)

    def generate(self, kernels: Sequence[Kernel]) -> list[Generated]:
        """The kernels' texts for this device."""
        if not kernels:
            return []
        from lazyten.codegen.pipeline import generate
        return [generate(self._checked(k), self.target) for k in kernels]

    @undivided
    def build(self, kernels: Sequence[Kernel]) -> list[Program]:
        """One program a kernel; a program that is still in use serves equal kernels again, and its
        code those that differ in their names alone."""
        decided = [self._with_decisions(k) for k in with_distinct_names(kernels)]
        keyed = {structure(k): k for k in decided}
        programs: dict[str, Program] = {
            key: p for key, kernel in keyed.items() if (p := self._known(key, kernel)) is not None}
        missing = {key: kernel for key, kernel in keyed.items() if key not in programs}
        if missing:
            generated, compiled = self.translate(missing)
            names = [entry for g in generated for entry in g.entries]
            functions = dict(zip(names, self.load(compiled, names), strict=True))
            for key, text in zip(missing, generated, strict=True):
                loaded = LoadedProgram(self, text, [functions[e] for e in text.entries])
                program = self._with_report_check(keyed[key], loaded)
                programs[key] = self._programs[key] = program
                if program is loaded:
                    self._nameless[nameless(key)] = loaded
        return [programs[key] for key in keyed]

    def _known(self, key: str, kernel: Kernel) -> Program | None:
        """The program of this structure, or one of the code of an equal kernel of another name."""
        found = self._programs.get(key)
        if found is not None or observers.any_needs_passes():
            return found
        other = self._nameless.get(nameless(key))
        if other is not None:
            text = other.generated.called(kernel.name, kernel.where)
            found = self._programs[key] = LoadedProgram(self, text, other.functions)
        return found

    @undivided
    def look_at(self, kernels: Sequence[Kernel], known: Any, sizes: AtSizes) -> None:
        if known is not None:
            known.fill([self._with_decisions(self._checked(k)) for k in kernels], self.target,
                       sizes)

    @undivided
    def build_varying(self, kernels: Sequence[Kernel], known: Any,
                      sizes: AtSizes) -> list[Program]:
        if known is None or any(k.checks for k in kernels):
            return self.build(kernels)
        filled = known.fill([self._with_decisions(self._checked(k)) for k in kernels], self.target,
                            sizes)
        programs: list[Program] = []
        for one in filled:
            template, text = one.template, one.template.settle()
            if template.functions is None:
                template.functions = self.load(self.compile_own(text), text.entries)
            launch = replace(one.launch, source=text.source, declares=text.declares)
            programs.append(VaryingProgram(self, launch, template.functions, one))
        return programs

    def at_numbers(self, program: Program, memory: Handle, offset: int,
                   scratch: Sequence[int]) -> Program:
        assert isinstance(program, VaryingProgram)
        text = replace(program.generated, scratch=tuple(scratch))
        made = LoadedProgram(self, text, program.functions)
        made.constants = (self.with_offset(memory, offset),)
        return made

    def compile_own(self, text: Generated) -> Compiled:
        """Compile one text, which may have names that others have, too."""
        return observers.compiling(self.compile)([text])

    def _with_report_check(self, kernel: Kernel, program: LoadedProgram) -> Program:
        """The program; of a kernel with checks, one that looks at the report of each launch."""
        records = program.generated.records
        if not records:
            return program
        from lazyten.runtimes.checks.checked import CheckedProgram
        return CheckedProgram(self, kernel, program, records)

    def workspace(self, sizes: Sequence[int], kernel: str) -> list[Handle]:
        """Memory of these sizes for the time of a launch. DeviceError names the kernel."""
        handles: list[Handle] = []
        try:
            for nbytes in sizes:
                handles.append(self.alloc(nbytes))
        except DeviceError as error:
            for handle in handles:
                self.free(handle)
            raise DeviceError(f"kernel {kernel} needs {sum(sizes):,} bytes to work in: "
                              f"{error}") from error
        return handles

    @property
    def target_label(self) -> str:
        return self.target.label

    @undivided
    def candidates(self, kernel: Kernel) -> list[str]:
        """Decisions worth trying on a kernel in place of those it has."""
        from lazyten.codegen.optimize.candidates import candidates
        return candidates(self._with_decisions(kernel), self.target)

    @undivided
    def estimates(self, kernel: Kernel) -> list[tuple[str, float]]:
        from lazyten.codegen.optimize.candidates import estimates
        return estimates(self._with_decisions(kernel), self.target)

    def _with_decisions(self, kernel: Kernel) -> Kernel:
        """The kernel with the decisions that the user gave for it, if there are any."""
        if kernel.decisions is not None:
            return kernel
        given = given_for(kernel, self.target_label)
        return kernel if given is None else replace(kernel, decisions=given)

    def _checked(self, kernel: Kernel) -> Kernel:
        """The kernel, if its element types are there; DTypeError with the user's line if not."""
        missing = {n.dtype for n in toposort(kernel.outputs)} - self.target.dtypes
        if missing:
            names = ", ".join(sorted(d.name for d in missing))
            raise DTypeError(f"device {self.target.name!r} has no {names}, which kernel "
                             f"{kernel.name} ({kernel.where}) uses; cast to another type, or "
                             "compute it on another device")
        return kernel


def program_text(kernels: Sequence[Generated]) -> str:
    """One program of several kernels: what they declare, once, and their functions."""
    declares = dict.fromkeys(line for kernel in kernels for line in kernel.declares)
    return "\n".join([*declares, *(kernel.source for kernel in kernels), ""])


def refusal(compiler: str, kernel: Generated, source: str, suffix: str,
            error: Exception) -> CompileError:
    """The error for a kernel that a compiler refuses; its source is kept in a file for reports."""
    import tempfile
    try:
        with tempfile.NamedTemporaryFile("w", encoding="utf8", prefix="lazyten-", suffix=suffix,
                                         delete=False) as kept:
            kept.write(source)
        place = f"is in {kept.name}"
    except OSError as unkept:
        place = f"could not be kept ({unkept.strerror})"
    return CompileError(f"{compiler} refuses kernel {kernel.name} (from {kernel.where}); its "
                        f"source {place}: {str(error).strip()}")


def with_distinct_names(kernels: Sequence[Kernel]) -> list[Kernel]:
    """The same kernels; one whose name was taken before gets a number: `name_2`."""
    taken: set[str] = set()
    distinct = []
    for kernel in kernels:
        name, number = kernel.name, 1
        while name in taken:
            number += 1
            name = f"{kernel.name}_{number}"
        taken.add(name)
        distinct.append(kernel if name == kernel.name else replace(kernel, name=name))
    return distinct
