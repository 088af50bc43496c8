"""The opencl runtime: OpenCL C to whatever device has a driver, through pyopencl.

The kernels of one `build` are one program, whose binary is kept on disk. Everything is queued, in
order, on one queue. A handle is a pyopencl Buffer, most often a part of a larger one. On processors
a work item is what a thread is to the cpu runtime: it runs a chunk of the outer loop, in vectors.
On GPUs it is one of many that run an output block.
"""
from __future__ import annotations

import ctypes
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import chain, zip_longest
from typing import Any
from weakref import ref

import numpy as np

from lazyten.codegen.render.render_c import function_name
from lazyten.codegen.targets.dialect import OPENCL
from lazyten.codegen.targets.generated import Generated
from lazyten.devices.program import Launch
from lazyten.ir import dtype as dt
from lazyten.ir.kernel import Kernel
from lazyten.runtimes.code_cache import open_cache
from lazyten.runtimes.contract import LoadedProgram
from lazyten.runtimes.memory.allocator import GRAIN, CachingAllocator
from lazyten.runtimes.memory.memory_pool import Block, MemoryPool, Source
from lazyten.runtimes.memory.pooled import PooledRuntime
from lazyten.runtimes.opencl.compiler import Compiler
from lazyten.runtimes.opencl.devices import (
    describe,
    described,
    device_number,
    device_of,
    identity,
    package,
)
from lazyten.runtimes.opencl.drivers import UNKNOWN, check_usable, driver_of
from lazyten.runtimes.opencl.intel import note
from lazyten.runtimes.opencl.programs import ProgramBuilder, Programs
from lazyten.runtimes.opencl.targets import divides_exactly, target_of
from lazyten.runtimes.opencl.trial import failure
from lazyten.support import forking
from lazyten.support.errors import CompileError, DeviceError, DTypeError

Array = np.ndarray[Any, Any]
ClBuffer = Any
ClKernel = Any

OPTIONS = ("-cl-std=CL1.2",)
ROUNDED = "-cl-fp32-correctly-rounded-divide-sqrt"


