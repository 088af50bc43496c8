"""Devices by name: finds the runtime of a device, built in or from another package.

The only module that loads what lies above it (`lazyten.runtimes`), and by name only.
"""
from __future__ import annotations

import importlib
import importlib.util
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Hashable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import chain
from sys import byteorder
from typing import Any, NamedTuple

import numpy as np

from lazyten.ir import dtype as dt
from lazyten.ir.collective import Collective, Joined, Ranks, Refused
from lazyten.ir.dtype import DType, Scalar
from lazyten.ir.kernel import Kernel
from lazyten.support.errors import DeviceError, InternalError
from lazyten.support.forking import undivided
from lazyten.symbolic.formulas import Quantity

BUILT_IN = {"cpu": "lazyten.runtimes.cpu.cpu:CpuRuntime",
            "interpreter": "lazyten.runtimes.interpreter.interpreter:InterpreterRuntime",
            "opencl": "lazyten.runtimes.opencl.opencl:OpenCLRuntime",
            "cuda": "lazyten.runtimes.cuda.cuda:CudaRuntime"}
WITHOUT_VALUES = {"meta": "lazyten.runtimes.meta.meta:MetaRuntime"}
"""Devices where nothing is computed, which nobody would choose to run a program on."""
NEEDS = {"opencl": "pyopencl", "cuda": "cuda"}
"""The package that a built-in runtime needs besides lazyten's own requirements."""
ENTRY_POINT_GROUP = "lazyten.runtimes"
CONTRACT = 2
"""The version of what runtimes implement: another one where a runtime written before would break.
A runtime of another package says by its attribute `contract` which version it was written for."""

Handle = Any  # whatever a runtime's alloc gives


@dataclass(frozen=True, slots=True)
class MemoryStats:
    """Bytes of a device's memory: handed out now, kept for reuse, and the most ever handed out at a
    time (since `reset_peak`)."""

    in_use: int
    pooled: int
    peak: int


class Program(ABC):
    """One compiled kernel, ready to launch."""

    name: str
    source: str
    """The text that was compiled, as DEBUG=2 prints it."""
    in_place: frozenset[tuple[int, int]] = frozenset()
    """Outputs and inputs, by the numbers of their arguments, that may be one memory in a launch."""

    @abstractmethod
    def launch(self, buffers: Sequence[Handle]) -> None:
        """Run on these buffers, outputs first. May return before the work is done."""

    def assembly(self) -> str:
        """Machine code as text, for DEBUG=4; empty if the runtime has none."""
        return ""

    def describe(self) -> str:
        """Views, loop nest and decisions, for DEBUG=3; empty if there are none."""
        return ""

    def decided(self) -> str:
        """What was decided for the loops, as a kernel takes it; empty where it takes nothing."""
        return ""

    @property
    def at_size(self) -> AtSize | None:
        """What tells it from programs of the same kernel at other sizes; None where that is not
        only numbers."""
        return None


SLOT_BYTES = 8
"""Of memory for a number that a program reads, of any type."""


def in_slot(number: Scalar, dtype: DType) -> bytes:
    """A number as it is there."""
    if dtype.is_int:
        return (int(number) & (1 << 8 * dtype.itemsize) - 1).to_bytes(SLOT_BYTES, byteorder)
    return np.asarray(number).astype(dtype.numpy).tobytes().ljust(SLOT_BYTES, b"\0")


class AtSize(NamedTuple):
    """A program that serves many sizes, at one of them. form: what programs of its kernel have in
    common; numbers: in what they may differ; kept: the places of those that are in its code, and
    cannot; slots: of what it reads from memory, which numbers, and their types. scratch: bytes that
    it works in. quantities: what numbers may follow from, besides products of sizes."""

    form: Hashable
    numbers: tuple[Scalar, ...]
    kept: Collection[int]
    slots: Sequence[tuple[int, DType]]
    scratch: tuple[int, ...]
    quantities: Sequence[Quantity]


class Argument(NamedTuple):
    """One argument of a launch: memory by number, from byte `offset` on."""

    number: int
    offset: int = 0


Launch = Sequence[tuple[Program, Sequence[Argument]]]
"""Programs, each with its arguments, that may run in any order or at once."""


