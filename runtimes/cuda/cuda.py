"""The cuda runtime: CUDA C++ to NVIDIA's GPUs, through NVIDIA's driver and run-time compiler.

The kernels of one `build` are one program, whose machine code is kept on disk. A handle is an
address, of memory that the caching allocator gives. Everything is queued on one stream, so memory
that is free serves what is queued later at once. Mistakes of kernels show when something waits.
"""
from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any
from weakref import finalize

import numpy as np

from lazyten.codegen.render.render_c import function_name
from lazyten.codegen.targets.generated import Generated
from lazyten.codegen.targets.native_half import NativeHalves
from lazyten.codegen.targets.target import Target
from lazyten.codegen.targets.tensor_cores import TABLE
from lazyten.devices.program import Launch
from lazyten.ir.collective import Collective, Joined, Ranks, Refused
from lazyten.ir.dtype import DType
from lazyten.ir.kernel import Kernel
from lazyten.runtimes.code_cache import open_cache
from lazyten.runtimes.contract import LoadedProgram, program_text, refusal
from lazyten.runtimes.cuda import compiler as cuda_compiler
from lazyten.runtimes.cuda import driver as cuda_driver
from lazyten.runtimes.cuda import nccl
from lazyten.runtimes.cuda.copies import Staging
from lazyten.runtimes.cuda.driver import Context, DriverError, KernelLaunch, Properties
from lazyten.runtimes.cuda.graphs import GraphCache, stages_of
from lazyten.runtimes.cuda.joined import join
from lazyten.runtimes.memory.allocator import CachingAllocator
from lazyten.runtimes.memory.memory_pool import Block, Source, default_limit
from lazyten.runtimes.memory.pooled import PooledRuntime
from lazyten.support import forking
from lazyten.support.errors import DeviceError

Array = np.ndarray[Any, Any]

GROUP = 256
"""Threads of a block: with 255 registers each they still fit."""
REGISTERS = 64
"""Registers of a thread that a register tile may fill."""
BUSY_WARPS = 4096
"""What keeps 128 multiprocessors busy, each half full. It is the same for all GPUs, as the order in
which sums are added up depends on it."""
MOST_NAMED = 5
"""Kernels that a message names."""


@dataclass(frozen=True, slots=True)
class CudaProgram:
    """Machine code, and the kernels in it."""

    code: bytes
    kernels: Sequence[Generated]


class Module:
    """A program on the device. It is unloaded some time after the last function is gone."""

    def __init__(self, context: Context, code: bytes, dead: deque[Any]) -> None:
        self.handle = context.load(code)
        finalize(self, dead.append, self.handle).atexit = False


