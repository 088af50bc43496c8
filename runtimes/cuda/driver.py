"""NVIDIA's driver, as much of it as the cuda runtime uses: a thin layer over cuda-bindings.

Handles, functions and addresses are integers. Everything is queued in order on one stream; another
one has what runs beside it. A call that the driver refuses raises a DriverError.
"""
from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from lazyten.support.errors import DeviceError

api: Any = None
"""The module cuda.bindings.driver, if it is there."""
try:
    from cuda.bindings import driver as _driver
    api = _driver
except ImportError:
    pass

INSTALL = "pip install 'lazyten[cuda]'"
OLDEST = 12000
"""The oldest driver, as it numbers itself, that has all the calls below: CUDA 12.0."""
PLAIN, UNTIMED = 0, 2  # CU_EVENT_DEFAULT, CU_EVENT_DISABLE_TIMING
NON_BLOCKING = 1  # CU_STREAM_NON_BLOCKING
NOT_READY = 600  # CUDA_ERROR_NOT_READY

Size = tuple[int, int, int]


class DriverError(Exception):
    """A call that the driver refused. code: its number for the mistake; name: CUDA_ERROR_..."""

    def __init__(self, call: str, code: int, name: str, text: str) -> None:
        super().__init__(f"{call}: {name} ({text})" if text else f"{call}: {name}")
        self.code, self.name = code, name

    @property
    def is_lasting(self) -> bool:
        """Whether every later call in this process fails too."""
        return self.name in _LASTING


_LASTING = frozenset(f"CUDA_ERROR_{name}" for name in (
    "ILLEGAL_ADDRESS", "LAUNCH_FAILED", "LAUNCH_TIMEOUT", "HARDWARE_STACK_ERROR", "ASSERT",
    "ILLEGAL_INSTRUCTION", "MISALIGNED_ADDRESS", "INVALID_ADDRESS_SPACE", "INVALID_PC",
    "ECC_UNCORRECTABLE"))


@dataclass(frozen=True, slots=True)
class Properties:
    """What a GPU has.

    architecture: 90 for compute capability 9.0. memory: bytes. local_memory: bytes of shared memory
    that a block can ask for. registers: 32-bit ones of a multiprocessor. l2: bytes
    of the cache that all share.
    """

    name: str
    architecture: int
    memory: int
    local_memory: int
    most_threads: int
    warp: int
    registers: int
    multiprocessors: int
    l2: int


def call(name: str, *arguments: Any) -> Any:
    """What a function of the driver gives, without its status. Raises DriverError."""
    status, *values = getattr(api, name)(*arguments)
    if int(status):
        raise DriverError(name, int(status), *_described(status))
    return values[0] if len(values) == 1 else tuple(values)


def _is_ready(name: str, what: Any) -> bool:
    """What a function of the driver says that asks whether something is done."""
    try:
        call(name, what)
    except DriverError as error:
        if error.code == NOT_READY:
            return False
        raise
    return True


def _described(status: Any) -> tuple[str, str]:
    texts = [get(status)[1] for get in (api.cuGetErrorName, api.cuGetErrorString)]
    name, text = (t.decode() if isinstance(t, bytes) else "" for t in texts)
    return name or f"error {int(status)}", text


def start() -> None:
    """Load the driver. DeviceError, with what is missing, if it cannot be used."""
    if api is None:
        raise DeviceError(f"device 'cuda' needs the package cuda-bindings: install it with "
                          f"{INSTALL}")
    try:
        call("cuInit", 0)
        version = call("cuDriverGetVersion")
    except DriverError as error:
        raise DeviceError(f"device 'cuda': NVIDIA's driver is installed but does not start: "
                          f"{error}; see whether `nvidia-smi` lists a GPU") from error
    except RuntimeError as error:  # what cuda-bindings raises where there is no library
        raise DeviceError("device 'cuda': there is no NVIDIA driver on this machine (libcuda.so.1, "
                          "on Windows nvcuda.dll): install the driver of the GPU; a CUDA toolkit "
                          "is not needed") from error
    if version < OLDEST:
        raise too_old(version, OLDEST)


def too_old(version: int, needed: int) -> DeviceError:
    """The error for a driver of an older CUDA than is needed; both as the driver numbers them."""
    return DeviceError(f"device 'cuda': NVIDIA's driver is for CUDA {version_text(version)}, and "
                       f"CUDA {version_text(needed)} or newer is needed: update the driver, or "
                       "install nvidia-cuda-nvrtc and cuda-bindings of the driver's CUDA")