class Limit(NamedTuple):
    """What an int64 in memory has to be below, and not negative, for further launches."""

    memory: Argument
    below: int


class AtSizes(NamedTuple):
    """Of a computation whose sizes vary: its sizes, and the region of those that have kernels in
    common with it."""

    sizes: tuple[int, ...]
    region: Hashable


class Kept(ABC):
    """What was worked out for devices like one and may serve later processes, by a key that says
    all it depends on besides the device and lazyten itself."""

    @abstractmethod
    def find(self, key: str) -> bytes | None:
        """What was kept under this key, if it is there and may be trusted."""

    @abstractmethod
    def keep(self, key: str, data: bytes) -> None:
        """Keep this, if the disk lets us."""


class Executor(ABC):
    """What realizing needs of a device; to port, subclass `lazyten.runtimes.contract.Runtime`."""

    contract: int
    """The version of the contract that a runtime of another package was written for."""

    has_offsets = False
    """Whether there is `with_offset`: kernels that differ only in where their inputs start are then
    one."""

    block_bytes = 0
    """How much of a value a kernel may hold at a time, where the kernels that make and read it run
    as one, a block of rows after the other; 0 where kernels cannot do that."""

    has_streams = False
    """Whether there are kernels that it `streams`."""

    alignment = 16
    """Bytes: where there are offsets, kernels differ, too, in which inputs start at no multiple of
    this."""

    has_varying = False
    """Whether there is `varying`: programs that serve many sizes."""

    is_host = False
    """Whether the host itself computes, in memory that `view` shows: what is not worth compiling is
    interpreted then (execution/interpreted.py)."""

    kept: Kept | None = None
    """Where schedules for this device are kept for later processes; None: nowhere."""

    @property
    def items(self) -> int:
        """How many work items keep the device busy that share what they read in groups; 0 where
        there are no groups."""
        return 0

    def streams(self, kernel: Kernel) -> bool:
        """Whether it runs a kernel in one pass whose reductions need each other, and would
        otherwise compute others inside of them again."""
        return False

    @property
    def has_tf32(self) -> bool:
        """Whether kernels can multiply float32 in tf32."""
        return False

    def __init__(self, index: int = 0) -> None:
        self.index = index

    @classmethod
    def find(cls, name: str) -> int | None:
        """The number of the device that a user calls `name`; None where devices have only numbers.

        DeviceError if there is none of this name.
        """
        return None

    @classmethod
    def devices(cls) -> Sequence[str]:
        """What each device is, in the order of their numbers; they need not be started for it.

        DeviceError, with what to install, where none can be used.
        """
        return ["this machine"]

    @classmethod
    def notes(cls) -> Sequence[str]:
        """What people should know of how the runtime is installed, a sentence each."""
        return ()

    @property
    def dtypes(self) -> frozenset[DType]:
        """Element types that kernels may use."""
        return frozenset(dt.ALL)

    def features(self) -> dict[str, str]:
        """What the device can do, for people: a name and a value for each."""
        return {}

    @abstractmethod
    def alloc(self, nbytes: int) -> Handle:
        """Uninitialized memory of `nbytes` bytes (0 is allowed)."""

    @abstractmethod
    def free(self, handle: Handle) -> None:
        """Give memory back; the handle is not used again."""

    def memory_stats(self) -> MemoryStats:
        """How much memory is handed out and kept. DeviceError if the runtime does not count it."""
        raise self._uncounted()

    def reset_peak(self, at_least: int = 0) -> None:
        """Let the peak of `memory_stats` be what is in use now, or `at_least` if that is more."""
        raise self._uncounted()

    def _uncounted(self) -> DeviceError:
        return DeviceError(f"{type(self).__name__} does not count its memory; measure on a device "
                           "that does, such as 'cpu'")

    def empty_cache(self) -> None:
        """Give memory that is kept for reuse back to the system; by default, there is none."""
        return

    @abstractmethod
    def copy_in(self, handle: Handle, source: np.ndarray[Any, Any]) -> None:
        """Copy a contiguous host array to the start of the memory."""

    @abstractmethod
    def copy_out(self, target: np.ndarray[Any, Any], handle: Handle) -> None:
        """Copy the start of the memory to a contiguous host array, once all launches are done."""

    def peek(self, handle: Handle, nbytes: int) -> bytes | None:
        """The first bytes of memory, where the host can read them at once; else None."""
        return None

    def view(self, handle: Handle, nbytes: int) -> np.ndarray[Any, Any] | None:
        """The first bytes of the memory as an array over it, once all launches are done; None where
        it is not the host's. What is on such a device can share memory with NumPy."""
        return None

    @abstractmethod
    def build(self, kernels: Sequence[Kernel]) -> list[Program]:
        """Compile kernels, each to one program."""

    def varying(self) -> Any:
        """What the device keeps of a computation at several sizes, for `build_varying`; None where
        each size has kernels of its own."""
        return None

    def build_varying(self, kernels: Sequence[Kernel], known: Any,
                      sizes: AtSizes) -> list[Program]:
        """The same as `build` at one of several sizes: kernels of one text for many of these.

        known: what `varying` gave, to which this adds."""
        return self.build(kernels)

    def at_numbers(self, program: Program, memory: Handle, offset: int,
                   scratch: Sequence[int]) -> Program:
        """A program that is `at_size` at another one: it reads its numbers from this byte of memory
        on, in slots, and works in so many bytes."""
        raise InternalError(f"{type(self).__name__} has no programs that serve many sizes")

    def look_at(self, kernels: Sequence[Kernel], known: Any, sizes: AtSizes) -> None:
        """Add to `known` what `build_varying` would, and compile nothing yet."""
        return

    @property
    def target_label(self) -> str:
        """What kernels are optimized for, as files of decisions name it; empty if there is nothing
        to decide."""
        return ""

    def candidates(self, kernel: Kernel) -> list[str]:
        """Decisions that may make this kernel faster than those it has, the likeliest first."""
        return []

    def estimates(self, kernel: Kernel) -> list[tuple[str, float]]:
        """Decisions with the cycles of one core that are expected of each: the kernel's own first,
        then others. Empty where nothing is decided, or there is no such estimate."""
        return []

    def generate(self, kernels: Sequence[Kernel]) -> Sequence[Any]:
        """The kernels' texts for this device, made anew, pass by pass; none where kernels stay
        graphs."""
        return ()

    def with_offset(self, handle: Handle, nbytes: int) -> Handle:
        """The same memory from byte `nbytes` on, a multiple of the size of its elements, for the
        arguments of a launch; good as long as `handle` is."""
        raise NotImplementedError

    def resolved(self, buffers: Sequence[Handle] | Mapping[int, Handle],
                arguments: Sequence[Argument]) -> list[Handle]:
        """The arguments of a launch as handles."""
        return [self.with_offset(buffers[n], offset) if offset else buffers[n]
                for n, offset in arguments]

    def sequence(self, launches: Sequence[Launch]) -> Callable[[Sequence[Handle]], object]:
        """One function that makes these launches in order, on these of its buffers.

        A runtime that can make many launches at the cost of one call, or run the programs of one
        launch together, does it better than this.
        """
        def launch_all(buffers: Sequence[Handle]) -> None:
            for program, arguments in chain.from_iterable(launches):
                program.launch(self.resolved(buffers, arguments))
        return launch_all

    def guarded(self, before: Sequence[Launch], limits: Sequence[Limit],
                after: Sequence[Launch]) -> Callable[[Sequence[Handle]], bool]:
        """One function for the launches `before` and, if all numbers are within their limits then,
        those `after`; it says whether they are."""
        first, rest = (self.sequence(part) if part else None for part in (before, after))

        def launch_all(buffers: Sequence[Handle]) -> bool:
            if first is not None:
                first(buffers)
            found = np.empty(1, np.int64)
            for memory, below in limits:
                self.copy_out(found, self.resolved(buffers, [memory])[0])
                if not 0 <= found[0] < below:
                    return False
            if rest is not None:
                rest(buffers)
            return True
        return launch_all

    def takes(self, what: Collective, dtype: DType) -> bool:
        """Whether the device carries out collectives like this by itself, of elements of this type,
        once it is joined to others. By default, all go by way of the host's memory."""
        return False

    def join(self, ranks: Ranks, place: str) -> Joined | Refused:
        """Join the device to those of other ranks, who all call this at once; all get the same,
        whether they are joined or not. place: what it is for, in errors' words."""
        raise NotImplementedError

    @abstractmethod
    def synchronize(self) -> None:
        """Return when every launch is done."""

    def seconds(self, launch: Callable[[], None]) -> float:
        """How long what `launch` launches takes."""
        self.synchronize()
        start = time.perf_counter()
        launch()
        self.synchronize()
        return time.perf_counter() - start