class CudaFunction:
    """A kernel's function in a module, and its grid."""

    __slots__ = ("address", "block", "grid", "kernel", "module", "shared")

    def __init__(self, context: Context, module: Module, kernel: Generated, entry: str) -> None:
        self.module, self.kernel = module, kernel
        self.address = context.function(module.handle, function_name(entry))
        number = kernel.entries.index(entry)
        items = kernel.work_items[number]
        block = kernel.groups[number] or min(items, GROUP)
        self.shared = kernel.local[number] if kernel.local else 0
        if self.shared:
            context.allow_shared(self.address, self.shared)
        self.grid, self.block = (-(-items // block), 1, 1), (block, 1, 1)


class CudaRuntime(PooledRuntime[int]):
    """Device 'cuda', or 'cuda:1' and so on."""

    has_offsets = True
    has_streams = True
    kind = "cuda"

    def __init__(self, index: int = 0) -> None:
        super().__init__(index)
        cuda_driver.start()
        names = cuda_driver.device_names()
        if index >= len(names):
            raise DeviceError(f"device 'cuda:{index}': there is no such GPU; {_listed(names)}")
        self.label = f"{self.kind}:{index}" if index else self.kind
        self.properties = cuda_driver.properties(index)
        self.architecture = self._architecture()
        self.target = target_of(self.properties)
        self._lock = forking.lock()
        self._queued: deque[Sequence[Generated]] = deque(maxlen=1000)
        self._dead_modules: deque[Any] = deque()
        self._dead_graphs: deque[Any] = deque()
        try:
            self.context = Context(index)
        except DriverError as error:
            raise self._explained("starting", error) from error
        self.pool: CachingAllocator[int] = CachingAllocator(
            Source(self.label, self.properties.name, lambda _: self.properties.memory,
                   self._reserve),
            lambda segment, offset, size: segment.address + offset,
            default_limit(self.properties.memory))
        self.staging = Staging(self.context)
        self.code = open_cache(f"{self._compiler()}\n{self.target}")
        self.kept = self.code.kept
        self.waits = os.environ.get("CUDA_LAUNCH_BLOCKING", "0") not in ("", "0")

    def _architecture(self) -> int:
        """What kernels are compiled for. DeviceError if the driver cannot load such code."""
        needed = cuda_compiler.version() // 1000 * 1000
        version = cuda_driver.call("cuDriverGetVersion")
        if version < needed:
            raise cuda_driver.too_old(version, needed)
        return cuda_compiler.architecture_for(self.properties.architecture, self.properties.name)

    def _compiler(self) -> str:
        """What machine code depends on besides the text."""
        name = cuda_compiler.own_name(self.architecture)
        return f"NVRTC {cuda_compiler.version()} {cuda_compiler.OPTIONS} sm_{name}"

    @classmethod
    def find(cls, name: str) -> int:
        cuda_driver.start()
        names = cuda_driver.device_names()
        for number, found in enumerate(names):
            if name.lower() in found.lower():
                return number
        raise DeviceError(f"device 'cuda:{name}': no GPU is called so; {_listed(names)}")

    @classmethod
    def devices(cls) -> list[str]:
        cuda_driver.start()
        return cuda_driver.device_names()

    # ---- memory ----

    def _reserve(self, size: int) -> Block[int]:
        with self._reporting("an allocation"):
            address = self.context.allocate(size)
        memory = _Memory()
        finalize(memory, _release, self.context, address).atexit = False
        return Block(address, size, memory)

    def with_offset(self, handle: int, nbytes: int) -> int:
        return handle + nbytes

    def copy_in(self, handle: int, source: Array) -> None:
        with self._lock, self._reporting("a copy to the device"):
            self.staging.copy_in(handle, source)

    def copy_out(self, target: Array, handle: int) -> None:
        with self._lock, self._reporting("a copy from the device"):
            self.staging.copy_out(target, handle)
            self.context.synchronize()
            self._queued.clear()

    # ---- other ranks ----

    def takes(self, what: Collective, dtype: DType) -> bool:
        return nccl.takes(what, dtype)

    def join(self, ranks: Ranks, place: str) -> Joined | Refused:
        with self._lock, self._reporting("joining the GPUs of ranks"):
            return join(self.context, cuda_driver.uuid(self.index), ranks, place)

    # ---- code ----

    def translate(self, kernels: Mapping[str, Kernel]) -> tuple[list[Generated], CudaProgram]:
        """Text and machine code of kernels, from disk if they were compiled together before."""
        generated, code = self.code.translate_together(kernels, self.generate, self.machine_code)
        return generated, CudaProgram(code, generated)

    def compile(self, kernels: Sequence[Generated]) -> CudaProgram:
        return CudaProgram(self.machine_code(kernels), kernels)

    def machine_code(self, kernels: Sequence[Generated]) -> bytes:
        """The kernels as one program."""
        source = program_text(kernels)
        try:
            return self.compile_text(source)
        except cuda_compiler.RefusedError as error:
            for kernel in kernels if len(kernels) > 1 else ():
                self.machine_code([kernel])  # that which is at fault has the error
            raise refusal(f"NVRTC, for {self.properties.name},", kernels[0], source, ".cu",
                          error) from error

    def compile_text(self, source: str) -> bytes:
        """Machine code for this GPU. RefusedError has the compiler's log."""
        return cuda_compiler.machine_code(source, self.architecture)

    def load(self, compiled: CudaProgram, names: Sequence[str]) -> list[CudaFunction]:
        with self._lock, self._reporting("loading a program"):
            self._bury()
            module = Module(self.context, compiled.code, self._dead_modules)
            kernel_of = {entry: kernel for kernel in compiled.kernels for entry in kernel.entries}
            return [CudaFunction(self.context, module, kernel_of[name], name) for name in names]

    def _bury(self) -> None:
        """Drop the graphs and modules that nobody uses any more; finalizers only note them."""
        if self._dead_modules or self._dead_graphs:
            self.context.synchronize()
        while self._dead_graphs:
            self.context.destroy_graph(self._dead_graphs.popleft())
        while self._dead_modules:
            self.context.unload(self._dead_modules.popleft())

    def assembly(self, kernel: Generated) -> str:
        """PTX, without what precedes the first function."""
        text = cuda_compiler.assembly(program_text([kernel]), self.architecture)
        return text[text.find(".visible"):]

    # ---- launches ----

    def launch(self, function: CudaFunction, buffers: Sequence[int]) -> None:
        with self._reporting("a launch"):
            self._queued.append((function.kernel,))
            self.context.launch(KernelLaunch(function.address, function.grid, function.block,
                                             buffers, function.shared))
            if self.waits:
                self.context.synchronize()
                self._queued.clear()

    def sequence(self, launches: Sequence[Launch]) -> Callable[[Sequence[int]], object]:
        """One CUDA graph, once the same memory comes again."""
        loaded = [[(p, arguments) for p, arguments in launch if isinstance(p, LoadedProgram)]
                  for launch in launches]
        if sum(map(len, loaded)) < sum(map(len, launches)) or self.waits:
            return super().sequence(launches)
        programs = [p for launch in loaded for p, _ in launch]
        stages, scratch = stages_of(loaded)
        graphs = GraphCache(self.context, stages, programs, self._dead_graphs)
        kernels = [p.generated for p in programs]
        largest = max(programs, key=lambda p: sum(p.generated.scratch)).name if programs else ""

        def launch_all(buffers: Sequence[int]) -> None:
            handles = self.workspace([scratch], largest) if scratch else []
            try:
                with self._lock:
                    self.context.use()
                    self._queued.append(kernels)
                    graphs.launch((*(handles or [0]), *buffers))
            except DriverError as error:
                raise self._explained("a sequence of launches", error) from error
            finally:
                for handle in handles:
                    self.free(handle)
        return launch_all

    def synchronize(self) -> None:
        with self._reporting("a kernel"):
            self.context.synchronize()
            self._queued.clear()

    def seconds(self, launch: Callable[[], None]) -> float:
        """By the GPU's own clock, from the start of the first kernel to the end of the last."""
        with self._lock, self._reporting("a kernel"):
            start, end = self.context.event(timed=True), self.context.event(timed=True)
            try:
                self.context.synchronize()
                self.context.record(start)
                launch()
                self.context.record(end)
                self.context.wait_for(end)
                return self.context.seconds_between(start, end)
            finally:
                for event in (start, end):
                    self.context.destroy_event(event)

    @contextmanager
    def _reporting(self, what: str) -> Iterator[None]:
        """Make the context the thread's; a mistake of the driver is a DeviceError."""
        try:
            self.context.use()
            yield
        except DriverError as error:
            raise self._explained(what, error) from error

    def _explained(self, what: str, error: DriverError) -> DeviceError:
        text = f"{self.label} ({self.properties.name}): {what} failed: {error}"
        if not error.is_lasting:
            return DeviceError(text)
        return DeviceError(f"{text}. {self._suspects()} The GPU cannot be used any more in this "
                           "process")

    def _suspects(self) -> str:
        """The kernels that were queued since anything was waited for, with the user's lines."""
        kernels = {f"{k.name} (from {k.where})": None for group in self._queued for k in group}
        if not kernels:
            return "No kernel of lazyten's was running."
        if len(kernels) == 1:
            return f"The kernel is {next(iter(kernels))}."
        named, more = list(kernels)[:MOST_NAMED], len(kernels) - MOST_NAMED
        return (f"It is one of these kernels: {', '.join(named)}"
                f"{f' and {more} more' if more > 0 else ''}; run the program again with "
                "CUDA_LAUNCH_BLOCKING=1, which waits for each kernel, to see which.")


class _Memory:
    """What keeps a segment."""

    __slots__ = ("__weakref__",)


def _release(context: Context, address: int) -> None:
    """Give a segment back, unless the GPU cannot be used any more."""
    with suppress(DriverError):
        context.use()
        context.release(address)


def target_of(device: Properties) -> Target:
    """What kernels for a GPU may use, and how they are laid out."""
    halves = ("float16", "bfloat16") if device.architecture >= 80 else ("float16",)
    return Target(f"cuda-sm{device.architecture}", 4, REGISTERS, threads=True, language="cuda",
                  most_lanes=1, work_group=min(GROUP, device.most_threads),
                  local_memory=device.local_memory,
                  busy_warps=BUSY_WARPS,
                  tensor_cores=_cores(device.architecture),
                  halves=NativeHalves(halves, halves), async_copies=device.architecture >= 80)


def _cores(architecture: int) -> tuple[str, ...]:
    """The instructions that an architecture has; wgmma is Hopper's alone."""
    return tuple(name for name, core in TABLE.items() if architecture >= 80 and (
        not core.is_local or architecture in cuda_compiler.WITH_OWN))


def _listed(names: Sequence[str]) -> str:
    if not names:
        return "the driver finds no GPU (see whether `nvidia-smi` lists one)"
    return "there are: " + ", ".join(f"'cuda:{i}' is {name}" for i, name in enumerate(names))