def version_text(version: int) -> str:
    """13.2 for 13020."""
    return f"{version // 1000}.{version % 1000 // 10}"


def device_names() -> list[str]:
    """The GPUs, in the driver's order."""
    return [_name(call("cuDeviceGet", i)) for i in range(call("cuDeviceGetCount"))]


def _name(device: Any) -> str:
    name: bytes = call("cuDeviceGetName", 128, device)
    return name.split(b"\0")[0].decode().strip()


def uuid(number: int) -> bytes:
    """What tells a GPU, or a part of one, from all others: 16 bytes."""
    return bytes(call("cuDeviceGetUuid", call("cuDeviceGet", number)).bytes)


def properties(number: int) -> Properties:
    """What the GPU of this number has."""
    device = call("cuDeviceGet", number)
    which = api.CUdevice_attribute

    def value(name: str) -> int:
        return int(call("cuDeviceGetAttribute",
                        getattr(which, f"CU_DEVICE_ATTRIBUTE_{name}"), device))
    return Properties(
        name=_name(device),
        architecture=10 * value("COMPUTE_CAPABILITY_MAJOR") + value("COMPUTE_CAPABILITY_MINOR"),
        memory=int(call("cuDeviceTotalMem", device)),
        local_memory=value("MAX_SHARED_MEMORY_PER_BLOCK_OPTIN"),
        most_threads=value("MAX_THREADS_PER_BLOCK"),
        warp=value("WARP_SIZE"),
        registers=value("MAX_REGISTERS_PER_BLOCK"),
        multiprocessors=value("MULTIPROCESSOR_COUNT"),
        l2=value("L2_CACHE_SIZE"))


@dataclass(frozen=True, slots=True)
class KernelLaunch:
    """A function with its blocks, threads of a block, the addresses that are its arguments, and
    bytes of shared memory besides what it declares."""

    function: int
    grid: Size
    block: Size
    addresses: Sequence[int]
    shared: int = 0


class Parameters:
    """Arguments of launches as the driver takes them; alive while it reads them."""

    __slots__ = ("at", "pointers", "values")

    def __init__(self, addresses: Sequence[int]) -> None:
        count = len(addresses)
        self.values = (ctypes.c_uint64 * count)(*addresses)
        start = ctypes.addressof(self.values)
        self.pointers = (ctypes.c_void_p * count)(*range(start, start + 8 * count, 8))
        self.at = ctypes.addressof(self.pointers)


class PreparedLaunch:
    """A kernel that is queued again and again, with other arguments. For one thread at a time."""

    __slots__ = ("given", "parameters")

    def __init__(self, launch: KernelLaunch, stream: Any) -> None:
        self.parameters = Parameters(launch.addresses)
        self.given = (launch.function, *launch.grid, *launch.block, launch.shared, stream,
                      self.parameters.at, 0)

    def queue(self, addresses: Sequence[int]) -> None:
        """Queue the kernel on these addresses, which the driver reads at once."""
        self.parameters.values[:] = list(addresses)
        call("cuLaunchKernel", *self.given)