@undivided
def _entry_points() -> Sequence[Any]:
    """The runtimes of other packages. importlib.metadata is slow to load, and few programs ask."""
    metadata = importlib.import_module("importlib.metadata")
    return tuple(metadata.entry_points(group=ENTRY_POINT_GROUP))


@cache
def available() -> tuple[str, ...]:
    """Names of all runtimes that are installed, built-in ones first."""
    outside = sorted(e.name.lower() for e in _entry_points())
    inside = [n for n in BUILT_IN if missing(n) is None]
    return (*inside, *(n for n in outside if n not in BUILT_IN))


def executor(name: str) -> Executor:
    """The runtime of a canonical device name, started on first use."""
    found = _running.get(name)
    return _started(str(name)) if found is None else found


def widest_float(name: str) -> DType:
    """float64, or float32 for a device that has no float64."""
    return dt.float64 if dt.float64 in executor(name).dtypes else dt.float32


_running: dict[str, Executor] = {}
"""The runtimes that were started, by the names of their devices."""


@undivided
def _started(name: str) -> Executor:
    if name in _running:  # another thread has started it meanwhile
        return _running[name]
    kind, _, index = name.partition(":")
    try:
        started = runtime_class(kind)(int(index or 0))
    except DeviceError:
        raise
    except Exception as error:
        others = ", ".join(n for n in available() if n != kind)
        raise DeviceError(f"device {name!r} cannot be used here: {error}. "
                          f"Others that are installed: {others}") from error
    _running[name] = started
    return started