class OpenCLFunction:
    """A kernel's function in a built program, with what a launch needs. group: the work items of a
    group, or 0 for any number up to `most`."""

    __slots__ = ("kernel", "name", "params", "program", "sizes")

    def __init__(self, program: Any, name: str, items: int, group: int, most: int) -> None:
        self.name, self.program = name, program  # a driver may not tell a kernel's program
        self.kernel: ClKernel = package().Kernel(program, function_name(name))
        self.params: int = self.kernel.num_args
        local = group or min(items, most, self._most_items() if most > 1 else 1)
        self.sizes = (-(-items // local) * local,), (local,)

    def _most_items(self) -> int:
        """Of a group, by the registers that the kernel takes."""
        cl = package()
        device, = self.program.devices
        found = cl.kernel_work_group_info.WORK_GROUP_SIZE
        return int(self.kernel.get_work_group_info(found, device))

    def enqueue(self, queue: Any, buffers: Sequence[ClBuffer]) -> Any:
        """Queue a launch; gives its event. Only one thread at a time may, as arguments belong to
        the kernel until it is queued."""
        self.kernel.set_args(*buffers[:self.params])
        return package().enqueue_nd_range_kernel(queue, self.kernel, *self.sizes)


class OpenCLLaunch:
    """A launch in a sequence. Its kernel is its own: arguments stay set until others come.

    numbers: of its buffers in the table that a call of the sequence has. given: those that are set,
    which live as long: another must not be taken for one of them.
    """

    __slots__ = ("__weakref__", "given", "kernel", "numbers", "sizes")

    def __init__(self, function: OpenCLFunction, numbers: Sequence[int]) -> None:
        self.kernel: ClKernel = package().Kernel(function.program, function_name(function.name))
        self.numbers, self.sizes = numbers[:function.params], function.sizes
        self.forget()

    def forget(self) -> None:
        """Set all arguments at the next call. Any thread may ask for it."""
        self.given: list[ClBuffer | None] = [None] * len(self.numbers)

    def enqueue(self, queue: Any, table: Sequence[ClBuffer]) -> Any:
        """Queue it; gives its event. Only one thread at a time may."""
        given = self.given
        for i, number in enumerate(self.numbers):
            buffer = table[number]
            if buffer is not given[i]:
                self.kernel.set_arg(i, buffer)
                given[i] = buffer
        return package().enqueue_nd_range_kernel(queue, self.kernel, *self.sizes)


class OpenCLRuntime(PooledRuntime[ClBuffer]):
    """Device 'opencl', or 'opencl:1' and so on."""

    def __init__(self, index: int = 0, is_trial: bool = False) -> None:
        """is_trial: this is the process in which an unknown driver is tried."""
        super().__init__(index)
        cl = package()
        self.device = device_of(index)
        self.options = [*OPTIONS, *([ROUNDED] if divides_exactly(self.device) else [])]
        driver = driver_of(self.device) or UNKNOWN
        check_usable(driver, self.device, describe(self.device))
        if driver is UNKNOWN and not is_trial:
            self._check_trial(index)
        self.label = f"opencl:{index}" if index else "opencl"
        self.target = target_of(self.device, driver)
        self.context = cl.Context([self.device])
        self.queue = cl.CommandQueue(self.context)
        source = Source(self.label, describe(self.device), lambda _: self.device.global_mem_size,
                        self._reserve)
        self.pool: MemoryPool[ClBuffer] = (
            CachingAllocator(source, _part) if self.device.mem_base_addr_align <= 8 * GRAIN
            else MemoryPool(source))
        apart = None if is_trial or not driver.apart else Compiler(index, identity(self.device))
        self.builder = ProgramBuilder(self.context, self.options, apart, self._keep_context)
        self.code = open_cache(f"{self._compiler()}\n{self.target}")
        self.kept = self.code.kept
        self._lock = forking.lock()
        self._launches: list[ref[OpenCLLaunch]] = []
        self._events: list[Any] | None = None

    def _check_trial(self, index: int) -> None:
        """DeviceError if the driver, of which nothing is known, does not pass a trial."""
        reason = failure(index, self._compiler())
        if reason is not None:
            raise DeviceError(f"OpenCL device {describe(self.device)} cannot be used: {reason}. "
                              f"Its version is {self.device.driver_version.strip()}: another may "
                              "do better")

    @classmethod
    def find(cls, name: str) -> int:
        return device_number(name)

    @classmethod
    def devices(cls) -> list[str]:
        return described()

    @classmethod
    def notes(cls) -> list[str]:
        intel = note()
        return [] if intel is None else [intel]

    def features(self) -> dict[str, str]:
        return super().features() | {"driver": self.device.driver_version.strip()}

    # ---- memory ----

    def _reserve(self, size: int) -> Block[ClBuffer]:
        cl = package()
        try:
            buffer = cl.Buffer(self.context, cl.mem_flags.READ_WRITE, size)
        except cl.Error as error:
            self._forget_arguments()
            raise MemoryError(str(error)) from error
        return Block(buffer, size, buffer)

    def empty_cache(self) -> None:
        self._forget_arguments()
        super().empty_cache()

    def _forget_arguments(self) -> None:
        """Let go of memory that is free but for a launch whose argument it was."""
        for reference in self._launches:
            launch = reference()
            if launch is not None:
                launch.forget()

    def copy_in(self, handle: ClBuffer, source: Array) -> None:
        if source.nbytes:
            with self._reporting("a copy to the device"):
                package().enqueue_copy(self.queue, handle, source)

    def copy_out(self, target: Array, handle: ClBuffer) -> None:
        with self._reporting("a kernel, or a copy from the device"):
            if target.nbytes:
                package().enqueue_copy(self.queue, target, handle)
            else:
                self.queue.finish()

    # ---- code ----

    def generate(self, kernels: Sequence[Kernel]) -> list[Generated]:
        self.builder.start(len(kernels))
        generated = super().generate(kernels)
        if dt.float64 not in self.target.dtypes:
            for kernel in generated:
                self._refuse_float64(kernel)
        return generated

    def _refuse_float64(self, kernel: Generated) -> None:
        if set(OPENCL.float64) & set(kernel.declares):
            raise DTypeError(f"kernel {kernel.name} (from {kernel.where}) computes in float64, as "
                             "checks of integer sums do too, and OpenCL device "
                             f"{describe(self.device)} has none; compute it on another device")

    def _compiler(self) -> str:
        """What a binary depends on besides the text."""
        return "\n".join([identity(self.device), *self.options])

    def translate(self, kernels: Mapping[str, Kernel]) -> tuple[list[Generated], Any]:
        """Texts and programs of kernels, from disk if they were compiled together before."""
        if self.code.disk is None:  # PoCL compiles each kernel several times more for a binary
            return super().translate(kernels)
        built: list[Programs] = []

        def compile_new(generated: Sequence[Generated]) -> bytes:
            programs, binaries = self.builder.compiled(generated)
            built.append(programs)
            return binaries()
        generated, code = self.code.translate_together(kernels, self.generate, compile_new)
        programs = built[0] if built else self.builder.restored(code, generated)
        return generated, (programs, _sizes(generated))

    def compile(self, kernels: Sequence[Generated]) -> Any:
        """The program of each function of the kernels, and its work items and group."""
        return (self.builder.compiled(kernels)[0], _sizes(kernels)) if kernels else None

    def load(self, compiled: Any, names: Sequence[str]) -> list[OpenCLFunction]:
        if compiled is None:
            return []
        programs, sizes = compiled
        return [self._function(programs[name], name, *sizes[name]) for name in names]

    def _function(self, program: Any, name: str, items: int, group: int) -> OpenCLFunction:
        try:
            return OpenCLFunction(program, name, items, group, self.target.work_group)
        except package().Error as error:
            self._keep_context()
            raise CompileError(f"the compiler of {describe(self.device)} made a program without "
                               f"kernel {name}, or one that cannot be run: "
                               f"{str(error).strip()}") from error

    def _keep_context(self) -> None:
        """Never release the context: some drivers end the process then if a program failed."""
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(self.context))

    def launch(self, function: OpenCLFunction, buffers: Sequence[ClBuffer]) -> None:
        with self._lock, self._reporting(f"kernel {function.name}"):
            self._note(function.enqueue(self.queue, buffers))

    def _note(self, event: Any) -> None:
        if self._events is not None:
            self._events.append(event)

    def sequence(self, launches: Sequence[Launch]) -> Callable[[Sequence[ClBuffer]], object]:
        """All launches under one lock; they share the scratch memory."""
        in_order = list(chain.from_iterable(launches))
        programs = [p for p, _ in in_order if isinstance(p, LoadedProgram)]
        if len(programs) < len(in_order):  # some of another kind
            return super().sequence(launches)
        needed = [p.generated.scratch for p in programs]
        sizes = [max(group) for group in zip_longest(*needed, fillvalue=0)]
        calls = [OpenCLLaunch(function, [*(n + len(sizes) for n, _ in arguments),
                                         *range(len(scratch))])
                 for program, scratch, (_, arguments) in zip(programs, needed, in_order,
                                                             strict=True)
                 for function in program.functions]
        alive = [r for r in self._launches if r() is not None]
        self._launches = [*alive, *map(ref, calls)]
        largest = max(programs, key=lambda p: sum(p.generated.scratch), default=None)

        def launch_all(buffers: Sequence[ClBuffer]) -> None:
            scratch = self.workspace(sizes, "" if largest is None else largest.name)
            table = (*scratch, *buffers)
            try:
                with self._lock, self._reporting("a sequence of kernels"):
                    for call in calls:
                        self._note(call.enqueue(self.queue, table))
                    self.queue.flush()
            finally:
                for handle in scratch:
                    self.free(handle)
        return launch_all

    def synchronize(self) -> None:
        with self._reporting("a kernel"):
            self.queue.finish()

    def seconds(self, launch: Callable[[], None]) -> float:
        """By the device's own clock: what its kernels take, one after the other."""
        cl = package()
        with self._lock:
            self.synchronize()
            plain = self.queue
            self.queue = cl.CommandQueue(
                self.context, properties=cl.command_queue_properties.PROFILING_ENABLE)
            self._events = []
            try:
                start = time.perf_counter()
                launch()
                self.synchronize()
                spent = time.perf_counter() - start
                events = self._events
            finally:
                self.queue, self._events = plain, None
        if not events:
            return spent
        return float(sum(e.profile.end - e.profile.start for e in events)) * 1e-9

    @contextmanager
    def _reporting(self, what: str) -> Iterator[None]:
        cl = package()
        try:
            yield
        except cl.Error as error:
            raise DeviceError(f"{self.label} ({describe(self.device)}): {what} failed: "
                              f"{str(error).strip()}") from error


def _part(segment: Block[ClBuffer], offset: int, size: int) -> ClBuffer:
    """Bytes of a segment of memory as a buffer."""
    whole = size == segment.size
    return segment.address if whole else segment.address.get_sub_region(offset, size)


def _sizes(kernels: Sequence[Generated]) -> dict[str, tuple[int, int]]:
    """The work items of each function, and how many make a group, 0 for any number."""
    return {name: (items, group) for k in kernels
            for name, items, group in zip(k.entries, k.work_items, k.groups, strict=True)}