class Context:
    """A GPU's primary context, which all libraries of a process share, and streams of our own.

    watchers: whatever waits is told to wait by these first, each given a function that says whether
    that is done: what is queued may depend on other processes."""

    def __init__(self, number: int) -> None:
        self._context = call("cuDevicePrimaryCtxRetain", call("cuDeviceGet", number))
        self.use()
        self.stream = call("cuStreamCreate", NON_BLOCKING)
        self._beside: Any = None
        self.watchers: list[Callable[[Callable[[], bool]], None]] = []

    def beside(self) -> Any:
        """The other stream, which runs beside the first one."""
        if self._beside is None:
            self._beside = call("cuStreamCreate", NON_BLOCKING)
        return self._beside

    def use(self) -> None:
        """Make it the calling thread's; needed before any other method, in each thread."""
        call("cuCtxSetCurrent", self._context)

    # ---- memory ----

    def allocate(self, nbytes: int) -> int:
        """The address of new device memory, a multiple of 256. MemoryError if there is none."""
        try:
            return int(call("cuMemAlloc", nbytes))
        except DriverError as error:
            if error.name == "CUDA_ERROR_OUT_OF_MEMORY":
                raise MemoryError(str(error)) from error
            raise

    def release(self, address: int) -> None:
        """Give memory back, once all that is queued is done."""
        call("cuMemFree", address)

    def allocate_pinned(self, nbytes: int) -> int:
        """The address of host memory that the GPU copies from and to by itself."""
        return int(call("cuMemHostAlloc", nbytes, 0))

    def copy_in(self, device: int, pinned: int, nbytes: int) -> None:
        """Queue a copy to the device."""
        call("cuMemcpyHtoDAsync", device, pinned, nbytes, self.stream)

    def copy_out(self, pinned: int, device: int, nbytes: int) -> None:
        """Queue a copy from the device."""
        call("cuMemcpyDtoHAsync", pinned, device, nbytes, self.stream)

    def clear(self, device: int, nbytes: int, stream: Any) -> None:
        """Queue zeros."""
        call("cuMemsetD8Async", device, 0, nbytes, stream)

    # ---- code ----

    def load(self, code: bytes) -> Any:
        """A module of machine code."""
        return call("cuModuleLoadData", code)

    def unload(self, module: Any) -> None:
        """Drop a module. Nothing that is queued may need it."""
        call("cuModuleUnload", module)

    def function(self, module: Any, name: str) -> int:
        """A kernel of a module."""
        return int(call("cuModuleGetFunction", module, name.encode()))

    def allow_shared(self, function: int, nbytes: int) -> None:
        """Let launches of a kernel ask for so much shared memory."""
        which = api.CUfunction_attribute.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
        call("cuFuncSetAttribute", function, which, nbytes)

    def launch(self, launch: KernelLaunch) -> None:
        """Queue a kernel."""
        PreparedLaunch(launch, self.stream).queue(launch.addresses)

    # ---- events and the stream ----

    def event(self, timed: bool = False) -> Any:
        """A new event."""
        return call("cuEventCreate", PLAIN if timed else UNTIMED)

    def record(self, event: Any, stream: Any = None) -> None:
        """Queue an event: it has come once all that was queued before is done."""
        call("cuEventRecord", event, self.stream if stream is None else stream)

    def hold(self, event: Any, stream: Any = None) -> None:
        """What is queued from now on waits for a recorded event."""
        call("cuStreamWaitEvent", self.stream if stream is None else stream, event, 0)

    def has_come(self, event: Any) -> bool:
        """Whether an event has come."""
        return _is_ready("cuEventQuery", event)

    def wait_for(self, event: Any) -> None:
        """Return when an event has come, or if it was never recorded."""
        for watch in list(self.watchers):
            watch(lambda: self.has_come(event))
        call("cuEventSynchronize", event)

    def seconds_between(self, start: Any, end: Any) -> float:
        """By the device's clock; both have come."""
        return float(call("cuEventElapsedTime", start, end)) * 1e-3

    def destroy_event(self, event: Any) -> None:
        """Drop an event."""
        call("cuEventDestroy", event)

    def synchronize(self) -> None:
        """Return when all that is queued is done."""
        for watch in list(self.watchers):
            watch(lambda: _is_ready("cuStreamQuery", self.stream))
        call("cuStreamSynchronize", self.stream)

    # ---- graphs ----

    def graph(self, stages: Sequence[Sequence[Sequence[KernelLaunch]]]) -> Any:
        """Launches to queue at once: stages one after the other, the chains of a stage at once, the
        kernels of a chain one after the other."""
        graph = call("cuGraphCreate", 0)
        try:
            before: list[Any] = []
            for stage in stages:
                if len(before) > 1:
                    before = [call("cuGraphAddEmptyNode", graph, before, len(before))]
                before = [self._add_chain(graph, before, chain) for chain in stage]
            return call("cuGraphInstantiate", graph, 0)
        finally:
            call("cuGraphDestroy", graph)

    def _add_chain(self, graph: Any, before: list[Any], chain: Sequence[KernelLaunch]) -> Any:
        """Add kernels one after the other; gives the node of the last."""
        for launch in chain:
            parameters = Parameters(launch.addresses)
            node = api.CUDA_KERNEL_NODE_PARAMS()
            node.func = launch.function
            node.gridDimX, node.gridDimY, node.gridDimZ = launch.grid
            node.blockDimX, node.blockDimY, node.blockDimZ = launch.block
            node.sharedMemBytes = launch.shared
            node.kernelParams = parameters.at
            before = [call("cuGraphAddKernelNode", graph, before, len(before), node)]
        return before[0]

    def launch_graph(self, graph: Any) -> None:
        """Queue what `graph` made."""
        call("cuGraphLaunch", graph, self.stream)

    def destroy_graph(self, graph: Any) -> None:
        """Drop a graph. It may still be queued."""
        call("cuGraphExecDestroy", graph)