def runtime_class(kind: str) -> type[Executor]:
    """The class that runs this kind of device. DeviceError for one that cannot be loaded."""
    where = BUILT_IN.get(kind) or WITHOUT_VALUES.get(kind)
    if where is None:
        return _runtime_outside(kind)
    module, _, attribute = where.partition(":")
    found: type[Executor] = getattr(importlib.import_module(module), attribute)
    return found


def _runtime_outside(kind: str) -> type[Executor]:
    """The runtime of another package, if it was written for this version of the contract."""
    entry = next(e for e in _entry_points() if e.name.lower() == kind)
    whose = f"device {kind!r} is of the package {_package(entry)}"
    try:
        found: type[Executor] = entry.load()
    except Exception as error:
        raise DeviceError(f"{whose}, whose runtime {entry.value} cannot be loaded: "
                          f"{type(error).__name__}: {error}. Repair or remove the "
                          f"package") from error
    version = getattr(found, "contract", None)
    if version is None:
        raise DeviceError(f"{whose}, whose runtime {entry.value} does not say for which version of "
                          f"the contract it was written: its class needs `contract = {CONTRACT}`")
    if version != CONTRACT:
        raise DeviceError(f"{whose}, which was written for version {version} of the contract, and "
                          f"this lazyten has version {CONTRACT}: install a version "
                          f"of it for {CONTRACT}, or the lazyten that this one was written for")
    return found


def missing(kind: str) -> str | None:
    """The command that installs what a built-in runtime needs; None if that is there."""
    if kind not in NEEDS or importlib.util.find_spec(NEEDS[kind]):
        return None
    return f"pip install 'lazyten[{kind}]'"


def outside(kind: str) -> str:
    """The package that a runtime comes from, with its version; empty for those built in."""
    if kind in BUILT_IN:
        return ""
    return next((_package(e) for e in _entry_points() if e.name.lower() == kind), "")


def _package(entry: Any) -> str:
    """The name and version of an entry point's package."""
    return f"{entry.dist.name} {entry.dist.version}" if entry.dist is not None else "unknown"
